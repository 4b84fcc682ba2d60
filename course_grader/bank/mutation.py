"""Mutation: the first right answer of each bank, changed in one small way at a time; every change must cost points.

A mutant that keeps full points is a *survivor*. It is a defect of the exercise's hidden cases, unless no input that the
statement allows tells it from the right answer. Such mutants are listed with the reason in `tests/mutants/chNN.toml`:

    [[equivalent]]
    exercise = "first-wall"
    reason = "The loop's last count always fits."    # several changes of several lines may share a reason
    [equivalent.changed]
    "while gpus < most:" = ["while gpus <= most:"]   # the mutant's line as it is printed, and what it is changed to

A change that fits no survivor is stale and counts as a fault too.
"""

import argparse
import ast
import contextlib
import json
import math
import os
import re
import select
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.bank.mutants import Mutant, mutants, sample
from course_grader.worker.worker_pool import can_fork
from course_lib.folders import ROOT

if TYPE_CHECKING:
    from course_grader.judge.exercise import Exercise

MOST = 60  # mutants of an exercise in a default run, changes of conditions first
TABLE = ROOT / "tests" / "mutants"
_LEAST_SECONDS = (
    1.0  # that a mutant may take, of CPU and on the clock; slower ones get in proportion to the right answer
)
_SLOWER = 10  # times as long as the right answer is hung
_VARIANTS = 4  # seeds of variants on which an answer that reads its numbers is judged too
_SIMPLE = (int, float, str, bool)

