"""Chapter 04's exercises: worked answers are PyTorch's optimizers, the library's functions and closed forms."""

import random
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch04.exercises.judges import clip_pieces, predict_first_updates
from course_chapters.ch04.exercises.probes import black_box, gradients_of, rates, setting, trained
from course_grader import exercises
from course_grader.judging import Worked
from course_grader.judging.tensors import all_close, squares
from course_grader.judging.worked import judged_variant
from course_grader.records import Case
from course_lib.model.optimizer import cosine, wsd
from tests.tables import each_of

SPEC = {
    **{"seed": 7, "steps": 9, "dtype": "float64", "size": 3e-8, "shapes": ((4, 3), (5,)), "missing": ((0, 1), (3, 0))},
    **{"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-8, "weight_decay": 0.3, "falls": 0.9},
}


@each_of("decay", ["decoupled", "l2"])
def test_the_worked_optimizer_is_pytorchs(decay):
    parameters, steps = gradients_of(**SPEC)
    leaves, want = [torch.nn.Parameter(p) for p in parameters], []
    kind = torch.optim.AdamW if decay == "decoupled" else torch.optim.Adam
    optimizer = kind(leaves, **{name: SPEC[name] for name in ("lr", "betas", "eps", "weight_decay")})
    for optimizer.param_groups[0]["lr"], gradients in zip(rates(**SPEC), steps, strict=True):
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.grad = gradient
        optimizer.step()
        want += [leaf.detach().clone() for leaf in leaves]
    with judged_variant("write-adamw", {"decay": decay}):
        found = Worked("write-adamw").value(Case(name="", args=(SPEC,)))["parameters"]
    assert all_close(found, want, 1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), ranks=st.integers(1, 8), limit=st.floats(0.1, 9))
def test_no_cut_of_a_gradient_changes_its_norm(seed, ranks, limit):
    pieces = [torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) for n in (20, 13)]
    shards = clip_pieces.cut(pieces, ranks, random.Random(seed))
    whole = squares(pieces) ** 0.5
    assert Worked("clip-pieces")(shards, limit, set()) == pytest.approx(whole)
    clipped = squares(gradient for shard in shards for gradient in shard.values()) ** 0.5
    assert clipped == pytest.approx(min(whole, limit))


def test_both_estimates_of_the_noise_are_unbiased():
    coin = torch.Generator().manual_seed(0)
    truth, spread, steps = torch.full((50,), 0.3), 2.0, 4000
    squares = {n: (truth + spread / n**0.5 * torch.randn(steps, 50, generator=coin)).square().sum(1) for n in (4, 32)}
    variance, squared, _ = Worked("noise-scale")(squares[4].tolist(), squares[32].tolist(), 4, 32)
    assert variance == pytest.approx(50 * spread**2, rel=0.05)
    assert squared == pytest.approx(truth.square().sum().item(), rel=0.1)


@each_of("step", [1, 400, 1000, 1001, 5000, 8000, 9000, 10_000, 10_001, 30_000])
def test_both_shapes_of_the_schedule_are_the_librarys(step):
    given = (step, 3e-4, 3e-5, 1000, 10_000)
    for shape, want in (
        ("cosine", cosine(step, 10_000, 1000, 3e-4, 3e-5)),
        ("wsd", wsd(step, 10_000, 1000, 2000, 3e-4, 3e-5)),
    ):
        with judged_variant("learning-rate", {"shape": shape}):
            assert Worked("learning-rate")(*given) == pytest.approx(want)


def test_the_largest_update_without_correction_comes_after_the_first():
    size, when = predict_first_updates.largest_update(exercises.card("predict-first-updates").params)
    assert size == pytest.approx(6.57, rel=0.01) and when == 12


def test_accumulation_takes_the_step_of_one_large_batch_and_the_printed_loop_does_not():
    spec = {"seed": 3, "optimizer": "sgd", "limit": 0.5, "updates": [[(5, 2), (7, 3), (3, 6)], [(4, 0), (6, 5)]]}
    worked, case = Worked("repair-training-loop"), Case(name="", args=(spec,))
    right, printed = (trained(loop, case)["weights"] for loop in (worked, partial(worked.wrong, "as it was")))
    model, optimizer, schedule, updates = setting(spec)
    for parts in updates:
        flat = [(x, y) for inputs, targets in parts for x, y in zip(inputs.flatten(), targets.flatten(), strict=True)]
        x, y = (torch.stack(column)[None] for column in zip(*flat, strict=True))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), spec["limit"])
        optimizer.step()
        schedule.step()
    assert all_close([p.detach() for p in model.parameters()], right, 1e-10) and not all_close(printed, right, 1e-4)


@each_of("kind", ["decoupled", "unscaled", "l2", "none"])
def test_a_black_box_is_pytorchs_optimizer(kind):
    box = {"kind": kind, "betas": (0.9, 0.99), "eps": 1e-3, "skips": False, "late": False}
    decay = {"decoupled": 0.2, "unscaled": 0.2 / 0.05, "l2": 0.2, "none": 0.0}[kind]
    leaf = torch.nn.Parameter(torch.tensor([2.0, -3.0], dtype=torch.float64))
    make = torch.optim.Adam if kind == "l2" else torch.optim.AdamW
    optimizer = make([leaf], lr=0.05, betas=(0.9, 0.99), eps=1e-3, weight_decay=decay)
    step, p = black_box(0.05, 0.2, **box), leaf.detach().clone()
    for gradient in (torch.tensor([0.1, 0.5], dtype=torch.float64), torch.tensor([-0.3, 0.2], dtype=torch.float64)):
        leaf.grad = gradient
        optimizer.step()
        p = step(p, gradient)
    assert torch.allclose(p, leaf.detach(), rtol=1e-12)
