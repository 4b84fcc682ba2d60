"""Judge of merge-partial-attention: merge attention over parts of the keys."""

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.shared import log_sum_fault
from course_lib.judging import Fault, Judging, Params, describe, first, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.mistakes import mistakes
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.records import Case, Outcome

Pair = tuple[Tensor, Tensor]
ROUNDED = 2.0**-22  # of the largest log-sum: what a weight may be off because the total was rounded to fp32


def _merge_cases(params: Params, rng: random.Random) -> list[Case]:
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


def merged_pair(parts: Sequence[Pair]) -> Pair:
    """Output and log-sum over all parts, in float64."""
    log_sums = torch.stack([log_sum for _, log_sum in parts]).double()
    total = log_sums.logsumexp(0)
    shares = (log_sums - total).exp().nan_to_num(0.0).unsqueeze(-1)
    return sum(share * output.double().nan_to_num(0.0) for share, (output, _) in zip(shares, parts, strict=True)), total


MERGED = {
    "plain-mean": "this is the plain mean; a part counts by its sum of exponentials.",
    "plain-sum": "the outputs were added; each is a mean over its own keys.",
    "not-divided": "it is not divided by the total sum of exponentials.",
}
SUMMED = {
    "largest": "this is the largest log-sum; add the exponentials.",
    "sum-of-logs": "the logs were added; add the exponentials, then take the log.",
}


def _merge_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    parts, got = case.args[0], outcome.value["merged"]
    if outcome.value["touched"] is not False:
        return "changed", "a given tensor was changed; return new ones."
    if type(got) not in (tuple, list) or len(got) != 2:
        return "wrong-shape", f"return (output, log_sum), two tensors; got {describe(got)}."
    output, total = merged_pair(parts)
    outputs, log_sums = [one.double().nan_to_num(0.0) for one, _ in parts], [two.double() for _, two in parts]
    slips = {
        "plain-mean": sum(outputs) / len(parts),
        "plain-sum": sum(outputs),
        "not-divided": output * total.exp().unsqueeze(-1),
    }
    sums = mistakes({"largest": torch.stack(log_sums).amax(0), "sum-of-logs": sum(log_sums)}, SUMMED)
    known = mistakes({name: value.float() for name, value in slips.items()}, MERGED)
    size = max((two[two > -math.inf].abs().max().item() for two in log_sums if (two > -math.inf).any()), default=0.0)
    return first(
        tensor_fault("the output", got[0], output.float(), known, rel=1e-4 + ROUNDED * size),
        log_sum_fault("the log-sum", got[1], total, sums),
    )


JUDGING = Judging(
    shares="values:pair 0.5, generality:large 0.25, generality:unseen 0.25",
    cases=_merge_cases,
    verdicts=lambda params, case, outcome: judged(case, _merge_fault(params, case, outcome), named=True),
    why="""Each output was divided by its own sum of exponentials. exp(log_sum − total) replaces that divisor with the sum over all keys. Such merges can be done in
any order and in any grouping, which is why attention can be split.""",
    pytorch="`torch.ops.aten._scaled_dot_product_flash_attention` returns the log-sum; PyTorch's context parallelism merges with it.",
)

ANSWERS = r"""import math

import torch


# %% right: all parts at once
def merge_parts(parts):
    outputs = torch.stack([output for output, _ in parts])
    log_sums = torch.stack([log_sum for _, log_sum in parts])
    total = torch.logsumexp(log_sums, 0)
    shares = torch.where(log_sums == -math.inf, 0.0, (log_sums - total).exp())
    outputs = torch.where((log_sums == -math.inf).unsqueeze(-1), 0.0, outputs)
    return (shares.unsqueeze(-1) * outputs).sum(0), total


# %% right: a softmax of the log-sums  from: all parts at once
# ~ torch.where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> log_sums.softmax(0).nan_to_num(0.0)


# %% wrong: exponentials without a maximum => generality not-finite
def merge_parts(parts):
    total = sum(log_sum.exp() for _, log_sum in parts)
    output = sum(
        torch.where((log_sum == -math.inf).unsqueeze(-1), 0.0, one * log_sum.exp().unsqueeze(-1))
        for one, log_sum in parts
    )
    return torch.where((total == 0).unsqueeze(-1), 0.0, output / total.unsqueeze(-1)), total.log()


# %% wrong: the mean of the parts => values plain-mean  from: all parts at once
# ~ (shares.unsqueeze(-1) * outputs).sum(0) ==> outputs.mean(0)

# %% wrong: a NaN of an unseen part stays => generality not-finite  from: all parts at once
# ~ torch.where((log_sums == -math.inf).unsqueeze(-1), 0.0, outputs) ==> outputs * 1

# %% wrong: a query that sees nothing => generality not-finite  from: all parts at once
# ~ torch.where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> (log_sums - total).exp()

# %% wrong: the largest log-sum => values largest  from: all parts at once
# ~ (0), total ==> (0), log_sums.amax(0)

# %% wrong: the logs are added => values sum-of-logs  from: all parts at once
# ~ (0), total ==> (0), log_sums.sum(0)

# %% wrong: the outputs are added => values plain-sum  from: all parts at once
# ~ (shares.unsqueeze(-1) * outputs) ==> outputs

# %% wrong: the log-sum of nothing is a large number => generality not-minus-infinity  from: all parts at once
# ~ (0), total ==> (0), total.clamp(min=-1e30)

# %% wrong: in place => values changed  from: all parts at once
# ~ output for ==> output.nan_to_num_(0.0).mul_(2) / 2 for

# %% wrong: an output counts where no part was seen => generality -  from: all parts at once
# ~ where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> softmax(log_sums.clamp(min=-1e30), 0)
# ~ torch.where((log_sums == -math.inf).unsqueeze(-1), 0.0, outputs) ==> outputs.nan_to_num(0.0, posinf=0.0)

# %% wrong: only NaN is set to zero => generality not-finite  from: all parts at once
# ~ (log_sums == -math.inf).unsqueeze(-1) ==> outputs.isnan()

# %% wrong: one part comes back as it is => generality not-finite  from: all parts at once
#   def merge_parts(parts):
# +     if len(parts) == 1:
# +         return parts[0][0].clone(), parts[0][1].clone()

# %% wrong: an unseen part weighs as one of -9000 => generality ~  from: all parts at once
# ~ where(log_sums == -math.inf, 0.0, (log_sums - total).exp()) ==> softmax(log_sums.nan_to_num(neginf=-9e3), 0)

# %% wrong: sixty-four parts at most => generality -  from: all parts at once
# ~ for output, _ in parts]) ==> for output, _ in parts[:64]])
# ~ for _, log_sum in parts]) ==> for _, log_sum in parts[:64]])
"""
