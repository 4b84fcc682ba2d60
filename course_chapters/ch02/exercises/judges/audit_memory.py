"""Judge of audit-memory: audit: state, activations, checkpoints."""

import dataclasses
import math

from course_chapters.ch02.exercises.audit_memory import CAUSES, ITEMS
from course_grader.exercises.audits import Item
from course_grader.judging import Mistake
from course_grader.judging.audit import Key, audit, right, wrong
from course_lib.estimate import facts, memory
from course_lib.estimate.units import BILLION, GB, TB, GiB

_SHAPE = facts.model("llama3-70b")
_LAYERS, _HIDDEN, _HEADS, _TOKENS = int(_SHAPE.layers), int(_SHAPE.hidden), int(_SHAPE.heads), 8192
_INPUTS = 2.0 * _TOKENS * _HIDDEN * _LAYERS  # bytes of one tensor (tokens, hidden) a layer
_TERM = 5 * _HEADS * _TOKENS / _HIDDEN
_EVERY = "but here every layer's input is kept."


def _state(billions: float, letter: str, unit: float) -> float:
    return memory.state_bytes(billions * BILLION, letter) / unit


def _fewest(billions: float, letter: str) -> float:
    """The fewest H100 for a state."""
    return float(memory.fewest_devices(_state(billions, letter, 1.0), float(facts.device("H100 SXM").memory)))


KEYS = {
    "state-70b-1120": right(
        _state(70, "B", TB),
        Mistake("no-master", _state(70, "A", TB), "the master copy is missing."),
        Mistake("gigabytes", _state(70, "B", GB), "these are GB."),
    ),
    "adam-2p-2p-8p": wrong(
        _state(7, "B", GB),
        "a bucket is left out",
        Mistake("as-printed", _state(7, "A", GB), "this is the printed formula; which copy is missing?"),
    ),
    "moments-7b-56": right(
        7 * BILLION * memory.CONVENTIONS["B"].moments / GB,
        Mistake("one-moment", 28.0, "that is one moment; Adam keeps two."),
        Mistake("with-master", 84.0, "that includes the master copy, which is not a moment."),
    ),
    "state-405b-3200": wrong(
        _state(405, "B", TB),
        "a bucket is left out",
        Mistake("as-printed", 3.24, "that is 8 bytes per parameter. Which buckets add up to 8?"),
        Mistake("no-master", _state(405, "A", TB), "the master copy is still missing."),
    ),
    "state-405b-4860": right(
        _state(405, "A", TB),
        Mistake("with-master", _state(405, "B", TB), "that is 16 bytes per parameter; the statement is about 12."),
    ),
    "cards-405b-60": right(
        _fewest(405, "A"),
        Mistake("with-master", _fewest(405, "B"), "that is for 6.48 TB; the statement is about 4.86 TB."),
    ),
    "activations-130-200": right(
        12 * _INPUTS / GB,
        Mistake("numbers", 6 * _INPUTS / GB, "that counts numbers; each has 2 bytes."),
        Mistake("upper-end", 20 * _INPUTS / GB, "that is the upper end."),
    ),
    "activations-14": wrong(
        7 * _INPUTS / GB,
        "numbers for bytes",
        Mistake("as-printed", 14 * _INPUTS / GB, "that has a factor of 2 which the printed formula lacks."),
    ),
    "activations-btld": wrong(
        (34 + _TERM) / 34,
        "missing term",
        Mistake("as-printed", 1.0, "that says that unfused attention adds nothing; how large is 5·a·s/h?"),
        Mistake("term-only", _TERM / 34, "that is the term 5·a·s/h alone over 34; add the 34."),
        Mistake("upside-down", 34 / (34 + _TERM), "that is the reciprocal."),
        Mistake("not-divided", 34 + _TERM, "that is the sum; divide it by 34."),
    ),
    "checkpointed-2.6": wrong(
        _INPUTS / GB,
        "missing factor",
        Mistake("as-printed", 2.6, "that is the printed number."),
        Mistake("the-formula", _INPUTS / _HIDDEN / GB, "that is the printed formula. What shape is a layer's input?"),
        Mistake("one-layer", _INPUTS / _LAYERS / GB, "that is one layer's input."),
        Mistake("numbers", _INPUTS / 2 / GB, "that counts numbers; each has 2 bytes."),
    ),
    "checkpointed-20": wrong(
        (_INPUTS + 14 * _INPUTS / _LAYERS) / GB,
        "does not follow",
        Mistake("as-printed", 20.0, "that is the printed number."),
        Mistake("no-live-layer", _INPUTS / GB, "the inside of the layer being recomputed is missing."),
    ),
    "checkpoint-sqrt": wrong(
        float(_LAYERS),
        "wrong growth",
        Mistake("as-printed", math.sqrt(_LAYERS), f"√L inputs are kept with √L segments, {_EVERY}"),
        Mistake("both", 2 * math.sqrt(_LAYERS), f"that is the peak of √L segments, {_EVERY}"),
    ),
    "checkpoint-33-forward": wrong(
        100.0,
        "wrong baseline",
        Mistake("as-printed", 100 / 3, "a third of what? Count forward passes."),
        Mistake("fraction", 1.0, "give a percentage."),
        Mistake("all-passes", 200.0, "that counts all forward passes, including the first."),
    ),
    "oom-construction": wrong(
        memory.weights_bytes(70 * BILLION, "bf16") / GB,
        "wrong moment",
        Mistake("as-printed", 80.0, "that is the GPU's memory. How much does the model need?"),
        Mistake("all-state", _state(70, "B", GB), "that is all state; before that line there are only weights."),
        Mistake("an-eighth", 17.5, "nothing is sharded here: each GPU loads the whole model."),
        Mistake("sharded", 140 / 64, "nothing is sharded here: each GPU loads the whole model."),
    ),
}

