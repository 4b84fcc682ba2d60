from course_grader.exercises import Card, Worth, pick, rows
from course_grader.exercises.snippets import memory_of
from course_lib.estimate import memory

BUCKETS = ("weights", "grads", "master", "moments")


def _buckets(convention: str) -> dict[str, object]:
    buckets = memory.CONVENTIONS[convention].buckets
    return {"convention": convention, **{name: buckets[name] for name in BUCKETS}}


SIZES = pick(params=(8e9, 13e9, 34e9, 70e9), ranks=(16, 32, 128, 256))

CARD = Card(
    title="Who holds how much?",
    text="""Compute how much training state a rank holds in each stage of ZeRO, and how many ranks a model needs. Stage
1 shards the optimizer state (master copy and moments), stage 2 also the gradients, and stage 3 also the weights; stage
0 shards nothing. Every rank holds the other buckets whole.

- `buckets` has the bytes per parameter of each bucket: here `{"weights": {{weights:plain}}, "grads": {{grads:plain}},
  "master": {{master:plain}}, "moments": {{moments:plain}}}`; other optimizers have others.
- `held(params, stage, ranks, buckets)` returns the bytes of state on one rank. Shown: {{params:count}} parameters on
  {{ranks}} ranks in stages 0 to 3, and 405B on 1,024 ranks.
- `fewest_ranks(params, stage, buckets, memory)` returns the fewest ranks on which the state fits into `memory` bytes
  each. Exactly full fits. Return `None` where no number of ranks is enough. Shown: GPUs with {{memory:gb}}.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which buckets does a stage leave whole? No number of ranks makes them smaller.",
        "Bytes on a rank are params × (whole buckets + sharded buckets / ranks). For the inverse, subtract the whole "
        "buckets from the memory; the sharded ones have the rest.",
        "`since = {'master': 1, 'moments': 1, 'grads': 2, 'weights': 3}`; `whole = sum(b for name, b in "
        "buckets.items() if stage < since[name])`; `math.ceil(params * shared / (memory - params * whole))`; treat "
        "the cases where no memory is left, or nothing is sharded, separately.",
    ),
    answers=("held", "fewest_ranks"),
    allowed="plain Python; the library's formulas are switched off.",
    hides=("course_lib.estimate.memory:zero_bytes, zero_bytes_per_param, zero_by_bucket",),
    params={"params": 7.5e9, "ranks": 64, "memory": memory_of("H100 SXM"), **_buckets("B")},
    vary=lambda draw: {**SIZES(draw), **_buckets(draw.choice("CG"))},
    needs=("02",),
    probe=rows,
)
