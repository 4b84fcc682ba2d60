from course_chapters.ch01.exercises.audit_run_length import RUN_ITEMS
from course_chapters.ch01.exercises.numbers import H100
from course_chapters.ch01.exercises.shared import CAUSES
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import compute, facts
from course_lib.estimate.units import DAY

_RUN = facts.run("Llama 3.1 405B")
_BY_FLOPS = compute.train_seconds(_RUN.params, _RUN.tokens, H100.dense_flops, _RUN.mfu, _RUN.devices) / DAY

JUDGING = audit(
    RUN_ITEMS,
    Worked("audit-run-length"),
    CAUSES,
    f"By the FLOPs {_BY_FLOPS:.0f} days, by the GPU-hours {_RUN.device_hours / _RUN.devices / 24:.0f} (those include "
    "restarts and every stage). The 54 days are the period for which the paper reports interruptions, not the run. "
    f"To finish in 54 days on as many GPUs, the run would need {100 * _BY_FLOPS * _RUN.mfu / 54:.0f} % MFU, more than "
    "the paper's best. 40 % against 50 % achievable wastes a fifth of the money; against the whole peak every run "
    "wastes more than half. The other three are right as printed.",
)

ANSWERS = r'''# %% right: worked
def audit_run() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    llama, peak = facts.run("Llama 3.1 405B"), h100.dense_flops
    by_flops = compute.train_seconds(llama.params, llama.tokens, peak, llama.mfu, llama.devices) / DAY
    by_hours = llama.device_hours / llama.devices * HOUR / DAY
    return {
        "54-days-by-flops": (by_flops, "wrong", "wrong scope"),
        "54-days-by-hours": (by_hours, "wrong", "wrong scope"),
        "forty-percent-burns-sixty": (1 - 0.4 / 0.5, "wrong", "wrong baseline"),
        "llama3-1170-years": (compute.train_seconds(405e9, 15e12, peak) / YEAR, "right", "as printed"),
        "seven-b-1966-days": (compute.train_seconds(7e9, 2e12, peak, mfu=0.5) / DAY, "right", "as printed"),
        "waste-3-million": ((1 - 0.35 / 0.5) * 10, "right", "as printed"),
    }
# %% right: from the printed FLOPs, rounded
# ~ compute.train_seconds(llama.params, llama.tokens, peak, llama.mfu, llama.devices) / DAY
# ~~ ==> 3.8e25 / (16_384 * peak * 0.41) / DAY
# ~ llama.device_hours / llama.devices * HOUR / DAY ==> 78
# ~ compute.train_seconds(7e9, 2e12, peak, mfu=0.5) / DAY ==> 1965
# %% wrong: as printed => values
# > that is the printed number; recompute it.
# ~ (by_flops, ==> (54,
# ~ (by_hours, ==> (54,
# %% wrong: full speed => values
# > this is at 100 % of the peak; a utilization was published.
# ~ llama.tokens, peak, llama.mfu ==> llama.tokens, peak, 1
# ~ peak, mfu=0.5 ==> peak
# %% wrong: hours route => values
# > this comes from the GPU-hours; use the FLOPs here.
# ~ (by_flops, ==> (by_hours,
# %% wrong: flops route => values
# > this comes from the FLOPs; use the GPU-hours here.
# ~ (by_hours, ==> (by_flops,
# %% wrong: hours as days => values
# > these are hours.
# ~ * HOUR / DAY ==>
# %% wrong: mfu again => values
# > the GPU-hours that were paid for already include the MFU.
# ~ * HOUR / DAY ==> * HOUR / DAY / llama.mfu
# %% wrong: against the peak => values
# > this is against 100 % of the peak; no run reaches that, and the statement names its baseline.
# ~ 1 - 0.4 / 0.5, "wrong", "wrong baseline" ==> 0.6, "right", "as printed"
# ~ 1 - 0.35 / 0.5 ==> 1 - 0.35
# %% wrong: points for share => values
# > percentage points of MFU are not a share of the money.
# ~ 1 - 0.4 / 0.5 ==> 0.5 - 0.4
# ~ 1 - 0.35 / 0.5 ==> 0.5 - 0.35
# %% wrong: more for lost => values
# > this is the extra work for the same money, not the money lost.
# ~ 1 - 0.4 / 0.5 ==> 0.5 / 0.4 - 1
# ~ 1 - 0.35 / 0.5 ==> 0.5 / 0.35 - 1
# %% wrong: percent => values
# > this is a percentage; give a fraction of one.
# ~ 1 - 0.4 / 0.5 ==> 100 * (1 - 0.4 / 0.5)
# %% wrong: mfu applied => values
# > the statement is about full speed.
# ~ 405e9, 15e12, peak ==> 405e9, 15e12, peak * llama.mfu
# %% wrong: days => values
# > these are days.
# ~ peak) / YEAR ==> peak) / DAY
# %% wrong: dollars => values
# > this is in dollars; give millions.
# ~ * 10, "right" ==> * 10e6, "right"
# %% wrong: everything is right as printed => values blind
# ~ by_flops, "wrong", "wrong scope" ==> 54, "right", "as printed"
# ~ by_hours, "wrong", "wrong scope" ==> 54, "right", "as printed"
# ~ 1 - 0.4 / 0.5, "wrong", "wrong baseline" ==> 0.6, "right", "as printed"
# %% half: a wrong cause twice => 8
# ~ by_flops, "wrong", "wrong scope" ==> by_flops, "wrong", "missing factor"
# ~ by_hours, "wrong", "wrong scope" ==> by_hours, "wrong", "missing factor"
'''
