"""Judge of audit-one-step: audit: a step, a run, a peak."""

from course_lib import facts
from course_lib.exercises.ch01.audit_one_step import STEP_ITEMS
from course_lib.exercises.ch01.judges.shared import GPT3, H100, work
from course_lib.exercises.ch01.shared import CAUSES
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong
from course_lib.units import DAY, YEAR

SPARSE = float(facts.device("H100 SXM").sparse_flops)


_STEP = work(70e9, 8192) / (1e15 * 0.4)
_ALONE_70B = work(70e9, 15e12) / (1e15 * 0.4)
_MONTHS = _ALONE_70B / 1024 / (YEAR / 12)
_FULL_405B = work(405e9, 15e12) / (24_576 * H100) / DAY
_GPT3 = work(float(GPT3.params), float(GPT3.tokens))
_NAMES_MFU = "the statement names an MFU."

STEP_KEYS = {
    "step-70b-8ms": wrong(
        _STEP,
        "unit",
        Mistake("milliseconds", _STEP * 1e3, "this is in milliseconds; give seconds."),
        Mistake("as-printed", _STEP / 1e3, "follow the units from FLOP over FLOP/s to the end."),
        Mistake("full-speed", _STEP * 0.4, _NAMES_MFU),
    ),
    "llama70b-500-years": right(
        _ALONE_70B / YEAR,
        Mistake("full-speed", _ALONE_70B * 0.4 / YEAR, _NAMES_MFU),
        Mistake("seconds", _ALONE_70B, "these are seconds."),
    ),
    "llama70b-6-months": right(
        _MONTHS,
        Mistake("days", _ALONE_70B / 1024 / DAY, "these are days."),
        Mistake("full-speed", _MONTHS * 0.4, "the same MFU holds on 1,024 GPUs."),
    ),
    "llama3-17-days": wrong(
        _FULL_405B / 0.4,
        "missing factor",
        Mistake("mfu-forgotten", _FULL_405B, "this is at 100 % of the peak. What else does the statement name?"),
        Mistake("mfu-multiplied", _FULL_405B * 0.4, "a lower utilization makes it longer."),
    ),
    "gpt3-5-years": wrong(
        _GPT3 / H100 / YEAR,
        "dense or sparse",
        Mistake("sparse-peak", _GPT3 / SPARSE / YEAR, "which of an H100's peaks is this?"),
    ),
    "cluster-24-eflops": right(
        24_576 * H100 / 1e18,
        Mistake("sparse-peak", 24_576 * SPARSE / 1e18, "this is the sparse peak."),
        Mistake("teraflops", 24_576 * H100 / 1e12, "this is in TFLOP/s; give EFLOP/s."),
        Mistake("flops", 24_576 * H100, "this is in FLOP/s; give EFLOP/s."),
    ),
}


JUDGING = audit(
    STEP_ITEMS,
    STEP_KEYS,
    CAUSES,
    f"The step takes {_STEP:.2f} s: the digits are right, the unit is a thousand times too small. No step of a 70B model takes "
    f"milliseconds on one GPU. {_FULL_405B:.1f} days are the run at 100 % of the peak; at the 40 % that the same sentence names "
    f"it is {_FULL_405B / 0.4:.1f}. GPT-3 takes {_GPT3 / H100 / YEAR:.1f} years at the dense peak and 5 at the sparse one. 500 "
    "years, 6 months and 24.3 EFLOP/s are right as printed: an auditor who faults everything is as useless as one who faults "
    "nothing.",
)

ANSWERS = r"""PEAK, DAY, YEAR = 989e12, 86_400, 365.25 * 86_400


# %% right: all six
def audit_steps():
    run = 6 * 70e9 * 15e12 / (1e15 * 0.4)
    return {
        "step-70b-8ms": (6 * 70e9 * 8192 / (1e15 * 0.4), "wrong", "unit"),
        "llama70b-500-years": (run / YEAR, "right", "as printed"),
        "llama70b-6-months": (run / 1024 / (YEAR / 12), "right", "as printed"),
        "llama3-17-days": (3.645e25 / (24_576 * PEAK * 0.4) / DAY, "wrong", "missing factor"),
        "gpt3-5-years": (3.15e23 / PEAK / YEAR, "wrong", "dense or sparse"),
        "cluster-24-eflops": (24_576 * PEAK / 1e18, "right", "as printed"),
    }


# %% right: rounded, words in capitals, one entry more  from: all six
# ~ (run / YEAR, "right", "as printed") ==> (499, "Right", "As printed")
# ~ 3.15e23 / PEAK / YEAR, "wrong", "dense or sparse" ==> 10.1, "Wrong", "Dense or sparse"
# ~ (24_576 * PEAK / 1e18, "right", "as printed"), ==> (24.3, "right", "as printed"), "something-else": None,

# %% wrong: printed numbers called wrong => values as-printed  from: all six
# ~ 6 * 70e9 * 8192 / (1e15 * 0.4), ==> 0.0086,
# ~ 3.645e25 / (24_576 * PEAK * 0.4) / DAY ==> 17.4
# ~ 3.15e23 / PEAK / YEAR ==> 5.04

# %% wrong: milliseconds => values milliseconds  from: all six
# ~ 6 * 70e9 * 8192 / (1e15 * 0.4), ==> 8601.6,


# %% wrong: everything is right as printed => values blind
def audit_steps():
    printed = {
        "step-70b-8ms": 0.0084,
        "llama70b-500-years": 500,
        "llama70b-6-months": 6,
        "llama3-17-days": 17,
        "gpt3-5-years": 5,
        "cluster-24-eflops": 24.3,
    }
    return {name: (number, "right", "as printed") for name, number in printed.items()}


# %% wrong: no dictionary => values no-dictionary  from: all six
# ~ run = 6 * 70e9 * 15e12 / (1e15 * 0.4) ==> return [(8.6, "wrong", "unit")]

# %% half: one error missed for its cause => 10  from: all six
# ~ 6 * 70e9 * 8192 / (1e15 * 0.4), ==> 8.6,
# ~ "missing factor" ==> "wrong baseline"


# %% half: two answered so far => 4
def audit_steps():
    return {"gpt3-5-years": (10.1, "wrong", "dense or sparse"), "cluster-24-eflops": (24.3, "right", "as printed")}
"""
