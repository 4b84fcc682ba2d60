"""Keys of chapter 01's audits: the truth about each statement, and the number that each known mistake leads to."""

from course_lib import facts
from course_lib.exercises.ch01.cards.audits import CAUSES, RUN_ITEMS, STEP_ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong
from course_lib.units import DAY, YEAR

H100 = float(facts.device("H100 SXM").dense_flops)
SPARSE = float(facts.device("H100 SXM").sparse_flops)
LLAMA, GPT3 = facts.run("Llama 3.1 405B"), facts.run("GPT-3 175B")
MFU = float(LLAMA.mfu)


def work(params: float, tokens: float) -> float:
    """FLOP of training."""
    return 6 * params * tokens


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


AUDIT_ONE_STEP = audit(
    STEP_ITEMS,
    STEP_KEYS,
    CAUSES,
    f"The step takes {_STEP:.2f} s: the digits are right, the unit is a thousand times too small. No step of a 70B model takes "
    f"milliseconds on one GPU. {_FULL_405B:.1f} days are the run at 100 % of the peak; at the 40 % that the same sentence names "
    f"it is {_FULL_405B / 0.4:.1f}. GPT-3 takes {_GPT3 / H100 / YEAR:.1f} years at the dense peak and 5 at the sparse one. 500 "
    "years, 6 months and 24.3 EFLOP/s are right as printed: an auditor who faults everything is as useless as one who faults "
    "nothing.",
)
AUDIT_RUN_LENGTH = audit(
    RUN_ITEMS,
    RUN_KEYS,
    CAUSES,
    f"By the FLOPs {_BY_FLOPS:.0f} days, by the GPU-hours {_BY_HOURS:.0f} (those include restarts and every stage). The 54 days "
    "are the period for which the paper reports interruptions, not the run. To finish in 54 days on as many GPUs, the run would "
    f"need {100 * _BY_FLOPS * MFU / 54:.0f} % MFU, more than the paper's best. 40 % against 50 % achievable wastes a fifth of the "
    "money; against the whole peak every run wastes more than half. The other three are right as printed.",
)
