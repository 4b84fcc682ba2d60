"""Signs that an instructor should look at, one line each. They cost no points: a sign is not a proof."""

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import combinations

from course_grader.blank_notebook import blank, stubbed
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.exercises import Card
from course_grader.judge.decision import LOST
from course_grader.notebooks import Cell, Notebook, grade_meta, is_answer, is_check
from course_grader.openings import written_out
from course_grader.records import Report
from course_grader.service.results import Anomaly, Fingerprint, Result
from course_grader.submission import READ, Submission, places
from course_lib.folders import PACKAGES

SHORT = 60  # nodes of a syntax tree; shorter answers can agree by chance
SHOWN = 3  # different sentences of one kind in a line
ALIKE = 2  # answers that two students must share for a line
_SMALL = 20_000  # characters of a cell that is worth remembering
_MEANT = ("grade", "solution", "locked", "task", "points")
_REACHES = {
    "_getframe",
    "currentframe",
    "f_back",
    "f_locals",
    "settrace",
    "setprofile",
    "set_trace",
    "meta_path",
    "gc",
    "ctypes",
    "inspect",
    "__subclasses__",
    "__builtins__",
    "judging",
    "judges",
    "ptrace",
}


def anomalies_of(
    source: Notebook, learner: Notebook, cards: Sequence[Card], submission: Submission, reports: Sequence[Report]
) -> list[Anomaly]:
    """The signs in one submission, one line of each kind: cells that were copied, retyped, damaged, changed or have
    edited metadata, access to names that answers do not need, lost workers. What the released stub already shows is
    none.
    """
    found = [_anomaly(sign.kind, sign.exercise, sign.text) for sign in submission.signs]
    found += [*_changed_cells(source, learner, cards), *_reaching(submission, cards, _stubs(source))]
    found += [_anomaly(report.state, report.exercise, report.note) for report in reports if report.state in LOST]
    return one_of_each_kind(found)


def one_of_each_kind(found: Sequence[Anomaly]) -> list[Anomaly]:
    """One line of each kind: the exercises together, and the first few of the different sentences."""
    kinds: dict[str, list[Anomaly]] = defaultdict(list)
    for each in found:
        kinds[each["kind"]].append(each)
    lines = []
    for kind, alike_ in kinds.items():
        texts = list(dict.fromkeys(each["text"] for each in alike_ if each["text"]))
        more = f" There are {len(texts) - SHOWN} more such lines." if len(texts) > SHOWN else ""
        names = ", ".join(dict.fromkeys(each["exercise"] for each in alike_ if each["exercise"]))
        lines.append(_anomaly(kind, names, " ".join(texts[:SHOWN]) + more))
    return lines


def _anomaly(kind: str, exercise: str, text: str) -> Anomaly:
    return {"kind": kind, "exercise": exercise, "text": text}


def _changed_cells(source: Notebook, learner: Notebook, cards: Sequence[Card]) -> Iterator[Anomaly]:
    at, given = places(source, learner, cards), {card.id: card.points for card in cards}
    for key, released in _keyed(blank(source)):
        mine = learner["cells"][at[key]] if key in at else None
        meta = grade_meta(released)
        if not meta:
            continue
        name = meta["grade_id"]
        if mine is None:
            if is_check(released):
                yield _anomaly("test cell missing", name, f"The test cell {name!r} is gone; ours was used.")
            continue
        if is_check(released) and mine["source"].strip() != released["source"].strip():
            yield _anomaly("test cell changed", name, f"The test cell {name!r} was edited; ours was used.")
        changed = [
            field
            for field in _MEANT
            if grade_meta(mine).get(field, False) != meta.get(field, False)
            and (field != "points" or is_check(released))
        ]
        if "points" in changed and grade_meta(mine).get("points") == given.get(name.removesuffix(CHECK_SUFFIX)):
            changed.remove("points")  # the class released it with points of its own
        if grade_meta(mine) and changed:
            yield _anomaly(
                "metadata edited",
                name,
                f"The metadata of cell {name!r} was edited ({', '.join(changed)}); ours was used.",
            )


def _keyed(source: Notebook) -> Iterator[tuple[str, Cell]]:
    for cell in source["cells"]:
        yield (f"grade:{grade_meta(cell)['grade_id']}" if grade_meta(cell) else f"id:{cell.get('id', '')}"), cell


def _stubs(source: Notebook) -> dict[str, str]:
    """Exercise -> its answer cell as released."""
    return {grade_meta(cell)["grade_id"]: stubbed(cell["source"]) for cell in source["cells"] if is_answer(cell)}


def _reaching(submission: Submission, cards: Sequence[Card], stubs: Mapping[str, str]) -> Iterator[Anomaly]:
    hides = {card.id: {name.partition(":")[2] for name in card.hides} for card in cards}
    own: set[str] = set()
    library: set[str] = set()
    long = sum(len(step.source) for step in submission.steps if step.do == "run") > READ
    if long:
        yield _anomaly(
            "long cells",
            "",
            f"The cells hold more than {READ:,} characters; what of the library they use was not looked at.",
        )
    for step in submission.steps:
        if step.do == "run" and not long:
            names = _names_of_ours if step.whose == "course" and len(step.source) < _SMALL else names_in
            for known, more in zip((own, library), names(step.source), strict=True):
                known |= more
    for step in submission.steps:
        if step.do != "run" or step.whose == "course":
            continue
        words = set(re.findall(r"[^\W\d]\w*", step.source))
        where = f" ({step.where})" if step.where else ""
        given = stubs.get(step.exercise, "")
        hidden = words & hides.get(step.exercise, set()) if not long else set()
        used = hidden & names_used(step.source, own, library) if hidden else set()
        if named := sorted(used - (names_used(given, own, library) if used else set())):
            yield _anomaly(
                "forbidden name", step.exercise, f"The answer names {', '.join(named)}, which it is to do without."
            )
        if reached := sorted((words & _REACHES) - set(re.findall(r"[^\W\d]\w*", given))):
            whose = "An answer cell" if step.exercise else "A cell of their own"
            yield _anomaly("reaching name", step.exercise, f"{whose}{where} names {', '.join(reached)}.")


