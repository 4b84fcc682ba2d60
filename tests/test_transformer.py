"""The course's model: one set of numbers whichever way it is run, weights from a seed, errors in words."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from course_lib.estimate import memory
from course_lib.model import text
from course_lib.model.transformer import (
    Attention,
    Config,
    RMSNorm,
    _Normalise,
    attend,
    build,
    loss,
    rotary_tables,
    rotate,
)
from tests.tables import each_of

SHAPES = {
    "plain": {},
    "grouped heads": {"kv_heads": 2},
    "one key head": {"kv_heads": 1, "tied": True},
    "not gated": {"gated": False, "biases": True, "positions": "learned"},
    "tied": {"tied": True, "layers": 3},
}


def step(config, seed=0, dropout_seed=0, dtype=torch.float32):
    """The loss and the gradients of one batch."""
    model = build(config, seed).to(dtype)
    tokens, targets = text.batch(0, 3, config.seq_len)
    torch.manual_seed(dropout_seed)
    value = loss(model(tokens), targets)
    value.backward()
    return value.detach(), {name: p.grad for name, p in model.named_parameters()}


def same(one, other, tolerance):
    assert torch.allclose(one[0], other[0], rtol=tolerance, atol=0)
    assert one[1].keys() == other[1].keys()
    for name, gradient in one[1].items():
        scale = max(gradient.abs().max(), 1e-3)  # a key's bias has none, up to rounding
        assert (gradient - other[1][name]).abs().max() <= tolerance * scale, name


@each_of("shape", SHAPES.values(), ids=SHAPES)
def test_every_kernel_and_every_checkpointing_gives_the_same_loss_and_gradients(shape):
    plain = step(Config(**shape))
    for attention, checkpointing in product(("flash", "math", "manual"), ("none", "selective", "full")):
        same(plain, step(Config(**shape, attention=attention, checkpointing=checkpointing)), 2e-5)


@each_of("attention", ["math", "manual"])
def test_checkpointing_draws_the_same_dropout_again(attention):
    base = Config(dropout=0.3, attention=attention)
    plain = step(base)
    for checkpointing in ("selective", "full"):
        same(plain, step(replace(base, checkpointing=checkpointing)), 1e-6)
    assert step(base, dropout_seed=1)[0] != plain[0]


def test_nothing_is_dropped_and_nothing_computed_again_when_it_does_not_train():
    model = build(Config(dropout=0.5, checkpointing="full")).eval()  # flash, which has no dropout to do
    tokens, _ = text.batch(0, 2, 32)
    assert torch.equal(model(tokens), model(tokens))
    assert torch.equal(model(tokens), build(Config()).eval()(tokens))


def test_bf16_and_autocast_stay_near_fp32():
    exact = step(Config())
    rounded = step(Config(), dtype=torch.bfloat16)
    assert rounded[1]["head.weight"].dtype == torch.bfloat16 and abs(rounded[0] - exact[0]) < 0.02 * exact[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = step(Config())
    assert mixed[1]["head.weight"].dtype == torch.float32 and abs(mixed[0] - exact[0]) < 0.02 * exact[0]


@each_of("attention", ["flash", "math", "manual"])
def test_a_token_reads_those_before_it_and_no_later_one(attention):
    model = build(Config(attention=attention)).eval()
    tokens, _ = text.batch(0, 1, 32)
    changed = tokens.clone()
    changed[0, 20] = (changed[0, 20] + 1) % 64
    before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :20], after[:, :20], atol=1e-6)
    assert all((before[0, at] - after[0, at]).abs().max() > 1e-4 for at in range(20, 32))


@each_of("positions", ["rotary", "learned"])
def test_the_order_of_what_was_read_matters(positions):
    model = build(Config(positions=positions)).eval()
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    assert not torch.allclose(model(tokens)[0, -1], model(tokens[:, [1, 0, 2, 3, 4]])[0, -1], atol=1e-3)


def test_rotation_keeps_lengths_and_makes_products_depend_on_distance_alone():
    cos, sin = rotary_tables(16, 8)
    q, k = torch.randn(2, 8)
    turned_q, turned_k = (rotate(x.expand(1, 16, 1, 8), cos, sin)[0, :, 0] for x in (q, k))
    assert torch.allclose(turned_q.norm(dim=-1), q.norm().expand(16), atol=1e-5)
    products = turned_q @ turned_k.T
    for distance in (-3, 0, 5):
        line = products.diagonal(distance)
        assert torch.allclose(line, line[0].expand_as(line), atol=1e-4)


def test_heads_share_keys_and_values_with_their_neighbors():
    q, k, v = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    shared = attend(q, k, v, "flash")
    for head in range(4):
        alone = attend(q[:, head : head + 1], *(t[:, head // 2 : head // 2 + 1] for t in (k, v)), "flash")
        assert torch.allclose(shared[:, head : head + 1], alone, atol=1e-6)


def test_attention_is_what_the_formula_says():
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    want = torch.zeros_like(q)
    for head, at in product(range(2), range(5)):
        scores = torch.tensor([float(q[0, head, at] @ k[0, head, j]) / 2 for j in range(at + 1)])
        weights = scores.exp() / scores.exp().sum()
        want[0, head, at] = sum(w * v[0, head, j] for j, w in enumerate(weights))
    for kind in ("flash", "math", "manual"):
        assert torch.allclose(attend(q, k, v, kind), want, atol=1e-5), kind


def test_the_norm_and_its_gradient_are_those_of_plain_operations():
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, weight: _Normalise.apply(x, weight, 1e-5), (x, weight))
    norm = RMSNorm(8).double()
    assert torch.allclose(norm(x), F.rms_norm(x, (8,), eps=1e-5))


def test_the_norm_keeps_its_input_and_one_number_a_token():
    kept = []
    x = torch.randn(2, 5, 32, dtype=torch.bfloat16, requires_grad=True)
    norm = RMSNorm(32).bfloat16()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        norm(x)
    assert [(tuple(t.shape), t.dtype) for t in kept if t is not norm.weight] == [
        ((2, 5, 32), torch.bfloat16),
        ((2, 5, 1), torch.float32),
    ]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([4, 8]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["rotary", "learned"]),
)
def test_parameters_are_as_many_as_the_formula_counts(layers, kv, head_dim, gated, tied, biases, positions):
    config = Config(
        layers=layers, hidden=4 * head_dim, kv_heads=kv, gated=gated, tied=tied, biases=biases, positions=positions
    )
    model = build(config)
    h, f, narrow, b = config.hidden, config.ffn, kv * head_dim, int(biases)
    attention = 2 * h * (h + b) + 2 * narrow * (h + b)
    mlp = (1 + gated) * f * (h + b) + h * (f + b)
    ends = config.vocab * h * (1 if tied else 2) + h + (config.seq_len * h if positions == "learned" else 0)
    assert sum(p.numel() for p in model.parameters()) == layers * (attention + mlp + 2 * h) + ends
    assert (model.head.weight is model.embedding.weight) is tied


def test_weights_follow_from_the_seed_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one = build(Config(), seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    random.seed(4)
    again, other = build(Config(), seed=1), build(Config(), seed=2)
    for name, weight in one.named_parameters():
        assert torch.equal(weight, again.get_parameter(name))
        assert weight.ndim == 1 or not torch.equal(weight, other.get_parameter(name))


def test_a_state_dict_holds_the_parameters_and_nothing_else():
    model = build(Config(tied=True))
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters(remove_duplicate=False)}


def test_fewer_heads_in_the_matrices_make_a_smaller_attention_of_the_same_class():
    config = Config(kv_heads=2)
    whole, part = Attention(config), Attention(config)
    rows = slice(0, 16)  # heads 0 and 1, which read key head 0
    part.wq.weight = nn.Parameter(whole.wq.weight[rows])
    part.wk.weight, part.wv.weight = (nn.Parameter(w.weight[:8]) for w in (whole.wk, whole.wv))
    part.wo.weight = nn.Parameter(whole.wo.weight[:, rows])
    x = torch.randn(2, 9, 32)
    silenced = Attention(config)
    silenced.load_state_dict(whole.state_dict())
    with torch.no_grad():
        silenced.wo.weight[:, 16:] = 0
    assert torch.allclose(part(x), silenced(x), atol=1e-6)


@each_of(
    "options, learning_rate",
    [({}, 1e-2), ({"gated": False, "positions": "learned", "kv_heads": 2}, 1e-2), ({"tied": True}, 1e-2)],
    ids=["plain", "plain MLP, learned positions", "tied"],
)
def test_it_learns_the_text_in_fifty_steps(options, learning_rate):
    config = Config(**options)
    model = build(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    losses = []
    for number in range(50):
        tokens, targets = text.batch(number, 16, config.seq_len)
        value = loss(model(tokens), targets)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert 4 < losses[0] < 5.5 and max(losses[-5:]) < 2


def test_what_is_left_out_is_filled_in():
    config = Config(hidden=64)
    assert (config.kv_heads, config.ffn, config.head_dim) == (4, 176, 16)
    assert Config(hidden=64, gated=False).ffn == 256
    assert replace(config, heads=8, kv_heads=None).kv_heads == 8


def test_the_shape_is_one_that_the_memory_formulas_read():
    model = build(Config(kv_heads=2, tied=True))
    assert memory.count_params(model.config) == sum(p.numel() for p in model.parameters())


@each_of(
    "options, words",
    ({"layers": 0}, "layers is 0"),
    ({"hidden": -8}, "hidden is -8"),
    ({"vocab": 1.5}, "vocab is 1.5"),
    ({"ffn": 0}, "ffn is 0"),
    ({"kv_heads": 0}, "kv_heads is 0"),
    ({"heads": 5}, r"heads=5 does not divide hidden=32; choose heads from \[1, 2, 4, 8, 16, 32\]"),
    ({"kv_heads": 3}, r"kv_heads=3 does not divide heads=4; choose kv_heads from \[1, 2, 4\]"),
    ({"heads": 32}, "leaves 1 a head; make it even"),
    ({"dropout": 1.0}, "dropout is 1.0"),
    ({"attention": "fast"}, "attention is 'fast'; it must be one of 'flash', 'math', 'manual'"),
    ({"checkpointing": "all"}, "checkpointing is 'all'; it must be one of 'none', 'selective', 'full'"),
    ({"positions": "none"}, "positions is 'none'"),
)
def test_a_shape_that_cannot_be_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        Config(**options)


def test_a_sequence_that_is_too_long_is_refused_and_a_shorter_one_is_not():
    model = build(Config(seq_len=8))
    assert model(torch.zeros(1, 5, dtype=torch.long)).shape == (1, 5, 64)
    with pytest.raises(ValueError, match="9 tokens is longer than the model's seq_len=8"):
        model(torch.zeros(1, 9, dtype=torch.long))


def test_dropout_that_the_cpus_flash_kernel_lacks_is_refused():
    with pytest.raises(ValueError, match="use attention='math' or 'manual', or dropout=0"):
        step(Config(dropout=0.1))


def test_targets_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 7\) do not fit logits of shape \(2, 8, 64\)"):
        loss(torch.zeros(2, 8, 64), torch.zeros(2, 7, dtype=torch.long))
