import torch


# %% right: whole tensors, the largest first
class Sharded:
    def __init__(self, comm, parameters, make):
        self.comm, load = comm, [0] * comm.size
        self.owner = {}
        for p in sorted({id(p): p for p in parameters if p.requires_grad}.values(), key=lambda p: -p.nbytes):
            self.owner[p] = load.index(min(load))
            load[self.owner[p]] += p.nbytes
        mine = [p for p, rank in self.owner.items() if rank == comm.rank]
        self.inner = make(mine) if mine else None

    def step(self):
        if self.inner:
            self.inner.step()
        for p, rank in self.owner.items():
            self.comm.broadcast(p.data, src=rank)


def shard_optimizer(comm, parameters, make):
    return Sharded(comm, parameters, make)


# %% right: in the order of the list, to whoever has least
def shard_optimizer(comm, parameters, make):
    kept, owners, load = [], [], [0] * comm.size
    for p in parameters:
        if p.requires_grad and not any(p is q for q in kept):
            rank = min(range(comm.size), key=load.__getitem__)
            kept.append(p)
            owners.append(rank)
            load[rank] += p.numel()
    mine = [p for p, rank in zip(kept, owners) if rank == comm.rank]
    inner = make(mine) if mine else None

    class Optimizer:
        def step(self):
            if inner is not None:
                inner.step()
            works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
            for work in works:
                work.wait()

    return Optimizer()