# ------------------------------------------------------------------------------------------------ whose name it is


def names_used(source: str, own: Collection[str], library: Collection[str]) -> set[str]:
    """The library names that a cell uses: imported, looked up in a module, written in quotes, or defined nowhere else.

    `own` are the names that the notebook defines, `library` those of modules of the course. A learner's function may
    share a name with the library's.
    """
    found: set[str] = set()
    inner: dict[int, str] = {}  # the name that a chain of attributes begins with, for each of its links
    for node in _nodes(source):
        match node:
            case ast.ImportFrom(module=module, names=names) if (module or "").split(".")[0] in PACKAGES:
                found |= {each.name for each in names}
            case ast.Attribute(attr=name) if _root(node, inner) in library:
                found.add(name)
            case ast.Name(id=name, ctx=ast.Load()) if name not in own:
                found.add(name)
            case ast.Constant(value=str(name)):
                found.add(name)
    return found


def names_in(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a cell defines (functions, classes, parameters, assignments), and its names for modules or
    functions of the course.
    """
    own: set[str] = set()
    library: set[str] = set()
    for node in _nodes(source):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
            ):
                own.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.Import(names=names):
                library |= {
                    (each.asname or each.name).split(".")[0] for each in names if each.name.split(".")[0] in PACKAGES
                }
            case ast.ImportFrom(module=module, names=names) if (module or "").split(".")[0] in PACKAGES:
                library |= {each.asname or each.name for each in names}
    return frozenset(own), frozenset(library)


_names_of_ours = lru_cache(maxsize=512)(
    names_in
)  # the same cells for all students, but for those that somebody changed


def _root(node: ast.AST, known: dict[int, str]) -> str:
    """The name at the start of a chain of attributes, "" if there is none; each chain is visited once, from its end."""
    if id(node) not in known:
        links = []
        while isinstance(node, ast.Attribute):
            links.append(id(node))
            node = node.value
        known.update(dict.fromkeys(links, node.id if isinstance(node, ast.Name) else ""))
        return known[links[0]]
    return known[id(node)]


def _nodes(source: str) -> Iterator[ast.AST]:
    """The syntax tree of a cell without IPython's own lines; nothing for a cell that is not Python and cannot run."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in written_out(source).splitlines()]
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        yield from ast.walk(ast.parse("\n".join(lines)))


# ------------------------------------------------------------------------------------------------ answers alike


def answers_of(submission: Submission) -> dict[str, Fingerprint]:
    """Exercise -> fingerprint of its answer: a hash of its structure (without names, comments and layout) and its
    size."""
    sources: dict[str, list[str]] = defaultdict(list)
    for step in submission.steps:
        if step.do == "run" and step.exercise:
            sources[step.exercise].append(step.source)
    return {name: fingerprint("\n".join(parts)) for name, parts in sources.items()}


def fingerprint(source: str) -> Fingerprint:
    """Hash and size of an answer's syntax tree, in which every name is replaced by the order of its first
    appearance."""
    try:
        tree = ast.parse(source if len(source) <= READ else "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.Module([], [])
    if not tree.body:
        return {"shape": _hash(source), "size": 0}
    names: dict[str, int] = {}
    parts: list[str] = []
    front: list[ast.AST] = [tree]
    for node in front:
        parts.append(type(node).__name__)
        body = list(ast.iter_child_nodes(node))
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                parts.append(str(names.setdefault(name, len(names))))
                body = []  # what kind of thing a parameter is said to be does not matter
            case ast.Constant(value=value):
                parts.append(repr(value))
            case ast.Attribute(attr=name) | ast.keyword(arg=name):
                parts.append(str(name))
        front += [
            child for child in body if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant))
        ]  # no docstrings
    return {"shape": _hash(" ".join(parts)), "size": len(front)}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def alike(reports: Mapping[str, Result], common: Mapping[str, Sequence[Fingerprint]] | None = None) -> list[Anomaly]:
    """Pairs of students with the same long answers, a line each; `common` answers do not count."""
    known = {(name, print_["shape"]) for name, prints in (common or {}).items() for print_ in prints}
    same: dict[tuple[str, str], list[str]] = defaultdict(list)
    for student, report in sorted(reports.items()):
        for exercise, print_ in report.get("answers", {}).items():
            if print_["size"] >= SHORT and (exercise, print_["shape"]) not in known:
                same[exercise, print_["shape"]].append(student)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (exercise, _), students in sorted(same.items()):
        if (
            1 < len(students) <= max(4, len(reports) // 4)
        ):  # an answer shared by a quarter of the class is the usual one
            for pair in combinations(students, 2):
                shared[pair].append(exercise)
    return [
        _anomaly(
            "answers alike",
            ", ".join(names),
            f"{one} and {other} gave the same answer but for names and layout: {', '.join(names)}.",
        )
        for (one, other), names in sorted(shared.items())
        if len(names) >= ALIKE
    ]


def answers_in(source: Notebook) -> dict[str, list[Fingerprint]]:
    """The fingerprints of what everybody has: a source's own answers, and the stubs that it releases."""
    stubs = _stubs(source)
    return {
        grade_meta(cell)["grade_id"]: [fingerprint(cell["source"]), fingerprint(stubs[grade_meta(cell)["grade_id"]])]
        for cell in source["cells"]
        if is_answer(cell)
    }
