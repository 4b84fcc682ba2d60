"""Judge of audit-tensor-parallel: audit: 71 seconds?"""

from course_chapters.ch09.exercises.audit_tensor_parallel import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import Key, audit, right, wrong
from course_lib.estimate import facts
from course_lib.estimate.units import GB
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer, tp_calls_per_layer

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

ANSWERS = r'''from course_lib.estimate import facts, memory; from course_lib.parallel import tensor as tensor_parallel
from course_lib.estimate.units import GB


# %% right: worked
def audit_tp() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    ### BEGIN SOLUTION
    shape, tp, stages, replicas, micro_batches = facts.model("llama3-405b"), 8, 16, 128, 16
    sums = tensor_parallel.tp_calls_per_layer()["all_reduce"]
    block = tensor_parallel.tp_bytes_per_layer(4 * 2**20 // replicas, shape.hidden, tp)
    here = shape.layers / stages * block  # what one GPU sends in a step, for the blocks of its stage
    return {
        "tp-row-formula": (8 / 2, "wrong", "needs only its part"),
        "tp-128-gb": (block / GB, "wrong", "another scope"),
        "tp-71-s": (here / facts.device("H100 SXM").link_one_way, "wrong", "another scope"),
        "tp-504-reduces": (sums * shape.layers * micro_batches, "wrong", "missing factor"),
        "tp-one-layer": (memory.gathered_layer_bytes(shape) / GB, "wrong", "reason does not hold"),
        "tp-16-heads": (shape.heads / tp, "right", "as printed"),
        "tp-four-reduces": (sums, "right", "as printed"),
        "tp-8bsh": (2 * sums, "right", "as printed"),
        "tp-76-percent": (15.1e15 / 512 / 39e12, "right", "as printed"),
    }
    ### END SOLUTION

# %% right: rounded, lists for tuples
# ~ def audit_tp() -> dict[str, tuple[float, str, str]]: ==> def recomputed():
#       ### END SOLUTION
# + def audit_tp():
# +     return {name: [float(f"{row[0]:.4g}"), *row[1:]] for name, row in recomputed().items()}
# %% wrong: the printed numbers back => values as-printed
# ~ def audit_tp() -> dict[str, tuple[float, str, str]]: ==> def recomputed():
#       ### END SOLUTION
# + def audit_tp():
# +     printed = {"tp-row-formula": 8, "tp-128-gb": 128, "tp-71-s": 71, "tp-504-reduces": 504, "tp-one-layer": 80}
# +     return {name: (printed.get(name, row[0]), "right", "as printed") for name, row in recomputed().items()}
# %% wrong: one all-reduce for a block => values one-all-reduce
# ~ (block / GB, ==> (block / sums / GB,
# %% wrong: all blocks on one GPU => values all-blocks
# ~ (here / facts ==> (here * stages / facts
# %% wrong: both ways of the link => values both-ways
# ~ (here / facts ==> (here / 2 / facts
# %% wrong: one stage, one micro-batch => values one-gpu
# ~ sums * shape.layers * micro_batches ==> sums * shape.layers / stages
# %% wrong: KV heads as many as query heads => values heads-alike
# ~ memory.gathered_layer_bytes(shape) / GB ==> 2 * (4 * shape.hidden**2 + 3 * shape.hidden * shape.ffn) / GB
# %% wrong: per cent => values percent
# ~ 15.1e15 / 512 / 39e12 ==> 100 * 15.1e15 / 512 / 39e12
# %% half: three of nine missing => 6
# -         "tp-128-gb": (block / GB, "wrong", "another scope"),
# -         "tp-71-s": (here / facts.device("H100 SXM").link_one_way, "wrong", "another scope"),
#           "tp-four-reduces": (sums, "right", "as printed"),
# -         "tp-8bsh": (2 * sums, "right", "as printed"),
'''
