"""The trainer: a batch divided any way gives one step, and what cannot be trained is refused or counted."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model import optimizer, text, transformer
from course_lib.model.training import SMALL, Training, accumulate, held_out_loss, sample_gradients, train
from tests.tables import each_of

TINY = transformer.Config(hidden=8, layers=1, heads=2, seq_len=8)


def gradient(model):
    """All gradients in one row."""
    return torch.cat([each.grad.flatten() for each in model.parameters()])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=4, max_size=4), st.sampled_from([1, 2, 4]))
def test_any_division_of_a_batch_with_any_tokens_left_out_gives_one_gradient(kept, parts):
    model = transformer.build(TINY).double()
    tokens, targets = text.batch(0, 4, 8)
    for row, count in zip(targets, kept, strict=True):
        row[count:] = -100
    if not sum(kept):
        with pytest.raises(ValueError, match="no target token"):
            accumulate(model, tokens, targets, parts)
        return
    loss = accumulate(model, tokens, targets, parts)
    found = gradient(model)
    model.zero_grad()
    whole = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), targets.flatten())
    whole.backward()
    assert loss == pytest.approx(whole.item(), rel=1e-5) and found.isfinite().all()
    torch.testing.assert_close(found, gradient(model), rtol=1e-4, atol=1e-6)


def test_accumulated_steps_are_the_whole_batchs_and_runs_repeat():
    runs = []
    for parts in (1, 1, 4):
        model = transformer.build(TINY)
        made = optimizer.AdamW(optimizer.decay_groups(model, 0.1), lr=1e-2)
        runs.append(
            train(model, made, 6, 8, lambda step: optimizer.cosine(step, 6, 2, 1e-2), micro_batches=parts).losses
        )
    assert runs[0] == runs[1] and runs[2] == pytest.approx(runs[0], rel=1e-4)


def test_a_run_learns_and_says_what_it_did():
    model = transformer.build(TINY)
    before = held_out_loss(model)
    run = train(model, optimizer.AdamW(model.parameters(), lr=1e-2), 60, 16)
    assert held_out_loss(model) < before - 0.5 and run.final < run.losses[0]
    assert (len(run.losses), len(run.norms), run.tokens, run.skipped) == (60, 60, 128, 0) and run.tokens_per_second > 0


def test_steps_to_a_loss_counts_from_one_and_is_none_where_it_never_came():
    run = Training([4.0, 3.0, 2.0, 1.0, 1.0, 1.0], [], 1, 1.0, 0)
    assert run.steps_to(1.0, 1) == 4 and run.steps_to(2.0, 3) == 4 and run.steps_to(0.5, 1) is None


def test_repeated_samples_are_the_same_batches_again():
    seen = []
    model = transformer.build(TINY)
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    train(model, optimizer.SGD(model.parameters(), lr=0.1), 5, 4, samples=8)
    assert torch.equal(seen[0], seen[2]) and torch.equal(seen[1], seen[3]) and not torch.equal(seen[0], seen[1])


def test_gradients_that_are_not_finite_are_skipped_counted_and_end_the_run():
    model = transformer.build(TINY)
    with torch.no_grad():
        model.head.weight[0, 0] = math.nan
    before = model.embedding.weight.detach().clone()
    run = train(model, optimizer.SGD(model.parameters(), lr=0.1), 3, 4)
    assert run.skipped == 3 and torch.equal(before, model.embedding.weight)
    with pytest.raises(FloatingPointError, match="10 steps in a row"):
        train(model, optimizer.SGD(model.parameters(), lr=0.1), 20, 4)


@each_of(
    "options, message",
    ({"steps": 0}, "steps is 0"),
    ({"size": 0}, "size is 0"),
    ({"size": 6, "micro_batches": 4}, "do not divide"),
    ({"samples": 3}, "not a multiple"),
    ({"samples": 10}, "not a multiple"),
)
def test_what_cannot_run_is_refused(options, message):
    model = transformer.build(TINY)
    with pytest.raises(ValueError, match=message):
        train(model, optimizer.SGD(model.parameters()), **{"steps": 2, "size": 4, **options})


def test_single_gradients_average_to_the_batchs():
    model = transformer.build(SMALL)
    tokens, targets = text.batch(0, 6, SMALL.seq_len)
    each = sample_gradients(model, tokens, targets)
    accumulate(model, tokens, targets)
    torch.testing.assert_close(each.mean(0), gradient(model), rtol=1e-4, atol=1e-6)