_BINARY = {GB: ("GiB", "GB", GiB / GB), TB: ("TiB", "TB", 1024 * GiB / TB)}


def _in_binary_units(item: Item, key: Key) -> Key:
    """The key with one more mistake, where a size was given in GiB or TiB."""
    if item.scale not in _BINARY:
        return key
    got, asked, ratio = _BINARY[item.scale]
    slip = Mistake("binary-units", key.number / ratio, f"that is in {got}; give {asked}.")
    return dataclasses.replace(key, mistakes=(*key.mistakes, slip))


KEYS |= {item.id: _in_binary_units(item, KEYS[item.id]) for item in ITEMS}

JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why="8, 12 and 16 bytes per parameter are the moments alone, the state without a master copy, and the state with one. Only the "
    "second statement says which. 150 GB of activations follow from 14 numbers, which are 28 bytes. The formula for checkpointing lacks "
    f"the hidden size, and neither 2.6 nor 20 GB follows from its description: the inputs are {KEYS['checkpointed-2.6'].number:.1f} "
    f"GB. Unfused attention multiplies a layer's activations by {KEYS['activations-btld'].number:.1f} at this length. Recomputing "
    "everything is one more forward pass, which is 100 % of forward work and a third of a step. The inputs of all layers grow with L, "
    "not with its square root. And 140 GB of weights exceed 80 GB before there is an optimizer.",
)

ANSWERS = r'''import math

from course_lib.estimate import facts
from course_lib.estimate.units import GB


# %% right: worked
def audit_memory() -> dict[str, tuple[float, str, str]]:
    """For each statement: (its number, recomputed; "right" or "wrong"; the cause)."""
    ### BEGIN SOLUTION
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
    ### END SOLUTION

# %% right: within five per cent, lists
# ~ def audit_memory() -> dict[str, tuple[float, str, str]]: ==> def recomputed():
#       ### END SOLUTION
# + def audit_memory():
# +     return {name: [number * 1.03, said.upper(), f" {cause} "] for name, (number, said, cause) in recomputed().items()}
# %% wrong: the printed numbers => values as-printed
# ~ def audit_memory() -> dict[str, tuple[float, str, str]]: ==> def recomputed():
#       ### END SOLUTION
# + def audit_memory():
# +     scale = {"cards-405b-60": 1, "activations-btld": 1, "checkpoint-sqrt": 1, "checkpoint-33-forward": 0.01}
# +     scale |= dict.fromkeys(("state-70b-1120", "state-405b-3200", "state-405b-4860"), 1e12)
# +     return {name: (float(facts.claim(name).value) / scale.get(name, 1e9), "right", "as printed") for name in recomputed()}
# %% wrong: no master copy anywhere => values no-master
# ~ (16 * 405 / 1e3, ==> (12 * 405 / 1e3,
# %% wrong: the printed formula to the letter => values the-formula
# ~ (inputs, ==> (inputs / width,
# %% wrong: the live layer is forgotten => values no-live-layer
# ~ (inputs + tokens * width * 2 * 14 / GB, ==> (inputs,
# %% wrong: the term alone => values term-only
# ~ (34 + 5 * 64 * tokens / width) / 34 ==> 5 * 64 * tokens / width / 34
# %% wrong: a third more => values as-printed
# ~ (100, "wrong", "wrong baseline") ==> (33.3, "right", "as printed")
# %% wrong: root of the layers => values as-printed
# ~ (layers, "wrong", "wrong growth") ==> (8.94, "right", "as printed")
# %% wrong: dies where it was printed => values all-state
# ~ (2 * 70, "wrong", "wrong moment") ==> (16 * 70, "right", "as printed")
# %% half: one error and one control => 3
# ~ return { ==> return {name: value for name, value in {
# -     }
# +     }.items() if name in ("state-70b-1120", "checkpoint-sqrt")}
# %% half: one statement missed => 19.5
# ~ (inputs + tokens * width * 2 * 14 / GB, "wrong", "does not follow") ==> (20, "right", "as printed")
'''
