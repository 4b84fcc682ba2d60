from course_chapters.ch04.exercises.audit_optimizer import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate.scaling_laws import GOPHER_FLOPS, chinchilla_law

_PARAMS, _ = chinchilla_law("printed").optimum(GOPHER_FLOPS)
_UPDATES = 252e6 / 4e6 + (2.87e12 - 252e6) / 8e6 + (15.6e12 - 2.87e12) / 16e6

JUDGING = audit(
    ITEMS,
    Worked("audit-optimizer"),
    CAUSES,
    why=f"""Accumulation equals the large batch only with weights: the average of averages is {(1.5 + 17 / 3) / 2:.3g}
where the average is {20 / 5:.3g}. The variance of a batch's gradient falls as 1/n at every batch size n; above the
critical batch it is no longer what limits the step. The fit that is printed puts the optimum at {_PARAMS / 1e9:.0f}
billion parameters, not 70; later work traced the difference to the fit (Besiroglu et al., 2024). The other three are
right as printed: {12 * 1024 * 5 * 8 * 600_000 / 1e9:.0f} billion tokens, {0.1 * 8192 / 256:.1f}, and
{_UPDATES / 1e6:.2f} million updates where 1.2 million were planned.""",
    pytorch="No framework raises an error for a wrong batch, learning rate or number of steps. Recompute them "
    "before a long run.",
)

ANSWERS = r'''# %% right: worked
def audit_optimizer() -> dict[str, tuple[float, str, str]]:
    """{id: (your number, "right" or "wrong", cause)} for every statement."""
    average = ((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2
    ratio = (0.34 * 406.4 / (0.28 * 410.7)) ** (1 / (0.34 + 0.28))
    best = ratio * (5.76e23 / 6) ** (0.28 / (0.34 + 0.28))
    updates = 252e6 / 4e6 + (2.87e12 - 252e6) / 8e6 + (15.6e12 - 2.87e12) / 16e6
    return {
        "accumulation-identical": (average / 4, "wrong", "unequal parts"),
        "noise-useful-regime": (1 / 8, "wrong", "variance for benefit"),
        "chinchilla-70b": (best / 1e9, "wrong", "another fit"),
        "nanogpt-300b": (12 * 1024 * 5 * 8 * 600_000 / 1e9, "right", "as printed"),
        "goyal-8k": (0.1 * 8192 / 256, "right", "as printed"),
        "llama3-updates": (updates / 1e6, "right", "as printed"),
    }
# %% right: one estimated, with capitals
# ~ average / 4, "wrong", "unequal parts" ==> 0.896, "Wrong", "Unequal parts"
# ~ 12 * 1024 * 5 * 8 * 600_000 / 1e9 ==> 295
# %% wrong: as if the parts were equal => values as-printed
# > that is what was printed. Work out both averages.
# ~ average / 4 ==> 1
# %% wrong: not over the average of all => values not-over
# > this is the average of averages; what is it over the average of all?
# ~ average / 4 ==> average
# %% wrong: all over the averages => values upside-down
# > this is the average of all over the average of averages.
# ~ average / 4 ==> 4 / average
# %% wrong: the same variance => values as-printed
# > that is what was printed. What is the variance of a mean of independent numbers?
# ~ 1 / 8 ==> 1
# %% wrong: standard deviations => values deviation
# > this is the ratio of the standard deviations.
# ~ 1 / 8 ==> 8**-0.5
# %% wrong: small over large => values upside-down
# > this is the smaller batch over the larger one.
# ~ 1 / 8 ==> 8
# %% wrong: twenty tokens per parameter => values as-printed
# > that is what was printed, and what 20 tokens per parameter give. Minimize the loss of the fit in the conditions.
# ~ best / 1e9, "wrong", "another fit" ==> (5.76e23 / 120) ** 0.5 / 1e9, "right", "as printed"
# %% wrong: without the ratio => values no-ratio
# > the factor of α·A over β·B is missing.
# ~ best = ratio * ==> best =
# %% wrong: the compute to the other exponent => values other-exponent
# > the exponent of the compute is β over α + β.
# ~ (0.28 / (0.34 ==> (0.34 / (0.34
# %% wrong: one GPU's tokens => values one-gpu
# > these are the tokens of one GPU.
# ~ 600_000 / 1e9, "right", "as printed" ==> 600_000 / 8e9, "wrong", "one rank's share"
# %% wrong: one micro-batch an iteration => values no-accumulation
# > five micro-batches make one iteration.
# ~ 12 * 1024 * 5 * 8 ==> 12 * 1024 * 8
# %% wrong: the root => values root
# > this scales with the root of the batch; the rule is linear.
# ~ 0.1 * 8192 / 256 ==> 0.1 * (8192 / 256) ** 0.5
# %% wrong: the factor alone => values no-base
# > this is the factor; the rate at a batch of 256 is 0.1.
# ~ 0.1 * 8192 / 256 ==> 8192 / 256
# %% wrong: the last batch throughout => values last-batch
# > the batch was smaller in the first part of the run.
# ~ updates / 1e6, "right", "as printed" ==> 15.6e12 / 16e6 / 1e6, "wrong", "another unit"
# %% wrong: the first batch throughout => values first-batch
# > the batch was raised twice.
# ~ updates / 1e6 ==> 15.6e12 / 4e6 / 1e6
# %% wrong: the middle batch throughout => values middle-batch
# > the batch was raised a second time.
# ~ updates / 1e6 ==> 15.6e12 / 8e6 / 1e6
# %% wrong: base units => values other-unit
# ~ updates / 1e6, ==> updates,
'''
