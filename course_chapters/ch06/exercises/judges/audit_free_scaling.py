from course_chapters.ch06.exercises.audit_free_scaling import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.cluster import collectives
from course_lib.estimate import facts
from course_lib.estimate.units import MS, US

_LATENCY = collectives.ring_cost(0, 1024, 10 * US, 1.0).seconds / MS
_FACTOR = collectives.BUS_FACTORS["all_reduce"]

JUDGING = audit(
    ITEMS,
    Worked("audit-free-scaling"),
    CAUSES,
    why=f"The bytes of a ring do not grow with N, but its messages do: 2,046 on 1,024 ranks, which is {_LATENCY:.1f} "
    "ms of latency before the first byte is counted. The form α·log N + β·S has a tree's latency and about half "
    f"of the bytes that any all-reduce needs (factor {_FACTOR(64):.2f} on 64 ranks). 480 GB/s comes from a ring's "
    f"factor, but the switch added: {480 / _FACTOR(8) * 9 / 8:.0f} GB/s left each GPU. The lecture's "
    f"reduce-scatter really ran at {4 * facts.claim('reduce-scatter-74').value:.0f}, as fast as its all-reduce. "
    "The other five are right.",
    pytorch="nccl-tests prints both bandwidths; its `doc/PERFORMANCE.md` explains how one follows from the other.",
)

ANSWERS = r'''from course_lib.cluster import collectives
from course_lib.estimate.units import MS, US
# %% right: worked
def audit_ring() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    factor = collectives.BUS_FACTORS["all_reduce"]
    sent = factor(64) * 140  # GB
    return {
        "ring-free-scaling": (2 * 1023 * 10 * US / MS, "wrong", "latency left out"),
        "ring-sends-2m": (factor(64), "right", "as printed"),
        "naive-root-bytes": (2 * 63, "right", "as printed"),
        "all-reduce-log-form": (factor(64), "wrong", "missing factor"),
        "gradients-280-gb": (sent, "right", "as printed"),
        "all-reduce-2.8-s": (sent / 100, "right", "as printed"),
        "h200-bus-482": (275.58 * factor(8), "right", "as printed"),
        "h100-480-over-450": (480 / factor(8) * 9 / 8, "wrong", "another algorithm's factor"),
        "reduce-scatter-74": (4 * 73.5, "wrong", "divided by N twice"),
    }
# %% right: rounded, with the asymptote for the bytes, in lists and capitals
# ~ (factor(64), "wrong", "missing factor") ==> [2.0, "Wrong", "Missing factor"]
# ~ (sent, "right" ==> (280, "right"
# ~ (sent / 100, "right" ==> (2.8, "Right"
# %% wrong: one half of the ring => values one-half
# > this is only one half of the ring.
# ~ (2 * 1023 * 10 * US ==> (1023 * 10 * US
# ~ (factor(64), "right" ==> (factor(64) / 2, "right"
# ~ (sent, "right", "as printed") ==> (sent / 2, "wrong", "missing factor")
# ~ (sent / 100, ==> (sent / 200,
# %% wrong: seconds for milliseconds => values seconds
# > these are seconds; give milliseconds.
# ~ * US / MS ==> * US
# %% wrong: one message => values
# > this is the latency of one message.
# ~ 2 * 1023 * 10 * US / MS ==> 10 * US / MS
# %% wrong: whole tensors => values
# > the ring passes chunks around, not whole tensors.
# ~ (factor(64), "right" ==> (2 * 63, "right"
# %% wrong: one way => values
# > count in *and* out.
# ~ (2 * 63, ==> (63,
# %% wrong: the printed form => values as-printed
# > that is the printed form. How much must one rank at least send?
# ~ (factor(64), "wrong" ==> (1.0, "wrong"
# %% wrong: tree => values
# > that is a tree's factor; an algorithm that sends as little as possible is meant.
# ~ (factor(64), "wrong" ==> (12.0, "wrong"
# %% wrong: bytes => values
# > these are bytes; give GB.
# ~ (sent, "right" ==> (1e9 * sent, "right"
# %% wrong: milliseconds => values
# > these are milliseconds.
# ~ (sent / 100, ==> (10 * sent,
# %% wrong: the all-gather's factor for an all-reduce => values gather-factor
# > this is the factor of an all-gather.
# ~ (275.58 * factor(8), "right", "as printed") ==> (275.58 * factor(8) / 2, "wrong", "another algorithm's factor")
# %% wrong: unconverted => values
# > this is the algorithm bandwidth itself.
# ~ 275.58 * factor(8) ==> 275.58
# %% wrong: the printed rate => values as-printed
# > a ring would have sent that many bytes. Which algorithm did run?
# ~ (480 / factor(8) * 9 / 8, ==> (480,
# %% wrong: algorithm => values
# > this is the tensor over the time; each GPU sends a little more.
# ~ factor(8) * 9 / 8 ==> factor(8)
# %% wrong: the correction as it was first proposed => values upside-down
# > this is less than one tensor; a GPU sends more than one.
# ~ factor(8) * 9 / 8 ==> factor(8) * 7 / 9
# %% wrong: the printed range => values as-printed
# > that is the printed number. Which bytes were divided by which time?
# ~ 4 * 73.5 ==> 73.5
# %% wrong: the factor of two of an all-reduce => values two
# > the factor 2 belongs to an all-reduce; here the time was multiplied by N.
# ~ 4 * 73.5 ==> 2 * 73.5
# %% wrong: all-reduce => values
# > that is the all-reduce's number; start from the reduce-scatter's.
# ~ 4 * 73.5 ==> 275
'''
