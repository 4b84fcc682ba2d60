"""The ledger: every kept tensor by name, equal to our own terms, and each difference from the printed formula
explained."""

from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_chapters.ch08.ledger_bars import memory_over_a_step
from course_lib import draw as figures
from course_lib.estimate import memory
from course_lib.model import ledger, text
from course_lib.model.accounting import ROLES
from course_lib.model.ledger.recording import _device_peak
from course_lib.model.transformer import Config, build, loss
from tests.tables import each_of

BF16 = torch.bfloat16
PLAIN = {"gated": False, "biases": True, "positions": "learned"}

# name: shape, number format
STEPS = {
    "dense, flash, fp32": ({}, "fp32"),
    "dense, flash, bf16": ({}, "bf16"),
    "dense, flash, autocast": ({}, "autocast"),
    "dense, math, fp32": ({"attention": "math"}, "fp32"),
    "dense, math, bf16": ({"attention": "math"}, "bf16"),
    "dense, math, autocast": ({"attention": "math"}, "autocast"),
    "dense, math, dropout, fp32": ({"attention": "math", "dropout": 0.1}, "fp32"),
    "dense, math, dropout, bf16": ({"attention": "math", "dropout": 0.1}, "bf16"),
    "dense, manual, bf16": ({"attention": "manual"}, "bf16"),
    "dense, manual, dropout, bf16": ({"attention": "manual", "dropout": 0.1}, "bf16"),
    "dense, manual, dropout, autocast": ({"attention": "manual", "dropout": 0.1}, "autocast"),
    "plain MLP, manual, dropout, fp32": ({"attention": "manual", "dropout": 0.1, **PLAIN}, "fp32"),
    "plain MLP, manual, dropout, bf16": ({"attention": "manual", "dropout": 0.1, **PLAIN}, "bf16"),
    "plain MLP, flash, tied, bf16": ({"tied": True, **PLAIN}, "bf16"),
    "grouped, flash, bf16": ({"kv_heads": 2}, "bf16"),
    "grouped, math, dropout, tied, fp32": ({"kv_heads": 2, "attention": "math", "dropout": 0.1, "tied": True}, "fp32"),
    "grouped, manual, autocast": ({"kv_heads": 1, "attention": "manual"}, "autocast"),
    "selective, flash, fp32": ({"checkpointing": "selective"}, "fp32"),
    "selective, grouped, math, dropout, bf16": (
        {"checkpointing": "selective", "kv_heads": 2, "attention": "math", "dropout": 0.1},
        "bf16",
    ),
    "selective, manual, dropout, autocast": (
        {"checkpointing": "selective", "attention": "manual", "dropout": 0.1},
        "autocast",
    ),
    "full, flash, tied, fp32": ({"checkpointing": "full", "tied": True}, "fp32"),
    "full, manual, dropout, bf16": ({"checkpointing": "full", "attention": "manual", "dropout": 0.1}, "bf16"),
    "full, grouped, math, autocast": ({"checkpointing": "full", "kv_heads": 2, "attention": "math"}, "autocast"),
}


def written(config, form="fp32", size=3, seq=None, optimizer=False):
    """The ledger of a step, and the terms that it should have."""
    model = build(config).to(BF16 if form == "bf16" else torch.float32)
    autocast = BF16 if form == "autocast" else None
    seq = seq or config.seq_len
    steps = torch.optim.AdamW(model.parameters()) if optimizer else None
    book = ledger.record(model, *text.batch(0, size, seq), steps, autocast=autocast)
    terms = ledger.expected(config, size, seq, ledger.Backend.of(model, autocast))
    return book, terms


def agree(config, form, size=3, seq=None):
    book, terms = written(config, form, size, seq)
    lines = ledger.reconcile(book, terms)
    assert abs(lines.gap) <= 0.005, lines.table()
    for line in lines.lines:
        assert line.measured == pytest.approx(line.expected, rel=0.005), line
        assert line.why or line.expected == line.printed, f"{line.label} differs from the formula without a reason"
    assert lines.measured == book.saved_bytes == book.after["forward"]["saved for backward"]


