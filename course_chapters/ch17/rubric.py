"""How a plan is graded: lines that hold or do not, each with its value and its bound; and three graded plans as
examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from course_lib.estimate import running_plan
from course_lib.estimate.units import percent_text
from course_lib.operate.capstone.plans import PROBLEMS, Assessed, assess, layout_of
from course_lib.operate.capstone.task import COURSE, TOLERANCE, Task
from course_lib.parallel.mesh.plans import plan as drawn
from course_lib.parallel.planner.advice import CAUSES
from course_lib.parallel.planner.traffic import strides

EXPOSED = 0.1  # the largest share of a step that waits for the network between servers
BUBBLE = 0.1  # the largest share of a step in which a pipeline is idle
CLAIM = 0.05  # how far a defended number may be from the planner's, relative to it
LINES: Mapping[str, str] = {
    "runs": "the degrees multiply to whole servers and divide model and batch",
    "fits": "the fullest GPU keeps a twentieth of its memory free",
    "in time": "the run ends before the deadline, failures included",
    "in budget": "the device-hours cost no more than the budget",
    "enough tokens": f"the run sees the required tokens, with a batch within {percent_text(TOLERANCE)} of the task's",
    "wires": f"at most {percent_text(EXPOSED)} of a step waits for messages between servers",
    "bubble": f"at most {percent_text(BUBBLE)} of a step is the pipeline's bubble",
    "no needless work": "the plan recomputes only if it would not fit otherwise",
    "defended": f"each claimed number is within {percent_text(CLAIM)} of the planner's, and the named cause "
    f"costs the most",
}
CLAIMS = ("memory", "seconds", "days", "usd", "mfu")  # numbers of an assessment that a defense may claim
RECOMPUTED = ("full", "selective", "none")  # from the most work to the least


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a graded plan."""

    holds: bool
    value: float  # of the plan; NaN where it cannot run
    bound: float  # that the value may not exceed, or for tokens not fall below
    unit: str


def grade(task: Task, plan: Mapping[str, object], claims: Mapping[str, object] | None = None) -> dict[str, Line]:
    """Every line of `LINES` for a plan. `claims` gives any of `CLAIMS` and "binding", a key of `planner.advice.CAUSES`.

    A plan that cannot run fails every line. Without claims, "defended" does not hold.
    """
    found = assess(plan, task)
    if found.reasons:
        return {name: Line(False, found.days, bound, unit) for name, (bound, unit) in _bounds(found, task).items()}
    across = sum(found.parts[axis] for axis in crossing(plan, task)) / found.seconds
    off = _farthest(found, claims or {})
    values = {
        "runs": 0.0,
        "fits": found.memory,
        "in time": found.days,
        "in budget": found.usd,
        "enough tokens": found.tokens,
        "wires": across,
        "bubble": found.parts["bubble"] / found.seconds,
        "no needless work": float(_needless(plan, task)),
        "defended": off,
    }
    lines = {}
    for name, (bound, unit) in _bounds(found, task).items():
        holds = values[name] <= bound
        if name == "enough tokens":
            holds = "tokens" not in found.problems and "batch" not in found.problems
        lines[name] = Line(bool(holds), values[name], bound, unit)
    return lines


def _bounds(found: Assessed, task: Task) -> dict[str, tuple[float, str]]:
    bounds = (0, found.room, task.days, task.usd, task.required, EXPOSED, BUBBLE, 0, CLAIM)
    units = ("faults", "bytes", "days", "USD", "tokens", "of the step", "of the step", "recomputations", "apart")
    return {name: (float(bound), unit) for name, bound, unit in zip(LINES, bounds, units, strict=True)}


