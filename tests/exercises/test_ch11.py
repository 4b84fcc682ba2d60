"""Chapter 11's exercises: oracles equal torch's attention and its gradients, layouts are those of the library, bounds
can be met."""

import random

import pytest
import torch
from contract.kit import functions_of, graded, mistakes, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch11.exercises.judges.hide_the_ring import tokens_to_hide
from course_chapters.ch11.exercises.judges.reference import cut, shards, whole
from course_chapters.ch11.exercises.probes import mask
from course_grader import exercises
from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant
from course_grader.records import Case
from course_lib.parallel.context import zig_zag
from tests.tables import each_of


@each_of("how", ["contiguous", "zig-zag", "mixed"])
@each_of("name, options", [("causal", {}), ("all", {}), ("window", {"window": 3})])
def test_the_oracle_equals_torch_s_attention_and_its_gradients(how, name, options):
    coin, heads, kv_heads = torch.Generator().manual_seed(5), 4, 2
    rows = shards(coin, cut(13, 3, random.Random(2), how), (name, options), heads, kv_heads, 6)
    at = torch.cat(rows[0][0])
    q, k, v = (torch.cat(each, 1).double().requires_grad_() for each in zip(*(row[2:] for row in rows), strict=True))
    attend = torch.nn.functional.scaled_dot_product_attention
    out = attend(q[None], k[None], v[None], attn_mask=mask((name, options))(at, at), enable_gqa=True)[0]
    pairs = whole(rows)
    torch.testing.assert_close(torch.cat([one for one, _ in pairs], 1), out)
    sizes = [len(own) for own in rows[0][0]]
    grad = torch.randn(out.shape, generator=coin, dtype=torch.float64)
    wants = [each.split(sizes, 1) for each in torch.autograd.grad(out, (q, k, v), grad)]
    given_rows = [
        (*row, *(each.float() for each in (*pair, one)))
        for row, pair, one in zip(rows, pairs, grad.split(sizes, 1), strict=True)
    ]
    found = Worked("ring-backward").value(Case(name="", ranks=3, per_rank=tuple(given_rows)))
    for rank, got in enumerate(found):
        for name, want in zip(("dq", "dk", "dv"), wants, strict=True):
            torch.testing.assert_close(got[name], want[rank].float())


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 200), ranks=st.integers(1, 12))
def test_layouts_hold_every_position_once_and_both_balance(length, ranks):
    right, card = Worked("zig-zag-positions"), exercises.card("zig-zag-positions")
    assert right[0](length, ranks) == [own.tolist() for own in zig_zag(length, ranks)]
    for how in ("zig-zag", "snake"):
        with judged_variant(card.id, {**card.params, "dealt": how}):
            parts = right[0](length, ranks)
        assert sorted(p for own in parts for p in own) == list(range(length))
        assert right[1](parts) <= 1 + 4 * ranks / length


def test_the_bound_of_the_ring_is_where_computation_takes_as_long_as_the_transfer():
    for seen, pairs in (("all", 4), ("causal", 2)):
        link = (4e14, 5e10, 2e-5, 32, 8, 128)
        c = tokens_to_hide(seen, link)
        assert pairs * c * c * 32 * 128 / 4e14 == pytest.approx(2e-5 + 4 * c * 8 * 128 / 5e10)


@pytest.mark.slower
@each_of("exercise, point", [("ring-attention", "local-positions"), ("ring-backward", "left-at-next")])
def test_an_answer_that_misses_the_point_gets_at_most_half(exercise, point):
    answer = next(each for each in shipped(exercise, "wrong") if each.mistake == point)
    report = graded(exercise, *functions_of(answer))
    assert point in mistakes(report) and report.points <= 0.5 * exercises.card(exercise).points
