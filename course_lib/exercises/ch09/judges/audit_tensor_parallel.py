"""Judge of audit-tensor-parallel: audit: 71 seconds?"""

from course_lib import facts
from course_lib.exercises.ch09.audit_tensor_parallel import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit, right, wrong
from course_lib.tensor_parallel.traffic import tp_bytes_per_layer, tp_calls_per_layer
from course_lib.units import GB

_MODEL = facts.model("llama3-405b")
_TP, _STAGES, _REPLICAS, _MICRO, _BATCH = 8, 16, 128, 16, 4 * 2**20
_TOKENS = _BATCH // _REPLICAS
_BLOCK = tp_bytes_per_layer(_TOKENS, int(_MODEL.hidden), _TP) / GB
_TENSOR = _TOKENS * int(_MODEL.hidden) * 2 / GB
_SECONDS = _BLOCK * _MODEL.layers / _STAGES / (facts.device("H100 SXM").link_one_way / GB)
_CALLS = tp_calls_per_layer()["all_reduce"]
_HEAD = _MODEL.hidden // _MODEL.heads
_LAYER = 2 * (2 * _MODEL.hidden**2 + 2 * _MODEL.hidden * _MODEL.kv_heads * _HEAD + 3 * _MODEL.hidden * _MODEL.ffn) / GB
_ALONE = 39e12  # FLOP/s of a single GPU, as the statement has it
_ACHIEVED = float(facts.run("Megatron-LM 8.3B").flops_per_device) / _ALONE

_ONE_REPLICA = "this is for the whole batch; one replica has an N-th of its tokens."
_WHOLE_BATCH = "these are activations of the whole batch; a tensor-parallel group has one replica's tokens."
_ONE_STAGE = "that is one stage's, for one micro-batch; all blocks and a whole step are asked for."
_ALIKE = 2 * (4 * _MODEL.hidden**2 + 3 * _MODEL.hidden * _MODEL.ffn) / GB  # with as many KV heads as query heads

KEYS: dict[str, Key] = {
    "tp-row-formula": wrong(4.0, "needs only its part", Mistake("as-printed", 8.0, "all of X. How many rows has W₁?")),
    "tp-128-gb": wrong(
        _BLOCK,
        "another scope",
        Mistake("as-printed", _BATCH * _MODEL.hidden * 2 / GB, _WHOLE_BATCH),
        Mistake("one-tensor", _TENSOR, "this is the tensor. How often is it all-reduced, and what does a ring send?"),
        Mistake("four-tensors", _CALLS * _TENSOR, "four tensors; a ring sends 2(t − 1)/t of each."),
        Mistake("one-all-reduce", _BLOCK / _CALLS, "this is one all-reduce; a block has more."),
        Mistake("forward", _BLOCK / 2, "this is the forward pass."),
        Mistake("whole-batch", _BLOCK * _REPLICAS, _ONE_REPLICA),
    ),
    "tp-71-s": wrong(
        _SECONDS,
        "another scope",
        Mistake("as-printed", 71.7, "that is the printed number: whose bytes over whose links?"),
        Mistake("both-ways", _SECONDS / 2, "900 GB/s count both ways."),
        Mistake("all-blocks", _SECONDS * _STAGES, "this is for all blocks; a GPU has its stage's."),
        Mistake("whole-batch", _SECONDS * _REPLICAS, _ONE_REPLICA),
    ),
    "tp-504-reduces": wrong(
        float(_CALLS * _MODEL.layers * _MICRO),
        "missing factor",
        Mistake("as-printed", float(_CALLS * _MODEL.layers), "that is one micro-batch; how many are in a step?"),
        Mistake("one-gpu", _CALLS * _MODEL.layers / _STAGES, _ONE_STAGE),
    ),
    "tp-one-layer": wrong(
        _LAYER,
        "reason does not hold",
        Mistake("no-bytes", _LAYER / 2, "these are numbers in billions; 16 bits are two bytes."),
        Mistake("heads-alike", _ALIKE, "keys and values have fewer heads than queries."),
        Mistake("whole-model", _LAYER * _MODEL.layers, "these are all layers."),
        Mistake("two-matrices", _LAYER - 2 * _MODEL.hidden * _MODEL.ffn / GB, "a gated MLP has three matrices."),
    ),
    "tp-16-heads": right(
        float(_MODEL.heads / _TP),
        Mistake("kv-heads", float(_MODEL.kv_heads / _TP), "those are KV heads; query heads are asked for."),
    ),
    "tp-four-reduces": right(float(_CALLS), Mistake("one-pass", _CALLS / 2, "that is one pass of the two.")),
    "tp-8bsh": right(
        2.0 * _CALLS,
        Mistake("tensors", float(_CALLS), "a ring sends almost twice the tensor."),
        Mistake("bytes", 4.0 * _CALLS, "elements are asked for, not bytes."),
    ),
    "tp-76-percent": right(_ACHIEVED, Mistake("percent", 100 * _ACHIEVED, "give a fraction, not percent.")),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"128 GB are the activations of the whole batch; a tensor-parallel group sees one of {_REPLICAS} replicas, and a GPU the blocks of one of {_STAGES} "
    f"stages. Four all-reduces of what is left send {_BLOCK:.1f} GB a block, and {_SECONDS:.2f} s a step one way, not 71. {_CALLS * _MODEL.layers} "
    f"all-reduces are one micro-batch's, of which a GPU takes part in {_CALLS * _MODEL.layers / _STAGES:g}. One gathered layer has {_LAYER:.1f} GB and fits anywhere: matrices are cut for the time that gathering takes, and "
    "for activations. A row cut pairs each part of W with its part of X. The other four are right.",
    pytorch="`CommDebugMode` counts a step's collectives, per call.",
)

