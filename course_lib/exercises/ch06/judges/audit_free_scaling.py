"""Judge of audit-free-scaling: audit: is the ring free?"""

from course_lib import collectives, facts
from course_lib.exercises.ch06.audit_free_scaling import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit, right, wrong
from course_lib.units import GB, MS, US

_RANKS = 64
_LATENCY = collectives.ring_cost(0, 1024, 10 * US, 1.0).seconds / MS
_SHARE = collectives.ring_cost(1.0, _RANKS, 0.0, 1.0).nbytes
_GRADIENTS = 2 * 70e9
_BYTES = collectives.ring_cost(_GRADIENTS, _RANKS, 0.0, 1.0).nbytes / GB
_SECONDS = collectives.ring_cost(_GRADIENTS, _RANKS, 0.0, 100 * GB).seconds
_BUS = collectives.bus_bandwidth("all_reduce", 275.58 * GB, 1.0, 8) / GB
_ALGORITHM = 480 / collectives.BUS_FACTORS["all_reduce"](8)
_PRINTED = float(facts.claim("reduce-scatter-74").value)

KEYS: dict[str, Key] = {
    "ring-free-scaling": wrong(
        _LATENCY,
        "latency left out",
        Mistake("one-half", _LATENCY / 2, "these are the steps of only one half of the ring."),
        Mistake("seconds", _LATENCY * MS, "these are seconds; give milliseconds."),
        Mistake("one-message", 0.01, "this is the latency of one message."),
    ),
    "ring-sends-2m": right(
        _SHARE,
        Mistake("one-half", _SHARE / 2, "this is only one half of the ring."),
        Mistake("whole-tensors", 2.0 * (_RANKS - 1), "the ring passes chunks around, not whole tensors."),
    ),
    "naive-root-bytes": right(
        2.0 * (_RANKS - 1),
        Mistake("one-way", 1.0 * (_RANKS - 1), "count in *and* out."),
        Mistake("all-ranks", 2.0 * _RANKS, "GPU 0 does not send to itself."),
    ),
    "all-reduce-log-form": wrong(
        _SHARE,
        "missing factor",
        Mistake("as-printed", 1.0, "that is the printed form. How much must one rank at least send?"),
        Mistake("tree", 12.0, "that is a tree's factor; an algorithm that sends as little as possible is meant."),
    ),
    "gradients-280-gb": right(
        _BYTES,
        Mistake("one-half", _BYTES / 2, "this is only one half of the ring."),
        Mistake("bytes", _BYTES * GB, "these are bytes; give GB."),
    ),
    "all-reduce-2.8-s": right(
        _SECONDS,
        Mistake("one-half", _SECONDS / 2, "this is only one half of the ring."),
        Mistake("milliseconds", _SECONDS * 1e3, "these are milliseconds."),
    ),
    "h200-bus-482": right(
        _BUS,
        Mistake("gather-factor", _BUS / 2, "this is the factor of an all-gather."),
        Mistake("unconverted", 275.58, "this is the algorithm bandwidth itself."),
    ),
    "h100-480-over-450": wrong(
        _ALGORITHM * 9 / 8,
        "another algorithm's factor",
        Mistake("as-printed", 480.0, "a ring would have sent that many bytes. Which algorithm did run?"),
        Mistake("algorithm", _ALGORITHM, "this is the tensor over the time; each GPU sends a little more."),
        Mistake("upside-down", _ALGORITHM * 7 / 9, "is that less than the tensor? A GPU sends more than that."),
    ),
    "reduce-scatter-74": wrong(
        _PRINTED * 4,
        "divided by N twice",
        Mistake("as-printed", _PRINTED, "that is the printed number. Which bytes were divided by which time?"),
        Mistake("two", _PRINTED * 2, "the factor 2 belongs to an all-reduce; here the time was multiplied by N."),
        Mistake("all-reduce", 275.0, "that is the all-reduce's number; start from the reduce-scatter's."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"The bytes of a ring do not grow with N, but its messages do: {2 * 1023:,} on 1,024 ranks, which is {_LATENCY:.1f} ms of latency "
    f"before the first byte is counted. The form α·log N + β·S has a tree's latency and about half of the bytes that any all-reduce "
    f"needs (factor {_SHARE:.2f} on 64 ranks). 480 GB/s comes from a ring's factor, but the switch added: {_ALGORITHM * 9 / 8:.0f} GB/s "
    f"left each GPU. The lecture's reduce-scatter really ran at {_PRINTED * 4:.0f}, as fast as its all-reduce. The other five are right.",
    pytorch="nccl-tests prints both bandwidths; its `doc/PERFORMANCE.md` explains how one follows from the other.",
)

ANSWERS = r"""from course_lib import collectives

OK = ("right", "as printed")
GOOD = {
    "ring-free-scaling": (20.46, "wrong", "latency left out"),
    "ring-sends-2m": (1.969, *OK),
    "naive-root-bytes": (126, *OK),
    "all-reduce-log-form": (1.969, "wrong", "missing factor"),
    "gradients-280-gb": (275.6, *OK),
    "all-reduce-2.8-s": (2.756, *OK),
    "h200-bus-482": (482.3, *OK),
    "h100-480-over-450": (308.6, "wrong", "another algorithm's factor"),
    "reduce-scatter-74": (294, "wrong", "divided by N twice"),
}


# %% right: by hand
def audit_ring():
    return GOOD


# %% right: with the library, and the asymptote for the bytes
def audit_ring():
    n, latency = 64, collectives.ring_cost(0, 1024, 10e-6, 1).seconds * 1e3
    algorithm = 480 / collectives.BUS_FACTORS["all_reduce"](8)
    return {
        "ring-free-scaling": [latency, "Wrong", "Latency left out"],
        "ring-sends-2m": [2 * (n - 1) / n, *OK],
        "naive-root-bytes": [2.0 * (n - 1), *OK],
        "all-reduce-log-form": [2.0, "wrong", "missing factor"],
        "gradients-280-gb": [280, *OK],
        "all-reduce-2.8-s": [2.8, *OK],
        "h200-bus-482": [collectives.bus_bandwidth("all_reduce", 275.58, 1, 8), *OK],
        "h100-480-over-450": [algorithm * 9 / 8, "wrong", "another algorithm's factor"],
        "reduce-scatter-74": [4 * 73.5, "wrong", "divided by N twice"],
    }


# %% wrong: all right as printed, with the printed numbers => values as-printed
def audit_ring():
    printed = dict(zip(GOOD, (0, 2, 126, 1, 280, 2.8, 482.26, 480, 73.5)))
    return {name: (number, *OK) for name, number in printed.items()}


# %% wrong: one half of the ring => values one-half
def audit_ring():
    return GOOD | {
        "gradients-280-gb": (137.8, "wrong", "missing factor"),
        "ring-sends-2m": (0.984, "wrong", "missing factor"),
    }


# %% wrong: the all-gather's factor for an all-reduce => values gather-factor  from: by hand
# ~ GOOD ==> GOOD | {"h200-bus-482": (241.1, "wrong", "another algorithm's factor")}

# %% wrong: the correction as it was first proposed => values upside-down  from: by hand
# ~ GOOD ==> GOOD | {"h100-480-over-450": (213.3, "wrong", "another algorithm's factor")}

# %% wrong: seconds for milliseconds => values seconds  from: by hand
# ~ GOOD ==> GOOD | {"ring-free-scaling": (0.02046, "wrong", "latency left out")}

# %% wrong: the factor of two of an all-reduce => values two  from: by hand
# ~ GOOD ==> GOOD | {"reduce-scatter-74": (147, "wrong", "divided by N twice")}

# %% half: eight of nine => 8  from: the factor of two of an all-reduce
"""
