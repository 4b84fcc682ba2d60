"""Key of chapter 15's audit: the truth about each statement, and the numbers that mistakes lead to."""

from course_lib import facts
from course_lib.exercises.audits import AS_PRINTED
from course_lib.exercises.ch15.cards.audits import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
from course_lib.units import DAY, TFLOP

A100, H100 = (float(facts.device(name).dense_flops) for name in ("A100 SXM 80GB", "H100 SXM"))
AGAIN = 4 / 3  # work with one more forward pass, over work without
TPUS = 6144 * 275 * TFLOP
_FMS, _MEGATRON, _LLAMA_3 = 9600 * 0.05 * TFLOP, 163 * TFLOP, 400 * TFLOP
_PALM = 100 * 238_300 * 6 * 540.35e9
_LLAMA = 1.4e12 / 380
_LLAMA_2 = (184_320, 368_640, 1_720_320)

TRUTHS = {
    "nanogpt-104-mfu": (104 * A100 / H100, "another chip's peak"),
    "fms-24-mfu": (100 * _FMS / H100, "sparse peak"),
    "megatron-52-of-peak": (100 * _MEGATRON / AGAIN / A100, "recomputation counted"),
    "llama3-41-mfu": (100 * _LLAMA_3 / H100, AS_PRINTED),
    "palm-46-mfu": (_PALM / TPUS, AS_PRINTED),
    "llama-21-days": (_LLAMA / 2048 / DAY, AS_PRINTED),
    "llama3-faulty-gpus": (100 * 148 / 419, "not what its own rows say"),
    "llama2-gpu-hours": (sum(_LLAMA_2) / 1e6, "counts what is not asked"),
    "deepseek-dollars": (2.788 * 2, AS_PRINTED),
}
MISTAKES = (
    ("nanogpt-104-mfu", "as-printed", 104.0, "more than 100 %? Whose peak was the divisor, and which device ran?"),
    ("nanogpt-104-mfu", "sparse", 52 * A100 / H100, "divide by the dense peak: nothing in this model is sparse."),
    ("nanogpt-104-mfu", "upside-down", 104 * H100 / A100, "the two peaks are exchanged."),
    ("fms-24-mfu", "as-printed", 24.3, "the data sheet prints 1,979 TFLOP/s; for which matrices?"),
    ("fms-24-mfu", "a100", 100 * _FMS / A100, "this is relative to an A100."),
    ("megatron-52-of-peak", "as-printed", 100 * _MEGATRON / A100, "this is what the hardware did, not the model."),
    ("megatron-52-of-peak", "a-third-off", 100 * _MEGATRON * 2 / 3 / A100, "the second forward pass is a quarter."),
    ("llama3-41-mfu", "sparse", 50 * _LLAMA_3 / H100, "this is relative to the sparse peak."),
    ("llama3-41-mfu", "recomputed", 75 * _LLAMA_3 / H100, "nothing was recomputed here."),
    ("palm-46-mfu", "one-chip", 6144 * _PALM / TPUS, "the tokens are those of all chips."),
    ("palm-46-mfu", "recomputed", _PALM / TPUS * AGAIN, "recomputed work does not count in an MFU."),
    ("llama-21-days", "one-gpu", _LLAMA / DAY, "this is the time of one GPU."),
    ("llama-21-days", "hours", _LLAMA / 2048 / 3600, "these are hours."),
    ("llama3-faulty-gpus", "as-printed", 30.1, "divide the two counts that are printed next to it."),
    ("llama3-faulty-gpus", "with-planned", 100 * 148 / 466, "the sentence says unexpected interruptions, not all."),
    ("llama2-gpu-hours", "as-printed", 3.311616, "add up the models that the sentence names."),
    ("llama2-gpu-hours", "without-70b", sum(_LLAMA_2[:2]) / 1e6, "the sentence names the largest model too."),
    ("deepseek-dollars", "pre-training", 2.664 * 2, "the given hours are those of all three stages."),
)
KEYS = {one: Key(*truth, [Mistake(*each) for of, *each in MISTAKES if of == one]) for one, truth in TRUTHS.items()}

AUDITS = {
    "audit-runs": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"""An MFU depends on its denominator: {104 * A100 / H100:.0f} %, not 104, of the peak of the device that ran; {100 * _FMS / H100:.0f} %, not 24, of the
dense peak. Its numerator has no second forward pass: 52 % of the peak is an MFU of {100 * _MEGATRON / AGAIN / A100:.0f}. Check shares and sums against their
own rows: 148 of 419 is {148 / 419:.1%}, and the three models took {sum(_LLAMA_2) / 1e6:.2f} million hours.""",
        pytorch="torchtitan logs tokens/s, TFLOP/s and MFU side by side, so you can recompute each from the others.",
    )
}
