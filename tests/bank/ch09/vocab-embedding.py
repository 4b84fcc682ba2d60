import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, sum_out


# %% right: look up anything, then make it zero
def embed(comm, tokens, weight, vocab):
    start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
    mine = (tokens >= start) & (tokens < start + len(weight))
    rows = F.embedding((tokens - start).where(mine, 0), weight)
    return sum_out(rows * mine.unsqueeze(-1), comm)


# %% right: an own product with one-hot rows
def embed(comm, tokens, weight, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    hot = (tokens.unsqueeze(-1) == blocks[comm.rank]).to(weight.dtype)
    return sum_out(hot @ weight, comm)


# %% right: any variant  from: an own product with one-hot rows
# - def embed(comm, tokens, weight, vocab):
# + from course_lib import params
# + VARIANT = params("vocab-embedding")
# + def embed(comm, tokens, weight, vocab):
# ~ blocks = torch.arange(vocab).tensor_split(comm.size) ==> words = torch.arange(vocab)
# ~ blocks[comm.rank]) ==> (words[comm.rank :: comm.size] if VARIANT.dealt == "round-robin" else words.tensor_split(comm.size)[comm.rank]))

# %% wrong: as it stood => values clamped  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .clamp(0, len(weight) - 1)
# ~ rows * mine.unsqueeze(-1) ==> rows

# %% wrong: index 0 for strangers, no mask => values -  from: look up anything, then make it zero
# ~ rows * mine.unsqueeze(-1) ==> rows

# %% wrong: masked, but not for the gradient => values strangers-gradient  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .clamp(0, len(weight) - 1)
# ~ rows * mine.unsqueeze(-1) ==> rows - (rows * ~mine.unsqueeze(-1)).detach()

# %% wrong: blocks as if they were all equally long => values -  from: look up anything, then make it zero
# ~ sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank]) ==> comm.rank * len(weight)

# %% wrong: no sum => values own-part  from: look up anything, then make it zero
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> rows * mine.unsqueeze(-1)

# %% wrong: a mean => values mean  from: look up anything, then make it zero
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> sum_out(rows * mine.unsqueeze(-1), comm) / comm.size

# %% wrong: tokens changed in place => values changed-input  from: look up anything, then make it zero
# ~ (tokens - start).where ==> tokens.sub_(start).where


# %% wrong: the whole table on every rank => cost gathered-table
def embed(comm, tokens, weight, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    longest = len(blocks[0])
    padded = F.pad(weight, (0, 0, 0, longest - len(weight)))
    places = torch.cat([block - block[0] + rank * longest for rank, block in enumerate(blocks)])
    return F.embedding(places[tokens], gather(padded, comm, 0))


# %% wrong: summed on the way back, divided by N => cost summed-back  from: look up anything, then make it zero
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     out = copy_in(sum_out(rows * mine.unsqueeze(-1), comm), comm)
# +     return out / comm.size + (out - out / comm.size).detach()

# %% wrong: rows that occur twice keep one gradient => values -  from: look up anything, then make it zero
#       rows = F.embedding((tokens - start).where(mine, 0), weight)
# +     words = tokens.flatten().tolist()
# +     new = torch.tensor([word not in words[:place] for place, word in enumerate(words)]).reshape(*tokens.shape, 1)
# +     rows = rows.where(new, rows.detach())

# %% wrong: every rank's vectors to everyone => cost gathered  from: look up anything, then make it zero
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> gather((rows * mine.unsqueeze(-1))[None], comm, 0).sum(0)

# %% wrong: an index of its own for strangers => values raised  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .where(mine, -1)

# %% half: right but for the gradient => 2.8  from: masked, but not for the gradient
