"""Cards of chapter 11 on other ways to exchange a sequence: Ulysses, a choice by bytes, a window's neighbors, a transfer that hides."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch11.probes import exchanged, halo
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, Maybe, Number, PerRank, Rows, Tensor, Word

ULYSSES = Card(
    id="ulysses-exchange",
    chapter="11",
    title="From tokens to heads and back",
    text="""Write the two exchanges of Ulysses. Between them, each rank has all tokens of some heads, and any attention function works unchanged.

- `to_heads(comm, x, lengths)`: `x` has shape (heads, this rank's tokens, width), and `lengths` lists the tokens of every rank. Return shape
  (heads / N, all tokens, width): rank r's share of the heads, with the tokens in the order of the ranks.
- With fewer heads than ranks (KV heads under GQA), each head goes to N / heads neighboring ranks: rank r gets head r // (N / heads) alone.
- If neither heads / N nor N / heads is whole, raise ValueError. Its message ends with the largest smaller number of ranks that fits, such as "use 3".
- `to_tokens(comm, x, lengths)` undoes the first case: from (heads / N, all tokens, width) to (heads, this rank's tokens, width).
- Lengths differ and may be 0. The dtype stays, `x` may be any view, and it stays as it is.

Budget: each rank sends only the numbers that another rank needs, once.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Which heads of which tokens does rank r send to rank j?",
        "`all_to_all_single` exchanges rows of a flat tensor, with split sizes. Flatten what goes to rank 0, then to rank 1, and so on, and cut what arrives by `lengths`.",
        "`parts = x.tensor_split(n, 0)`; send `torch.cat([part.reshape(-1) for part in parts])`; receive `heads // n * length * width` numbers from each rank; view each "
        "as (heads // n, length, width) and join along the tokens.",
    ),
    answers=("to_heads", "to_tokens"),
    allowed="torch and all operations of `comm`; the library's exchanges are switched off.",
    params={"ranks": 4, "width": 3},
    vary=lambda draw: {"ranks": draw.choice((2, 3, 5)), "width": draw.choice((2, 4, 5))},
    needs=("06", "09"),
    probe=exchanged,
    returns=PerRank(DictOf({"x": Anything("a tensor"), "touched": Anything()})),
)

