"""What chapter 09's judges share: the gradients of one process, and bytes between a floor and a ceiling.

Every rank gets its own pieces of secret weights; the judge alone has the whole. An answer can have the right numbers on all
ranks only if the ranks communicated, and the meter shows how much.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from course_lib.judging import Fault, Mistake, first, judged, verdict
from course_lib.judging.tensors import nbytes, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Verdict

Weights = Mapping[str, Tensor]
Result = Mapping[str, Any]  # what one rank's passes gave: y, grads by input, names of the inputs that were touched
Check = Callable[[int, Result], Fault | None]


def ring_most(elements: int, item: int, n: int) -> int:
    """The most bytes that a rank sends in a ring all-reduce."""
    return 2 * min(elements, (n - 1) * -(-elements // n)) * item if n > 1 else 0


def ring_bytes(tensor: Tensor, n: int) -> tuple[int, int]:
    """Bytes of one all-reduce: the least that all ranks send together, and the most that one sends."""
    return 2 * (n - 1) * nbytes(tensor), ring_most(tensor.numel(), tensor.element_size(), n)


def traffic(meter: Meter, least: float, most: float, known: Sequence[Mistake] = (), allowed: str = "") -> Fault | None:
    """Bytes of a run against a floor on all ranks' together and a ceiling on each rank's.

    The value of a mistake in `known` is the number of bytes that a rank sends too many.
    """
    sent = meter["bytes_sent"]
    worst = max(range(len(sent)), key=sent.__getitem__)
    if sent[worst] > most:
        over, lead = sent[worst] - most, f"Rank {worst} sends {sent[worst]:,} bytes"
        if most and len(sent) > 2 and sent[worst] > 1.9 * (sum(sent) - sent[worst]) / (len(sent) - 1):
            return "one-root", f"{lead}, as everything goes through it; {most:,.0f} are enough. {allowed}".strip()
        for mistake in known:
            if mistake.value and abs(over - mistake.value) <= 0.02 * mistake.value + 8:
                return mistake.name, mistake.message
        enough = f", {most:,.0f} are enough" if most else "; nothing needs to be sent"
        return "too-many-bytes", f"{lead}{enough}. {allowed}".strip()
    if sum(sent) < least:
        needed = f"All ranks together sent {sum(sent):,} bytes and need {least:,.0f}"
        return "too-few-bytes", f"{needed}: every part must reach the sum, and the sum every rank."
    return None


def whole_gradients(
    call: Callable[..., Tensor], inputs: Weights, gradient: Tensor | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The value and every gradient in one process, computed in double precision and given back in the inputs' dtypes."""
    leaves = {name: value.detach().double().clone().requires_grad_() for name, value in inputs.items()}
    out = call(leaves)
    out.backward(None if gradient is None else gradient.double())
    dtype = next(iter(inputs.values())).dtype
    return out.detach().to(dtype), {name: leaf.grad.to(inputs[name].dtype) for name, leaf in leaves.items()}


def part(tensor: Tensor, n: int, rank: int, dim: int = 0) -> Tensor:
    """A rank's equal part, in memory of its own."""
    return tensor.chunk(n, dim)[rank].clone()


def off_by_ranks(n: int, want: Tensor) -> tuple[Mistake, Mistake]:
    """A gradient that was summed over `n` ranks once too often, or divided by them."""
    again = "after the sum all ranks hold the same, so its gradient is not summed again."
    times_n = Mistake("times-n", n * want, f"it is {n} times too large: {again}")
    return times_n, Mistake("divided", want / n, f"it is {n} times too small.")


def touched(results: Sequence[Result]) -> Fault | None:
    """An input that the answer changed."""
    for rank, result in enumerate(results):
        if result["touched"]:
            names = ", ".join(str(name)[:20] for name in result["touched"][:4])
            return "changed-input", f"Rank {rank} changed its input {names}: `all_reduce` is in place, so sum a copy."
    return None


def gradient_faults(
    result: Result, rank: int, want: Weights, mistakes: Mapping[str, Sequence[Mistake]]
) -> Fault | None:
    """The first of a rank's gradients that is not the one in `want`."""
    for name, right in want.items():
        if result["grads"].get(name) is None:
            lead = f"Rank {rank}: `{name}` got no gradient. Autograd does not follow `all_reduce`"
            return "no-gradient", f"{lead}: y must come from torch's operations, or from a Function."
        where = f"Rank {rank}: the gradient of `{name}`"
        if fault := tensor_fault(where, result["grads"][name], right, mistakes.get(name, ())):
            return fault
    return None


def over_ranks(results: Sequence[Result], check: Check) -> Fault | None:
    """The first fault of any rank."""
    return next((fault for rank, result in enumerate(results) if (fault := check(rank, result))), None)


def layer_verdicts(
    case: Case,
    results: Sequence[Result],
    output: tuple[str, Check],
    gradients: Mapping[str, Check],
    spent: Fault | None,
    right: str = "y is right",
) -> list[Verdict]:
    """The verdicts on both passes: the output, the gradients once that is right, and then the bytes in `spent`.

    `output` and `gradients` give the share of the values and the check of each; other cases have one verdict.
    """
    fault = over_ranks(results, output[1]) or touched(results)
    later = fault and (fault[0], f"Gradients count once {right}.")
    found = {share: later if fault else over_ranks(results, check) for share, check in gradients.items()}
    if case.kind != "values":
        return judged(case, fault or first(*found.values()))
    verdicts = [verdict("values", share, case, wrong) for share, wrong in ((output[0], fault), *found.items())]
    return verdicts if any(found.values()) else [*verdicts, verdict("cost", "bytes", case, spent)]
