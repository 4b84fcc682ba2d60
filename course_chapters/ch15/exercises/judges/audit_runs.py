from course_chapters.ch15.exercises.audit_runs import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-runs"),
    CAUSES,
    why=f"""An MFU depends on its denominator: {104 * 312 / 989.5:.0f} %, not 104, of the peak of the device that ran;
{9600 * 5 / 989.5:.0f} %, not 24, of the dense peak. Its numerator has no second forward pass: 52 % of the peak is an
MFU of {100 * 163 * 3 / 4 / 312:.0f}. Check shares and sums against their own rows: 148 of 419 is {148 / 419:.1%}, and
the three models took {(184_320 + 368_640 + 1_720_320) / 1e6:.2f} million hours.""",
    pytorch="torchtitan logs tokens/s, TFLOP/s and MFU side by side, so you can recompute each from the others.",
)

ANSWERS = r'''# %% right: worked
def audit_runs() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    return {
        "nanogpt-104-mfu": (104 * 312 / 989.5, "wrong", "another chip's peak"),
        "fms-24-mfu": (9600 * 0.05 / 989.5 * 100, "wrong", "sparse peak"),
        "megatron-52-of-peak": (163 * 3 / 4 / 312 * 100, "wrong", "recomputation counted"),
        "llama3-41-mfu": (400 / 989.5 * 100, "right", "as printed"),
        "palm-46-mfu": (238_300 * 6 * 540.35e9 / (6144 * 275e12) * 100, "right", "as printed"),
        "llama-21-days": (1.4e12 / (380 * 2048) / 86_400, "right", "as printed"),
        "llama3-faulty-gpus": (148 / 419 * 100, "wrong", "not what its own rows say"),
        "llama2-gpu-hours": ((184_320 + 368_640 + 1_720_320) / 1e6, "wrong", "counts what is not asked"),
        "deepseek-dollars": (2.788 * 2, "right", "as printed"),
    }
# %% right: three digits, a list, and words with capitals
# ~ (104 * 312 / 989.5, "wrong", "another chip's peak") ==> [32.8, "Wrong", "Another chip's peak"]
# ~ (1.4e12 / (380 * 2048) / 86_400, "right", "as printed") ==> (20.8, "Right", "As printed")
# %% wrong: 104 % as printed => values as-printed
# > more than 100 %? Whose peak was the divisor, and which device ran?
# ~ (104 * 312 / 989.5, "wrong", "another chip's peak") ==> (104, "right", "as printed")
# %% wrong: the sparse peak of the H100 => values sparse
# > divide by the dense peak: nothing in this model is sparse.
# ~ 104 * 312 / 989.5 ==> 52 * 312 / 989.5
# %% wrong: peaks the wrong way round => values upside-down
# > the two peaks are exchanged.
# ~ 104 * 312 / 989.5 ==> 104 * 989.5 / 312
# %% wrong: 24 % as printed => values as-printed
# > the data sheet prints 1,979 TFLOP/s; for which matrices?
# ~ (9600 * 0.05 / 989.5 * 100, "wrong", "sparse peak") ==> (24.3, "right", "as printed")
# %% wrong: the peak of an A100 => values a100
# > this is relative to an A100.
# ~ 9600 * 0.05 / 989.5 ==> 9600 * 0.05 / 312
# %% wrong: 52 % as printed => values as-printed
# > this is what the hardware did, not the model.
# ~ (163 * 3 / 4 / 312 * 100, "wrong", "recomputation counted") ==> (163 / 312 * 100, "right", "as printed")
# %% wrong: a third off for the second forward pass => values a-third-off
# > the second forward pass is a quarter.
# ~ 163 * 3 / 4 ==> 163 * 2 / 3
# %% wrong: the sparse peak for a dense model => values sparse
# > this is relative to the sparse peak.
# ~ (400 / 989.5 * 100, "right", "as printed") ==> (400 / 1979 * 100, "wrong", "sparse peak")
# %% wrong: a second forward pass that did not run => values recomputed
# > nothing was recomputed here.
# ~ (400 / 989.5 * 100, "right", "as printed") ==> (300 / 989.5 * 100, "wrong", "recomputation counted")
# %% wrong: all tokens on one chip => values one-chip
# > the tokens are those of all chips.
# ~ (6144 * 275e12) * 100 ==> 275e12 * 100
# %% wrong: the second forward pass counts => values counted
# > recomputed work does not count in an MFU.
# ~ (6144 * 275e12) * 100 ==> (6144 * 275e12) * 100 * 4 / 3
# %% wrong: fractions for per cent => values other-unit
# ~ (6144 * 275e12) * 100 ==> (6144 * 275e12)
# %% wrong: one GPU for two thousand => values one-gpu
# > this is the time of one GPU.
# ~ (380 * 2048) ==> 380
# %% wrong: hours for days => values hours
# > these are hours.
# ~ / 86_400 ==> / 3600
# %% wrong: 30.1 % as printed => values as-printed
# > divide the two counts that are printed next to it.
# ~ (148 / 419 * 100, "wrong", "not what its own rows say") ==> (30.1, "right", "as printed")
# %% wrong: planned interruptions, too => values with-planned
# > the sentence says unexpected interruptions, not all.
# ~ 148 / 419 ==> 148 / 466
# %% wrong: all hours as printed => values as-printed
# > add up the models that the sentence names.
# ~ ((184_320 + 368_640 + 1_720_320) / 1e6, "wrong", "counts what is not asked") ==> (3.311616, "right", "as printed")
# %% wrong: without the largest model => values without-70b
# > the sentence names the largest model too.
# ~ 184_320 + 368_640 + 1_720_320 ==> 184_320 + 368_640
# %% wrong: all right as printed, with the printed numbers => values blind
# ~ return { ==> truth = {
#       }
# +     printed = zip(truth, (104, 24.3, 52.24, 40.4, 45.7, 20.8, 30.1, 3.311616, 5.576))
# +     return {name: (number, "right", "as printed") for name, number in printed}
# %% half: three are missing => 4
# ~ "palm-46-mfu": ==> "palm":
# ~ "llama2-gpu-hours": ==> "llama2":
# ~ "deepseek-dollars": ==> "deepseek":
'''
