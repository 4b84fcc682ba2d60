"""Judge of chapter 09's audit. An error counts only beside a control left standing, and a control beside an error found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib import facts
from course_lib.exercises.ch09_audits import CAUSES, ITEMS, RIGHT, WRONG, Item
from course_lib.exercises.judging import Judging, Params, describe, is_number, near
from course_lib.exercises.judging.ch06_ranks import Fault, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.tensor_parallel.traffic import tp_bytes_per_layer, tp_calls_per_layer
from course_lib.units import GB

NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Key:
    """The truth about one statement: the number asked for, the cause, and slips by name as (value, message)."""

    number: float
    cause: str = "as printed"
    slips: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """Whether the statement is right as printed."""
        return RIGHT if self.cause == "as printed" else WRONG


_MODEL = facts.model("llama3-405b")
_TP, _STAGES, _REPLICAS, _MICRO, _BATCH = 8, 16, 128, 16, 4 * 2**20
_TOKENS = _BATCH // _REPLICAS
_BLOCK = tp_bytes_per_layer(_TOKENS, int(_MODEL.hidden), _TP) / GB
_TENSOR = _TOKENS * int(_MODEL.hidden) * 2 / GB
_SECONDS = _BLOCK * _MODEL.layers / _STAGES / (facts.device("H100 SXM").link_one_way / GB)
_CALLS = tp_calls_per_layer()["all_reduce"]
_HEAD = _MODEL.hidden // _MODEL.heads
_LAYER = (
    2
    * (2 * _MODEL.hidden**2 + 2 * _MODEL.hidden * _MODEL.kv_heads * _HEAD + 3 * _MODEL.hidden * _MODEL.ffn)
    / GB
)
_ALONE = 39e12  # FLOP/s of a single GPU, as the statement has it
_ACHIEVED = float(facts.run("Megatron-LM 8.3B").flops_per_device) / _ALONE

KEYS: dict[str, Key] = {
    "tp-row-formula": Key(4.0, "needs only its part", {
        "as-printed": (8.0, "that is all of X. W₁ has how many rows?"),
    }),
    "tp-128-gb": Key(_BLOCK, "another scope", {
        "as-printed": (_BATCH * _MODEL.hidden * 2 / GB, "these are the activations of the whole batch; a tensor-parallel group has one replica's tokens."),
        "one-tensor": (_TENSOR, "this is the tensor; a block all-reduces it more than once, and a ring sends almost twice its bytes."),
        "four-tensors": (_CALLS * _TENSOR, "four tensors; a ring sends 2(t − 1)/t of each."),
        "one-all-reduce": (_BLOCK / _CALLS, "this is one all-reduce; a block has more."),
        "forward": (_BLOCK / 2, "this is the forward pass."),
        "whole-batch": (_BLOCK * _REPLICAS, "this is for the whole batch; one replica has an N-th of its tokens."),
    }),
    "tp-71-s": Key(_SECONDS, "another scope", {
        "as-printed": (71.7, "that is the printed number: whose bytes over whose links?"),
        "both-ways": (_SECONDS / 2, "900 GB/s count both ways."),
        "all-blocks": (_SECONDS * _STAGES, "this is for all blocks; a GPU has its stage's."),
        "whole-batch": (_SECONDS * _REPLICAS, "this is for the whole batch; one replica has an N-th of its tokens."),
    }),
    "tp-504-reduces": Key(float(_CALLS * _MODEL.layers * _MICRO), "missing factor", {
        "as-printed": (float(_CALLS * _MODEL.layers), "that is one micro-batch; how many are in a step?"),
        "one-gpu": (_CALLS * _MODEL.layers / _STAGES, "that is what one stage does for one micro-batch; all blocks and a whole step are asked for."),
    }),
    "tp-one-layer": Key(_LAYER, "reason does not hold", {
        "no-bytes": (_LAYER / 2, "these are numbers in billions; 16 bits are two bytes."),
        "heads-alike": (2 * (4 * _MODEL.hidden**2 + 3 * _MODEL.hidden * _MODEL.ffn) / GB, "keys and values have fewer heads than queries."),
        "whole-model": (_LAYER * _MODEL.layers, "these are all layers."),
        "two-matrices": (_LAYER - 2 * _MODEL.hidden * _MODEL.ffn / GB, "a gated MLP has three matrices."),
    }),
    "tp-16-heads": Key(float(_MODEL.heads / _TP), slips={
        "kv-heads": (float(_MODEL.kv_heads / _TP), "those are KV heads; query heads are asked for."),
    }),
    "tp-four-reduces": Key(float(_CALLS), slips={
        "one-pass": (_CALLS / 2, "that is one pass; forward and backward are asked for."),
    }),
    "tp-8bsh": Key(2.0 * _CALLS, slips={
        "tensors": (float(_CALLS), "a ring sends almost twice the tensor."),
        "bytes": (4.0 * _CALLS, "elements are asked for, not bytes."),
    }),
    "tp-76-percent": Key(_ACHIEVED, slips={
        "percent": (100 * _ACHIEVED, "give a share, not per cent."),
    }),
}  # fmt: skip


_BY_WORDS = {cause.lower(): cause for cause in CAUSES}


def _fault(item: Item, key: Key, answer: Any) -> Fault | None:
    lead = f"{item.id}: "
    if type(answer) not in (tuple, list) or len(answer) != 3:
        return "wrong-shape", f"{lead}give (number, {RIGHT!r} or {WRONG!r}, cause); got {describe(answer)}."
    number, said, cause = answer
    said = said.strip().lower() if type(said) is str else said
    cause = _BY_WORDS.get(cause.strip().lower(), cause) if type(cause) is str else cause
    if not is_number(number):
        return "not-a-number", f"{lead}the first value is a number ({item.unit}); got {describe(number)}."
    if said not in (RIGHT, WRONG) or type(cause) is not str or cause not in CAUSES:
        return (
            "no-such-word",
            f"{lead}a verdict is {RIGHT!r} or {WRONG!r}, a cause one of {', '.join(CAUSES)}.",
        )
    if not near(number, key.number, NEAR):
        for name, (value, message) in key.slips.items():
            if near(number, value, 0.02):
                return name, lead + message
        return "other-number", f"{lead}your number is {number / key.number:.3g} times ours ({item.unit})."
    if said != key.said:
        return (
            "wrong-verdict",
            f"{lead}your number is right; now compare it with the printed one: within 5 % or not?",
        )
    if cause != key.cause:
        return "wrong-cause", f"{lead}number and verdict are right; {cause!r} is not what happened."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = outcome.value
    if type(given) is not dict:
        fault = (
            "no-dictionary",
            f"Return a dictionary from id to (number, verdict, cause); got {describe(given)}.",
        )
        return [verdict("values", item.id, case, fault) for item in ITEMS]
    faults: dict[str, Fault | None] = {
        item.id: _fault(item, KEYS[item.id], given[item.id])
        if item.id in given
        else ("missing", f"{item.id}: no answer under this id yet.")
        for item in ITEMS
    }
    wide = dict(faults)  # a verdict stands only beside one of the other kind that is right
    for standing, other, told in ((RIGHT, WRONG, "no error has been found yet; a statement left standing counts only beside one."),
                                  (WRONG, RIGHT, "no right statement was left standing; an error counts only beside one.")):  # fmt: skip
        if all(wide[name] for name in wide if KEYS[name].said == other):
            faults |= {
                name: ("blind", f"{name}: {told}")
                for name in wide
                if KEYS[name].said == standing and not wide[name]
            }
    return [verdict("values", item.id, case, faults[item.id]) for item in ITEMS]


AUDITS = {
    "audit-tensor-parallel": Judging(
        shares={f"values:{item.id}": 1 / len(ITEMS) for item in ITEMS},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=_verdicts,
        why=f"128 GB are the activations of the whole batch; a tensor-parallel group sees one of {_REPLICAS} replicas, and a GPU the blocks of one of {_STAGES} "
            f"stages. Four all-reduces of what is left send {_BLOCK:.1f} GB a block, and {_SECONDS:.2f} s a step one way, not 71. {_CALLS * _MODEL.layers} "
            f"all-reduces are one micro-batch's. One gathered layer has {_LAYER:.1f} GB and fits anywhere: matrices are cut for the time that gathering takes, and "
            "for activations. A row cut pairs each part of W with its part of X. The other four are right.",
        pytorch="`CommDebugMode` counts a step's collectives, per call.",
    ),
}  # fmt: skip
