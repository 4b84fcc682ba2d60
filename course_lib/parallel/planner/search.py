"""Every layout of a job on a cluster, estimated at once; the best few, and those that nothing beats in time, memory and
cost."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from course_lib.estimate.memory.layout import CHUNKED, Layout
from course_lib.estimate.units import DAY, GB, number_text
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.estimating import RESERVE, Estimate, estimate, offloaded
from course_lib.parallel.planner.job import Job
from course_lib.parallel.planner.validity import REASONS

DEGREES = ("tp", "sp", "cp", "pp", "dp", "ep", "zero", "replicas", "virtual", "microbatches")
RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One layout with its estimate."""

    job: Job
    cluster: Cluster
    layout: Layout
    estimate: Estimate

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return float(self.estimate.seconds)

    @property
    def memory(self) -> float:
        """Bytes of the fullest rank."""
        return float(self.estimate.memory)

    @property
    def micro(self) -> int:
        """Sequences of a micro-batch."""
        return int(self.job.sequences // (self.layout.dp * self.layout.microbatches))

    @property
    def device_rate(self) -> float:
        """Tokens a second on one device."""
        return float(self.estimate.tokens_per_second) / self.cluster.gpus

    def days(self, tokens: float) -> float:
        """Days until the run has seen this many tokens, without failures."""
        return tokens / float(self.estimate.tokens_per_second) / DAY

    def usd(self, tokens: float) -> float:
        """Dollars for this many tokens; 0 where the cluster has no known price."""
        return tokens / float(self.job.tokens) * float(self.estimate.usd_per_step)


class NoPlan(ValueError):
    """No layout can run; the message names what comes nearest."""


def divisors(number: int, most: int | None = None) -> list[int]:
    """The divisors of a number, up to `most`, ascending."""
    return [each for each in range(1, min(number, most or number) + 1) if number % each == 0]


def layouts(
    job: Job, cluster: Cluster, *, schedule: str = "1f1b", zero: Sequence[int] = (1, 3), most_tp: int | None = None
) -> Layout:
    """Every layout that can run, as one `Layout` of arrays: degrees that divide what they cut, all micro-batches that
    divide the batch.

    tp stays inside a server unless `most_tp` allows more. With interleaving, `virtual` takes every divisor of a stage's
    layers.
    """
    one = job.shape
    if job.offload:  # Megatron Core offloads what its distributed optimizer holds, FSDP what it shards
        zero = [stage for stage in zero if stage == (3 if job.software.offloads == "state" else 1)]
    found: list[tuple[int, ...]] = []
    for tp in divisors(int(one.heads), most_tp or cluster.per_node):
        if cluster.gpus % tp or one.ffn % tp:
            continue
        for cp in divisors(int(job.seq), cluster.gpus // tp):
            if cluster.gpus % (tp * cp):
                continue
            for pp in sorted(
                {*divisors(int(one.layers), most := cluster.gpus // (tp * cp)), *divisors(int(one.layers) + 2, most)}
            ):
                if cluster.gpus % (tp * cp * pp):
                    continue
                found += _rest(job, cluster, schedule, zero, tp, cp, pp)
    if not found:
        raise NoPlan(
            f"No layout uses all {cluster.gpus} devices: tp must divide {one.heads} heads, cp {int(job.seq):,} "
            f"tokens, pp {one.layers} layers and dp {int(job.sequences):,} sequences, and tp x cp x pp x dp must be "
            f"{cluster.gpus}."
        )
    columns = np.array(found, dtype=np.int64).T
    names = ("tp", "cp", "pp", "dp", "ep", "zero", "replicas", "virtual", "microbatches")
    values = dict(zip(names, columns, strict=True))
    return Layout(sp=values["tp"] > 1, schedule=schedule, **values)


def _rest(
    job: Job, cluster: Cluster, schedule: str, zero: Sequence[int], tp: int, cp: int, pp: int
) -> Iterator[tuple[int, ...]]:
    """Data ranks, expert ranks, ZeRO stages, chunks and micro-batches that go with three degrees."""
    dp = cluster.gpus // (tp * cp * pp)
    if job.sequences % dp:
        return
    replica = int(job.sequences) // dp
    experts = int(job.shape.experts)
    ways = [ep for ep in divisors(experts) if (dp * cp) % ep == 0] if experts else [1]
    servers = dp * cp * tp // cluster.per_node  # that hold a stage's ranks: HSDP shards inside each
    layers = int(job.shape.layers + 2 * (job.shape.layers % pp > 0))  # with embedding and head if they do not divide
    chunks = divisors(layers // pp) if schedule in CHUNKED and pp > 1 else [1]
    for microbatches in divisors(replica):
        if replica // microbatches > 64:  # sequences in a micro-batch: larger ones never fit and never help
            continue
        for virtual in chunks:
            if virtual > 1 and microbatches % pp:
                continue
            for ep in ways:
                for stage in zero:
                    if stage == 3 and pp > 1 and not job.software.stages_sharded:
                        continue
                    yield tp, cp, pp, dp, ep, stage, 1, virtual, microbatches
                    if stage == 3 and job.software.replicates and servers > 1 and dp % servers == 0:
                        yield tp, cp, pp, dp, ep, stage, servers, virtual, microbatches


def one_of(layout: Layout, index: int) -> Layout:
    """The layout at one place of a layout of arrays."""
    picked = {}
    for name in DEGREES:
        value = getattr(layout, name)
        picked[name] = np.asarray(value).ravel()[index].item() if np.ndim(value) else value
    return replace(layout, **picked)


def pareto(*costs: object) -> np.ndarray:
    """Which points no other point beats in all costs at once (smaller is better); equal points all stay."""
    table = np.stack([np.asarray(each, dtype=float) for each in costs], axis=1)
    keep = np.zeros(len(table), dtype=bool)
    order = np.lexsort(table.T[::-1])
    front: list[np.ndarray] = []
    for index in order:
        point = table[index]
        rivals = np.array(front) if front else np.empty((0, table.shape[1]))
        beaten = np.any(np.all(rivals <= point, axis=1) & np.any(rivals < point, axis=1)) if len(rivals) else False
        if not beaten and np.all(np.isfinite(point)):
            keep[index] = True
            front.append(point)
    return keep


def search(
    job: Job,
    cluster: Cluster,
    *,
    top: int = 5,
    tokens: float | None = None,
    deadline: float | None = None,
    max_usd: float | None = None,
    schedules: Sequence[str] = (),
    recompute: Sequence[str] = RECOMPUTE,
) -> list[Plan]:
    """The quickest plans that fit, one for each set of degrees, best first.

    `deadline` in seconds and `max_usd` limit a run of `tokens`. NoPlan if nothing fits or meets the limits, with the
    nearest plan.
    """
    best: dict[tuple[int, ...], Plan] = {}
    found = tried(job, cluster, schedules, recompute)
    for here, many, estimates in found:
        seconds = np.where(estimates.ok, estimates.seconds, np.inf)
        for index in np.argsort(seconds)[: 40 * top]:
            if not np.isfinite(seconds[index]):
                break
            degrees = tuple(int(getattr(many, name)[index]) for name in ("tp", "cp", "pp", "dp", "ep"))
            if degrees not in best or seconds[index] < best[degrees].seconds:
                best[degrees] = _plan(here, cluster, many, int(index))
    if not best:
        raise NoPlan(_too_large(_smallest(cluster, found)))
    ranked = sorted(best.values(), key=_simple_first)
    return _within(ranked, tokens, deadline, max_usd)[:top]


Tried = list[tuple[Job, Layout, Estimate]]


def tried(job: Job, cluster: Cluster, schedules: Sequence[str] = (), recompute: Sequence[str] = RECOMPUTE) -> Tried:
    """Every layout with its estimate, as arrays, one entry for each recomputation, with and without offload, and each
    schedule: by default, all schedules that the job's software has."""
    schedules = schedules or job.software.schedules
    offload = (False, True) if job.software.offloads else (False,)
    kinds = [replace(job, offload=each) for each in offload]
    spaces = [(kind, layouts(kind, cluster, schedule=schedule)) for kind in kinds for schedule in schedules]
    jobs = [(replace(kind, recompute=word), many) for word in recompute for kind, many in spaces]
    return [(here, many, estimate(here, cluster, many)) for here, many in jobs]


def _smallest(cluster: Cluster, found: Tried) -> Plan | None:
    """The plan that needs the least memory, whether it fits or not."""
    places = [int(np.nanargmin(each.memory)) for _, _, each in found]
    least = min(range(len(found)), key=lambda one: np.ravel(found[one][2].memory)[places[one]], default=None)
    return None if least is None else _plan(found[least][0], cluster, found[least][1], places[least])


AXES = ("tp", "cp", "pp", "ep")  # next to data, which every plan has
ROOMY = 1.25  # times the quickest step: how slow the plan with the most room may be
SIMPLE = 2.0  # times the quickest step: how slow the plan with the fewest axes may be


def choices(
    job: Job,
    cluster: Cluster,
    *,
    tokens: float | None = None,
    deadline: float | None = None,
    max_usd: float | None = None,
) -> dict[str, Plan]:
    """Plans that differ in what one may want: the quickest, the one with the fewest axes, the one with the most memory
    to spare, the quickest that keeps weights whole.

    Layouts whose steps differ by less than a thousandth are one plan, the simplest of them. A plan that grants several
    wishes has them all in its key: "the quickest, also the fewest axes".
    """
    found = tried(job, cluster)
    columns = [_columns(many, each) for _, many, each in found]
    seconds, memory, axes, simple, sharded = (np.concatenate(each) for each in zip(*columns, strict=True))
    starts = np.cumsum([0, *(len(each[0]) for each in columns)])

    def plan(index: int) -> Plan:
        entry = int(np.searchsorted(starts, index, side="right")) - 1
        return _plan(found[entry][0], cluster, found[entry][1], index - int(starts[entry]))

    def first(order: tuple[np.ndarray, ...], slowest: float) -> Plan:
        return plan(int(np.lexsort((*reversed(order), seconds > slowest))[0]))

    if not np.isfinite(seconds).any():
        raise NoPlan(_too_large(_smallest(cluster, found)))
    quickest = plan(int(np.argmin(seconds * (1 + 1e-3 * simple))))
    _within([quickest], tokens, deadline, max_usd)
    limit = quickest.seconds * (1 + 1e-3)
    wishes = {
        "the quickest": quickest,
        "the fewest axes": first((axes, seconds), SIMPLE * limit),
        "the most memory to spare": first((memory, seconds), ROOMY * limit),
    }
    whole = first((sharded, seconds), SIMPLE * limit)
    if whole.layout.zero < 3:
        wishes["whole weights on each rank (ZeRO-1)"] = whole
    kept: dict[str, Plan] = {}
    for wish, one in wishes.items():
        same = [key for key, other in kept.items() if one.layout == other.layout and one.job == other.job]
        if same:
            kept = {f"{key}, also {wish}" if key in same else key: other for key, other in kept.items()}
            continue
        with suppress(NoPlan):
            _within([one], tokens, deadline, max_usd)
            kept[wish] = one
    return kept


def _columns(many: Layout, found: Estimate) -> tuple[np.ndarray, ...]:
    """Seconds, infinite where a layout cannot run; memory; how many axes; doublings of all axes but data; whether
    weights are sharded."""
    fine = np.asarray(found.ok)
    degrees = [np.broadcast_to(getattr(many, name), fine.shape) for name in AXES]
    return (
        np.where(fine, found.seconds, np.inf),
        np.where(fine, found.memory, np.inf),
        sum(np.greater(each, 1).astype(int) for each in degrees),
        sum(np.log2(each) for each in degrees),
        np.broadcast_to(np.equal(many.zero, 3), fine.shape),
    )


def _simple_first(plan: Plan) -> float:
    """Seconds, and a thousandth more for each doubling of an axis other than data: of equally quick plans the simplest
    is best."""
    where = plan.layout
    return plan.seconds * (1 + 1e-3 * float(np.log2(where.tp * where.cp * where.pp * where.ep)))


def _plan(job: Job, cluster: Cluster, layout: Layout, index: int) -> Plan:
    one = one_of(layout, index)
    return Plan(job=job, cluster=cluster, layout=one, estimate=estimate(job, cluster, one))


def _within(plans: list[Plan], tokens: float | None, deadline: float | None, max_usd: float | None) -> list[Plan]:
    """Plans that meet the limits; without a limit, all of them."""
    if deadline is None and max_usd is None:
        return plans
    if tokens is None:
        raise ValueError("A deadline or a budget needs the tokens of the run.")
    if max_usd is not None and not plans[0].cluster.usd_per_hour:
        raise ValueError(
            f"No price is known for {plans[0].cluster.device}, so a highest price cannot be checked; leave it out."
        )
    kept = [plan for plan in plans if deadline is None or plan.days(tokens) * DAY <= deadline]
    if deadline is not None and not kept:
        raise NoPlan(
            f"The quickest layout needs {plans[0].days(tokens):.1f} days for {number_text(tokens)} tokens; the "
            f"deadline is {deadline / DAY:.1f} days. Allow that long, or use at least "
            f"{plans[0].days(tokens) * DAY / deadline:.1f} times the devices."
        )
    paid = [plan for plan in kept if max_usd is None or plan.usd(tokens) <= max_usd]
    if not paid:
        raise NoPlan(
            f"The cheapest layout{' that meets the deadline' if deadline else ''} costs "
            f"${min(plan.usd(tokens) for plan in kept):,.0f} for {number_text(tokens)} tokens, above ${max_usd:,.0f}."
        )
    return paid


def _too_large(nearest: Plan | None) -> str:
    if nearest is None:
        return f"Nothing can run: {REASONS[0]}."
    where, held, room = nearest.layout, nearest.memory, nearest.cluster.memory
    told = f"holds {held / GB:.0f} GB on a device of {room / GB:.0f} GB"
    if held <= (1 - RESERVE) * room:
        held, room = float(offloaded(nearest.job, where)), nearest.cluster.server_memory
        told = f"offloads {held / GB:.0f} GB of each device, for which its server has {room / GB:.0f} GB"
    servers = int(np.ceil(nearest.cluster.gpus * held / room / nearest.cluster.per_node))
    offload = f", offload={nearest.job.software.offloads}" * nearest.job.offload
    degrees = f"tp={where.tp} cp={where.cp} pp={where.pp} dp={where.dp}" + f" zero={where.zero}" * (where.shards > 1)
    return (
        f"Nothing fits: the smallest layout ({degrees}, recompute={nearest.job.recompute}{offload}) {told}. "
        f"About {servers * nearest.cluster.per_node} devices would hold it."
    )
