from course_chapters.ch02.exercises.audit_memory import CAUSES, ITEMS
from course_grader.judging import Worked
from course_grader.judging.audit import audit
from course_lib.estimate import facts
from course_lib.estimate.units import GB

_SHAPE = facts.model("llama3-70b")
_INPUTS = 2 * 8192 * int(_SHAPE.hidden) * int(_SHAPE.layers) / GB  # of one tensor (tokens, hidden) a layer
_UNFUSED = (34 + 5 * int(_SHAPE.heads) * 8192 / int(_SHAPE.hidden)) / 34

JUDGING = audit(
    ITEMS,
    Worked("audit-memory"),
    CAUSES,
    why="8, 12 and 16 bytes per parameter are the moments alone, the state without a master copy, and the state with "
    "one. Only the second statement says which. 150 GB of activations follow from 14 numbers, which are 28 bytes. "
    "The formula for checkpointing lacks the hidden size, and neither 2.6 nor 20 GB follows from its description: "
    f"the inputs are {_INPUTS:.1f} GB. Unfused attention multiplies a layer's activations by {_UNFUSED:.1f} at this "
    "length. Recomputing everything is one more forward pass, which is 100 % of forward work and a third of a step. "
    "The inputs of all layers grow with L, not with its square root. And 140 GB of weights exceed 80 GB before there "
    "is an optimizer.",
)

