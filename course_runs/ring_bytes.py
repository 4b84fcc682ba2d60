"""Bytes of a collective on a ring. Nothing here loads torch, so cards and gates may import it."""

from course_lib.cluster.collectives import BUS_FACTORS


def ring_sent(kind: str, nbytes: float, ranks: int) -> float:
    """Bytes a rank sends on a ring for a collective over `nbytes` in all: the whole tensor, not a rank's part of it.

    Patarasu and Yuan (2009): an all-reduce sends 2 (N - 1)/N of it, a reduce-scatter or an all-gather half of that.
    """
    return BUS_FACTORS["send_recv" if kind == "send" else kind](ranks) * nbytes
