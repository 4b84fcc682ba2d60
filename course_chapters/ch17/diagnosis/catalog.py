"""Forty named faults: the mechanism, the chapter that explains it, what to look at first, and the setting of the job
that it changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_chapters.ch17.diagnosis.settings import RANKS, RESUMED, STEPS, UPDATES
from course_lib.estimate.units import GB

FAMILIES = ("memory", "time", "communication", "learning")


Change = Callable[[np.random.Generator], Mapping[str, Any]]  # some of the fields of `Settings`


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One cause."""

    name: str
    family: str  # of FAMILIES
    chapter: str
    cause: str
    look: str  # what to look at first
    change: Change  # settings that differ from a healthy job's


def _one(rng: np.random.Generator, value: float, others: float = 1.0) -> tuple[float, ...]:
    """One rank's factor, and that of the others."""
    odd = int(rng.integers(RANKS))
    return tuple(value if rank == odd else others for rank in range(RANKS))


def _rank_and_step(rng: np.random.Generator) -> tuple[int, int]:
    return int(rng.integers(RANKS)), int(rng.integers(1, STEPS))


_MEMORY: tuple[tuple[str, str, str, str, Change], ...] = (
    (
        "graph kept",
        "02",
        "A list keeps each step's loss with its graph.",
        "the lowest memory of each step: it grows by the same amount every step",
        lambda rng: {"leak": 1.5 * GB},
    ),
    (
        "gradients never freed",
        "02",
        "Gradients are set to zero, not to None, and stay allocated.",
        "memory between two steps, after the first: higher by the gradients",
        lambda rng: {"free_gradients": False},
    ),
    (
        "state not sharded",
        "08",
        "The optimizer was built before the model was sharded, so every rank holds all state.",
        "memory before the first step, against state divided by the ranks",
        lambda rng: {"sharded": False, "room": 40 * GB},
    ),
    (
        "weights stay gathered",
        "08",
        "Gathered weights are not freed after the forward pass.",
        "how steeply memory rises in the forward pass: activations and one unit of weights for each layer",
        lambda rng: {"reshard": False},
    ),
    (
        "logits in full",
        "02",
        "Logits of all tokens exist at once, in 32 bits, with their gradient.",
        "a spike between the forward and the backward pass",
        lambda rng: {"logits": 9 * GB},
    ),
    (
        "fragmented allocator",
        "02",
        "Tensors of ever new sizes leave holes that no tensor fits.",
        "memory reserved against memory in use",
        lambda rng: {"reserved": 1.6},
    ),
    (
        "all micro-batches in flight",
        "10",
        "Every stage runs all forward passes before its first backward pass, as GPipe does.",
        "the trace of a stage, and the peak of the last stage: as high as the first one's",
        lambda rng: {"kind": "pipeline", "microbatches": 16, "schedule": "gpipe"},
    ),
    (
        "one long sample",
        "11",
        "One sequence in one batch is much longer than the others.",
        "which rank and which step has the peak",
        lambda rng: {"long_sample": (*_rank_and_step(rng), 1.9)},
    ),
    (
        "optimizer allocated late",
        "02",
        "Adam's moments exist only after the first update, so the first step says nothing about the peak.",
        "memory before and after the first update",
        lambda rng: {"late_moments": True, "state": 9 * GB},
    ),
)
_TIME = (
    (
        "slow GPU",
        "14",
        "One GPU runs at a lower clock.",
        "each rank's own computing time, not its time in collectives",
        lambda rng: {"kind": "tensor", "speed": _one(rng, 1.7)},
    ),
    (
        "slow loader on one rank",
        "14",
        "One rank reads its data from a slower disk.",
        "each rank's wait for data",
        lambda rng: {"loading": _one(rng, 14.0)},
    ),
    (
        "starved for data",
        "01",
        "Too few workers prepare the batches, on every rank.",
        "time before the first layer, on all ranks alike",
        lambda rng: {"data": 0.12},
    ),
    (
        "read back in every layer",
        "03",
        "The program asks for a value of a tensor in every layer and waits for the device.",
        "gaps between the layers, on all ranks",
        lambda rng: {"wait_for_host": 0.012},
    ),
    (
        "too few micro-batches",
        "10",
        "The pipeline has as many micro-batches as stages.",
        "the first rank's idle time between its last forward and its first backward pass, over the step",
        lambda rng: {"kind": "pipeline", "microbatches": 4},
    ),
    (
        "uneven stages",
        "10",
        "One stage has more layers than the others.",
        "the busy time of each stage",
        lambda rng: {"kind": "pipeline", "microbatches": 16, "speed": _one(rng, 1.6)},
    ),
    (
        "garbage collection",
        "15",
        "Python's collector runs when it pleases, on another rank in each step.",
        "pauses whose rank and step change",
        lambda rng: {
            "kind": "context",
            "pauses": {(int(rank), step): 0.15 for step, rank in enumerate(rng.permutation(RANKS)) if step},
        },
    ),
    (
        "blocking checkpoint",
        "14",
        "All ranks write their state before the next step begins.",
        "what lies between two steps",
        lambda rng: {"saving": {int(rng.integers(1, STEPS - 1)): 0.35}},
    ),
    (
        "overheating GPU",
        "14",
        "One GPU lowers its clock further and further.",
        "one rank's computing time, step by step",
        lambda rng: {"fading": _one(rng, 0.4, 0.0)},
    ),
    (
        "uneven causal work",
        "11",
        "The sequence was cut into contiguous parts, so later ranks attend to more.",
        "computing time against the rank's number",
        lambda rng: {"kind": "context", "speed": (0.55, 0.85, 1.15, 1.45)},
    ),
    (
        "crowded expert",
        "12",
        "Most tokens choose the experts of one rank, and the rank changes.",
        "computing time between two all-to-alls, rank by rank and step by step",
        lambda rng: {"kind": "expert", "crowding": dict(enumerate(map(int, rng.permutation(RANKS))))},
    ),
)
_COMMUNICATION = (
    (
        "no overlap",
        "07",
        "Gradients are sent only after the whole backward pass.",
        "where the collectives begin",
        lambda rng: {"overlap": False},
    ),
    (
        "tensor group across servers",
        "13",
        "The ranks of a tensor-parallel group sit in two servers.",
        "the length of each layer's collective, against NVLink's",
        lambda rng: {"kind": "tensor", "message": 0.12},
    ),
    (
        "tiny buckets",
        "07",
        "Every small tensor is sent alone, and latency dominates.",
        "the number of collectives and the length of one",
        lambda rng: {"buckets": 12, "latency": 0.003},
    ),
    (
        "synchronized every micro-batch",
        "07",
        "Gradients are reduced after each accumulated micro-batch.",
        "collectives in all micro-batches of a step",
        lambda rng: {"microbatches": 4, "synchronize_all": True, "message": 0.03},
    ),
    (
        "sockets instead of InfiniBand",
        "15",
        "The library found no adapter and fell back to TCP.",
        "the network line in the log",
        lambda rng: {"message": 0.15, "network": "NET/Socket : Using [0]eth0:10.0.0.4<0>"},
    ),
    (
        "missing rank",
        "14",
        "One rank never enters a collective, and all others wait.",
        "the rank without a message",
        lambda rng: {"missing": _rank_and_step(rng)},
    ),
    (
        "collectives in another order",
        "06",
        "One rank calls two collectives in the other order.",
        "the type of the collective with the same sequence number on each rank",
        lambda rng: {"swapped": _rank_and_step(rng)},
    ),
    (
        "flapping link",
        "15",
        "A link loses its connection for moments and recovers.",
        "the same collective in different steps, on all ranks alike",
        lambda rng: {"flapping": {int(rng.integers(1, STEPS)): 9.0}},
    ),
)
_LEARNING = (
    (
        "sum instead of mean",
        "07",
        "Gradients are summed over ranks and not divided.",
        "the applied gradient's norm against the ranks' own",
        lambda rng: {"gradient_scale": float(RANKS)},
    ),
    (
        "same samples on every rank",
        "07",
        "The sampler does not know the rank.",
        "the samples that each rank reads first",
        lambda rng: {"same_samples": True},
    ),
    (
        "data starts again after a resume",
        "14",
        "The checkpoint lacks the position in the data.",
        "the samples before and after the resume, and those of step 0",
        lambda rng: {"forgotten": "position"},
    ),
    (
        "moments lost in a resume",
        "14",
        "The checkpoint lacks the optimizer's state.",
        "the loss after the resume",
        lambda rng: {"forgotten": "optimizer"},
    ),
    (
        "loss scale falls forever",
        "05",
        "Every fp16 gradient overflows, so every step is skipped.",
        "skipped steps, and whether the weights move",
        lambda rng: {"overflows": True},
    ),
    (
        "no master copy",
        "05",
        "Weights are kept in 16 bits, and small updates are rounded away.",
        "the fraction of weights that an update changes",
        lambda rng: {"short_weights": True},
    ),
    (
        "bad batch",
        "14",
        "One batch of one rank has wrong labels.",
        "one rank's own gradient in one step",
        lambda rng: {"bad_step": int(rng.integers(RESUMED + 8, UPDATES - 6))},
    ),
    (
        "flipped bit",
        "14",
        "One GPU wrote a wrong bit into a weight.",
        "the checksums of the replicas: one differs from some step on",
        lambda rng: {"flipped": (int(rng.integers(RANKS)), int(rng.integers(8, RESUMED - 8)))},
    ),
    (
        "labels in the input",
        "11",
        "The targets were shifted the wrong way, and the model sees them.",
        "a loss below what the data allow",
        lambda rng: {"leaked_labels": True},
    ),
    (
        "clipped by each rank's norm",
        "08",
        "Each rank clips by the norm of its own gradient, so the ranks apply different updates.",
        "checksums, and the applied norm against the ranks' own",
        lambda rng: {"clipped_alone": True},
    ),
    (
        "copies without a sum",
        "09",
        "Each tensor-parallel rank updates replicated weights by its own part of the gradient.",
        "the checksums of replicated weights in a tensor-parallel job",
        lambda rng: {"kind": "tensor", "drifting": True},
    ),
    (
        "experts' gradients too large",
        "12",
        "Experts' gradients are summed over ranks that all see the same tokens.",
        "the norms of experts' and of other gradients",
        lambda rng: {"kind": "expert", "expert_scale": float(RANKS)},
    ),
)
FAULTS: Mapping[str, Fault] = {
    name: Fault(name=name, family=family, chapter=chapter, cause=cause, look=look, change=change)
    for family, rows in zip(FAMILIES, (_MEMORY, _TIME, _COMMUNICATION, _LEARNING), strict=True)
    for name, chapter, cause, look, change in rows
}
