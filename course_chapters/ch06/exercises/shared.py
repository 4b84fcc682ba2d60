"""What several of chapter 06's cards use."""

import random
from collections.abc import Mapping

ROUTES: Mapping[int, str] = {1: "0 → 1 → 2 → … → 0", -1: "0 → N−1 → N−2 → … → 0"}
NEXT: Mapping[int, str] = {1: "(r + 1) mod N", -1: "(r − 1) mod N"}

ALL_REDUCES = (
    "course_lib.cluster.collectives:ring_all_reduce",
    "course_lib.cluster.collectives:pipelined_ring_all_reduce",
    "course_lib.cluster.collectives:tree_all_reduce",
    "course_lib.cluster.collectives:naive_all_reduce",
    "course_lib.cluster.collectives:halving_doubling_all_reduce",
    "course_lib.cluster.collectives:hierarchical_all_reduce",
    "course_lib.cluster.collectives:ring_reduce_scatter",
    "course_lib.cluster.collectives:ring_all_gather",
    "course_lib.cluster.collectives:_scatter_round",
    "course_lib.cluster.collectives:_gather_round",
)


def turned(draw: random.Random) -> Mapping[str, object]:
    return {"direction": -1, "route": ROUTES[-1], "next": NEXT[-1], "numbers": draw.randrange(5, 12)}
