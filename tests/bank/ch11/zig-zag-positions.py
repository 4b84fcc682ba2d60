import torch

from course_lib import params

VARIANT = params("zig-zag-positions")


# %% right: blocks of torch
def spread_tokens(length, ranks):
    if VARIANT.dealt == "snake":
        owners = [min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) for p in range(length)]
        return [[p for p, owner in enumerate(owners) if owner == rank] for rank in range(ranks)]
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in range(ranks)]


def work_ratio(parts):
    work = [sum(position + 1 for position in part) for part in parts]
    return max(work) / (sum(work) / len(work))


# %% right: by counting
def spread_tokens(length, ranks):
    parts = [[] for _ in range(ranks)]
    if VARIANT.dealt == "snake":
        for start in range(0, length, ranks):
            order = list(range(ranks)) if start // ranks % 2 == 0 else list(reversed(range(ranks)))
            for rank, position in zip(order, range(start, min(start + ranks, length)), strict=False):
                parts[rank].append(position)
        return parts
    size, more = divmod(length, 2 * ranks)
    start = 0
    for block in range(2 * ranks):
        end = start + size + (block < more)
        parts[min(block, 2 * ranks - 1 - block)] += range(start, end)
        start = end
    return parts


def work_ratio(parts):
    tokens = sum(map(len, parts))
    return max(sum(part) + len(part) for part in parts) * len(parts) / (tokens * (tokens + 1) / 2)


# %% wrong: contiguous parts => values contiguous  from: blocks of torch
def spread_tokens(length, ranks):
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[2 * rank].tolist() + blocks[2 * rank + 1].tolist() for rank in range(ranks)]


# %% wrong: half a sequence apart => values half-apart  from: blocks of torch
def spread_tokens(length, ranks):
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[rank].tolist() + blocks[rank + ranks].tolist() for rank in range(ranks)]


# %% wrong: stripes => values striped  from: blocks of torch
def spread_tokens(length, ranks):
    return [list(range(rank, length, ranks)) for rank in range(ranks)]


# %% wrong: the rest is cut off => generality missing  from: by counting
def spread_tokens(length, ranks):
    size = length // (2 * ranks)
    whole = size * 2 * ranks
    if VARIANT.dealt == "snake":
        return [
            [p for p in range(whole) if min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) == rank]
            for rank in range(ranks)
        ]
    return [
        [*range(rank * size, (rank + 1) * size), *range((2 * ranks - 1 - rank) * size, (2 * ranks - rank) * size)]
        for rank in range(ranks)
    ]


# %% wrong: the last block takes the rest => generality -  from: by counting
def spread_tokens(length, ranks):
    if VARIANT.dealt == "snake":
        parts, whole = [[] for _ in range(ranks)], length // (2 * ranks) * 2 * ranks
        for p in range(length):
            turn = p % (2 * ranks)
            parts[min(turn, 2 * ranks - 1 - turn) if p < whole else ranks - 1].append(p)
        return parts
    size = length // (2 * ranks)
    edges = [block * size for block in range(2 * ranks)] + [length]
    return [
        [*range(edges[r], edges[r + 1]), *range(edges[2 * ranks - 1 - r], edges[2 * ranks - r])] for r in range(ranks)
    ]


# %% wrong: blocks of torch.chunk => generality -  from: blocks of torch
def spread_tokens(length, ranks):
    blocks = list(torch.arange(length).chunk(2 * ranks))
    blocks += [torch.arange(0)] * (2 * ranks - len(blocks))
    if VARIANT.dealt == "snake":
        rows = torch.arange(length).split(2 * ranks)
        return [
            [int(p) for row in rows for p in [*row[rank : rank + 1], *row[len(row) - 1 - rank :][:1]]]
            for rank in range(ranks)
        ]
    return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in range(ranks)]


# %% wrong: the late block first => values other-order  from: blocks of torch
def spread_tokens(length, ranks):
    if VARIANT.dealt == "snake":
        owners = [min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) for p in range(length)]
        return [[p for p, owner in enumerate(owners) if owner == rank][::-1] for rank in range(ranks)]
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[-1 - rank].tolist() + blocks[rank].tolist() for rank in range(ranks)]


# %% wrong: the ranks are turned around => values other-ranks  from: by counting
def spread_tokens(length, ranks):
    if VARIANT.dealt == "snake":
        owners = [min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) for p in range(length)]
        return [[p for p, owner in enumerate(owners) if owner == rank] for rank in reversed(range(ranks))]
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in reversed(range(ranks))]


# %% wrong: a query does not see itself => values keys-before  from: blocks of torch
def work_ratio(parts):
    work = [sum(part) for part in parts]
    return max(work) / max(sum(work) / len(work), 1e-9)


# %% wrong: tokens are counted => values tokens  from: blocks of torch
def work_ratio(parts):
    return max(map(len, parts)) * len(parts) / sum(map(len, parts))


# %% wrong: empty ranks are left out => values without-empty  from: blocks of torch
def work_ratio(parts):
    work = [sum(position + 1 for position in part) for part in parts if part]
    return max(work) / (sum(work) / len(work))


# %% wrong: the mean over the busiest => values inverse  from: blocks of torch
def work_ratio(parts):
    work = [sum(position + 1 for position in part) for part in parts]
    return sum(work) / len(work) / max(work)


# %% wrong: keys on the same rank => values own-keys  from: blocks of torch
def work_ratio(parts):
    work = [sum(key <= position for position in part for key in part) for part in parts]
    return max(work) / (sum(work) / len(work))
