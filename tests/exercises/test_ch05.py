"""Chapter 05's exercises: oracles equal torch's casts, its gradient scaler and float64, and bounds hold for every order
of a sum."""

import math
import random

import pytest
import torch
from contract.kit import functions_of, graded, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch05.exercises.judges.predict_lost import lost_percent
from course_chapters.ch05.exercises.judges.round_to_format import points
from course_chapters.ch05.exercises.judges.stochastic_rounding import ups
from course_chapters.ch05.exercises.judges.tolerance_design import DTYPES, ROUNDOFF, explained
from course_grader import exercises
from course_grader.judging import Worked, judging
from course_grader.judging.worked import judged_variant
from tests.tables import each_of

rounded, lost = Worked("round-to-format"), Worked("lost-update")
FLOATS = {(5, 10): torch.float16, (8, 7): torch.bfloat16, (5, 2): torch.float8_e5m2}


@each_of("sizes, dtype", FLOATS.items())
def test_the_worked_answer_rounds_like_torch_at_every_number_tie_and_neighbor(sizes, dtype):
    x = points(*sizes)
    x = torch.cat([x, -x]).float().double()  # torch casts by way of fp32, so start there
    assert torch.equal(rounded(x, *sizes), x.to(dtype).double())


@settings(max_examples=200, deadline=None)
@given(
    weight=st.integers(128, 255), power=st.integers(-20, 10), step=st.sampled_from(["grow", "shrink"]), bits=st.just(7)
)
def test_the_threshold_is_where_updates_begin_to_survive_in_bf16(weight, power, step, bits):
    w = weight * 2.0**power
    with judged_variant("lost-update", {"step": step}):
        sign, half = (1 if step == "grow" else -1), lost[0](w, bits)
    for factor, survives in ((0.99, False), (1.01, True)):
        new = rounded(torch.tensor([w + sign * factor * half], dtype=torch.float64), 8, 7).item()
        assert (new != w) == survives


def test_the_share_of_lost_updates_is_what_bf16_loses():
    coin, params = torch.Generator().manual_seed(3), {"deviation": 0.02, "rate": 5e-5}
    w = (torch.randn(200_000, generator=coin, dtype=torch.float64) * params["deviation"]).float().bfloat16()
    new = (w.float() + params["rate"] * torch.randn(len(w), generator=coin).sign()).bfloat16()
    assert 100 * (new == w).double().mean().item() == pytest.approx(lost_percent(params), abs=0.5)


@settings(max_examples=30, deadline=None)
@given(overflows=st.lists(st.booleans(), max_size=25), interval=st.integers(1, 5))
def test_the_scaler_follows_torch_s_own(overflows, interval):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=interval)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer, found = torch.optim.SGD([weight], lr=0.0), [2.0**30]
    for overflow in overflows:
        scaler.scale(torch.zeros(()))  # creates the scale
        weight.grad = torch.tensor([torch.inf if overflow else 1.0])
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    worked = Worked("loss-scaler")(2.0**30, interval)  # high enough that 1 is never reached
    scales = [worked.scale, *((worked.update(each), worked.scale)[1] for each in overflows)]
    assert scales == found


@settings(max_examples=300, deadline=None)
@given(x=st.floats(2.0**-126, 2.0**120, width=32), dropped=st.sampled_from([13, 16]))
def test_the_mean_over_all_noises_is_the_number(x, dropped):
    value = torch.tensor([x], dtype=torch.float32)
    up = ups(value, dropped).item()
    bits = value.view(torch.int32).item()
    low = torch.tensor([bits - up], dtype=torch.int32).view(torch.float32).double()
    high = torch.tensor([bits - up + 2**dropped], dtype=torch.int32).view(torch.float32).double()
    share = up / 2**dropped
    assert (low * (1 - share) + high * share).item() == pytest.approx(x, rel=1e-12)


@each_of("name", ["stochastic-rounding", "round-to-format", "kahan-weights", "block-scaled"])
def test_an_answer_that_returns_its_argument_earns_little(name):
    card = exercises.card(name)
    report = graded(name, lambda x, *_: x)
    assert report.points <= 0.2 * card.points and not report.passed


@settings(max_examples=150, deadline=None)
@given(data=st.data(), form=st.sampled_from(sorted(DTYPES)), size=st.integers(1, 60))
def test_rounding_explains_a_sum_in_every_order(data, form, size):
    numbers = data.draw(st.lists(st.floats(-100, 100, width=16), min_size=size, max_size=size))
    terms = torch.tensor(numbers, dtype=torch.float64).to(DTYPES[form])
    exact = terms.double()
    todo, draw = list(terms), data.draw(st.randoms(use_true_random=False))
    while len(todo) > 1:  # any tree of additions
        one, two = (todo.pop(draw.randrange(len(todo))) for _ in range(2))
        todo.append(one + two)
    row = todo[0].item(), exact.sum().item(), exact.abs().sum().item(), size, ROUNDOFF[form]
    # partial sums may exceed the magnitude by what was rounded before: (1 + u)^(n - 1) in place of 1
    compounded = ((1 + row[4]) ** (size - 1) - 1) * row[2]
    assert abs(row[0] - row[1]) <= compounded * (1 + 1e-12) + 1e-300 and explained(*row) is not False


def test_tensors_without_memory_elsewhere_in_the_process_do_not_upset_the_softmax_probe():
    """The probe looks at every tensor that is alive: a sparse one has no storage, one of torch's compiler no memory."""
    others = torch.eye(3).to_sparse(), torch._to_functional_tensor(torch.ones(3))
    report = graded("online-softmax", *functions_of(shipped("online-softmax", "right")[0]))
    assert report.passed and {type(each) for each in others} == {torch.Tensor}


def test_all_ranks_take_the_step_of_one_process_or_none():
    card = exercises.card("overflow-everywhere")
    for case in judging(card.id).cases(card.params, random.Random(3)):
        weights, gradients, (scale, *_), (rate, *_), (most, *_) = zip(*case.per_rank, strict=True)
        fine = all(each.isfinite().all() for each in gradients)
        norm = math.sqrt(sum(each.double().square().sum().item() for each in gradients)) / scale
        step = rate / scale * min(1.0, most / norm if norm else 1.0) if fine else 0.0
        for rank, got in enumerate(Worked(card.id).value(case)):
            assert bool(got["stepped"]) == fine
            change = step * gradients[rank].double() if fine else 0.0
            want = (weights[rank].double() - change).float()
            torch.testing.assert_close(got["weights"], want, rtol=1e-4, atol=1e-9)
