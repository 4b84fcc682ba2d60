"""The task of a capstone: a model to train on a cluster, with a deadline and a budget; and the changes that may hit
it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from course_lib.estimate import running_plan
from course_lib.estimate.units import BILLION, percent_text
from course_lib.operate.capstone.failure_log import FailureLog, drawn_log
from course_lib.parallel import planner

SLOWER = 4.0  # how many times slower the network becomes under the change "slower wire"
LONGER = 4  # how many times longer a sequence becomes under "longer context"
EXTRA = 1.7  # how far deadline and budget are raised with the longer context: it needs more FLOPs for each token
SLOWER_SHARE = 0.85  # of the tokens that a run on the slower network must see
RACK = 2  # servers that share a rack
LOST_SHARE = 0.85  # of the tokens that the servers left would reach in proportion
TOLERANCE = 0.05  # by which a plan may change the batch where its degrees do not divide it


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What must be trained, on what, by when and for how much."""

    model: str = running_plan.MODEL  # a name or a config's path for `memory.find_model`
    cluster: str = f"{running_plan.GPUS}xH100"  # a name for `planner.cluster`
    tokens: float = 120 * BILLION  # that the run should see
    least_tokens: float | None = None  # that it must see; None: all of `tokens`
    seq: int = running_plan.SEQ  # tokens of a sequence
    sequences: int = running_plan.SEQUENCES  # global batch
    days: float = 28.0  # deadline, failures included
    usd: float = 85_000.0  # budget for device-hours
    across_share: float = 1.0  # of the usual bandwidth between servers
    usd_per_hour: float | None = None  # of one device; None: the cluster's price
    log: FailureLog | None = None  # of the cluster's servers; None: they fail as often as published ones

    @property
    def gpus(self) -> int:
        """Devices that can be used."""
        return int(re.match(r"\d+", self.cluster)[0])  # type: ignore[index]

    @property
    def device(self) -> str:
        """The cluster's name without its size."""
        return self.cluster.split("x", 1)[1]

    @property
    def servers(self) -> int:
        """Servers of the cluster."""
        return self.gpus // self.hardware().per_node

    @property
    def required(self) -> float:
        """The tokens that a plan may not fall below."""
        return self.tokens if self.least_tokens is None else self.least_tokens

    def hardware(self, gpus: int | None = None) -> planner.Cluster:
        """The cluster, or so many of its devices, with the task's network and price."""
        found = _cluster(self.device, gpus or self.gpus)
        wire = replace(found.across, bandwidth=found.across.bandwidth * self.across_share)
        price = found.usd_per_hour if self.usd_per_hour is None else self.usd_per_hour
        return replace(found, across=wire, usd_per_hour=price)

    def job(self, recompute: str = "none", sequences: int | None = None) -> planner.Job:
        """One optimizer step as the planner takes it."""
        return planner.Job(
            model=self.model,
            seq=self.seq,
            sequences=sequences or self.sequences,
            recompute=recompute,
            software=planner.TAUGHT,
        )


@cache
def _cluster(device: str, gpus: int) -> planner.Cluster:
    return planner.printed_cluster(device, gpus)


COURSE = Task()


class Numbers(Protocol):
    """The numbers of a task, as `params("capstone-plan")` has them."""

    model: str
    cluster: str
    seq: int
    sequences: int
    billions: float  # of tokens
    days: float
    usd: float
    log: int  # the seed of the failure log


def job(numbers: Numbers) -> Task:
    """The task that numbers describe: any object with such attributes as `params("capstone-plan")` has."""
    names = ("model", "cluster", "seq", "sequences", "days", "usd")
    task = Task(tokens=numbers.billions * BILLION, **{name: getattr(numbers, name) for name in names})
    return replace(task, log=drawn_log(task.servers, numbers.log))


def _lost(task: Task, servers: int) -> Task:
    left = task.gpus - servers * task.hardware().per_node
    return replace(task, cluster=f"{left}x{task.device}", least_tokens=LOST_SHARE * left / task.gpus * task.tokens)


def _longer(task: Task) -> Task:
    return replace(
        task, seq=LONGER * task.seq, sequences=task.sequences // LONGER, days=EXTRA * task.days, usd=EXTRA * task.usd
    )


_EFFECTS: Mapping[str, tuple[str, Callable[[Task], Task]]] = {
    "slower wire": (
        f"The network between servers becomes {SLOWER:g} times slower. The run may see "
        f"{percent_text(1 - SLOWER_SHARE)} fewer tokens.",
        lambda task: replace(task, across_share=task.across_share / SLOWER, least_tokens=SLOWER_SHARE * task.tokens),
    ),
    "half the budget": (
        "Half of the money is left. The run may see fewer tokens, but at least two fifths of them.",
        lambda task: replace(task, usd=task.usd / 2, least_tokens=0.4 * task.tokens),
    ),
    "longer context": (
        f"Sequences become {LONGER} times longer at the same tokens per batch. Deadline and budget grow by "
        f"{percent_text(EXTRA - 1)}.",
        _longer,
    ),
    "lost server": (
        "One server is lost for good. The batch may change by up to a twentieth, if degrees no longer divide it, and "
        f"the run may see fewer tokens: {percent_text(LOST_SHARE)} of what the GPUs left would reach in proportion.",
        lambda task: _lost(task, 1),
    ),
    "lost rack": (
        f"The last {RACK} servers, which share a rack, are lost for good. The batch may change by up to a twentieth, "
        f"and the run may see fewer tokens: {percent_text(LOST_SHARE)} of what the GPUs left would reach in "
        "proportion.",
        lambda task: _lost(task, RACK),
    ),
    "earlier deadline": (
        "The run must end in three fifths of the time. It may see fewer tokens, but at least half of them.",
        lambda task: replace(task, days=0.6 * task.days, least_tokens=0.5 * task.tokens),
    ),
}
CHANGES: Mapping[str, str] = {name: words for name, (words, _) in _EFFECTS.items()}


def changed(task: Task, name: str) -> Task:
    """The task after one of `CHANGES`. ValueError for another name."""
    if name not in _EFFECTS:
        raise ValueError(f"{name!r} is no change; choose from {', '.join(CHANGES)}.")
    return _EFFECTS[name][1](task)
