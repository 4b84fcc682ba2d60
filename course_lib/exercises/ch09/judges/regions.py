"""What chapter 09's judges share: numbers equal but for rounding, bytes between a floor and a ceiling.

Every rank gets its own pieces of secret weights, the judge alone has the whole. So an answer can have the right numbers on
all ranks only if the ranks have spoken, and what they said is on the meter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from course_lib.judging import Fault, Mistake, describe, verdict
from course_lib.judging.tensors import tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Verdict

Weights = Mapping[str, Tensor]
FORM = ("y", "grads", "touched", "linked")
UNLINKED = (
    "its gradient never came: y must follow from it through torch's operations, or through a Function. An all-reduce by itself "
    "is nothing that autograd knows."
)


def results(value: Any, ranks: int, keys: Sequence[str]) -> Fault | None:
    """What is wrong with the form of what the ranks sent back; None where each has all keys."""
    if (
        type(value) is list
        and len(value) == ranks
        and all(type(each) is dict and set(keys) <= set(each) for each in value)
    ):
        return None
    return "no-results", f"What came back from the ranks cannot be read: {describe(value)}."


def unread(case: Case, found: Any) -> list[Verdict]:
    """The verdict on what came back where it is not one result for each row of the case; nothing where it is."""
    if type(found) is list and len(found) == len(case.args[1]):
        return []
    return [verdict(case.kind, case.part, case, ("no-results", f"What came back cannot be read: {describe(found)}."))]


def ring_most(elements: int, item: int, n: int) -> int:
    """The most bytes that a rank sends in a ring all-reduce."""
    return 2 * min(elements, (n - 1) * -(-elements // n)) * item if n > 1 else 0


def traffic(meter: Meter, least: float, most: float, known: Sequence[Mistake] = (), allowed: str = "") -> Fault | None:
    """Bytes of a run against a floor on all ranks' together and a ceiling on each rank's.

    The value of a mistake in `known` is the number of bytes that a rank sends too many.
    """
    sent = meter["bytes_sent"]
    worst = max(range(len(sent)), key=sent.__getitem__)
    if sent[worst] > most:
        over = sent[worst] - most
        if most and len(sent) > 2 and sent[worst] > 1.9 * (sum(sent) - sent[worst]) / (len(sent) - 1):
            root = (
                f"Everything goes through rank {worst}: it sends {sent[worst]:,} bytes, where {most:,.0f} are enough."
            )
            return "one-root", f"{root} {allowed}".strip()
        for mistake in known:
            if mistake.value and abs(over - mistake.value) <= 0.02 * mistake.value + 8:
                return mistake.name, mistake.message
        lead = f"Rank {worst} sends {sent[worst]:,} bytes"
        if not most:
            return "too-many-bytes", f"{lead}; nothing has to travel. {allowed}".strip()
        return "too-many-bytes", f"{lead}, {most:,.0f} are enough. {allowed}".strip()
    if sum(sent) < least:
        return "too-few-bytes", (
            f"All ranks together sent {sum(sent):,} bytes and need {least:,.0f}: every rank's part must reach the sum, and "
            "the sum every rank."
        )
    return None


def whole_gradients(
    call: Callable[..., Tensor], inputs: Mapping[str, Tensor], gradient: Tensor | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """What one process gets: the value and every gradient, worked out in double precision and given back in the inputs' dtypes."""
    leaves = {name: value.detach().double().clone().requires_grad_() for name, value in inputs.items()}
    out = call(leaves)
    out.backward(None if gradient is None else gradient.double())
    kind = next(iter(inputs.values())).dtype
    return out.detach().to(kind), {name: leaf.grad.to(inputs[name].dtype) for name, leaf in leaves.items()}


def part(tensor: Tensor, n: int, rank: int, dim: int = 0) -> Tensor:
    """A rank's equal part, in memory of its own."""
    return tensor.chunk(n, dim)[rank].clone()


def touched(results_: Sequence[Mapping[str, Any]]) -> Fault | None:
    """An input that the answer changed."""
    for rank, each in enumerate(results_):
        if type(each["touched"]) not in (list, bool) or each["touched"]:
            names = each["touched"] if type(each["touched"]) is list else []
            what = ", ".join(str(name)[:20] for name in names[:4]) or "its input"
            return "changed-input", (
                f"Rank {rank} changed {what}, which is not its own: `all_reduce` works in place, so give it a tensor of "
                "its own."
            )
    return None


def case_of(name: str, n: int, per_rank: Any, **more: Any) -> Case:
    """A case of the cluster."""
    return Case(name=name, ranks=n, per_rank=per_rank, **more)


def gradient_faults(
    got: Mapping[str, Any], rank: int, names: Sequence[str], want: Weights, mistakes: Mapping[str, Sequence[Mistake]]
) -> Fault | None:
    """The first of a rank's gradients that is not as it should be."""
    for name in names:
        if type(got["grads"]) is not dict or got["grads"].get(name) is None:
            return "no-gradient", f"Rank {rank}, `{name}`: {UNLINKED}"
        if fault := tensor_fault(
            f"Rank {rank}: the gradient of `{name}`", got["grads"][name], want[name], mistakes.get(name, ())
        ):
            return fault
    return None


def over_ranks(
    found: Sequence[Mapping[str, Any]], check: Callable[[int, Mapping[str, Any]], Fault | None]
) -> Fault | None:
    """The first fault of any rank."""
    return next((fault for rank, each in enumerate(found) if (fault := check(rank, each))), None)


def after(fault: Fault) -> Fault:
    """The same fault, told of the gradients that were not looked at."""
    return fault[0], "Gradients count once y is right."


def as_part(case: Case, share: str) -> Case:
    """The case, counted for another share."""
    return replace(case, part=share)
