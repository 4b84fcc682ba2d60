from course_chapters.ch18.published import LIMITS, measured
from course_grader.exercises import Card, Number, Rows, TupleOf, Word, Worth
from course_grader.exercises.snippets import CLOSE
from course_lib.estimate import facts

DEVICES = ("H100 SXM", "A100 SXM 80GB", "H200 SXM", "B200 SXM")


def _rates(device: str) -> dict[str, float | str]:
    one = facts.device(device)
    return {"device": device, "flops": float(one.dense_flops), "bandwidth": float(one.bandwidth)}


HOSTS = {
    "ahead": "The host prepares the next kernel while the device works, so the longest of the three times counts.",
    "blocking": "The host launches a kernel when the one before has ended (CUDA_LAUNCH_BLOCKING), so the launch is "
    "added to the longer of the two other times.",
}


def _host(kind: str) -> dict[str, str]:
    return {"host": kind, "means": HOSTS[kind]}


CARD = Card(
    title="Launch, memory or compute?",
    text=f"""Say which limit a matmul meets in a long stream of kernels, and how many tokens it needs before its launch
is no longer the limit. Then you can tell from a shape whether fusion, a graph or a larger batch helps.

- `limit(m, k, n, size, flops, bandwidth, launch)` returns `(seconds, word)` for C = A·B with A (m, k), B (k, n) and
  `size` bytes per number. The host needs `launch` s for each kernel. The device moves bytes at `bandwidth` and
  computes at `flops`, both at the same time. A and B are read once, C is written once. {{{{means}}}} The
  word names the longest time: `"launch"`, `"memory"` or `"compute"`; on a tie, the
  first of these.
- `fewest_tokens(k, n, size, flops, bandwidth, launch)` returns the least whole `m` for which the word is not
  `"launch"`.

The first visible case is on one {{{{device}}}} with a launch of {{{{microseconds}}}} µs. {CLOSE}""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    needs=("03",),
    hints=(
        "Compute all three times. Which of them depends on the shape? What does the host do meanwhile?",
        "A product has 2·m·k·n FLOP and moves size·(m·k + k·n + m·n) bytes. Both grow with m, and the bytes do not "
        "start at 0.",
        "Solve each time for m where it exceeds `launch`, round down and add 1, take the smaller of the two, and at "
        "least 1.",
    ),
    answers=("limit", "fewest_tokens"),
    allowed="the standard library; the library's own limits are switched off.",
    hides=("course_chapters.ch18.kernels:limit", "course_chapters.ch18.kernels:device_seconds"),
    params={"microseconds": 1e6 * measured("eager operator"), **_rates("H100 SXM"), **_host("ahead")},
    vary=lambda draw: {
        "microseconds": float(draw.choice((5, 6, 9))),
        **_rates(draw.choice(DEVICES[1:])),
        **_host("blocking"),
    },
    structural="host",
    returns=Rows(TupleOf({"seconds": Number("seconds"), "limit": Word(LIMITS)}), Number("tokens", whole=True)),
)
