"""Key of chapter 02's audit: the truth about each statement, and what slips come to."""

import math

from course_lib import facts, memory
from course_lib.exercises.ch02.cards.audits import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
from course_lib.units import BILLION, GB, TB

_SHAPE = facts.model("llama3-70b")
_LAYERS, _HIDDEN, _HEADS, _TOKENS = int(_SHAPE.layers), int(_SHAPE.hidden), int(_SHAPE.heads), 8192
_INPUTS = 2.0 * _TOKENS * _HIDDEN * _LAYERS  # bytes of one tensor (tokens, hidden) a layer
_CARD = float(facts.device("H100 SXM").memory)
_TERM = 5 * _HEADS * _TOKENS / _HIDDEN


def _state(billions: float, letter: str, unit: float) -> float:
    return memory.state_bytes(billions * BILLION, letter) / unit


KEYS: dict[str, Key] = {
    "state-70b-1120": Key(
        _state(70, "B", TB),
        mistakes=(
            Mistake("no-master", _state(70, "A", TB), "the master copy is missing."),
            Mistake("gigabytes", _state(70, "B", GB), "these are GB."),
        ),
    ),
    "adam-2p-2p-8p": Key(
        _state(7, "B", GB),
        "a bucket is left out",
        mistakes=(
            Mistake(
                "as-printed",
                _state(7, "A", GB),
                "that is the printed formula; which bucket does mixed precision keep besides?",
            ),
        ),
    ),
    "moments-7b-56": Key(
        7 * BILLION * memory.CONVENTIONS["B"].moments / GB,
        mistakes=(
            Mistake("one-moment", 28.0, "Adam keeps two."),
            Mistake("with-master", 84.0, "the master copy is no moment."),
        ),
    ),
    "state-405b-3200": Key(
        _state(405, "B", TB),
        "a bucket is left out",
        mistakes=(
            Mistake("as-printed", 3.24, "that is 8 bytes per parameter: which buckets make 8?"),
            Mistake("no-master", _state(405, "A", TB), "the master copy is still missing."),
        ),
    ),
    "state-405b-4860": Key(
        _state(405, "A", TB),
        mistakes=(
            Mistake("with-master", _state(405, "B", TB), "the statement says 12 bytes per parameter; judge that."),
        ),
    ),
    "cards-405b-60": Key(
        float(memory.fewest_devices(_state(405, "A", 1.0), _CARD)),
        mistakes=(
            Mistake(
                "with-master",
                float(memory.fewest_devices(_state(405, "B", 1.0), _CARD)),
                "for the 4.86 TB of the statement.",
            ),
        ),
    ),
    "activations-130-200": Key(
        12 * _INPUTS / GB,
        mistakes=(
            Mistake("numbers", 6 * _INPUTS / GB, "a number has 2 bytes."),
            Mistake("upper-end", 20 * _INPUTS / GB, "that is the upper end."),
        ),
    ),
    "activations-14": Key(
        7 * _INPUTS / GB,
        "numbers for bytes",
        mistakes=(Mistake("as-printed", 14 * _INPUTS / GB, "that has a factor 2 which the printed formula has not."),),
    ),
    "activations-btld": Key(
        (34 + _TERM) / 34,
        "missing term",
        mistakes=(
            Mistake("as-printed", 1.0, "that says that attention adds nothing; what does 5·a·s/h come to?"),
            Mistake("term-only", _TERM / 34, "that is the term alone; the 34 is there too."),
            Mistake("upside-down", 34 / (34 + _TERM), "turn it round."),
            Mistake("not-divided", 34 + _TERM, "that is the sum; over 34 is asked for."),
        ),
    ),
    "checkpointed-2.6": Key(
        _INPUTS / GB,
        "missing factor",
        mistakes=(
            Mistake("as-printed", 2.6, "that is the printed number."),
            Mistake(
                "the-formula",
                _INPUTS / _HIDDEN / GB,
                "that is the printed formula to the letter: what is the input of a layer?",
            ),
            Mistake("one-layer", _INPUTS / _LAYERS / GB, "that is one layer's input."),
            Mistake("numbers", _INPUTS / 2 / GB, "2 bytes a number."),
        ),
    ),
    "checkpointed-20": Key(
        (_INPUTS + 14 * _INPUTS / _LAYERS) / GB,
        "does not follow",
        mistakes=(
            Mistake("as-printed", 20.0, "that is the printed number."),
            Mistake("no-live-layer", _INPUTS / GB, "the layer at work is missing."),
        ),
    ),
    "checkpoint-sqrt": Key(
        float(_LAYERS),
        "wrong growth",
        mistakes=(
            Mistake(
                "as-printed",
                math.sqrt(_LAYERS),
                "√L inputs are kept if there are √L segments; here every layer's input is kept.",
            ),
            Mistake(
                "both",
                2 * math.sqrt(_LAYERS),
                "that is what √L segments need at their peak; here every layer's input is kept.",
            ),
        ),
    ),
    "checkpoint-33-forward": Key(
        100.0,
        "wrong baseline",
        mistakes=(
            Mistake("as-printed", 100 / 3, "a third of what? Count forward passes."),
            Mistake("fraction", 1.0, "in per cent, please."),
            Mistake("all-passes", 200.0, "that is how many there are, with the first."),
        ),
    ),
    "oom-construction": Key(
        memory.weights_bytes(70 * BILLION, "bf16") / GB,
        "wrong moment",
        mistakes=(
            Mistake("as-printed", 80.0, "that is the card; how much does the model need?"),
            Mistake("all-state", _state(70, "B", GB), "only weights are there before that line."),
            Mistake("an-eighth", 17.5, "here nothing is sharded: each GPU loads the whole model."),
            Mistake("sharded", 140 / 64, "here nothing is sharded: each GPU loads the whole model."),
        ),
    ),
}


AUDIT_MEMORY = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why="8, 12 and 16 bytes per parameter stand on neighbouring pages: moments alone, without a master copy, with one. Only the second "
    "says so. 150 GB of activations follow from 14 numbers, which are 28 bytes; the formula for checkpoints lost the hidden size, and "
    f"neither 2.6 nor 20 GB can be had from what they describe: the inputs are {KEYS['checkpointed-2.6'].number:.1f} GB. Attention "
    f"written out multiplies everything by {KEYS['activations-btld'].number:.1f} at this length. Computing everything again is one more "
    "forward pass, all of it; that is a third of a step. Inputs of all layers grow with L, not with its root. And 140 GB of weights "
    "do not wait for an optimizer to run out of an 80 GB card.",
)