@each_of("shape, form", STEPS.values(), ids=STEPS)
def test_what_autograd_keeps_is_the_sum_of_our_terms_label_by_label(shape, form):
    agree(Config(**shape), form)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_terms_hold_for_other_shapes(data):
    draw = data.draw
    attention = draw(st.sampled_from(["flash", "math", "manual"]))
    heads = draw(st.sampled_from([2, 4]))
    config = Config(
        layers=draw(st.integers(1, 3)),
        heads=heads,
        hidden=heads * draw(st.sampled_from([4, 8, 12])),
        kv_heads=draw(st.sampled_from([1, 2])),
        attention=attention,
        dropout=0.0 if attention == "flash" else draw(st.sampled_from([0.0, 0.2])),
        checkpointing=draw(st.sampled_from(["none", "selective", "full"])),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        biases=draw(st.booleans()),
        positions=draw(st.sampled_from(["rotary", "learned"])),
    )
    agree(
        config, draw(st.sampled_from(["fp32", "bf16", "autocast"])), draw(st.integers(1, 4)), draw(st.integers(2, 32))
    )


# --- the printed formula


@given(st.integers(1, 9), st.integers(1, 64), st.sampled_from([1, 2, 4, 8]), st.integers(1, 8), st.integers(1, 4))
def test_with_one_byte_masks_and_dropout_the_same_terms_are_the_printed_formula(batch, seq, heads, width, layers):
    h = heads * 2 * width
    config = Config(layers=layers, hidden=h, heads=heads, dropout=0.1, attention="manual", gated=False, seq_len=seq)
    terms = ledger.expected(config, batch, seq, ledger.PAPER)
    inside = sum(term.nbytes for term in terms if term.layer)
    assert inside * h == seq * batch * h * (34 * h + 5 * heads * seq) * layers
    assert ledger.layer_coefficient(terms, config, batch, seq) == pytest.approx([34 + 5 * heads * seq / h] * 2)
    assert not [term for term in terms if term.layer and term.why]


COEFFICIENTS = [  # bytes of a layer in units of s b h at s = h = 256, a = 8, where the formula says 34 + 40 = 74
    ("manual", 0.1, "bf16", 74 + 2 + 8),  # two bytes a mask: two masks h wide, one of scores
    ("manual", 0.0, "bf16", 74 - 2 - 24),  # no masks, and the softmax goes on as it is
    ("math", 0.1, "bf16", 84 + 6 + 48),  # fp32 copies of q, k, v and of three tensors of scores
    ("math", 0.0, "bf16", 48 + 6 + 16),
    ("flash", 0.0, "bf16", 48 - 16 + 4 * 8 / 256),  # no scores, but a number a head and token
    ("manual", 0.1, "fp32", 2 * 84),
]


@each_of("attention, dropout, dtype, units", COEFFICIENTS)
def test_the_formula_against_kernels_in_units_of_sbh(attention, dropout, dtype, units):
    config = Config(hidden=256, heads=8, seq_len=256, attention=attention, dropout=dropout, **PLAIN)
    backend = ledger.Backend(dtype=dtype, statistics=attention == "flash")
    printed, here = ledger.layer_coefficient(ledger.expected(config, 4, 256, backend), config, 4, 256)
    assert printed == 74
    assert here == pytest.approx(units + (2 * 4 / 256 if backend.statistics else 0))


