import math

from course_chapters.ch13.exercises.audit_meshes import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import facts
from course_lib.estimate.units import BILLION

_GPUS, _TP, _PP, _CP = 16_384, 8, 16, 16
_REPLICAS = _GPUS // (_TP * _PP)
_GROUP = 2 ** math.ceil(math.log2(16 * 405 * BILLION / facts.device("H100 SXM").memory))

JUDGING = audit(
    ITEMS,
    Worked("audit-meshes"),
    CAUSES,
    why=f"""The degrees of a mesh multiply to its GPUs, and an axis counts only if it has ranks of its own: context
parallelism has, sequence parallelism uses those of tp. So {_GPUS:,} GPUs with TP {_TP} and PP {_PP} hold {_REPLICAS}
replicas, or {_REPLICAS // _CP} with CP {_CP}: with {_REPLICAS // _CP}, the tokens of the batch come out right as well.
State is cut by every axis that shards it: 405B need groups of {_GROUP} GPUs, not of one server.""",
    pytorch="`init_device_mesh` refuses a shape whose product is not the world size; torchtitan checks the same in "
    "`ParallelDims`.",
)

ANSWERS = r'''# %% right: worked
def audit_meshes():
    """{id: (your number, "right" or "wrong", cause)} for every statement."""
    printed = "right", "as printed"
    return {
        "mesh-product-sp": (16_384 / (8 * 16), "wrong", "not an axis"),
        "explorer-7b-dp": (12 * 7, *printed),
        "eighteen-fold-tp": (450 / 50, "wrong", "both directions"),
        "llama3-dp-192": (16_384 / (8 * 16), "wrong", "another cluster"),
        "llama3-stage-layers": (126 / 16, *printed),
        "llama3-dp-4": (16_384 / (8 * 16 * 16), "wrong", "no such product"),
        "explorer-405b-128": (12 * 405 / 128, *printed),
        "hsdp-groups-of-eight": (2 ** math.ceil(math.log2(16 * 405 / 80)), "wrong", "does not fit"),
    }
# %% right: other spellings
# ~ (16_384 / (8 * 16 * 16), "wrong", "no such product") ==> [16_384 / 8 / 16 / 16, "wrong", "no such product"]
# ~ "wrong", "does not fit" ==> "Wrong", "Does not fit"
# %% right: two layers fewer, within five per cent
# ~ 126 / 16 ==> 124 / 16
# %% wrong: sequence parallelism is an axis => values as-printed
# > do the ranks of sequence parallelism differ from those of tp?
# ~ (16_384 / (8 * 16), "wrong", "not an axis") ==> (16_384 / (8 * 16 * 8), "wrong", "not an axis")
# %% wrong: sixteen bytes => values sixteen
# > this is with 16 bytes; the statement counts 12.
# ~ 12 * 7 ==> 16 * 7
# ~ 12 * 405 / 128 ==> 16 * 405 / 128
# %% wrong: shared => values
# > pure data parallelism shards nothing.
# ~ 12 * 7 ==> 12 * 7 / 8
# %% wrong: both directions of the link => values as-printed
# > which of the two rates adds both directions?
# ~ 450 / 50 ==> 900 / 50
# %% wrong: half twice => values
# > 50 GB/s is one direction already.
# ~ 450 / 50 ==> 450 / 50 / 2
# %% wrong: the larger cluster => values as-printed
# > how many GPUs does the case in brackets have?
# ~ (16_384 / (8 * 16), "wrong", "another cluster") ==> (24_576 / (8 * 16), "wrong", "another cluster")
# %% wrong: four replicas => values as-printed
# > multiply the four degrees.
# ~ 16_384 / (8 * 16 * 16) ==> 4
# %% wrong: cp is forgotten => values no-cp
# > cp is a factor as well.
# ~ 16_384 / (8 * 16 * 16) ==> 16_384 / (8 * 16)
# %% wrong: FSDP is forgotten => values no-fsdp
# > FSDP shards it over the four replicas as well.
# ~ 12 * 405 / 128 ==> 12 * 405 / 32
# %% wrong: one server => values as-printed
# > how many GB does each of eight GPUs hold?
# ~ 2 ** math.ceil(math.log2(16 * 405 / 80)) ==> 8
# %% wrong: without a power of two => values no-power
# > the next power of two is asked for.
# ~ 2 ** math.ceil(math.log2(16 * 405 / 80)) ==> 16 * 405 / 80
# %% wrong: twelve bytes => values twelve
# > this holds 12 bytes per parameter; the statement counts 16.
# ~ math.log2(16 * 405 / 80) ==> math.log2(12 * 405 / 80)
# %% half: one statement is missing => 7
# ~ "llama3-stage-layers": ==> "llama3":
'''
