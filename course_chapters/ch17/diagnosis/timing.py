"""The job's trace and memory: each rank has a clock; computing moves it on, and a collective begins when its last rank
is there."""

from dataclasses import dataclass, field

import numpy as np

from course_chapters.ch17.diagnosis.settings import RANKS, STEPS, Settings
from course_lib.cluster.records import Span
from course_lib.parallel.schedules import gpipe, one_f_one_b
from course_lib.parallel.timeline import Durations, play

TIMEOUT = 0.6  # s after which the trace of a job that hangs is cut; the real one waits for minutes


@dataclass
class Recorded:
    """What the ranks did and held."""

    spans: list[Span] = field(default_factory=list)
    held: list[list[tuple[float, float]]] = field(
        default_factory=lambda: [[] for _ in range(RANKS)]
    )  # (s, change in bytes)
    starts: list[float] = field(default_factory=list)  # of each step
    hung: bool = False

    def memory(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, bytes in use from then on) of one rank."""
        events = sorted(self.held[rank], key=lambda each: each[0])
        return np.array([at for at, _ in events]), np.cumsum([change for _, change in events])


class Clock:
    """The ranks' clocks during one simulated run."""

    def __init__(self, job: Settings, rng: np.random.Generator) -> None:
        self.job, self.rng, self.out = job, rng, Recorded()
        self.now, self.wire = np.zeros(RANKS), np.zeros(RANKS)
        self.step = 0

    def work(self, kind: str, label: str, seconds: float, factors: object = None) -> None:
        """Every rank computes, at its own speed, with a jitter of 2 %."""
        speed = np.array(self.job.speed) * (1 + self.step * np.array(self.job.fading))
        factors = speed if factors is None else np.asarray(factors)
        took = seconds * factors * (1 + 0.02 * self.rng.random(RANKS))
        for rank in range(RANKS):
            self.out.spans.append(Span(rank, self.now[rank], self.now[rank] + took[rank], kind, label))
        self.now = self.now + took

    def collective(self, label: str, seconds: float, *, blocks: bool) -> None:
        """A collective of all ranks on the communication stream. A rank that is there early waits inside it."""
        ready = np.maximum(self.now, self.wire)
        seconds = seconds * self.job.flapping.get(self.step, 1.0) + self.job.latency
        end = float(ready.max()) + seconds * (1 + 0.02 * self.rng.random())
        for rank in range(RANKS):
            self.out.spans.append(Span(rank, ready[rank], end, "comm", label))
        self.wire = np.full(RANKS, end)
        if blocks:
            self.now = np.full(RANKS, end)

    def hold(self, change: float, rank: int | None = None) -> None:
        """Memory that the ranks, or one of them, take or (negative) free now."""
        for each in range(RANKS) if rank is None else (rank,):
            self.out.held[each].append((float(self.now[each]), change))

    def pause(self, kind: str, label: str, seconds: dict[int, float]) -> None:
        """Ranks that stand still."""
        for rank, took in seconds.items():
            self.out.spans.append(Span(rank, self.now[rank], self.now[rank] + took, kind, label))
            self.now[rank] += took


def run(job: Settings, rng: np.random.Generator) -> Recorded:
    """The trace and the memory of `STEPS` steps."""
    clock = Clock(job, rng)
    clock.hold(job.state * (1 if job.sharded else RANKS) / (3 if job.late_moments else 1))
    for clock.step in range(STEPS):
        clock.out.starts.append(float(clock.now.max()))
        clock.work("data", "load", job.data, job.loading)
        if paused := {rank: took for (rank, step), took in job.pauses.items() if step == clock.step}:
            clock.pause("host", "python", paused)
        (_pipeline if job.kind == "pipeline" else _layers)(clock)
        if clock.out.hung:
            return clock.out
        clock.now = np.maximum(clock.now, clock.wire)
        if clock.step == 0 and job.late_moments:
            clock.hold(job.state * 2 / 3)
        clock.work("optimizer", "update", job.update)
        if job.free_gradients:
            clock.hold(-job.gradients)
        if job.leak:
            clock.hold(job.leak)
        if clock.step in job.saving:
            clock.pause("save", "checkpoint", dict.fromkeys(range(RANKS), job.saving[clock.step]))
    return clock.out


