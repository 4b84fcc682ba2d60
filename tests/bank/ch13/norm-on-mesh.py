import math

import torch


# %% right: divided by the copies
def mesh_norm(comm, sizes, parts):
    total = torch.zeros(1, dtype=torch.float64)
    for tensor, axes in parts:
        copies = math.prod(size for axis, size in sizes.items() if axis not in axes)
        total += tensor.double().square().sum() / copies
    comm.all_reduce(total)
    return total.sqrt().item()


# %% right: the first copy alone counts
def mesh_norm(comm, sizes, parts):
    at, rest = {}, comm.rank
    for axis in reversed(sizes):
        rest, at[axis] = divmod(rest, sizes[axis])
    own = sum(
        float((tensor.double() ** 2).sum())
        for tensor, axes in parts
        if all(at[axis] == 0 for axis in sizes if axis not in axes)
    )
    pieces = [torch.zeros(1, dtype=torch.float64) for _ in range(comm.size)]
    comm.all_gather(pieces, torch.tensor([own], dtype=torch.float64))
    return math.sqrt(sum(piece.item() for piece in pieces))


# %% right: any variant  from: divided by the copies
# - def mesh_norm(comm, sizes, parts):
# + from course_lib import params
# + POWER = params("norm-on-mesh").power
# + def mesh_norm(comm, sizes, parts):
# ~ square() ==> abs().pow(POWER)
# ~ total.sqrt() ==> (total ** (1 / POWER))

# %% wrong: every copy counts => values copies-counted  from: divided by the copies
# ~ () / copies ==> ()

# %% wrong: divided by all ranks => values -  from: divided by the copies
# ~ () / copies ==> () / comm.size

# %% wrong: the copies of whole gradients alone => values -  from: divided by the copies
# ~ math.prod(size for axis, size in sizes.items() if axis not in axes) ==> 1 if axes else comm.size

# %% wrong: own pieces => values own-pieces  from: divided by the copies
# ~ comm.all_reduce(total) ==> pass

# %% wrong: the sum => values no-root  from: divided by the copies
# ~ sqrt().item ==> item

# %% wrong: added up in bf16 => generality -  from: divided by the copies
# ~ double().square ==> square

# %% wrong: one all-reduce for each part => generality deadlock  from: divided by the copies
# -         total += tensor.double().square().sum() / copies
# -     comm.all_reduce(total)
# +         own = tensor.double().square().sum().reshape(1) / copies
# +         comm.all_reduce(own)
# +         total += own

# %% wrong: whole gradients are gathered => cost too-many-bytes  from: divided by the copies
#           total += tensor.double().square().sum() / copies
# +     flat = torch.zeros(500, dtype=torch.float64)
# +     comm.all_reduce(flat)

# %% wrong: axes by their usual names => generality -  from: divided by the copies
# ~ size for axis, size in sizes.items() ==> sizes.get(axis, 1) for axis in ("dp", "cp", "pp", "tp")

# %% wrong: a rank without parts stops early => generality deadlock  from: divided by the copies
#       total = torch.zeros(1, dtype=torch.float64)
# +     if not parts:
# +         return 0.0

# %% wrong: scaled in place => values -  from: divided by the copies
# ~ double().square().sum() / copies ==> mul_(1 / math.sqrt(copies)).double().square().sum()

# %% wrong: added up in fp32 => values rounded  from: divided by the copies
# ~ double ==> float

# %% wrong: five parts at most => generality ~  from: any variant
# ~ in parts: ==> in parts[:5]:
