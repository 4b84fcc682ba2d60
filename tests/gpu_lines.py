"""Which lines run on a GPU only, and which of them a piece of work reaches: `python tests/gpu_lines.py` lists what no test does.

A line is a GPU's if it calls torch.cuda, or if it lies in a branch that is taken there only.
"""

import ast
import re
import sys
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = (
    *sorted((ROOT / "course_lib/runs").glob("*.py")),
    ROOT / "course_lib/benchmarks/roofline.py",
    ROOT / "course_lib/accounting.py",
    ROOT / "course_lib/ledger/recording.py",
    ROOT / "course_lib/cluster/launched_rank.py",
    ROOT / "course_lib/transformer.py",
)
EVER = defaultdict(set)  # every line that ran while anything was traced, by file
_HERE = re.compile(r"== ['\"](cuda|nccl)['\"]|\bgpu\b(?! ==)|is_cuda|cuda\.is_available|_is_kernel")
_ELSE = re.compile(r"not (self\.)?gpu\b|!= ['\"](cuda|nccl)['\"]|== ['\"]cpu['\"]|not torch\.cuda\.is_available")


def lines_of(path):
    """The numbers of a file's lines that run on a GPU only: of each statement the first."""
    found = set()
    _block(ast.parse(path.read_text(encoding="utf-8")).body, False, found)
    return found


def _block(body, inside, found):
    for statement in body:
        if isinstance(statement, ast.If):
            test = ast.unparse(statement.test)
            away = bool(_ELSE.search(test)) and not isinstance(statement.test, ast.BoolOp)
            here = bool(_HERE.search(test))
            _block(statement.body, inside or (here and not away), found)
            _block(statement.orelse, inside or away, found)
            if away and isinstance(statement.body[-1], ast.Return | ast.Raise):
                inside = True  # what follows is reached on a GPU only
            continue
        blocks = [
            getattr(statement, name) for name in ("body", "orelse", "finalbody") if getattr(statement, name, None)
        ]
        for handler in getattr(statement, "handlers", ()):
            blocks.append(handler.body)
        for each in blocks:
            _block(each, inside and not isinstance(statement, ast.FunctionDef), found)
        own = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt | ast.ExceptHandler)]
        text = " ".join(ast.unparse(node) for node in own)
        calls = re.search(r"torch\.cuda\.\w+", text) and not isinstance(statement, ast.FunctionDef | ast.ClassDef)
        asked = (node.test for part in own for node in ast.walk(part) if isinstance(node, ast.IfExp))
        calls = calls or any(_HERE.search(ast.unparse(test)) for test in asked)
        if (calls or inside) and not isinstance(statement, ast.FunctionDef) and not _is_text(statement):
            found.add(statement.lineno)


def _is_text(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@contextmanager
def traced(files=FILES):
    """Within: the lines of these files that run, by file."""
    wanted, seen = {str(path) for path in files}, defaultdict(set)

    def line(frame, event, arg):
        if event == "line":
            seen[frame.f_code.co_filename].add(frame.f_lineno)
            EVER[frame.f_code.co_filename].add(frame.f_lineno)
        return line

    def call(frame, event, arg):
        return line if frame.f_code.co_filename in wanted else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield seen
    finally:
        sys.settrace(before)


def covered(seen, files=FILES):
    """Lines of a GPU that ran, all of them, and "file:line: text" of those that did not."""
    done = total = 0
    missing = []
    for path in files:
        text = path.read_text(encoding="utf-8").splitlines()
        for number in sorted(lines_of(path)):
            total += 1
            if number in seen[str(path)]:
                done += 1
            else:
                missing.append(f"{path.relative_to(ROOT)}:{number}: {text[number - 1].strip()}")
    return done, total, missing


if __name__ == "__main__":
    import gpu_lines  # the module that the tests load
    import pytest

    with traced(), gpu_lines.traced():
        pytest.main(["-q", "-n", "0", *(sys.argv[1:] or ["tests/test_runs_gpu.py"])])
    reached, of, without = covered(gpu_lines.EVER)
    print(f"{reached} of {of} lines that only a GPU reaches ({reached / of:.0%}); not reached:", *without, sep="\n  ")
