"""Context parallelism equals attention on one rank: outputs, every gradient, bytes, work, memory, and a training."""

import math

import pytest
import torch
from torch.nn import functional as F

from course_lib.cluster import RankError, Topology, simulate
from course_lib.cluster.parity import apart
from course_lib.model import text, transformer
from course_lib.parallel import context as cp
from course_lib.parallel.context import costs
from course_lib.parallel.context.model import WAYS
from course_lib.parallel.data import DataParallel
from course_lib.parallel.data.token_weighting import loss_scale
from course_lib.parallel.sharding import FullySharded
from course_lib.parallel.tensor import full_gradients, parallelize
from tests.tables import each_of

LAYOUTS = {"contiguous": cp.contiguous, "zig-zag": cp.zig_zag, "striped": cp.striped}


def tensors(length, heads=4, kv_heads=2, dim=8, batch=(), dtype=torch.float64, seed=0):
    """Queries, keys, values and the output's gradient of a whole sequence."""
    coin = torch.Generator().manual_seed(seed)
    shapes = ((heads, length, dim), (kv_heads, length, dim), (kv_heads, length, dim), (heads, length, dim))
    return [torch.randn(*batch, *shape, generator=coin, dtype=torch.float64).to(dtype) for shape in shapes]


def whole(q, k, v, grad, mask):
    """Output and gradients by torch's own attention, in float64."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    everything = torch.arange(q.shape[-2])
    seen = mask.visible(everything, everything)
    many = [x.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for x in leaves[1:]]
    out = F.scaled_dot_product_attention(leaves[0], *many, attn_mask=seen)
    out.backward(grad.double())
    return [out.detach(), *(x.grad for x in leaves)]


def one_rank(comm, way, q, k, v, grad, positions, mask):
    """A rank's output and gradients, and the bytes that it sent forward."""
    own = positions[comm.rank]
    leaves = [cp.cut(x, own).requires_grad_() for x in (q, k, v)]
    out, _ = WAYS[way](comm, *leaves, positions, mask)
    out.backward(cp.cut(grad, own))
    return [out.detach(), *(x.grad for x in leaves)]


def run(way, positions, mask=cp.CAUSAL, dtype=torch.float64, **shape):
    given = tensors(sum(map(len, positions)), dtype=dtype, **shape)
    done = simulate(one_rank, len(positions), args=(way, *given, positions, mask), account=True)
    together = [cp.join(parts, positions) for parts in zip(*done.results, strict=True)]
    return done, together, whole(*given, mask)


# --- equal to the whole


@each_of("way", WAYS)
@each_of("layout", LAYOUTS)
@each_of("length, ranks", [(24, 4), (23, 4), (5, 4), (3, 4), (9, 1)])
def test_every_way_equals_full_attention_in_output_and_gradients(way, layout, length, ranks):
    _, got, want = run(way, LAYOUTS[layout](length, ranks))
    for name, mine, exact in zip(("out", "dq", "dk", "dv"), got, want, strict=True):
        assert apart(mine, exact, 64 * length) < 1, name


@each_of("way", WAYS)
@each_of("heads", [(4, 4), (8, 1), (8, 2)])
def test_grouped_heads_and_a_batch(way, heads):
    _, got, want = run(way, cp.zig_zag(18, 4), heads=heads[0], kv_heads=heads[1], batch=(2,))
    assert all(apart(mine, exact, 64 * 18) < 1 for mine, exact in zip(got, want, strict=True))


@each_of("way", WAYS)
def test_tensors_may_have_any_memory_layout(way):
    def part(comm, *given):
        strided = [cp.cut(x, positions[comm.rank]).transpose(0, 1).contiguous().transpose(0, 1) for x in given]
        assert not strided[0].is_contiguous()
        return WAYS[way](comm, *strided, positions)[0]

    positions, given = cp.zig_zag(16, 2), tensors(16)
    done = simulate(part, 2, args=given[:3])
    assert torch.allclose(cp.join(done.results, positions), whole(*given, cp.CAUSAL)[0])


@each_of("way", WAYS)
def test_bf16_differs_by_its_own_roundings_alone(way):
    _, got, want = run(way, cp.zig_zag(32, 4), dtype=torch.bfloat16)
    for mine, exact in zip(got, want, strict=True):
        assert mine.dtype == torch.bfloat16
        # scores, weights and sums are fp32; inputs and results are rounded
        assert apart(mine, exact.bfloat16(), 16) < 1


