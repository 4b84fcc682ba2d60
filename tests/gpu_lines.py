"""Which lines and branches run on a GPU only, and which of them a piece of work reaches: `python tests/gpu_lines.py`
lists the others.

A line is a GPU's if it calls torch.cuda, or if it lies in a branch that is taken there only. A branch is one outcome of
an `if`, of a conditional expression or of a `while`: the outcome that only a GPU has, or, on lines that only a GPU
reaches, either of the two.
"""

import ast
import dis
import re
import sys
from collections import defaultdict
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = (
    *(
        path
        for folder in (
            "course_runs",
            *(
                f"course_lib/{name}"
                for name in ("estimate/roofline", "model/ledger", "cluster", "model/checkpoint", "parallel/tensor")
            ),
        )
        for path in sorted((ROOT / folder).glob("*.py"))
    ),
    ROOT / "course_chapters/ch03/measured_roofline.py",
    ROOT / "course_lib/model/accounting.py",
    ROOT / "course_lib/model/transformer.py",
)
EVER = defaultdict(set)  # lines and branches that ran while anything was traced, by file
_HERE = re.compile(r"== ['\"](cuda|nccl)['\"]|\bgpu\b(?!\(| ==)|is_cuda|cuda\.is_\w+\(|_is_kernel")
_ELSE = re.compile(r"not (self\.)?gpu\b|!= ['\"](cuda|nccl)['\"]|== ['\"]cpu['\"]|not torch\.cuda\.is_available")


def lines_of(path):
    """The numbers of a file's lines that run on a GPU only: of each statement the first."""
    return _found(path)[0]


def branches_of(path):
    """A file's branches that are taken on a GPU only: (line of the condition, its column, its outcome)."""
    return {(test.lineno, test.col_offset, outcome) for test, _, outcome in _found(path)[1]}


@cache
def _found(path):
    lines, branches = set(), []
    _block(ast.parse(path.read_text(encoding="utf-8")).body, False, lines, branches)
    return lines, branches


def _block(body, inside, lines, branches):
    for statement in body:
        own = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt | ast.ExceptHandler)]
        forks = [node for part in own for node in ast.walk(part) if isinstance(node, ast.IfExp)]
        fork = isinstance(statement, ast.If | ast.While)
        for node in [*forks, *([statement] if fork else [])]:
            here, away = _sides(node.test)
            then = node.body if isinstance(node, ast.IfExp) else node.body[0]
            branches += [(node.test, then, True)] * (inside or here) + [(node.test, then, False)] * (inside or away)
        if fork:
            here, away = _sides(statement.test)
            _block(statement.body, inside or here, lines, branches)
            _block(statement.orelse, inside or away, lines, branches)
            if away and isinstance(statement.body[-1], ast.Return | ast.Raise):
                inside = True  # what follows is reached on a GPU only
            continue
        blocks = [
            getattr(statement, name) for name in ("body", "orelse", "finalbody") if getattr(statement, name, None)
        ]
        for handler in getattr(statement, "handlers", ()):
            blocks.append(handler.body)
        for each in blocks:
            _block(each, inside and not isinstance(statement, ast.FunctionDef), lines, branches)
        text = " ".join(ast.unparse(node) for node in own)
        calls = re.search(r"torch\.cuda\.\w+", text) and not isinstance(statement, ast.FunctionDef | ast.ClassDef)
        calls = calls or any(any(_sides(node.test)) for node in forks)
        if (calls or inside) and not isinstance(statement, ast.FunctionDef) and not _is_text(statement):
            lines.add(statement.lineno)


def _sides(test):
    """Whether a condition holds on a GPU only, and whether it fails there only."""
    text = ast.unparse(test)
    away = bool(_ELSE.search(text)) and not isinstance(test, ast.BoolOp)
    return bool(_HERE.search(text)) and not away, away


def _is_text(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _within(position, node):
    """Whether an instruction's position lies in an expression or statement."""
    line, end, column, _ = position
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return None not in position and first <= (line, column) < last and end <= node.end_lineno


@cache
def _forks(code):
    """Of each instruction of a function, the branch conditions of a GPU that it lies in, and those whose first outcome
    it is in.

    None for a jump: it belongs to the whole statement, and decides nothing by itself.
    """
    found = _found(Path(code.co_filename))[1]
    nodes = {(test.lineno, test.col_offset): (test, then) for test, then, _ in found}
    table = [
        None
        if "JUMP" in dis.opname[code.co_code[2 * place]]
        else (
            {key for key, (test, _) in nodes.items() if _within(position, test)},
            {key for key, (_, then) in nodes.items() if _within(position, then)},
        )
        for place, position in enumerate(code.co_positions())
    ]
    return table if any(each and each[0] for each in table) else None


@contextmanager
def traced(files=FILES):
    """Within: the lines and branches of these files that run, by file."""
    wanted, seen, last = {str(path) for path in files}, defaultdict(set), {}

    def note(name, what):
        seen[name].add(what)
        EVER[name].add(what)

    def step(frame, event, arg):
        name = frame.f_code.co_filename
        if event == "line":
            note(name, frame.f_lineno)
        elif event == "opcode" and (here := _forks(frame.f_code)[frame.f_lasti // 2]):
            asked, then = here
            for key in last.get(frame, ()):
                if key not in asked:  # the condition is decided
                    note(name, (*key, key in then))
            last[frame] = asked
        elif event == "exception":
            last.pop(frame, None)
        elif event == "return":
            for key in last.pop(frame, ()):  # nothing follows the condition
                note(name, (*key, False))
        return step

    def call(frame, event, arg):
        if frame.f_code.co_filename not in wanted:
            return None
        frame.f_trace_opcodes = _forks(frame.f_code) is not None
        return step

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield seen
    finally:
        sys.settrace(before)


def covered(seen, files=FILES, of=lines_of):
    """Lines (or with `of=branches_of` branches) of a GPU that ran, all of them, and "file:line: text" of those that did
    not."""
    done = total = 0
    missing = []
    for path in files:
        text = path.read_text(encoding="utf-8").splitlines()
        for each in sorted(of(path)):
            total += 1
            if each in seen[str(path)]:
                done += 1
            else:
                number, outcome = (each, "") if isinstance(each, int) else (each[0], f" {each[2]}")
                missing.append(f"{path.relative_to(ROOT)}:{number}{outcome}: {text[number - 1].strip()}")
    return done, total, missing


if __name__ == "__main__":
    import gpu_lines  # the module that the tests load
    import pytest

    with traced(), gpu_lines.traced():
        pytest.main(["-q", "-n", "0", *(sys.argv[1:] or ["tests/test_runs_gpu.py"])])
    for what, of in (("lines", lines_of), ("branches", branches_of)):
        reached, total, without = covered(gpu_lines.EVER, of=of)
        print(f"{reached} of {total} {what} that only a GPU reaches ({reached / total:.0%}); not reached:")
        print(*without, sep="\n  ")
