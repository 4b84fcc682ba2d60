"""Banks: the shipped answers to one exercise, each whole or as a change of another. They stand in its judge's file, as
`ANSWERS`.

A section is headed `# %% right: NAME`, `# %% wrong: NAME => KIND MISTAKE` or `# %% half: NAME => POINTS`. The lines
before the first section belong to every answer, and so does `IMPORTS` of the package of a chapter's judges: what the
chapter's first cell imports. KIND is a verdict kind or a state. MISTAKE is the name that the judge
gives the mistake, or `-` if it gives none; it is `~` where the answer races with its own messages, so that the result
depends on when they arrive. `unless NAME=VALUE` marks a wrong answer that is right where this parameter has this value.

A heading that ends in `from: OTHER NAME` makes the section a change of that one. Its body takes one of two forms:

    # %% wrong: the sum is not divided => values sum  from: one message at a time
    #   for work in works:
    # -     work.wait()
    # +     pass

is a hunk: lines that stay, then lines that go, then lines that come (blank lines do not count). The lines that stay or
go must occur at exactly one place. A hunk ends where its kinds of lines begin again, so a section may hold several.
Where a change is within a line,

    # %% wrong: rounds down => values rounded-down  from: closed form
    # ~ math.ceil(x) ==> math.floor(x)

says it in one: the text on the left, which must occur exactly once, becomes that on the right. Nothing on the right
removes it. A line `# ~~ ...` goes on with a heading or change that is too long for one line.

    # %% wrong: no rank sends => values not-sent  from: one message at a time
    def send(comm, x):
        return x

is Python: each statement replaces the one that defines the same name, and a new name stays in front of the statement
that follows it. Lines `# > ...` below a heading are the sentence that a learner who makes the mistake is told.
`judging.naming` says it where an answer does what this one does; of several answers with one mistake the first gives
the sentence. With a sentence and without a MISTAKE, the mistake is called as the answer, with hyphens. Changes without
`from:` are those of the first right answer, the worked one.

Only a half-right answer may have no body: it is the other answer, judged by its points.

`from: the card` starts from the program in the card's statement, which a learner is to repair; without a body the
answer is that program.

The bank of a prediction also has the answers that commit to nothing, which are the same for all of them, except where
it ships one with the same mistake itself.
"""

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_HEADER = re.compile(
    r"^# %% (right|wrong|half): "
    r"(.+?)(?:\s*=>\s*(\S+)(?:\s+(\S+))??(?:\s+unless\s+(\S+=.+?))?)?(?:\s+from:\s+(.+?))?\s*$"
)
_CHANGE = re.compile(r"^# ([ +~-])(?: (.*))?$")
_CARD = "the card"
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
_BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"
_UNCOMMITTED = {"not-a-pair": "50", "too-wide": "1, 100", "reversed": "80, 20", "not-positive": "0, 1"}  # returned
_DEEPEST = 2  # a reader follows a change to its base, and from there once more


@dataclass(frozen=True, slots=True, kw_only=True)
class BankAnswer:
    """One shipped answer: its source, and the result that it must get."""

    exercise: str
    name: str
    sort: Literal["right", "wrong", "half"]
    source: str
    expected: str = ""  # verdict kind or state for a wrong answer, points for a half-right one
    mistake: str = "-"
    unless: str = ""  # "name=value" of the parameter that makes a wrong answer the right one
    says: str = ""  # what a learner who makes this mistake is told

    @property
    def reads_params(self) -> bool:
        """Whether it asks for the numbers of its variant, and so is an answer to every one of them."""
        return "params(" in self.source


@dataclass(slots=True)
class _Section:
    """A section as written: the line number of its heading, the parts of that, and the lines below."""

    number: int
    sort: Literal["right", "wrong", "half"]
    name: str
    expected: str
    mistake: str
    unless: str
    base: str
    lines: list[str]
    says: list[str]


def read_answers(path: Path, exercise: str) -> list[BankAnswer]:
    """The answers in a judge's file, which is read but not run; ValueError as of `read_bank`, or where there is no
    `ANSWERS`."""
    found, package = _text_in(path, "ANSWERS"), path.with_name("__init__.py")
    if found is None:
        raise ValueError(f"{path.name} has no bank of answers; end it with a text ANSWERS = r'''…'''.")
    imports = _text_in(package, "IMPORTS") if package.is_file() else None
    bank = read_bank(found[0], exercise, path.name, above=found[1] - 1, imports=imports[0] if imports else "")
    return bank + _uncommitted(exercise, {answer.mistake for answer in bank})


def _uncommitted(exercise: str, known: Collection[str]) -> list[BankAnswer]:
    """To a prediction, an answer for each mistake that is not known yet and makes it no commitment."""
    from course_grader import exercises

    try:
        card = exercises.card(exercise)
    except ValueError:  # the judge is written before its card
        return []
    if card.form != "prediction":
        return []
    return [
        BankAnswer(
            exercise=exercise,
            name=mistake.replace("-", " "),
            sort="wrong",
            source=f"def {card.answers[0]}():\n    return {interval}",
            expected="values",
            mistake=mistake,
        )
        for mistake, interval in _UNCOMMITTED.items()
        if mistake not in known
    ]


