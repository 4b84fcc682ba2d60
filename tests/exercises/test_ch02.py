"""Chapter 02's exercises: oracles are those of real blocks, real steps and torch's own checkpoint."""

import contextlib
import math
import random

import pytest
import torch
from contract.kit import functions, graded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils import checkpoint as ready

from course_chapters.ch02.exercises import peak_not_sum as peak_not_sum_card
from course_chapters.ch02.exercises import probes, state_of_a_plan
from course_chapters.ch02.exercises import shared as shared_card
from course_chapters.ch02.exercises.best_segments import STACKS
from course_chapters.ch02.exercises.block import Block, Segment, saved_rows
from course_chapters.ch02.exercises.judges import graphs_kept_alive, predict_activations, write_checkpointing
from course_chapters.ch02.exercises.probes import OutOfMemory, SwitchedOff, device_of, own_checkpoint
from course_grader import exercises
from course_grader.judging import judging
from course_grader.judging.cases import shown
from course_grader.judging.worked import Worked, judged_variant
from course_lib.estimate import facts, memory
from course_lib.model.accounting import Accounting
from tests.tables import each_of

CARDS = exercises.cards("02")
BY_ID = {card.id: card for card in CARDS}


def other_structure(card):
    """A variant that differs in the structural parameter."""
    seeds = (str(seed) for seed in range(40))
    return next(p for p in map(card.variant, seeds) if p[card.structural] != card.params[card.structural])


# --- the state, and parameters


def test_seventy_billion_take_1120_gigabytes_under_the_plan_shown():
    params = BY_ID["state-of-a-plan"].params
    buckets = Worked("state-of-a-plan")[0]
    assert sum(buckets(params["size"], params["plan"]).values()) == 1.12e12
    plans = {
        "A": state_of_a_plan.plan("bf16", "bf16", None, None, "adamw", "fp32"),
        "B": params["plan"],
        "C": state_of_a_plan.plan("bf16", "fp32", None, "fp32", "adamw", "fp32"),
        "E": state_of_a_plan.plan("fp16", "fp16", "fp32", "fp32", "adamw", "fp32"),
        "F": state_of_a_plan.plan("bf16", "bf16", None, None, "adamw", "bf16"),
        "G": state_of_a_plan.plan("bf16", "bf16", None, "fp32", "adamw", "int8"),
    }
    for letter, plan in plans.items():
        assert buckets(1, plan) == memory.CONVENTIONS[letter].buckets, letter


@each_of("name", ["llama3-8b", "llama3-70b", "llama3.2-1b", "mistral-7b"])
def test_parameters_add_up_to_the_published_number(name):
    assert sum(Worked("count-parameters")(shared_card.shape_of(name)).values()) == int(facts.model(name).params)


# --- levels


@each_of("seed", range(6))
def test_events_and_lifetimes_of_one_run_have_one_peak(seed):
    peaks = []
    for form in ("events", "lifetimes"):
        with judged_variant("peak-not-sum", {"log": form}):
            peaks.append(Worked("peak-not-sum")(peak_not_sum_card.training_log(random.Random(seed), 3, form)))
    assert peaks[0] == peaks[1]


def test_three_real_steps_have_the_phases_of_the_timeline():
    """Optimizer state appears in the first step, and later forward passes have it beside their activations."""
    model = nn.Sequential(*(make() for _ in range(4) for make in (lambda: nn.Linear(64, 64, False), nn.Sigmoid)))
    optimizer, x, levels = torch.optim.Adam(model.parameters(), foreach=False), torch.randn(256, 64), []
    with Accounting() as books:
        books.adopt(model)
        weights = books.live_bytes
        for _ in range(3):
            loss = model(x).sum()
            forward = books.live_bytes
            loss.backward()
            del loss
            optimizer.step()
            levels.append((forward, books.live_bytes))
            optimizer.zero_grad(set_to_none=True)
        states = books.roles()["optimizer state"]
    (first, after), *later = levels
    assert states >= 2 * weights and after == weights + states + weights  # gradients are as large as the weights
    assert later == [(first + states, after)] * 2


def test_one_sequence_of_llama_70b_keeps_217_gigabytes():
    assert predict_activations.kept_by_layers(BY_ID["predict-activations"].params) == pytest.approx(217.4, abs=0.1)


