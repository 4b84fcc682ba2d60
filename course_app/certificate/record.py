"""What a certificate says, as plain data: every answer of the work folder judged now, and the predictions that were
recorded."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import course_lib
from course_app.check.command import Job, Say, grade_all, jobs, variant_params
from course_app.check.results import Graded
from course_app.learner import progress
from course_app.learner.work import Folders
from course_grader.exercises import Card, card, cards
from course_grader.judging import judging
from course_grader.records import VERDICT_KINDS, Report
from course_lib.messages import Trouble

FORM = 1  # of the data in the page

Record = dict[str, Any]


def gather(where: Folders, name: str, date: str, chapters: Sequence[str] = (), say: Say | None = None) -> Record:
    """The record of these chapters, or of all chapters in which something was passed; Trouble if there is nothing.

    Nothing in the work folder is changed. `date` is a day, as in 2026-11-23.
    """
    kept = progress.load(where.work)["exercises"]
    passed = {card(id_).chapter for id_, entry in kept.items() if entry.get("passed") and _is_known(id_)}
    chosen = sorted(chapters or passed)
    if not chosen:
        raise Trouble(
            "Nothing is passed in your work folder yet.",
            "`./course learn` opens the course; a check that passes is recorded",
        )
    made = jobs(chosen, where, solved=False, blank_=False, all_=False)
    graded = grade_all(chosen, where, record=False, say=say)
    for each in graded:
        if each.trouble is not None:
            raise each.trouble
    found = [_chapter(job, result) for job, result in zip(made, graded, strict=True) if isinstance(job, Job)]
    return {
        "form": FORM,
        "course": course_lib.__version__,
        "name": name,
        "date": date,
        "chapters": found,
        "predictions": _predictions(made, kept),
        "trainer": _trainer(where),
    }


def _is_known(exercise: str) -> bool:
    return any(exercise == each.id for each in cards())


def _chapter(job: Job, result: Graded) -> Record:
    """One chapter: its exercises in order, and the digest of each answer."""
    known = {each.id: each for each in job.cards}
    rows = [_exercise(known[report.exercise], report, job) for report in result.reports]
    return {"chapter": job.chapter, "title": _title(job), "exercises": rows}


def _title(job: Job) -> str:
    first = next((cell["source"] for cell in job.source["cells"] if cell["cell_type"] == "markdown"), "")
    heading = next((line for line in first.splitlines() if line.startswith("# ")), f"# {job.name}")
    return heading.removeprefix("# ").split("·", 1)[-1].strip()


def _exercise(asked: Card, report: Report, job: Job) -> Record:
    held = report.by_kind()
    return {
        "id": asked.id,
        "title": asked.title,
        "core": asked.kind == "core",
        "points": report.points,
        "maximum": report.maximum,
        "passed": report.passed,
        "verdicts": {kind: held[kind] for kind in VERDICT_KINDS if kind in held},
        "answer": digest(job, asked.id),
    }


def digest(job: Job, exercise: str) -> str:
    """SHA-256 of an answer's cells in the learner's notebook, the first 16 hexadecimal digits; "" without an answer."""
    cells = [step.source for step in job.submission.steps if step.whose == "answer" and step.exercise == exercise]
    return hashlib.sha256("\n\n".join(cells).encode()).hexdigest()[:16] if cells else ""


def _predictions(made: Sequence[Job | Graded], kept: Mapping[str, progress.Entry]) -> list[Record]:
    """The first interval of each prediction, with the truth computed again."""
    found = []
    for job in made:
        own = variant_params(job.path.parent) if isinstance(job, Job) and job.path else {}
        for asked in job.cards if isinstance(job, Job) else ():
            interval, contract = kept.get(asked.id, {}).get("interval"), judging(asked.id)
            if interval and contract.truth is not None:
                truth = float(contract.truth({**asked.params, **own.get(asked.id, {})}))
                low, high = interval
                found.append(
                    {
                        "id": asked.id,
                        "title": asked.title,
                        "low": low,
                        "high": high,
                        "truth": truth,
                        "held": low <= truth <= high,
                    }
                )
    return found


def _trainer(where: Folders) -> Record:
    """How many parts of the learner's own trainer are theirs; none where the course's own answers are missing."""
    from course_app.own_trainer.answers import collected
    from course_app.own_trainer.kit.parts import PARTS

    try:
        parts = collected(where)
    except Trouble:
        return {"yours": 0, "parts": len(PARTS)}
    return {"yours": sum(part.yours for part in parts.values()), "parts": len(parts)}


def counts(exercises: Sequence[Record]) -> dict[str, tuple[int, int]]:
    """Kind of verdict -> (exercises for which it holds, exercises for which it was asked)."""
    found: dict[str, tuple[int, int]] = {}
    for kind in VERDICT_KINDS:
        asked = [each["verdicts"][kind] for each in exercises if kind in each["verdicts"]]
        found[kind] = sum(asked), len(asked)
    return found