CHOOSE = Card(
    id="choose-context-parallel",
    chapter="11",
    title="Ring, gather or Ulysses?",
    text="""Write three functions that choose how N ranks share one attention layer. Count its forward pass with 16-bit numbers; `method` is `"ring"`, `"gather"` or
`"ulysses"`. `tokens` is the whole sequence, divisible by `ranks`, and `width` is that of one head.

- `sent(method, tokens, heads, kv_heads, width, ranks)`: the bytes that one rank sends. Ring and gather pass every block of keys and values to all ranks.
  Ulysses exchanges q, k, v and the output; with fewer KV heads than ranks, it sends each other rank the one head that it needs.
- `held(method, tokens, heads, kv_heads, width, ranks)`: the largest number of bytes of keys and values on one rank at a time. The ring has its current block
  and the next one under way; gather has all of them; Ulysses has all tokens of its KV heads.
- Both return None for Ulysses where `heads` is not divisible by `ranks`, or where neither of `kv_heads` and `ranks` divides the other.
- `best(tokens, heads, kv_heads, width, ranks, room)`: of the methods that are possible and hold at most `room` bytes, the one that sends the least. Ties go
  to gather before Ulysses before ring. Return `"none"` if no method fits.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Which of the methods sends query heads, and which sends KV heads?",
        "In an all-to-all, a rank sends (N − 1)/N of what it has. In a ring it sends N − 1 blocks.",
        "Ring and gather: `4 * kv_heads * width * tokens / n * (n - 1)`. Ulysses: `4 * (heads + max(kv_heads, n)) * width * tokens / n * (n - 1) / n`. "
        "Its rank holds `4 * max(kv_heads, n) / n * width * tokens`.",
    ),
    answers=("sent", "held", "best"),
    allowed="everything; the library's costs are switched off.",
    params={"heads": 32, "kv_heads": 8},
    vary=lambda draw: dict(zip(("heads", "kv_heads"), draw.choice(((64, 8), (40, 8), (48, 4))), strict=True)),
    needs=("06",),
    probe=rows,
    returns=Rows(Maybe(Number("bytes")), Maybe(Number("bytes")), Word(("ring", "gather", "ulysses", "none"))),
)

WINDOW_HALO = Card(
    id="window-halo",
    chapter="11",
    title="A sliding window needs only neighbors",
    text="""Write `halo(comm, k, v, lengths, window)`, which fetches the keys and values that this rank's queries see through a sliding window. With a window, the whole ring
is not needed: most ranks never see each other's keys.

- Ranks hold contiguous parts of the sequence, in order; `lengths` lists their tokens. `k` and `v` have shape (KV heads, this rank's tokens, width).
- The query at position p sees the keys at positions p − window + 1 to p, as far as they exist; `window` is at least 1.
- Return `(keys, values)` in the order of the sequence: from the first key that this rank's first query sees, to this rank's last token. A rank without tokens returns
  tensors without tokens.
- The window may reach across several ranks. Change no argument.

Budget: each rank sends every other rank exactly the keys and values that it needs, once, and no message to a rank that needs none.""",
    **Worth(points=8, minutes=20, difficulty=3, importance=3),
    kind="more",
    hints=(
        "From your own start and the window: which positions do you need? Who has them?",
        "All ranks know `lengths`, so each can compute what every other one needs, and no request is sent.",
        "`starts = [0, *itertools.accumulate(lengths)]`; rank r needs positions `max(0, starts[r] - window + 1)` to `starts[r]`, if it has tokens; rank s sends the overlap with its "
        "own range. Start all `isend`s and `irecv`s, then wait, then concatenate.",
    ),
    answers=("halo",),
    allowed=f"torch and {ALLOWED} The library's function is switched off.",
    params={"window": 6},
    vary=lambda draw: {"window": draw.choice((4, 5, 7))},
    needs=("06",),
    probe=halo,
    returns=PerRank(DictOf({"k": Tensor(), "v": Tensor(), "touched": Anything()})),
)

SEEN: Mapping[str, str] = {
    "all": "Every query sees every key, so a step takes 4 · c² · heads · width FLOPs",
    "causal": "Attention is causal and the layout zig-zag, so every rank computes half of each block: a step takes 2 · c² · heads · width FLOPs",
}

HIDE_RING = Card(
    id="hide-the-ring",
    chapter="11",
    title="When does the ring cost nothing?",
    text="""Write `fewest_tokens(flops, bandwidth, latency, heads, kv_heads, width)`: the smallest number of tokens per rank at which attention to one block takes
at least as long as the transfer of the next one, so that the transfer hides.

- A rank has c tokens, a whole number of at least 1. {{means}}, at `flops` FLOP/s.
- Meanwhile one message with the keys and values of c tokens arrives, in 16-bit numbers: `latency` seconds plus its bytes / `bandwidth` (bytes per second).
- Return an int: the smallest c whose computation takes at least as long as its transfer.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Which of the two grows with c², and which with c?",
        "With no latency, c cancels once: the bound does not depend on the width of a head, but on heads / KV heads. With latency it is a quadratic.",
        "a · c² ≥ b · c + latency with a = 4 · heads · width / flops and b = 4 · kv_heads · width / bandwidth: `c = (b + sqrt(b * b + 4 * a * latency)) / (2 * a)`, rounded up.",
    ),
    answers=("fewest_tokens",),
    allowed="`math`; the library's function is switched off.",
    params={"seen": "all", "means": SEEN["all"]},
    vary=lambda draw: {"seen": "causal", "means": SEEN["causal"]},
    structural="seen",
    needs=("03", "06"),
    probe=rows,
    returns=Rows(Number("tokens", whole=True)),
)
