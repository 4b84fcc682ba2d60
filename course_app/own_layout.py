"""A layout that somebody wrote down, such as "tp=8, pp=4, zero=1, microbatches=64, recompute=full", as a plan to be
judged; and what was published for such a job."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_lib.estimate import facts
from course_lib.estimate.memory.layout import CHUNKED, SCHEDULES, Layout
from course_lib.estimate.memory.shapes import shape
from course_lib.estimate.units import GB, number_text, percent_text
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.clusters import cluster as make_cluster
from course_lib.parallel.planner.estimating import estimate, offloaded
from course_lib.parallel.planner.job import CHECKPOINTING, Job
from course_lib.parallel.planner.search import NoPlan, Plan
from course_lib.parallel.planner.validity import in_words

NUMBERS = ("tp", "cp", "pp", "dp", "ep", "zero", "replicas", "virtual", "microbatches", "microbatch")
OFFLOADS = ("none", "moments", "state")
LARGEST = 1_000_000


def judged(text: str, job: Job, cluster: Cluster) -> Plan:
    """The plan of a layout in words. `dp` follows from the devices, and `microbatches` from `microbatch`, 1 sequence if
    neither is given.

    ValueError if a word is not understood; NoPlan with the reasons if the layout cannot run.
    """
    said = _parsed(text)
    recompute, schedule = said.pop("recompute", "none"), said.pop("schedule", "")
    offload = said.pop("offload", "none")
    if offload not in ("none", job.software.offloads):
        can = f"can keep its {job.software.offloads}" if job.software.offloads else "can keep nothing"
        raise ValueError(f"offload is {offload!r}; {job.software.name} {can} in the server's memory.")
    numbers = {name: _number(name, value) for name, value in said.items()}
    ranks = 1
    for name in ("tp", "cp", "pp"):
        ranks *= numbers.setdefault(name, 1)
    if "dp" not in numbers:
        if cluster.gpus % ranks:
            raise NoPlan(f"{_product(numbers)}, which does not divide the {cluster.gpus:,} devices.")
        numbers["dp"] = cluster.gpus // ranks
    elif ranks * numbers["dp"] != cluster.gpus:
        fits = f" With dp = {cluster.gpus // ranks} they are used." if cluster.gpus % ranks == 0 else ""
        raise NoPlan(f"{_product(numbers)}, and there are {cluster.gpus:,} devices.{fits}")
    size = numbers.pop("microbatch", 1)
    numbers.setdefault("microbatches", max(1, int(job.sequences) // (numbers["dp"] * size)))
    numbers.setdefault("zero", 1)
    usual = CHUNKED[0] if numbers.get("virtual", 1) > 1 else "1f1b"
    job = replace(job, recompute=recompute, offload=offload != "none")
    where = Layout(sp=numbers["tp"] > 1, schedule=schedule or usual, **numbers)
    found = estimate(job, cluster, where)
    if not found.ok:
        held = f" It holds {found.memory / GB:.1f} GB of {cluster.memory / GB:.0f} GB." if found.memory > 0 else ""
        room = f", for which its server has {cluster.server_memory / GB:.1f} GB"
        away = f" It offloads {offloaded(job, where) / GB:.1f} GB of each device{room}." if held and job.offload else ""
        raise NoPlan(f"This layout cannot run: {'; '.join(in_words(int(found.faults)))}.{held}{away}")
    return Plan(job=job, cluster=cluster, layout=where, estimate=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was printed for a model on a device, and what the planner says of the same layout."""

    step: facts.PublishedStep
    plan: Plan | None  # the printed layout as it is predicted here; None if it cannot run

    def ahead(self, best: Plan) -> float:
        """How much more tokens a second a device handles under a plan, as it is predicted: 0.1 is a tenth more."""
        return best.device_rate / self.step.tokens_per_s - 1


def published(job: Job, cluster: Cluster) -> Published | None:
    """The published step of this model on such devices: in this number format if there is one, and of the nearest
    number of devices."""
    same = [each for each in facts.steps() if each.device == cluster.device and shape(each.model) == job.shape]
    if not same:
        return None
    step = min(same, key=lambda each: (each.dtype != job.dtype, abs(math.log(each.gpus / cluster.gpus))))
    run = replace(job, seq=step.seq, sequences=step.sequences, dtype=step.dtype)
    try:
        plan = judged(step.layout, run, make_cluster(cluster.name, step.gpus))
    except NoPlan:
        plan = None
    return Published(step=step, plan=plan)


def compared(found: Published, best: Plan) -> str:
    """What was published for this model on such devices, beside the plan, in a line."""
    step, ahead = found.step, found.ahead(best)
    more = "more" if ahead >= 0 else "less"
    other = "" if best.job.dtype == step.dtype else f" in {step.dtype}"
    same = f", predicted here at {number_text(found.plan.device_rate, 4)}" if found.plan else ""
    return (
        f"Published: {step.software} on {step.gpus:,} x {step.device}, {step.dtype}, sequences of {step.seq:,}, "
        f"{step.layout}: {number_text(step.tokens_per_s, 4)} tokens/s a device{same}. The quickest plan is predicted "
        f"at {number_text(best.device_rate, 4)} in {best.job.dtype}, {percent_text(abs(ahead), 2)} {more} than "
        f"published{other}."
    )


def _product(numbers: Mapping[str, int]) -> str:
    """The degrees that are given and their product, in words."""
    given = {name: numbers[name] for name in ("tp", "cp", "pp", "dp") if name in numbers}
    return f"{' x '.join(given)} = {' x '.join(map(str, given.values()))} = {math.prod(given.values())}"


def _parsed(text: str) -> dict[str, str]:
    said: dict[str, str] = {}
    known = {"schedule": SCHEDULES, "recompute": CHECKPOINTING, "offload": OFFLOADS}
    for word in re.split(r"[,\s]+", text.strip()):
        name, _, value = word.partition("=")
        if name not in (*NUMBERS, *known):
            raise ValueError(f"{word!r} is no part of a layout; write name=value with {', '.join((*NUMBERS, *known))}.")
        if name in known and value not in known[name]:
            raise ValueError(f"{name} is {value!r}; choose from {', '.join(known[name])}.")
        if name in said:
            raise ValueError(f"{name} is given twice.")
        said[name] = value
    return said


def _number(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,7}", value) or not (name == "zero" or int(value) >= 1) or int(value) > LARGEST:
        least = 0 if name == "zero" else 1
        most = 3 if name == "zero" else LARGEST
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} to {most:,}.")
    return int(value)
