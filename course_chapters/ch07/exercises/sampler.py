from course_chapters.ch07.exercises.probes import deal
from course_grader.exercises import Card, Worth

REST = {
    "pad": "the epoch starts again with the **first** samples of its order, as often as needed: ⌈samples / "
    "ranks⌉ for each",
    "drop": "the **last** samples of the epoch's order are left out: ⌊samples / ranks⌋ for each",
}

CARD = Card(
    title="Who reads what",
    text="""Write `indices(samples, rank, ranks, epoch, seed=0)`: the sample numbers, from 0 to samples − 1, that this
rank reads in this epoch, as a list in order. Every rank computes its own list without communication, so all of them
must agree on one order.

- In an epoch, all ranks together read every sample once, and each reads equally many. If the number of ranks does not
  divide the number of samples, {{rule}}.
- Each epoch has an **order of its own**, shuffled, and so does each seed. Many training scripts never passed the epoch
  to their sampler and used one order for a whole run; torch's documentation has a warning about it.
- The same arguments give the same list, in any process, whatever the state of its random generators.
- The order belongs to the epoch, not to the ranks: in step k, N ranks together read the k-th N samples of one order
  that is **the same for any N**. So a run on 8 ranks reads what the run on 4 ranks read.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What do all ranks have to agree on, and what can each of them decide alone?",
        "One generator, seeded only with `seed` and `epoch`, gives one order of all samples. Make its length "
        "divisible by the number of ranks. Then give its samples to the ranks in turn.",
        "`order = list(range(samples))`; `random.Random(f'{seed}:{epoch}').shuffle(order)`; extend or shorten it to a "
        "multiple of `ranks`; `order[rank::ranks]`.",
    ),
    answers=("indices",),
    hides=("course_lib.parallel.data:indices_of",),
    params={"rest": "pad", "rule": REST["pad"], "samples": 23},
    vary=lambda draw: {"rest": "drop", "rule": REST["drop"], "samples": draw.choice((22, 23, 27))},
    structural="rest",
    probe=deal,
)
