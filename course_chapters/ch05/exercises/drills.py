"""One-line questions of chapter 05, with other numbers every time."""

from course_grader.exercises import asking, pick

_drill = asking("05")

DRILLS = (
    _drill(
        "spacing-at",
        "units of the weight",
        fraction_bits=(7, 2, 3, 10),
        weight=(5.0, 1.5, 3.0, 10.0, 100.0, 300.0, 0.3, 0.7),
    )("How far apart are neighboring numbers with {{fraction_bits}} fraction bits at {{weight}}?"),
    _drill("largest-number", "a plain number", exponent_bits=(5, 3, 4), fraction_bits=(10, 2, 3, 4))(
        "The largest finite number with {{exponent_bits}} exponent and {{fraction_bits}} fraction bits, if the "
        "all-ones exponent is for infinity and NaN?"
    ),
    _drill("sum-of-ones", "a plain number", fraction_bits=(7, 2, 3, 5, 8, 10, 12))(
        "Ones are added one after another with {{fraction_bits}} fraction bits, rounding to nearest even. At which "
        "sum does it stop growing?"
    ),
    _drill("scale-to-normal", "a plain number", {"power": 27}, pick(power=tuple(range(18, 34))))(
        "Which power of two is the smallest loss scale that makes a gradient of 2^−{{power}} a normal number of fp16?"
    ),
    _drill("scale-bits", "bits", block=(32, 16, 64), bits=(8, 4, 6))(
        "Blocks of {{block}} numbers of {{bits}} bits share a scale of 8 bits. How many bits does a number take?"
    ),
    _drill("without-master", "GB", params=(7e9, 1e9, 3e9, 13e9, 30e9, 70e9))(
        "{{params:count}} parameters in bf16: how many GB does a bf16 compensation save against an fp32 master copy?"
    ),
    _drill("steps-to-climb", "steps", interval=(2000, 500, 1000), low=(10, 6, 8), high=(16, 13, 15))(
        "A loss scale doubles after {{interval}} clean steps in a row. How many clean steps does it take from "
        "2^{{low}} to 2^{{high}}?"
    ),
    _drill("steps-skipped", "steps", low=(12, 5, 7, 9, 11), high=(16, 20, 24))(
        "A scaler starts at 2^{{high}} and halves at every overflow. Gradients fit from a scale of 2^{{low}} down. "
        "How many steps are skipped first?"
    ),
)
