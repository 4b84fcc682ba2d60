"""Key of chapter 15's audit: the truth about each statement, and the numbers that mistakes lead to."""

from course_lib import facts
from course_lib.exercises.ch15.cards.links_audit import CAUSES, ITEMS
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


def _key(number: float, cause: str, *mistakes: tuple[str, float, str]) -> Key:
    return Key(number, cause, mistakes=tuple(Mistake(*each) for each in mistakes))


KEYS: dict[str, Key] = {
    "nanogpt-104-mfu": _key(
        104 * A100 / H100,
        "another chip's peak",
        ("as-printed", 104.0, "more than 100 %? Whose peak was the divisor, and which device ran?"),
        ("sparse", 52 * A100 / H100, "divide by the dense peak: nothing in this model is sparse."),
        ("upside-down", 104 * H100 / A100, "the two peaks are exchanged."),
    ),
    "fms-24-mfu": _key(
        100 * _FMS / H100,
        "sparse peak",
        ("as-printed", 24.3, "the data sheet prints 1,979 TFLOP/s; for which matrices?"),
        ("a100", 100 * _FMS / A100, "this is relative to an A100."),
    ),
    "megatron-52-of-peak": _key(
        100 * _MEGATRON / AGAIN / A100,
        "recomputation counted",
        ("as-printed", 100 * _MEGATRON / A100, "this is what the hardware did; how much of it does the model need?"),
        ("a-third-off", 100 * _MEGATRON * 2 / 3 / A100, "a second forward pass is a quarter of the work: 2 of 8."),
    ),
    "llama3-41-mfu": _key(
        100 * _LLAMA_3 / H100,
        "as printed",
        ("sparse", 50 * _LLAMA_3 / H100, "this is relative to the sparse peak."),
        ("recomputed", 75 * _LLAMA_3 / H100, "nothing was recomputed here."),
    ),
    "palm-46-mfu": _key(
        _PALM / TPUS,
        "as printed",
        ("one-chip", 6144 * _PALM / TPUS, "the tokens are those of all chips."),
        ("recomputed", _PALM / TPUS * AGAIN, "recomputed work does not count in an MFU."),
    ),
    "llama-21-days": _key(
        _LLAMA / 2048 / DAY,
        "as printed",
        ("one-gpu", _LLAMA / DAY, "this is the time of one GPU."),
        ("hours", _LLAMA / 2048 / 3600, "these are hours."),
    ),
    "llama3-faulty-gpus": _key(
        100 * 148 / 419,
        "not what its own rows say",
        ("as-printed", 30.1, "divide the two counts that are printed next to it."),
        ("with-planned", 100 * 148 / 466, "this is the share of all interruptions; the sentence says unexpected ones."),
    ),
    "llama2-gpu-hours": _key(
        sum(_LLAMA_2) / 1e6,
        "counts what is not asked",
        ("as-printed", 3.311616, "add up the models that the sentence names."),
        ("without-70b", (sum(_LLAMA_2) - _LLAMA_2[2]) / 1e6, "the sentence names the largest model too."),
    ),
    "deepseek-dollars": _key(
        2.788 * 2, "as printed", ("pre-training", 2.664 * 2, "the given hours are those of all three stages.")
    ),
}

AUDITS = {
    "audit-runs": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"An MFU depends on its denominator: {104 * A100 / H100:.0f} %, not 104, of the peak of the device that ran; "
        f"{100 * _FMS / H100:.0f} %, not 24, of the dense peak. Its numerator has no second forward pass: 52 % of the "
        f"peak is an MFU of {100 * _MEGATRON / AGAIN / A100:.0f}. Check shares and sums against their own rows: 148 of "
        f"419 is {148 / 419:.1%}, and the three models took {sum(_LLAMA_2) / 1e6:.2f} million hours.",
        pytorch="torchtitan logs tokens/s, TFLOP/s and MFU side by side, so you can recompute each from the others.",
    )
}