def _text_in(path: Path, name: str) -> tuple[str, int] | None:
    """The text that a file assigns to a name, and its first line."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str(text), lineno=first)):
                if target == name:
                    return text, first
    return None


def read_bank(text: str, exercise: str, file: str, above: int = 0, imports: str = "") -> list[BankAnswer]:
    """The answers of one bank; ValueError gives file and line of a heading or a change that is malformed.

    `above` counts the lines of the file that are above the text; `imports` come before every answer.
    """
    prelude = imports.splitlines()
    sections: list[_Section] = []
    for number, line in _whole_lines(text, above):
        if line.startswith("# > ") and sections:
            sections[-1].says.append(line.removeprefix("# > ").strip())
            continue
        if not line.startswith("# %%"):
            (sections[-1].lines if sections else prelude).append(line)
            continue
        match = _HEADER.match(line)
        if match is None or (match.group(1) == "right") != (match.group(3) is None):
            raise ValueError(
                f"{file}:{number}: {line!r} is not 'right: NAME', 'wrong: NAME => KIND MISTAKE' or 'half: "
                f"NAME => POINTS'."
            )
        sort, name, expected, mistake, unless, base = match.groups()
        sections.append(
            _Section(number, sort, name, expected or "-", mistake or "-", unless or "", base or "", [], [])  # type: ignore[arg-type]
        )
    by_name: dict[str, list[_Section]] = {}
    for section in sections:
        by_name.setdefault(section.name, []).append(section)
    if any(section.base == _CARD for section in sections):
        by_name[_CARD] = [_Section(0, "wrong", _CARD, "-", "-", "", "", _program(exercise), [])]
    for section in sections:  # what a heading may leave out
        edits = any(_CHANGE.match(line) for line in section.lines)
        if edits and not section.base and sections[0].sort == "right" and section is not sections[0]:
            section.base = sections[0].name
        if section.says and section.mistake == "-":
            section.mistake = section.name.replace(" ", "-")
    return [
        BankAnswer(
            exercise=exercise,
            sort=section.sort,
            name=section.name,
            expected=section.expected,
            mistake=section.mistake,
            unless=section.unless,
            says=" ".join(section.says),
            source="\n".join([*prelude, *_expanded(file, section, by_name)]),
        )
        for section in sections
    ]


def _whole_lines(text: str, above: int) -> list[tuple[int, str]]:
    """Each line with its number; what stands behind `# ~~` is added to the line above it, after a space, and leaves a
    blank one."""
    lines = list[tuple[int, str]]()
    begun = 0
    for number, line in enumerate(text.splitlines(), above + 1):
        if lines and line.startswith("# ~~ "):
            first, so_far = lines[begun]
            lines[begun] = first, f"{so_far} {line.removeprefix('# ~~ ')}"
            line = ""
        else:
            begun = len(lines)
        lines.append((number, line))
    return lines


WORKED = "worked"  # the first right answer where it is the notebook's answer cell


def worked_cell(text: str) -> str | None:
    """The answer cell that a bank begins with, without the lines before it; None where its first section is another
    one.

    nbgrader's marks of a solution are put around what each function has behind its docstring, unless the answer marks
    its solution itself.
    """
    _, heading, rest = text.partition(f"# %% right: {WORKED}\n")
    cell = rest.partition("\n# %% ")[0].strip()
    return (cell if _BEGIN in cell else _marked(cell)) if heading else None


def _marked(cell: str) -> str:
    lines = cell.splitlines()
    for node in reversed(ast.parse(cell).body):
        match node:
            case ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as told, _, *_], end_lineno=int(end)):
                margin = " " * told.col_offset
                first = next(at for at in range(told.end_lineno or 0, end) if lines[at].strip())
                lines[first:end] = [margin + _BEGIN, *lines[first:end], margin + _END]
    return "\n".join(lines)


def _program(exercise: str) -> list[str]:
    """The lines of the program in the statement of an exercise."""
    from course_grader import exercises

    found = _PROGRAM.search(exercises.card(exercise).text)
    if found is None:
        raise ValueError(f"{exercise}: its statement has no program that an answer could be from.")
    return found[1].splitlines()


def _expanded(file: str, section: _Section, by_name: Mapping[str, list[_Section]]) -> list[str]:
    """The whole lines of a section, the changes up to it applied to its base; ValueError as of `read_bank`."""
    chain = [section]
    while chain[-1].base:
        where, named = f"{file}:{chain[-1].number}", chain[-1].base
        bases = [base for base in by_name.get(named, []) if base is not chain[-1]]
        if len(bases) != 1:
            raise ValueError(f"{where}: from: {named!r} names {len(bases) or 'no'} sections of this file.")
        if bases[0] in chain:
            raise ValueError(f"{where}: from: {named!r} makes a circle of changes.")
        chain.append(bases[0])
    deep = sum(
        bool("".join(each.lines).strip()) for each in chain[:-1]
    )  # a half-right answer may be another one unchanged
    if deep > _DEEPEST:
        raise ValueError(f"{file}:{section.number}: {section.name!r} is {deep} changes deep; at most {_DEEPEST}.")
    if not "".join(section.lines).strip() and section.base not in ("", _CARD) and section.sort != "half":
        raise ValueError(f"{file}:{section.number}: {section.name!r} changes nothing of {section.base!r}.")
    lines = chain.pop().lines
    for change in reversed(chain):
        hunks = all(not line or _CHANGE.match(line) for line in change.lines)
        lines = _with_hunks(file, change, lines) if hunks else _with_definitions(file, change, lines)
    return lines


def _with_hunks(file: str, section: _Section, base: list[str]) -> list[str]:
    """The lines of `base` after the hunks of a section."""
    hunks: list[tuple[int, dict[str, list[str]]]] = []
    filled = [place for place, line in enumerate(base) if line.strip()]
    code = [base[place] for place in filled]
    previous = "+"
    for number, line in enumerate(section.lines, section.number + 1):
        if match := _CHANGE.match(line):
            mark, text = match.group(1), match.group(2) or ""
            if mark == "~":
                old, new = _within_a_line(f"{file}:{number}", text, base, section.base)
                hunks.append((number, {" ": [], "-": [old], "+": [new]}))
                previous = "+"
                continue
            if not hunks or " -+".index(mark) < " -+".index(previous):
                hunks.append((number, {" ": [], "-": [], "+": []}))
            hunks[-1][1][mark].append(text)
            previous = mark
    result, done = list[str](), 0
    for number, hunk in hunks:
        lines = hunk[" "] + hunk["-"]
        found = [at for at in range(len(code)) if lines and code[at : at + len(lines)] == lines]
        if len(found) != 1:
            unknown = next((line for line in lines if line not in code), None)
            why = "" if unknown is None else f" No line there is {unknown!r}."
            raise ValueError(
                f"{file}:{number}: this hunk matches {len(found) or 'no'} places of {section.base!r}, not one.{why}"
            )
        start = filled[found[0] + len(hunk[" "])] if hunk["-"] else filled[found[0] + len(lines) - 1] + 1
        if start < done:
            raise ValueError(f"{file}:{number}: this hunk comes before the one above it in {section.base!r}.")
        result += base[done:start] + hunk["+"]
        done = filled[found[0] + len(lines) - 1] + 1
    return result + base[done:]


def _within_a_line(where: str, text: str, base: list[str], name: str) -> tuple[str, str]:
    """The line of `base` that a change within a line names, and that line after it."""
    old, arrow, new = text.partition(" ==>")
    new = new.removeprefix(" ")
    found = [line for line in base for _ in range(line.count(old))] if old and arrow else []
    if len(found) != 1:
        raise ValueError(f"{where}: {text!r} matches {len(found) or 'no'} places of {name!r}, not one.")
    return found[0], found[0].replace(old, new)


def _with_definitions(file: str, section: _Section, base: list[str]) -> list[str]:
    """The lines of `base` in which each statement of a section replaces the one that defines the same name."""
    where = f"{file}:{section.number}"
    try:
        places, statements = _definitions(base), _definitions(section.lines)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{where}: {error}{_malformed(section)}") from error
    changes, new = list[tuple[int, int, list[str]]](), list[str]()
    for name, (start, end) in statements.items():
        new = [*new, *section.lines[start:end], ""]
        if name in places:
            changes.append((*places[name], new))
            new = []
    if not changes:
        raise ValueError(
            f"{where}: {section.name!r} defines no name that {section.base!r} defines.{_malformed(section)}"
        )
    result = list(base)
    for start, end, lines in sorted(changes, reverse=True):
        result[start:end] = lines
    return result + new


def _malformed(section: _Section) -> str:
    """What to correct in a section that was probably meant as hunks, or ""."""
    if not any(line.startswith(("# -", "# +", "# ~")) for line in section.lines):
        return ""
    odd = next(line for line in section.lines if line and not _CHANGE.match(line))
    return (
        f" If it is a hunk, every line needs '# ', then a space, '-', '+' or '~', then a space and the code; this "
        f"one differs: {odd!r}."
    )


def _definitions(lines: list[str]) -> dict[str, tuple[int, int]]:
    """For each statement the name that it defines, or its own text, and its lines with the comments above it, as a
    range."""
    found: dict[str, tuple[int, int]] = {}
    end = 0
    for node in ast.parse("\n".join(lines)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case _:
                name = ast.unparse(node)
        if name in found:
            raise ValueError(f"{name!r} is defined twice.")
        found[name] = (end, node.end_lineno or end)
        end = found[name][1]
    return found