# --- the ledger


@each_of("dtype, size", [("float32", 4), ("bfloat16", 2)])
@each_of("attention", ["fused", "by hand"])
@each_of("sizes", [(3, 48, 128, 4, 512), (1, 5, 96, 3, 77), (2, 33, 64, 1, 64)])
def test_the_formula_and_its_small_terms_are_exactly_what_autograd_saved_of_a_real_block(sizes, attention, dtype, size):
    batch, seq, hidden, heads, ffn = sizes
    right, rows = Worked("reconcile-ledger"), saved_rows(*sizes, attention, dtype)
    with judged_variant("reconcile-ledger", BY_ID["reconcile-ledger"].params | {"attention": attention}):
        small = (
            4 * batch * seq * (size + (heads if attention == "fused" else 0))
        )  # two norms' statistics, and logsumexp
        assert sum(right[0](rows).values()) == right[1](*sizes, size) + small


def test_the_block_computes_the_same_with_both_kinds_of_attention():
    torch.manual_seed(1)
    fused, plain = Block(32, 4, 64, "fused"), Block(32, 4, 64, "by hand")
    plain.load_state_dict(fused.state_dict())
    x = torch.randn(2, 9, 32)
    torch.testing.assert_close(fused(x), plain(x))


# --- checkpointing


def test_a_checkpoint_changes_nothing_that_a_plain_call_gives():
    card = BY_ID["write-checkpointing"]
    for params in (card.params, other_structure(card)):
        for case in judging(card.id).cases(params, random.Random(4)):
            spec = case.args[0]
            with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(spec.get("grad", True)):
                want = probes.pass_through(probes.plain_call, spec)
            got = Worked(card.id).value(case)
            torch.testing.assert_close({name: got[name] for name in want}, want)


@pytest.mark.parametrize("reentrant", [False, True])
def test_torchs_own_checkpoint_would_pass(reentrant, monkeypatch):
    """Values, calls, generator and bytes of the real thing are those that the judge asks for."""
    monkeypatch.setattr(probes, "own_checkpoint", contextlib.nullcontext)
    card = BY_ID["write-checkpointing"]
    for params in (card.params, other_structure(card)):
        report = graded(card.id, lambda f, *x: ready.checkpoint(f, *x, use_reentrant=reentrant), params=params)
        bad = {v.case for v in report.verdicts if not v.ok}
        assert bad <= (
            {"an input that needs no gradient", "the first segment gets token numbers"} if reentrant else set()
        )


def test_torchs_checkpoint_is_off_inside_under_any_name_and_on_again_outside():
    x = torch.ones(2, requires_grad=True)
    imported = ready.checkpoint
    for _ in range(2):
        with own_checkpoint():
            for call in (
                lambda: imported(torch.sin, x, use_reentrant=False),
                lambda: imported(torch.sin, x, use_reentrant=True),
                lambda: ready.checkpoint_sequential([torch.sin], 1, x, use_reentrant=False),
                lambda: ready.CheckpointFunction.apply(torch.sin, True, x),
            ):
                with pytest.raises(SwitchedOff):
                    call()
        imported(torch.sin, x, use_reentrant=False).sum().backward()


def test_a_check_leaves_the_learners_generator_where_it_was():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for name in ("write-checkpointing", "chunked-cross-entropy", "graphs-kept-alive", "reconcile-ledger"):
        assert graded(name, *functions(name)).passed
    saved_rows()
    assert torch.equal(before, torch.get_rng_state())


def test_bytes_of_a_plain_call_are_above_every_limit_and_those_of_a_checkpoint_below():
    spec = write_checkpointing.spec_of(random.Random(2), 1, [2, 2, 3, 2, 2, 3], rows=256, width=64)
    least, most, peak = write_checkpointing.limits(spec)
    plain = probes.pass_bytes(probes.plain_call, spec)
    mine = probes.pass_bytes(functions("write-checkpointing")[0], spec)
    assert plain["kept"] > 2 * most and plain["peak"] > peak
    assert least < mine["kept"] < 0.75 * most and mine["peak"] < 0.75 * peak


def test_a_segment_of_two_streams_has_gradients_for_both():
    torch.manual_seed(0)
    x, y = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    sum(out.sum() for out in Segment(2, 8, 0.0, 2)(x, y)).backward()
    assert x.grad.any() and y.grad.any()


