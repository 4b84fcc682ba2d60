"""Cards of chapter 11 on what a transfer must reach: the neighbors that a sliding window needs, and a length at which the ring hides."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch11.probes import halo
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, Number, PerRank, Rows, Tensor

WINDOW_HALO = Card(
    id="window-halo",
    chapter="11",
    title="A sliding window needs only neighbors",
    text="""Write `window_keys(comm, k, v, lengths, window)`, which fetches the keys and values that this rank's queries see through a sliding window. With a window, the whole ring
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
    answers=("window_keys",),
    allowed=f"torch and {ALLOWED} The library's function is switched off.",
    hides=("context_parallel.needed:needed_keys",),
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
    hides=("context_parallel.costs:tokens_to_hide",),
    params={"seen": "all", "means": SEEN["all"]},
    vary=lambda draw: {"seen": "causal", "means": SEEN["causal"]},
    structural="seen",
    needs=("03", "06"),
    probe=rows,
    returns=Rows(Number("tokens", whole=True)),
)
