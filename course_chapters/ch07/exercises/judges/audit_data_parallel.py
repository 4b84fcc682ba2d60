from course_chapters.ch07.exercises.audit_data_parallel import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.cluster import collectives
from course_lib.estimate import compute

_STEP = compute.train_seconds(70e9, 8192, 0.4e15)
_GATHER, _SCATTER, _REDUCE = (
    collectives.BUS_FACTORS[name](64) for name in ("all_gather", "reduce_scatter", "all_reduce")
)
_PARTS = (1.0, 2.0), (3.0, 4.0, 10.0)
_MEANS = [sum(part) / len(part) for part in _PARTS]

JUDGING = audit(
    ITEMS,
    Worked("audit-data-parallel"),
    CAUSES,
    why=f"The step takes {_STEP:.2f} s, not 8 ms. The all-reduce is {2.8 / _STEP:.2f} of it and can hide in the "
    "backward pass, which reverses the conclusion. FSDP gathers the weights twice and sends "
    f"{(2 * _GATHER + _SCATTER) / _REDUCE:.3g} times the bytes: it saves memory, not traffic. The average of "
    f"averages is {sum(_MEANS) / 2:.3g} while the average is {sum(map(sum, _PARTS)) / 5:.3g}: linearity needs "
    "equal parts, or weights. The other three statements are right as printed.",
    pytorch="`torch.profiler` shows the all-reduce next to the backward kernels; read the exposed time there before "
    "trusting a ratio.",
)

ANSWERS = r'''# %% right: worked
def audit_dp() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    step = 6 * 70e9 * 8192 / 0.4e15
    averages = ((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2
    months = 6 * 70e9 * 15e12 / 0.4e15 / 1024 / (365.25 * 86400 / 12)
    return {
        "all-reduce-350x": (2.8 / step, "wrong", "another unit"),
        "fsdp-cuts-all-reduce": (3 / 2, "wrong", "memory for traffic"),
        "mean-of-shards-exact": (averages / 4, "wrong", "unequal parts"),
        "six-months-1024": (months, "right", "as printed"),
        "v5p-2550-tokens": (4.6e14 / 1.8e11, "right", "as printed"),
        "resnet-8-to-256": (29 * 8 / 256, "right", "as printed"),
    }
# %% right: rounded, in other letters
# ~ 2.8 / step, "wrong", "another unit" ==> 0.3255, "WRONG", "Another unit"
# ~ (months, "right", "as printed") ==> [5.85, "Right", "As printed"]
# %% wrong: believes the ratio => values as-printed
# > that is the printed ratio. How long does a step with that many FLOPs take?
# ~ 2.8 / step, "wrong", "another unit" ==> 350, "right", "as printed"
# %% wrong: upside down => values
# > this is the reciprocal of the number asked for.
# ~ 2.8 / step ==> step / 2.8
# ~ 3 / 2 ==> 2 / 3
# ~ averages / 4 ==> 4 / averages
# ~ 29 * 8 / 256 ==> 256 / 8 / 29
# %% wrong: step at the peak => values peak
# > the GPUs achieve 40 % of their peak.
# ~ 8192 / 0.4e15 ==> 8192 / 1e15
# ~ 15e12 / 0.4e15 ==> 15e12 / 1e15
# %% wrong: backward => values
# > this compares with the backward pass; compare with the whole step.
# ~ 2.8 / step ==> 2.8 / step * 1.5
# %% wrong: an all-gather counted as an all-reduce => values three
# > three operations, but each is half of an all-reduce.
# ~ 3 / 2 ==> 3
# %% wrong: one all-gather forgotten => values one-gather
# > one all-gather and one reduce-scatter are an all-reduce; the conditions name one more.
# ~ (3 / 2, "wrong", "memory for traffic") ==> (1.0, "right", "as printed")
# %% wrong: the averages are believed => values as-printed
# > that is what was printed. Compute both averages.
# ~ averages / 4 ==> 1
# %% wrong: the average itself => values not-over
# > this is the average of averages; divide it by the average of all.
# ~ averages / 4 ==> averages
# %% wrong: one gpu => values
# > this is one GPU's time.
# ~ / 1024 / ==> /
# %% wrong: years => values
# > these are years; give months.
# ~ / (365.25 * 86400 / 12) ==> / (365.25 * 86400)
# %% wrong: hides behind the whole step => values whole-step
# > this compares with the whole step; the conditions name another.
# ~ (4.6e14 / 1.8e11, "right", "as printed") ==> (4.6e14 / 1.8e11 * 4 / 6, "wrong", "another baseline")
# %% wrong: one half => values
# > a ring all-reduce has two halves.
# ~ 4.6e14 / 1.8e11 ==> 4.6e14 / 1.8e11 / 2
# %% wrong: one direction => values
# > the bytes per second already include both neighbors.
# ~ 4.6e14 / 1.8e11 ==> 4.6e14 / 1.8e11 * 2
# %% wrong: a speed-up => values speed-up
# > this is the speed-up; divide it by the growth in hardware.
# ~ (29 * 8 / 256, "right", "as printed") ==> (29, "wrong", "another baseline")
# %% wrong: all wrong => values blind
# ~ (months, "right", "as printed") ==> (months, "wrong", "another unit")
# ~ (4.6e14 / 1.8e11, "right", "as printed") ==> (4.6e14 / 1.8e11, "wrong", "another unit")
# ~ (29 * 8 / 256, "right", "as printed") ==> (29 * 8 / 256, "wrong", "another unit")
# %% half: two of six missed => 4
# ~ 2.8 / step, "wrong", "another unit" ==> 350, "right", "as printed"
# ~ (4.6e14 / 1.8e11, "right", "as printed") ==> (1704, "wrong", "another baseline")
'''
