"""The course's transformer with its keys and values kept: in one block per sequence, or in pages of a shared pool.

Without a cache, each new token costs a pass over all the tokens before it. With one, it costs a pass over itself: the
keys and values of earlier tokens never change, because no token attends to a later one. Both caches give the logits of
the plain model. Shapes in names: B sequences, S tokens, T tokens of all sequences in a row, A heads, K key-value heads,
D = hidden / heads, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.estimate.units import require_whole
from course_lib.model.transformer import Attention, Block, Config, Transformer, rotate

CACHES = ("none", "contiguous", "paged")


class KVCache:
    """Keys and values of B sequences of equal length, each in one block of `config.seq_len` slots that is reserved at
    once."""

    def __init__(
        self, config: Config, batch: int = 1, dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
    ) -> None:
        assert config.kv_heads
        self.config, self.length = config, 0  # tokens kept so far
        shape = (config.layers, require_whole("batch", batch, "sequences"), config.seq_len, config.kv_heads)
        self.keys = torch.zeros(*shape, config.head_dim, dtype=dtype, device=device)  # (layers, B, S, K, D)
        self.values = torch.zeros_like(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes reserved, used or not."""
        return self.keys.nbytes + self.values.nbytes


class PagedCache:
    """Keys and values of any number of sequences, in pages of `page_size` tokens that belong to whoever the page tables
    say."""

    def __init__(
        self,
        config: Config,
        pages: int,
        page_size: int = 16,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        assert config.kv_heads
        self.config = config
        self.pages, self.page_size = require_whole("pages", pages), require_whole("page_size", page_size, "tokens")
        shape = (config.layers, pages, page_size, config.kv_heads, config.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros_like(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the pool."""
        return self.keys.nbytes + self.values.nbytes

    def copy(self, source: int, target: int) -> None:
        """Copy a page in every layer: what copy-on-write asks for before a sequence writes into a shared page."""
        self.keys[:, target] = self.keys[:, source]
        self.values[:, target] = self.values[:, source]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one sequence contributes to an iteration: a piece of its prompt, or the one token that it generated last."""

    tokens: Sequence[int]
    start: int  # the sequence's tokens that the cache holds already
    pages: Sequence[int]  # its page table: page i holds tokens i·page_size to (i+1)·page_size − 1


def _project(attention: Attention, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (…, S, A, D), keys and values (…, S, K, D) of x (…, S, H), turned to their positions (S,)."""
    q, k, v = (w(x).unflatten(-1, (-1, attention.config.head_dim)) for w in (attention.wq, attention.wk, attention.wv))
    if attention.config.positions == "rotary":
        cos, sin = attention.cos[positions], attention.sin[positions]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    return q, k, v


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of q (B, Q, A, D) to k and v (B, S, K, D), where `mask` (B or 1, 1, Q, S) is True: (B, Q, A·D)."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if k.shape[1] < q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def _embed(model: Transformer, tokens: Tensor, positions: Tensor) -> Tensor:
    x = model.embedding(tokens)
    return x + model.positions(positions) if model.config.positions == "learned" else x


@torch.no_grad()
def cached_logits(model: Transformer, cache: KVCache, tokens_BS: Tensor) -> Tensor:
    """Logits (B, S, V) of the next S tokens of each sequence, whose keys and values are added to the cache.

    The first call takes the prompts (prefill), each later one the token that was generated (decode). Tokens beyond the
    model's seq_len are a ValueError, and the cache is unchanged.
    """
    start, new = cache.length, tokens_BS.shape[1]
    end = start + new
    if end > model.config.seq_len:
        raise ValueError(
            f"{start} tokens in the cache and {new} new ones exceed the model's seq_len={model.config.seq_len}; "
            "give fewer tokens, or a Config with a larger seq_len."
        )
    positions = torch.arange(start, end, device=tokens_BS.device)
    visible = positions[:, None] >= torch.arange(end, device=tokens_BS.device)  # (S, end): no token sees a later one
    x = _embed(model, tokens_BS, positions)
    for keys, values, block in zip(cache.keys, cache.values, model.blocks, strict=True):
        assert isinstance(block, Block)
        q, keys[:, start:end], values[:, start:end] = _project(block.attention, block.norm1(x), positions)
        x = x + block.attention.wo(_attend(q, keys[:, :end], values[:, :end], visible[None, None]))
        x = x + block.mlp(block.norm2(x))
    cache.length = end
    return model.head(model.norm(x))


@torch.no_grad()
def paged_logits(model: Transformer, cache: PagedCache, chunks: Sequence[Chunk]) -> Tensor:
    """Logits (chunks, V) after the last token of each chunk; the chunks' keys and values are written to their pages.

    Matrix products and norms see the tokens of all chunks in one row, so prompts and single tokens share an iteration
    (selective batching, Orca, 2022). Attention runs once for all single tokens together and once for each longer chunk.
    A chunk that does not fit its page table or the model is a ValueError before anything is written.
    """
    plan = _Plan(model.config, cache, chunks)
    x = _embed(model, plan.tokens, plan.positions)
    for keys, values, block in zip(cache.keys, cache.values, model.blocks, strict=True):
        assert isinstance(block, Block)
        q, k, v = _project(block.attention, block.norm1(x), plan.positions)
        keys.flatten(0, 1)[plan.slots], values.flatten(0, 1)[plan.slots] = k, v
        x = x + block.attention.wo(plan.attend(q, keys, values))
        x = x + block.mlp(block.norm2(x))
    return model.head(model.norm(x[plan.last]))


class _Plan:
    """Where the tokens of an iteration stand, where their keys go, and which pages each attends to: the same for every
    layer."""

    def __init__(self, config: Config, cache: PagedCache, chunks: Sequence[Chunk]) -> None:
        if not chunks:
            raise ValueError("chunks is empty; an iteration computes at least one token.")
        size, device = cache.page_size, cache.keys.device
        tokens: list[int] = []
        positions: list[int] = []
        slots, last = [], []
        for chunk in chunks:
            _check(config, cache, chunk)
            places = range(chunk.start, chunk.start + len(chunk.tokens))
            tokens += chunk.tokens
            positions += places
            slots += [chunk.pages[place // size] * size + place % size for place in places]
            last.append(len(tokens) - 1)
        if len(set(slots)) < len(slots):
            raise ValueError(
                "Two chunks write the same slot of the cache; a shared page must be copied before it is written."
            )
        self.tokens, self.positions, self.slots, self.last = (
            torch.tensor(each, dtype=torch.int64, device=device) for each in (tokens, positions, slots, last)
        )
        ends = [place + 1 for place in last]
        rows = [range(end - len(chunk.tokens), end) for end, chunk in zip(ends, chunks, strict=True)]
        singles = [each for each in zip(rows, chunks, strict=True) if len(each[0]) == 1]
        longer = [each for each in zip(rows, chunks, strict=True) if len(each[0]) > 1]
        groups = ([singles] if singles else []) + [[each] for each in longer]
        self.groups = [_Group(group, size, device) for group in groups]

    def attend(self, q_TAD: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Each token's attention to its own sequence, (T, A·D), from one layer's pages (pages, page_size, K, D)."""
        out = q_TAD.new_empty(len(q_TAD), q_TAD.shape[1] * q_TAD.shape[2])
        for group in self.groups:
            q = q_TAD[group.rows].unflatten(0, (len(group.table), -1))
            k, v = (pages[group.table].flatten(1, 2) for pages in (keys, values))  # gathered: (B, S, K, D)
            out[group.rows] = _attend(q, k, v, group.mask).flatten(0, 1)
        return out


class _Group:
    """Sequences with as many new tokens each: their rows among all tokens, their page tables padded, and who sees
    what."""

    def __init__(self, members: Sequence[tuple[range, Chunk]], size: int, device: torch.device) -> None:
        tables = [chunk.pages[: -(-(chunk.start + len(chunk.tokens)) // size)] for _, chunk in members]
        widest = max(map(len, tables))
        self.table = torch.tensor([[*table, *[0] * (widest - len(table))] for table in tables], device=device)
        self.rows = torch.tensor([row for rows, _ in members for row in rows], device=device)
        starts = torch.tensor([chunk.start for _, chunk in members], device=device)
        new = torch.arange(len(members[0][0]), device=device)
        slot = torch.arange(widest * size, device=device)
        self.mask = (slot <= starts[:, None, None] + new[:, None])[:, None]  # (B, 1, Q, S)


def _check(config: Config, cache: PagedCache, chunk: Chunk) -> None:
    end = chunk.start + len(chunk.tokens)
    if not len(chunk.tokens):
        raise ValueError("A chunk has no tokens; it needs at least one.")
    if chunk.start < 0 or end > config.seq_len:
        raise ValueError(
            f"A chunk holds tokens {chunk.start} to {end - 1}, and the model has positions 0 to {config.seq_len - 1}."
        )
    if end > len(chunk.pages) * cache.page_size:
        raise ValueError(
            f"{end} tokens need {-(-end // cache.page_size)} pages of {cache.page_size}, and the table has "
            f"{len(chunk.pages)}."
        )
    if wrong := [page for page in chunk.pages if not 0 <= page < cache.pages]:
        raise ValueError(f"Page {wrong[0]} is not in the pool, whose pages are 0 to {cache.pages - 1}.")


def generate(
    model: Transformer, prompt: Sequence[int], count: int, cache: str = "contiguous", page_size: int = 16
) -> list[int]:
    """The `count` most likely next tokens, one at a time, without a cache or with either kind: the same tokens each
    way."""
    if cache not in CACHES:
        raise ValueError(f"cache is {cache!r}; it must be one of {', '.join(map(repr, CACHES))}.")
    require_whole("count", count, "tokens")
    if not len(prompt) or len(prompt) + count > model.config.seq_len:
        raise ValueError(
            f"A prompt of {len(prompt)} tokens and {count} new ones do not fit the model's "
            f"seq_len={model.config.seq_len}; the prompt has at least one token."
        )
    tokens, weight = list(map(int, prompt)), model.embedding.weight
    if cache == "none":
        for _ in range(count):
            with torch.no_grad():
                logits = model(torch.tensor([tokens], device=weight.device))[0, -1]
            tokens.append(int(logits.argmax()))
        return tokens[-count:]
    kept: KVCache | PagedCache
    if cache == "contiguous":
        kept = KVCache(model.config, 1, weight.dtype, weight.device)
    else:
        pages = -(-model.config.seq_len // page_size)
        kept = PagedCache(model.config, pages, page_size, weight.dtype, weight.device)
    start = 0
    for _ in range(count):
        if isinstance(kept, KVCache):
            logits = cached_logits(model, kept, torch.tensor([tokens[start:]], device=weight.device))[0, -1]
        else:
            logits = paged_logits(model, kept, [Chunk(tokens[start:], start, range(kept.pages))])[0]
        start = len(tokens)
        tokens.append(int(logits.argmax()))
    return tokens[-count:]