# --- cuts


def lowest(inputs, inner, starts=None):
    """The peak of the worked answer's cut."""
    right = Worked("best-segments")
    return right[0](inputs, inner, right[1](inputs, inner) if starts is None else starts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 60)), min_size=1, max_size=9))
def test_no_cut_is_better_than_the_lowest_peak(layers):
    inputs, inner = [a for a, _ in layers], [b for _, b in layers]
    cuts = ([0, *(k + 1 for k in range(len(layers) - 1) if mask >> k & 1)] for mask in range(2 ** (len(layers) - 1)))
    assert lowest(inputs, inner) == min(lowest(inputs, inner, cut) for cut in cuts)


def test_no_stack_shown_is_cut_best_into_equal_lengths():
    for inputs, inner in STACKS:
        even = (list(range(0, len(inputs), length)) for length in range(1, len(inputs) + 1))
        assert min(lowest(inputs, inner, cut) for cut in even) > 1.1 * lowest(inputs, inner)


def test_equal_layers_are_cut_at_about_the_root():
    assert len(Worked("best-segments")[1]([1] * 64, [16] * 64)) >= math.sqrt(64 * 16)


# --- the loss, and the step


def test_the_device_refuses_one_byte_too_many():
    with device_of(400) as books, pytest.raises(OutOfMemory, match="in use"):
        kept = [torch.empty(100)]
        kept.append(torch.empty(1))
    assert books.peak_bytes == 400


@each_of("reduction", ["mean", "sum"])
def test_chunks_give_the_loss_and_the_gradients_of_all_logits_in_fp64(reduction):
    contract, card = judging("chunked-cross-entropy"), BY_ID["chunked-cross-entropy"]
    params = card.params | {"reduction": reduction}
    for case in contract.cases(params, random.Random(4)):
        spec, _ = case.args
        inputs, weight, targets = probes.loss_inputs(**spec)
        inputs, weight = inputs.double().requires_grad_(), weight.double().requires_grad_()
        loss = F.cross_entropy(inputs @ weight.T, targets, reduction=reduction)
        (loss * spec["scale"]).backward()
        with judged_variant(card.id, params):
            got = Worked(card.id).value(case)
        assert float(got["loss"]) == pytest.approx(loss.item(), rel=1e-5)
        for name, want in (("hidden", inputs.grad), ("weight", weight.grad)):
            if name in spec["wanted"]:
                torch.testing.assert_close(got[name], want.float(), rtol=1e-4, atol=1e-4 * float(want.abs().max()))


def test_a_device_for_chunks_cannot_hold_the_logits_twice():
    contract, card = judging("chunked-cross-entropy"), BY_ID["chunked-cross-entropy"]
    for case in contract.cases(card.params, random.Random(4)):
        spec, most = case.args
        if most is not None:
            assert most < 2 * 4 * spec["tokens"] * spec["words"]


def test_the_program_in_the_statement_has_the_right_loss_and_gradients():
    (train_step,) = functions("graphs-kept-alive", "wrong", name="the program in the statement")
    spec = graphs_kept_alive._spec(random.Random(0), [(5, 0), (9, 3)])
    model, other = (probes.static_model(**spec, one_buffer=False) for _ in range(2))
    batches = probes.micro_batches(**spec)
    ends = [(other(inputs).flatten(0, 1), targets.flatten()) for inputs, targets in batches]
    together = F.cross_entropy(*(torch.cat(each) for each in zip(*ends, strict=True)))
    together.backward()
    assert train_step(model, batches) == pytest.approx(together.item())
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])
    want = Worked("graphs-kept-alive").value(shown("two", "values", spec, False))
    assert want["loss"] == pytest.approx(together.item())
    torch.testing.assert_close(want["gradients"], [p.grad for p in other.parameters()])


def test_a_checkpoint_of_one_stream_fails_where_segments_take_two():
    card = BY_ID["write-checkpointing"]
    params, right = other_structure(card), functions(card.id)[0]
    for answer, passes in ((right, True), (lambda function, x: right(function, x), False)):
        report = graded(card.id, answer, params=params)
        assert report.passed == passes and all(v.message for v in report.verdicts if not v.ok)
