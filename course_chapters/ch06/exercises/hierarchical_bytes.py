from collections.abc import Mapping

from course_chapters.ch06.exercises.probes import from_messages
from course_chapters.ch06.exercises.shared import ALL_REDUCES
from course_grader.exercises import Card, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

PLACEMENTS: Mapping[str, str] = {
    "block": "Nodes hold consecutive ranks: rank r is on node r // `per_node`",
    "round-robin": "Ranks are assigned to nodes in turn: rank r is on node r mod (N / `per_node`)",
}


CARD = Card(
    title="Mind the link between nodes",
    text="""Write an all-reduce that sends as little as possible between nodes, where the links are slow. {{where}}, and
every node has `per_node` of the N ranks.

- `hierarchical_all_reduce(comm, x, per_node)` returns the sum on every rank.
- No **node** sends more than 2·S·(1 − 1/nodes) bytes to other nodes, counting all its ranks together, plus or minus one
  element per chunk.
- Bytes inside a node are cheap but not free: no rank sends more than 2·(`per_node` + 1)·S in total.
- It works without buffers, for one node, for one rank per node, for sizes that do not divide, and for integers.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "How many numbers does a node as a whole have to send to the others? What can it do with its ranks' tensors "
        "first?",
        "Two designs reach the bound. Three steps: reduce-scatter inside the node, all-reduce of chunk i among the "
        "i-th ranks of all nodes, all-gather inside. Or leaders: reduce to one rank per node, a ring among the "
        "leaders, broadcast inside.",
        "Write the two halves of a ring over a *list of ranks* instead of `range(comm.size)`: `ring = [...]`, `me = "
        "ring.index(comm.rank)`, neighbors `ring[(me ± 1) % len(ring)]`. Then call them on the ranks of one node and "
        "on the i-th ranks of all nodes.",
    ),
    answers=("hierarchical_all_reduce",),
    allowed=ALLOWED,
    hides=ALL_REDUCES,
    params={"placement": "block", "where": PLACEMENTS["block"], "numbers": 4},
    vary=lambda draw: {"placement": "round-robin", "where": PLACEMENTS["round-robin"], "numbers": draw.choice((3, 5))},
    structural="placement",
    probe=from_messages,
    returns=PerRank(Tensor()),
)
