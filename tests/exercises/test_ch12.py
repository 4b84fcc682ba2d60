"""Chapter 12's exercises: worked answers equal the library, simulations and published numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch12.exercises.judges.predict_drops import dropped_percent
from course_chapters.ch12.exercises.judges.shared import top
from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant
from course_lib.estimate import facts
from course_lib.parallel.expert import balance, expert_capacity, experts, node_limited
from course_lib.parallel.expert import routing as library


def test_the_count_of_parameters_is_mixtral_s_as_published():
    mixtral, count = facts.model("mixtral-8x7b"), Worked("active-parameters")
    width, heads, layers = mixtral.hidden, mixtral.heads * mixtral.head_dim, mixtral.layers
    attention = 2 * width * heads + 2 * width * mixtral.kv_heads * mixtral.head_dim
    other = layers * (attention + 2 * width) + width + 2 * mixtral.vocab * width
    row = (layers, width, mixtral.expert_ffn, mixtral.experts, mixtral.top_k, other)
    assert count[0](*row) == mixtral.params and count[1](*row) == mixtral.active_params


@settings(max_examples=40, deadline=None)
@given(tokens=st.integers(0, 12), count=st.integers(1, 9), seed=st.integers(0, 10**6), data=st.data())
def test_routing_capacity_and_layer_are_the_library_s(tokens, count, seed, data):
    coin, k = torch.Generator().manual_seed(seed), data.draw(st.integers(1, count))
    logits, x = torch.randn(tokens, count, generator=coin), torch.randn(tokens, 4, generator=coin)
    for rule, name in (("all", "softmax"), ("chosen", "chosen")):
        routing = library.route(logits, k, name)
        with judged_variant("route-tokens", {"softmax": rule}):
            ids, weights = Worked("route-tokens")(logits, k)
        assert torch.equal(routing.experts, ids) and torch.allclose(weights, routing.weights, atol=1e-6)
    whole = experts.Experts(count, 4, 6)
    torch.nn.utils.vector_to_parameters(torch.randn(count * 72, generator=coin), whole.parameters())
    each = [lambda rows, expert=expert: whole.one(expert, rows) for expert in range(count)]
    output = Worked("group-by-expert")(x, ids, weights, each)
    assert torch.allclose(output, experts.dense_mixture(x, routing, whole), atol=1e-4)
    room = data.draw(st.integers(1, 6))
    for by in ("position", "weight"):
        with judged_variant("capacity", {"keeps": by}):
            kept = Worked("capacity")[1](ids, weights, room)
        assert torch.equal(kept, expert_capacity.keep(routing, room, by))


def test_what_chance_drops_is_what_a_simulation_drops():
    params = {"tokens": 576, "experts": 16}
    coin = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 16, (300, 576), generator=coin)
    excess = torch.stack([(torch.bincount(row, minlength=16) - 36).clamp(min=0).sum() for row in ids]).double().mean()
    assert 100 * excess.item() / 576 == pytest.approx(dropped_percent(params), rel=0.05)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4), each=st.integers(2, 5), data=st.data())
def test_routing_to_few_nodes_is_the_library_s(seed, count, each, data):
    coin, few = torch.Generator().manual_seed(seed), data.draw(st.integers(1, count))
    k, worked = few * data.draw(st.integers(1, each)), Worked("node-limited")
    scores = torch.randperm(6 * count * each, generator=coin).view(6, -1).double()
    ids = worked[0](scores, k, count, few)
    assert torch.equal(ids, top(library.limit_nodes(scores, k, count, few), k))
    routing = library.Routing(ids, torch.ones(ids.shape), scores)
    home = torch.full((6,), count - 1)
    assert worked[1](ids, home, count * each, count) == node_limited.network_rows(routing, count - 1, count)[1]


def test_the_new_bias_is_the_library_s():
    coin = torch.Generator().manual_seed(2)
    for _ in range(50):
        counts, bias = torch.randint(0, 6, (5,), generator=coin), torch.randn(5, generator=coin)
        assert torch.allclose(Worked("bias-balance")[1](bias, counts, 0.01), balance.update_bias(bias, counts, 0.01))
