"""Judge of mfu-bug: find the bug: a utilization in an article."""

import random
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, gpus_text, table
from course_lib.judging.draws import draw_rows, logarithmic, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.units import HOUR, number_text


def true_mfu(scope: str, p: float, seq: int, batch: int, steps: int, seconds: float, gpus: int, flops: float) -> float:
    """Model FLOPs utilization of the whole run."""
    batches = batch if scope == "all" else batch * gpus
    return 6 * p * seq * batches * steps / seconds / (gpus * flops)


def _bug_column(scope: str) -> Column:
    def mfu(*row: float) -> float:
        return true_mfu(scope, *row)

    def per_gpu(power: int) -> Any:
        """The MFU times a power of the number of GPUs; with one GPU it is right."""
        return lambda *row: mfu(*row) * row[5] ** power

    printed = 1 if scope == "all" else -1
    twice = "the number of GPUs divides twice." if scope == "all" else "the number of GPUs multiplies once too often."
    return Column(
        part="mfu",
        unit="(a fraction of one)",
        want=mfu,
        words=lambda p, s, b, k, t, n, f: f"{number_text(p)} parameters, batch {b}, {gpus_text(n)}",
        hint="The FLOPs of which GPUs, over the peak of which GPUs?",
        mistakes=(
            Mistake("as-printed", per_gpu(printed), "tokens and peak belong to different numbers of GPUs."),
            Mistake("twice-by-gpus", per_gpu(-printed), twice),
            Mistake("percent", scaled(mfu, 100), "this is a percentage; give a fraction of one."),
            Mistake("recompute-counted", scaled(mfu, 8 / 6), "8 FLOP count the recomputation too: that is the HFU."),
            Mistake("forward-only", scaled(mfu, 1 / 3), "the backward pass is missing."),
            Mistake("sparse-peak", scaled(mfu, 1 / 2), "the peak was right: `gpu_flops` is dense already."),
            Mistake("one-step", lambda *row: mfu(*row) / row[3], "the tokens are those of one step."),
            Mistake("one-sequence", lambda *row: mfu(*row) / row[2], "the batch is missing."),
        ),
    )


def _bug_cases(params: Params, rng: random.Random) -> list[Case]:
    names = ("params", "sequence", "batch", "steps")
    run = (*(params[name] for name in names), params["hours"] * HOUR, params["gpus"], params["flops"])
    others = draw_rows(
        rng,
        20,
        logarithmic(1e8, 5e11),
        (512, 2048, 8192, 131_072),
        (1, 3, 16, 48, 1024),
        (1, 10, 500, 100_000),
        logarithmic(10, 1e7),
        (2, 3, 8, 16, 512, 16_384),
        (125e12, 312e12, 989e12, 2250e12),
    )
    apart = one_apart(others, lambda *row: true_mfu(params["scope"], *row))
    sizes = logarithmic(1e9, 1e11), (2048, 4096, 8192), (2, 4, 8)
    usual = draw_rows(rng, 3, *sizes, (100, 1000), logarithmic(1e3, 1e6), (8, 64, 256), (312e12, 989e12))
    return [
        shown("the article's kind of run", "values:mfu", 0, [run]),
        plain("mfu", 0, "three more runs", usual),
        unseen(rng, "mfu", 0, "other runs", [*others, *apart, (8e9, 8192, 4, 100, 3600.0, 1, 989e12)]),
    ]


JUDGING = Judging(
    shares={"values:mfu": 0.4, "generality:mfu": 0.6},
    cases=_bug_cases,
    verdicts=lambda params, *given: table(_bug_column(params["scope"]))(params, *given),
    why="A utilization compares what was done with what the same hardware could have done. The published calculation divided "
    "the tokens of all GPUs by the peak of one, so its result was too large by the number of GPUs. Tokens of one GPU over the "
    "peak of all would be too small by the same factor. The peak itself was right: dense, and of one GPU. A quick test: with "
    "one GPU more at the same throughput, the MFU must fall.",
    pytorch="torchtitan divides tokens per second *per device* by the peak of one device; check which one a log means.",
)

ANSWERS = r"""# %% right: the peak of all GPUs
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps
    return 6 * params * tokens / seconds / (gpus * gpu_flops)


# %% right: any variant
from course_lib import params

EACH = params("mfu-bug").scope == "each"


def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps * (gpus if EACH else 1)
    return 6 * params * tokens / seconds / gpus / gpu_flops


# %% wrong: as published => values as-printed unless scope=each  from: the peak of all GPUs
# ~ (gpus * gpu_flops) ==> gpu_flops


# %% wrong: sparse peak and the GPUs => values sparse-peak  from: the peak of all GPUs
# ~ (gpus * gpu_flops) ==> (2 * gpu_flops * gpus)

# %% wrong: recomputation counted => values recompute-counted  from: the peak of all GPUs
# ~ return 6 ==> return 8

# %% wrong: in per cent => values percent  from: the peak of all GPUs
# ~ return 6 ==> return 600

# %% wrong: one GPU's tokens over all peaks => values twice-by-gpus  from: the peak of all GPUs
# ~ sequence * batch ==> sequence * (batch / gpus)

# %% wrong: tokens of one step => values one-step  from: the peak of all GPUs
# ~ batch * steps ==> batch

# %% wrong: sixteen by heart => values -  from: the peak of all GPUs
# ~ (gpus * ==> (16 *

# %% wrong: one sequence for each GPU => values -  from: the peak of all GPUs
# ~ batch * steps ==> steps
# ~ (gpus * gpu_flops) ==> gpu_flops

# %% wrong: right for the example only => values only-the-example  from: the peak of all GPUs
# ~ 6 * params * tokens / seconds / (gpus * gpu_flops) ==> 0.02836

# %% wrong: asks the library => raised  from: the peak of all GPUs
#   def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
# +     from course_lib import compute
# ~ 6 * params * tokens / seconds / (gpus * gpu_flops) ==> compute.mfu(params, tokens / seconds, gpus, gpu_flops)
"""