ANSWERS = r"""GOOD = {
    "tp-row-formula": (4, "wrong", "needs only its part"),
    "tp-128-gb": (7.516, "wrong", "another scope"),
    "tp-71-s": (0.1315, "wrong", "another scope"),
    "tp-504-reduces": (8064, "wrong", "missing factor"),
    "tp-one-layer": (6.375, "wrong", "reason does not hold"),
    "tp-16-heads": (16, "right", "as printed"),
    "tp-four-reduces": (4, "right", "as printed"),
    "tp-8bsh": (8, "right", "as printed"),
    "tp-76-percent": (0.756, "right", "as printed"),
}


# %% right: recomputed
def audit_tp():
    h, ffn, layers, kv, d, tp, pp, dp, micro = 16384, 53248, 126, 8, 128, 8, 16, 128, 16
    tokens = 4 * 2**20 / dp
    block = 4 * 2 * (1 - 1 / tp) * tokens * h * 2
    layer = 2 * (2 * h * h + 2 * h * kv * d + 3 * h * ffn)
    return {
        "tp-row-formula": (8 / 2, "wrong", "needs only its part"),
        "tp-128-gb": (block / 1e9, "wrong", "another scope"),
        "tp-71-s": (block * layers / pp / 450e9, "wrong", "another scope"),
        "tp-504-reduces": (4 * layers * micro, "wrong", "missing factor"),
        "tp-one-layer": (layer / 1e9, "wrong", "reason does not hold"),
        "tp-16-heads": (128 / tp, "right", "as printed"),
        "tp-four-reduces": (4, "right", "as printed"),
        "tp-8bsh": (4 * 2, "right", "as printed"),
        "tp-76-percent": (15.1e15 / 512 / 39e12, "right", "as printed"),
    }


# %% right: numbers looked up, lists for tuples
def audit_tp():
    return {name: list(row) for name, row in GOOD.items()}


# %% wrong: the printed numbers back => values as-printed
def audit_tp():
    printed = {"tp-row-formula": 8, "tp-128-gb": 128, "tp-71-s": 71, "tp-504-reduces": 504, "tp-one-layer": 80}
    return {name: (printed.get(name, row[0]), "right", "as printed") for name, row in GOOD.items()}


# %% wrong: one all-reduce for a block => values one-all-reduce  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-128-gb": (1.879, "wrong", "another scope")}

# %% wrong: all blocks on one GPU => values all-blocks  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-71-s": (2.1045, "wrong", "another scope")}

# %% wrong: both ways of the link => values both-ways  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-71-s": (0.0658, "wrong", "another scope")}

# %% wrong: one stage, one micro-batch => values one-gpu  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-504-reduces": (31.5, "wrong", "missing factor")}

# %% wrong: KV heads as many as query heads => values heads-alike  from: numbers looked up, lists for tuples
# ~ name: list(row) for name, row in GOOD.items() ==> **GOOD, "tp-one-layer": (7.382, "wrong", "reason does not hold")

# %% wrong: per cent => values percent  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-76-percent": (75.6, "right", "as printed")}


# %% half: three of nine missing => 6
def audit_tp():
    return {name: row for name, row in GOOD.items() if name not in ("tp-128-gb", "tp-71-s", "tp-8bsh")}
"""
