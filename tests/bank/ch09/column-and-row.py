import copy

import torch


# %% right: chunk and clone
def column_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=0)[rank].clone()


def row_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=1)[rank].clone()


# %% right: ranges counted out
def column_shard(weight, rank, ranks):
    rows = weight.shape[0] // ranks
    piece = torch.empty(rows, weight.shape[1], dtype=weight.dtype)
    piece.copy_(weight[rank * rows : (rank + 1) * rows])
    return piece


def row_shard(weight, rank, ranks):
    columns = weight.shape[1] // ranks
    return weight[:, rank * columns : (rank + 1) * columns].clone()


# %% right: any variant  from: chunk and clone
# - def column_shard(weight, rank, ranks):
# + from course_lib import params
# + VARIANT = params("column-and-row")
# + OUTPUTS = 0 if VARIANT.layout == "torch" else 1
# + def column_shard(weight, rank, ranks):
# ~ 0 ==> OUTPUTS
# -     return weight.chunk(ranks, dim=1)[rank].clone()
# +     return weight.chunk(ranks, dim=1 - OUTPUTS)[rank].clone()

# %% wrong: dimensions exchanged, as in a textbook's layout => values other-cut unless layout=textbook  from: chunk and clone
# ~ chunk(ranks, dim=0) ==> chunk(ranks, dim=1)
# ~ return weight.chunk(ranks, dim=1)[rank] ==> return weight.chunk(ranks, dim=0)[rank]

# %% wrong: the whole weight on every rank => values whole  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank].clone() ==> weight
# ~ weight.chunk(ranks, dim=1)[rank].clone() ==> weight

# %% wrong: everything else made zero => values another-kind  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank].clone() ==> weight * (torch.arange(len(weight)) * ranks // len(weight) == rank)[:, None]
# ~ weight.chunk(ranks, dim=1)[rank].clone() ==> weight * (torch.arange(len(weight.T)) * ranks // len(weight.T) == rank)

# %% wrong: every fourth row => values dealt  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank] ==> weight[rank::ranks]
# ~ weight.chunk(ranks, dim=1)[rank] ==> weight[:, rank::ranks]

# %% wrong: transposed on the way => values transposed  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank].T.contiguous()
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank].T.contiguous()

# %% wrong: always the first rank's => values another-rank's  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank] ==> weight[: len(weight) // ranks]
# ~ weight.chunk(ranks, dim=1)[rank] ==> weight[:, : weight.shape[1] // ranks]

# %% wrong: numbers rounded to float32 => generality another-kind  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank].float().clone()
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank].float().clone()

# %% wrong: nothing returned => values returned-none  from: chunk and clone
# ~ return weight.chunk(ranks, dim=0)[rank].clone() ==> weight.chunk(ranks, dim=0)[rank].clone()
# ~ return weight.chunk(ranks, dim=1)[rank].clone() ==> weight.chunk(ranks, dim=1)[rank].clone()

# %% half: views of the whole => 4.25  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank]
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank]

# %% half: rows right, columns not => 1.75  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone ==> clone

# %% half: contiguous is no copy where it is contiguous already => 4.25  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank].contiguous()
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank].contiguous()

# %% half: a deep copy of a view copies what lies behind it => 4.25  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank].clone() ==> copy.deepcopy(weight.chunk(ranks, dim=0)[rank])
# ~ weight.chunk(ranks, dim=1)[rank].clone() ==> copy.deepcopy(weight.chunk(ranks, dim=1)[rank])
