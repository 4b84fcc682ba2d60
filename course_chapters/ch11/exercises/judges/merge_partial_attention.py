import math

import torch
from torch import Tensor

from course_chapters.ch11.exercises.judges.shared import log_sum_fault
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, describe, judged, placed
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import coin_of, normal, tensor_fault

Pair = tuple[Tensor, Tensor]
right = Worked("merge-partial-attention")
ROUNDED = 2.0**-22  # of the largest log-sum: what a weight may be off because the total was rounded to fp32


def _merge_cases(params: Params, rng: Random) -> list[Case]:
    coin, heads, width = coin_of(rng), params["heads"], params["width"]

    def part(tokens: int, size: float, unseen: str = "") -> Pair:
        output, log_sum = normal(coin, heads, tokens, width), normal(coin, heads, tokens) * size
        hide = {"": slice(0, 0), "all": slice(None), "first": slice(0, 1)}.get(unseen, slice(0, None, 2))
        log_sum[:, hide] = -math.inf
        if unseen != "anything":
            output[:, hide] = torch.nan if unseen in ("some", "all") else 0.0
        else:
            output[:, :1] = torch.inf
        return output, log_sum

    def low(pair: Pair) -> Pair:
        return pair[0], pair[1] - 1e4

    halves, uncounted = ("", "some") * 6, ("anything", "anything", "first")
    blind = [(part(3, 1.0)[0], torch.full((heads, 3), -math.inf)) for _ in range(2)]
    return [
        shown("two parts", "values:pair", [part(3, 1.0), part(3, 1.0)]),
        hidden("five parts", "values:pair", [part(4, 2.0) for _ in range(5)]),
        hidden("three parts with log-sums far apart", "generality:large", [part(4, 30.0) for _ in range(3)]),
        hidden("two parts with log-sums in the thousands", "generality:large", [part(4, 4000.0) for _ in range(2)]),
        hidden("log-sums near -10,000", "generality:large", [low(part(3, 1.0)), low(part(3, 1.0))]),
        hidden("twelve parts near -10,000, half unseen", "generality:large", [low(part(3, 1.0, at)) for at in halves]),
        hidden("a hundred parts", "generality:large", [part(1, 1.0) for _ in range(100)]),
        hidden("one part", "generality:unseen", [part(2, 1.0)]),
        hidden("some queries see nothing of the first part", "generality:unseen", [part(5, 1.0, "some"), part(5, 1.0)]),
        hidden("no query sees the second part", "generality:unseen", [part(3, 1.0), part(3, 1.0, "all"), part(3, 1.0)]),
        hidden("the first query sees nothing", "generality:unseen", [part(4, 1.0, "first"), part(4, 1.0, "first")]),
        hidden("some queries see nothing at all", "generality:unseen", [part(5, 1.0, "some"), part(5, 1.0, "some")]),
        hidden("one part, of which some queries see nothing", "generality:unseen", [part(5, 1.0, "some")]),
        hidden("outputs that do not count", "generality:unseen", [part(5, 1.0, unseen) for unseen in uncounted]),
        hidden("no query sees anything, and outputs are finite", "generality:unseen", blind),
        hidden("no tokens", "generality:unseen", [part(0, 1.0), part(0, 1.0)]),
    ]


def _merge_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    parts, got = case.args[0], outcome.value
    if type(got) not in (tuple, list) or len(got) != 2:
        return "wrong-shape", f"return (output, log_sum), two tensors; got {describe(got)}."
    (output, total), log_sums = right.value(case), [two.double() for _, two in parts]
    size = max((two[two > -math.inf].abs().max().item() for two in log_sums if (two > -math.inf).any()), default=0.0)
    output_fault = tensor_fault("the output", got[0], output, rel=1e-4 + ROUNDED * size)
    return placed(output_fault, 0) or placed(log_sum_fault("the log-sum", got[1], total), 1)


JUDGING = Judging(
    shares="values:pair 0.5, generality:large 0.25, generality:unseen 0.25",
    cases=_merge_cases,
    verdicts=lambda params, case, outcome: judged(case, _merge_fault(params, case, outcome), named=True),
    why="""Each output was divided by its own sum of exponentials. exp(log_sum − total) replaces that divisor with the
sum over all keys. Such merges can be done in any order and in any grouping, which is why attention can be split.""",
    pytorch="`torch.ops.aten._scaled_dot_product_flash_attention` returns the log-sum; PyTorch's context parallelism "
    "merges with it.",
)

