"""What an observer of the job gets: a trace, memory curves, a log and the loss; drawn from a fault's name and a
seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from course_chapters.ch17.diagnosis.catalog import FAULTS
from course_chapters.ch17.diagnosis.learning import Learned, train
from course_chapters.ch17.diagnosis.settings import KINDS, RANKS, RESUMED, STEPS, UPDATES, Settings
from course_chapters.ch17.diagnosis.timing import Recorded, run
from course_lib.cluster.records import Span
from course_lib.estimate.units import GB, MS

SHOWN = (0, 1, RESUMED - 1, RESUMED, RESUMED + 1, UPDATES - 1)  # steps that the log prints in any case
SEQUENCE = 187  # the number of the first collective that can hang


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptoms:
    """The evidence of one job. Times are seconds, memory is bytes."""

    job: str
    spans: tuple[Span, ...]
    starts: tuple[float, ...]  # of each traced step
    memory: Mapping[int, tuple[np.ndarray, np.ndarray]]  # rank -> (times, bytes in use from then on)
    reserved: tuple[float, ...]  # the allocator's most, by rank
    room: float
    losses: tuple[float, ...]
    log: tuple[str, ...]

    @property
    def text(self) -> str:
        """Everything that fits into lines: the log, milliseconds of each rank by kind of work, memory at each step's
        start and peak."""
        lines = [f"job: {self.job}", *self.log, "trace, ms in all traced steps:"]
        kinds = list(dict.fromkeys(span.kind for span in self.spans))
        for rank in range(RANKS):
            took = {
                kind: sum(s.end - s.start for s in self.spans if (s.rank, s.kind) == (rank, kind)) for kind in kinds
            }
            lines.append(f"  rank {rank}: " + ", ".join(f"{kind} {seconds / MS:.0f}" for kind, seconds in took.items()))
        lines.append("memory in use, GB, in each step (at its start; at its peak; freed by its update):")
        for rank in range(RANKS):
            columns = (" ".join(f"{x / GB:.1f}" for x in column) for column in (*self.by_step(rank), self.freed(rank)))
            lines.append(f"  rank {rank}: {'; '.join(columns)}")
        return "\n".join(lines)

    def by_step(self, rank: int) -> tuple[list[float], list[float]]:
        """Bytes in use at the start of each traced step, and the peak within it."""
        times, held = self.memory[rank]
        edges = [*self.starts, np.inf]
        low, high = [], []
        for begin, end in zip(edges, edges[1:], strict=False):
            before = held[times <= begin]
            inside = held[(times > begin) & (times <= end)]
            low.append(float(before[-1]) if len(before) else 0.0)
            high.append(float(max(inside.max(initial=0.0), low[-1])))
        return low, high

    def freed(self, rank: int) -> list[float]:
        """Bytes by which memory falls from the start of each update to its end; negative where it grows."""
        times, held = self.memory[rank]
        updates = [span for span in self.spans if (span.rank, span.kind) == (rank, "optimizer")]
        return [float(held[times < one.start][-1] - held[times <= one.end + 1e-9][-1]) for one in updates]


def simulate(job: Settings, seed: int | str) -> Symptoms:
    """The evidence of a job."""
    rng = np.random.default_rng(random.Random(f"job {seed}").getrandbits(64))
    recorded, learned = run(job, rng), train(job, rng)
    memory = {rank: recorded.memory(rank) for rank in range(RANKS)}
    peaks = [float(held.max()) for _, held in memory.values()]
    return Symptoms(
        job=KINDS[job.kind],
        spans=tuple(recorded.spans),
        starts=tuple(recorded.starts),
        memory=memory,
        reserved=tuple(min(job.reserved * peak, job.room) for peak in peaks),
        room=job.room,
        losses=tuple(learned.losses),
        log=tuple(_log(job, recorded, learned, peaks)),
    )


def symptom(name: str, seed: int | str = 0) -> Symptoms:
    """The evidence of a job with one of `FAULTS`; sizes and times differ from seed to seed. ValueError for another
    name."""
    if name not in FAULTS:
        raise ValueError(f"{name!r} is no fault; choose from {', '.join(FAULTS)}.")
    rng = np.random.default_rng(random.Random(f"{name} {seed}").getrandbits(64))
    return simulate(_scaled(Settings(**FAULTS[name].change(rng)), rng), f"{name} {seed}")


def healthy(kind: str = "data", seed: int | str = 0) -> Symptoms:
    """The evidence of a job without a fault."""
    rng = np.random.default_rng(random.Random(f"healthy {kind} {seed}").getrandbits(64))
    microbatches = 16 if kind == "pipeline" else 1
    return simulate(_scaled(Settings(kind=kind, microbatches=microbatches), rng), f"healthy {seed}")


def drawn(seed: int | str, count: int = 12) -> list[str]:
    """Names of `count` different faults for an exam, a third of them at most of one family."""
    rng = random.Random(f"exam {seed}")
    names, most = rng.sample(list(FAULTS), len(FAULTS)), max(1, -(-count // 3))
    chosen: list[str] = []
    for name in names:
        if len(chosen) < count and sum(FAULTS[each].family == FAULTS[name].family for each in chosen) < most:
            chosen.append(name)
    return chosen + [name for name in names if name not in chosen][: count - len(chosen)]


def exam(seed: int | str, count: int = 12) -> list[Symptoms]:
    """The evidence of the faults that `drawn` names, in the same order."""
    return [symptom(name, f"{seed} {place}") for place, name in enumerate(drawn(seed, count))]


def _scaled(job: Settings, rng: np.random.Generator) -> Settings:
    """The same job on another model: all times, and all sizes, are longer or shorter by one factor each."""
    time, size = rng.uniform(0.8, 1.25), rng.uniform(0.85, 1.15)
    times = ("data", "forward", "backward", "message", "latency", "update", "wait_for_host")
    sizes = ("state", "activations", "unit", "gradients", "logits", "leak", "room")
    scaled = {name: time * getattr(job, name) for name in times} | {name: size * getattr(job, name) for name in sizes}
    if job.kind == "pipeline":
        scaled |= {"activations": size * 0.4 * GB, "gradients": size * 1.5 * GB}
    return replace(job, **scaled)


def _log(job: Settings, recorded: Recorded, learned: Learned, peaks: list[float]) -> list[str]:
    """The lines that a job of the field would print."""
    lines = [f"NCCL INFO {job.network}"]
    shown = sorted({*SHOWN, *((job.bad_step - 1, job.bad_step, job.bad_step + 1) if job.bad_step else ())})
    shown = sorted({*shown, *((job.flipped[1] - 1, job.flipped[1]) if job.flipped else ())})
    for step in shown:
        if step == RESUMED:
            kept = [part for part in ("weights", "optimizer", "schedule", "position") if part != job.forgotten]
            lines.append(f"step {step}: resumed from a checkpoint with {', '.join(kept)}")
        lines.append(_step_line(job, learned, step))
    if job.overflows:
        scales = [2 ** (16 - step) for step in range(4)]
        lines += [f"step {step}: overflow, loss scale now {scale:g}, step skipped" for step, scale in enumerate(scales)]
    for rank, peak in enumerate(peaks):
        reserved = min(job.reserved * peak, job.room)
        lines.append(
            f"rank {rank}: peak in use {peak / GB:.1f} GB, reserved {reserved / GB:.1f} GB of {job.room / GB:.1f} GB"
        )
    if recorded.hung:
        lines += _watchdog(job)
    return lines


def _step_line(job: Settings, learned: Learned, step: int) -> str:
    own = " ".join(f"{norm:.2f}" for norm in learned.local_norms[step])
    first = " ".join(map(str, learned.first_samples[step]))
    sums = " ".join(f"{each:04x}" for each in learned.checksums[step])
    line = (
        f"step {step}: loss {learned.losses[step]:.3f}, norm {learned.norms[step]:.2f} (ranks' own {own}), samples "
        f"{first}, weights' checksums {sums}, update moved {learned.moved[step]:.0%} of the weights"
    )
    if job.kind == "expert":
        line += f", norm of experts {job.expert_scale * learned.norms[step]:.2f}"
    return line


def _watchdog(job: Settings) -> list[str]:
    """What the surviving watchdogs print. A rank that never called has nothing to report."""
    odd, step = job.missing or job.swapped or (0, 0)
    lines = []
    for rank in range(RANKS):
        if rank == odd and job.missing:
            continue
        kind = "ALLGATHER" if rank == odd else "ALLREDUCE"
        lines.append(
            f"rank {rank}: watchdog: SeqNum={SEQUENCE + STEPS * step}, OpType={kind}, ran for 600000 ms "
            f"before timing out"
        )
    return lines
