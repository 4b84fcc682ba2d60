"""The course's optimizers, clipping and schedules equal torch's, and bad input is refused or counted."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.cluster import simulate
from course_lib.model import optimizer as own
from course_lib.model.optimizer.steps import RULES
from tests.tables import each_of

PAIRS = {
    "sgd": (own.SGD, torch.optim.SGD, {"lr": 0.1}),
    "sgd, momentum": (own.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd, Nesterov and L2": (
        own.SGD,
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
    ),
    "adam": (own.Adam, torch.optim.Adam, {"lr": 0.01}),
    "adam, L2": (own.Adam, torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.3, "betas": (0.8, 0.95)}),
    "adamw": (own.AdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.3}),
    "adamw, large eps": (own.AdamW, torch.optim.AdamW, {"lr": 0.01, "eps": 0.1, "betas": (0.0, 0.5)}),
}


def weights(dtype, seed=0, shapes=((4, 3), (5,))):
    """Parameters of these shapes, the same for one seed."""
    coin = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=coin, dtype=torch.float64).to(dtype)) for shape in shapes]


def gradients(step, dtype, shapes=((4, 3), (5,))):
    """Gradients of very different sizes, one of them zero at times."""
    coin = torch.Generator().manual_seed(100 + step)
    return [
        (torch.randn(shape, generator=coin, dtype=torch.float64) * 10.0 ** (step % 5 - 3)).to(dtype) for shape in shapes
    ]


@each_of("dtype", [torch.float64, torch.float32])
@each_of("name", PAIRS)
def test_every_optimizer_is_torchs_step_by_step(name, dtype):
    rule, torchs, options = PAIRS[name]
    mine, theirs = weights(dtype), weights(dtype)
    ours, reference = rule(mine, **options), torchs(theirs, **options)
    near = 1e-13 if dtype == torch.float64 else 4e-6
    for step in range(50):
        for pair, grad in zip(zip(mine, theirs, strict=True), gradients(step, dtype), strict=True):
            for each in pair:
                each.grad = grad.clone()
        ours.step()
        reference.step()
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=near, atol=near)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon of its own")
@pytest.mark.parametrize("shape", [(4, 3), (3, 8), (5, 5)])
def test_muon_is_torchs_where_torch_has_one(shape):
    mine, theirs = weights(torch.float32, 1, (shape,)), weights(torch.float32, 1, (shape,))
    ours, reference = own.Muon(mine, lr=0.02, dtype=torch.bfloat16), torch.optim.Muon(theirs, lr=0.02)
    for step in range(10):
        (grad,) = gradients(step, torch.float32, (shape,))
        mine[0].grad, theirs[0].grad = grad.clone(), grad.clone()
        ours.step()
        reference.step()
        torch.testing.assert_close(mine[0], theirs[0], rtol=0, atol=1e-6)


@each_of("shape", [(6, 4), (4, 6), (5, 5), (1, 3)])
def test_orthogonalize_brings_all_singular_values_near_one(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values = torch.linalg.svdvals(own.orthogonalize(matrix))
    assert bool(((values > 0.6) & (values < 1.25)).all()), values
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    assert torch.trace(own.orthogonalize(matrix).T @ (u @ vh)) > 0.6 * min(shape), "along the matrix, not against it"
    with pytest.raises(ValueError, match="train vectors with AdamW"):
        own.orthogonalize(torch.ones(3))


def test_lion_moves_every_number_by_the_rate_and_follows_the_papers_order():
    (weight,) = weights(torch.float64, shapes=((6,),))
    before, m = weight.detach().clone(), torch.zeros(6, dtype=torch.float64)
    lion = own.Lion([weight], lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    for step in range(5):
        (grad,) = gradients(step, torch.float64, ((6,),))
        weight.grad = grad
        lion.step()
        before = before - 0.1 * (torch.sign(0.9 * m + (1 - 0.9) * grad) + 0.5 * before)
        m = 0.99 * m + (1 - 0.99) * grad
        torch.testing.assert_close(weight.detach(), before)
    assert lion.state_bytes() == weight.nbytes


def test_the_update_as_a_function_is_the_class():
    (weight,) = weights(torch.float64, shapes=((7,),))
    param, m, v = weight.detach().clone(), torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    adamw = own.AdamW([weight], lr=0.02, weight_decay=0.1)
    for step in range(1, 6):
        (weight.grad,) = gradients(step, torch.float64, ((7,),))
        adamw.step()
        param, m, v = own.adamw_update(param, weight.grad, m, v, step, 0.02, weight_decay=0.1)
        torch.testing.assert_close(weight.detach(), param, rtol=1e-14, atol=1e-14)
    assert adamw.state_bytes() == 2 * weight.nbytes
    with pytest.raises(ValueError, match="counts from 1"):
        own.bias_corrected(m, v, 0)


def test_the_first_step_is_the_rate_whatever_the_gradients_size_and_without_correction_it_is_not():
    for scale in (1e-3, 1.0, 1e3):
        for correct, expected in ((True, 0.1), (False, 0.1 * 0.1 / 0.001**0.5)):
            weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
            weight.grad = torch.full_like(weight, scale)
            own.Adam([weight], lr=0.1, correct=correct).step()
            assert weight.item() == pytest.approx(-expected, rel=1e-3)


def test_decay_through_adams_ratio_does_not_depend_on_its_size_but_adamws_does():
    """With a gradient of zero, L2 in Adam moves a weight by the rate at any λ; AdamW moves it by the rate × λ × the
    weight."""
    for decay in (0.01, 0.1):
        moved = {}
        for rule in (own.Adam, own.AdamW):
            weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
            weight.grad = torch.zeros_like(weight)
            rule([weight], lr=0.1, weight_decay=decay).step()
            moved[rule] = 2 - weight.item()
        assert moved[own.Adam] == pytest.approx(0.1) and moved[own.AdamW] == pytest.approx(0.1 * decay * 2)


@each_of("bad", [float("nan"), float("inf"), -float("inf")])
@each_of("name", RULES)
def test_a_step_with_a_gradient_that_is_not_finite_changes_nothing(name, bad):
    good, ill = weights(torch.float32)
    rule = own.build(name, [good, ill])
    good.grad, ill.grad = torch.ones_like(good), torch.ones_like(ill)
    rule.step()
    kept = [good.detach().clone(), ill.detach().clone()]
    ill.grad[2] = bad
    with pytest.raises(FloatingPointError, match=r"parameter 1, shape \(5,\)"):
        rule.step()
    assert torch.equal(good, kept[0]) and torch.equal(ill, kept[1]) and rule.state[good]["step"] == 1


def test_a_guard_clips_skips_counts_and_gives_up():
    (weight,) = weights(torch.float64, shapes=((4,),))
    guard = own.Guard(own.SGD([weight], lr=1.0), most=1.0, patience=3)
    said = []
    for size in (0.1, 3.0, float("nan"), float("inf"), 0.2, float("nan"), float("nan")):
        before = weight.detach().clone()
        weight.grad = torch.zeros_like(weight)
        weight.grad[0] = size
        said.append(guard.step())
        assert (weight.detach() - before).norm().item() == pytest.approx(
            {"whole": size, "clipped": 1, "skipped": 0}[said[-1]]
        )
    assert said == ["whole", "clipped", "skipped", "skipped", "whole", "skipped", "skipped"]
    assert (guard.skipped, guard.clipped, len(guard.norms)) == (4, 1, 7)
    with pytest.raises(FloatingPointError, match="3 steps in a row"):
        guard.step()


@each_of(
    "make, message",
    (lambda w: own.SGD([]), "got no parameters"),
    (lambda w: own.SGD([w, w]), "parameter twice"),
    (lambda w: own.AdamW([w], weight_decay=-0.1), "weight_decay is -0.1"),
    (lambda w: own.AdamW([w], lr=-1.0), "lr is -1.0"),
    (lambda w: own.AdamW([w], lr=float("nan")), "lr is nan"),
    (lambda w: own.AdamW([w], lr=float("inf")), "lr is infinite"),
    (lambda w: own.AdamW([w], betas=(0.9, 1.0)), "less than 1"),
    (lambda w: own.Lion([w], betas=(0.9,)), "give two"),
    (lambda w: own.SGD([w], nesterov=True), "momentum is 0"),
    (lambda w: own.Adam([w], weight_decy=0.1), "no setting 'weight_decy'; it has lr, betas"),
    (lambda w: own.Lion([{"params": [w], "eps": 1e-8}]), "no setting 'eps'"),
    (lambda w: own.build("adamm", [w]), "no optimizer 'adamm'; choose from sgd, adam, adamw, lion"),
    (lambda w: own.decay_groups(nn.Linear(2, 2), -1.0), "weight_decay is -1.0"),
    (lambda w: own.clip_([w], 0.0), "most is 0.0"),
)
def test_bad_settings_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make(nn.Parameter(torch.ones(2)))


def test_groups_have_settings_of_their_own_and_a_tensor_without_gradient_stays():
    first, second, third = weights(torch.float64, shapes=((2,), (2,), (2,)))
    rule = own.SGD([{"params": [first], "lr": 0.5}, {"params": [second, third]}], lr=0.1)
    first.grad, second.grad = torch.ones_like(first), torch.ones_like(second)
    before = [each.detach().clone() for each in (first, second, third)]
    rule.step()
    moved = [(b - each.detach()).max().item() for each, b in zip((first, second, third), before, strict=True)]
    assert moved == pytest.approx([0.5, 0.1, 0.0])
    rule.set_lr(0.0)
    rule.step()
    rule.zero_grad()
    assert first.grad is None and rule.grads == []


def test_decay_groups_take_matrices_only_and_a_tied_one_once():
    model = nn.Module()
    model.embedding, model.norm, model.head = nn.Embedding(5, 3), nn.LayerNorm(3), nn.Linear(3, 5)
    model.head.weight = model.embedding.weight
    matrices, vectors = own.decay_groups(model, 0.1)
    assert [each.shape for each in matrices["params"]] == [(5, 3)] and matrices["weight_decay"] == 0.1
    assert len(vectors["params"]) == 3 and vectors["weight_decay"] == 0
    own.AdamW(own.decay_groups(model, 0.1))
    assert len(own.decay_groups(nn.Linear(2, 2, bias=False), 0.1)) == 1, "a group without parameters is left out"


# --- clipping ------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=0, max_size=4), min_size=1, max_size=4), st.floats(1e-3, 1e4))
def test_clipping_is_torchs(rows, most):
    """torch divides by the norm plus a millionth, which is all that may differ."""
    mine = [torch.tensor(row, dtype=torch.float64) for row in rows]
    theirs = [nn.Parameter(torch.zeros_like(each)) for each in mine]
    for parameter, grad in zip(theirs, mine, strict=True):
        parameter.grad = grad.clone()
    norm = own.clip_(mine, most)
    assert norm == pytest.approx(nn.utils.clip_grad_norm_(theirs, most).item())
    assert own.global_norm(mine) <= most * (1 + 1e-12)
    for parameter, grad in zip(theirs, mine, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1.1e-6 / max(norm, most), atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 23), st.randoms(use_true_random=False), st.sampled_from([0.5, 100.0]))
def test_any_split_of_the_gradient_over_ranks_is_clipped_as_the_whole(ranks, length, coin, most):
    whole = torch.tensor([coin.gauss(0, 1) for _ in range(length)], dtype=torch.float64)
    owner = torch.tensor([coin.randrange(ranks) for _ in range(length)], dtype=torch.int64)

    def work(comm):
        shard = whole[owner == comm.rank].clone()
        return own.clip_sharded_(comm, [shard[:2], shard[2:]], most), shard

    run = simulate(work, ranks)
    clipped = whole.clone()
    norm = own.clip_([clipped], most)
    for rank, (said, shard) in enumerate(run.results):
        assert said == pytest.approx(norm, rel=1e-12, abs=1e-12)
        torch.testing.assert_close(shard, clipped[owner == rank], rtol=1e-12, atol=1e-12)
    assert run.meter.total_bytes <= 8 * 2 * max(ranks - 1, 0) * ranks, "one number, not the gradient"


def test_an_infinite_norm_scales_nothing_and_is_told():
    grads = [torch.tensor([1.0, float("inf")]), torch.ones(2)]
    assert math.isinf(own.clip_(grads, 1.0)) and grads[1].tolist() == [1, 1]
    assert math.isnan(own.clip_([torch.tensor([float("nan")])], 1.0))
    assert own.clip_([], 1.0) == 0


# --- schedules -----------------------------------------------------------------------------------


def test_a_warm_up_is_linear_and_starts_at_zero():
    assert [own.linear_warmup(step, 4) for step in range(6)] == [0, 0.25, 0.5, 0.75, 1, 1]
    assert own.linear_warmup(0, 0) == 1


def test_the_cosine_is_torchs_after_the_warm_up():
    weight = nn.Parameter(torch.zeros(1))
    reference = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(reference, T_max=80, eta_min=0.1)
    for step in range(20, 101):
        assert own.cosine(step, 100, 20, peak=1.0, floor=0.1) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        reference.step()
        theirs.step()


@each_of("schedule", [own.constant, own.cosine, own.wsd])
def test_the_edges_of_every_schedule(schedule):
    assert schedule(0, 10, 2, peak=3.0) == 0
    assert schedule(2, 10, 2, peak=3.0) == 3.0
    assert schedule(11, 10, 2, peak=3.0, floor=0.3) == 0.3
    assert schedule(1, 10, peak=3.0) == pytest.approx(3.0, rel=0.03), "no warm-up: the first step is near the peak"
    assert schedule(5, 5, 5, peak=3.0) == 3.0, "all warm-up"
    assert schedule(1, 1, peak=3.0, floor=3.0) == 3.0
    for wrong, message in (
        ({"steps": 0}, "steps is 0"),
        ({"steps": 10, "warmup": 11}, "longer than the run"),
        ({"steps": 10, "floor": 2.0}, "above peak"),
        ({"steps": 10, "warmup": -1}, "warmup is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            schedule(1, **wrong)
    with pytest.raises(ValueError, match="step is -1"):
        schedule(-1, 10)


def test_wsd_decays_at_the_end_only_and_its_past_does_not_know_the_end():
    rates = [own.wsd(step, 10, 2, 4, peak=1.0, floor=0.2) for step in range(12)]
    assert rates == pytest.approx([0, 0.5, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert [own.wsd(step, 100, 2, 4) for step in range(6)] == [own.wsd(step, 10, 2, 4) for step in range(6)]
    with pytest.raises(ValueError, match="do not fit"):
        own.wsd(1, 10, 6, 5)


# --- batches and noise ---------------------------------------------------------------------------


def test_batches_multiply_and_what_does_not_divide_is_said_with_what_would():
    assert own.effective_batch(4, 8, 16) == 512 and own.accumulation_steps(512, 4, 16) == 8
    with pytest.raises(ValueError, match="choose 448 or 512"):
        own.accumulation_steps(500, 4, 16)
    with pytest.raises(ValueError, match="choose 64, or"):
        own.accumulation_steps(3, 4, 16)
    with pytest.raises(ValueError, match="accumulation is 0"):
        own.effective_batch(4, 0, 16)


def test_a_mean_of_means_is_not_the_mean():
    assert own.weighted_mean([2.0, 5.0], [1, 3]) == 4.25
    assert own.weighted_mean([2.0, float("nan")], [4, 0]) == 2.0, (
        "a micro-batch of zero tokens has a mean of 0/0, and no say"
    )
    for means, counts, message in (
        ([1.0], [0], "no items"),
        ([1.0], [1, 2], "1 means and 2"),
        ([1.0], [-1], "count is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            own.weighted_mean(means, counts)


def test_both_measurements_of_the_noise_scale_are_unbiased():
    coin = torch.Generator().manual_seed(5)
    true, spread = torch.full((40,), 0.1, dtype=torch.float64), 2.0  # |G|² = 0.4, tr Σ = 160
    by_samples, by_batches = [], []
    for _ in range(600):
        grads = true + spread * torch.randn(64, 40, generator=coin, dtype=torch.float64)
        by_samples.append(own.noise_scale_of_samples(grads))
        small = grads.view(16, 4, 40).mean(1).square().sum(1).mean().item()
        by_batches.append(own.noise_scale_two_batches(4, 64, small, grads.mean(0).square().sum().item()))
    for found in (by_samples, by_batches):
        assert sum(each.signal for each in found) / 600 == pytest.approx(0.4, rel=0.1)
        assert sum(each.noise for each in found) / 600 == pytest.approx(160, rel=0.02)
    exact = own.NoiseScale(0.4, 160.0)
    assert exact.batch == pytest.approx(400) and exact.squared_norm(400) == pytest.approx(0.8)
    back = own.noise_scale_two_batches(8, 32, exact.squared_norm(8), exact.squared_norm(32))
    assert (back.signal, back.noise) == pytest.approx((0.4, 160.0))
    assert own.NoiseScale(-0.1, 5.0).batch == math.inf
    for wrong in (
        lambda: own.noise_scale_two_batches(8, 8, 1.0, 1.0),
        lambda: own.noise_scale_of_samples(torch.ones(1, 3)),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_the_critical_batch_is_found_where_both_prices_double():
    true = own.CriticalBatch(100.0, 3200.0)
    sizes = [4, 8, 16, 32, 64, 128, 512]
    found = own.fit_critical_batch(sizes, [true.steps(size) for size in sizes])
    assert (found.min_steps, found.min_samples, found.batch) == pytest.approx((100.0, 3200.0, 32.0))
    assert found.steps(32) == pytest.approx(200) and found.samples(32) == pytest.approx(6400)
    for size in sizes:
        assert (found.steps(size) / 100 - 1) * (found.samples(size) / 3200 - 1) == pytest.approx(1)
    with pytest.raises(ValueError, match="two different batches"):
        own.fit_critical_batch([8, 8], [10, 10])
    with pytest.raises(ValueError, match="must be positive"):
        own.fit_critical_batch([1, 10], [10, 20])
