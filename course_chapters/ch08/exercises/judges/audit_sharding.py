from course_chapters.ch08.exercises.audit_sharding import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import memory
from course_lib.estimate.units import GB
from course_lib.parallel.sharding import bytes_per_param_sent, hybrid_bytes

_TIMES = bytes_per_param_sent(3) * 7 / 8 * 405e9 / hybrid_bytes(405 * 10**9, 8, 24_576 // 8)
_FEW, _MANY = (memory.zero_bytes(405e9, 3, n) + 4 * 405e9 / 126 + 20 * GB for n in (1024, 2048))  # bytes on a GPU

JUDGING = audit(
    ITEMS,
    Worked("audit-sharding"),
    CAUSES,
    why=f"""Stage 3 sends {bytes_per_param_sent(3):g} bytes per parameter where an all-reduce of 16-bit gradients sends
{bytes_per_param_sent(0):g}: half more, and as much where gradients are averaged in 32 bits; never three times. Its
memory is {memory.zero_bytes(7.5e9, 3, 64) / GB:.3g} GB with the master copy. In groups of 8, 405B takes
{memory.zero_bytes(405e9, 3, 8) / GB:,.0f} GB on a GPU, which does not fit. Across groups, an all-reduce sends an eighth
of the model, {_TIMES:.3g} times less than inside. With gathered layers and activations, twice the GPUs save
{1 - _MANY / _FEW:.0%} of a GPU's memory, not half.""",
    pytorch="""`torch.distributed.tensor.debug.CommDebugMode` counts a step's collectives: two gathers and one
reduce-scatter for each unit of `fully_shard`.""",
)

ANSWERS = r'''# %% right: worked
def audit_sharding() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""

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
# %% right: lists, words in capitals
# - def audit_sharding() -> dict[str, tuple[float, str, str]]:
# + def recomputed():
#       }
# + def audit_sharding():
# +     return {name: [number, said.upper(), cause.title()] for name, (number, said, cause) in recomputed().items()}
# %% wrong: the printed numbers => values as-printed
# > this is the printed number. Recompute it for the case in brackets.
# ~ (3 * 140, ==> (280,
# ~ (16 * 7.5 / 64, ==> (12 * 7.5 / 64,
# ~ ((2 + 2 + 4) / 8, ==> (3,
# ~ (16 * 405 / 8, ==> (80,
# ~ (3 * 7 / 8 * 810 / (2 * 810 / 8), ==> (3,
# ~ (gpu(2048) / gpu(1024), ==> (0.5,
# %% wrong: all right as printed => values blind  from: the printed numbers
# - def audit_sharding() -> dict[str, tuple[float, str, str]]:
# + def recomputed():
#       }
# + def audit_sharding():
# +     return {name: (number, "right", "as printed") for name, (number, *_) in recomputed().items()}
# %% wrong: gathers counted as all-reduces => values three-all-reduces
# > there are three operations, each half of an all-reduce.
# ~ (3 * 140, ==> (6 * 140,
# ~ (6 / 4, ==> (6 / 2,
# %% wrong: the model once => values
# > this is the model once.
# ~ (3 * 140, ==> (140,
# %% wrong: the whole state => values
# > this is the state without sharding. What does the stage divide?
# ~ ((4 + 12 / 64) * 7.5, ==> (16 * 7.5,
# ~ (16 * 405 / 8, ==> (16 * 405,
# %% wrong: stage 3 for stage 1 => values all-shared
# > in stage 1 weights and gradients stay whole.
# ~ ((4 + 12 / 64) * 7.5, ==> (16 / 64 * 7.5,
# %% wrong: stage 2 => values
# > this is stage 2.
# ~ ((4 + 12 / 64) * 7.5, ==> ((2 + 14 / 64) * 7.5,
# ~ (16 * 7.5 / 64, ==> ((2 + 14 / 64) * 7.5,
# %% wrong: the other width of gradients => values other-width
# > gradients have the other width; see the brackets.
# ~ (6 / 4, ==> (8 / 8,
# ~ ((2 + 2 + 4) / 8, ==> (6 / 4,
# %% wrong: 32 bits on one side only => values one-side-only
# > the all-reduce of data parallelism has 32-bit gradients here, too.
# ~ ((2 + 2 + 4) / 8, ==> ((2 + 2 + 4) / 4,
# %% wrong: upside down => values
# > this is its reciprocal.
# ~ (6 / 4, ==> (4 / 6,
# ~ (3 * 7 / 8 * 810 / (2 * 810 / 8), ==> (2 * 810 / 8 / (3 * 7 / 8 * 810),
# %% wrong: the state over all GPUs => values over-all
# > each group has a copy: divide by 8, not by all GPUs.
# ~ (16 * 405 / 8, ==> (16 * 405 / 24576,
# %% wrong: no master copy => values no-master
# > the brackets say 16 bytes per parameter.
# ~ (16 * 405 / 8, ==> (12 * 405 / 8,
# %% wrong: a master copy that is not there => values with-master
# > this has a master copy; the brackets say there is none.
# ~ (8 * 405 / 1024, "right", "as printed") ==> (12 * 405 / 1024, "wrong", "master copy left out")
# %% wrong: one moment => values
# > Adam has two moments, of 4 bytes each.
# ~ (8 * 405 / 1024, ==> (4 * 405 / 1024,
# %% wrong: everything on the GPU => values everything
# > give only the third number.
# ~ (8 * 405 / 1024, ==> (4 * 405 + 8 * 405 / 1024,
# %% wrong: across goes one half of an all-reduce => values no-all-reduce
# > an all-reduce sends the part twice.
# ~ / (2 * 810 / 8), ==> / (810 / 8),
# %% wrong: three models over a part => values shares
# > this is three models over a part once; an all-reduce sends a part twice.
# ~ (3 * 7 / 8 * 810 / (2 * 810 / 8), ==> (3 * 8,
# %% wrong: no ring => values
# > inside, each rank leaves out an eighth: (G − 1)/G is 7/8.
# ~ (3 * 7 / 8 * 810 / (2 * 810 / 8), ==> (3 * 810 / (2 * 810 / 8),
# %% wrong: no activations => values
# > activations do not shrink; they are missing.
# ~ + 2 * 2 * 405 / 126 + 20 ==> + 2 * 2 * 405 / 126
# %% wrong: in bytes => values other-unit
# ~ (16 * 405 / 8, ==> (16e9 * 405 / 8,
# %% half: one is missing => 8
# -         "zero-3-scales": (gpu(2048) / gpu(1024), "wrong", "what stays"),
'''
