"""How chapter 05 calls answers: rounding on a tensor that must stay as it was, training steps, scalers and streams of
chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from course_grader.exercises.probes import CHANGED, watched
from course_grader.exercises.values import copied, unchanged

if TYPE_CHECKING:
    from torch import Tensor

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

RESCALED = "unscale changed the scale"
KEPT = "the chunks were kept"


@watched
def scaled(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The scale before each step of a run and after the last, or what `unscale` returns.

    `case.args = (what, start, interval, given)` for a run, and with the overflows of earlier steps as a fifth argument
    for `unscale`.
    """
    what, start, interval, given, *earlier = case.args
    scaler, other = answer(start, interval), answer(8 * start, interval + 1)  # two live ones must share nothing
    for overflow in earlier[0] if earlier else ():
        scaler.unscale([gradient.clone() for gradient in given])  # with the scale of that step
        scaler.update(overflow)
        other.update(not overflow)
    scale = scaler.scale
    if what == "run":
        scales = [scaler.scale]
        for overflow in given:
            scaler.update(overflow)
            other.update(not overflow)
            scales.append(scaler.scale)
        return scales
    result = scaler.unscale(given)
    return result if scaler.scale == scale else RESCALED


def agreed(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """A rank's new weights and whether it took the step."""
    result = answer(comm, *case.args)
    if type(result) not in (tuple, list) or len(result) != 2:
        return result
    return {"weights": result[0], "stepped": result[1]}


@watched
def averaged(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The mean that comes back, the calls of the sum and the dtypes that it was given.

    `case.args = (gradients, ranks that the network loses)`: what the lost ranks send is not in the sum.
    """
    import torch

    gradients, lost = case.args
    calls = []

    def tree_sum(given: Iterable[Tensor]) -> object:
        given = list(given)
        calls.append(sorted({str(tensor.dtype) for tensor in given}))
        level = [tensor.to(torch.float16) for tensor in given[: len(given) - lost]]
        while len(level) > 1:
            pairs = [one + two for one, two in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[2 * len(pairs) :]
        return level[0]

    return {"mean": answer(gradients, tree_sum), "calls": calls}


def every_noise(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The numbers of `case.args = (x, dropped)` rounded with each noise that `dropped` bits allow: a column a
    number."""
    import torch

    x, dropped = case.args
    results = []
    for noise in torch.arange(2**dropped, dtype=torch.int32).chunk(2):  # the same numbers with other noise
        wide, noises = x.expand(len(noise), -1).contiguous(), noise[:, None].expand(-1, len(x)).contiguous()
        before = wide.clone(), noises.clone()
        with torch.random.fork_rng(devices=[]):
            results.append(answer(wide, noises))
        if not unchanged(before, (wide, noises)):
            return CHANGED
    fit = all(isinstance(each, torch.Tensor) and each.shape == wide.shape for each in results)
    return torch.cat(results) if fit else results[0]


@watched
def decayed(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The new weights, and the dtypes and numbers of what was to be rounded, in the order of the calls."""
    import torch

    weight, direction, rate, decay = case.args
    calls, version = [], weight._version  # a step that rounds back to the old weight writes the same numbers

    def stochastic_round(x: Tensor) -> Tensor:
        calls.append(x.clone())
        return x.to(torch.bfloat16)

    result = answer(weight, direction, rate, decay, stochastic_round)
    return {"weight": result, "rounded": calls} if weight._version == version else CHANGED


def compensated(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Weight and loss after each step, as a list of pairs, or CHANGED; `case.args = (weight, updates)`.

    Before each step another weight has one, so that nothing kept from the last call fits.
    """
    import torch

    weight, updates = case.args
    lost, pairs = torch.zeros_like(weight), []
    for update in updates:
        given = weight, lost, update
        before = copied(given)
        answer(-weight, -lost, -update)
        result = answer(*given)
        if not unchanged(before, given):
            return CHANGED
        if type(result) not in (tuple, list) or [isinstance(each, torch.Tensor) for each in result] != [True, True]:
            return result
        pairs.append([each.clone() for each in result])
        weight, lost = result
    return pairs


@watched
def trained(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Master weights, momentum and copy after a step, and the weights that each loss was computed with.

    `case.args = (master, momentum, micro-batches, rate, name of the dtype)`; the loss of a micro-batch (a, b) is Σ
    a·w + b·w²/2.
    """
    import torch

    master, momentum, microbatches, rate, accumulate = case.args
    calls = []

    def loss_of(weights: Tensor, microbatch: tuple[Tensor, float]) -> Tensor:
        calls.append(weights.detach().clone())
        linear, square = microbatch
        wide = weights.float()
        return (linear * wide).sum() + square * wide.square().sum() / 2

    state = answer(master, momentum, microbatches, loss_of, rate, getattr(torch, accumulate))
    if type(state) in (tuple, list):
        state = [each.detach() if isinstance(each, torch.Tensor) else each for each in state]
    return {"state": state, "calls": calls}


LONG_STREAM = 100  # chunks from which on it is measured what an answer keeps of them


def streamed(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """What comes back for a stream of chunks, or KEPT where a quarter of a long stream's bytes is still held at its
    end.

    Each chunk is overwritten by NaN when the next one is asked for.
    """
    from contextlib import nullcontext

    import torch

    from course_lib.cluster.process_tuning import young_garbage

    chunks, width = case.args
    long, held = len(chunks) >= LONG_STREAM, [0, 0]

    def stream() -> object:
        held[0] = _live_bytes() if long else 0
        for scores, values in chunks:
            given = scores.clone(), values.clone()
            yield given
            for tensor in given:
                tensor.fill_(torch.nan)
        held[1] = _live_bytes() if long else 0

    with young_garbage() if long else nullcontext():  # of all tensors, those made before need no look
        result = answer(stream(), width)
    whole = sum(tensor.nbytes for pair in chunks for tensor in pair)
    return KEPT if held[1] - held[0] > whole / 4 else result


def _live_bytes() -> int:
    """The bytes of all tensors of this process, each storage once; those without memory of their own, such as sparse
    ones, left out."""
    import gc
    from contextlib import suppress

    import torch

    nbytes = {}
    for each in gc.get_objects():
        if type(each) is torch.Tensor:
            with suppress(RuntimeError):
                nbytes[each.untyped_storage().data_ptr()] = each.untyped_storage().nbytes()
    return sum(nbytes.values())


@watched
def quantized(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The values and scales that come back."""
    import torch

    x, block = case.args

    def round_e4m3(y: Tensor) -> Tensor:
        rounded = y.clamp(-448, 448).to(torch.float8_e4m3fn).float()
        return torch.where(y.abs() < 464, rounded, torch.nan)  # 464 lies halfway from 448 to what would be next

    result = answer(x, block, round_e4m3)
    return tuple(result) if type(result) is list else result
