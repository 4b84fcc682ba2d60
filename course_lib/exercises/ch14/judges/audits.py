"""Key of chapter 14's audit: the truth about each statement, and the number that each known mistake leads to."""

import math

from course_lib.exercises.ch14.cards.audits import CAUSES, ITEMS
from course_lib.exercises.ch14.judges.rates import chance, hours_between
from course_lib.judging import Mistake
from course_lib.judging.audit import audit, right, wrong
from course_lib.units import HOUR, MINUTE

_FAILURES, _ALL, _DAYS, _GPUS = 419, 466, 54, 16384  # Llama 3's report, Table 5
_BETWEEN = hours_between(_FAILURES, _DAYS, _GPUS, _GPUS)
_SAVE = 405e9 * 12 / 2e12  # seconds: 12 bytes a parameter at 2 TB/s
_NODES = _GPUS / 8


def _young(save: float) -> float:
    """The best interval in minutes by Young's rule, for a save in seconds."""
    return math.sqrt(2 * save * _BETWEEN * HOUR) / MINUTE


KEYS = {
    "failure-every-hour": wrong(
        hours_between(_FAILURES, _DAYS, _GPUS, 8192),
        "another size",
        Mistake("as-printed", 1.0, "scale the log to this job; what comes out?"),
        Mistake("log-size", _BETWEEN, "this is for as many GPUs as in the log."),
        Mistake("upside-down", _BETWEEN / 2, "half as many GPUs fail half as often."),
    ),
    "interruptions-few-hours": right(
        hours_between(_ALL, _DAYS, _GPUS, _GPUS),
        Mistake("unexpected-only", _BETWEEN, "planned interruptions count here, too."),
    ),
    "llama3-54-days": wrong(
        30.84e6 / _GPUS / 24, "a snapshot", Mistake("as-printed", 54.0, "divide the GPU-hours by GPUs and by 24.")
    ),
    "checkpoint-minutes": right(
        _young(_SAVE),
        Mistake("seconds", _young(_SAVE) * MINUTE, "these are seconds."),
        Mistake("no-two", _young(_SAVE) / math.sqrt(2), "Young's rule has a 2 under the root."),
    ),
    "checkpoint-minutes-slow": wrong(
        _young(60.0),
        "saves are not free",
        Mistake("fast-save", _young(_SAVE), "this is for the fast save; here a save takes longer."),
        Mistake("no-two", _young(60.0) / math.sqrt(2), "Young's rule has a 2 under the root."),
    ),
    "rsc-16384": right(
        24 / (6.5e-3 * _NODES),
        Mistake("gpus-as-nodes", 24 / (6.5e-3 * _GPUS), "the rate is for nodes, and a node has eight GPUs."),
        Mistake("days", 1 / (6.5e-3 * _NODES), "these are days."),
    ),
    "always-broken": wrong(
        chance(24, hours_between(_FAILURES, _DAYS, _GPUS, 1000)),
        "another size",
        Mistake("as-printed", 1.0, "what is the probability that nothing fails for a day?"),
        Mistake(
            "expected-number",
            24 / hours_between(_FAILURES, _DAYS, _GPUS, 1000),
            "this is the expected number of failures, which is more than the probability of one.",
        ),
    ),
    "hbm3-share": right(72 / _FAILURES, Mistake("of-all", 72 / _ALL, "this is the share of all interruptions.")),
}

AUDITS = {
    "audit-faults": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"""One GPU failed every {_BETWEEN * _GPUS:,.0f} hours, so a job on 8,192 fails every {KEYS["failure-every-hour"].number:.1f} hours, and one on 1,000 fails in a day with a
probability of {KEYS["always-broken"].number:.2f}. Both statements hold for larger jobs. The 54 days are the window in which interruptions were
counted: the GPU-hours are those of {KEYS["llama3-54-days"].number:.0f} days. Saving every few minutes is right for saves of {_SAVE:.1f} seconds,
not for saves of a minute.""",
        pytorch="`async_save` of `torch.distributed.checkpoint` is what makes saves of a few seconds real for a large model.",
    )
}
