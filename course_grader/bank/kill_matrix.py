"""The kill matrix: every shipped wrong answer against its verdict, every right one against full points.

Answers live beside the judge, in `chNN/judges/<exercise_id>.py`, in the form that `answer_bank` describes.

On a variant, an answer that reads `params` must get the same result, and so must every answer to a card whose answers
need not read them. Other answers are written for the public form. There a right one passes or is told that it solves
the public form, and a wrong one is rejected. A wrong one whose heading ends in `unless NAME=VALUE` passes where the
variant's parameter NAME has that value.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from course_grader import exercises
from course_grader.bank.answer_bank import BankAnswer, read_answers
from course_grader.exercises import VARIANT_FILE, Card
from course_grader.records import VERDICT_KINDS, Answer, Report
from course_lib.messages import count_text

SECOND_GUARDS = {("hierarchical-bytes", "protocol:by-hand")}  # shares that another guard loses first
PATIENCE = 60.0  # s for saying whose numbers an answer solves: a busy machine must not change what a row says


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answer, judged: whether it got the result that the bank says, and how long the check took."""

    answer: BankAnswer
    ok: bool
    got: str
    message: str
    seconds: float
    report: Report


def bank(chapter: str | None = None, exercise: str | None = None) -> list[BankAnswer]:
    """All shipped answers of a chapter, of one exercise, or of the course."""
    return [answer for name, path in judges(chapter, exercise) for answer in read_answers(path, name)]


def judges(chapter: str | None = None, exercise: str | None = None) -> list[tuple[str, Path]]:
    """The course's exercises, each with the file of its judge, by chapter and id."""
    if exercise is not None:
        return [
            (exercise, path)
            for path in exercises.home().glob(f"ch{chapter or '*'}/exercises/judges/{exercises.module_of(exercise)}.py")
        ]
    chapters = [name for name in exercises.chapters() if chapter in (None, name)]
    ids = sorted((name, card.id) for name in chapters for card in exercises.chapter_module(name).CARDS)
    paths = [
        (each, exercises.home() / f"ch{name}" / "exercises" / "judges" / f"{exercises.module_of(each)}.py")
        for name, each in ids
    ]
    return [(each, path) for each, path in paths if path.is_file()]


def names_of(source: str, names: Sequence[str]) -> tuple[Answer, ...]:
    """Run an answer's source as a notebook cell would be, and pick out its answers."""
    import linecache

    space: dict[str, Any] = {"__name__": "__main__"}
    title = f"<answer {hash(source) & 0xFFFFFF:x}>"
    linecache.cache[title] = (len(source), None, source.splitlines(True), title)  # so that errors show the line
    exec(compile(source, title, "exec"), space)
    return tuple(space[name] for name in names)


def judge(answer: BankAnswer, seed: str | None = None) -> Row:
    """Judge one shipped answer here, in this process, on the canonical variant or on that of a seed."""
    from course_grader.bank.remembering import Remembering, keeps_nothing
    from course_grader.judge import grade
    from course_grader.judge.report import lost_report
    from course_grader.judging.worked import functions
    from course_grader.worker.runners import InProcess

    card = exercises.card(answer.exercise)
    params = (
        json.loads(json.dumps(dict(card.variant(seed)))) if seed is not None else card.params
    )  # as a class keeps it
    start = time.perf_counter()
    try:
        answers = functions(answer, params)
    except Exception as error:  # as a cell that does not run: nothing is defined
        what = f"it does not define {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        report = lost_report(card, "raised", f"The answer's cell does not run: {what}.")
    else:
        alike = keeps_nothing(answer.source, getattr(answers[0], "__globals__", {}))
        place = Remembering(answer, params, answers) if alike else InProcess(*answers)
        report = grade(card, place, params=params, seconds=PATIENCE)
    seconds = time.perf_counter() - start
    public = not answer.reads_params and _matters(card, params)
    ok, got, message = (
        _public_form(answer, report, params) if public else _met(answer, report, coincide=seed is not None)
    )
    if not public and right_here(answer, params):
        ok = report.passed
    return Row(answer=answer, ok=ok, got=got, message=message, seconds=seconds, report=report)


@contextlib.contextmanager
def beside(card: Card, params: Mapping[str, object]) -> Iterator[None]:
    """A current folder in which a variant file gives these parameters, as in a student's own."""
    with tempfile.TemporaryDirectory(prefix="course-variant-") as folder, contextlib.chdir(folder):
        Path(VARIANT_FILE).write_text(json.dumps({"exercises": {card.id: dict(params)}}), encoding="utf-8")
        yield


def _matters(card: Card, params: Mapping[str, object]) -> bool:
    """Whether an answer must know these parameters: another structure, or a card to which some shipped answer reads
    them."""
    if card.structural and params[card.structural] != card.params[card.structural]:
        return True
    return params != card.params and card.id in _reading(card.chapter)


@cache
def _reading(chapter: str) -> frozenset[str]:
    """The exercises of a chapter to which some right answer reads its variant's numbers."""
    return frozenset(answer.exercise for answer in bank(chapter) if answer.sort == "right" and answer.reads_params)


def right_here(answer: BankAnswer, params: Mapping[str, object]) -> bool:
    """Whether a wrong answer is the right one on this variant, as its heading says."""
    name, _, value = answer.unless.partition("=")
    return bool(answer.unless) and str(params[name]) == value


def _public_form(answer: BankAnswer, report: Report, params: Mapping[str, object]) -> tuple[bool, str, str]:
    """Whether an answer to the public form is turned away from another, or right there too, and a right one is told
    why."""
    told = next((v for v in report.verdicts if not v.ok and v.mistake == "public-form"), None)
    if answer.sort == "right":
        ok = report.passed or told is not None
    elif answer.sort == "half":
        ok = report.points <= float(answer.expected)
    else:
        ok = report.passed == right_here(answer, params)
    first = told or next((v for v in report.verdicts if not v.ok), None)
    got = "public-form" if told else f"{report.points:g}/{report.maximum:g}"
    return ok, got, first.message if first else report.note