def crossing(plan: Mapping[str, object], task: Task) -> tuple[str, ...]:
    """The axes whose groups leave a server: those whose ranks reach farther than a server's devices."""
    layout, per_node = layout_of(plan), task.hardware().per_node
    apart = strides(layout)
    reach = {axis: apart[axis] * getattr(layout, axis) for axis in ("tp", "cp", "dp", "pp")}
    return tuple(axis for axis, ranks in reach.items() if getattr(layout, axis) > 1 and ranks > per_node)


def _needless(plan: Mapping[str, object], task: Task) -> bool:
    """Whether the same plan with less recomputation fits."""
    now = plan.get("recompute", "none")
    less = RECOMPUTED[RECOMPUTED.index(now) + 1 :]
    return any("memory" not in assess({**plan, "recompute": word}, task).problems for word in less)


def _farthest(found: Assessed, claims: Mapping[str, Any]) -> float:
    """The largest relative error of the claims; 1 where one is missing, or where the named cause does not cost the
    most."""
    if any(name not in claims for name in (*CLAIMS, "binding")):
        return 1.0
    largest = found.parts[found.binding]
    if claims["binding"] not in CAUSES or found.parts[claims["binding"]] < (1 - CLAIM) * largest:
        return 1.0
    return max(abs(float(claims[name]) / getattr(found, name) - 1) for name in CLAIMS)


class Claims(TypedDict):
    """The numbers that a plan is defended with, and the cause that costs the most."""

    memory: float
    seconds: float
    days: float
    usd: float
    mfu: float
    binding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """A plan with its defense, and what a grader notes."""

    plan: Mapping[str, object]
    claims: Claims
    notes: tuple[str, ...]


def exemplars(task: Task = COURSE) -> dict[str, Exemplar]:
    """A good plan, a plausible one that does not fit, and a wasteful one, for the course's task."""
    good = {**running_plan.PLAN, "microbatches": task.sequences // running_plan.LAYOUT["dp"]}
    broken = {"tp": 4, "pp": 4, "dp": 4, "microbatches": 128}
    wasteful = {**good, "recompute": "full"}
    notes = {
        "good": (
            "Tensor parallelism stays inside a server, and the slow wire carries only stages and a gradient sum "
            "once a step.",
            "Memory is not filled to the brim, so the plan survives a prediction that is a few percent too low.",
            "The defense names the price: tensor-parallel messages, which nothing hides.",
        ),
        "broken": (
            "The step is quicker than the good plan's, and the dollars are right.",
            "The claimed memory counts one micro-batch. The first stage keeps one for each stage of the pipeline.",
            "The run stops in its first step with an out-of-memory error.",
        ),
        "wasteful": (
            "Recomputation saves memory that is free anyway: the same layout fits without it.",
            "It lengthens every step by a third, and the run misses the deadline and the budget.",
            "The claims are right. A defended number does not make a plan good.",
        ),
    }
    plans: dict[str, Mapping[str, object]] = {"good": good, "broken": broken, "wasteful": wasteful}
    return {
        name: Exemplar(plan=plan, claims=_claimed(name, plan, task), notes=notes[name]) for name, plan in plans.items()
    }


def _claimed(name: str, plan: Mapping[str, object], task: Task) -> Claims:
    """The numbers that the defense states: the planner's, but for the broken plan's memory, which counts one
    micro-batch in flight."""
    found = assess(plan, task)
    claims: Claims = {
        "memory": found.memory,
        "seconds": found.seconds,
        "days": found.days,
        "usd": found.usd,
        "mfu": found.mfu,
        "binding": found.binding,
    }
    if name == "broken":
        layout = layout_of(plan)
        tp, cp, pp = int(layout.tp), int(layout.cp), int(layout.pp)
        held = drawn(task.model, found.gpus, sequences=task.sequences, seq=task.seq, tp=tp, cp=cp, pp=pp).held
        claims["memory"] -= (1 - 1 / pp) * held["activations"]
    return claims


__all__ = ["CLAIMS", "LINES", "PROBLEMS", "Exemplar", "Line", "crossing", "exemplars", "grade"]
