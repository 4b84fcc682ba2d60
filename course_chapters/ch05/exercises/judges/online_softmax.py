import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_chapters.ch05.exercises.probes import KEPT
from course_grader.exercises.values import is_row, is_tensor
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, hidden, judged, shown
from course_grader.judging.tensors import close, coin_of, kind_fault, largest

right = Worked("online-softmax")


def _softmax_cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["keys"]

    def data(
        *keys: int, width: int = 3, size: float = 2.0, near: float = 0.0, slope: float = 0.0, masked: Sequence[int] = ()
    ) -> tuple[list[tuple[Tensor, Tensor]], int]:
        chunks = []
        for at, count in enumerate(keys):
            scores = torch.randn(count, generator=coin) * size + near + slope * at
            if at in masked:
                scores = torch.full((count,), -math.inf)
            chunks.append((scores, torch.randn(count, width, generator=coin)))
        return chunks, width

    some, _ = data(4, 4, 4)
    some[1][0][1:3] = -math.inf
    some[2][0][0] = -math.inf
    return [
        shown(f"three chunks of {n} keys", "values:output", *data(n, n, n, width=params["width"])),
        hidden("six chunks", "values:output", *data(5, 3, 8, 1, 2, 6, width=4)),
        hidden("128 chunks, too many to be kept", "values:output", *data(*[16] * 128, width=1)),
        hidden("one chunk", "values:output", *data(5)),
        hidden("the largest score comes first", "values:output", *data(4, 4, 4, slope=-6.0)),
        hidden("the largest score comes last", "values:output", *data(4, 4, 4, slope=6.0)),
        hidden("scores near 10,000", "generality:range", *data(4, 4, 4, near=1e4, slope=3.0)),
        hidden("scores near −10,000", "generality:range", *data(4, 4, 4, near=-1e4)),
        hidden("scores near −10¹²", "generality:range", *data(4, 4, 4, near=-1e12)),
        hidden("scores from −9,000 to 9,000", "generality:range", *data(6, 6, 6, size=4000.0)),
        hidden("some masked keys", "generality:masks", some, 3),
        hidden("the first chunk masked", "generality:masks", *data(3, 4, 2, masked=[0])),
        hidden("a chunk in the middle masked, and one empty", "generality:masks", *data(3, 4, 0, 2, masked=[1])),
        hidden("every key masked", "generality:masks", *data(3, 2, masked=[0, 1])),
        hidden("no chunk at all", "generality:masks", [], 3),
    ]


def softmax_fault(case: Case, got: object) -> Fault | None:
    chunks, _ = case.args
    if type(got) is str and got == KEPT:
        return "kept", "the chunks are copied and kept until the stream ends; keep sums that do not grow with it."
    if not is_row(got) or len(got) != 2:
        return "wrong-shape", f"return (output, log_sum); got {describe(got)}."
    output, log_sum = got
    want, total = right.value(case)
    if fault := kind_fault("`output`", output, want):
        return fault
    assert is_tensor(output)  # `kind_fault` refuses anything else
    # merged by their logs, large scores leave the rounding of a log in fp32
    rel = 2e-5 + 4e-7 * largest([scores[scores.isfinite()] for scores, _ in chunks])
    if not close(output, want, rel, largest([values for _, values in chunks])):
        left = [pair for pair in chunks if len(pair[0]) and pair[0].max() > -math.inf]
        if output.isnan().any():
            masked = "; −∞ minus −∞, or 0 divided by 0, where keys are masked" if len(left) < len(chunks) else ""
            told = "Possible causes: a chunk used after the next one came; exp of a large score"
            return "nan", f"`output` is NaN. {told}{masked}."
        return "other-numbers", "`output` is not the softmax-weighted sum of the values."
    number = torch.as_tensor(log_sum) if isinstance(log_sum, Tensor) or type(log_sum) in (int, float) else None
    if number is None or number.numel() != 1 or number.is_complex():
        return "not-a-number", f"`log_sum` is one number; got {describe(log_sum)}."
    number, total = number.double().reshape(()), total.double()
    if number == total or (total.isfinite() and bool((number - total).abs() <= 2e-6 * total.abs() + 2e-5)):
        return None
    return "other-log", "`log_sum` is not log Σ exp(scores)."


