"""Two mechanisms at once: for each way to save memory and each way to divide work, a number without and with the
former.

Numbers are of one step on 64 H100s unless the words say otherwise, from the planner's terms (`ASSUMES`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import running_plan
from course_lib.estimate.memory.layout import Layout
from course_lib.parallel import planner
from course_lib.parallel.context.costs import ring_traffic
from course_lib.parallel.planner.traffic import WIDTH, context_seconds, rank_params, tensor_seconds
from course_lib.parallel.planner.wires import gather_seconds, reduce_seconds

MEMORY = ("ZeRO-3", "recomputation", "accumulation")
COORDINATION = ("data", "replicas", "tensor", "pipeline", "context", "expert")
MANY, FEW, GROUP = 64, 16, 8  # GPUs, data ranks beside a group of four, and GPUs of a server
MIXTURE = "mixtral-8x7b"
WORSE = 1.02  # times the number without: from here on two mechanisms count as fighting
ASSUMES = (
    f"One step of {running_plan.MODEL} on {MANY} H100s, {running_plan.SEQUENCES} × {running_plan.SEQ:,} tokens, unless "
    f"a cell says otherwise; experts are those of {MIXTURE}; weights and gradients sent in {8 * WIDTH:g} bits"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One cell of the matrix: a quantity that should be small, with the coordination alone and with the memory
    mechanism added."""

    memory: str
    coordination: str
    quantity: str
    before: float
    after: float
    unit: str  # "bytes", "s", "fraction" or "rows"; fewer "rows" are worse
    prompt: str

    @property
    def times(self) -> float:
        """How much worse the quantity is with both; below 1, better."""
        ratio = self.after / self.before
        return 1 / ratio if self.unit == "rows" else ratio

    @property
    def fights(self) -> bool:
        """Whether the mechanism makes the other one's quantity worse."""
        return self.times > WORSE


def _job(
    recompute: str = "none", model: str = running_plan.MODEL, sequences: int = running_plan.SEQUENCES
) -> planner.Job:
    return planner.Job(
        model=model, seq=running_plan.SEQ, sequences=sequences, recompute=recompute, software=planner.TAUGHT
    )


def _cluster(gpus: int = MANY) -> planner.Cluster:
    return planner.printed_cluster("H100 SXM", gpus)


def _part(name: str, layout: Layout, recompute: str = "none", model: str = running_plan.MODEL) -> float:
    """Seconds of one cause in a step."""
    return float(planner.step_time(_job(recompute, model), _cluster(), layout).parts[name])


def _sent(layout: Layout) -> float:
    """Bytes of gradients and weights that a GPU sends in a step, all of them in 16 bits."""
    return float(planner.traffic(_job(), layout, gradient=WIDTH)["dp"])


def _zero_data() -> tuple[float, float]:
    return _sent(Layout(dp=MANY)), _sent(Layout(dp=MANY, zero=3))


