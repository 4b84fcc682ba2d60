"""Packing loses no document, never overflows, and its mask keeps documents apart: attention and loss are those of each
alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.model import packing, transformer
from tests.tables import each_of

DOCUMENTS = st.lists(st.integers(1, 16), max_size=30)
STRATEGIES = (packing.in_order, packing.first_fit_decreasing)


@given(DOCUMENTS, st.sampled_from(STRATEGIES))
def test_every_document_is_in_one_sequence_and_none_overflows(lengths, pack):
    bins = pack(lengths, 16)
    assert sorted(document for each in bins for document in each) == list(range(len(lengths)))
    assert 0 < packing.utilization(bins, lengths, 16) <= 1
    assert len(bins) >= -(-sum(lengths) // 16)


@given(DOCUMENTS)
def test_longest_first_keeps_its_bound(lengths):
    fewest = -(-sum(lengths) // 16)  # a lower bound of the best
    assert len(packing.first_fit_decreasing(lengths, 16)) <= max(fewest, len(lengths))
    assert len(packing.first_fit_decreasing(lengths, 16)) <= 1.5 * fewest + 1


def test_order_costs_what_longest_first_saves():
    lengths = [9, 8, 9, 7, 7, 8]
    assert packing.in_order(lengths, 16) == [[0], [1], [2, 3], [4, 5]]
    assert packing.first_fit_decreasing(lengths, 16) == [[0, 3], [2, 4], [1, 5]]
    assert packing.utilization([[0], [1], [2, 3], [4, 5]], lengths, 16) == 0.75
    assert packing.utilization([], [], 16) == 1 and packing.in_order([], 16) == []


@each_of(
    "make, message",
    (lambda: packing.in_order([3, 17], 16), "Document 1 has 17 tokens, and a sequence has room for 16"),
    (lambda: packing.first_fit_decreasing([0], 16), "length is 0"),
    (lambda: packing.in_order([1], 0), "room is 0"),
    (lambda: packing.utilization([[0, 1]], [9, 8], 16), "Sequence 0 holds 17 tokens"),
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ids_mask_positions_and_targets_of_one_row():
    ids = packing.document_ids([[2, 0]], [2, 9, 3], 7)
    assert ids.tolist() == [[2, 2, 2, 0, 0, -1, -1]]
    assert packing.document_positions(ids).tolist() == [[0, 1, 2, 0, 1, 0, 1]]
    mask = packing.document_mask(ids)[0]
    assert mask.int().tolist()[2] == [1, 1, 1, 0, 0, 0, 0] and mask.int().tolist()[4] == [0, 0, 0, 1, 1, 0, 0]
    assert mask.int().tolist()[6] == [0, 0, 0, 0, 0, 0, 1], "padding attends to itself"
    tokens = torch.arange(10, 17)[None]
    assert packing.next_token_targets(tokens, ids).tolist() == [[11, 12, -100, 14, -100, -100, -100]]


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_attention_in_a_pack_is_attention_of_each_document_alone(lengths):
    coin = torch.Generator().manual_seed(len(lengths))
    bins = packing.first_fit_decreasing(lengths, 12)
    ids = packing.document_ids(bins, lengths, 12)
    q, k, v = (torch.randn(len(bins), 2, 12, 4, generator=coin, dtype=torch.float64) for _ in range(3))
    mask = packing.document_mask(ids)[:, None]
    packed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert packed.isfinite().all()
    for document in range(len(lengths)):
        row, places = (ids == document).nonzero()[0, 0], (ids == document).any(0)
        alone = transformer.attend(*(t[row : row + 1, :, places] for t in (q, k, v)), "math")
        torch.testing.assert_close(packed[row : row + 1, :, places], alone)
