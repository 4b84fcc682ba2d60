"""Chapter 12's exercises: oracles equal brute force, the library and published numbers."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import facts
from course_lib.exercises.ch12.judges.active_parameters import parameters
from course_lib.exercises.ch12.judges.bias_balance import updated
from course_lib.exercises.ch12.judges.capacity import kept, limit
from course_lib.exercises.ch12.judges.expert_parallel import owner
from course_lib.exercises.ch12.judges.layer import choose, draw, layer
from course_lib.exercises.ch12.judges.node_limited import limited
from course_lib.exercises.ch12.judges.predict_drops import dropped_percent
from course_lib.exercises.ch12.judges.route_tokens import weights_of
from course_lib.exercises.ch12.judges.shared import top
from course_lib.expert_parallel import balance, costs, dropping
from course_lib.expert_parallel import routing as library


def test_the_count_of_parameters_is_mixtral_s_as_published():
    mixtral = facts.model("mixtral-8x7b")
    width, heads, layers = mixtral.hidden, mixtral.heads * mixtral.head_dim, mixtral.layers
    attention = 2 * width * heads + 2 * width * mixtral.kv_heads * mixtral.head_dim
    other = layers * (attention + 2 * width) + width + 2 * mixtral.vocab * width
    row = (layers, width, mixtral.expert_ffn, mixtral.experts, mixtral.top_k, other)
    assert parameters(0, "total", *row) == mixtral.params and parameters(0, "active", *row) == mixtral.active_params


@settings(max_examples=40, deadline=None)
@given(tokens=st.integers(0, 12), experts=st.integers(1, 9), seed=st.integers(0, 10**6), data=st.data())
def test_routing_and_capacity_are_the_library_s(tokens, experts, seed, data):
    coin, k = torch.Generator().manual_seed(seed), data.draw(st.integers(1, experts))
    logits = torch.randn(tokens, experts, generator=coin)
    for rule, name in (("all", "softmax"), ("chosen", "chosen")):
        routing = library.route(logits, k, name)
        ids = top(logits, k)
        assert torch.equal(routing.experts, ids)
        assert torch.allclose(weights_of(rule, logits, ids), routing.weights, atol=1e-6)
    room = data.draw(st.integers(1, 6))
    for by in ("position", "weight"):
        assert torch.equal(kept(by, routing.experts, routing.weights, room), dropping.keep(routing, room, by))


def test_what_chance_drops_is_the_mean_excess_of_a_binomial_count_and_what_a_simulation_drops():
    params = {"tokens": 576, "experts": 16}
    assert dropped_percent(params) == pytest.approx(100 * costs.drop_share(576, 16, 1, 1.0), rel=1e-9)
    coin = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 16, (300, 576), generator=coin)
    excess = torch.stack([(torch.bincount(row, minlength=16) - 36).clamp(min=0).sum() for row in ids]).double().mean()
    assert 100 * excess.item() / 576 == pytest.approx(dropped_percent(params), rel=0.05)
    assert limit(576, 1, 16, 1.0) == 36 and limit(0, 2, 8, 1.0) == 1


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 4), each=st.integers(2, 5), data=st.data())
def test_routing_to_few_nodes_is_the_library_s(seed, nodes, each, data):
    coin, few = torch.Generator().manual_seed(seed), data.draw(st.integers(1, nodes))
    k = few * data.draw(st.integers(1, each))
    scores = torch.randperm(6 * nodes * each, generator=coin).view(6, -1).double()
    want = top(library.limit_nodes(scores, k, nodes, few), k)
    assert torch.equal(limited("sum", scores, k, nodes, few), want)


def test_the_new_bias_is_the_library_s():
    draw_counts = random.Random(2)
    for _ in range(50):
        counts = torch.tensor([draw_counts.randrange(6) for _ in range(5)])
        bias = torch.randn(5)
        assert torch.allclose(updated("sign", bias, counts, 0.01).float(), balance.update_bias(bias, counts, 0.01))


def test_the_layer_s_gradients_are_those_of_finite_differences():
    coin = torch.Generator().manual_seed(1)
    rows, ids, weights, tables, slope = draw(coin, choose(coin, 3, 2, range(4)), 4)

    def loss(weights):
        return (layer("input", (rows, ids, weights, tables, slope))[0] * slope).sum().item()

    gradient, step = layer("input", (rows, ids, weights, tables, slope))[1][1], 1e-3
    for place in ((0, 0), (2, 1)):
        moved = torch.zeros_like(weights)
        moved[place] = step
        slope_here = (loss(weights + moved) - loss(weights - moved)) / (2 * step)
        assert gradient[place].item() == pytest.approx(slope_here, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("placement", ["blocks", "round-robin"])
def test_every_expert_has_one_place(placement):
    places = {owner(placement, expert, 3, 4) for expert in range(12)}
    assert places == {(rank, place) for rank in range(3) for place in range(4)}
