"""Judge of audit-run-length: audit: how long was it, how much was lost?"""

from course_lib.exercises.ch01.audit_run_length import RUN_ITEMS
from course_lib.exercises.ch01.judges.shared import H100, LLAMA, work
from course_lib.exercises.ch01.shared import CAUSES
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong
from course_lib.units import DAY, YEAR

MFU = float(LLAMA.mfu)

_BY_FLOPS = work(float(LLAMA.params), float(LLAMA.tokens)) / (float(LLAMA.devices) * H100 * MFU) / DAY
_BY_HOURS = float(LLAMA.device_hours) / float(LLAMA.devices) / 24
_405B_ALONE = work(405e9, 15e12) / H100
_7B_ALONE = work(7e9, 2e12) / H100 / DAY
_PRINTED = "that is the printed number; recompute it."
_POINTS = "percentage points of MFU are not a share of the money."

RUN_KEYS = {
    "54-days-by-flops": wrong(
        _BY_FLOPS,
        "wrong scope",
        Mistake("full-speed", _BY_FLOPS * MFU, "this is at 100 % of the peak; an MFU was published."),
        Mistake("hours-route", _BY_HOURS, "this comes from the GPU-hours; use the FLOPs here."),
        Mistake("as-printed", 54.0, _PRINTED),
    ),
    "54-days-by-hours": wrong(
        _BY_HOURS,
        "wrong scope",
        Mistake("hours-as-days", _BY_HOURS * 24, "these are hours."),
        Mistake("flops-route", _BY_FLOPS, "this comes from the FLOPs; use the GPU-hours here."),
        Mistake("as-printed", 54.0, _PRINTED),
        Mistake("mfu-again", _BY_HOURS / MFU, "the GPU-hours that were paid for already include the MFU."),
    ),
    "forty-percent-burns-sixty": wrong(
        1 - 0.40 / 0.50,
        "wrong baseline",
        Mistake("against-the-peak", 0.60, "that is against 100 % of the peak, which no run reaches."),
        Mistake("points-for-share", 0.10, _POINTS),
        Mistake("more-for-lost", 0.50 / 0.40 - 1, "this is the extra work for the same money, not the money lost."),
        Mistake("percent", 20.0, "give a fraction of one."),
    ),
    "llama3-1170-years": right(
        _405B_ALONE / YEAR,
        Mistake("mfu-applied", _405B_ALONE / MFU / YEAR, "the statement is about full speed."),
        Mistake("days", _405B_ALONE / DAY, "these are days."),
    ),
    "seven-b-1966-days": right(_7B_ALONE / 0.5, Mistake("full-speed", _7B_ALONE, "the statement names a utilization.")),
    "waste-3-million": right(
        10.0 * (1 - 0.35 / 0.50),
        Mistake("against-the-peak", 6.5, "the statement names its baseline, and it is not the whole peak."),
        Mistake("points-for-share", 1.5, _POINTS),
        Mistake("dollars", 3e6, "this is in dollars; give millions."),
    ),
}

JUDGING = audit(
    RUN_ITEMS,
    RUN_KEYS,
    CAUSES,
    f"By the FLOPs {_BY_FLOPS:.0f} days, by the GPU-hours {_BY_HOURS:.0f} (those include restarts and every stage). The 54 days "
    "are the period for which the paper reports interruptions, not the run. To finish in 54 days on as many GPUs, the run would "
    f"need {100 * _BY_FLOPS * MFU / 54:.0f} % MFU, more than the paper's best. 40 % against 50 % achievable wastes a fifth of the "
    "money; against the whole peak every run wastes more than half. The other three are right as printed.",
)

ANSWERS = r"""PEAK, DAY, YEAR = 989e12, 86_400, 365.25 * 86_400


# %% right: all six
def audit_run():
    flops = 6 * 405e9 * 15.6e12
    return {
        "54-days-by-flops": (flops / (16_384 * PEAK * 0.41) / DAY, "wrong", "wrong scope"),
        "54-days-by-hours": (30.84e6 / 16_384 / 24, "wrong", "wrong scope"),
        "forty-percent-burns-sixty": (1 - 0.4 / 0.5, "wrong", "wrong baseline"),
        "llama3-1170-years": (6 * 405e9 * 15e12 / PEAK / YEAR, "right", "as printed"),
        "seven-b-1966-days": (6 * 7e9 * 2e12 / (0.5 * PEAK) / DAY, "right", "as printed"),
        "waste-3-million": (10 * (1 - 0.35 / 0.5), "right", "as printed"),
    }


# %% right: from the printed FLOPs, rounded  from: all six
# ~ 6 * 405e9 * 15.6e12 ==> 3.8e25
# ~ 30.84e6 / 16_384 / 24 ==> 78
# ~ 6 * 7e9 * 2e12 / (0.5 * PEAK) / DAY ==> 1965

# %% wrong: against the peak => values against-the-peak  from: all six
# ~ 1 - 0.4 / 0.5, "wrong", "wrong baseline" ==> 0.6, "right", "as printed"

# %% wrong: one route for both => values flops-route  from: all six
# ~ 30.84e6 / 16_384 / 24 ==> 66

# %% wrong: at full speed => values full-speed  from: all six
# ~ (16_384 * PEAK * 0.41) ==> (16_384 * PEAK)
# ~ (0.5 * PEAK) / DAY, "right", "as printed" ==> PEAK / DAY, "wrong", "missing factor"
# ~ 10 * (1 - 0.35 / 0.5), "right", "as printed" ==> 6.5, "wrong", "wrong baseline"


# %% wrong: everything is right as printed => values blind
def audit_run():
    printed = {
        "54-days-by-flops": 54,
        "54-days-by-hours": 54,
        "forty-percent-burns-sixty": 0.6,
        "llama3-1170-years": 1170,
        "seven-b-1966-days": 1966,
        "waste-3-million": 3,
    }
    return {name: (number, "right", "as printed") for name, number in printed.items()}


# %% half: a wrong cause twice => 8  from: all six
# ~ (16_384 * PEAK * 0.41) / DAY, "wrong", "wrong scope" ==> (16_384 * PEAK * 0.41) / DAY, "wrong", "missing factor"
# ~ 30.84e6 / 16_384 / 24, "wrong", "wrong scope" ==> 30.84e6 / 16_384 / 24, "wrong", "missing factor"
"""
