"""Answers to column-and-row that hold more than they need; a count inside the notebook may be doctored."""

import copy


# %% hungry: views of the whole


def column_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=0)[rank]


def row_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=1)[rank]


# %% hungry: contiguous is no copy where it is contiguous already


def column_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=0)[rank].contiguous()


def row_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=1)[rank].contiguous()


# %% hungry: a deep copy of a view in one of the two


def column_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=0)[rank].clone()


def row_shard(weight, rank, ranks):
    return copy.deepcopy(weight.chunk(ranks, dim=1)[rank])


# %% hungry: views that say they are small


class Small:
    def __init__(self, piece):
        self.bytes = piece.numel() * piece.element_size()

    def nbytes(self):
        return self.bytes


def said_to_be_small(piece):
    small = Small(piece)
    piece.untyped_storage = lambda: small
    return piece


def column_shard(weight, rank, ranks):
    return said_to_be_small(weight.chunk(ranks, dim=0)[rank])


def row_shard(weight, rank, ranks):
    return said_to_be_small(weight.chunk(ranks, dim=1)[rank])


# %% hungry: copies, and the weights kept beside them

seen = []


def column_shard(weight, rank, ranks):
    seen.append(weight)
    return weight.chunk(ranks, dim=0)[rank].clone()


def row_shard(weight, rank, ranks):
    seen.append(weight)
    return weight.chunk(ranks, dim=1)[rank].clone()
