"""Judge of audit-meshes: audit: do the degrees multiply?"""

import math

from course_chapters.ch13.exercises.audit_meshes import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong
from course_lib.estimate import facts
from course_lib.estimate.units import BILLION, GB

_H100, _LLAMA = facts.device("H100 SXM"), facts.model("llama3-405b")
_GPUS, _TP, _PP, _CP, _NOMINAL = 16_384, 8, 16, 16, 405 * BILLION
_FACTOR = float(_H100.link_one_way / _H100.network_one_way)
_GROUP = 2.0 ** math.ceil(math.log2(16 * _NOMINAL / _H100.memory))

KEYS = {
    "mesh-product-sp": wrong(
        _GPUS / (_TP * _PP),
        "not an axis",
        Mistake("as-printed", _GPUS / (_TP * _PP * 8), "do the ranks of sequence parallelism differ from those of tp?"),
    ),
    "explorer-7b-dp": right(
        12 * 7,
        Mistake("sixteen", 16 * 7, "this is with 16 bytes; the statement counts 12."),
        Mistake("shared", 12 * 7 / 8, "pure data parallelism shares nothing out."),
    ),
    "eighteen-fold-tp": wrong(
        _FACTOR,
        "both directions",
        Mistake("as-printed", 18.0, "which of the two rates adds both directions?"),
        Mistake("half-twice", _FACTOR / 2, "50 GB/s is one direction already."),
    ),
    "llama3-dp-192": wrong(
        _GPUS / (_TP * _PP),
        "another cluster",
        Mistake("as-printed", 192.0, "how many GPUs does the case in brackets have?"),
    ),
    "llama3-stage-layers": right(_LLAMA.layers / _PP, Mistake("two-removed", 124 / _PP, "this model has 126 layers.")),
    "llama3-dp-4": wrong(
        _GPUS / (_TP * _PP * _CP),
        "no such product",
        Mistake("as-printed", 4.0, "multiply the four degrees."),
        Mistake("no-cp", _GPUS / (_TP * _PP), "cp is a factor as well."),
    ),
    "explorer-405b-128": right(
        12 * _NOMINAL / 128 / GB,
        Mistake("no-fsdp", 12 * _NOMINAL / 32 / GB, "FSDP shares it out over the four replicas as well."),
        Mistake("sixteen", 16 * _NOMINAL / 128 / GB, "this is with 16 bytes; the statement counts 12."),
    ),
    "hsdp-groups-of-eight": wrong(
        _GROUP,
        "does not fit",
        Mistake("as-printed", 8.0, "how many GB does each of eight GPUs hold?"),
        Mistake("no-power", math.ceil(16 * _NOMINAL / _H100.memory), "the next power of two is asked for."),
        Mistake("twelve", _GROUP / 2, "this holds 12 bytes per parameter; the statement counts 16."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""The degrees of a mesh multiply to its GPUs, and an axis counts only if it has ranks of its own: context parallelism has, sequence parallelism
uses those of tp. So {_GPUS:,} GPUs with TP {_TP} and PP {_PP} hold {KEYS["llama3-dp-192"].number:.0f} replicas, or {KEYS["llama3-dp-4"].number:.0f} with CP {_CP}: with
{KEYS["llama3-dp-4"].number:.0f}, the tokens of the batch come out right as well. State is cut by every axis that shards it: 405B need groups of
{_GROUP:.0f} GPUs, not of one server.""",
    pytorch="`init_device_mesh` refuses a shape whose product is not the world size; torchtitan checks the same in `ParallelDims`.",
)

ANSWERS = r'''import math


# %% right: worked
def audit_meshes():
    """{id: (your number, "right" or "wrong", cause)} for every statement."""
    ### BEGIN SOLUTION
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
    ### END SOLUTION

# %% right: other spellings
# ~ (16_384 / (8 * 16 * 16), "wrong", "no such product") ==> [16_384 / 8 / 16 / 16, "wrong", "no such product"]
# ~ "wrong", "does not fit" ==> "Wrong", "Does not fit"
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
# +     return {name: (number, "wrong", "does not fit") for name, (number, _, _) in found.items()}
# %% wrong: the printed numbers => values as-printed
# ~ (16_384 / (8 * 16), "wrong", "not an axis") ==> (16, *printed)
# ~ (450 / 50, "wrong", "both directions") ==> (18, *printed)
# ~ (16_384 / (8 * 16), "wrong", "another cluster") ==> (192, *printed)
# ~ (16_384 / (8 * 16 * 16), "wrong", "no such product") ==> (4, *printed)
# ~ (2 ** math.ceil(math.log2(16 * 405 / 80)), "wrong", "does not fit") ==> (8, *printed)
# %% wrong: cp is forgotten => values no-cp
# ~ 16_384 / (8 * 16 * 16) ==> 16_384 / (8 * 16)
# %% wrong: FSDP is forgotten => values no-fsdp
# ~ 12 * 405 / 128 ==> 12 * 405 / 32
# %% wrong: without a power of two => values no-power
# ~ 2 ** math.ceil(math.log2(16 * 405 / 80)) ==> 16 * 405 / 80
# %% wrong: another cause => values wrong-cause
# ~ "another cluster" ==> "not an axis"
# %% half: one statement is missing => 7
# ~ "explorer-7b-dp": ==> "explorer":
'''