@each_of("way", WAYS)
@each_of(
    "mask",
    cp.FULL,
    cp.Mask(window=4),
    cp.Mask(documents=torch.tensor([0] * 7 + [1] * 3 + [2] * 11)),
    cp.Mask(causal=False, documents=torch.tensor([0] * 7 + [1] * 3 + [2] * 11), window=5),
)
def test_masks_by_global_position(way, mask):
    for layout in (cp.contiguous, cp.zig_zag):
        _, got, want = run(way, layout(21, 3), mask, heads=6, kv_heads=3)
        assert all(apart(mine, exact, 64 * 21) < 1 for mine, exact in zip(got, want, strict=True))


def test_a_merge_in_any_order_and_without_keys():
    q, k, v, _ = tensors(12)
    seen = torch.rand(12, 12, generator=torch.Generator().manual_seed(1)) < 0.4
    seen[3] = False  # a query that sees no key at all
    out, log_sum = cp.attend(q, k, v, seen)
    parts = [cp.attend(q, k[:, c], v[:, c], seen[:, c]) for c in (slice(0, 5), slice(5, 5), slice(5, 12))]
    for order in (parts, parts[::-1], [cp.merge(parts[:2]), parts[2]]):
        again, again_sum = cp.merge(order)
        assert torch.allclose(again, out) and torch.allclose(again_sum, log_sum)
    assert (out[:, 3] == 0).all() and (log_sum[:, 3] == -math.inf).all()
    k[0, 0, 0] = math.nan
    assert cp.merge([cp.attend(q, k, v, None)])[0].isnan().any(), "a NaN stays visible"
    with pytest.raises(ValueError, match="no part"):
        cp.merge([])


def test_scores_of_a_thousand_do_not_overflow():
    q, k, v, _ = tensors(8, dtype=torch.float32)
    parts = [cp.attend(1e3 * q, 1e3 * k[:, c], v[:, c]) for c in (slice(0, 3), slice(3, 8))]
    assert torch.isfinite(cp.merge(parts)[0]).all()


# --- bytes, work, memory, time


@each_of("dtype", [torch.float64, torch.bfloat16])
@each_of("ranks", [1, 2, 4])
def test_bytes_are_those_predicted(ranks, dtype):
    shape, size = {"heads": 8, "kv_heads": 2, "dim": 8}, dtype.itemsize
    wide = max(size, 4)
    predicted = {
        "ring": costs.ring_traffic(32, 2, 8, ranks, size, wide),
        "gather": costs.gather_traffic(32, 2, 8, ranks, size, wide),
        "ulysses": costs.ulysses_traffic(32, 8, 2, 8, ranks, size),
    }
    for way, traffic in predicted.items():
        done, _, _ = run(way, cp.zig_zag(32, ranks), dtype=dtype, **shape)
        assert set(done.meter.bytes_sent) == {traffic.nbytes}, way
        if way == "ring":
            assert set(done.meter.messages_sent) == {traffic.forward_messages + traffic.backward_messages}


def test_grouped_heads_make_gathering_cheaper_than_ulysses():
    few, many = (costs.ring_traffic(8192, kv, 128, 8).forward for kv in (8, 64))
    assert many == 8 * few
    assert costs.ulysses_traffic(8192, 64, 8, 128, 8).forward > 0
    assert (
        costs.gather_traffic(8192, 8, 128, 8, regather=False).nbytes == costs.ring_traffic(8192, 8, 128, 8).forward * 2
    )
    assert costs.ulysses_fits(64, 8) == [1, 2, 4, 8, 16, 32, 64] and costs.ulysses_fits(12, 4) == [1, 2, 4, 12]


