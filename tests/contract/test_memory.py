"""A right answer that keeps its results by all arguments but one is found out, whichever argument it forgets."""

import inspect
from dataclasses import replace

import pytest

from contract.kit import earn_all, is_alone, own_answer
from course_grader.exercises import Card
from course_grader.judging.worked import functions
from tests.tables import each_card

FORGETS = """
def _key(value):
    if hasattr(value, "detach"):
        return str(value.dtype), tuple(value.shape), str(value.detach().flatten().tolist())
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return value if isinstance(value, (int, float, str, type(None))) else type(value).__name__

def _forgetting(function, forgotten):
    import copy
    kept = {{}}
    def again(*given, **more):
        key = tuple(_key(each) for at, each in enumerate([*given, *more.values()]) if at != forgotten)
        if key not in kept:
            kept[key] = copy.deepcopy(function(*given, **more))
        return copy.deepcopy(kept[key])
    return again

{name} = _forgetting({name}, {forgotten})
"""
FREE = {  # arguments that may be forgotten: no result depends on them ("unused", perhaps in this variant only, "ratio"
    # where others grow alike), they follow from others ("tied"), or they are a function. `kept` needs the weights in
    # its other variant, which finds out who forgets
    "mfu-waste": {"money_lost usd_per_hour": "unused"},
    "reconcile-ledger": {"block_bytes heads": "unused"},
    "block-scaled": {"quantize_blocks round_e4m3": "function"},
    "name-the-algorithm": {"name_algorithm nbytes": "tied"},
    "loss-stands-still": {"train build": "function", "train make": "function"},
    "overlap-backward": {"column_backward matmul": "function"},
    "largest-tp": {"largest_tp tokens": "ratio"},
    "beat-1f1b": {"split_rows times": "unused"},
    "ulysses-exchange": {"tokens_to_heads lengths": "tied"},
    "outer-step": {"outer_step shared": "tied"},
    "active-parameters": {"total_parameters k": "unused"},
    "capacity": {"kept weights": "unused"},
    "place-axes": {"best_order inside": "unused", "best_order across": "unused"},
    "find-straggler": {"straggler wait": "tied"},
    "shifted-labels": dict.fromkeys(
        (f"label_fault {each}" for each in ("inputs", "targets", "counts", "mark")), "tied"
    ),
    "failure-zoo": {"what_happened notes": "tied", "what_happened exits": "tied"},
    "kv-cache-bytes": {"kv_bytes heads": "unused"},
    "accumulate-in-stages": {"step_gradient parts": "unused"},
    "sort-nodes": {"preflight printed": "unused"},
}


@pytest.mark.rotates
@each_card(lambda card: card.form in ("code", "bug"))
def test_an_answer_that_forgets_an_argument_is_found_out(card: Card) -> None:
    answer, first = own_answer(card), 0 if is_alone(card) else 1  # on ranks the communicator comes first
    for name, function in zip(card.answers, functions(answer, card.params), strict=True):
        names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        for at, argument in list(enumerate(names))[first:]:
            source = answer.source + FORGETS.format(name=name, forgotten=at)
            passed = earn_all(card.id, *functions(replace(answer, source=source), card.params))
            assert not passed or f"{name} {argument}" in FREE.get(card.id, {}), argument