def _layers(clock: Clock) -> None:
    """Forward and backward through all layers, for every micro-batch."""
    job = clock.job
    for microbatch in range(job.microbatches):
        last = microbatch == job.microbatches - 1
        for layer in range(job.layers):
            _one(clock, "forward", layer, job.forward)
        clock.hold(job.logits)
        clock.work("forward", "head", job.forward / 2)
        clock.hold(-job.logits)
        for layer in reversed(range(job.layers)):
            _one(clock, "backward", layer, job.backward)
            if job.kind == "data" and job.overlap and (last or job.synchronize_all):
                _send(clock, layer)
        if not job.free_gradients and clock.step:
            continue
        if job.kind != "data":
            clock.hold(job.gradients if microbatch == 0 else 0.0)
    if job.kind == "data" and not job.overlap:
        for layer in reversed(range(job.layers)):
            _send(clock, layer)
    if job.missing and job.missing[1] == clock.step:
        _hang(clock, job.missing[0])
    if job.swapped and job.swapped[1] == clock.step:
        _hang(clock, job.swapped[0], other="all_gather")


def _one(clock: Clock, kind: str, layer: int, seconds: float) -> None:
    """One layer of one pass, with the collectives that its parallelism needs, and its memory."""
    job, forward = clock.job, kind == "forward"
    if job.wait_for_host:
        clock.pause("host", "item", dict.fromkeys(range(RANKS), job.wait_for_host))
    if job.kind == "data" and forward:
        clock.hold(job.unit)
    factors = None
    if job.kind == "expert":
        clock.collective("all_to_all", job.message / 4, blocks=True)
        crowded = job.crowding.get(clock.step)
        factors = [2.6 if rank == crowded else 0.5 if crowded is not None else 1.0 for rank in range(RANKS)]
    clock.work(kind, f"layer {layer}", seconds, factors)
    if job.kind == "expert":
        clock.collective("all_to_all", job.message / 4, blocks=True)
    if job.kind == "tensor":
        clock.collective("all_reduce", job.message / 6, blocks=True)
    if job.kind == "context":
        clock.collective("ring", job.message / 6, blocks=True)
    for rank in range(RANKS):
        long = job.long_sample
        factor = long[2] if long and long[:2] == (rank, clock.step) else 1.0
        clock.hold(factor * job.activations * (1 if forward else -1), rank)
    if job.kind != "data":
        return
    if job.reshard == forward:  # freed after the layer's forward pass, or kept until its backward pass
        clock.hold(-job.unit)
    if not forward and (job.free_gradients or clock.step == 0):
        clock.hold(job.gradients / job.layers / job.microbatches)


def _send(clock: Clock, layer: int) -> None:
    for _ in range(clock.job.buckets):
        clock.collective("reduce_scatter", clock.job.message / clock.job.buckets, blocks=False)


def _hang(clock: Clock, rank: int, other: str = "") -> None:
    """All ranks enter a collective but one, which is elsewhere or in another collective; the trace is cut."""
    start = np.maximum(clock.now, clock.wire)
    for each in range(RANKS):
        if each != rank or other:
            label = other if each == rank else "all_reduce"
            clock.out.spans.append(Span(each, start[each], start.max() + TIMEOUT, "comm", label))
    clock.out.hung = True


def _pipeline(clock: Clock) -> None:
    """A played schedule; every stage holds the micro-batches that it has begun and not finished."""
    job, begin = clock.job, float(clock.now.max())
    schedule = (gpipe if job.schedule == "gpipe" else one_f_one_b)(RANKS, job.microbatches)
    speed = np.array(job.speed)
    durations = Durations(
        forward=list(job.forward * speed), backward=list(job.backward * speed), communication=job.latency
    )
    for span in play(schedule, durations).spans():
        clock.out.spans.append(Span(span.rank, begin + span.start, begin + span.end, span.kind, span.label))
        at = begin + (span.start if span.kind == "forward" else span.end)
        clock.out.held[span.rank].append((at, job.activations * (1 if span.kind == "forward" else -1)))
        clock.now[span.rank] = max(clock.now[span.rank], begin + span.end)
    clock.hold(job.gradients)


__all__ = ["TIMEOUT", "Recorded", "run"]
