import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, sum_out


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


# %% right: any variant
from course_lib import params

VARIANT = params("vocab-embedding")


def embed(comm, tokens, weight, vocab):
    words = torch.arange(vocab)
    own = words[comm.rank :: comm.size] if VARIANT.dealt == "round-robin" else words.tensor_split(comm.size)[comm.rank]
    hot = (tokens.unsqueeze(-1) == own).to(weight.dtype)
    return sum_out(hot @ weight, comm)


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


# %% wrong: tokens changed in place => values changed-input
def embed(comm, tokens, weight, vocab):
    start = int(torch.arange(vocab).tensor_split(comm.size)[comm.rank][0])
    tokens -= start
    mine = (tokens >= 0) & (tokens < len(weight))
    tokens[~mine] = 0
    return sum_out(F.embedding(tokens, weight) * mine.unsqueeze(-1), comm)


# %% wrong: the whole table on every rank => cost gathered-table
class _Table(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, comm, vocab):
        sizes = [len(block) for block in torch.arange(vocab).tensor_split(comm.size)]
        padded = F.pad(weight, (0, 0, 0, sizes[0] - len(weight)))
        parts = [torch.empty_like(padded) for _ in sizes]
        comm.all_gather(parts, padded)
        ctx.rows = slice(sum(sizes[: comm.rank]), sum(sizes[: comm.rank + 1]))
        return torch.cat([part[:size] for part, size in zip(parts, sizes)])

    @staticmethod
    def backward(ctx, grad):
        return grad[ctx.rows].clone(), None, None


def embed(comm, tokens, weight, vocab):
    return F.embedding(tokens, _Table.apply(weight, comm, vocab))


# %% wrong: summed on the way back, divided by N => cost summed-back  from: look up anything, then make it zero
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     out = copy_in(sum_out(rows * mine.unsqueeze(-1), comm), comm)
# +     return out / comm.size + (out - out / comm.size).detach()


# %% wrong: rows that occur twice keep one gradient => values -
class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, tokens, comm, start):
        mine = (tokens >= start) & (tokens < start + len(weight))
        out = torch.zeros(*tokens.shape, weight.shape[1], dtype=weight.dtype)
        out[mine] = weight[tokens[mine] - start]
        comm.all_reduce(out)
        ctx.kept = mine, tokens[mine] - start, weight.shape
        return out

    @staticmethod
    def backward(ctx, grad):
        mine, place, shape = ctx.kept
        out = torch.zeros(shape, dtype=grad.dtype)
        out[place] = grad[mine]
        return out, None, None, None


def embed(comm, tokens, weight, vocab):
    return _Rows.apply(weight, tokens, comm, int(torch.arange(vocab).tensor_split(comm.size)[comm.rank][0]))


# %% wrong: every rank's vectors to everyone, the right one chosen => cost gathered
class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm, owner):
        parts = x.new_empty(comm.size, *x.shape)
        comm.all_gather_into_tensor(parts, x.contiguous())
        ctx.mine = owner == comm.rank
        return parts.gather(0, owner[None, ..., None].expand(1, *x.shape))[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mine[..., None], None, None


def embed(comm, tokens, weight, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    owner = torch.stack([torch.isin(tokens, block) * rank for rank, block in enumerate(blocks)]).sum(0)
    start = int(blocks[comm.rank][0])
    return _Chosen.apply(F.embedding((tokens - start).clamp(0, len(weight) - 1), weight), comm, owner)


# %% wrong: an index of its own for strangers => values raised  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .where(mine, -1)

# %% half: right but for the gradient => 2.8  from: masked, but not for the gradient
