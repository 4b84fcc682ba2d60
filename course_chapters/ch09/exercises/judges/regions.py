"""What chapter 09's judges share: both passes against the worked answer's, and bytes between a floor and a ceiling.

Every rank gets its own pieces of secret weights; the judge alone has the whole. An answer can have the right numbers on
all ranks only if the ranks communicated, and the meter shows how much.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from course_grader.judging import Case, Fault, Oracle, Outcome, Params, Verdict, Worked, Wrong, first, judged, verdict
from course_grader.judging.mistakes import first_of
from course_grader.judging.tensors import nbytes, tensor_fault
from course_grader.judging.traffic import Meter

Result = Mapping[str, Any]  # what one rank's passes gave: y, grads by input, names of the inputs that were touched


def ring_most(elements: int, item: int, n: int) -> int:
    """The most bytes that a rank sends in a ring all-reduce."""
    return 2 * min(elements, (n - 1) * -(-elements // n)) * item if n > 1 else 0


def ring_bytes(tensor: Tensor, n: int) -> tuple[int, int]:
    """Bytes of one all-reduce: the least that all ranks send together, and the most that one sends."""
    return 2 * (n - 1) * nbytes(tensor), ring_most(tensor.numel(), tensor.element_size(), n)


def traffic(meter: Meter, least: float, most: float, allowed: str = "") -> Fault | None:
    """Bytes of a run against a floor on all ranks' together and a ceiling on each rank's."""
    sent = meter["bytes_sent"]
    worst = max(range(len(sent)), key=sent.__getitem__)
    if sent[worst] > most:
        lead = f"Rank {worst} sends {sent[worst]:,} bytes"
        if most and len(sent) > 2 and sent[worst] > 1.9 * (sum(sent) - sent[worst]) / (len(sent) - 1):
            return "one-root", f"{lead}, as everything goes through it; {most:,.0f} are enough. {allowed}".strip()
        enough = f", {most:,.0f} are enough" if most else "; nothing needs to be sent"
        return "too-many-bytes", f"{lead}{enough}. {allowed}".strip()
    if sum(sent) < least:
        needed = f"All ranks together sent {sum(sent):,} bytes and need {least:,.0f}"
        return "too-few-bytes", f"{needed}: every part must reach the sum, and the sum every rank."
    return None


def part(tensor: Tensor, n: int, rank: int, dim: int | None = 0) -> Tensor:
    """A rank's piece along a dimension; all of it for None."""
    return (tensor if dim is None else tensor.chunk(n, dim)[rank]).clone()


def over_ranks(
    check: Callable[[int, Result, Result], Fault | None], results: Sequence[Result], wants: Sequence[Result]
) -> Fault | None:
    """The first fault of any rank: `check` gets the rank, its result and the worked answer's."""
    return first(*(check(rank, *both) for rank, both in enumerate(zip(results, wants, strict=True))))


def within(fault: Fault | None, *where: str | int) -> Fault | None:
    """A fault of this part of a rank's result."""
    return fault and Wrong(*fault)._replace(where=where)


def touched(rank: int, got: Result, want: Result) -> Fault | None:
    """An input that the answer changed."""
    if not got["touched"]:
        return None
    names = ", ".join(str(name)[:20] for name in got["touched"][:4])
    return "changed-input", f"Rank {rank} changed its input {names}. `all_reduce` and `+=` work in place: use a copy."


def gradient_fault(rank: int, name: str, got: Tensor | None, want: Tensor) -> Fault | None:
    """What is wrong with the gradient of an input."""
    where = f"Rank {rank}: the gradient of `{name}`"
    if got is not None:
        return tensor_fault(where, got, want)
    told = "Autograd does not follow `all_reduce`: compute the result with torch's operations, or a Function."
    return Wrong("no-gradient", f"Rank {rank}: `{name}` got no gradient. {told}", f"{where}: ")


def one_sum_each(passes: int) -> Callable[[Case, Outcome], Fault | None]:
    """What an answer spent beyond one all-reduce of a tensor like its output, in the forward pass or in both."""
    allowed = "a tensor like x each way" if passes == 2 else "the output, in the forward pass"

    def spent(case: Case, outcome: Outcome) -> Fault | None:
        least, one = ring_bytes(outcome.value[0]["y"], len(outcome.value))
        return traffic(outcome.meter, passes * least, passes * one, f"One all-reduce of {allowed}.")

    return spent


def layer(
    right: Worked,
    spent: Callable[[Case, Outcome], Fault | None],
    output: str = "output",
    what: str = "y",
    hint: str = "",
    **gradients: Sequence[str],
) -> Oracle:
    """The verdicts on both passes: the output, the gradients once that is right, and then the bytes in `spent`.

    `output` is the share of the output, which messages call `what`; `gradients` gives the inputs whose gradients each
    share is for, all of them by default. Other cases have one verdict.
    """

    def out(rank: int, got: Result, want: Result) -> Fault | None:
        return within(tensor_fault(f"Rank {rank}: {what}", got["y"], want["y"], otherwise=hint), "y")

    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        results, wants = outcome.value, right.value(case)

        def grads(names: Sequence[str]) -> Fault | None:
            def check(rank: int, got: Result, want: Result) -> Fault | None:
                pairs = ((name, got["grads"].get(name), want["grads"][name]) for name in names or want["grads"])
                return first_of(within(gradient_fault(rank, *pair), "grads", pair[0]) for pair in pairs)

            return over_ranks(check, results, wants)

        fault = over_ranks(out, results, wants) or over_ranks(touched, results, wants)
        told = f"Gradients count once {what} is right"
        later = fault and Wrong(fault[0], f"{told}.", f"{told}: ")
        found = {share: later or grads(names) for share, names in (gradients or {"gradients": ()}).items()}
        if case.kind != "values":
            return judged(case, fault or first(*found.values()))
        verdicts = [verdict("values", share, case, wrong) for share, wrong in ((output, fault), *found.items())]
        return verdicts if any(found.values()) else [*verdicts, verdict("cost", "bytes", case, spent(case, outcome))]

    return verdicts
