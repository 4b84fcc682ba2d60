"""Judge of audit-sharding: audit: what does sharding save, and what does it cost?"""

from course_chapters.ch08.exercises.audit_sharding import CAUSES, ITEMS
from course_chapters.ch08.exercises.judges.shared import hsdp
from course_grader.judging import Mistake
from course_grader.judging.audit import Key, audit, right, wrong
from course_lib.estimate import memory
from course_lib.estimate.units import GB
from course_lib.parallel.sharding import bytes_per_param_sent

LARGE, LAYERS, ACTIVATIONS = 405e9, 126, 20e9


def _zero(params: float, stage: int, ranks: int, letter: str = "B") -> float:
    return memory.zero_bytes(params, stage, ranks, letter) / GB


def _at(ranks: int, layers: int = 2, activations: float = ACTIVATIONS) -> float:
    """Bytes on a GPU with so many gathered layers."""
    return memory.zero_bytes(LARGE, 3, ranks, "B") + layers * memory.weights_bytes(LARGE / LAYERS) + activations


_HELD, _INSIDE, _ACROSS = hsdp(2, LARGE, 24_576, 8)
_SENT = bytes_per_param_sent(3) * 70
_FP32 = bytes_per_param_sent(3, reduce=4) / bytes_per_param_sent(0, reduce=4)
_HALF = bytes_per_param_sent(3) / bytes_per_param_sent(0)
_MOMENTS = memory.zero_by_bucket(LARGE, 1, 1024, "A")["moments"] / GB
_SCALES = _at(2048) / _at(1024)
_HALVES = "there are three operations, each half of an all-reduce."

