import torch

from course_lib import params

SNAKE = params("zig-zag-positions").dealt == "snake"


# %% right: blocks of torch
def spread_tokens(length, ranks):
    if SNAKE:
        owners = [min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) for p in range(length)]
        return [[p for p, owner in enumerate(owners) if owner == rank] for rank in range(ranks)]
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in range(ranks)]


def work_ratio(parts):
    work = [sum(position + 1 for position in part) for part in parts]
    return max(work) / (sum(work) / len(work))


# %% right: by counting
def spread_tokens(length, ranks):
    parts, start = [[] for _ in range(ranks)], 0
    turn = [*range(ranks), *reversed(range(ranks))]
    for block in range(length if SNAKE else 2 * ranks):
        size = 1 if SNAKE else length // (2 * ranks) + (block < length % (2 * ranks))
        parts[turn[block % (2 * ranks)]] += range(start, start + size)
        start += size
    return parts


def work_ratio(parts):
    tokens = sum(map(len, parts))
    return max(sum(part) + len(part) for part in parts) * len(parts) / (tokens * (tokens + 1) / 2)


# %% wrong: contiguous parts => values contiguous  from: blocks of torch
# ~ if SNAKE: ==> if False:
# ~ blocks[rank].tolist() + blocks[-1 - rank].tolist() ==> blocks[2 * rank].tolist() + blocks[2 * rank + 1].tolist()

# %% wrong: half a sequence apart => values half-apart  from: blocks of torch
# ~ if SNAKE: ==> if False:
# ~ blocks[-1 - rank] ==> blocks[rank + ranks]


# %% wrong: stripes => values striped  from: blocks of torch
def spread_tokens(length, ranks):
    return [list(range(rank, length, ranks)) for rank in range(ranks)]


# %% wrong: the rest is cut off => generality missing  from: by counting
# -     for block in range(length if SNAKE else 2 * ranks):
# -         size = 1 if SNAKE else length // (2 * ranks) + (block < length % (2 * ranks))
# +     for block in range(length // (2 * ranks) * 2 * ranks if SNAKE else 2 * ranks):
# +         size = 1 if SNAKE else length // (2 * ranks)

# %% wrong: the last tokens first => values other-order  from: by counting
# ~ return parts ==> return [part[len(part) // 2 :] + part[: len(part) // 2] for part in parts]

# %% wrong: the ranks are turned around => values other-ranks  from: by counting
# ~ return parts ==> return parts[::-1]

# %% wrong: a query does not see itself => values keys-before  from: blocks of torch
# ~ position + 1 for position in part ==> part
# ~ (sum(work) / len(work)) ==> max(sum(work) / len(work), 1e-9)

# %% wrong: tokens are counted => values tokens  from: blocks of torch
# ~ work = [sum(position + 1 for position in part) for part in parts] ==> work = [len(part) for part in parts]

# %% wrong: empty ranks are left out => values without-empty  from: blocks of torch
# ~ in parts ==> in parts if part

# %% wrong: keys on the same rank => values own-keys  from: blocks of torch
# ~ position + 1 for position ==> key <= position for position in part for key

# %% wrong: the first and last two ranks alone => values ~  from: blocks of torch
# ~ max(work) ==> max(work[:2] + work[-2:])
