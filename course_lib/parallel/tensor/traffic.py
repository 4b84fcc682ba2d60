"""What tensor parallelism sends, in bytes and messages, before anything runs. Arithmetic only: no torch.

Figures are what each rank sends around a ring, averaged over ranks: of S bytes an all-reduce sends 2·S·(1 − 1/t), an
all-gather or reduce-scatter half of that. If t divides the numbers sent, every rank sends exactly this much.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from course_lib.cluster.collectives import Cost, ring_cost, ring_half_cost
from course_lib.estimate.units import require_whole
from course_lib.parallel.tensor.partition import check_split, plan

if TYPE_CHECKING:
    from course_lib.model.transformer import Config

Calls = dict[str, int]
RECOMPUTE = ("none", "full", "early")
FORWARD_PASSES = 4  # two all-reduces, or two all-gathers and two reduce-scatters


class Form(TypedDict, total=False):
    """Keywords of `tp_calls_per_layer`."""

    sequence_parallel: bool
    regather: bool
    recompute: str


def tp_calls_per_layer(*, sequence_parallel: bool = False, regather: bool = True, recompute: str = "none") -> Calls:
    """Collectives of one layer's activations, forward and backward: {"all_reduce": 4} and so on.

    Attention and MLP each have one operator before and one after: two collectives per pass in either form, all-reduces
    (Shoeybi et al., 2019) or, under sequence parallelism, all-gathers and reduce-scatters (Korthikanti et al., 2022,
    section 4.2). `regather`: there, each rank keeps its tokens only, and gathers them again for the weights' gradients,
    as Megatron-LM and this library do; torchtitan keeps what it gathered, which takes memory instead.
    `recompute="full"` repeats the forward pass; "early" as torch's checkpoint does without dropout: it stops before the
    last collective, whose result nothing in the block needs.
    """
    if recompute not in RECOMPUTE:
        raise ValueError(f"recompute is {recompute!r}; it must be one of {', '.join(map(repr, RECOMPUTE))}.")
    repeats, spared = int(recompute != "none"), int(recompute == "early")
    if not sequence_parallel:
        return {"all_reduce": 4 + 2 * repeats - spared}
    return {"all_gather": 4 + 2 * regather + 2 * repeats, "reduce_scatter": 4 + 2 * repeats - spared}


def tp_passes(**form: Unpack[Form]) -> tuple[int, int]:
    """How often a layer's activations pass around the ring, forward and backward: all-reduces pass them twice. `form`
    as above."""
    all_ = sum(count * (2 if name == "all_reduce" else 1) for name, count in tp_calls_per_layer(**form).items())
    return FORWARD_PASSES, all_ - FORWARD_PASSES


def tp_cost_per_layer(
    tokens: int, hidden: int, tp: int, latency: float, bandwidth: float, *, element_bytes: int = 2, **form: Unpack[Form]
) -> Cost:
    """Seconds, bytes and rounds of one layer's collectives, forward and backward, one after another.

    `tokens` are those of one tensor-parallel group and micro-batch, sequences times their length; `latency` in s per
    message, `bandwidth` in bytes/s one way. `form` is that of `tp_calls_per_layer`.
    """
    nbytes = (
        require_whole("tokens", tokens)
        * require_whole("hidden", hidden)
        * require_whole("element_bytes", element_bytes, "bytes")
    )
    each = {"all_reduce": ring_cost}
    costs = [
        (count, each.get(name, ring_half_cost)(nbytes, tp, latency, bandwidth))
        for name, count in tp_calls_per_layer(**form).items()
    ]
    return Cost(
        sum(count * cost.seconds for count, cost in costs),
        sum(count * cost.nbytes for count, cost in costs),
        sum(count * cost.steps for count, cost in costs),
    )


def tp_bytes_per_layer(tokens: int, hidden: int, tp: int, *, element_bytes: int = 2, **form: Unpack[Form]) -> float:
    """Bytes that each rank sends for one layer, forward and backward: 8·tokens·hidden·(1 − 1/t) elements, in either
    form.

    Narayanan et al. (2021), section 3.2. With the sequence shared out, 10 instead of 8, unless `regather=False`.
    """
    return tp_cost_per_layer(tokens, hidden, tp, 0.0, 1.0, element_bytes=element_bytes, **form).nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that each rank sends in one step, by purpose."""

    layers: float  # activations of all layers
    embedding: float
    head: float
    loss: float  # three numbers per token
    gradients: float  # of parameters with partial gradients on each rank

    @property
    def total(self) -> float:
        """All of them."""
        return self.layers + self.embedding + self.head + self.loss + self.gradients


def tp_bytes_per_step(
    config: "Config",
    batch: int,
    seq: int,
    tp: int,
    *,
    sequence_parallel: bool = False,
    vocab_parallel: bool = True,
    element_bytes: int = 4,
    loss_bytes: int = 4,
    recompute: str = "none",
) -> Traffic:
    """Bytes that each rank sends in one step of `batch` sequences, in however many micro-batches.

    `config` is a `transformer.Config` or has its attributes; parameters and activations take `element_bytes`, numbers
    of the loss `loss_bytes`. All parameters are trained.
    """
    check_split(config, tp)
    tokens = require_whole("batch", batch) * require_whole("seq", seq)
    half = ring_half_cost(
        tokens * config.hidden * element_bytes, tp, 0.0, 1.0
    ).nbytes  # an all-gather or reduce-scatter of activations
    form: Form = {"sequence_parallel": sequence_parallel, "recompute": recompute}
    sp, vp = sequence_parallel, vocab_parallel
    return Traffic(
        layers=config.layers * tp_bytes_per_layer(tokens, config.hidden, tp, element_bytes=element_bytes, **form),
        embedding=half * (2 if vp else 1 if sp else 0),  # forward and, under sequence parallelism, backward
        head=half * (3 if sp and vp else 2 if vp else 1 if sp else 0),
        loss=ring_cost(3 * tokens * loss_bytes, tp, 0.0, 1.0).nbytes * vp,
        gradients=_partial(config, tp, sp, vp) * element_bytes,
    )


def _partial(config: "Config", tp: int, sequence_parallel: bool, vocab_parallel: bool) -> float:
    """Numbers that a rank sends to sum partial gradients."""
    held = [piece for pieces in plan(config, tp, 0, sequence_parallel, vocab_parallel).values() for piece in pieces]
    return sum(ring_cost(piece.numel, piece.copies, 0.0, 1.0).nbytes for piece in held if piece.partial)