_READS_PARAMS = re.compile(r"^ *from course_lib(?:\.notebook)? import .*\b(?:params|notebook)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A mutant with full points, and why that is right, if the table says so."""

    exercise: str
    operator: str
    number: int  # of the line in the right answer
    line: str
    changed: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One exercise, its mutants judged."""

    exercise: str
    conditions: int  # places in the right answer where a mutant changes a condition
    mutants: int
    survivors: tuple[Survivor, ...]
    stale: tuple[str, ...] = ()  # rows of the table that no mutant fits; only known when all mutants were made
    seconds: float = 0.0

    @property
    def unexplained(self) -> list[Survivor]:
        """The survivors that the table has no reason for."""
        return [each for each in self.survivors if not each.reason]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the changes of one line of an exercise's right answer that make no difference."""

    line: str
    changed: tuple[str, ...]
    reason: str


def table(chapter: str) -> dict[str, list[Row]]:
    """The equivalent mutants of a chapter by exercise; ValueError names a row without a reason."""
    path = TABLE / f"ch{chapter}.toml"
    rows: dict[str, list[Row]] = {}
    if not path.exists():
        return rows
    for row in tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", []):
        if not row.get("reason", "").strip():
            raise ValueError(f"{path.name}: {row['exercise']}, {list(row['changed'])} has no reason.")
        rows.setdefault(row["exercise"], []).extend(
            Row(line, tuple(changed), row["reason"]) for line, changed in row["changed"].items()
        )
    return rows


def right_answer(exercise: str) -> str:
    """The answer that is mutated: the first right one of the bank; ValueError where there is none."""
    for answer in kill_matrix.bank(exercises.card(exercise).chapter, exercise):
        if answer.sort == "right":
            return answer.source
    raise ValueError(f"The bank of {exercise} has no right answer.")


def mutants_of(exercise: str) -> list[Mutant]:
    """All mutants of an exercise's right answer, those that believe the shown numbers included."""
    source = used_lines(right_answer(exercise), exercises.card(exercise).answers)
    return mutants(exercise, source, _shown_values(exercise, source))


def used_lines(source: str, names: Sequence[str]) -> str:
    """The statements of an answer that define these names or what they use; a bank's first lines serve its other
    answers too."""
    tree = ast.parse(source)
    needed, kept = set(names), list[ast.stmt]()
    for statement in reversed(tree.body):
        inside = list(ast.walk(statement))
        defined = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            defined = {statement.name}
        if isinstance(statement, ast.Assign | ast.FunctionDef | ast.ClassDef) and not defined & needed:
            continue
        kept.append(statement)
        own = set[str]()  # a function's variables hide names of the module
        if isinstance(statement, ast.FunctionDef):
            own = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
            own |= {each.arg for each in inside if isinstance(each, ast.arg)}
        needed |= {each.id for each in inside if isinstance(each, ast.Name)} - own
    tree.body = kept[::-1]
    return ast.unparse(tree)


def _shown_values(exercise: str, source: str) -> dict[str, dict[str, object]]:
    """For each function of the answer the simple arguments that its first shown case passes."""
    from course_grader.exercises.probes import rows
    from course_grader.judge import resolve

    card = exercises.card(exercise)
    functions = dict(zip(card.answers, kill_matrix.names_of(source, card.answers), strict=True))
    found: dict[str, dict[str, object]] = {}
    for case in resolve(card).cases:
        if not case.visible:
            continue
        given = case.args
        index = 0
        if card.probe is rows:
            index, table_of = case.args
            given = tuple(table_of[0])
        name = card.answers[min(index, len(card.answers) - 1)]
        code = getattr(functions[name], "__code__", None)
        if code is None or name in found:
            continue
        names = code.co_varnames[: code.co_argcount][1 if case.ranks else 0 :]
        found[name] = {
            key: value for key, value in zip(names, given, strict=False) if isinstance(value, _SIMPLE) and key != "comm"
        }
    return found


# ------------------------------------------------------------------------------------------------------ judging mutants


def tested(exercise: str, most: int | None = MOST) -> Tested:
    """The mutants of one exercise judged, each in a fork of this process; `most` None takes all of them.

    RuntimeError where the right answer itself does not get full points.
    """
    from course_grader.judge import resolve

    start = time.perf_counter()
    card = exercises.card(exercise)
    resolved = resolve(card)
    clock, cpu = time.perf_counter(), time.process_time()
    if not _passes(resolved, right_answer(exercise)):
        raise RuntimeError(f"The right answer to {exercise} does not get full points.")
    usual = max(time.perf_counter() - clock, time.process_time() - cpu)
    made = mutants_of(exercise)
    chosen = made if most is None else sample(made, most)
    rows = table(card.chapter).get(exercise, [])
    seconds = max(_LEAST_SECONDS, _SLOWER * usual)
    survivors = []
    for mutant in chosen:
        if _survives(resolved, mutant.source, seconds) and _survives_variants(card, mutant.source, seconds):
            reason = next((row.reason for row in rows if row.line == mutant.line and mutant.changed in row.changed), "")
            survivors.append(
                Survivor(
                    exercise=exercise,
                    operator=mutant.operator,
                    number=mutant.number,
                    line=mutant.line,
                    changed=mutant.changed,
                    reason=reason,
                )
            )
    known = {mutant.key for mutant in made}
    left = {each.key for each in chosen} - {(each.line, each.changed) for each in survivors}
    stale = [
        f"{row.line} => {changed}"
        for row in rows
        for changed in row.changed
        if (row.line, changed) not in known or (row.line, changed) in left
    ]
    return Tested(
        exercise=exercise,
        conditions=len({(each.number, each.line) for each in made if each.rank == 0}),
        mutants=len(chosen),
        survivors=tuple(survivors),
        stale=tuple(stale),
        seconds=time.perf_counter() - start,
    )


def _survives_variants(card: exercises.Card, source: str, seconds: float) -> bool:
    """Whether a mutant that reads its variant's numbers gets full points on some other variants too."""
    from course_grader.judge import resolve

    if card.vary is None or not _READS_PARAMS.search(source):  # the mutant itself may have lost the only call
        return True
    texts = {json.dumps(dict(card.variant(f"mutants:{number}")), sort_keys=True) for number in range(_VARIANTS)}
    for text in sorted(texts):
        own = json.loads(text)
        with kill_matrix.beside(card, own):
            if not _survives(resolve(card, own), source, seconds):
                return False
    return True


def _passes(resolved: "Exercise", source: str) -> bool:
    """Whether an answer gets full points."""
    from course_grader.judge import decide
    from course_grader.worker.runners import InProcess

    try:
        answers = kill_matrix.names_of(source, resolved.card.answers)
    except Exception:
        return False
    return decide(resolved, InProcess(*answers), seconds=0).passed  # by which mistake it fails does not matter


def _survives(resolved: "Exercise", source: str, seconds: float) -> bool:
    """Whether a mutant gets full points, judged in a fork that ends after `seconds` of CPU or three times as long on
    the clock."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            import resource

            os.close(ours)
            limit = math.ceil(seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
            with (
                open(os.devnull, "w") as nowhere,
                contextlib.redirect_stdout(nowhere),
                contextlib.redirect_stderr(nowhere),
            ):
                os.write(theirs, b"1" if _passes(resolved, source) else b"0")
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        ready, _, _ = select.select([ours], [], [], 3 * seconds + 2)
        return bool(ready) and os.read(ours, 1) == b"1"
    finally:
        os.close(ours)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


_MOST_BYTES = 6 * 2**30  # of memory that a mutant may ask for: one that lists without end stops there


def run(names: Sequence[str], most: int | None = MOST, workers: int | None = None) -> Iterator[Tested]:
    """The exercises tested in parallel processes, each as soon as it is done."""
    count = min(workers or os.cpu_count() or 1, len(names), 8)
    if count <= 1:
        kill_matrix.warm()
        yield from (tested(name, most) for name in names)
        return
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=kill_matrix.warm) as pool:
        work = [pool.submit(partial(tested, most=most), name) for name in names]
        try:
            for each in as_completed(work):
                yield each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def exercises_with_banks(chapter: str | None = None) -> list[str]:
    """The exercises of a chapter, or of the course, in the order of their banks."""
    return [name for name, _ in kill_matrix.judges(chapter)]


# --------------------------------------------------------------------------------------------------------- command line

EXAMPLES = """examples:
  course test --mutants                             each exercise: about 10 minutes on two cores
  course test --mutants --chapter 06 --all          one chapter, changed numbers too
  course test --mutants --exercise ring-shift       one exercise: every survivor with its line
  course test --mutants --chapter 06 --json         the same facts for a program"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print exercises, conditions, mutants and survivors; 1 if a survivor has no reason or a row of the table is
    stale."""
    parser = argparse.ArgumentParser(
        prog="course test --mutants",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--chapter", metavar="NN", help="two digits, such as 01; all chapters without it")
    parser.add_argument(
        "--exercise", metavar="ID", action="append", help="one exercise, such as ring-shift; may be repeated"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"changed numbers too; without it at most {MOST} changes of conditions and calls",
    )
    parser.add_argument("--workers", type=int, help="processes to use")
    parser.add_argument("--json", action="store_true", help="print one JSON object an exercise")
    given = parser.parse_args(argv)
    if not can_fork():
        parser.error("mutants run in forks of this process, which this system does not have; use Linux or macOS.")
    names = given.exercise or exercises_with_banks(given.chapter)
    if unknown := [name for name in names if name not in exercises_with_banks()]:
        parser.error(f"there is no exercise {unknown[0]!r} with a bank in {exercises.home()}.")
    if not names:
        parser.error(f"there is no chapter {given.chapter!r} with banks in {exercises.home()}.")
    start = time.perf_counter()
    results: list[Tested] = []
    try:
        for result in run(names, None if given.all else MOST, given.workers):
            results.append(result)
            if given.json:
                print(json.dumps(asdict(result)), flush=True)
            else:
                _print_progress(result, len(results), len(names))
    except KeyboardInterrupt:
        print(f"Stopped: {len(results)} of {len(names)} exercises are done.", file=sys.stderr)
        return 130
    if not given.json:
        _print_sums(results, time.perf_counter() - start)
    return int(any(result.unexplained or result.stale for result in results))


def _print_progress(result: Tested, done: int, of: int) -> None:
    known = len(result.survivors) - len(result.unexplained)
    print(
        f"[{done}/{of}] {result.exercise}: {result.conditions} conditions, {result.mutants} mutants, "
        f"{known} equivalent, {len(result.unexplained)} survivors, {result.seconds:.1f} s",
        flush=True,
    )
    for each in result.unexplained:
        print(f"    line {each.number}, {each.operator}: {each.line}\n        => {each.changed or '(removed)'}")
    for row in result.stale:
        print(f"    stale row of the table: {row}")


def _print_sums(results: Sequence[Tested], seconds: float) -> None:
    sums: Mapping[str, int] = Counter(
        exercises=len(results),
        conditions=sum(each.conditions for each in results),
        mutants=sum(each.mutants for each in results),
        survivors=sum(len(each.survivors) for each in results),
        unexplained=sum(len(each.unexplained) for each in results),
    )
    print(
        f"{sums['exercises']} exercises, {sums['conditions']} conditions, {sums['mutants']} mutants in {seconds:.0f} "
        f"s: {sums['mutants'] - sums['survivors']} lose points, {sums['survivors'] - sums['unexplained']} are "
        f"equivalent, {sums['unexplained']} survive."
    )


if __name__ == "__main__":
    raise SystemExit(main())
