"""Judge of audit-faults: audit: what was printed about failures."""

import math

from course_chapters.ch14.exercises.audit_faults import CAUSES, ITEMS
from course_grader.judging import Mistake, Worked
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate.units import HOUR, MINUTE

hours_between, chance = Worked("hours-between-failures")[0], Worked("hours-between-failures")[1]
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


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""One GPU failed every {_BETWEEN * _GPUS:,.0f} hours, so a job on 8,192 fails every {KEYS["failure-every-hour"].number:.1f} hours, and one on 1,000 fails in a day with a
probability of {KEYS["always-broken"].number:.2f}. Both statements hold for larger jobs. The 54 days are the window in which interruptions were
counted: the GPU-hours are those of {KEYS["llama3-54-days"].number:.0f} days. Saving every few minutes is right for saves of {_SAVE:.1f} seconds,
not for saves of a minute.""",
    pytorch="`async_save` of `torch.distributed.checkpoint` is what makes saves of a few seconds real for a large model.",
)

ANSWERS = r'''import math


# %% right: worked
def audit_failures() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    ### BEGIN SOLUTION
    between = 54 * 24 / 419  # hours, on 16,384 GPUs
    fast = 405e9 * 12 / 2e12  # seconds of a save at 2 TB/s
    young = lambda seconds: math.sqrt(2 * seconds * between * 3600) / 60  # noqa: E731 (minutes)
    return {
        "failure-every-hour": (between * 16384 / 8192, "wrong", "another size"),
        "interruptions-few-hours": (54 * 24 / 466, "right", "as printed"),
        "llama3-54-days": (30.84e6 / 16384 / 24, "wrong", "a snapshot"),
        "checkpoint-minutes": (young(fast), "right", "as printed"),
        "checkpoint-minutes-slow": (young(60), "wrong", "saves are not free"),
        "rsc-16384": (24 / (6.5 / 1000 * 16384 / 8), "right", "as printed"),
        "always-broken": (1 - math.exp(-24 / (between * 16.384)), "wrong", "another size"),
        "hbm3-share": (72 / 419, "right", "as printed"),
    }
    ### END SOLUTION

# %% right: by hand
def audit_failures():
    ok = ("right", "as printed")
    return {
        "failure-every-hour": [6.19, "Wrong", "Another size"],
        "interruptions-few-hours": (2.78, *ok),
        "llama3-54-days": (78.4, "wrong", "a snapshot"),
        "checkpoint-minutes": (3.88, *ok),
        "checkpoint-minutes-slow": (19.3, "wrong", "saves are not free"),
        "rsc-16384": (1.8, *ok),
        "always-broken": (0.377, "wrong", "another size"),
        "hbm3-share": (0.172, *ok),
    }


# %% wrong: everything is right => values -
# ~ return { ==> return _right({
# -     }
# +     })
# + def _right(found):
# +     return {name: (number, "right", "as printed") for name, (number, _, _) in found.items()}
# %% wrong: everything is wrong => values -
# ~ return { ==> return _wrong({
# -     }
# +     })
# + def _wrong(found):
# +     return {name: (number, "wrong", cause.replace("as printed", "another size")) for name, (number, _, cause) in found.items()}
# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ [6.19, "Wrong", "Another size"] ==> (1, *ok)
# ~ (78.4, "wrong", "a snapshot") ==> (54, *ok)
# ~ (19.3, "wrong", "saves are not free") ==> (4, *ok)
# ~ (0.377, "wrong", "another size") ==> (1, *ok)
# %% wrong: nodes taken for GPUs => values gpus-as-nodes
# ~ (24 / (6.5 / 1000 * 16384 / 8), "right", "as printed") ==> (24 / 6.5e-3 / 16384, "wrong", "another size")
# %% wrong: without the 2 => values no-two
# ~ (young(fast), ==> (young(fast) / math.sqrt(2),
# %% wrong: the expected number => values expected-number
# ~ 1 - math.exp(-24 / (between * 16.384)) ==> 24 / (between * 16.384)
# %% wrong: another cause => values wrong-cause
# ~ "a snapshot" ==> "planned stops"
# %% wrong: left as it is => not-answered
#       between = 54 * 24 / 419  # hours, on 16,384 GPUs
# +     raise NotImplementedError
# %% half: one statement is missing => 7
# ~ "hbm3-share": ==> "hbm3":
'''
