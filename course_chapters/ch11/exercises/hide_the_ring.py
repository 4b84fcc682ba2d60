from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

SEEN: Mapping[str, str] = {
    "all": "Every query sees every key, so a step takes 4 · c² · heads · width FLOPs",
    "causal": "Attention is causal and the layout zig-zag, so every rank computes half of each block: a step takes 2 "
    "· c² · heads · width FLOPs",
}

CARD = Card(
    title="When does the ring cost nothing?",
    text="""Write `fewest_tokens(flops, bandwidth, latency, heads, kv_heads, width)`: the smallest number of tokens per
rank at which attention to one block takes at least as long as the transfer of the next one, so that the transfer hides.

- A rank has c tokens, a whole number of at least 1. {{means}}, at `flops` FLOP/s.
- Meanwhile one message with the keys and values of c tokens arrives, in 16-bit numbers: `latency` seconds plus its
  bytes / `bandwidth` (bytes per second).
- Return an int: the smallest c whose computation takes at least as long as its transfer.""",
    **Worth(points=4, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Which of the two grows with c², and which with c?",
        "With no latency, c cancels once: the bound does not depend on the width of a head, but on heads / KV heads. "
        "With latency it is a quadratic.",
        "a · c² ≥ b · c + latency with a = 4 · heads · width / flops and b = 4 · kv_heads · width / bandwidth: `c = "
        "(b + sqrt(b * b + 4 * a * latency)) / (2 * a)`, rounded up.",
    ),
    answers=("fewest_tokens",),
    allowed="`math`; the library's function is switched off.",
    hides=("course_lib.parallel.context.costs:tokens_to_hide",),
    params={"seen": "all", "means": SEEN["all"]},
    vary=lambda draw: {"seen": "causal", "means": SEEN["causal"]},
    structural="seen",
    needs=("03", "06"),
    returns=Rows(Number("tokens", whole=True)),
)
