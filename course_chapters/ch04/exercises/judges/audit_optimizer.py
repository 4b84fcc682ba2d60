"""Judge of audit-optimizer: audit: batches, rates and steps in print."""

from course_chapters.ch04.exercises.audit_optimizer import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import Key, audit, right, wrong

_PARTS = ((1.0, 2.0), (3.0, 4.0, 10.0))
_WHOLE = sum(map(sum, _PARTS)) / sum(map(len, _PARTS))
_MEANS = sum(sum(part) / len(part) for part in _PARTS) / len(_PARTS)
_TIMES = 8  # the larger batch over the smaller one

_A, _B, _ALPHA, _BETA, _GOPHER = 406.4, 410.7, 0.34, 0.28, 5.76e23
_RATIO = (_ALPHA * _A / (_BETA * _B)) ** (1 / (_ALPHA + _BETA))
_PARAMS = _RATIO * (_GOPHER / 6) ** (_BETA / (_ALPHA + _BETA)) / 1e9

_STEP = 12 * 1024 * 5 * 8
_TOKENS = _STEP * 600_000 / 1e9
_RATE = 0.1 * 8192 / 256
_UPDATES = (252e6 / 4e6 + (2.87e12 - 252e6) / 8e6 + (15.6e12 - 2.87e12) / 16e6) / 1e6

