from course_chapters.ch01.exercises.audit_one_step import STEP_ITEMS
from course_chapters.ch01.exercises.numbers import H100
from course_chapters.ch01.exercises.shared import CAUSES
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import compute, facts
from course_lib.estimate.units import DAY, YEAR

_STEP = compute.train_seconds(70e9, 8192, 1e15, 0.4)
_FULL_405B = compute.train_seconds(405e9, 15e12, H100.dense_flops, 1, 24_576) / DAY
_GPT3 = compute.train_seconds(facts.run("GPT-3 175B").params, facts.run("GPT-3 175B").tokens, H100.dense_flops) / YEAR

JUDGING = audit(
    STEP_ITEMS,
    Worked("audit-one-step"),
    CAUSES,
    f"The step takes {_STEP:.2f} s: the digits are right, the unit is a thousand times too small. No step of a 70B "
    f"model takes milliseconds on one GPU. {_FULL_405B:.1f} days are the run at 100 % of the peak; at the 40 % that "
    f"the same sentence names it is {_FULL_405B / 0.4:.1f}. GPT-3 takes {_GPT3:.1f} years at the dense peak and 5 at "
    "the sparse one. 500 years, 6 months and 24.3 EFLOP/s are right as printed: an auditor who faults everything is "
    "as useless as one who faults nothing.",
)

ANSWERS = r'''from course_chapters.running_example import PARAMS, TOKENS
from course_lib.estimate.units import EFLOP
# %% right: worked
def audit_steps() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    run, peak = compute.train_seconds, h100.dense_flops
    gpt3, llama = facts.run("GPT-3 175B"), facts.run("Llama 3.1 405B")
    years = run(PARAMS, TOKENS, 1000 * TFLOP, mfu=0.4) / YEAR
    return {
        "step-70b-8ms": (run(PARAMS, 8192, 1000 * TFLOP, mfu=0.4), "wrong", "unit"),
        "llama70b-500-years": (years, "right", "as printed"),
        "llama70b-6-months": (12 * years / 1024, "right", "as printed"),
        "llama3-17-days": (run(llama.params, 15e12, peak, 0.4, 24_576) / DAY, "wrong", "missing factor"),
        "gpt3-5-years": (run(gpt3.params, gpt3.tokens, peak) / YEAR, "wrong", "dense or sparse"),
        "cluster-24-eflops": (24_576 * peak / EFLOP, "right", "as printed"),
    }
# %% right: rounded, words in capitals, one entry more
# ~ (years, "right", "as printed") ==> (499, "Right", "As printed")
# ~ run(gpt3.params, gpt3.tokens, peak) / YEAR, "wrong", "dense or sparse" ==> 10.1, "Wrong", "Dense or sparse"
# ~ (24_576 * peak / EFLOP, "right", "as printed"), ==> (24.3, "right", "as printed"), "something-else": None,
# %% wrong: as printed => values
# > that is the printed number; recompute it, and follow the units from FLOP over FLOP/s to the end.
# ~ run(PARAMS, 8192, 1000 * TFLOP, mfu=0.4) ==> 0.0086
# %% wrong: milliseconds => values
# > this is in milliseconds; give seconds.
# ~ run(PARAMS, 8192, 1000 * TFLOP, mfu=0.4) ==> 1000 * run(PARAMS, 8192, 1000 * TFLOP, mfu=0.4)
# %% wrong: full speed => values
# > this is at 100 % of the peak; the statement names an MFU.
# ~ TOKENS, 1000 * TFLOP, mfu=0.4 ==> TOKENS, 1000 * TFLOP
# ~ 8192, 1000 * TFLOP, mfu=0.4 ==> 8192, 1000 * TFLOP
# %% wrong: mfu forgotten => values
# > this is at 100 % of the peak. What else does the statement name?
# ~ peak, 0.4, 24_576) ==> peak, 1, 24_576)
# %% wrong: mfu multiplied => values
# > a lower utilization makes it longer.
# ~ peak, 0.4, 24_576) ==> peak, 1, 24_576) * 0.4
# %% wrong: seconds => values
# > these are seconds.
# ~ (years, "right" ==> (years * YEAR, "right"
# %% wrong: days => values
# > these are days.
# ~ (12 * years / 1024, ==> (years * YEAR / DAY / 1024,
# %% wrong: sparse peak => values
# > an H100 has two peaks, and this is the one with sparsity.
# ~ run(gpt3.params, gpt3.tokens, peak) ==> run(gpt3.params, gpt3.tokens, 2 * peak)
# ~ 24_576 * peak / EFLOP ==> 24_576 * 2 * peak / EFLOP
# %% wrong: teraflops => values
# > this is in TFLOP/s; give EFLOP/s.
# ~ peak / EFLOP ==> peak / TFLOP
# %% wrong: flops => values
# > this is in FLOP/s; give EFLOP/s.
# ~ peak / EFLOP ==> peak
# %% wrong: everything is right as printed => values blind
# ~ run(PARAMS, 8192, 1000 * TFLOP, mfu=0.4), "wrong", "unit" ==> 0.0084, "right", "as printed"
# ~ run(llama.params, 15e12, peak, 0.4, 24_576) / DAY, "wrong", "missing factor" ==> 17, "right", "as printed"
# ~ run(gpt3.params, gpt3.tokens, peak) / YEAR, "wrong", "dense or sparse" ==> 5, "right", "as printed"
# %% wrong: no dictionary => values no-dictionary
# ~ run, peak = compute.train_seconds, h100.dense_flops ==> return [(8.6, "wrong", "unit")]
# %% half: one error missed for its cause => 10
# ~ "missing factor" ==> "wrong baseline"
# %% half: two answered so far => 4
# -         "step-70b-8ms": (run(PARAMS, 8192, 1000 * TFLOP, mfu=0.4), "wrong", "unit"),
# -         "llama70b-500-years": (years, "right", "as printed"),
# -         "llama70b-6-months": (12 * years / 1024, "right", "as printed"),
# -         "llama3-17-days": (run(llama.params, 15e12, peak, 0.4, 24_576) / DAY, "wrong", "missing factor"),
'''