@each_of("ranks", [2, 4, 8])
def test_work_of_a_zig_zag_is_even_and_that_of_contiguous_parts_is_not(ranks):
    length = 8 * ranks
    work = {name: cp.pairs(layout(length, ranks)) for name, layout in LAYOUTS.items()}
    assert all(sum(each) == length * (length + 1) // 2 for each in work.values())
    assert len(set(work["zig-zag"])) == 1
    assert cp.imbalance(work["contiguous"]) == pytest.approx(costs.contiguous_imbalance(ranks), rel=0.05)
    assert work["contiguous"] == cp.pairs(cp.contiguous(length, ranks), cp.Mask(window=length)), (
        "counted by the mask too"
    )


def test_metered_work_is_balanced_within_a_block():
    flops = {name: run("ring", layout(32, 4), heads=2, kv_heads=1)[0].meter.flops for name, layout in LAYOUTS.items()}
    assert max(flops["zig-zag"]) < 1.02 * min(flops["zig-zag"])
    assert max(flops["contiguous"]) > 3 * min(flops["contiguous"])


@each_of("length, ranks", [(37, 4), (50, 3), (3, 4), (0, 2)])
def test_layouts_of_any_length_have_every_token_once(length, ranks):
    for layout in LAYOUTS.values():
        positions = layout(length, ranks)
        assert torch.cat(positions).sort()[0].tolist() == list(range(length))
        block = -(-length // (2 * ranks))
        if layout is cp.zig_zag:
            work = cp.pairs(positions)
            assert max(work) - min(work) <= 2 * block * length + block
    x = torch.randn(2, 37, 3)
    parts = cp.zig_zag(37, 4)
    assert torch.equal(cp.join([cp.cut(x, own) for own in parts], parts), x)


def test_packed_documents_are_split_evenly_by_work():
    lengths = [301, 17, 90, 5, 1, 150]
    positions = cp.split_documents(lengths, 4)
    mask = cp.Mask(documents=torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)))
    assert torch.cat(positions).sort()[0].tolist() == list(range(sum(lengths)))
    even, naive = (cp.imbalance(cp.pairs(each, mask)) for each in (positions, cp.zig_zag(sum(lengths), 4)))
    assert even < 1.02 < 1.1 < naive


def test_a_ring_never_holds_the_keys_of_the_whole_sequence():
    peaks = {}
    for way in ("ring", "gather"):
        peaks[way] = [run(way, cp.zig_zag(length, 4), cp.FULL, heads=1, kv_heads=1, dim=64)[0] for length in (64, 128)]
    block = 2 * 128 // 4 * 64 * 8
    held = {way: max(done[1].meter.peak_bytes) for way, done in peaks.items()}
    assert held["gather"] - held["ring"] > block


def test_sends_only_what_a_window_needs():
    window, ranks, length = 3, 4, 16
    done, _, _ = run("needed", cp.contiguous(length, ranks), cp.Mask(window=window), heads=2, kv_heads=1, dim=8)
    assert set(done.meter.pairs) >= {(0, 1), (1, 0), (1, 2), (2, 3)}
    rows = (window - 1) * 2 * 8 * 8
    assert done.meter.bytes_sent == [rows, 2 * rows, 2 * rows, rows], (
        "keys to the next rank, gradients to the one before"
    )
    needed = cp.needed_keys(cp.contiguous(length, ranks), cp.Mask(window=window))
    assert [len(each) for each in needed[2]] == [0, 2, 4, 0]


def clocked(comm, q, k, v, grad, positions, overlap):
    own = positions[comm.rank]
    leaves = [cp.cut(x, own).requires_grad_() for x in (q, k, v)]
    cp.ring_attention(comm, *leaves, positions, cp.FULL, overlap)[0].backward(cp.cut(grad, own))


