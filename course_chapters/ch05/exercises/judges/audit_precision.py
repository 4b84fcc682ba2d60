from course_chapters.ch05.exercises.audit_precision import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit

JUDGING = audit(
    ITEMS,
    Worked("audit-precision"),
    CAUSES,
    why=f"""From half of 2⁻²⁴ on, fp16 rounds up to its smallest number. With Adam, mixed precision takes
{2 + 2 + 4 + 8} bytes of state per parameter, as many as fp32: it saves activations and time. The recipe with 12 bytes
leaves out the master copy that its own first step makes, and Llama 3 adds up its gradients in fp32. The two largest fp8
numbers, the added half and the ratio of 2,048 are right.""",
    pytorch="`torch.finfo(dtype)` has `max`, `smallest_normal` and `eps` of every format, fp8 included.",
)

ANSWERS = r'''# %% right: worked
def audit_bits() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
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
# %% right: lists, capitals, whole numbers as fractions
# ~ return { ==> return {name: [float(number), verdict.title(), cause.title()] for name, (number, verdict, cause) in {
# -     }
# +     }.items()}
# %% wrong: the smallest number => values as-printed
# > this is the smallest number; which numbers are rounded to it?
# ~ 0.5, "wrong" ==> 1, "wrong"
# %% wrong: whole => values
# > these are all weights; how much is *added*?
# ~ (2 + 4) / 4 - 1 ==> (2 + 4) / 4
# %% wrong: over half => values
# > this is relative to fp16 weights; the sentence compares with single precision.
# ~ (2 + 4) / 4 - 1 ==> 4 / 2
# %% wrong: fp8 as IEEE would have it => values ieee
# > this reserves the all-ones exponent; E4M3 uses it for numbers.
# ~ (1.75 * 2**8, "right", "as printed") ==> (240, "wrong", "another format")
# %% wrong: E4M3's NaN => values nan
# > this bit pattern is NaN.
# ~ 1.75 * 2**8 ==> 480
# %% wrong: half of the memory => values as-printed
# > add up the bytes per parameter, the master copy and the moments as well.
# ~ state / (4 + 4 + 4 + 4) ==> 0.5
# %% wrong: no master => values
# > the master copy is missing.
# ~ state / (4 + 4 + 4 + 4) ==> 0.75
# %% wrong: the whole spacing decides => values whole-spacing
# > this is one over the spacing; half the spacing decides.
# ~ (2**11, "right", "as printed") ==> (1024, "wrong", "another format")
# %% wrong: bf16 => values
# > this is bf16's.
# ~ 2**11 ==> 2**8
# %% wrong: twelve bytes => values as-printed
# > which copy of the weights does the optimizer update?
# ~ (state, "wrong" ==> (12, "wrong"
# %% wrong: fp32 gradients => values
# > the gradients are in bf16 here.
# ~ (state, "wrong" ==> (state + 2, "wrong"
# %% wrong: E5M2's infinity => values infinity
# > this exponent is for infinity and NaN.
# ~ 1.75 * 2**15 ==> 1.75 * 2**16
# %% wrong: fp16 => values
# > this is fp16's; E5M2 has two fraction bits.
# ~ 1.75 * 2**15 ==> 65504
# %% wrong: two bytes => values as-printed
# > in which format does that run add up micro-batches?
# ~ (4, "wrong" ==> (2, "wrong"
# %% wrong: both => values
# > these are the buffer and the bf16 gradients; the buffer alone is asked for.
# ~ (4, "wrong" ==> (6, "wrong"
# %% wrong: the magnitude itself => values other-unit
# ~ 0.5, "wrong" ==> 2.0**-25, "wrong"
'''
