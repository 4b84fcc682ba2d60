"""Keys of chapter 01's audits: the truth about each statement, and what slips come to."""

from course_lib import facts
from course_lib.exercises.ch01.cards.audits import CAUSES, RUN_ITEMS, STEP_ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
from course_lib.units import DAY, YEAR

H100 = float(facts.device("H100 SXM").dense_flops)
LLAMA = facts.run("Llama 3.1 405B")


def work(params: float, tokens: float) -> float:
    """FLOP of training."""
    return 6 * params * tokens


_STEP = work(70e9, 8192) / (1e15 * 0.4)
_ALONE_70B = work(70e9, 15e12) / (1e15 * 0.4)
_FULL_405B = work(405e9, 15e12) / (24_576 * H100) / DAY
_GPT3 = work(float(facts.run("GPT-3 175B").params), float(facts.run("GPT-3 175B").tokens))

STEP_KEYS: dict[str, Key] = {
    "step-70b-8ms": Key(
        _STEP,
        "unit",
        mistakes=(
            Mistake("milliseconds", _STEP * 1e3, "this is in milliseconds; seconds are asked for."),
            Mistake("as-printed", _STEP / 1e3, "follow the units from FLOP over FLOP/s to the end."),
            Mistake("full-speed", _STEP * 0.4, "the statement names an MFU."),
        ),
    ),
    "llama70b-500-years": Key(
        _ALONE_70B / YEAR,
        mistakes=(
            Mistake("full-speed", _ALONE_70B * 0.4 / YEAR, "the statement names an MFU."),
            Mistake("seconds", _ALONE_70B, "these are seconds."),
        ),
    ),
    "llama70b-6-months": Key(
        _ALONE_70B / 1024 / (YEAR / 12),
        mistakes=(
            Mistake("days", _ALONE_70B / 1024 / DAY, "these are days."),
            Mistake("full-speed", _ALONE_70B * 0.4 / 1024 / (YEAR / 12), "the same MFU holds on 1,024 GPUs."),
        ),
    ),
    "llama3-17-days": Key(
        _FULL_405B / 0.4,
        "missing factor",
        mistakes=(
            Mistake(
                "mfu-forgotten", _FULL_405B, "this is the time at 100 % of the peak. What else does the statement name?"
            ),
            Mistake("mfu-multiplied", _FULL_405B * 0.4, "a lower utilisation makes it longer."),
        ),
    ),
    "gpt3-5-years": Key(
        _GPT3 / H100 / YEAR,
        "dense or sparse",
        mistakes=(
            Mistake(
                "sparse-peak",
                _GPT3 / float(facts.device("H100 SXM").sparse_flops) / YEAR,
                "which of an H100's peaks is this?",
            ),
        ),
    ),
    "cluster-24-eflops": Key(
        24_576 * H100 / 1e18,
        mistakes=(
            Mistake(
                "sparse-peak", 24_576 * float(facts.device("H100 SXM").sparse_flops) / 1e18, "this is the sparse peak."
            ),
            Mistake("teraflops", 24_576 * H100 / 1e12, "this is in TFLOP/s; EFLOP/s are asked for."),
            Mistake("flops", 24_576 * H100, "this is in FLOP/s; EFLOP/s are asked for."),
        ),
    ),
}

_BY_FLOPS = work(float(LLAMA.params), float(LLAMA.tokens)) / (float(LLAMA.devices) * H100 * float(LLAMA.mfu)) / DAY
_BY_HOURS = float(LLAMA.device_hours) / float(LLAMA.devices) / 24

RUN_KEYS: dict[str, Key] = {
    "54-days-by-flops": Key(
        _BY_FLOPS,
        "wrong scope",
        mistakes=(
            Mistake("full-speed", _BY_FLOPS * float(LLAMA.mfu), "this is at 100 % of the peak; an MFU was published."),
            Mistake("hours-route", _BY_HOURS, "this comes from the GPU-hours; here the FLOPs are asked for."),
            Mistake("as-printed", 54.0, "that is the printed number; recompute it."),
        ),
    ),
    "54-days-by-hours": Key(
        _BY_HOURS,
        "wrong scope",
        mistakes=(
            Mistake("hours-as-days", _BY_HOURS * 24, "these are hours."),
            Mistake("flops-route", _BY_FLOPS, "this comes from the FLOPs; here the GPU-hours are asked for."),
            Mistake("as-printed", 54.0, "that is the printed number; recompute it."),
            Mistake("mfu-again", _BY_HOURS / float(LLAMA.mfu), "GPU-hours were paid for; the MFU is in them already."),
        ),
    ),
    "forty-percent-burns-sixty": Key(
        1 - 0.40 / 0.50,
        "wrong baseline",
        mistakes=(
            Mistake("against-the-peak", 0.60, "that is against 100 % of the peak, which nobody reaches."),
            Mistake("points-for-share", 0.10, "percentage points of MFU are not a share of the money."),
            Mistake("more-for-lost", 0.50 / 0.40 - 1, "this is the extra work for the same money, not the money lost."),
            Mistake("percent", 20.0, "give a fraction of one."),
        ),
    ),
    "llama3-1170-years": Key(
        work(405e9, 15e12) / H100 / YEAR,
        mistakes=(
            Mistake(
                "mfu-applied", work(405e9, 15e12) / H100 / float(LLAMA.mfu) / YEAR, "the statement is about full speed."
            ),
            Mistake("days", work(405e9, 15e12) / H100 / DAY, "these are days."),
        ),
    ),
    "seven-b-1966-days": Key(
        work(7e9, 2e12) / (H100 * 0.5) / DAY,
        mistakes=(Mistake("full-speed", work(7e9, 2e12) / H100 / DAY, "the statement names a utilisation."),),
    ),
    "waste-3-million": Key(
        10.0 * (1 - 0.35 / 0.50),
        mistakes=(
            Mistake("against-the-peak", 10.0 * 0.65, "the statement names its baseline, and it is not the whole peak."),
            Mistake("points-for-share", 10.0 * 0.15, "percentage points of MFU are not a share of the money."),
            Mistake("dollars", 10e6 * 0.30, "this is in dollars; millions are asked for."),
        ),
    ),
}


AUDIT_ONE_STEP = audit(
    STEP_ITEMS,
    STEP_KEYS,
    CAUSES,
    f"The step takes {_STEP:.2f} s: the digits are right, the unit is a thousand times too small, and no step of a 70B model "
    f"could take milliseconds on one GPU. {_FULL_405B:.1f} days are the run at 100 % of the peak; at the 40 % that the same "
    f"sentence names it is {_FULL_405B / 0.4:.1f}. GPT-3 takes {_GPT3 / H100 / YEAR:.1f} years at the dense peak; 5 is the "
    f"sparse one. 500 years, 6 months and 24.3 EFLOP/s are right as printed: an auditor who faults everything is as useless as "
    "one who faults nothing.",
)
AUDIT_RUN_LENGTH = audit(
    RUN_ITEMS,
    RUN_KEYS,
    CAUSES,
    f"By the FLOPs {_BY_FLOPS:.0f} days, by the GPU-hours {_BY_HOURS:.0f} (those include restarts and every stage). The 54 days "
    "are a stretch that the paper reports its interruptions for, not the run; on as many GPUs they would need "
    f"{100 * _BY_FLOPS * float(LLAMA.mfu) / 54:.0f} % MFU, more than the paper's best. 40 % against 50 % achievable wastes a fifth "
    "of the money; against the whole peak every run on earth burns more than half. The other three are right as printed.",
)
