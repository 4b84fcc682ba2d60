"""Which slow checks a test run makes, and which it leaves to later runs.

Every shipped answer is judged in every run. Three checks are too slow to repeat in full for every change: a chapter
under plain nbgrader, in a browser and without answers; a wrong answer that crosses into a worker; and tests marked
`rotates`, among them a chapter's notebook with its answers in a worker. A default run makes them for the code that
changed and for a rotating share of the rest. A defect in code that many of them share shows in that share too, since
it strikes many at once. Naming test files, or `--everything`, makes them all.
"""

import ast
import random
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_grader.bank.answer_bank import BankAnswer

REPOSITORY = Path(__file__).resolve().parent.parent
CHAPTERS = tuple(sorted(path.name[:2] for path in (REPOSITORY / "solutions").glob("[0-9][0-9]_*")))
chosen = [*CHAPTERS]  # the chapters whose tests were asked for; only their cases are drawn when tests are collected
MOST_MUTATED = 4  # exercises in a default run: 1 to 8 s of CPU each
MOST_FILES = 60  # files whose code changed: more of them single out no tests, and all take their turns
SHARE = 6  # one in so many has its turn: of tests marked `rotates`, and of attacks
OF_A_CHAPTER = re.compile(r"^(?:solutions|notebooks|course_chapters)/(?:ch)?(\d\d)(?=[_/])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The share of the slow checks that one run makes. Every process of the run gets the same one."""

    chapters: tuple[str, ...]  # run under plain nbgrader, in the browser and without answers
    crossing: tuple[str, ...]  # chapters all of whose answers cross into a worker
    changed: tuple[str, ...]  # files whose code changed, docstrings and comments aside; ("",) if that is unknown
    seed: int  # of what is drawn; it changes with every commit
    why: str  # one sentence for the log
    tier: str = ""  # "quick" or "slower": only the tests of that tier; "" is both

    def touches(self, paths: Collection[str]) -> bool:
        """Whether the code of one of these files or folders changed."""
        return "" in self.changed or any(path.startswith(tuple(paths)) for path in self.changed)

    def sample(self, exercise: str, answers: "Sequence[BankAnswer]") -> "list[BankAnswer]":
        """The wrong or half-right answer to an exercise that crosses into a worker, another one for each commit.

        Right ones cross with their chapter's notebook, and here where a bank has no other, as that of a prediction.
        """
        wrong = [each for each in answers if each.sort != "right"]
        return [random.Random(f"{self.seed} {exercise}").choice(wrong or answers)]

    def exercises(self, names: Sequence[str]) -> list[str]:
        """The exercises whose right answers are mutated: a few that differ from commit to commit."""
        if self.crossing == self.chapters == CHAPTERS:
            return list(names)
        return random.Random(self.seed).sample(list(names), min(MOST_MUTATED, len(names)))

    def has_turn(self, place: int, paths: Collection[str] = (), chapters: Collection[str] = ()) -> bool:
        """Whether the test at this place among those marked `rotates` runs.

        All run of which the code at `paths` changed, and those about a chapter all of whose answers cross.
        """
        changed = self.touches(paths) or not set(chapters).isdisjoint(self.crossing)
        return changed or (place + self.seed) % SHARE == 0

    def share(self, rows: Sequence[object], paths: Collection[str]) -> Sequence[object]:
        """The rows of a slow table that have their turn, at least one; all where the code at `paths` changed."""
        first = self.seed % max(1, min(SHARE, len(rows)))
        return rows if self.touches(paths) else rows[first::SHARE]

    def said(self) -> list[str]:
        """What this run does and what it leaves to later runs, for the head of the log."""
        if self.tier == "quick":
            return ["the quick tier; CI runs `./course test --slower` after it, and --everything leaves nothing out"]
        left = [chapter for chapter in chosen if chapter not in self.chapters]
        sampled = [chapter for chapter in chosen if chapter not in self.crossing]
        if not left and not sampled:
            return [f"rotation: nothing is left out ({self.why})"]
        return [
            f"rotation: {self.why}",
            f"  under plain nbgrader, in the browser and without answers: {listed(self.chapters)}; left to later "
            f"runs: {listed(left)}",
            f"  every answer is judged; in a worker too: all answers to {listed(self.crossing)}, and a wrong one to "
            f"one in {SHARE} exercises of each other",
            f"  notebooks with their answers, other tests marked `rotates`, and attacks of each kind: one in {SHARE}"
            + (", and all whose code changed" if self.changed else "; too much changed to single any out"),
            f"  right answers with one small change: {MOST_MUTATED} exercises of all",
            "  the whole site and the whole course in a browser: not in this run",
            "  `./course test --everything` leaves nothing out",
        ]

    def plain(self) -> dict[str, object]:
        """Its fields, for another process: `Rotation(**fields)`."""
        return asdict(self)


def listed(chapters: Sequence[str]) -> str:
    return ", ".join(chapters) if chapters else "none"


def everything(why: str) -> Rotation:
    """A rotation that leaves nothing out."""
    return Rotation(chapters=CHAPTERS, crossing=CHAPTERS, changed=("",), seed=0, why=why)


def quick() -> Rotation:
    """What `./course test` runs: no notebook as a whole, and no answer that crosses into a worker."""
    return Rotation(chapters=(), crossing=(), changed=(), seed=0, why="", tier="quick")


def single(chapters: Sequence[str], tier: str) -> Rotation:
    """The rotation of a run of some chapters' tests: all of a tier."""
    whole = everything("single chapters were asked for")
    return replace(whole, chapters=tuple(chapters), crossing=tuple(chapters), tier=tier)


def rotation(since: str | None = None) -> Rotation:
    """The rotation for the changes since a commit; without one, since `start_of_changes`.

    A chapter runs in its turn, and one of those that changed, all of whose answers cross too. Where git cannot tell
    what changed, or much did, no test marked `rotates` is singled out.
    """
    count, base = turn(), since or start_of_changes()
    turning = CHAPTERS[count % len(CHAPTERS)]
    paths = changed(base)
    if paths is None and since:
        raise ValueError(f"git knows no commit {since!r}.")
    if paths is None:
        touched, code, changes = [*CHAPTERS], (), "there is no history that tells what changed"
    else:
        touched = [chapter for chapter in CHAPTERS if chapter in {chapter_of(path) for path in paths}]
        code = tuple(sorted(path for path in paths if differs_in_code(path, base)))
        code = code if len(code) <= MOST_FILES else ()
        changes = f"{len(paths)} files changed since {base}"
    also = {touched[count % len(touched)]} if touched else set()  # among many, another commit takes another one
    return Rotation(
        chapters=tuple(sorted({turning} | also)),  # about 60 s of CPU each
        crossing=tuple(also),  # 0.2 to 0.9 s of CPU an answer
        changed=code,
        seed=count,
        why=f"{changes}; it is the turn of chapter {turning}",
        tier="slower",
    )


def chapter_of(path: str) -> str | None:
    """The chapter that a file belongs to, as in `course_chapters/ch06/exercises/ring_shift.py`; None for code of no
    chapter."""
    match = OF_A_CHAPTER.match(path)
    return match[1] if match else None


def differs_in_code(path: str, base: str) -> bool:
    """Whether a file says something else to Python than at that commit: comments, docstrings and layout do not
    count."""
    now = REPOSITORY / path
    if now.suffix != ".py" or not now.is_file() or (before := git("show", f"{base}:{path}")) is None:
        return True
    try:
        return code_of(before) != code_of(now.read_text(encoding="utf-8"))
    except SyntaxError:
        return True


def code_of(source: str) -> str:
    """A module's syntax tree without docstrings and places; whether a test rotates does not count either."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        if isinstance(node, ast.FunctionDef):
            marks = [each for each in node.decorator_list if "mark.rotates" in ast.unparse(each)]
            node.decorator_list = [each for each in node.decorator_list if each not in marks]
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
    """Where the branch left its upstream or main. On these themselves, a day before: one landing may bring many
    commits."""
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
