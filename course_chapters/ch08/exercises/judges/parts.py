"""Rows cut over ranks: the oracle of chapter 08's judges of FSDP, clipping and resharding; their adverse machines."""

import torch
from torch import Tensor

from course_grader.judging.ranks import BUFFERS_LATE, LATE, STREAM_LATE

UNKIND = LATE, BUFFERS_LATE, STREAM_LATE


def stretch(elements: int, ranks: int, rank: int) -> range:
    """The elements of a row in a rank's part, without padding; none for a rank beyond the last."""
    part = -(-elements // ranks)
    return range(min(rank * part, elements), min((rank + 1) * part, elements)) if rank < ranks else range(0)


def parts_of(row: Tensor, ranks: int, owner: int = 0) -> list[Tensor]:
    """The part of each rank, all of one length; the last ones end in zeros. Rank r holds part r + `owner`, counted
    around."""
    part = -(-len(row) // ranks)
    padded = torch.cat([row, row.new_zeros(ranks * part - len(row))])
    return [padded[(rank + owner) % ranks * part :][:part].clone() for rank in range(ranks)]
