from course_chapters.ch03.exercises.audit_sheets import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import facts
from course_lib.estimate.units import GB, TFLOP

_H100, _B200 = facts.device("H100 SXM"), facts.device("B200 SXM")

JUDGING = audit(
    ITEMS,
    Worked("audit-sheets"),
    CAUSES,
    why=f"Sheets print the largest true number. 5,000 is sparse; the dense B200 has {_B200.dense_flops / TFLOP:,.0f}, "
    f"so the decade brought {_B200.dense_flops / facts.device('K40').fp32_flops:.0f}×, partly by fewer bits. 900 "
    "GB/s are both directions of all links of one GPU: one GPU sends another at most "
    f"{_H100.link_one_way / GB:.0f}, and leaving the server costs "
    f"{_H100.link_one_way / _H100.network_one_way:.0f}×, not 18. Eight adapters of a server send "
    f"{8 * _H100.network_one_way / GB:.0f} GB/s, one of them 50. A roof of bytes is a slope, and memory and "
    "network have an axis each. The ridge, the tensor cores, the pod and the one FLOP per byte are "
    "right as printed.",
)

ANSWERS = r'''from course_lib.estimate import facts
from course_lib.estimate.units import GB, TFLOP
h100 = facts.device("H100 SXM")
# %% right: worked
def audit_sheets() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    k40, b200 = facts.device("K40"), facts.device("B200 SXM")
    one_way, adapter = h100.link_both_ways / 2, h100.network_one_way
    flat = h100.bandwidth * 100 / (h100.bandwidth * 50)
    axes = (3.4e15 / 35e9) / (3.4e15 / 700e9)
    return {
        "b200-5000": (b200.dense_flops / TFLOP, "wrong", "dense or sparse"),
        "thousand-times": (b200.dense_flops / k40.fp32_flops, "wrong", "dense or sparse"),
        "ridge-295": (h100.dense_flops / h100.bandwidth, "right", "as printed"),
        "tensor-cores-989": (528 * 1024 * 1.83e9 / TFLOP, "right", "as printed"),
        "flat-ceiling": (flat, "wrong", "slope drawn flat"),
        "one-axis": (axes, "wrong", "two quantities on one axis"),
        "eighteen-fold": (one_way / adapter, "wrong", "both ways for one way"),
        "any-two-900": (one_way / GB, "wrong", "both ways for one way"),
        "server-50": (8 * adapter / GB, "wrong", "wrong scope"),
        "pod-245": (192 * 16 * h100.memory / 1e12, "right", "as printed"),
        "decode-one": (2 / 2, "right", "as printed"),
    }
# %% right: by hand, lists, rounded, capitals, one more id
# ~ (b200.dense_flops / TFLOP, "wrong", "dense or sparse") ==> [2250, "Wrong", "Dense or sparse"]
# ~ h100.dense_flops / h100.bandwidth ==> 295
# ~ (192 * 16 * h100.memory / 1e12, "right", "as printed") ==> [246, "Right", "As printed"]
# ~ (2 / 2, "right", "as printed"), ==> (1, "right", "as printed"), "something-else": None,
# %% wrong: as printed => values
# > that is the printed number.
# ~ b200.dense_flops / TFLOP ==> 5000
# ~ b200.dense_flops / k40.fp32_flops ==> 1000
# %% wrong: drawn flat => values
# > the figure shows that. What is bandwidth × intensity?
# ~ (flat, "wrong", "slope drawn flat") ==> (1, "right", "as printed")
# %% wrong: one intensity => values
# > both intensities have the same FLOP, but not the same bytes.
# ~ (axes, "wrong", "two quantities on one axis") ==> (1, "right", "as printed")
# %% wrong: both ways against one => values
# > that compares both directions of one wire with one direction of the other.
# ~ one_way / adapter ==> 18
# %% wrong: both ways added => values
# > 900 GB/s are both directions added.
# ~ one_way / GB ==> 900
# %% wrong: one adapter => values
# > that is one adapter. How many has a server?
# ~ 8 * adapter ==> adapter
# %% wrong: sparse peak => values
# > this is with the sparse peak.
# ~ (b200.dense_flops / TFLOP, "wrong", "dense or sparse") ==> (b200.sparse_flops / TFLOP, "wrong", "dense or sparse")
# ~ (b200.dense_flops / k40.fp32_flops ==> (b200.sparse_flops / k40.fp32_flops
# ~ h100.dense_flops / h100.bandwidth ==> 2 * h100.dense_flops / h100.bandwidth
# %% wrong: upside down => values
# > this is the reciprocal of the number asked for.
# ~ h100.dense_flops / h100.bandwidth ==> h100.bandwidth / h100.dense_flops
# ~ (axes, ==> (1 / axes,
# ~ one_way / adapter ==> adapter / one_way
# %% wrong: mixed units => values
# > TFLOP over GB is too small by a factor of 1,000.
# ~ h100.dense_flops / h100.bandwidth ==> h100.dense_flops / h100.bandwidth / 1000
# %% wrong: doubled => values
# > do not double; these are FLOP already.
# ~ 528 * 1024 ==> 2 * 528 * 1024
# %% wrong: a seventh for each peer => values a-seventh
# > this is a seventh of the rate; a GPU that sends to one peer uses all of it.
# ~ one_way / GB ==> one_way / GB / 7
# %% wrong: both directions of a server => values both-ways
# > this adds both directions.
# ~ 8 * adapter ==> 16 * adapter
# %% wrong: gigabits => values
# > these are gigabits.
# ~ (8 * adapter / GB, "wrong", "wrong scope") ==> (8 * 400, "wrong", "unit")
# %% wrong: gigabytes => values
# > these are GB.
# ~ h100.memory / 1e12 ==> h100.memory / GB
# %% wrong: multiply adds => values
# > a multiplication and an addition are two FLOP.
# ~ 2 / 2, ==> 1 / 2,
# %% wrong: per weight => values
# > this is FLOP per weight; a weight has two bytes.
# ~ 2 / 2, ==> 2,
'''
