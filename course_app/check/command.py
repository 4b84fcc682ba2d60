"""`course check`: grade a learner's chapters on the command line, with reasons and the next step.

Exits with 0 if every requested exercise has full points (with `--blank`: if none has any), else with 1.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from course_app.check.results import Graded, as_data
from course_app.learner import work as learner_work
from course_grader import exercises
from course_grader.blank_notebook import blank
from course_grader.course_notebooks import chapter_by_content, sources
from course_grader.dependencies import grade_needed_cells
from course_grader.exercises import Card
from course_grader.intake import load
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.judge.report import progress_entry
from course_grader.judging import judging
from course_grader.notebooks import Notebook
from course_grader.records import Report
from course_grader.sandbox.policy import Wall
from course_grader.submission import Submission, rebuild
from course_grader.worker.imports import imports_of
from course_grader.worker.worker_pool import WorkerPool
from course_lib.messages import Trouble

_OWN = Wall(
    level="none", cell_seconds=120.0, notebook_seconds=900.0
)  # for the course's own notebooks; every cell must end, even on a busy machine
_NEEDS_TORCH = re.compile(r"\btorch\b|\bsimulate\b|\bcomm\b|course_lib\.cluster")
Say = Callable[["Job | Graded"], None]  # told of each target before it is graded


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One notebook to grade."""

    chapter: str
    name: str  # "01_three_walls"
    path: Path | None  # the learner's copy; None for the course's own
    submission: Submission
    source: Notebook
    cards: tuple[Card, ...]
    torch: bool


# ------------------------------------------------------------------------------------------------ which notebooks


def jobs(
    targets: Sequence[str], where: learner_work.Folders, *, solved: bool, blank_: bool, all_: bool
) -> list[Job | Graded]:
    """A job for every target that can be graded; for every other target, the trouble with it."""
    known = sources(where.root)
    ours = solved or blank_
    if all_:
        copies = {chapter.number for chapter in learner_work.chapters(where) if chapter.mine is not None}
        targets = [chapter for chapter in known if ours or chapter in copies]
        if not targets:
            raise Trouble(
                "There is nothing to check in your work folder.", "`./course learn` copies the chapters there"
            )
    made: list[Job | Graded] = []
    for target in targets:
        try:
            made.append(_job(target, known, where, solved=solved, blank_=blank_))
        except Trouble as trouble:
            made.append(Graded(chapter=target, name=Path(target).name, trouble=trouble))
    return made


def _job(target: str, known: dict[str, Path], where: learner_work.Folders, *, solved: bool, blank_: bool) -> Job:
    named = re.fullmatch(r"(\d{1,2})(?:_\w*)?/?", target)
    chapter = named.group(1).zfill(2) if named else ""
    path: Path | None = None
    notes: tuple[str, ...] = ()
    if not named:
        path = _notebook_at(Path(target))
        learner = load(path)
        chapter = chapter_by_content(learner, path, known)
    if chapter not in known:
        learner_work.require(where.root, "solutions", "Grading")
        raise Trouble(f"There is no chapter {chapter or repr(target)}.", f"chapters with exercises: {', '.join(known)}")
    source = load(known[chapter])
    if solved or blank_:
        learner = blank(source) if blank_ else source
    elif path is None:
        path, notes = _copy_of(chapter, where)
        learner = load(path)
    cards = exercises.cards(chapter)
    submission = rebuild(source, learner, cards)
    code = "\n".join(step.source for step in submission.steps if step.do == "run")
    return Job(
        chapter=chapter,
        name=known[chapter].parent.name,
        path=path,
        cards=cards,
        submission=replace(submission, notes=(*notes, *submission.notes)),
        source=source,
        torch=bool(_NEEDS_TORCH.search(code)),
    )


def _notebook_at(path: Path) -> Path:
    """The notebook that a path names, directly or as the only one in a folder."""
    if not path.is_dir():
        return path
    found = [each for each in sorted(path.glob("*.ipynb")) if not each.name.startswith(".")]
    if len(found) != 1:
        raise Trouble(f"{path} holds {len(found) or 'no'} notebooks.", "give the path of the one to check")
    return found[0]


def _copy_of(chapter: str, where: learner_work.Folders) -> tuple[Path, tuple[str, ...]]:
    """The learner's copy of a chapter, and a note where it was renamed."""
    found = next((each for each in learner_work.chapters(where) if each.number == chapter), None)
    folder = where.work / (found.name if found else "")
    if found is None or found.mine is None:
        others = sorted(folder.glob("*.ipynb")) if found else []
        if len(others) == 1:  # it cannot be read, or its metadata would have been found; `load` will say why
            return others[0], (
                f"{others[0].name} does not say that it is chapter {chapter}, but it is in that chapter's folder.",
            )
        raise Trouble(
            f"There is no copy of chapter {chapter} in {where.work}.", "`./course learn` copies the chapters there"
        )
    if found.mine != where.work / found.name / found.file:
        return found.mine, (f"Your copy is {_short(found.mine, where)}; it was recognized by its content.",)
    return found.mine, ()