def _zero_replicas() -> tuple[float, float]:
    """State in groups of two servers, so that both the gathers and the sum over replicas use the adapters."""
    cluster, params = _cluster(), rank_params(_job(), Layout(dp=MANY))[0]
    gathers = 3 * gather_seconds(WIDTH * params, 2 * GROUP, 1, cluster)
    total = reduce_seconds(WIDTH * params / (2 * GROUP), MANY // (2 * GROUP), 2 * GROUP, cluster)
    return float(max(gathers, total)), float(gathers + total)


def _zero_tensor() -> tuple[float, float]:
    """NVLink of a server with tp 4 and two data ranks: a layer's tensor-parallel messages, and its gathers added."""
    layout, cluster = Layout(tp=4, sp=True, dp=2, zero=3), _cluster(GROUP)
    forward, backward = tensor_seconds(_job(), cluster, layout, 1)
    one_layer = rank_params(_job(), layout)[0] / _job().shape.layers
    return float(forward + backward), float(forward + backward + 3 * gather_seconds(WIDTH * one_layer, 2, 4, cluster))


def _zero_pipeline() -> tuple[float, float]:
    layout = Layout(pp=4, dp=FEW, zero=1, microbatches=32)
    return _sent(layout), _sent(replace(layout, zero=3))


def _zero_context() -> tuple[float, float]:
    """The whole step: context ranks leave each GPU fewer tokens to hide the gathers behind."""
    one = Layout(cp=GROUP, dp=MANY // GROUP, zero=1, microbatches=64)
    return tuple(float(planner.step_time(_job(), _cluster(), replace(one, zero=stage)).seconds) for stage in (1, 3))  # type: ignore[return-value]


def _zero_expert() -> tuple[float, float]:
    """Bytes of weights gathered for a step: with expert parallelism a GPU gathers its own experts only."""
    held = [rank_params(_job(model=MIXTURE), Layout(dp=MANY, ep=ep, zero=3)) for ep in (1, GROUP)]
    return float(2 * WIDTH * sum(held[0])), float(2 * WIDTH * sum(held[1]))


def _again_data() -> tuple[float, float]:
    """Exposed synchronization of FSDP with one short sequence a GPU: a longer backward pass hides more of it."""
    layout, job = Layout(dp=MANY, zero=3), replace(_job(sequences=MANY), seq=2048)
    parts = [planner.step_time(replace(job, recompute=word), _cluster(), layout).parts for word in ("none", "full")]
    return float(parts[0]["dp"]), float(parts[1]["dp"])


def _again_replicas() -> tuple[float, float]:
    layout, job = Layout(dp=MANY, zero=3, replicas=4), replace(_job(sequences=MANY), seq=2048)
    parts = [planner.step_time(replace(job, recompute=word), _cluster(), layout).parts for word in ("none", "full")]
    return float(parts[0]["dp"]), float(parts[1]["dp"])


def _again_tensor() -> tuple[float, float]:
    layout = Layout(**running_plan.PLAN, sp=True)
    return _part("tp", layout), _part("tp", layout, "full")


def _again_pipeline() -> tuple[float, float]:
    layout = Layout(**running_plan.LAYOUT, sp=True, microbatches=16)
    return _part("bubble", layout), _part("bubble", layout, "full")


def _again_context() -> tuple[float, float]:
    """Around a ring. Gathered keys and values stay from the recomputed pass, so that no more is sent."""
    job = _job()
    before, after = (
        ring_traffic(job.seq, job.shape.kv_heads, job.shape.head_dim, 16, recompute=again).nbytes
        for again in (False, True)
    )
    return float(before), float(after)


def _again_expert() -> tuple[float, float]:
    layout = Layout(dp=MANY, ep=GROUP, microbatches=8)
    return _part("ep", layout, model=MIXTURE), _part("ep", layout, "full", MIXTURE)


def _more_data() -> tuple[float, float]:
    """Bytes of a step that synchronizes after every one of eight micro-batches, as against once."""
    once = _sent(Layout(dp=MANY))
    return once, 8 * once


def _more_replicas() -> tuple[float, float]:
    """Bytes across replicas: the sum over them once a step, or after each of eight micro-batches."""
    params = rank_params(_job(), Layout(dp=MANY))[0]
    once = ring_cost(WIDTH * float(params) / GROUP, MANY // GROUP, 0.0, 1.0).nbytes
    return once, 8 * once


def _more_tensor() -> tuple[float, float]:
    """Tensor-parallel seconds of the same tokens in one micro-batch, and in eight: the bytes are equal, the latencies
    are not."""
    layout, cluster, job = Layout(tp=8, sp=True), _cluster(GROUP), replace(_job(sequences=8), seq=512)
    whole, part = (sum(tensor_seconds(job, cluster, layout, batch)) for batch in (8, 1))
    return float(whole), float(8 * part)


def _more_pipeline() -> tuple[float, float]:
    """The bubble's share of a step with 8 micro-batches, and with 64."""
    shares = []
    for m in (8, 64):
        step = planner.step_time(_job(), _cluster(), Layout(**running_plan.LAYOUT, sp=True, microbatches=m))
        shares.append(float(step.bubble / step.seconds))
    return shares[0], shares[1]


def _more_context() -> tuple[float, float]:
    """Exposed keys and values of the same tokens: they travel for every micro-batch alike, and attention hides them
    alike."""
    few, more = (Layout(cp=16, dp=4, zero=1, microbatches=m) for m in (64, 128))
    job, cluster = _job(), _cluster()
    return tuple(  # type: ignore[return-value]
        float(each.microbatches * sum(context_seconds(job, cluster, each, 512 / 4 / each.microbatches)))
        for each in (few, more)
    )


def _more_expert() -> tuple[float, float]:
    """Rows that one expert multiplies at a time: eight sequences in one micro-batch, or one."""
    shape = _job(model=MIXTURE).shape
    rows = 8192 * shape.top_k / shape.experts
    return float(8 * rows), float(rows)


_CELLS: Mapping[tuple[str, str], tuple[str, str, Callable[[], tuple[float, float]], str]] = {
    ("ZeRO-3", "data"): (
        "bytes that a GPU sends in a step with one micro-batch",
        "bytes",
        _zero_data,
        "Pure ZeRO-3 has no all-reduce. What replaces it, and why is it three passes instead of two?",
    ),
    ("ZeRO-3", "replicas"): (
        "seconds on the adapters, if state is shared by two servers",
        "s",
        _zero_replicas,
        "Gathers within a group and the sum over groups use the same adapters. Which one waits, and would a group of "
        "one server help?",
    ),
    ("ZeRO-3", "tensor"): (
        "seconds on NVLink for a layer, with two tensor-parallel groups in a server",
        "s",
        _zero_tensor,
        "Both want NVLink at the same time. Whose messages does nothing hide?",
    ),
    ("ZeRO-3", "pipeline"): (
        "bytes that a GPU sends in a step of 32 micro-batches, against ZeRO-1",
        "bytes",
        _zero_pipeline,
        "Every micro-batch gathers the weights again. Why does ZeRO-1 go better with a pipeline?",
    ),
    ("ZeRO-3", "context"): (
        "seconds of a step with cp 8 inside servers, against ZeRO-1",
        "s",
        _zero_context,
        "Gathers hide behind computing. How many tokens per GPU are left to compute?",
    ),
    ("ZeRO-3", "expert"): (
        "bytes of weights gathered in a step, without and with expert parallelism",
        "bytes",
        _zero_expert,
        "The experts are divided before they are sharded. Over how many ranks is one expert still sharded?",
    ),
    ("recomputation", "data"): (
        "exposed seconds of FSDP with one short sequence per GPU",
        "s",
        _again_data,
        "A longer backward pass hides more. Is the step shorter for it?",
    ),
    ("recomputation", "replicas"): (
        "exposed seconds of HSDP with one short sequence per GPU",
        "s",
        _again_replicas,
        "Are the weights gathered a third time for the recomputation?",
    ),
    ("recomputation", "tensor"): (
        "seconds of tensor-parallel messages in a step",
        "s",
        _again_tensor,
        "The forward pass runs twice, with its messages. Which activations would you keep to avoid that?",
    ),
    ("recomputation", "pipeline"): (
        "seconds of the bubble with 16 micro-batches",
        "s",
        _again_pipeline,
        "Does the bubble's share of the step grow, or only its seconds?",
    ),
    ("recomputation", "context"): (
        "bytes of keys and values around a ring of 16 for a layer and a sequence",
        "bytes",
        _again_context,
        "What could you keep from the forward pass so that the ring does not turn again? "
        "And why does an all-gather of the keys (11) send no more?",
    ),
    ("recomputation", "expert"): (
        "seconds of all-to-alls in a step, on NVLink",
        "s",
        _again_expert,
        "The router must choose the same experts again. What must be saved for that?",
    ),
    ("accumulation", "data"): (
        "bytes that a GPU sends in a step, if each of eight micro-batches synchronizes",
        "bytes",
        _more_data,
        "Which line of the training loop prevents this, and what does FSDP pay for it in memory?",
    ),
    ("accumulation", "replicas"): (
        "bytes across replicas, if each of eight micro-batches sums over them",
        "bytes",
        _more_replicas,
        "Which of HSDP's two sums must run for every micro-batch, and which only once?",
    ),
    ("accumulation", "tensor"): (
        "seconds of tensor-parallel messages for the same tokens, in eight micro-batches",
        "s",
        _more_tensor,
        "The bytes are the same. What is added?",
    ),
    ("accumulation", "pipeline"): (
        "the bubble's share of a step, with 8 and with 64 micro-batches",
        "fraction",
        _more_pipeline,
        "More micro-batches help here. What stops you from taking as many as possible?",
    ),
    ("accumulation", "context"): (
        "seconds of keys and values in a step, with 64 and with 128 micro-batches",
        "s",
        _more_context,
        "Keys and values grow with the tokens of a micro-batch. When would smaller micro-batches still cost something?",
    ),
    ("accumulation", "expert"): (
        "rows that an expert multiplies at a time",
        "rows",
        _more_expert,
        "Below how many rows do the experts' products become bound by memory?",
    ),
}


def conflict(memory: str, coordination: str) -> Conflict:
    """One cell of the matrix. ValueError for a name that is not in `MEMORY` or `COORDINATION`."""
    if (memory, coordination) not in _CELLS:
        raise ValueError(
            f"There is no cell {memory!r}, {coordination!r}; choose from {', '.join(MEMORY)} and "
            f"{', '.join(COORDINATION)}."
        )
    quantity, unit, compute, prompt = _CELLS[memory, coordination]
    before, after = (float(np.asarray(each)) for each in compute())
    return Conflict(
        memory=memory,
        coordination=coordination,
        quantity=quantity,
        before=before,
        after=after,
        unit=unit,
        prompt=prompt,
    )


def matrix() -> dict[tuple[str, str], Conflict]:
    """Every cell."""
    return {(memory, other): conflict(memory, other) for memory in MEMORY for other in COORDINATION}


__all__ = ["ASSUMES", "COORDINATION", "MEMORY", "Conflict", "conflict", "matrix"]