ANSWERS = r'''# %% right: worked
def merge_parts(parts: list) -> tuple[torch.Tensor, torch.Tensor]:
    """(output, log_sum) of attention over all keys, from such pairs of its parts."""
    outputs = torch.stack([output for output, _ in parts])
    log_sums = torch.stack([log_sum for _, log_sum in parts])
    total, seen = torch.logsumexp(log_sums, 0), log_sums > -math.inf
    shares = torch.where(seen, (log_sums - total).exp(), 0.0).unsqueeze(-1)
    return (shares * torch.where(seen.unsqueeze(-1), outputs, 0.0)).sum(0), total
# %% right: a softmax of the log-sums
# ~ torch.where(seen, (log_sums - total).exp(), 0.0) ==> log_sums.softmax(0).nan_to_num(0.0)
# %% wrong: plain mean => values
# > this is the plain mean; a part counts by its sum of exponentials.
# ~ (shares * torch.where(seen.unsqueeze(-1), outputs, 0.0)).sum ==> torch.where(seen.unsqueeze(-1), outputs, 0.0).mean
# %% wrong: plain sum => values
# > the outputs were added; each is a mean over its own keys.
# ~ (shares * torch.where(seen.unsqueeze(-1), outputs, 0.0)) ==> torch.where(seen.unsqueeze(-1), outputs, 0.0)
# %% wrong: not divided => values
# > it is not divided by the total sum of exponentials.
# ~ (log_sums - total).exp() ==> log_sums.exp()
# %% wrong: largest => values
# > this is the largest log-sum; add the exponentials.
# ~ .sum(0), total ==> .sum(0), log_sums.amax(0)
# %% wrong: sum of logs => values
# > the logs were added; add the exponentials, then take the log.
# ~ .sum(0), total ==> .sum(0), log_sums.sum(0)
# %% wrong: maximum missing => values
# > the maximum that the exponentials were divided by is not added again.
# ~ .sum(0), total ==> .sum(0), total - log_sums.amax(0).nan_to_num(neginf=0.0)
# %% wrong: exponentials without a maximum => generality bare-exponentials
# > the bare exponential of a log-sum overflows or becomes 0; only differences of log-sums are small.
# ~ total, seen = torch.logsumexp(log_sums, 0), ==> total, seen = log_sums.exp().sum(0).log(),
# ~ torch.where(seen, (log_sums - total).exp(), 0.0) ==> torch.where(seen, log_sums.exp() / total.exp(), 0.0)
# %% wrong: a NaN of an unseen part stays => generality unseen-counts
# > the output of an unseen part was multiplied by 0, but 0 · NaN is NaN, and so is 0 · ∞.
# ~ torch.where(seen.unsqueeze(-1), outputs, 0.0) ==> outputs
# %% wrong: only NaN is set to zero => generality unseen-counts
# ~ torch.where(seen.unsqueeze(-1), outputs, 0.0) ==> torch.where(outputs.isnan(), 0.0, outputs)
# %% wrong: a query that sees nothing => generality nothing-seen
# > −∞ − (−∞) is NaN: a query that has seen no key yet needs a case of its own.
# ~ torch.where(seen, (log_sums - total).exp(), 0.0) ==> (log_sums - total).exp()
# %% wrong: a running merge from nothing => generality nothing-seen
def merge_parts(parts):
    output, total = torch.zeros_like(parts[0][0]), torch.full_like(parts[0][1], -math.inf)
    for other, log_sum in parts:
        old, total = total, torch.logaddexp(total, log_sum)
        share = torch.where(log_sum > -math.inf, (log_sum - total).exp(), 0.0).unsqueeze(-1)
        output = output * (old - total).exp().unsqueeze(-1) + share * torch.where(share > 0, other, 0.0)
    return output, total
# %% wrong: one part comes back as it is => generality one-part
# > a single part came back as it is, with whatever it holds where nothing was seen.
#       log_sums = torch.stack([log_sum for _, log_sum in parts])
# +     if len(parts) == 1:
# +         return parts[0][0].clone(), parts[0][1].clone()
# %% wrong: the log-sum of nothing is a large number => generality not-minus-infinity
# ~ .sum(0), total ==> .sum(0), total.clamp(min=-1e30)
# %% wrong: an output counts where no part was seen => generality other-numbers
# ~ where(seen, (log_sums - total).exp(), 0.0) ==> softmax(log_sums.clamp(min=-1e30), 0)
# ~ torch.where(seen.unsqueeze(-1), outputs, 0.0) ==> outputs.nan_to_num(0.0, posinf=0.0)
# %% wrong: an unseen part weighs as one of -9000 => generality ~
# ~ where(seen, (log_sums - total).exp(), 0.0) ==> softmax(log_sums.nan_to_num(neginf=-9e3), 0)
# %% wrong: sixty-four parts at most => generality other-numbers
# ~ for output, _ in parts]) ==> for output, _ in parts[:64]])
# ~ for _, log_sum in parts]) ==> for _, log_sum in parts[:64]])
# %% wrong: in place => values changed
# ~ output for ==> output.nan_to_num_(0.0).mul_(2) / 2 for
'''
