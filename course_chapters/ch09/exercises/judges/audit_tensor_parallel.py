from course_chapters.ch09.exercises.audit_tensor_parallel import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import facts, memory
from course_lib.estimate.units import GB
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer, tp_calls_per_layer

_MODEL, _STAGES, _REPLICAS = facts.model("llama3-405b"), 16, 128
_BLOCK = tp_bytes_per_layer(4 * 2**20 // _REPLICAS, int(_MODEL.hidden), 8) / GB
_SECONDS = _BLOCK * _MODEL.layers / _STAGES / (facts.device("H100 SXM").link_one_way / GB)
_CALLS = tp_calls_per_layer()["all_reduce"]

JUDGING = audit(
    ITEMS,
    Worked("audit-tensor-parallel"),
    CAUSES,
    why=f"128 GB are the activations of the whole batch; a tensor-parallel group sees one of {_REPLICAS} replicas, "
    f"and a GPU the blocks of one of {_STAGES} stages. Four all-reduces of what is left send {_BLOCK:.1f} GB a "
    f"block, and {_SECONDS:.2f} s a step one way, not 71. {_CALLS * _MODEL.layers} all-reduces are one "
    f"micro-batch's, of which a GPU takes part in {_CALLS * _MODEL.layers / _STAGES:g}. One gathered layer has "
    f"{memory.gathered_layer_bytes(_MODEL) / GB:.1f} GB and fits anywhere: matrices are cut for the time that "
    "gathering takes, and for activations. A row cut pairs each part of W with its part of X. The other "
    "four are right.",
    pytorch="`CommDebugMode` counts a step's collectives, per call.",
)

ANSWERS = r'''from course_lib.estimate import facts, memory
from course_lib.estimate.units import GB
from course_lib.parallel import tensor as tensor_parallel
# %% right: worked
def audit_tp() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
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
# %% right: rounded, lists for tuples
# - def audit_tp() -> dict[str, tuple[float, str, str]]:
# + def recomputed():
#       }
# + def audit_tp():
# +     return {name: [float(f"{row[0]:.4g}"), *row[1:]] for name, row in recomputed().items()}
# %% wrong: the printed numbers => values as-printed
# > that is the printed number. Whose bytes, layers and micro-batches does it count?
# ~ (8 / 2, ==> (8,
# ~ (block / GB, ==> (4 * 2**20 * shape.hidden * 2 / GB,
# ~ (here / facts.device("H100 SXM").link_one_way, ==> (71.7,
# ~ sums * shape.layers * micro_batches ==> sums * shape.layers
# %% wrong: one tensor => values
# > this is the tensor. How often is it all-reduced, and what does a ring send?
# ~ (block / GB, ==> (4 * 2**20 // replicas * shape.hidden * 2 / GB,
# %% wrong: four tensors => values
# > four tensors; a ring sends 2(t − 1)/t of each.
# ~ (block / GB, ==> (sums * 4 * 2**20 // replicas * shape.hidden * 2 / GB,
# %% wrong: one all-reduce for a block => values one-all-reduce
# > this is one all-reduce; a block has more.
# ~ (block / GB, ==> (block / sums / GB,
# %% wrong: one pass => values
# > this is one pass of the two.
# ~ (block / GB, ==> (block / 2 / GB,
# ~ (sums, "right" ==> (sums / 2, "right"
# %% wrong: the whole batch => values
# > this is for the whole batch; one replica has an N-th of its tokens.
# ~ (block / GB, ==> (replicas * block / GB,
# ~ (here / facts ==> (replicas * here / facts
# %% wrong: all blocks on one GPU => values all-blocks
# > this is for all blocks; a GPU has its stage's.
# ~ (here / facts ==> (here * stages / facts
# %% wrong: both ways of the link => values both-ways
# > 900 GB/s count both ways.
# ~ (here / facts ==> (here / 2 / facts
# %% wrong: one stage, one micro-batch => values one-gpu
# > that is one stage's, for one micro-batch; all blocks and a whole step are asked for.
# ~ sums * shape.layers * micro_batches ==> sums * shape.layers / stages
# %% wrong: numbers, not bytes => values no-bytes
# > these are numbers in billions; 16 bits are two bytes.
# ~ memory.gathered_layer_bytes(shape) / GB ==> memory.gathered_layer_bytes(shape) / 2 / GB
# %% wrong: KV heads as many as query heads => values heads-alike
# > keys and values have fewer heads than queries.
# ~ memory.gathered_layer_bytes(shape) / GB ==> 2 * (4 * shape.hidden**2 + 3 * shape.hidden * shape.ffn) / GB
# %% wrong: all layers => values
# > these are all layers.
# ~ memory.gathered_layer_bytes(shape) / GB ==> memory.gathered_layer_bytes(shape) * shape.layers / GB
# %% wrong: an MLP of two matrices => values two-matrices
# > a gated MLP has three matrices.
# ~ memory.gathered_layer_bytes(shape) / GB ==> (memory.gathered_layer_bytes(shape) - 2 * shape.hidden * shape.ffn) / GB
# %% wrong: KV heads => values
# > those are KV heads; query heads are asked for.
# ~ shape.heads / tp ==> shape.kv_heads / tp
# %% wrong: tensors once => values
# > a ring sends almost twice the tensor.
# ~ (2 * sums, ==> (sums,
# %% wrong: bytes of the activations => values bytes
# > elements are asked for, not bytes.
# ~ (2 * sums, ==> (4 * sums,
# %% wrong: per cent => values percent
# > give a fraction, not percent.
# ~ 15.1e15 / 512 / 39e12 ==> 100 * 15.1e15 / 512 / 39e12
'''
