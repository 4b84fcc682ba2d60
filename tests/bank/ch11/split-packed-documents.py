import torch


# %% right: dealt by work
def split_pack(lengths, ranks):
    work = [at + 1 for length in lengths for at in range(length)]
    order = sorted(range(len(work)), key=lambda p: -work[p])
    parts = [[] for _ in range(ranks)]
    for i, position in enumerate(order):
        turn = i % (2 * ranks)
        parts[min(turn, 2 * ranks - 1 - turn)].append(position)
    return parts


# %% right: the least loaded rank of each round
def split_pack(lengths, ranks):
    work = [at + 1 for length in lengths for at in range(length)]
    order = sorted(range(len(work)), key=lambda p: -work[p])
    parts, load = [[] for _ in range(ranks)], [0] * ranks
    for start in range(0, len(order), ranks):
        by_load = sorted(range(ranks), key=lambda rank: load[rank])
        for rank, position in zip(by_load, order[start : start + ranks], strict=False):
            parts[rank].append(position)
            load[rank] += work[position]
    return parts


# %% wrong: equal runs of tokens => values equal-tokens
def split_pack(lengths, ranks):
    return [part.tolist() for part in torch.arange(sum(lengths)).tensor_split(ranks)]


# %% wrong: zig-zag over the pack => values equal-tokens
def split_pack(lengths, ranks):
    blocks = torch.arange(sum(lengths)).tensor_split(2 * ranks)
    return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in range(ranks)]


# %% wrong: zig-zag within each document => generality -
def split_pack(lengths, ranks):
    parts, start = [[] for _ in range(ranks)], 0
    for length in lengths:
        blocks = torch.arange(start, start + length).tensor_split(2 * ranks)
        for rank in range(ranks):
            parts[rank] += blocks[rank].tolist() + blocks[-1 - rank].tolist()
        start += length
    return parts


# %% wrong: whole documents => values unbalanced
def split_pack(lengths, ranks):
    parts, load, start = [[] for _ in range(ranks)], [0] * ranks, 0
    for length in lengths:
        rank = load.index(min(load))
        parts[rank] += range(start, start + length)
        load[rank] += length * (length + 1) // 2
        start += length
    return parts


# %% wrong: work alone, tokens as they come => values uneven-tokens
def split_pack(lengths, ranks):
    work = [at + 1 for length in lengths for at in range(length)]
    parts, rank, load = [[] for _ in range(ranks)], 0, 0
    for position, each in enumerate(work):
        if load >= (rank + 1) * sum(work) / ranks and rank < ranks - 1:
            rank += 1
        parts[rank].append(position)
        load += each
    return parts


# %% wrong: the rest is left over => values missing  from: dealt by work
# ~ (order) ==> (order[: len(order) // (2 * ranks) * 2 * ranks])

# %% wrong: every rank has the whole pack => values twice  from: dealt by work
# ~ return parts ==> return [list(range(sum(lengths)))] + parts[1:]

# %% wrong: a snake over the pack as it comes => generality ~  from: dealt by work
# ~ -work[p] ==> p

# %% wrong: remembers the work by tokens and documents => values -  from: dealt by work
# - def split_pack(lengths, ranks):
# + WORK = {}
# + def split_pack(lengths, ranks):
#       work = [at + 1 for length in lengths for at in range(length)]
# +     work = WORK.setdefault((len(work), len(lengths)), work)

# %% wrong: few tokens are not worth the effort => values equal-tokens  from: dealt by work
#       work = [at + 1 for length in lengths for at in range(length)]
# +     if len(work) < 4 * ranks:
# +         return [list(range(len(work)))[4 * rank : 4 * rank + 4] for rank in range(ranks)]