def test_transfers_hide_behind_attention_from_the_predicted_length_on():
    bandwidth, flops, heads, kv_heads = 1e9, 1e10, 4, 2
    fewest = costs.tokens_to_hide(heads, kv_heads, flops, bandwidth, 8)
    assert fewest == 2 * kv_heads * 8 / bandwidth * flops / (4 * heads)
    link = Topology.flat(0.0, bandwidth, flops)
    for tokens, hidden in ((int(fewest) // 4, False), (4 * int(fewest), True)):
        given = tensors(4 * tokens, heads, kv_heads, 2)
        times = {}
        for overlap in (True, False):
            done = simulate(clocked, 4, args=(*given, cp.contiguous(4 * tokens, 4), overlap), topology=link)
            times[overlap] = done
        forward = 4 * costs.attention_flops(tokens**2, heads, 2) / flops
        total = forward + 4 * costs.attention_flops(tokens**2, heads, 2, True) / flops
        home = 2 * tokens * kv_heads * 2 * 8 / bandwidth  # the last hop of gradients has nothing to hide behind
        assert times[True].seconds < times[False].seconds
        assert (times[True].seconds <= (total + home) * 1.001) == hidden


# --- errors that say what would fit


@each_of(
    "way, ranks, shape, said",
    ("ulysses", 3, {"heads": 4, "kv_heads": 2}, r"\[1, 2, 4\] would fit"),
    ("ulysses", 4, {"heads": 2, "kv_heads": 2}, r"\[1, 2\] would fit"),
    ("ring", 2, {"heads": 5, "kv_heads": 2}, r"choose from \[1, 5\]"),
)
def test_errors_name_what_fits(way, ranks, shape, said):
    given = tensors(12, **shape)
    positions = cp.zig_zag(12, ranks)
    with pytest.raises(RankError, match=said):
        simulate(one_rank, ranks, args=(way, *given, positions, cp.CAUSAL))


def test_a_layout_that_does_not_fit_is_refused():
    given = tensors(12)
    with pytest.raises(RankError, match="one per rank"):
        simulate(one_rank, 2, args=("ring", *given, cp.zig_zag(12, 3), cp.CAUSAL))
    for wrong in (-1, 2.5):
        with pytest.raises(ValueError, match="whole number"):
            cp.zig_zag(wrong, 2)


# --- a transformer, trained

CONFIG = transformer.Config(layers=2, hidden=32, heads=4, kv_heads=2, seq_len=16)
STEPS = 3


def alone(config, steps=STEPS, dtype=torch.float64):
    model = transformer.build(config).to(dtype)
    step = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for number in range(steps):
        tokens, targets = text.batch(number, 4, 16)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses, {name: p.grad for name, p in model.named_parameters()}


def together(comm, config, mesh, way, sequence_parallel, sharded):
    groups = cp.groups(comm, **mesh)
    model = transformer.build(config).double()
    if mesh.get("tp", 1) > 1:
        model = parallelize(model, groups["tp"], sequence_parallel=sequence_parallel)
    inner, data = model, groups["data"]
    context = cp.context_parallelize(model, groups["cp"], cp.zig_zag(16, groups["cp"].size), way)
    if sharded:
        model = FullySharded(data, model, list(model.blocks))
        step = torch.optim.AdamW(model.shards(), 1e-2)
    else:
        model = DataParallel(data, model)
        step = torch.optim.AdamW(inner.parameters(), 1e-2)
    losses = []
    for number in range(STEPS):
        tokens, targets = (
            x.chunk(groups["dp"].size)[groups["dp"].rank][:, context.own] for x in text.batch(number, 4, 16)
        )
        step.zero_grad()
        logits = model(tokens)
        if hasattr(inner, "pieces"):
            total = inner.loss(logits, targets) * targets.numel()
        else:
            total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        scale = loss_scale(data, targets.numel())
        (total * scale).backward()
        model.finish()
        if hasattr(inner, "pieces"):
            inner.finish()
        step.step()
        mean = (total.detach() * scale).clone()
        data.all_reduce(mean)
        losses.append(mean.item() / data.size)
    if sharded:
        return losses, None
    found = (
        full_gradients(inner) if hasattr(inner, "pieces") else {name: p.grad for name, p in inner.named_parameters()}
    )
    return losses, found


@pytest.mark.slower
@each_of(
    "mesh, way, sequence_parallel, sharded",
    ({"cp": 4}, "ring", False, False),
    ({"cp": 2, "tp": 2}, "ring", True, False),
    ({"dp": 2, "cp": 2}, "gather", False, False),
    ({"dp": 2, "cp": 2, "tp": 2}, "ring", False, False),
    ({"cp": 2, "tp": 2}, "ulysses", False, False),
    ({"dp": 2, "cp": 2}, "ring", False, True),
)
def test_a_transformer_trains_as_on_one_rank(mesh, way, sequence_parallel, sharded):
    config = CONFIG if way != "ulysses" else transformer.Config(layers=2, hidden=32, heads=4, kv_heads=4, seq_len=16)
    want, gradients = alone(config)
    done = simulate(together, math.prod(mesh.values()), args=(config, mesh, way, sequence_parallel, sharded))
    for losses, found in done.results:
        assert losses == pytest.approx(want, rel=1e-9)
        for name, grad in (found or {}).items():
            assert torch.allclose(grad, gradients[name], rtol=1e-6, atol=1e-9), name


def test_learned_positions_are_global_ones():
    config = transformer.Config(layers=1, hidden=16, heads=2, seq_len=16, positions="learned")
    model, tokens = transformer.build(config), text.batch(0, 2, 16)[0]

    def part(comm):
        mine = transformer.build(config)
        context = cp.context_parallelize(mine, comm, cp.zig_zag(16, 2))
        return mine(tokens[:, context.own]).detach()

    done = simulate(part, 2)
    assert torch.allclose(cp.join(done.results, cp.zig_zag(16, 2)), model(tokens), atol=1e-5)


@each_of(
    "change, way, said", [({"dropout": 0.1}, "ring", "dropout"), ({}, "belt", "one of"), ({}, "ulysses", "would fit")]
)
def test_a_model_that_cannot_be_split_is_refused(change, way, said):
    config = transformer.Config(layers=1, hidden=24, heads=3, seq_len=16, **change)

    def part(comm):
        cp.context_parallelize(transformer.build(config), comm, cp.zig_zag(16, 2), way)

    with pytest.raises(RankError, match=said):
        simulate(part, 2)