def test_the_measured_units_are_those_of_the_formula_where_the_kernels_are():
    """A bf16 block with dropout keeps 84 s b h, not 74, and the ten are named: three masks of two bytes an element."""
    config = Config(hidden=64, heads=8, seq_len=64, attention="manual", dropout=0.1, **PLAIN)
    book, terms = written(config, "bf16")
    lines = ledger.reconcile(book, terms)
    inside = {term.label for term in terms if term.layer}
    more = {each.label: each.measured - each.printed for each in lines.differences if each.label in inside}
    masks = {name: size for name, size in more.items() if name.endswith("mask")}
    unit = 3 * 64 * 64 * config.layers
    assert {name: size / unit for name, size in masks.items()} == {
        "attention.softmax_mask": 8,
        "attention.dropout_mask": 1,
        "mlp.dropout_mask": 1,
    }
    assert set(more) - set(masks) == {"norm1.statistics", "norm2.statistics"}


def test_our_terms_are_those_of_the_memory_formulas():
    config = Config(attention="manual", dropout=0.1, kv_heads=4)
    here = {each.label: each.nbytes for each in ledger.expected(config, 2, 32, ledger.PAPER) if each.layer}
    there = {each.name: each.nbytes * config.layers for each in memory.layer_terms(config, 2, 32)}
    assert here == there


def test_a_reconciliation_shows_all_three_and_their_sums():
    book, terms = written(Config(attention="math"), "bf16")
    lines = ledger.reconcile(book, terms)
    table = lines.table()
    assert "the math kernel works on fp32 copies" in table and f"{book.saved_bytes:,}" in table
    assert lines.printed == sum(term.printed for term in terms) != lines.expected
    sizes = [abs(line.measured - line.printed) for line in lines.differences]
    assert sizes == sorted(sizes, reverse=True) and all(sizes)
    strange = ledger.reconcile(book, terms[1:])
    assert strange.lines[-1].label == terms[0].label and strange.lines[-1].why == "not expected"
    assert strange.gap > 0


# --- what is written down


def test_aliased_storage_is_counted_once():
    book, _ = written(Config(layers=1))
    inputs = [each for each in book.kept if each.label == "attention.input"]
    assert [each.where for each in inputs] == [f"blocks.0.attention.{name}" for name in ("wq", "wk", "wv")]
    assert [each.nbytes for each in inputs] == [3 * 32 * 32 * 4, 0, 0]
    assert inputs[1].alias_of == "attention.input"
    weights = [each for each in book.kept if each.alias_of.endswith("weight")]
    assert len(weights) == 7 + 3 + 1 and not any(each.nbytes for each in weights)  # matrices, norms, head
    assert {each.alias_of for each in book.kept if each.dtype == "int64"} == {"tokens", "targets"}


def test_without_dropout_the_softmax_is_its_own_dropped_copy():
    book, _ = written(Config(layers=1, attention="manual"))
    softmax, dropped = (each for each in book.kept if each.label.startswith("attention.softmax"))
    assert dropped.alias_of == "attention.softmax" and dropped.nbytes == 0 < softmax.nbytes


def test_a_tied_head_keeps_the_embeddings_matrix_and_nothing_more():
    apart, _ = written(Config(tied=False))
    tied, _ = written(Config(tied=True))
    assert tied.saved_bytes == apart.saved_bytes
    assert "embedding.weight" in {each.alias_of for each in tied.kept if each.where == "head"}


