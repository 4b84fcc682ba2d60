"""Key of chapter 08's audit: the truth about each statement, and what slips come to."""

from course_lib import memory
from course_lib.exercises.ch08.cards.audits import CAUSES, ITEMS
from course_lib.exercises.ch08.judges.hsdp import hsdp
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
from course_lib.sharding import bytes_per_param_sent
from course_lib.units import GB

LARGE, LAYERS, KEPT = 405e9, 126, 20e9


def _zero(params: float, stage: int, ranks: int, letter: str = "B") -> float:
    return memory.zero_bytes(params, stage, ranks, letter) / GB


def _at(ranks: int) -> float:
    return memory.zero_bytes(LARGE, 3, ranks, "B") + 2 * memory.weights_bytes(LARGE / LAYERS) + KEPT


_HELD, _INSIDE, _ACROSS = hsdp(2, LARGE, 24_576, 8)
_SENT = bytes_per_param_sent(3) * 70
_FP32 = bytes_per_param_sent(3, reduce=4) / bytes_per_param_sent(0, reduce=4)
_HALF = bytes_per_param_sent(3) / bytes_per_param_sent(0)
_MOMENTS = memory.zero_by_bucket(LARGE, 1, 1024, "A")["moments"] / GB

KEYS: dict[str, Key] = {
    "zero-1-31-gb": Key(
        _zero(7.5e9, 1, 64),
        mistakes=(
            Mistake("not-shared", 120.0, "this is the state without sharding; what is partitioned over 64?"),
            Mistake("all-shared", 1.875, "in stage 1 weights and gradients stay whole."),
            Mistake("stage-2", _zero(7.5e9, 2, 64), "this is stage 2; gradients stay whole in stage 1."),
        ),
    ),
    "fsdp-70b-280": Key(
        _SENT,
        "memory for traffic",
        mistakes=(
            Mistake(
                "as-printed",
                280.0,
                "this is the all-reduce, or one all-gather and one reduce-scatter. How often does FSDP gather?",
            ),
            Mistake("three-all-reduces", 840.0, "three operations, but each is half of an all-reduce."),
            Mistake("model-once", 140.0, "this is the model once."),
        ),
    ),
    "zero-3-12-bytes": Key(
        _zero(7.5e9, 3, 64),
        "master copy left out",
        mistakes=(
            Mistake("as-printed", _zero(7.5e9, 3, 64, "A"), "that is without the master copy that the brackets name."),
            Mistake("stage-2", _zero(7.5e9, 2, 64), "in stage 3 everything is shared out."),
        ),
    ),
    "zero-3-half-more": Key(
        _HALF,
        mistakes=(
            Mistake("three", 3.0, "three operations, each half of an all-reduce."),
            Mistake("fp32", _FP32, "gradients have 16 bits here."),
            Mistake("upside-down", 1 / _HALF, "this is data parallelism over stage 3."),
        ),
    ),
    "zero-3-three-times": Key(
        _FP32,
        "three operations, not three all-reduces",
        mistakes=(
            Mistake(
                "as-printed",
                3.0,
                "that counts operations. How many bytes per parameter does each send, and how many the all-reduce in 32 bits?",
            ),
            Mistake("16-bits", _HALF, "that is with 16-bit gradients; the brackets say 32."),
            Mistake("one-side-only", 8 / 4, "the all-reduce of data parallelism has 32-bit gradients here, too."),
        ),
    ),
    "hsdp-405b-eight": Key(
        _HELD / GB,
        "does not fit",
        mistakes=(
            Mistake("as-printed", 80.0, "that is the memory of the GPU. Share the state out over 8."),
            Mistake("not-shared", 16 * LARGE / GB, "the state is shared out over the 8 GPUs of a group."),
            Mistake("no-master", 12 * LARGE / 8 / GB, "the brackets say 16 bytes per parameter."),
            Mistake(
                "over-all",
                16 * LARGE / 24_576 / GB,
                "each group has a copy: the state is shared out over 8, not over all.",
            ),
        ),
    ),
    "zero-1-405b-shard": Key(
        _MOMENTS,
        mistakes=(
            Mistake(
                "with-master", 12 * LARGE / 1024 / GB, "that is with a master copy; the brackets say there is none."
            ),
            Mistake("one-moment", 4 * LARGE / 1024 / GB, "Adam has two moments, of 4 bytes each."),
            Mistake("everything", 810 * 2 + _MOMENTS, "only the third number is asked for."),
        ),
    ),
    "hsdp-third-across": Key(
        _INSIDE / _ACROSS,
        "a part, not the model",
        mistakes=(
            Mistake(
                "as-printed", 3.0, "that takes the whole model across. What does one rank average with its copies?"
            ),
            Mistake(
                "no-ring",
                3 / (2 / 8),
                "groups have 8 ranks, so inside each rank leaves out an eighth: (K − 1)/K is 7/8.",
            ),
            Mistake("no-all-reduce", 2 * _INSIDE / _ACROSS, "across goes an all-reduce: twice the part."),
            Mistake("upside-down", _ACROSS / _INSIDE, "this is across over inside."),
            Mistake(
                "shares",
                3 * 8.0,
                "that is three models over a part once; take the ring factors, and the all-reduce's two halves.",
            ),
        ),
    ),
    "zero-3-scales": Key(
        _at(2048) / _at(1024),
        "what stays",
        mistakes=(
            Mistake("as-printed", 0.5, "that is the state alone; add what each GPU holds beside it."),
            Mistake(
                "no-activations",
                (_at(2048) - KEPT) / (_at(1024) - KEPT),
                "the brackets name activations, too; they do not fall.",
            ),
            Mistake(
                "one-layer",
                (_at(2048) - 2 * LARGE / LAYERS) / (_at(1024) - 4 * LARGE / LAYERS),
                "two layers lie whole, on both sides.",
            ),
        ),
    ),
}

AUDITS = {
    "audit-sharding": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"Stage 3 sends {bytes_per_param_sent(3):g} bytes per parameter where an all-reduce of 16-bit gradients sends {bytes_per_param_sent(0):g}: half more, and as "
        f"much where gradients are averaged in 32 bits; three times it never is. Its memory is {_zero(7.5e9, 3, 64):.3g} GB with the master copy. In groups of 8, "
        f"405B take {_HELD / GB:,.0f} GB on a GPU: nobody trained it so. Across groups goes an all-reduce of an eighth, {_INSIDE / _ACROSS:.3g} times less than inside. "
        f"And where layers are gathered and activations stay, doubling the GPUs saves {1 - _at(2048) / _at(1024):.0%} of a GPU's memory, not half.",
        pytorch="`torch.distributed.tensor.debug.CommDebugMode` counts a step's collectives: two gathers and one reduce-scatter for each unit of `fully_shard`.",
    )
}
