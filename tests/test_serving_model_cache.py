"""The cached and the paged model against the plain one: the same logits, the same tokens, in any order, chunking and
page."""

import random

import pytest
import torch

from course_lib.model import transformer
from course_lib.model.transformer import Config
from course_lib.operate.serving.model_cache import Chunk, KVCache, PagedCache, cached_logits, generate, paged_logits
from tests.tables import each_of

CONFIGS = {
    "rotary, MHA": Config(hidden=32, heads=4, seq_len=48),
    "GQA": Config(hidden=32, heads=4, kv_heads=2, seq_len=48),
    "MQA, tied": Config(hidden=32, heads=4, kv_heads=1, tied=True, seq_len=48),
    "learned positions, biases, not gated": Config(positions="learned", biases=True, gated=False, seq_len=48),
    "one layer, three heads": Config(layers=1, hidden=24, heads=3, seq_len=48),
}


def model_of(name, dtype=torch.float64):
    return transformer.build(CONFIGS[name], seed=3).to(dtype).eval()


def tokens_of(count, seed=0):
    coin = random.Random(seed)
    return [coin.randrange(64) for _ in range(count)]


@each_of("name", CONFIGS)
def test_a_contiguous_cache_gives_the_logits_of_the_whole_sequence(name):
    model = model_of(name)
    tokens = torch.tensor([tokens_of(40, seed) for seed in range(3)])
    cache = KVCache(model.config, 3, torch.float64)
    parts = [cached_logits(model, cache, part) for part in tokens.split([17, 1, 1, 9, 1, 11], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens).detach(), rtol=1e-11, atol=1e-11)
    assert cache.length == 40


@each_of("name", CONFIGS)
@each_of("page_size", [1, 5, 16])
def test_pages_in_any_order_give_the_logits_of_the_whole_sequence(name, page_size):
    """Five sequences of different lengths come, go and are cut into chunks at random; free pages hold huge numbers."""
    model, coin = model_of(name), random.Random(page_size)
    cache = PagedCache(model.config, -(-48 // page_size) * 5, page_size, torch.float64)
    cache.keys.fill_(1e30), cache.values.fill_(1e30)
    pages = coin.sample(range(cache.pages), cache.pages)
    each = cache.pages // 5
    texts = [tokens_of(length, length) for length in (48, 1, 33, 20, 2)]
    tables = [pages[row * each : (row + 1) * each] for row in range(5)]
    done = [0] * 5
    while any(at < len(text) for at, text in zip(done, texts, strict=True)):
        rows = [row for row in range(5) if done[row] < len(texts[row]) and coin.random() < 0.7] or [
            next(row for row in range(5) if done[row] < len(texts[row]))
        ]
        ends = [min(len(texts[row]), done[row] + coin.choice((1, 1, 2, 7, 19))) for row in rows]
        chunks = [
            Chunk(texts[row][done[row] : end], done[row], tables[row]) for row, end in zip(rows, ends, strict=True)
        ]
        logits = paged_logits(model, cache, chunks)
        for row, end, found in zip(rows, ends, logits, strict=True):
            whole = model(torch.tensor([texts[row][:end]]))[0, -1].detach()
            torch.testing.assert_close(found, whole, rtol=1e-11, atol=1e-11)
            done[row] = end


@each_of("dtype", [torch.float64, torch.float32])
@each_of("name", CONFIGS)
def test_generated_tokens_are_those_of_the_uncached_model(name, dtype):
    model = model_of(name, dtype)
    for seed, length in enumerate((1, 16, 31)):
        prompt = tokens_of(length, seed)
        plain = generate(model, prompt, 9, "none")
        assert plain == generate(model, prompt, 9, "contiguous")
        assert plain == generate(model, prompt, 9, "paged", page_size=4)


def test_two_sequences_share_the_pages_of_a_prefix_and_copy_before_they_write():
    model = model_of("GQA")
    cache = PagedCache(model.config, 6, 4, torch.float64)
    prefix = tokens_of(10)
    paged_logits(model, cache, [Chunk(prefix, 0, [3, 1, 5])])
    before = cache.keys.clone()
    cache.copy(5, 0)  # the third page is not full: the second sequence writes into a copy
    both = paged_logits(model, cache, [Chunk([7], 10, [3, 1, 5]), Chunk([9], 10, [3, 1, 0])])
    for token, found in zip((7, 9), both, strict=True):
        whole = model(torch.tensor([[*prefix, token]]))[0, -1].detach()
        torch.testing.assert_close(found, whole, rtol=1e-11, atol=1e-11)
    assert torch.equal(cache.keys[:, [3, 1]], before[:, [3, 1]]), "full pages of the prefix are read, not written"


def test_a_cache_costs_two_numbers_per_layer_key_value_head_and_head_dimension():
    config = CONFIGS["GQA"]
    per_token = 2 * config.layers * config.kv_heads * config.head_dim * 4
    assert KVCache(config, 3).nbytes == 3 * 48 * per_token
    assert PagedCache(config, 7, 16).nbytes == 7 * 16 * per_token


@each_of(
    "chunks, says",
    ([], "chunks is empty"),
    ([Chunk([], 0, [0])], "no tokens"),
    ([Chunk([1] * 5, 0, [0])], "need 2 pages of 4, and the table has 1"),
    ([Chunk([1], 0, [6])], "Page 6 is not in the pool"),
    ([Chunk([1], 48, list(range(6)) * 3)], "positions 0 to 47"),
    ([Chunk([1], 0, [2]), Chunk([1], 0, [2])], "write the same slot"),
)
def test_a_chunk_that_does_not_fit_is_refused_before_anything_is_written(chunks, says):
    model = model_of("GQA")
    cache = PagedCache(model.config, 6, 4, torch.float64)
    with pytest.raises(ValueError, match=says):
        paged_logits(model, cache, [*chunks[:1], *chunks[1:]])
    assert not cache.keys.any()


def test_tokens_beyond_the_context_are_refused_and_the_cache_is_as_before():
    model = model_of("GQA")
    cache = KVCache(model.config, 1, torch.float64)
    cached_logits(model, cache, torch.tensor([tokens_of(40)]))
    with pytest.raises(ValueError, match="40 tokens in the cache and 9 new ones exceed"):
        cached_logits(model, cache, torch.tensor([tokens_of(9)]))
    assert cache.length == 40
    with pytest.raises(ValueError, match="do not fit the model's seq_len=48"):
        generate(model, tokens_of(40), 9)
    with pytest.raises(ValueError, match="cache is 'pages'"):
        generate(model, [1], 1, "pages")