KEYS: dict[str, Key] = {
    "zero-1-31-gb": right(
        _zero(7.5e9, 1, 64),
        Mistake("not-shared", 120.0, "this is the state without sharding. What does the stage divide by 64?"),
        Mistake("all-shared", 1.875, "in stage 1 weights and gradients stay whole."),
        Mistake("stage-2", _zero(7.5e9, 2, 64), "this is stage 2; gradients stay whole in stage 1."),
    ),
    "fsdp-70b-280": wrong(
        _SENT,
        "memory for traffic",
        Mistake("as-printed", 280.0, "this is one all-gather and one reduce-scatter. How often does FSDP gather?"),
        Mistake("three-all-reduces", 840.0, _HALVES),
        Mistake("model-once", 140.0, "this is the model once."),
    ),
    "zero-3-12-bytes": wrong(
        _zero(7.5e9, 3, 64),
        "master copy left out",
        Mistake("as-printed", _zero(7.5e9, 3, 64, "A"), "this leaves out the master copy that the brackets name."),
        Mistake("stage-2", _zero(7.5e9, 2, 64), "in stage 3 all buckets are sharded."),
    ),
    "zero-3-half-more": right(
        _HALF,
        Mistake("three", 3.0, _HALVES),
        Mistake("fp32", _FP32, "gradients have 16 bits here."),
        Mistake("upside-down", 1 / _HALF, "this is data parallelism over stage 3."),
    ),
    "zero-3-three-times": wrong(
        _FP32,
        "three operations, not three all-reduces",
        Mistake("as-printed", 3.0, "this counts operations. How many bytes per parameter does each of them send?"),
        Mistake("16-bits", _HALF, "this is with 16-bit gradients; the brackets say 32."),
        Mistake("one-side-only", 8 / 4, "the all-reduce of data parallelism has 32-bit gradients here, too."),
    ),
    "hsdp-405b-eight": wrong(
        _HELD / GB,
        "does not fit",
        Mistake("as-printed", 80.0, "this is the memory of the GPU. Divide the state by 8."),
        Mistake("not-shared", 16 * LARGE / GB, "the 8 GPUs of a group share the state."),
        Mistake("no-master", 12 * LARGE / 8 / GB, "the brackets say 16 bytes per parameter."),
        Mistake("over-all", 16 * LARGE / 24_576 / GB, "each group has a copy: divide by 8, not by all GPUs."),
    ),
    "zero-1-405b-shard": right(
        _MOMENTS,
        Mistake("with-master", 12 * LARGE / 1024 / GB, "this has a master copy; the brackets say there is none."),
        Mistake("one-moment", 4 * LARGE / 1024 / GB, "Adam has two moments, of 4 bytes each."),
        Mistake("everything", 810 * 2 + _MOMENTS, "give only the third number."),
    ),
    "hsdp-third-across": wrong(
        _INSIDE / _ACROSS,
        "a part, not the model",
        Mistake("as-printed", 3.0, "this sends the whole model across. What does one rank average with its copies?"),
        Mistake("no-ring", 3 / (2 / 8), "inside, each rank leaves out an eighth: (G − 1)/G is 7/8."),
        Mistake("no-all-reduce", 2 * _INSIDE / _ACROSS, "an all-reduce sends the part twice."),
        Mistake("upside-down", _ACROSS / _INSIDE, "this is across over inside."),
        Mistake("shares", 3 * 8.0, "this is three models over a part once; an all-reduce sends a part twice."),
    ),
    "zero-3-scales": wrong(
        _SCALES,
        "what stays",
        Mistake("as-printed", 0.5, "this is the state alone; add the rest of what each GPU holds."),
        Mistake("no-activations", _at(2048, activations=0) / _at(1024, activations=0), "activations do not shrink."),
        Mistake("one-layer", _at(2048, 1) / _at(1024, 1), "two layers are whole, on both sides."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""Stage 3 sends {bytes_per_param_sent(3):g} bytes per parameter where an all-reduce of 16-bit gradients sends
{bytes_per_param_sent(0):g}: half more, and as much where gradients are averaged in 32 bits; never three times. Its memory is
{_zero(7.5e9, 3, 64):.3g} GB with the master copy. In groups of 8, 405B takes {_HELD / GB:,.0f} GB on a GPU, which does not fit. Across groups,
an all-reduce sends an eighth of the model, {_INSIDE / _ACROSS:.3g} times less than inside. With gathered layers and activations, twice the GPUs save
{1 - _SCALES:.0%} of a GPU's memory, not half.""",
    pytorch="""`torch.distributed.tensor.debug.CommDebugMode` counts a step's collectives: two gathers and one reduce-scatter for each unit of
`fully_shard`.""",
)

ANSWERS = r'''# %% right: worked
def audit_sharding() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""

    ### BEGIN SOLUTION
    def gpu(ranks):  # 405B, stage 3, with two layers gathered and activations
        return 16 * 405 / ranks + 2 * 2 * 405 / 126 + 20

    return {
        "zero-1-31-gb": ((4 + 12 / 64) * 7.5, "right", "as printed"),
        "fsdp-70b-280": (3 * 140, "wrong", "memory for traffic"),
        "zero-3-12-bytes": (16 * 7.5 / 64, "wrong", "master copy left out"),
        "zero-3-half-more": (6 / 4, "right", "as printed"),
        "zero-3-three-times": ((2 + 2 + 4) / 8, "wrong", "three operations, not three all-reduces"),
        "hsdp-405b-eight": (16 * 405 / 8, "wrong", "does not fit"),
        "zero-1-405b-shard": (8 * 405 / 1024, "right", "as printed"),
        "hsdp-third-across": (3 * 7 / 8 * 810 / (2 * 810 / 8), "wrong", "a part, not the model"),
        "zero-3-scales": (gpu(2048) / gpu(1024), "wrong", "what stays"),
    }
    ### END SOLUTION

# %% right: lists, words in capitals
# ~ def audit_sharding() -> dict[str, tuple[float, str, str]]: ==> def recomputed():
#       ### END SOLUTION
# + def audit_sharding():
# +     return {name: [number, said.upper(), cause.title()] for name, (number, said, cause) in recomputed().items()}
# %% wrong: all right as printed, with the printed numbers => values as-printed
# ~ def audit_sharding() -> dict[str, tuple[float, str, str]]: ==> def recomputed():
#       ### END SOLUTION
# + def audit_sharding():
# +     numbers = 31.4, 280, 12 * 7.5 / 64, 1.5, 3, 80, 3.16, 3, 0.5
# +     return {name: (number, "right", "as printed") for name, number in zip(recomputed(), numbers)}
# %% wrong: gathered once => values as-printed
# ~ (3 * 140, ==> (2 * 140,
# ~ (6 / 4, ==> (4 / 4,
# %% wrong: 16-bit gradients in both => values 16-bits
# ~ ((2 + 2 + 4) / 8, ==> (6 / 4,
# %% wrong: the state over all GPUs => values over-all
# ~ (16 * 405 / 8, ==> (16 * 405 / 24576,
# %% wrong: a master copy that is not there => values with-master
# ~ (8 * 405 / 1024, "right", "as printed") ==> (12 * 405 / 1024, "wrong", "master copy left out")
# %% wrong: across goes one half of an all-reduce => values no-all-reduce
# ~ / (2 * 810 / 8), ==> / (810 / 8),
# %% wrong: in bytes => values other-unit
# ~ (16 * 405 / 8, ==> (16e9 * 405 / 8,
# %% wrong: no rings, no activations => values no-ring
# ~ + 2 * 2 * 405 / 126 + 20 ==> + 2 * 2 * 405 / 126
# ~ (3 * 7 / 8 * 810 / (2 * 810 / 8), ==> (3 * 810 / (2 * 810 / 8),
# %% half: one is missing => 8
# -         "zero-3-scales": (gpu(2048) / gpu(1024), "wrong", "what stays"),
'''
