"""A right answer that keeps its results by all arguments but one is found out, whichever argument it forgets."""

import inspect
from dataclasses import replace

import pytest

from contract.kit import graded, is_alone, own_answer
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
FREE = {  # arguments on which no result depends, that follow from others, or of which no other value is found valid
    "mfu-waste": "money_lost usd_per_hour",
    "reconcile-ledger": "block_bytes heads",
    "fit-roofs": "fit_roofs sheet_bandwidth",
    "alpha-beta-regimes": "fit_line sizes, fit_line seconds",
    "write-adamw": "adamw state",
    "seconds-to-a-loss": "winner target",
    "fit-scaling-law": "fit_law compute",
    "stochastic-rounding": "stochastic_round noise",
    "overflow-everywhere": "agreed_step scale, agreed_step rate",
    "tolerance-design": "is_close magnitude",
    "block-scaled": "quantize_blocks round_e4m3",
    "name-the-algorithm": "name_algorithm nbytes",
    "alpha-beta-fit": "fit sizes",
    "average-gradients": "average_gradients grads",
    "loss-stands-still": "train build, train make",
    "hsdp-group": "best_group memory, best_group fast",
    "prefetch-depth": "least_depth computes",
    "reshard-checkpoint": "reshard elements, reshard old, reshard new",
    "offload-boundary": "step_seconds flops",
    "largest-alone": "ranks_for layers",
    "column-and-row": "row_shard ranks",
    "overlap-backward": "column_backward matmul",
    "packed-shards": "packed_shard sizes, packed_merge sizes",
    "verify-plan": "verify whole",
    "largest-tp": "largest_tp tokens, largest_tp across, largest_tp per_node",
    "schedule-validator": "complaint microbatches",
    "beat-1f1b": "split_rows times",
    "ulysses-exchange": "tokens_to_heads lengths",
    "active-parameters": "total_parameters k",
    "capacity": "kept weights",
    "place-axes": "best_order sizes, best_order inside, best_order across",
    "norm-on-mesh": "mesh_norm sizes",
    "find-straggler": "straggler compute, straggler data, straggler wait",
    "held-out-message": "predict_seconds nbytes",
    "shifted-labels": "label_fault inputs, label_fault targets, label_fault counts, label_fault mark",
    "pipeline-peaks": "most_micro_batches job",
    "failure-zoo": "what_happened notes, what_happened exits",
    "ring-that-hangs": "ring_pass visit",
    "spend-ledger": "stop_by increment",
    "kv-cache-bytes": "kv_bytes heads",
    "continuous-batching": "plan budget, plan free, plan size",
    "latency-budget": "best_chunk batch",
    "sturdiest-plan": "sturdiest limits",
    "accumulate-in-stages": "step_gradient parts",
}


@pytest.mark.rotates
@each_card(lambda card: card.form in ("code", "bug"))
def test_an_answer_that_forgets_an_argument_is_found_out(card: Card) -> None:
    answer, first = own_answer(card), 0 if is_alone(card) else 1  # on ranks the communicator comes first
    for name, function in zip(card.answers, functions(answer, card.params), strict=True):
        names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        for at, argument in list(enumerate(names))[first:]:
            source = answer.source + FORGETS.format(name=name, forgotten=at)
            report = graded(card.id, *functions(replace(answer, source=source), card.params), params=card.params)
            assert not report.passed or f"{name} {argument}" in FREE.get(card.id, "").split(", "), argument
