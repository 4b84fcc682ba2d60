"""Judge of audit-precision: audit: what do fewer bits cost and save?"""

from course_chapters.ch05.exercises.audit_precision import CAUSES, ITEMS
from course_grader.judging import Mistake
from course_grader.judging.audit import audit, right, wrong

_STATE = {"weights": 2, "gradients": 2, "master copy": 4, "moments": 8}  # bytes per parameter
_FP32 = {"weights": 4, "gradients": 4, "moments": 8}
_TOTAL = sum(_STATE.values())

KEYS = {
    "fp16-zero-below": wrong(
        0.5, "rounded up", Mistake("as-printed", 1.0, "this is the smallest number; which numbers are rounded to it?")
    ),
    "master-copy-50": right(
        (2 + 4) / 4 - 1,
        Mistake("whole", 1.5, "these are all weights; how much is *added*?"),
        Mistake("over-half", 2.0, "this is relative to fp16 weights; the sentence compares with single precision."),
    ),
    "e4m3-largest": right(
        (1 + 6 / 8) * 2.0**8,
        Mistake("ieee", 240.0, "this reserves the all-ones exponent; E4M3 uses it for numbers."),
        Mistake("nan", 480.0, "this bit pattern is NaN."),
    ),
    "mixed-halves-memory": wrong(
        _TOTAL / sum(_FP32.values()),
        "activations alone",
        Mistake("as-printed", 0.5, "add up the bytes per parameter, the master copy and the moments as well."),
        Mistake("no-master", 0.75, "the master copy is missing."),
    ),
    "fp16-ratio-2048": right(
        2.0**11,
        Mistake("whole-spacing", 2.0**10, "this is one over the spacing; half the spacing decides."),
        Mistake("bf16", 2.0**8, "this is bf16's."),
    ),
    "mixed-12-bytes": wrong(
        _TOTAL,
        "a copy is missing",
        Mistake("as-printed", 12.0, "which copy of the weights does the optimizer update?"),
        Mistake("fp32-gradients", 18.0, "the gradients are in bf16 here."),
    ),
    "e5m2-largest": right(
        (1 + 3 / 4) * 2.0**15,
        Mistake("nan", 1.75 * 2.0**16, "this exponent is for infinity and NaN."),
        Mistake("fp16", 65504.0, "this is fp16's; E5M2 has two fraction bits."),
    ),
    "bf16-gradient-bytes": wrong(
        4.0,
        "another dtype",
        Mistake("as-printed", 2.0, "in which format does that run add up micro-batches?"),
        Mistake("both", 6.0, "these are the buffer and the bf16 gradients; the buffer alone is asked for."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"""From half of 2⁻²⁴ on, fp16 rounds up to its smallest number. With Adam, mixed precision takes {_TOTAL} bytes of state per
parameter, as many as fp32: it saves activations and time. The recipe with 12 bytes leaves out the master copy that its own first step
makes, and Llama 3 adds up its gradients in fp32. The two largest fp8 numbers, the added half and the ratio of 2,048 are right.""",
    pytorch="`torch.finfo(dtype)` has `max`, `smallest_normal` and `eps` of every format, fp8 included.",
)

ANSWERS = r'''# %% right: worked
def audit_bits() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    ### BEGIN SOLUTION
    state = 2 + 2 + 4 + 4 + 4  # weights, gradients, master copy, two moments
    return {
        "fp16-zero-below": (0.5, "wrong", "rounded up"),
        "master-copy-50": ((2 + 4) / 4 - 1, "right", "as printed"),
        "e4m3-largest": (1.75 * 2**8, "right", "as printed"),
        "mixed-halves-memory": (state / (4 + 4 + 4 + 4), "wrong", "activations alone"),
        "fp16-ratio-2048": (2**11, "right", "as printed"),
        "mixed-12-bytes": (state, "wrong", "a copy is missing"),
        "e5m2-largest": (1.75 * 2**15, "right", "as printed"),
        "bf16-gradient-bytes": (4, "wrong", "another dtype"),
    }
    ### END SOLUTION

# %% right: lists, capitals, whole numbers as fractions
# ~ return { ==> return {name: [float(number), verdict.title(), cause.title()] for name, (number, verdict, cause) in {
# -     }
# +     }.items()}
# %% wrong: everything is right => values -
# ~ return { ==> return {name: (number, "right", "as printed") for name, (number, _, _) in {
# -     }
# +     }.items()}
# %% wrong: everything is wrong => values -
# ~ return { ==> return {name: (number, "wrong", cause if cause != "as printed" else "another format") for name, (number, _, cause) in {
# -     }
# +     }.items()}
# %% wrong: the printed numbers => values as-printed
# ~ return { ==> return {name: (number, "right", "as printed") for name, number in zip({
# -     }
# +     }, (1, 0.5, 448, 0.5, 2048, 12, 57344, 2))}
# %% wrong: fp8 as IEEE would have it => values ieee
# ~ (1.75 * 2**8, "right", "as printed") ==> (240, "wrong", "another format")
# %% wrong: the whole spacing decides => values whole-spacing
# ~ (2**11, "right", "as printed") ==> (1024, "wrong", "another format")
# %% wrong: another cause => values wrong-cause
# ~ "a copy is missing" ==> "another dtype"
# %% wrong: the magnitude itself => values other-unit
# ~ 0.5, "wrong" ==> 2.0**-25, "wrong"
# %% wrong: left as it is => not-answered
# ~ return { ==> raise NotImplementedError; return {
# %% half: one statement is missing => 7
# -         "e5m2-largest": (1.75 * 2**15, "right", "as printed"),
'''