def _met(answer: BankAnswer, report: Report, coincide: bool) -> tuple[bool, str, str]:
    """Whether a report is what the bank says, what it is instead, and its first message.

    On a variant two mistakes may `coincide`, such as all but the weights forgotten and the moments forgotten where
    there is nothing else. Then neither is named.
    """
    failing = [v for v in report.verdicts if not v.ok]
    message = failing[0].message if failing else report.note
    if answer.sort == "right":
        return report.passed, f"{report.points:g}/{report.maximum:g}", message
    if answer.sort == "half":
        return report.points == float(answer.expected), f"{report.points:g}/{report.maximum:g}", message
    if answer.expected not in VERDICT_KINDS:
        state = report.state.replace(" ", "-")
        return state == answer.expected and not report.passed, state, message or report.note
    # The verdict meant for a wrong answer is the first kind, in the order of the four questions, that fails.
    first = next((kind for kind in VERDICT_KINDS if any(v.kind == kind for v in failing)), "none")
    mistakes = {v.mistake for v in failing if v.kind == first and v.mistake} or {"-"}
    message = next((v.message for v in failing if v.kind == first), message)
    as_meant = answer.mistake in mistakes | {"~"} or (coincide and "-" in {answer.mistake, *mistakes})
    ok = not report.passed and first == answer.expected and as_meant and bool(message)
    return ok, f"{first} {'/'.join(sorted(mistakes))}", message


def matrix(
    chapter: str | None = None, workers: int | None = None, seed: str | None = None, exercise: str | None = None
) -> list[Row]:
    """The shipped answers judged in parallel processes, on the variant of `seed` if one is given, in the order of the
    bank.

    `chapter` and `exercise` choose among them.
    """
    answers = bank(chapter, exercise)
    count = workers or min(os.cpu_count() or 1, 8)
    if count == 1 or len(answers) < 8:
        warm()
        return judge_all(answers, seed)
    together = [list(group) for _, group in groupby(answers, lambda answer: answer.exercise)]
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=warm) as pool:
        return [row for rows in pool.map(partial(judge_all, seed=seed), together) for row in rows]


def judge_all(answers: Sequence[BankAnswer], seed: str | None = None) -> list[Row]:
    """Judge the answers to an exercise in one process, where what one of them did on a case is known when another is
    compared with it."""
    return [judge(answer, seed) for answer in answers]


def never_lost(rows: Sequence[Row]) -> list[str]:
    """Each share that none of its exercise's answers loses, which nobody knows to be judged: "ID: KIND:PART"."""
    from course_grader.judging import judging

    lost = {(row.answer.exercise, f"{v.kind}:{v.part}") for row in rows for v in row.report.verdicts if not v.ok}
    judged = dict.fromkeys(row.answer.exercise for row in rows)
    asked = [
        (each, share) for each in judged if exercises.card(each).form != "prediction" for share in judging(each).shares
    ]
    return [": ".join(pair) for pair in asked if pair not in lost | SECOND_GUARDS]


def warm() -> None:
    """One thread, and what torch loads at the first backward pass and the first step, before any run's clock goes:
    seconds if busy."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    weight = torch.ones(1, requires_grad=True)
    weight.clone().backward(torch.ones(1))
    torch.optim.SGD([weight], lr=1.0).step()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the matrix; 1 if any answer gets another result than the bank says, or no answer loses a share."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(prog="course test --kill-matrix", description=__doc__)
    parser.add_argument("--chapter", help="two digits, such as 01; all chapters without it")
    parser.add_argument("--exercise", metavar="ID", help="one exercise, such as ring-shift")
    parser.add_argument("--workers", type=int, help="processes to use")
    parser.add_argument(
        "--variant", metavar="SEED", help="judge on the variants of this seed; on the canonical one without it"
    )
    given = parser.parse_args(argv)
    start = time.perf_counter()
    try:
        bank(given.chapter, given.exercise)
    except ValueError as error:  # a heading or a change that cannot be read: file and line are enough
        parser.error(str(error))
    rows = matrix(given.chapter, given.workers, given.variant, given.exercise)
    if not rows:
        parser.error(f"there is no bank of answers that fits: look into {exercises.home()}")
    wall = time.perf_counter() - start
    table = Table("exercise", "answer", "meant", "got", "message", "s")
    for row in rows:
        meant = row.answer.sort if row.answer.sort == "right" else f"{row.answer.expected} {row.answer.mistake}"
        table.add_row(
            row.answer.exercise,
            row.answer.name,
            meant,
            row.got if row.ok else f"[red]{row.got}[/]",
            "" if row.answer.sort == "right" and row.ok else row.message[:160],
            f"{row.seconds:.2f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    odd = sum(not row.ok for row in rows)
    median = sorted(row.seconds for row in rows)[len(rows) // 2] if rows else 0.0
    worst = max((row.seconds for row in rows), default=0.0)
    console.print(
        f"{count_text(len(rows), 'answer')} to {count_text(len({row.answer.exercise for row in rows}), 'exercise')} "
        f"in {wall:.1f} s; a check takes {median:.2f} s at the median, {worst:.2f} s at most; "
        f"{odd or 'none'} with another result than meant."
    )
    kept = [] if given.variant else never_lost(rows)
    for share in kept:
        console.print(f"No answer loses {share}.")
    return 1 if odd or kept else 0


if __name__ == "__main__":
    raise SystemExit(main())
