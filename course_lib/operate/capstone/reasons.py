"""A reason for each axis of a plan, in numbers: what the neighbor plan breaks or takes that has the axis removed, or
added; how many GPUs stop there with a lost server; and the code that the axis needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from course_lib.estimate.units import GB
from course_lib.operate.capstone.plans import DEGREES, Assessed, assess
from course_lib.operate.capstone.task import Task

AXES: Mapping[str, str] = {"tp": "tensor", "cp": "context", "pp": "pipeline schedules", "dp": "data"}


@cache
def lines_of_code(folders: str) -> int:
    """Lines that are not empty in folders of the course's own parallel code."""
    found = [each for folder in folders.split() for each in files(f"course_lib.parallel.{folder}").iterdir()]
    texts = [each.read_text(encoding="utf-8") for each in found if each.name.endswith(".py")]
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def code_of(axis: str) -> int:
    """Lines of the course's own code for one of `AXES`."""
    return lines_of_code(AXES[axis])


def neighbor(plan: Mapping[str, object], axis: str, task: Task) -> dict[str, object]:
    """The plan without one of its axes, whose ranks become data ranks; or, where it does not use the axis, with two
    ranks on it, taken from the data ranks. Without data ranks, fewer GPUs remain.

    Each micro-batch is one sequence. An odd number of data ranks has none to give: the neighbor needs twice the GPUs.
    """
    changed = {**DEGREES, **plan, "virtual": 1}
    degree = changed[axis]
    changed[axis] = 1 if degree > 1 else 2
    if axis != "dp" and degree > 1:
        changed["dp"] *= degree
    elif axis != "dp" and changed["dp"] % 2 == 0:
        changed["dp"] //= 2
    changed["microbatches"] = max(changed.get("sequences", task.sequences) // changed["dp"], 1)
    return changed


def stopped(plan: Mapping[str, object], task: Task) -> int:
    """GPUs of all replicas that have a rank in a lost server: ranks of tp and cp are neighbors, stages lie farthest
    apart."""
    chosen = {**DEGREES, **plan}
    return int(max(task.hardware().per_node, chosen["tp"] * chosen["cp"]) * chosen["pp"])


@dataclass(frozen=True, slots=True)
class Reason:
    """What speaks for or against an axis."""

    breaks: str  # the first bound that the neighbor breaks, one of `PROBLEMS`; "nothing" where it keeps all
    number: float  # GB for "memory", dollars for "budget", GPUs for "devices"; else days, NaN where it cannot run
    stops: int  # GPUs that stop with a lost server in the neighbor
    lines: int  # of code that the axis needs
    earned: bool  # not where a used axis can go without breaking a bound, and the run takes no longer


def reason(plan: Mapping[str, object], axis: str, task: Task) -> Reason:
    """The reason for the degree of an axis of a plan that can run."""
    other = neighbor(plan, axis, task)
    found = assess(other, task)
    breaks = found.problems[0] if found.problems else "nothing"
    used = {**DEGREES, **plan}[axis] > 1
    return Reason(
        breaks=breaks,
        number=_number(found, breaks),
        stops=stopped(other, task),
        lines=code_of(axis),
        earned=not used or breaks != "nothing" or found.days > assess(plan, task).days,
    )


def _number(found: Assessed, breaks: str) -> float:
    return {"memory": found.memory / GB, "budget": found.usd, "devices": float(found.gpus)}.get(breaks, found.days)
