from course_chapters.ch14.exercises.audit_faults import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

hours_between, chance = Worked("hours-between-failures")[0], Worked("hours-between-failures")[1]
_GPUS, _SAVE = 16384, 405e9 * 12 / 2e12  # seconds: 12 bytes a parameter at 2 TB/s
_BETWEEN = hours_between(419, 54, _GPUS, _GPUS)  # Llama 3's report, Table 5

JUDGING = audit(
    ITEMS,
    Worked("audit-faults"),
    CAUSES,
    why=f"""One GPU failed every {_BETWEEN * _GPUS:,.0f} hours, so a job on 8,192 fails every {2 * _BETWEEN:.1f} hours,
and one on 1,000 fails in a day with a probability of {chance(24, hours_between(419, 54, _GPUS, 1000)):.2f}. Both
statements hold for larger jobs. The 54 days are the window in which interruptions were counted: the GPU-hours are those
of {30.84e6 / _GPUS / 24:.0f} days. Saving every few minutes is right for saves of {_SAVE:.1f} seconds, not for saves of
a minute.""",
    pytorch="`async_save` of `torch.distributed.checkpoint` is what makes saves of a few seconds real for a "
    "large model.",
)

ANSWERS = r'''# %% right: worked
def audit_failures() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
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
# %% right: rounded, in capitals, a list for a tuple
# ~ (between * 16384 / 8192, "wrong", "another size") ==> [6.19, "Wrong", "Another size"]
# ~ (30.84e6 / 16384 / 24, ==> (78.4,
# ~ (1 - math.exp(-24 / (between * 16.384)), ==> (0.377,
# %% wrong: the printed numbers => values as-printed
# > this is the printed number. Compute it from the log and the size of this job.
# ~ (between * 16384 / 8192, ==> (1,
# ~ (30.84e6 / 16384 / 24, ==> (54,
# ~ (1 - math.exp(-24 / (between * 16.384)), ==> (1,
# %% wrong: as many GPUs as in the log => values log-size
# > this is for the number of GPUs in the log.
# ~ between * 16384 / 8192 ==> between
# %% wrong: half as many fail twice as often => values upside-down
# > half as many GPUs fail half as often.
# ~ between * 16384 / 8192 ==> between * 8192 / 16384
# %% wrong: unexpected interruptions only => values unexpected-only
# > planned interruptions count here, too.
# ~ 54 * 24 / 466 ==> between
# %% wrong: seconds => values
# > these are seconds.
# ~ (young(fast), ==> (60 * young(fast),
# %% wrong: the fast save for the slow one => values fast-save
# > this is for the fast save; here a save takes longer.
# ~ young(60) ==> young(fast)
# %% wrong: nodes taken for GPUs => values gpus-as-nodes
# > the rate is for nodes, and a node has eight GPUs.
# ~ (24 / (6.5 / 1000 * 16384 / 8), "right", "as printed") ==> (24 / 6.5e-3 / 16384, "wrong", "another size")
# %% wrong: days => values
# > these are days.
# ~ (24 / (6.5 / 1000 ==> (1 / (6.5 / 1000
# %% wrong: without the 2 => values no-two
# > Young's rule has a 2 under the root.
# ~ (young(fast), ==> (young(fast) / math.sqrt(2),
# ~ (young(60), ==> (young(60) / math.sqrt(2),
# %% wrong: the expected number => values expected-number
# > this is the expected number of failures, which is more than the probability of one.
# ~ 1 - math.exp(-24 / (between * 16.384)) ==> 24 / (between * 16.384)
# %% wrong: of all interruptions => values of-all
# > this is the share of all interruptions.
# ~ 72 / 419 ==> 72 / 466
'''
