from course_grader.exercises import Card, Worth, pick, rows
from course_lib.estimate.units import GB, TFLOP

CARD = Card(
    title="How far ahead?",
    text="""Find out when prefetch hides the gathers of FSDP. While a GPU computes one unit, it can gather the weights
of the next ones; this hides the gathers only if there is enough to compute and if they begin early enough.

- `crossover_tokens(flops, bandwidth, ranks, gather, reduce)` returns the tokens per GPU and step at which FSDP
  communicates for as long as it computes. A GPU computes 6 FLOPs per parameter and token at `flops` FLOP/s, and sends
  at `bandwidth` bytes/s. Each weight is gathered twice with `gather` bytes, and its gradient reduced once with `reduce`
  bytes, in rings of `ranks`. Shown: {{flops:tflops}}, {{bandwidth:gbps}}, {{ranks}} ranks, 16 bits.
- `exposed_seconds(gathers, computes, depth)` returns the seconds for which the GPU waits in a forward pass. Unit i
  takes `gathers[i]` seconds to gather and `computes[i]` to compute. Gathers run one after another, and so do
  computations. Unit i computes once it is gathered and unit i − 1 has computed. **At most `depth` units are gathered
  ahead**: the gather of unit i may begin once unit i − 1 − depth has computed; the first ones may begin at once.
- `least_depth(gathers, computes, most)` returns the smallest depth that exposes at most `most` seconds, or `None` if
  none does.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=4),
    kind="more",
    hints=(
        "With depth 0, what does the GPU do while unit 1 is gathered? With any depth, what can hide the very "
        "first gather?",
        "Go through the units in order, and keep two times: when the link is free and when each unit has computed. "
        "For the smallest depth, try all: more depth than units changes nothing.",
        "`start = max(wire, done[i - 1 - depth] if i > depth else 0)`; `wire = start + gathers[i]`; `done[i] = "
        "max(wire, done[i - 1]) + computes[i]`. Exposed: `done[-1] - sum(computes)`. The crossover: `(2 * gather + "
        "reduce) * (N - 1) / N / bandwidth = 6 * tokens / flops`.",
    ),
    answers=("crossover_tokens", "exposed_seconds", "least_depth"),
    hides=("course_lib.parallel.sharding:play", "course_lib.parallel.sharding:bytes_per_param_sent"),
    params={"flops": 400 * TFLOP, "bandwidth": 50 * GB, "ranks": 64},
    vary=pick(flops=(300 * TFLOP, 500 * TFLOP), bandwidth=(25 * GB, 100 * GB, 200 * GB), ranks=(16, 32, 128)),
    needs=("07",),
    probe=rows,
)
