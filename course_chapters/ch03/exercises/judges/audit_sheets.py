"""Judge of audit-sheets: audit: sheets, roofs, wires."""

from course_chapters.ch03.exercises.audit_sheets import CAUSES, ITEMS, STEP
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate import facts
from course_lib.estimate.units import GB, TB, TFLOP

H100, B200, K40 = (facts.device(name) for name in ("H100 SXM", "B200 SXM", "K40"))
POD, SERVER = (facts.topology("Llama 3 cluster").devices(level) for level in ("pod", "server"))

_ONE_WAY, _NIC = float(H100.link_one_way), float(H100.network_one_way)
_RIDGE = float(H100.dense_flops) / float(H100.bandwidth)
_AXES = STEP["memory_bytes"] / STEP["network_bytes"]
_DENSE, _SPARSE, _OLD = float(B200.dense_flops), float(B200.sparse_flops), float(K40.fp32_flops)
_TENSOR = facts.chip("H100 SXM").tensor_flops / TFLOP
_SERVER_RATE, _POD_MEMORY = SERVER * _NIC / GB, POD * float(H100.memory)

KEYS = {
    "b200-5000": wrong(
        _DENSE / TFLOP,
        "dense or sparse",
        Mistake("sparse-peak", _SPARSE / TFLOP, "this is the sparse peak."),
        Mistake("as-printed", 5000.0, "that is the printed number."),
    ),
    "thousand-times": wrong(
        _DENSE / _OLD,
        "dense or sparse",
        Mistake("sparse-peak", _SPARSE / _OLD, "this takes the sparse peak of the newer one."),
        Mistake("as-printed", 1000.0, "that is the printed number."),
    ),
    "ridge-295": right(
        _RIDGE,
        Mistake("sparse-peak", 2 * _RIDGE, "this is with the sparse peak."),
        Mistake("upside-down", 1 / _RIDGE, "this is bytes per FLOP."),
        Mistake("mixed-units", _RIDGE / 1e3, "TFLOP over GB is too small by a factor of 1,000."),
    ),
    "tensor-cores-989": right(_TENSOR, Mistake("doubled", 2 * _TENSOR, "do not double; these are FLOP already.")),
    "flat-ceiling": wrong(
        2.0, "slope drawn flat", Mistake("as-printed", 1.0, "the figure shows that. What is bandwidth × intensity?")
    ),
    "one-axis": wrong(
        _AXES,
        "two quantities on one axis",
        Mistake("as-printed", 1.0, "both intensities have the same FLOP, but not the same bytes."),
        Mistake("upside-down", 1 / _AXES, "this is the memory's intensity over the network's."),
    ),
    "eighteen-fold": wrong(
        _ONE_WAY / _NIC,
        "both ways for one way",
        Mistake("as-printed", 18.0, "that compares both directions of one wire with one direction of the other."),
    ),
    "any-two-900": wrong(
        _ONE_WAY / GB,
        "both ways for one way",
        Mistake("as-printed", 900.0, "900 GB/s are both directions added."),
        Mistake("a-seventh", _ONE_WAY / GB / 7, "this is a seventh, but only one peer sends here."),
    ),
    "server-50": wrong(
        _SERVER_RATE,
        "wrong scope",
        Mistake("as-printed", 50.0, "that is one adapter. How many has a server?"),
        Mistake("both-ways", 2 * _SERVER_RATE, "this adds both directions."),
        Mistake("gigabits", SERVER * 400.0, "these are gigabits."),
    ),
    "pod-245": right(_POD_MEMORY / TB, Mistake("gigabytes", _POD_MEMORY / GB, "these are GB.")),
    "decode-one": right(
        1.0,
        Mistake("multiply-adds", 0.5, "a multiplication and an addition are two FLOP."),
        Mistake("per-weight", 2.0, "this is FLOP per weight; a weight has two bytes."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"Sheets print the largest true number. 5,000 is sparse; the dense B200 has {KEYS['b200-5000'].number:,.0f}, so the decade "
    f"brought {KEYS['thousand-times'].number:.0f}×, partly by fewer bits. 900 GB/s are both directions of all links of one GPU: one "
    f"GPU sends another at most {KEYS['any-two-900'].number:.0f}, and leaving the server costs {KEYS['eighteen-fold'].number:.0f}×, "
    f"not 18. Eight adapters of a server send {KEYS['server-50'].number:.0f} GB/s, one of them 50. A roof of bytes is a slope, and "
    "memory and network have an axis each. The ridge, the tensor cores, the pod and the one FLOP per byte are right as printed.",
)

ANSWERS = r"""# %% right: all eleven
def audit_sheets():
    return {
        "b200-5000": (2250, "wrong", "dense or sparse"),
        "thousand-times": (2250 / 5.04, "wrong", "dense or sparse"),
        "ridge-295": (989e12 / 3.35e12, "right", "as printed"),
        "tensor-cores-989": (528 * 1024 * 1.83e9 / 1e12, "right", "as printed"),
        "flat-ceiling": (100 / 50, "wrong", "slope drawn flat"),
        "one-axis": (700 / 35, "wrong", "two quantities on one axis"),
        "eighteen-fold": (450 / 50, "wrong", "both ways for one way"),
        "any-two-900": (900 / 2, "wrong", "both ways for one way"),
        "server-50": (8 * 50, "wrong", "wrong scope"),
        "pod-245": (3072 * 80 / 1000, "right", "as printed"),
        "decode-one": (2 / 2, "right", "as printed"),
    }


# %% right: by the library, lists, rounded, capitals, one more id
from course_lib.estimate import facts


def audit_sheets():
    h100, b200, k40 = (facts.device(name) for name in ("H100 SXM", "B200 SXM", "K40"))
    return {
        "b200-5000": [round(b200.dense_flops / 1e12), "Wrong", "Dense or sparse"],
        "thousand-times": [round(b200.dense_flops / k40.fp32_flops), "Wrong", "Dense or sparse"],
        "ridge-295": [295, "Right", "As printed"],
        "tensor-cores-989": [facts.chip("H100 SXM").tensor_flops / 1e12, "Right", "As printed"],
        "flat-ceiling": [2, "Wrong", "Slope drawn flat"],
        "one-axis": [20.0, "Wrong", "Two quantities on one axis"],
        "eighteen-fold": [h100.link_one_way / h100.network_one_way, "Wrong", "Both ways for one way"],
        "any-two-900": [h100.link_one_way / 1e9, "Wrong", "Both ways for one way"],
        "server-50": [400, "Wrong", "Wrong scope"],
        "pod-245": [246, "Right", "As printed"],
        "decode-one": [1, "Right", "As printed"],
        "something-else": None,
    }


# %% wrong: printed numbers called wrong => values as-printed  from: all eleven
# ~ 2250, "wrong" ==> 5000, "wrong"
# ~ 2250 / 5.04 ==> 1000
# ~ 100 / 50 ==> 1
# ~ 700 / 35 ==> 1
# ~ 450 / 50 ==> 18
# ~ 900 / 2 ==> 900
# ~ 8 * 50 ==> 50

# %% wrong: the sparse B200 => values sparse-peak  from: a seventh for each peer
# ~ "any-two-900": (64.3, "wrong", "both ways for one way") ==> "b200-5000": (4500, "right", "as printed")

# %% wrong: a seventh for each peer => values a-seventh  from: the server in gigabits
# ~ "server-50": (3200, "wrong", "unit") ==> "any-two-900": (64.3, "wrong", "both ways for one way")


# %% wrong: the server in gigabits => values gigabits
def audit_sheets():
    return {"server-50": (3200, "wrong", "unit"), "ridge-295": (295, "right", "as printed")}


# %% half: one cause missed => 20  from: all eleven
# ~ 450 / 50, "wrong", "both ways for one way" ==> 9, "wrong", "missing factor"


# %% half: two answered so far => 4
def audit_sheets():
    return {"eighteen-fold": (9, "wrong", "both ways for one way"), "pod-245": (245.8, "right", "as printed")}
"""
