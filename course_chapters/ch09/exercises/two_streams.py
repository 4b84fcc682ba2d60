from course_chapters.ch09.exercises.probes import STREAMS, streams
from course_grader.exercises import Card, Worth

CARD = Card(
    title="The same outside, different inside",
    text="""Write `two_streams(seed, rank)`, which returns a pair of `torch.Generator`s, `(outside, inside)`. Dropout on
tensors that all ranks hold must zero the same numbers on all of them, or the copies diverge. On a rank's own heads or
columns it must zero different ones, or patterns appear. One library used the same numbers everywhere (*InternLM, pull
request 405, 2023*).

- `outside` draws the same numbers on every rank; another seed gives other numbers.
- `inside` draws numbers of its own: different from those of every other rank, and from the outside stream, on rank 0
  too.
- Replicas are seeded with consecutive numbers, `seed`, `seed + 1`, …, up to {{seeds}} of them with up to {{ranks}}
  ranks each: no two of all these streams are the same.
- The same arguments give the same numbers again, in any process. torch's own generator stays unchanged.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "With `seed + rank`, who else draws what rank 1 of the replica with seed 7 draws?",
        "You need one number for each pair (seed, rank), and no two pairs may share it. How do you number the seats "
        "of a cinema?",
        "`torch.Generator().manual_seed(…)` with `seed * 1_000_003` outside and `seed * 1_000_003 + 1 + rank` inside: "
        "room for a million ranks between two seeds.",
    ),
    answers=("two_streams",),
    may_change=("generators",),  # the probe seeds torch's generator itself, to see that the answer leaves it alone
    params={"seeds": 64, "ranks": 64},
    vary=lambda draw: {"seeds": draw.choice((32, 48, 64)), "ranks": draw.choice((32, 64))},
    probe=streams,
    returns=STREAMS,
)