JUDGING = Judging(
    shares={"values:output": 0.5, "generality:range": 0.25, "generality:masks": 0.25},
    cases=_softmax_cases,
    verdicts=lambda params, case, outcome: judged(case, softmax_fault(case, outcome.value), named=True),
    why="""Softmax does not change when one number is subtracted from all scores. If a larger maximum shows up later,
the old sums are off by one known factor. So three running quantities replace all scores, and nothing ever exceeds 1
inside an exponential.""",
    pytorch="`torch.nn.functional.scaled_dot_product_attention` runs this loop in its flash kernels and keeps "
    "`logsumexp` for the backward.",
)

ANSWERS = r'''# %% right: worked
def stream_attention(chunks, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(softmax-weighted sum of the values, log of the sum of exponentials), from chunks seen once."""
    top, total, output = torch.tensor(-math.inf), torch.tensor(0.0), torch.zeros(width)
    for scores, values in chunks:
        if not len(scores) or scores.max() == -math.inf:
            continue
        new = torch.maximum(top, scores.max())
        old, weights = torch.exp(top - new), torch.exp(scores - new)  # `old` takes earlier sums to the new maximum
        total, output, top = total * old + weights.sum(), output * old + weights @ values, new
    if total == 0:
        return output, torch.tensor(-math.inf)
    return output / total, top + total.log()
# %% right: by merging pairs of results
def stream_attention(chunks, width):
    output, log_sum = torch.zeros(width), -math.inf
    for scores, values in chunks:
        here = torch.logsumexp(scores, 0).item() if len(scores) else -math.inf
        if here == -math.inf:
            continue
        both = max(here, log_sum) + math.log1p(math.exp(-abs(here - log_sum)))
        own = torch.softmax(scores, 0) @ values
        output = output * math.exp(log_sum - both) + own * math.exp(here - both)
        log_sum = both
    return output, log_sum
# %% wrong: nothing is subtracted => generality nan
# ~ torch.maximum(top, scores.max()) ==> torch.tensor(0.0)
# %% wrong: not rescaled => values
# > earlier sums are relative to an older maximum; rescale them when it grows.
# ~ total * old + weights.sum(), output * old + weights @ values ==> total + weights.sum(), output + weights @ values
# %% wrong: mean of chunks => values
# > the outputs of the chunks were averaged; each counts by its sum of exponentials.
#       top, total, output = torch.tensor(-math.inf), torch.tensor(0.0), torch.zeros(width)
# +     outputs = []
#               continue
# +         outputs.append(torch.softmax(scores, 0) @ values)
# ~ output / total ==> torch.stack(outputs).mean(0)
# %% wrong: last chunk => values  from: by merging pairs of results
# > this is the output of the last chunk alone.
# ~ output * math.exp(log_sum - both) + own * math.exp(here - both) ==> own
# %% wrong: first chunk => values
# > this is the output of the first chunk alone.
#               continue
# +         if top > -math.inf:
# +             break
# %% wrong: not divided => values
# > the output is not divided by the sum of exponentials.
# ~ output / total, ==> output,
# %% wrong: relative log => values
# > the log is relative to the maximum; add the maximum back.
# ~ top + total.log() ==> total.log()
# %% wrong: chunks are kept => values nan
# ~ in chunks: ==> in list(chunks):
# %% wrong: copies of all chunks => values kept
# ~ in chunks: ==> in [(scores.clone(), values.clone()) for scores, values in chunks]:
# %% wrong: a masked chunk gives NaN => generality nan
# ~ not len(scores) or scores.max() == -math.inf ==> not len(scores)
# %% wrong: an empty chunk has no maximum => generality raised
# ~ not len(scores) or scores ==> scores
# %% wrong: nothing is left => generality nan
# ~ total == 0 ==> total < 0
# %% wrong: half precision => values another-kind
# ~ output / total ==> (output / total).half()
# %% wrong: the output alone => values wrong-shape
# ~ output / total, top + total.log() ==> output / total
# %% wrong: the largest score so far starts at a billion below zero => generality other-log
# ~ top, total, output = torch.tensor(-math.inf) ==> top, total, output = torch.tensor(-1e9)
'''
