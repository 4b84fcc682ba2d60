"""Judge of audit-runs: audit: would these numbers pass your gates?"""

from course_chapters.ch15.exercises.audit_runs import CAUSES, ITEMS
from course_grader.exercises.audits import AS_PRINTED
from course_grader.judging import Mistake
from course_grader.judging.audit import Key, audit
from course_lib.estimate import facts
from course_lib.estimate.units import DAY, TFLOP

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


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""An MFU depends on its denominator: {104 * A100 / H100:.0f} %, not 104, of the peak of the device that ran; {100 * _FMS / H100:.0f} %, not 24, of the
dense peak. Its numerator has no second forward pass: 52 % of the peak is an MFU of {100 * _MEGATRON / AGAIN / A100:.0f}. Check shares and sums against their
own rows: 148 of 419 is {148 / 419:.1%}, and the three models took {sum(_LLAMA_2) / 1e6:.2f} million hours.""",
    pytorch="torchtitan logs tokens/s, TFLOP/s and MFU side by side, so you can recompute each from the others.",
)

ANSWERS = r"""from course_lib.estimate import facts

OK = ("right", "as printed")
GOOD = {
    "nanogpt-104-mfu": (104 * 312 / 989.5, "wrong", "another chip's peak"),
    "fms-24-mfu": (9600 * 0.05 / 989.5 * 100, "wrong", "sparse peak"),
    "megatron-52-of-peak": (163 * 3 / 4 / 312 * 100, "wrong", "recomputation counted"),
    "llama3-41-mfu": (400 / 989.5 * 100, *OK),
    "palm-46-mfu": (238_300 * 6 * 540.35e9 / (6144 * 275e12) * 100, *OK),
    "llama-21-days": (1.4e12 / (380 * 2048) / 86_400, *OK),
    "llama3-faulty-gpus": (148 / 419 * 100, "wrong", "not what its own rows say"),
    "llama2-gpu-hours": ((184_320 + 368_640 + 1_720_320) / 1e6, "wrong", "counts what is not asked"),
    "deepseek-dollars": (2.788 * 2, *OK),
}


# %% right: by hand
def audit_runs():
    return GOOD


# %% right: three digits, lists, and words with capitals
def audit_runs():
    return {name: [float(f"{number:.3g}"), *map(str.capitalize, words)] for name, (number, *words) in GOOD.items()}


# %% wrong: all right as printed, with the printed numbers => values as-printed
def audit_runs():
    scale = {"llama-21-days": 1, "llama2-gpu-hours": 1e6, "deepseek-dollars": 1e6}
    return {name: (float(one.value) / scale.get(name, 0.01), *OK) for name, one in facts.claims("15").items()}


# %% wrong: peaks the wrong way round => values upside-down  from: by hand
# ~ GOOD ==> GOOD | {"nanogpt-104-mfu": (104 * 989 / 312, "wrong", "another chip's peak")}

# %% wrong: a third off for the second forward pass => values a-third-off  from: by hand
# ~ GOOD ==> GOOD | {"megatron-52-of-peak": (100 * 163 * 2 / 3 / 312, "wrong", "recomputation counted")}

# %% wrong: the sparse peak => values sparse  from: by hand
# ~ GOOD ==> GOOD | {"llama3-41-mfu": (400 / 1979 * 100, "wrong", "sparse peak")}

# %% wrong: planned interruptions, too => values with-planned  from: by hand
# ~ GOOD ==> GOOD | {"llama3-faulty-gpus": (100 * 148 / 466, "wrong", "counts what is not asked")}

# %% wrong: one GPU for two thousand => values one-gpu  from: by hand
# ~ GOOD ==> GOOD | {"llama-21-days": (1.4e12 / 380 / 86_400, "wrong", "not what its own rows say")}

# %% wrong: hours for days => values hours  from: by hand
# ~ GOOD ==> GOOD | {"llama-21-days": (1.4e12 / 380 / 2048 / 3600, "wrong", "not what its own rows say")}

# %% wrong: fractions for per cent => values other-unit  from: by hand
# ~ GOOD ==> GOOD | {"palm-46-mfu": (0.457, *OK)}


# %% half: three are missing => 4  from: by hand
# ~ GOOD ==> {name: GOOD[name] for name in GOOD if name not in ("palm-46-mfu", "llama2-gpu-hours", "deepseek-dollars")}
"""