ANSWERS = r'''from course_chapters.ch02.exercises.audit_memory import ITEMS
from course_lib.estimate import facts
from course_lib.estimate.units import TB, GiB
# %% right: worked
def audit_memory() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    tokens, width, layers = 8192, 8192, 80
    inputs = tokens * width * layers * 2 / GB
    return {
        "state-70b-1120": (16 * 70 / 1e3, "right", "as printed"),
        "adam-2p-2p-8p": (16 * 7, "wrong", "a bucket is left out"),
        "moments-7b-56": (8 * 7, "right", "as printed"),
        "state-405b-3200": (16 * 405 / 1e3, "wrong", "a bucket is left out"),
        "state-405b-4860": (12 * 405 / 1e3, "right", "as printed"),
        "cards-405b-60": (math.ceil(12 * 405 / 80), "right", "as printed"),
        "activations-130-200": (12 * inputs, "right", "as printed"),
        "activations-14": (tokens * layers * width * 14 / GB, "wrong", "numbers for bytes"),
        "activations-btld": ((34 + 5 * 64 * tokens / width) / 34, "wrong", "missing term"),
        "checkpointed-2.6": (inputs, "wrong", "missing factor"),
        "checkpointed-20": (inputs + tokens * width * 2 * 14 / GB, "wrong", "does not follow"),
        "checkpoint-sqrt": (layers, "wrong", "wrong growth"),
        "checkpoint-33-forward": (100, "wrong", "wrong baseline"),
        "oom-construction": (2 * 70, "wrong", "wrong moment"),
    }
# %% right: within five per cent, lists
# - def audit_memory() -> dict[str, tuple[float, str, str]]:
# + def recomputed():
#       }
# + def audit_memory():
# +     return {name: [row[0] * 1.03, row[1].upper(), f" {row[2]} "] for name, row in recomputed().items()}
# %% wrong: the printed numbers => values blind  from: within five per cent, lists
# -     return {name: [row[0] * 1.03, row[1].upper(), f" {row[2]} "] for name, row in recomputed().items()}
# +     return {item.id: (facts.claim(item.id).value / item.scale, "right", "as printed") for item in ITEMS}
# %% wrong: in binary units => values  from: within five per cent, lists
# > that is in GiB or TiB; give GB or TB.
# -     return {name: [row[0] * 1.03, row[1].upper(), f" {row[2]} "] for name, row in recomputed().items()}
# +     ratios, found = {GB: GB / GiB, TB: TB / 1024 / GiB}, recomputed()
# +     return {item.id: (found[item.id][0] * ratios.get(item.scale, 1), *found[item.id][1:]) for item in ITEMS}
# %% wrong: no master copy anywhere => values no-master
# > the master copy is missing.
# ~ (16 * 70 / 1e3 ==> (12 * 70 / 1e3
# ~ (16 * 405 / 1e3, ==> (12 * 405 / 1e3,
# %% wrong: gigabytes => values
# > these are GB.
# ~ 16 * 70 / 1e3 ==> 16 * 70
# ~ 16 * 405 / 1e3 ==> 16 * 405
# ~ 12 * 405 / 1e3 ==> 12 * 405
# %% wrong: twelve bytes => values as-printed
# > this is the printed formula; which copy is missing?
# ~ 16 * 7, ==> 12 * 7,
# %% wrong: one moment => values
# > that is one moment; Adam keeps two.
# ~ 8 * 7, ==> 4 * 7,
# %% wrong: moments and master => values
# > that includes the master copy, which is not a moment.
# ~ 8 * 7, ==> 12 * 7,
# %% wrong: eight bytes => values as-printed
# > that is 8 bytes per parameter. Which buckets add up to 8?
# ~ 16 * 405 ==> 8 * 405
# %% wrong: with master => values
# > that is 16 bytes per parameter; the statement is about 12.
# ~ 12 * 405 / 1e3 ==> 16 * 405 / 1e3
# ~ 12 * 405 / 80 ==> 16 * 405 / 80
# %% wrong: numbers => values
# > that counts numbers; each has 2 bytes.
# ~ 12 * inputs, ==> 6 * inputs,
# ~ (inputs, ==> (inputs / 2,
# %% wrong: upper end => values
# > that is the upper end.
# ~ 12 * inputs, ==> 20 * inputs,
# %% wrong: 14 numbers of 2 bytes => values as-printed
# > that has a factor of 2 which the printed formula lacks.
# ~ width * 14 / GB ==> width * 28 / GB
# %% wrong: attention adds nothing => values as-printed
# > that says that unfused attention adds nothing; how large is 5·a·s/h?
# ~ (34 + 5 * 64 * tokens / width) / 34 ==> 1
# %% wrong: the term alone => values term-only
# > that is the term 5·a·s/h alone over 34; add the 34.
# ~ (34 + 5 * 64 * tokens / width) / 34 ==> 5 * 64 * tokens / width / 34
# %% wrong: upside down => values
# > that is the reciprocal.
# ~ (34 + 5 * 64 * tokens / width) / 34 ==> 34 / (34 + 5 * 64 * tokens / width)
# %% wrong: not divided => values
# > that is the sum; divide it by 34.
# ~ (34 + 5 * 64 * tokens / width) / 34 ==> 34 + 5 * 64 * tokens / width
# %% wrong: 2.6 and 20 => values as-printed
# > that is the printed number.
# ~ (inputs, ==> (2.6,
# ~ (inputs + tokens * width * 2 * 14 / GB ==> (20
# %% wrong: the printed formula to the letter => values the-formula
# > that is the printed formula. What shape is a layer's input?
# ~ (inputs, ==> (inputs / width,
# %% wrong: one layer => values
# > that is one layer's input.
# ~ (inputs, ==> (inputs / layers,
# %% wrong: the live layer is forgotten => values no-live-layer
# > the inside of the layer being recomputed is missing.
# ~ (inputs + tokens * width * 2 * 14 / GB, ==> (inputs,
# %% wrong: root of the layers => values as-printed
# > √L inputs are kept with √L segments, but here every layer's input is kept.
# ~ (layers, "wrong", "wrong growth") ==> (8.94, "right", "as printed")
# %% wrong: both => values
# > that is the peak of √L segments, but here every layer's input is kept.
# ~ (layers, ==> (2 * math.sqrt(layers),
# %% wrong: a third more => values as-printed
# > a third of what? Count forward passes.
# ~ (100, "wrong", "wrong baseline") ==> (33.3, "right", "as printed")
# %% wrong: all passes => values
# > that counts all forward passes, including the first.
# ~ (100, ==> (200,
# %% wrong: a GPU's memory => values as-printed
# > that is the GPU's memory. How much does the model need?
# ~ (2 * 70, ==> (80,
# %% wrong: dies where it was printed => values all-state
# > that is all state; before that line there are only weights.
# ~ (2 * 70, "wrong", "wrong moment") ==> (16 * 70, "right", "as printed")
# %% wrong: an eighth => values
# > nothing is sharded here: each GPU loads the whole model.
# ~ 2 * 70, ==> 2 * 70 / 8,
# %% wrong: a 64th => values an-eighth
# ~ 2 * 70, ==> 2 * 70 / 64,
# %% half: one error and one control => 3
# ~ return { ==> return {name: value for name, value in {
# -     }
# +     }.items() if name in ("state-70b-1120", "checkpoint-sqrt")}
# %% half: one statement missed => 19.5
# ~ (inputs + tokens * width * 2 * 14 / GB, "wrong", "does not follow") ==> (20, "right", "as printed")
'''
