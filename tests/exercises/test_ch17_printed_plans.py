"""No plan that is printed anywhere in the course solves the capstone, whatever it leaves open; and the change breaks
the plans that do."""

import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from course_chapters.ch17.exercises.capstone_plan import CARD, JOBS, _task
from course_chapters.ch17.exercises.judges.capstone_plan import JUDGING
from course_grader.records import Case, Outcome
from course_lib.estimate import compute, facts, running_plan
from course_lib.estimate.units import DAY
from course_lib.operate import capstone
from course_lib.operate.capstone import Task, assess, changed
from course_lib.operate.capstone.failure_log import weak_part
from course_lib.operate.capstone.plans import best
from course_lib.parallel import planner
from course_lib.parallel.planner.search import one_of, tried
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
PAIR = re.compile(r"\b(tp|cp|pp|dp|zero)\b[\"']?\s*[:=\- ]\s*(\d{1,4})\b", re.IGNORECASE)
RUN = re.compile(rf"(?:{PAIR.pattern}[\s,×x·*/\"'({{]*)+", re.IGNORECASE)
OPEN = {"zero": (1, 3), "recompute": ("none", "full")}


def printed() -> list[dict[str, int]]:
    """The degrees of every plan in the texts of chapters, pages, commands, tables, widgets and facts."""
    texts = [
        "".join(cell["source"])
        for path in sorted(ROOT.glob("notebooks/*/*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]
    sources = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("course_app/**/*.py")]
    sources += [path for path in ROOT.glob("course_chapters/**/*.py") if "judges" not in path.parts]
    sources += [*ROOT.glob("course_lib/operate/**/*.py"), *ROOT.glob("course_lib/parallel/planner/*.py")]
    texts += [path.read_text(encoding="utf-8") for path in sources]
    texts += [step.layout for step in facts.steps()]
    job, cluster = capstone.COURSE.job(), capstone.COURSE.hardware()
    searched = [*planner.search(job, cluster, top=8), *planner.choices(job, cluster).values()]
    texts += [str({name: getattr(one.layout, name) for name in ("tp", "cp", "pp", "dp")}) for one in searched]
    texts += [str(dict(running_plan.PLAN)), str(dict(running_plan.SHARDED))]
    found = {}
    for text in texts:
        for run in RUN.finditer(text):
            degrees = {name.lower(): int(number) for name, number in PAIR.findall(run[0])}
            if all(degrees.get(axis, 1) >= 1 for axis in ("tp", "cp", "pp", "dp")) and degrees.get("zero", 1) <= 3:
                found[tuple(sorted(degrees.items()))] = degrees
    return list(found.values())


def submitted(plan: dict[str, int], task: Task) -> Iterator[dict[str, object]]:
    """The plan as it is printed, with every choice that it leaves open; even with the weak part left out, and tokens
    lowered as far as the task allows."""
    weak = [each for each in weak_part(task.log)[1] if each < task.servers]
    choices = {name: (plan[name],) if name in plan else values for name, values in OPEN.items()}
    gpus = math.prod(plan.get(axis, 1) for axis in ("tp", "cp", "pp", "dp"))
    at_peak = compute.train_seconds(planner.used_params(task.job()), task.required, task.hardware().peak, devices=gpus)
    if gpus > task.gpus or at_peak > task.days * DAY:
        return  # too many GPUs, or too few even if all computed at their peak rate
    for zero, recompute in itertools.product(*choices.values()):
        once = {**plan, "zero": zero, "recompute": recompute, "without": weak, "tokens": task.required}
        yield once | {"microbatches": max(task.sequences // plan.get("dp", 1), 1)}


def jobs() -> Iterator[tuple[Task, Task]]:
    for row in JOBS:
        task = capstone.job(SimpleNamespace(**_task(row)))
        yield task, changed(task, row[-1])


def test_the_texts_have_the_plans_that_one_reads_there():
    degrees = [{name: number for name, number in plan.items() if name != "zero"} for plan in printed()]
    for known in ({"tp": 8, "pp": 4, "dp": 2}, {"tp": 2, "cp": 4, "pp": 8}, {"tp": 8, "pp": 16, "cp": 16, "dp": 4}):
        assert known in degrees, known
    assert len(degrees) > 30


def test_no_printed_plan_solves_a_job_or_what_the_change_leaves_of_it():
    plans = printed()
    for task in {one for both in jobs() for one in both}:
        solved = [each for plan in plans for each in submitted(plan, task) if assess(each, task).ok]
        assert not solved, (task.model, task.cluster, solved[:3])


def test_a_copied_plan_earns_what_the_log_earns():
    params, task = CARD.params, next(jobs())[0]
    for plan in (running_plan.PLAN, running_plan.SHARDED):
        found = assess(plan, task)
        defense = {"memory": found.memory / 1e9, "days": found.days, "usd": found.usd, "binding": found.binding}
        pair = dict(plan), defense | {"weak": weak_part(task.log)[0], "reasons": {}}
        verdicts = JUDGING.verdicts(params, Case(name="your plans"), Outcome(state="answered", value=[pair, pair]))
        assert [each.part for each in verdicts if each.ok] == ["weak"]


@pytest.mark.slower
@each_of("number", range(len(JOBS)))
def test_the_change_breaks_every_plan_that_solves_the_first_job(number):
    """Also where its micro-batches, tokens and left-out servers follow the change."""
    task, after = list(jobs())[number]
    chosen = best(task)
    found, cluster = assess(chosen, task), task.hardware(assess(chosen, task).gpus)
    several = 0
    for job, many, estimate in tried(task.job(), cluster, ("1f1b", "interleaved")):
        days = task.tokens / np.asarray(estimate.tokens_per_second) / DAY / found.goodput
        for at in np.nonzero(np.asarray(estimate.ok) & (days <= task.days))[0]:
            layout = one_of(many, int(at))
            plan = {name: getattr(layout, name) for name in ("tp", "cp", "pp", "dp", "zero", "microbatches", "virtual")}
            plan |= {name: chosen[name] for name in ("without", "checkpoint_minutes")} | {"recompute": job.recompute}
            if layout.replicas > 1 or not assess(plan, task).ok:
                continue
            several += 1
            for batches, without in itertools.product(
                {plan["microbatches"], max(after.sequences // plan["dp"], 1)}, ((), chosen["without"])
            ):
                kept = {**plan, "microbatches": batches, "without": without, "tokens": after.required}
                assert not assess(kept, after).ok, kept
    assert several >= 4  # more than one way to solve it


@pytest.mark.slower
def test_every_job_and_what_the_change_leaves_has_a_plan_and_bounds_are_tight():
    for task, after in jobs():
        found = assess(best(task), task)
        assert found.ok and 1.04 < task.days / found.days < 1.06 and 1.04 < task.usd / found.usd < 1.06
        again = best(after)
        assert assess({**again, "tokens": capstone.affordable(again, after)}, after).ok
        kept = assess({**best(task), "without": []}, replace(task, days=1e9, usd=1e12))
        weak = weak_part(task.log)[0]
        assert weak == "none" or kept.days > task.days, weak  # whoever keeps the weak part is late
