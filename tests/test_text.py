"""The course's text: written by its generator, small in characters, dealt out in numbered samples."""

import hashlib
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.model import text
from tests.tables import each_of

FIRST = "d3252c2bd4f7ec78"


def test_the_shipped_text_is_what_its_generator_writes():
    assert text.write() == text.text() == text.FILE.read_bytes().decode()
    assert 100_000 < len(text.text()) < 300_000


def test_another_seed_writes_another_text_and_fewer_stories_its_beginning():
    assert text.write(3, seed=1) != text.write(3, seed=0)
    assert text.text().startswith(text.write(3))


def test_the_sums_in_the_text_are_right():
    sums = [each.split(":")[1].rstrip(".") for each in text.text().split(". ") if "=" in each]
    assert len(sums) > 500
    for each in sums:
        left, total = each.split("=")
        first, second = left.split("+")
        assert int(first) + int(second) == int(total)


def test_the_vocabulary_fits_the_model_and_codes_every_character():
    assert len(text.vocabulary()) <= 64
    tokens = text.encode(text.text())
    assert tokens.dtype == torch.int64 and int(tokens.max()) < 64
    assert text.decode(tokens) == text.text()


def test_a_character_without_a_token_is_named():
    with pytest.raises(ValueError, match="No token for 'ßü'"):
        text.encode("Ada üß")


def test_targets_are_the_tokens_that_come_next():
    tokens, targets = text.batch(3, 5, 20)
    assert tokens.shape == targets.shape == (5, 20)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert all(text.decode(row) in text.text() for row in torch.cat([tokens, targets[:, -1:]], dim=1))


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 4), st.integers(0, 99))
def test_a_batch_is_its_parts_in_a_row(step, size, parts, seed):
    whole = text.batch(step, size * parts, 16, seed)
    split = [text.batch(step * parts + part, size, 16, seed) for part in range(parts)]
    assert torch.equal(whole[0], torch.cat([tokens for tokens, _ in split]))
    assert torch.equal(whole[1], torch.cat([targets for _, targets in split]))


def test_a_batch_follows_from_its_arguments_alone():
    torch.manual_seed(1)
    random.seed(1)
    before = torch.get_rng_state(), random.getstate()
    first = text.batch(7, 4, 32, seed=5)[0]
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]
    torch.manual_seed(2)
    assert torch.equal(first, text.batch(7, 4, 32, seed=5)[0])
    assert not torch.equal(first, text.batch(7, 4, 32, seed=6)[0])
    first[:] = 0  # a batch is the caller's own
    assert text.batch(7, 4, 32, seed=5)[0].any()


def test_samples_spread_over_the_whole_text_without_repeating():
    room = len(text.text()) // 20
    rows = [text.decode(row) for row in text.batch(0, 200, 60)[0]]
    starts = [text.text().index(row) for row in rows]
    assert len(set(rows)) == 200 and {start // room for start in starts} >= set(range(19))


def test_the_first_batch_stays_what_it_was():
    """Parity tables of other chapters rest on these samples."""
    digest = hashlib.sha256(text.decode(text.batch(0, 8, 32)[0]).encode()).hexdigest()
    assert digest.startswith(FIRST)


@each_of(
    "arguments, words",
    ((-1, 4, 8), "step is -1"),
    ((0, 0, 8), "size is 0"),
    ((0, 4, -3), "seq_len is -3"),
    ((0, 4, 8, -1), "seed is -1"),
    ((0, 4, 10**9), "less than the text's"),
)
def test_a_batch_that_cannot_be_is_refused_in_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        text.batch(*arguments)
