from collections.abc import Mapping

from course_grader.exercises import Anything, Card, ListOf, Rows, Worth

LEAST: Mapping[str, str] = {
    "seconds": "the least **seconds**: the sum over the axes of `sent[axis] / inside`, or `sent[axis] / across` for "
    "an axis of which at least one group has ranks in two servers",
    "bytes": "the fewest **bytes between servers**. On each axis, every rank sends `sent[axis]` bytes to the next "
    "rank of its group, the last one to the first. Count a rank's bytes if that neighbor is in another "
    "server; `inside` and `across` do not matter here",
}

CARD = Card(
    title="Which axis on which wire?",
    text="""Write `best_order(sizes, sent, per_server, inside, across)`, which decides where each axis of a mesh goes.
It returns the list of all axes, in an order with {{means}}.

- `sizes` is a dictionary from axis to size. Its order has no meaning. In the order that you return, the **last axis
  changes fastest**.
- `sent` is a dictionary from axis to the bytes that every rank sends along it in a step; on an axis of size 1, nothing
  is sent.
- Ranks fill the servers in order, `per_server` ranks each. A group smaller than a server may still straddle two
  servers, and then it is slow, however many of its ranks are in one server.
- `inside` and `across` are bytes per second of one GPU, inside a server and between servers; `inside` is the larger.
- Several orders may be equally good; any of them passes. There are at most five axes and 200 ranks.

Putting the axis that sends the most innermost is a good guess, but not always right: see what it leaves for the other
axes. Users of a small training library asked for another order of its axes for this reason (*huggingface/picotron,
issue 17, 2024*).""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "How many orders are there of five axes? How long would it take to look at all of them?",
        "Write a function that gives the cost of one order, with your `groups` from above if the last axis is fastest "
        "there. Then take the minimum over all orders.",
        "`min(itertools.permutations(sizes), key=cost)`; in `cost`, an axis crosses servers if `group[0] // "
        "per_server != group[-1] // per_server` for any of its groups.",
    ),
    answers=("best_order",),
    allowed="plain Python and `itertools`; the library's meshes and planner are switched off.",
    hides=(
        "course_lib.parallel.mesh.layout:strides",
        "course_lib.parallel.mesh.cost:placements, axis_seconds",
        "course_lib.parallel.planner.traffic:strides",
    ),
    params={"least": "seconds", "means": LEAST["seconds"]},
    vary=lambda draw: {"least": "bytes", "means": LEAST["bytes"]},
    structural="least",
    needs=("03",),
    returns=Rows(ListOf(Anything("an axis"), what="place")),
)
