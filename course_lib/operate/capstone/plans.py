"""A plan for a task: its layout, what the whole run costs with failures included, and which bounds it breaks."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from course_lib.estimate import compute, facts
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.recipes import convention
from course_lib.estimate.memory.shapes import count_params
from course_lib.estimate.running_plan import CHECKPOINT_BYTES, CONVENTION
from course_lib.estimate.units import (
    DAY,
    GB,
    HOUR,
    MINUTE,
    bytes_text,
    duration_text,
    money_text,
    number_text,
    percent_text,
)
from course_lib.operate import faults
from course_lib.operate.capstone.failure_log import weak_part
from course_lib.operate.capstone.task import TOLERANCE, Task
from course_lib.parallel import planner
from course_lib.parallel.planner.estimating import RESERVE
from course_lib.parallel.planner.step import Step

STORAGE = 10 * GB  # bytes/s of shared storage: an assumption of the plan
PUBLISHED = "Llama 3.1 405B"  # whose failures a cluster without a log has
RESTART = 10 * MINUTE  # from a failure to the next step: an assumption of the plan
DEGREES: Mapping[str, Any] = {
    "tp": 1,
    "cp": 1,
    "pp": 1,
    "dp": 1,
    "zero": 1,
    "microbatches": 1,
    "virtual": 1,
    "recompute": "none",
}
# A plan may change the batch a little, and the tokens where the task allows it. It may leave servers out, and choose
# the minutes between two checkpoints; by default they are the best for the published rate of failures.
OPTIONAL = ("sequences", "tokens", "without", "checkpoint_minutes")
PROBLEMS: Mapping[str, str] = {
    "servers": "a server is left out that the cluster does not have",
    "devices": "the degrees do not multiply to whole servers of the cluster",
    "layout": "the degrees do not divide the model or the batch",
    "batch": f"the batch differs from the task's by more than {percent_text(TOLERANCE)}",
    "tokens": "the run sees fewer tokens than the task requires",
    "memory": f"the fullest GPU has less than {percent_text(RESERVE)} of its memory in reserve",
    "deadline": "the run ends after the deadline",
    "budget": "the run costs more than the budget",
}
NO_STEP = Step(**dict.fromkeys(Step.__dataclass_fields__, math.nan))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """What a plan costs. Numbers are NaN where the layout cannot run."""

    gpus: int
    memory: float  # bytes of the fullest GPU
    room: float  # bytes that it may hold
    seconds: float  # of a step
    goodput: float  # useful time over elapsed time
    between: float  # seconds between two failures, on average
    saving: float  # seconds that a checkpoint takes
    days: float  # of the run, failures included
    usd: float  # of the run
    mfu: float  # a fraction, by chapter 01's definition
    tokens: float  # that the run sees
    parts: Mapping[str, float]  # seconds of a step, by cause
    sent: Mapping[str, float]  # bytes that a GPU sends in a step, by axis
    binding: str  # the cause with the most seconds besides the model's own products and attention
    problems: tuple[str, ...]  # of PROBLEMS
    reasons: tuple[str, ...]  # why the layout cannot run

    @property
    def ok(self) -> bool:
        """Whether the plan can run and meets every bound."""
        return not self.problems


def layout_of(plan: Mapping[str, object]) -> Layout:
    """The layout that a plan's degrees describe. ValueError that names a key which no plan has."""
    _known(plan)
    chosen = {**DEGREES, **plan}
    degrees = {name: chosen[name] for name in ("tp", "cp", "pp", "dp", "zero", "microbatches", "virtual")}
    schedule = "interleaved" if degrees["virtual"] > 1 else "1f1b"
    return Layout(sp=degrees["tp"] > 1, schedule=schedule, **degrees)


def _known(plan: Mapping[str, object]) -> None:
    if unknown := [name for name in plan if name not in DEGREES and name not in OPTIONAL]:
        raise ValueError(f"A plan has no {unknown[0]!r}; it has {', '.join((*DEGREES, *OPTIONAL))}.")
    without = plan.get("without", ())
    if not isinstance(without, list | tuple | set) or any(type(each) is not int for each in without):
        raise ValueError(f"without is {without!r}; it is a list of numbers of servers, such as [3].")