KEYS: dict[str, Key] = {
    "accumulation-identical": wrong(
        _MEANS / _WHOLE,
        "unequal parts",
        Mistake("as-printed", 1.0, "that is what was printed. Work out both averages."),
        Mistake("not-over", _MEANS, "this is the average of averages; what is it over the average of all?"),
        Mistake("upside-down", _WHOLE / _MEANS, "this is the average of all over the average of averages."),
    ),
    "noise-useful-regime": wrong(
        1 / _TIMES,
        "variance for benefit",
        Mistake("as-printed", 1.0, "that is what was printed. What is the variance of a mean of independent numbers?"),
        Mistake("deviation", _TIMES**-0.5, "this is the ratio of the standard deviations."),
        Mistake("upside-down", float(_TIMES), "this is the smaller batch over the larger one."),
    ),
    "chinchilla-70b": wrong(
        _PARAMS,
        "another fit",
        Mistake(
            "as-printed",
            70.0,
            "that is what was printed, and what 20 tokens per parameter give. Minimize the loss of the fit in the conditions.",
        ),
        Mistake("no-ratio", _PARAMS / _RATIO, "the factor of α·A over β·B is missing."),
        Mistake(
            "other-exponent",
            _RATIO * (_GOPHER / 6) ** (_ALPHA / (_ALPHA + _BETA)) / 1e9,
            "the exponent of the compute is β over α + β.",
        ),
    ),
    "nanogpt-300b": right(
        _TOKENS,
        Mistake("one-gpu", _TOKENS / 8, "these are the tokens of one GPU."),
        Mistake("no-accumulation", _TOKENS / 5, "five micro-batches make one iteration."),
    ),
    "goyal-8k": right(
        _RATE,
        Mistake("root", 0.1 * (8192 / 256) ** 0.5, "this scales with the root of the batch; the rule is linear."),
        Mistake("no-base", 8192 / 256, "this is the factor; the rate at a batch of 256 is 0.1."),
    ),
    "llama3-updates": right(
        _UPDATES,
        Mistake("last-batch", 15.6e12 / 16e6 / 1e6, "the batch was smaller in the first part of the run."),
        Mistake("first-batch", 15.6e12 / 4e6 / 1e6, "the batch was raised twice."),
        Mistake("middle-batch", 15.6e12 / 8e6 / 1e6, "the batch was raised a second time."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"Accumulation equals the large batch only with weights: the average of averages is {_MEANS:.3g} where the average is {_WHOLE:.3g}. The "
    "variance of a batch's gradient falls as 1/n at every batch size n; above the critical batch it is no longer what limits the step. The fit "
    f"that is printed puts the optimum at {_PARAMS:.0f} billion parameters, not 70; later work traced the difference to the fit "
    f"(Besiroglu et al., 2024). The other three are right as printed: {_TOKENS:.0f} billion tokens, {_RATE:.1f}, and {_UPDATES:.2f} "
    "million updates where 1.2 million were planned.",
    pytorch="No framework raises an error for a wrong batch, learning rate or number of steps. Recompute them before a long run.",
)

ANSWERS = r"""# %% right: from the formulas
def audit_optimizer():
    tokens = 12 * 1024 * 5 * 8 * 600_000
    fit = (0.34 * 406.4 / (0.28 * 410.7)) ** (1 / 0.62) * (5.76e23 / 6) ** (0.28 / 0.62)
    updates = 252e6 / 4e6 + (2.87e12 - 252e6) / 8e6 + (15.6e12 - 2.87e12) / 16e6
    return {
        "accumulation-identical": ((1.5 + 17 / 3) / 2 / 4, "wrong", "unequal parts"),
        "noise-useful-regime": (1 / 8, "wrong", "variance for benefit"),
        "chinchilla-70b": (fit / 1e9, "wrong", "another fit"),
        "nanogpt-300b": (tokens / 1e9, "right", "as printed"),
        "goyal-8k": (0.1 * 8192 / 256, "right", "as printed"),
        "llama3-updates": (updates / 1e6, "right", "as printed"),
    }


# %% right: one estimated, with capitals  from: from the formulas
# ~ (1.5 + 17 / 3) / 2 / 4, "wrong", "unequal parts" ==> 0.896, "Wrong", "Unequal parts"
# ~ tokens / 1e9 ==> 295

# %% wrong: all as printed => values -  from: from the formulas
# ~ (1.5 + 17 / 3) / 2 / 4, "wrong", "unequal parts" ==> 1.0, "right", "as printed"
# ~ 1 / 8, "wrong", "variance for benefit" ==> 1.0, "right", "as printed"
# ~ fit / 1e9, "wrong", "another fit" ==> 70, "right", "as printed"

# %% wrong: everything is wrong => values wrong-verdict  from: from the formulas
# ~ (tokens / 1e9, "right", "as printed"), ==> (tokens / 1e9, "wrong", "another unit"),
# ~ (0.1 * 8192 / 256, "right", "as printed"), ==> (0.1 * 8192 / 256, "wrong", "another fit"),
# ~ (updates / 1e6, "right", "as printed"), ==> (updates / 1e6, "wrong", "unequal parts"),

# %% wrong: standard deviations => values deviation  from: from the formulas
# ~ 1 / 8 ==> 8**-0.5

# %% wrong: twenty tokens per parameter => values as-printed  from: from the formulas
# ~ fit / 1e9, "wrong", "another fit" ==> (5.76e23 / 120) ** 0.5 / 1e9, "right", "as printed"

# %% wrong: the compute to the other exponent => values other-exponent  from: from the formulas
# ~ ** (0.28 / 0.62) ==> ** (0.34 / 0.62)

# %% wrong: one GPU's tokens => values one-gpu  from: from the formulas
# ~ 1e9, "right", "as printed" ==> 8e9, "wrong", "one rank's share"

# %% wrong: the last batch throughout => values last-batch  from: from the formulas
# ~ updates / 1e6, "right", "as printed" ==> 15.6e12 / 16e6 / 1e6, "wrong", "another unit"

# %% wrong: another cause => values wrong-cause  from: from the formulas
# ~ "unequal parts" ==> "one rank's share"

# %% wrong: base units => values other-unit  from: from the formulas
# ~ updates / 1e6, ==> updates,


# %% wrong: None => values no-dictionary  from: from the formulas
# ~ return { ==> return None and {

# %% wrong: left as it is => not-answered  from: from the formulas
# ~ tokens = 12 * 1024 * 5 * 8 * 600_000 ==> raise NotImplementedError
"""
