"""One-line questions of chapter 05, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("05")

DRILLS = (
    _drill(
        "spacing-at",
        "How far apart are neighboring numbers with {{fraction_bits}} fraction bits at {{weight}}?",
        "units of the weight",
        {"fraction_bits": 7, "weight": 5.0},
        pick(fraction_bits=(2, 3, 7, 10), weight=(1.5, 3.0, 5.0, 10.0, 100.0, 300.0, 0.3, 0.7)),
    ),
    _drill(
        "largest-number",
        "The largest finite number with {{exponent_bits}} exponent and {{fraction_bits}} fraction bits, if the "
        "all-ones exponent is for infinity and NaN?",
        "a plain number",
        {"exponent_bits": 5, "fraction_bits": 10},
        pick(exponent_bits=(3, 4, 5), fraction_bits=(2, 3, 4, 10)),
    ),
    _drill(
        "sum-of-ones",
        "Ones are added one after another with {{fraction_bits}} fraction bits, rounding to nearest even. At which "
        "sum does it stop growing?",
        "a plain number",
        {"fraction_bits": 7},
        pick(fraction_bits=(2, 3, 5, 7, 8, 10, 12)),
    ),
    _drill(
        "scale-to-normal",
        "Which power of two is the smallest loss scale that makes a gradient of 2^−{{power}} a normal number of fp16?",
        "a plain number",
        {"power": 27},
        pick(power=tuple(range(18, 34))),
    ),
    _drill(
        "scale-bits",
        "Blocks of {{block}} numbers of {{bits}} bits share a scale of 8 bits. How many bits does a number take?",
        "bits",
        {"block": 32, "bits": 8},
        pick(block=(16, 32, 64), bits=(4, 6, 8)),
    ),
    _drill(
        "without-master",
        "{{params:count}} parameters in bf16: how many GB does a bf16 compensation save against an fp32 master copy?",
        "GB",
        {"params": 7e9},
        pick(params=(1e9, 3e9, 7e9, 13e9, 30e9, 70e9)),
    ),
    _drill(
        "steps-to-climb",
        "A loss scale doubles after {{interval}} clean steps in a row. How many clean steps does it take from "
        "2^{{low}} to 2^{{high}}?",
        "steps",
        {"interval": 2000, "low": 10, "high": 16},
        pick(interval=(500, 1000, 2000), low=(6, 8, 10), high=(13, 15, 16)),
    ),
    _drill(
        "steps-skipped",
        "A scaler starts at 2^{{high}} and halves at every overflow. Gradients fit from a scale of 2^{{low}} down. "
        "How many steps are skipped first?",
        "steps",
        {"low": 12, "high": 16},
        pick(low=(5, 7, 9, 11, 12), high=(16, 20, 24)),
    ),
)
