"""Answers to column-and-row that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""


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
