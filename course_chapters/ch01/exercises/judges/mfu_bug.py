from course_grader.judging import Case, Column, Judging, Params, Random, Worked, gpus_text, shown, table
from course_grader.judging.random_inputs import draw_rows, logarithmic, one_apart, plain, unseen
from course_lib.estimate.units import HOUR, number_text

right = Worked("mfu-bug")


def _bug_cases(params: Params, rng: Random) -> list[Case]:
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
    apart = one_apart(others, right)
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
    verdicts=table(
        Column(
            "mfu",
            "(a fraction of one)",
            words=lambda p, s, b, k, t, n, f: f"{number_text(p)} parameters, batch {b}, {gpus_text(n)}",
            hint="The FLOPs of which GPUs, over the peak of which GPUs?",
        ),
        right=right,
    ),
    why="A utilization compares what was done with what the same hardware could have done. The published calculation "
    "divided the tokens of all GPUs by the peak of one, so its result was too large by the number of GPUs. Tokens "
    "of one GPU over the peak of all would be too small by the same factor. The peak itself was right: dense, and "
    "of one GPU. A quick test: with one GPU more at the same throughput, the MFU must fall.",
    pytorch="torchtitan divides tokens per second *per device* by the peak of one device; check which one a log means.",
)

ANSWERS = r'''# %% right: worked
scope = params("mfu-bug").scope  # leave as is: "all" or "each": whose sequences `batch` counts in your variant


def mfu_fixed(
    params: float, sequence: int, batch: int, steps: int, seconds: float, gpus: int, gpu_flops: float
) -> float:
    """MFU of the whole run, as a fraction of one."""
    sequences = batch if scope == "all" else batch * gpus  # of all GPUs, and so must the peak be
    tokens = sequence * sequences * steps
    return 6 * params * tokens / seconds / (gpus * gpu_flops)
# %% right: one GPU's share of the tokens
# ~ batch if scope == "all" else batch * gpus ==> batch / gpus if scope == "all" else batch
# ~ seconds / (gpus * gpu_flops) ==> seconds / gpu_flops
# %% wrong: as printed => values
# > the tokens and the peak are not those of the same number of GPUs.
# ~ batch if scope == "all" else batch * gpus ==> batch * gpus if scope == "all" else batch
# %% wrong: twice by gpus => values
# > the number of GPUs enters twice.
# ~ batch if scope == "all" else batch * gpus ==> batch / gpus if scope == "all" else batch * gpus * gpus
# %% wrong: recompute counted => values
# > 8 FLOP count the recomputation too: that is the HFU.
# ~ return 6 ==> return 8
# %% wrong: forward only => values
# > the backward pass is missing.
# ~ return 6 ==> return 2
# %% wrong: sparse peak => values
# > the peak was right: `gpu_flops` is dense already.
# ~ (gpus * gpu_flops) ==> (2 * gpu_flops * gpus)
# %% wrong: one step => values
# > the tokens are those of one step.
# ~ sequences * steps ==> sequences
# %% wrong: one sequence => values
# > the batch is missing.
# ~ batch if scope == "all" else batch * gpus ==> 1 if scope == "all" else gpus
# %% wrong: sixteen by heart => values
# > this takes 16 GPUs, whatever `gpus` is.
# ~ (gpus * gpu_flops) ==> (16 * gpu_flops)
# %% wrong: one sequence for each GPU => values one-sequence
# ~ batch if scope == "all" else batch * gpus ==> gpus if scope == "all" else 1
# %% wrong: right for the example only => values only-the-example
# ~ 6 * params * tokens / seconds / (gpus * gpu_flops) ==> 0.02836
# %% wrong: asks the library => raised
# ~ 6 * params * tokens / seconds / (gpus * gpu_flops) ==> compute.mfu(params, tokens / seconds, gpus, gpu_flops)
'''