def assess(plan: Mapping[str, object], task: Task) -> Assessed:
    """What `plan` costs on `task` and which bounds it breaks. The layout may use fewer servers than the cluster has.

    ValueError for a key that no plan has, and for servers to leave out that are no list of numbers; degrees that cannot
    be are the problem "layout". The last few thousand are kept: a search asks for the same plans again.
    """
    key = task, *((name, type(value), value) for name, value in plan.items())
    try:
        kept = _kept.get(key)
    except TypeError:  # a value that no plan has, such as a list
        return _assessed(plan, task)
    if kept is None:
        if len(_kept) >= KEPT:
            _kept.clear()
        kept = _kept[key] = _assessed(plan, task)
    return replace(kept, parts=dict(kept.parts), sent=dict(kept.sent))


KEPT = 5_000  # plans
_kept: dict[Hashable, Assessed] = {}


def _assessed(plan: Mapping[str, Any], task: Task) -> Assessed:
    sequences, tokens = int(plan.get("sequences", task.sequences)), float(plan.get("tokens", task.tokens))
    _known(plan)
    try:
        layout = layout_of(plan)
        job = task.job(plan.get("recompute", "none"), sequences)
    except ValueError as error:
        return _impossible(0, tokens, task, "layout", (str(error),))
    gpus, per_node = int(layout.ranks), task.hardware().per_node
    without = set(plan.get("without", ()))
    if gone := without.difference(range(task.servers)):
        reasons = (f"there is no server {min(gone)}; the servers are 0 to {task.servers - 1}",)
        return _impossible(gpus, tokens, task, "servers", reasons)
    servers = [each for each in range(task.servers) if each not in without]
    if gpus > per_node * len(servers) or (gpus > per_node and gpus % per_node):
        return _impossible(gpus, tokens, task, "devices", (PROBLEMS["devices"],))
    cluster = task.hardware(gpus)
    bits = int(planner.faults(job, cluster, layout))
    if bits:
        return _impossible(gpus, tokens, task, "layout", planner.in_words(bits))
    found = planner.estimate(job, cluster, layout)
    published = faults.mtbf(gpus, facts.failure_log(PUBLISHED).rate / HOUR)
    between = task.log.seconds_between(servers[: -(-gpus // per_node)]) if task.log else published
    saving = faults.checkpoint_seconds(float(count_params(job.shape)) * CHECKPOINT_BYTES, STORAGE)
    interval = MINUTE * plan.get("checkpoint_minutes", faults.best_interval(saving, published) / MINUTE)
    goodput = faults.expected_goodput(interval, saving, between, RESTART)
    days = tokens / float(found.tokens_per_second) / DAY / goodput
    usd = days * DAY / HOUR * gpus * cluster.usd_per_hour
    room = (1 - RESERVE) * cluster.memory
    memory = float(found.memory)
    broken = {
        "batch": abs(sequences / task.sequences - 1) > TOLERANCE,
        "tokens": tokens < task.required * (1 - 1e-9),
        "memory": memory > room,
        "deadline": days > task.days,
        "budget": usd > task.usd,
    }
    problems = [name for name, holds in broken.items() if holds]
    parts = {name: float(each) for name, each in found.step.parts.items()}
    return Assessed(
        gpus=gpus,
        memory=memory,
        room=room,
        seconds=float(found.seconds),
        goodput=goodput,
        between=between,
        saving=saving,
        days=days,
        usd=usd,
        mfu=float(found.mfu),
        tokens=tokens,
        parts=parts,
        sent={axis: float(each) for axis, each in planner.traffic(job, layout).items()},
        binding=max((name for name in parts if name not in ("matmul", "attention")), key=parts.__getitem__),
        problems=tuple(problems),
        reasons=(),
    )


def _impossible(gpus: int, tokens: float, task: Task, problem: str, reasons: tuple[str, ...]) -> Assessed:
    nan = math.nan
    return Assessed(
        gpus=gpus,
        memory=nan,
        room=(1 - RESERVE) * task.hardware().memory,
        seconds=nan,
        goodput=nan,
        between=nan,
        saving=nan,
        days=nan,
        usd=nan,
        mfu=nan,
        tokens=tokens,
        parts=dict.fromkeys(NO_STEP.parts, nan),
        sent={},
        binding="",
        problems=(problem,),
        reasons=reasons,
    )


def best(task: Task, gpus: int | None = None) -> dict[str, object]:
    """The plan that fits with the most tokens a second, on all of the cluster's devices or on `gpus` of them; the
    bounds are not looked at. With a failure log, it leaves the weak servers out and saves as often as is best.

    Where the number of devices has odd factors, batches within the tolerance that they divide are tried too.
    planner.NoPlan if nothing fits.
    """
    without = [each for each in weak_part(task.log)[1] if each < task.servers]
    cluster, plans = task.hardware(gpus or task.gpus - task.hardware().per_node * len(without)), []
    for sequences in _batches(task, cluster.gpus):
        try:
            plans += planner.search(task.job(sequences=sequences), cluster, top=1)
        except planner.NoPlan as error:
            nothing = error
    if not plans:
        raise nothing
    plan = max(plans, key=lambda each: float(each.estimate.tokens_per_second))
    degrees = {name: int(getattr(plan.layout, name)) for name in DEGREES if name != "recompute"}
    found = {**degrees, "recompute": plan.job.recompute}
    if plan.job.sequences != task.sequences:
        found["sequences"] = int(plan.job.sequences)
    if not task.log:
        return found
    failing = assess({**found, "without": without}, task)
    minutes = round(faults.best_interval(failing.saving, failing.between) / MINUTE)
    return {**found, "without": without, "checkpoint_minutes": minutes}


def _batches(task: Task, gpus: int) -> list[int]:
    """The task's batch; and for each odd divisor of the devices the batch within the tolerance that it divides with the
    most factors of two."""
    odd = gpus // math.gcd(gpus, 2**20)
    within = range(task.sequences, math.ceil(task.sequences * (1 - TOLERANCE)) - 1, -1)
    found = [task.sequences]
    for divisor in (each for each in range(3, odd + 1, 2) if odd % each == 0):
        fitting = [each for each in within if each % divisor == 0]
        found += [max(fitting, key=lambda each: math.gcd(each, 2**20))] if fitting else []
    return found


def affordable(plan: Mapping[str, object], task: Task) -> float:
    """The tokens that a plan can train within deadline and budget, at most the task's."""
    whole = assess({**plan, "tokens": task.tokens}, replace(task, least_tokens=0.0))
    return task.tokens * min(1.0, (1 - 1e-9) * task.days / whole.days, (1 - 1e-9) * task.usd / whole.usd)


def budget_page(plan: Mapping[str, Any], task: Task) -> list[tuple[str, str, str]]:
    """The plan on one page: (line, choice, what follows from it in numbers)."""
    one, job, layout = assess(plan, task), task.job(plan.get("recompute", "none")), layout_of(plan)
    params, state = float(count_params(job.shape)), convention(CONVENTION)
    minutes = plan.get("checkpoint_minutes", faults.best_interval(one.saving, one.between) / MINUTE)
    steps = one.tokens / float(job.tokens)
    degrees = " × ".join(
        f"{name} {getattr(layout, name)}" for name in ("tp", "cp", "pp", "dp") if getattr(layout, name) > 1
    )
    flops = compute.train_flops(planner.used_params(job), one.tokens)
    return [
        (
            "parameters",
            task.model,
            f"{number_text(params / 1e9)}B; {bytes_text(params * state.bytes_per_param)} of training state in all",
        ),
        (
            "tokens",
            f"{number_text(one.tokens / 1e9)} B",
            f"{number_text(one.tokens / params, 2)} for each parameter; {flops:.1e} FLOP",
        ),
        (
            "precision",
            "bf16 with fp32 master copy",
            f"bytes per parameter: {state.weights} of weights, {state.grads} of gradients, "
            f"{state.master + state.moments} of optimizer state",
        ),
        ("batch", f"{job.sequences} × {job.seq:,} tokens", f"{steps:,.0f} steps"),
        (
            "parallelism",
            f"{degrees}, ZeRO-{layout.zero}, recompute {job.recompute}",
            f"{bytes_text(one.memory)} of {bytes_text(one.room)}; {duration_text(one.seconds)} a step, MFU "
            f"{percent_text(one.mfu)}",
        ),
        (
            "optimizer",
            "AdamW, state divided over the data ranks",
            f"{duration_text(one.parts['optimizer'])} of each step",
        ),
        (
            "checkpoint",
            f"{bytes_text(params * CHECKPOINT_BYTES)} every {duration_text(minutes * MINUTE)}",
            f"a failure every {duration_text(one.between)}; goodput {percent_text(one.goodput, 3)}",
        ),
        (
            "validation",
            "held-out loss at every checkpoint",
            "compared with the scaling law's prediction, not with the training loss",
        ),
        (
            "the run",
            f"{number_text(one.days)} days",
            f"{money_text(one.usd)} of {money_text(task.usd)}, {number_text(task.days)} days allowed",
        ),
    ]