def _short(path: Path, where: learner_work.Folders) -> str:
    return str(path.relative_to(where.work.parent) if path.is_relative_to(where.work.parent) else path)


# ------------------------------------------------------------------------------------------------ the command


def check_main(targets: list[str], solved: bool, blank: bool, all_: bool, as_json: bool) -> int:
    """Grade and print; the exit code."""
    where = learner_work.folders()
    say = _progress if sys.stderr.isatty() or len(targets) > 1 or all_ else None
    try:
        results = grade_all(targets, where, solved=solved, blank_=blank, all_=all_, say=None if as_json else say)
    except Trouble as trouble:
        results = [Graded(chapter="", name="", trouble=trouble)]
    except KeyboardInterrupt:
        print("\ncheck: stopped. Nothing was changed.", file=sys.stderr)
        return 130
    if as_json:
        print(json.dumps(as_data(results), indent=1, ensure_ascii=False))
    else:
        from course_app.check.table import show

        for result in results:
            show(result, blank_=blank, solved=solved)
    return 0 if all(result.untouched if blank else result.solved for result in results) and results else 1


def grade_all(
    targets: Sequence[str],
    where: learner_work.Folders,
    *,
    solved: bool = False,
    blank_: bool = False,
    all_: bool = False,
    say: Say | None = None,
    fork: bool | None = None,
    record: bool = True,
) -> list[Graded]:
    """Grade every target, in order. A target that cannot be graded carries its trouble. Progress is recorded unless
    `record` is False.
    """
    made = jobs(targets, where, solved=solved, blank_=blank_, all_=all_)
    work = [job for job in made if isinstance(job, Job)]
    results: list[Graded] = []
    if not work:
        return [job for job in made if isinstance(job, Graded)]
    chapters, imports = (
        sorted({job.chapter for job in work}),
        sorted({name for job in work for name in imports_of(job.source)}),
    )
    with WorkerPool(torch=any(job.torch for job in work), chapters=chapters, imports=imports, fork=fork) as workers:
        for job in made:
            if say is not None:
                say(job)
            results.append(job if isinstance(job, Graded) else _graded(job, workers, where, record))
    return results


def _graded(job: Job, workers: WorkerPool, where: learner_work.Folders, record: bool) -> Graded:
    try:
        if job.path is None:  # the course's own: every cell of it must run
            marked = grade_notebook(
                job.submission, job.cards, workers, beside=where.root / "solutions" / job.name, limits=_OWN
            )
        else:
            marked = grade_needed_cells(
                job.submission,
                job.source,
                job.cards,
                workers,
                beside=job.path.parent,
                params=variant_params(job.path.parent),
            )
    except Trouble as trouble:
        return Graded(chapter=job.chapter, name=job.name, path=job.path, trouble=trouble)
    if job.path is not None and record:
        _record(marked.reports, job.cards, variant_params(job.path.parent), where)
    return Graded(
        chapter=job.chapter,
        name=job.name,
        path=job.path,
        reports=marked.reports,
        notes=(*job.submission.notes, *marked.notes),
    )


def variant_params(folder: Path) -> dict[str, exercises.Params]:
    """Exercise -> parameters from the variant file next to a notebook; empty for the canonical variant."""
    from course_grader.exercises import VARIANT_FILE

    try:
        given = json.loads((folder / VARIANT_FILE).read_text(encoding="utf-8")).get("exercises", {})
    except (OSError, ValueError, AttributeError):
        return {}
    if not isinstance(given, dict):
        return {}
    known = {card.id: card for card in exercises.cards()}
    return {
        name: {**known[name].params, **values}
        for name, values in given.items()
        if name in known and isinstance(values, dict)
    }


def _truth(card: Card, params: Mapping[str, Mapping[str, object]]) -> float | None:
    """The true value of a prediction; None for other exercises."""
    truth = judging(card.id).truth
    return None if truth is None else truth(params.get(card.id, card.params))


def _record(
    reports: Sequence[Report],
    cards: Sequence[Card],
    params: Mapping[str, Mapping[str, object]],
    where: learner_work.Folders,
) -> None:
    """Record what was earned in the learner's progress, and intervals for calibration; errors in writing are
    ignored."""
    from course_app.learner import progress

    known = {card.id: card for card in cards}
    for report in reports:
        if report.state == "not answered":
            continue
        with suppress(OSError):
            card = known[report.exercise]
            progress.record(progress_entry(report, card, _truth(card, params)), work=where.work)


def _progress(job: Job | Graded) -> None:
    print(f"checking {job.name} …", file=sys.stderr, flush=True)
