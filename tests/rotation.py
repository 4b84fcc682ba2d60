"""Which slow checks a test run makes, and which it leaves to later runs.

Three checks are too slow to repeat in full for every change: a whole chapter under plain nbgrader, in a browser or without answers, a
shipped answer that crosses into a worker process, and trials of the grader by the hundred (tests marked `rotates`). A default run makes
them for the code that changed and for a rotating share of the rest. Naming test files, or `--everything`, makes them all.
"""

import ast
import random
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
CHAPTERS = tuple(sorted(path.name[:2] for path in (REPOSITORY / "solutions").glob("[0-9][0-9]_*")))
MOST_CHAPTERS = 2  # run whole in a default run: about 60 s of CPU each
MOST_CROSSING = 3  # chapters all of whose answers cross in a default run: 0.2 to 0.9 s of CPU an answer
MOST_MUTATED = 8  # exercises in a default run: 1 to 2 s of CPU each
SHARE = (
    3  # of the tests marked `rotates`, one in so many has its turn; of the answers too, after a change of shared code
)
SHARED = (  # code that takes part in judging every answer
    "course_lib/grading/",
    "course_lib/judging/",
    "course_lib/cluster/",
    "course_lib/records.py",
    "requirements.lock",
)
OF_A_CHAPTER = re.compile(
    r"^(?:solutions|notebooks|course_lib/exercises|course_lib/widgets|tests/bank)/(?:ch)?(\d\d)(?=[_/.])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The share of the slow checks that one run makes. Every process of the run gets the same one."""

    chapters: tuple[str, ...]  # run whole under plain nbgrader, in the browser and without answers
    crossing: tuple[str, ...]  # chapters all of whose answers cross into a worker
    shared: bool  # whether code changed that takes part in judging every answer
    seed: int  # of the sample of answers that cross in the other chapters; it changes with every commit
    why: str  # one sentence for the log

    def sample(self, exercise: str, answers: Sequence[Any]) -> list[Any]:
        """The answers to an exercise that cross into a worker: one right, wrong and half-right, and some of the rest.

        After a change of shared code one in `SHARE` of the rest, so that each has its turn within so many commits; else one
        that is drawn.
        """
        first = {answer.sort: answer for answer in reversed(answers)}
        rest = [answer for answer in answers if answer not in first.values()]
        if self.shared:
            return [*first.values(), *(answer for place, answer in enumerate(rest) if (place + self.seed) % SHARE == 0)]
        return [*first.values(), *random.Random(f"{self.seed} {exercise}").sample(rest, min(1, len(rest)))]

    def exercises(self, names: Sequence[str]) -> list[str]:
        """The exercises whose right answers are mutated: a few that differ from commit to commit."""
        if self.crossing == self.chapters == CHAPTERS:
            return list(names)
        return random.Random(self.seed).sample(list(names), min(MOST_MUTATED, len(names)))

    def has_turn(self, place: int, chapters: Collection[str] = ()) -> bool:
        """Whether the test at this place among those marked `rotates` runs.

        All of them run after a change of shared code, and those about a chapter where all its answers cross.
        """
        return self.shared or not set(chapters).isdisjoint(self.crossing) or (place + self.seed) % SHARE == 0

    def said(self) -> list[str]:
        """What this run does and what it leaves to later runs, for the head of the log."""
        left = [chapter for chapter in CHAPTERS if chapter not in self.chapters]
        sampled = [chapter for chapter in CHAPTERS if chapter not in self.crossing]
        if not left and not sampled:
            return [f"rotation: nothing is left out ({self.why})"]
        further = f"one in {SHARE} of the rest" if self.shared else "one more"
        return [
            f"rotation: {self.why}",
            f"  under plain nbgrader, in the browser and without answers: {listed(self.chapters)}; left to later runs: {listed(left)}",
            f"  every answer crosses into a worker: {listed(self.crossing)}; one of each sort and {further}: {listed(sampled)}",
            f"  attacks, answers on the scales, runs of random programs: {'all' if self.shared else f'one in {SHARE}'}",
            f"  right answers with one small change: {MOST_MUTATED} exercises of all",
            "  the whole site and the whole course in a browser: not in this run",
            "  `./course test --everything` leaves nothing out",
        ]

    def plain(self) -> dict[str, Any]:
        """Its fields, for another process: `Rotation(**fields)`."""
        return asdict(self)


def listed(chapters: Sequence[str]) -> str:
    return ", ".join(chapters) if chapters else "none"


def everything(why: str) -> Rotation:
    """A rotation that leaves nothing out."""
    return Rotation(chapters=CHAPTERS, crossing=CHAPTERS, shared=True, seed=0, why=why)


def rotation(since: str | None = None) -> Rotation:
    """The rotation for the changes since a commit; without one, since `start_of_changes`.

    At most `MOST_CHAPTERS` chapters run whole and the answers of at most `MOST_CROSSING` all cross, changed ones first. Where git
    cannot tell what changed, shared code counts as changed.
    """
    count, base = turn(), since or start_of_changes()
    turning = CHAPTERS[count % len(CHAPTERS)]
    paths = changed(base)
    if paths is None and since:
        raise ValueError(f"git knows no commit {since!r}.")
    if paths is None:
        touched, shared, changes = [*CHAPTERS], True, "there is no history that tells what changed"
    else:
        touched = [chapter for chapter in CHAPTERS if chapter in {chapter_of(path) for path in paths}]
        taking_part = [path for path in paths if path.startswith(SHARED) or is_shared_exercise_code(path)]
        shared = any(differs_in_code(path, base) for path in taking_part)
        changes = f"{len(paths)} files changed since {base}"
    start = count % max(len(touched), 1)  # among many changed chapters, another commit begins with another one
    in_turn = touched[start:] + touched[:start]
    whole = [turning, *(chapter for chapter in in_turn if chapter != turning)][:MOST_CHAPTERS]
    return Rotation(
        chapters=tuple(sorted(whole)),
        crossing=tuple(sorted(in_turn[:MOST_CROSSING])),
        shared=shared,
        seed=count,
        why=f"{changes}; it is the turn of chapter {turning}",
    )


def chapter_of(path: str) -> str | None:
    """The chapter that a file belongs to, as in `course_lib/exercises/ch06/cards/rings.py`; None for code of no chapter."""
    match = OF_A_CHAPTER.match(path)
    return match[1] if match else None


def is_shared_exercise_code(path: str) -> bool:
    return path.startswith("course_lib/exercises/") and chapter_of(path) is None


def differs_in_code(path: str, base: str) -> bool:
    """Whether a file says something else to Python than at that commit: comments, docstrings and layout do not count."""
    before, now = git("show", f"{base}:{path}"), REPOSITORY / path
    if before is None or not now.is_file() or now.suffix != ".py":
        return True
    try:
        return code_of(before) != code_of(now.read_text(encoding="utf-8"))
    except SyntaxError:
        return True


def code_of(source: str) -> str:
    """A module's syntax tree without docstrings and places."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def git(*words: str) -> str | None:
    """What git prints; None where git, the repository or what was asked for is missing."""
    try:
        done = subprocess.run(["git", "-C", str(REPOSITORY), *words], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def turn() -> int:
    """A number that grows by one with each commit, or with each day where the history is cut off."""
    count = git("rev-list", "--count", "HEAD")
    if count is None or git("rev-parse", "--is-shallow-repository") == "true":
        return date.today().toordinal()
    return int(count)


def start_of_changes() -> str:
    """Where the branch left its upstream or main. On these themselves, a day before: one landing may bring many commits."""
    head = git("rev-parse", "HEAD")
    for upstream in ("@{upstream}", "origin/HEAD", "main"):
        base = git("merge-base", "HEAD", upstream)
        if base and base != head:
            return base[:12]
    day_before = int(git("log", "-1", "--format=%ct") or 0) - 86_400
    base = git("rev-list", "-1", "--first-parent", f"--before={day_before}", "HEAD")
    return base[:12] if base else "HEAD^"


def changed(base: str) -> set[str] | None:
    """Files that differ from a commit, with those that git does not track; None where that commit is not here."""
    differ = git("diff", "--name-only", base, "--")
    new = git("ls-files", "--others", "--exclude-standard")
    return None if differ is None or new is None else set(f"{differ}\n{new}".split("\n")) - {""}
