"""Key of chapter 15's audit: the truth about each statement, and what slips come to."""

from course_lib import facts
from course_lib.exercises.ch15.cards.links_audit import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
from course_lib.units import DAY, TFLOP

A100, H100 = (float(facts.device(name).dense_flops) for name in ("A100 SXM 80GB", "H100 SXM"))
AGAIN = 4 / 3  # work with one more forward pass, over work without
TPU = 275 * TFLOP
_FMS = 9600 * 0.05 * TFLOP
_MEGATRON = 163 * TFLOP
_PALM = 238_300 * 6 * 540.35e9
_LLAMA = 1.4e12 / 380
_LLAMA2 = (184_320, 368_640, 1_720_320)

KEYS: dict[str, Key] = {
    "nanogpt-104-mfu": Key(
        104 * A100 / H100,
        "another chip's peak",
        mistakes=(
            Mistake(
                "as-printed", 104.0, "more than everything? Which device's peak stood below the line, and which ran?"
            ),
            Mistake("sparse", 52 * A100 / H100, "the dense peak counts: nothing in this model is sparse."),
            Mistake("upside-down", 104 * H100 / A100, "the peaks are the wrong way round."),
        ),
    ),
    "fms-24-mfu": Key(
        100 * _FMS / H100,
        "sparse peak",
        mistakes=(
            Mistake("as-printed", 24.3, "1,979 TFLOP/s are printed on the data sheet; for which matrices?"),
            Mistake("a100", 100 * _FMS / A100, "that is against an A100."),
        ),
    ),
    "megatron-52-of-peak": Key(
        100 * _MEGATRON / AGAIN / A100,
        "recomputation counted",
        mistakes=(
            Mistake(
                "as-printed",
                100 * _MEGATRON / A100,
                "that is the share of the peak that the hardware worked; how much of it does the model need?",
            ),
            Mistake(
                "a-third-off",
                100 * _MEGATRON * 2 / 3 / A100,
                "a second forward pass is a quarter of what was done: 2 of 8.",
            ),
        ),
    ),
    "llama3-41-mfu": Key(
        100 * 400 * TFLOP / H100,
        mistakes=(
            Mistake("sparse", 50 * 400 * TFLOP / H100, "that is against the sparse peak."),
            Mistake("recomputed", 75 * 400 * TFLOP / H100, "nothing was computed again here."),
        ),
    ),
    "palm-46-mfu": Key(
        100 * _PALM / (6144 * TPU),
        mistakes=(
            Mistake("one-chip", 100 * _PALM / TPU, "the tokens are those of all chips."),
            Mistake("recomputed", 100 * _PALM / (6144 * TPU) * AGAIN, "what is computed again is not in an MFU."),
        ),
    ),
    "llama-21-days": Key(
        _LLAMA / 2048 / DAY,
        mistakes=(
            Mistake("one-gpu", _LLAMA / DAY, "that is one GPU's time."),
            Mistake("hours", _LLAMA / 2048 / 3600, "these are hours."),
        ),
    ),
    "llama3-faulty-gpus": Key(
        100 * 148 / 419,
        "not what its own rows say",
        mistakes=(
            Mistake("as-printed", 30.1, "divide the two counts that stand beside it."),
            Mistake(
                "with-planned",
                100 * 148 / 466,
                "that is the share of all interruptions; the sentence says unexpected ones.",
            ),
        ),
    ),
    "llama2-gpu-hours": Key(
        sum(_LLAMA2) / 1e6,
        "counts what is not asked",
        mistakes=(
            Mistake("as-printed", 3.311616, "add up the models that the sentence names."),
            Mistake("without-70b", (sum(_LLAMA2) - _LLAMA2[2]) / 1e6, "the largest one is named, too."),
        ),
    ),
    "deepseek-dollars": Key(
        2.788 * 2, mistakes=(Mistake("pre-training", 2.664 * 2, "the hours given are those of all three stages."),)
    ),
}

AUDITS = {
    "audit-runs": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"An MFU stands or falls with its denominator: {104 * A100 / H100:.0f} %, not 104, against the peak of the device that ran; {100 * _FMS / H100:.0f} %, not 24, against "
        f"the dense one. Its numerator has no second forward pass: 52 % of the peak is an MFU of {100 * _MEGATRON / AGAIN / A100:.0f}. Shares and sums are checked "
        f"against their own rows: 148 of 419 is {148 / 419:.1%}, and the three models took {sum(_LLAMA2) / 1e6:.2f} million hours; a fourth was in the sum.",
        pytorch="torchtitan logs tokens/s, TFLOP/s and MFU side by side, so that each can be recomputed from the others.",
    )
}