def test_a_product_keeps_its_second_factor_first():
    """The names of what a gated MLP and the attention's products keep rest on this order."""
    kept = []
    a, b = torch.randn(2, 3, 3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        _ = a * b, a[None] @ b[None]
    assert [torch.equal(t.squeeze(), want) for t, want in zip(kept, (b, a, b, a), strict=True)] == [True] * 4


def test_any_model_can_be_recorded_and_what_has_no_name_has_a_place():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    x, y = torch.randn(5, 8), torch.randn(5, 4)
    book = ledger.record(model, x, y, loss=nn.functional.mse_loss)
    assert book.by_label == {"1: tanh": 5 * 16 * 4, "model: mse_loss": 5 * 4 * 4}  # mse_loss: the output
    assert {each.alias_of for each in book.kept if each.alias_of} == {"tokens", "1: tanh", "2.weight", "targets"}


def test_the_rows_add_up_and_say_where():
    book, _ = written(Config(layers=3), "autocast")
    assert sum(row.nbytes for row in book.rows) == book.saved_bytes
    (row,) = (row for row in book.rows if row.label == "mlp.gate")
    assert (row.count, row.dtype, row.where, row.aliases) == (3, "bfloat16", "blocks.0.mlp", 0)
    assert row.nbytes == 3 * (3 * 32 * 96) * 2
    printed = book.table()
    assert all(row.label in printed for row in book.rows) and f"{book.saved_bytes:,}" in printed
    assert "counted" in str(book)


# --- the whole step


def test_a_recorded_step_is_an_ordinary_step():
    config, batch = Config(), text.batch(0, 3, 32)
    models = [build(config), build(config)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
    for _ in range(2):
        book = ledger.record(models[0], *batch, optimizers[0])
        optimizers[0].zero_grad()
        loss(models[1](batch[0]), batch[1]).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in models[0].modules())
    again = ledger.record(models[0], *batch, optimizers[0])
    assert again.kept == book.kept and again.peak_bytes == book.peak_bytes


def test_every_live_byte_of_a_step_has_a_role():
    config = Config(attention="manual")
    book, _ = written(config, optimizer=True)
    weights = 4 * memory.count_params(config)
    tables = 4 * config.layers * 2 * config.seq_len * config.head_dim // 2  # cosines and sines
    batch = 2 * 3 * 32 * 8
    nothing = dict.fromkeys(ROLES, 0)
    assert book.after["forward"] == {
        **nothing,
        "parameters": weights + tables,
        "saved for backward": book.saved_bytes,
        "temporary": batch + 4,  # and the loss
    }
    assert book.after["backward"] == {
        **nothing,
        "parameters": weights + tables,
        "gradients": weights,
        "temporary": batch + 4,
    }
    matrices = len(list(build(config).parameters()))
    states = book.after["optimizer step"]["optimizer state"]
    assert states == 2 * weights + 4 * matrices  # and a step count each
    assert sum(book.by_role.values()) == book.peak_bytes == book.counted_peak_bytes
    assert book.flops > 0


def test_gradients_and_states_that_were_there_before_have_their_role_from_the_start():
    model = build(Config())
    optimizer = torch.optim.AdamW(model.parameters())
    first = ledger.record(model, *text.batch(0, 2, 32), optimizer)
    second = ledger.record(model, *text.batch(1, 2, 32), optimizer)
    for role in ("gradients", "optimizer state"):
        assert first.after["forward"][role] == 0
        assert second.after["forward"][role] == first.after["optimizer step"][role] > 0


def test_the_timeline_reaches_the_peak_and_ends_each_phase_as_the_roles_say():
    book, _ = written(Config(checkpointing="full"), optimizer=True)
    line = book.timeline
    assert max(line.total) == book.peak_bytes
    assert list(line.ends) == ["forward", "backward", "optimizer step"]
    for phase, end in line.ends.items():
        assert {role: steps[end] for role, steps in line.roles.items()} == book.after[phase]
    assert line.roles["parameters"][0] > 0 == line.roles["saved for backward"][0]


def test_checkpointing_keeps_less_and_computes_more():
    kinds = ("none", "selective", "full")
    none, selective, full = (written(Config(checkpointing=kind, attention="manual"))[0] for kind in kinds)
    assert none.saved_bytes > selective.saved_bytes > full.saved_bytes
    assert none.flops < selective.flops < full.flops
    assert none.peak_bytes > full.peak_bytes


# --- devices


def test_on_a_gpu_the_peak_is_what_its_allocator_says(monkeypatch):
    asked = []
    readings = {"max_memory_allocated": 12345, "max_memory_reserved": 20000}
    for name in ("synchronize", "reset_peak_memory_stats", *readings):
        monkeypatch.setattr(torch.cuda, name, lambda device, name=name: asked.append(name) or readings.get(name))
    read = []
    with _device_peak(torch.device("cuda"), read):
        assert asked == ["synchronize", "reset_peak_memory_stats"]
    assert read == [ledger.DevicePeak(allocated=12345, reserved=20000)]
    assert asked.index("synchronize", 1) == 2  # what still runs is waited for
    book, _ = written(Config())
    assert book.device is None and replace(book, device=read[0]).peak_bytes == 12345
    assert "by the device's allocator" in str(replace(book, device=read[0]))


def test_a_gpus_masks_have_one_byte():
    weight = SimpleNamespace(dtype=BF16, device=torch.device("cuda"))
    model = SimpleNamespace(parameters=lambda: iter([weight]))
    assert ledger.Backend.of(model) == ledger.Backend(dtype="bf16", mask_bytes=1)


def test_the_same_call_reads_the_device_where_there_is_one():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(Config(attention="math")).to(device)
    book = ledger.record(model, *(each.to(device) for each in text.batch(0, 3, 32)))
    assert (book.device is None) is (device.type == "cpu")
    assert book.peak_bytes >= book.counted_peak_bytes > 0  # an allocator rounds up


# --- bad input


@each_of(
    "ask, words",
    (lambda: ledger.Backend(dtype="fp8"), "dtype is 'fp8'; choose from fp32, bf16, fp16"),
    (lambda: ledger.Backend(dtype="bf16", autocast=True), "use dtype='fp32'"),
    (lambda: ledger.Backend(mask_bytes=0), "mask_bytes is 0"),
    (lambda: ledger.Backend.of(build(Config()).double()), "parameters are torch.float64"),
    (lambda: ledger.expected(Config(), 0, 8), "batch is 0"),
    (lambda: ledger.expected(Config(), 2, -8), "seq is -8"),
    (lambda: ledger.record(build(Config()).eval(), *text.batch(0, 1, 8)), r"call model.train\(\)"),
    (lambda: ledger.record(build(Config()), *text.batch(0, 1, 8), autocast="bf16"), "give torch.bfloat16"),
)
def test_what_cannot_be_recorded_is_refused_in_words(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


# --- the picture


@pytest.fixture(scope="module")
def step():
    return written(Config(layers=4), optimizer=True)[0].timeline


def test_the_picture_of_a_step_says_its_peak_and_what_each_phase_leaves(step):
    figure = memory_over_a_step(step)
    assert "Peak of" in figure.alt and "during the" in figure.alt
    assert all(f"after the {phase}: weights" in figure.alt for phase in step.ends)
    after = figure.alt.split("after the optimizer step")[1]
    assert "moments" in after and "gradients" in after and "activations" not in after
    root = ElementTree.fromstring(figures.svg(figure))
    assert root.get("aria-label") == figure.alt
    assert figures.svg(figure) == figures.svg(memory_over_a_step(step))
    assert len(figures.svg(figure, outlines=False)) < 150_000


def test_the_picture_is_as_high_as_the_peak_and_a_fixed_axis_stays(step):
    (axes,) = memory_over_a_step(step).axes
    unit = 1e6 if max(step.total) >= 1e6 else 1e3
    (dot,) = axes.lines[-1:]
    assert dot.get_ydata()[0] * unit == max(step.total) and step.total[dot.get_xdata()[0]] == max(step.total)
    areas = max(path.vertices[:, 1].max() for area in axes.collections for path in area.get_paths())
    assert areas * unit == pytest.approx(max(step.total))
    (fixed,) = memory_over_a_step(step, top=5e6).axes
    assert fixed.get_ylim() == (0, 5)


def test_an_empty_timeline_has_no_picture():
    with pytest.raises(ValueError, match="has no bytes"):
        memory_over_a_step(ledger.Timeline(dict.fromkeys(ROLES, []), {}))


def test_a_step_that_ends_after_the_backward_pass_is_drawn_too():
    book, _ = written(Config(), optimizer=False)
    assert "optimizer" not in memory_over_a_step(book.timeline).alt