# %% right: a flat row, cut evenly
class FlatOptimizer:
    def __init__(self, comm, parameters, make):
        self.comm = comm
        self.params = [p for p in dict.fromkeys(parameters) if p.requires_grad]
        count = sum(p.numel() for p in self.params)
        self.part = -(-count // comm.size)
        self.low = comm.rank * self.part
        self.mine = torch.nn.Parameter(self.flat(lambda p: p.data))
        self.inner = make([self.mine])

    def flat(self, of):
        row = torch.cat([of(p).reshape(-1) for p in self.params])
        own = row[self.low : self.low + self.part]
        return torch.cat([own, own.new_zeros(self.part - len(own))]).clone()

    def step(self):
        self.mine.grad = self.flat(lambda p: p.grad)
        self.inner.step()
        self.mine.grad = None
        row = torch.empty(self.part * self.comm.size)
        self.comm.all_gather_into_tensor(row, self.mine.detach())
        at = 0
        for p in self.params:
            p.data.copy_(row[at : at + p.numel()].view_as(p))
            at += p.numel()


def shard_optimizer(comm, parameters, make):
    return FlatOptimizer(comm, parameters, make)


# %% right: messages from each owner to each other rank  from: in the order of the list, to whoever has least
# - def shard_optimizer(comm, parameters, make):
# + from course_lib.cluster import P2POp
# + def shard_optimizer(comm, parameters, make):
# -             works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
# -             for work in works:
# +             ops = []
# +             for i, (p, rank) in enumerate(zip(kept, owners)):
# +                 if rank == comm.rank:
# +                     ops += [P2POp(comm.isend, p.data, d, i) for d in range(comm.size) if d != rank]
# +                 else:
# +                     ops.append(P2POp(comm.irecv, p.data, rank, i))
# +             for work in comm.batch_isend_irecv(ops) if ops else ():


# %% wrong: the plain optimizer, as it was => cost nothing-sent
def shard_optimizer(comm, parameters, make):
    return make([p for p in dict.fromkeys(parameters) if p.requires_grad])


# %% wrong: everybody steps everything, and rank 0 tells it to all => cost whole-state  from: in the order of the list, to whoever has least
# -     mine = [p for p, rank in zip(kept, owners) if rank == comm.rank]
# +     mine, owners = kept, [place % comm.size for place in range(len(kept))]

# %% wrong: shared out by number of tensors => cost unfair-share  from: in the order of the list, to whoever has least
# ~ min(range(comm.size), key=load.__getitem__) ==> len(kept) % comm.size

# %% wrong: neighbors in the list, equally many each => cost unfair-share  from: in the order of the list, to whoever has least
#               load[rank] += p.numel()
# +     each = -(-len(kept) // comm.size)
# +     owners = [place // each for place in range(len(kept))]

# %% wrong: nobody is told => values not-told  from: in the order of the list, to whoever has least
# ~ (mine) if mine else None ==> (mine)
# -             works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
# -             for work in works:
# -                 work.wait()

# %% wrong: each rank broadcasts its own only => raised  from: in the order of the list, to whoever has least
# -             works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
# +             works = [comm.broadcast(p.data, comm.rank, async_op=True) for p in mine]

# %% wrong: zeros elsewhere and an all-reduce => cost all-reduced  from: in the order of the list, to whoever has least
# -             works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
# -             for work in works:
# -                 work.wait()
# +             for p, rank in zip(kept, owners):
# +                 if rank != comm.rank:
# +                     p.data.zero_()
# +                 comm.all_reduce(p.data)

# %% wrong: copies are stepped, the given tensors stay => values nothing-stepped  from: in the order of the list, to whoever has least
#   def shard_optimizer(comm, parameters, make):
# +     given = [p for p in dict.fromkeys(parameters) if p.requires_grad]
# +     parameters = [torch.nn.Parameter(p.detach().clone()) for p in given]
#           def step(self):
# +             for p, q in zip(kept, given):
# +                 p.grad = q.grad

# %% wrong: an optimizer over an empty list => generality raised  from: in the order of the list, to whoever has least
# ~ (mine) if mine else None ==> (mine)

# %% wrong: the tied tensor is stepped twice => generality stepped-twice  from: in the order of the list, to whoever has least
# ~ inner = make(mine) if mine else None ==> inners = [make([p]) for p in parameters if any(p is q for q in mine)]
# ~ if inner is not None: ==> for inner in inners:

# %% wrong: tied and told twice => cost tied-twice  from: in the order of the list, to whoever has least
# -             works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
# +             home = dict(zip(kept, owners))
# +             works = [comm.broadcast(p.data, home[p], async_op=True) for p in parameters if p.requires_grad]

# %% wrong: frozen ones go round, too => cost frozen-sent  from: in the order of the list, to whoever has least
# ~ p.requires_grad and not ==> not
# ~ .rank ==> .rank and p.requires_grad

# %% wrong: gradients averaged once more => values other-numbers  from: in the order of the list, to whoever has least
#           def step(self):
# +             for p in mine:
# +                 p.grad = p.grad.sign() * p.grad.square() / comm.size

# %% wrong: waits for nothing => values ~  from: in the order of the list, to whoever has least
#       inner = make(mine) if mine else None
# +     last = []
#           def step(self):
# +             for work in last:
# +                 work.wait()
# +             last.clear()
# -             works = [comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners)]
# -             for work in works:
# -                 work.wait()
# +             last.extend(comm.broadcast(p.data, rank, async_op=True) for p, rank in zip(kept, owners))


# %% wrong: nothing is returned => values no-step
def shard_optimizer(comm, parameters, make):
    make([p for p in parameters if p.requires_grad])


# %% wrong: told before it is stepped => values a-step-behind  from: in the order of the list, to whoever has least
# -             if inner is not None:
# -                 inner.step()
#                   work.wait()
# +             if inner is not None:
# +                 inner.step()

# %% wrong: an optimizer made anew in every step => values fresh-state  from: in the order of the list, to whoever has least
# -     inner = make(mine) if mine else None
# ~ inner is not None ==> mine
# ~ inner.step() ==> make(mine).step()

# %% wrong: gradients go round again => cost too-many-bytes  from: in the order of the list, to whoever has least
#           def step(self):
# +             for p in kept:
# +                 comm.all_reduce(p.grad, op="AVG")

# %% wrong: a flat row without padding, whose last numbers are nobody's => values nobodys  from: a flat row, cut evenly
# ~ -(-count // comm.size) ==> count // comm.size
# -             p.data.copy_(row[at : at + p.numel()].view_as(p))
# +             new = row[at : at + p.numel()]
# +             p.data.view(-1)[: len(new)] = new

# %% wrong: frozen ones stepped with gradients of zero => generality frozen-touched  from: in the order of the list, to whoever has least
# -         if p.requires_grad and not any(p is q for q in kept):
# +         if not any(p is q for q in kept):
#           def step(self):
# +             for p in mine:
# +                 if p.grad is None:
# +                     p.grad = torch.zeros_like(p)

# %% wrong: frozen ones go round where some are tied => cost frozen-sent  from: whole tensors, the largest first
# ~ for p in parameters if p.requires_grad} ==> for p in parameters if p.requires_grad or len(set(parameters)) < len(parameters)}
