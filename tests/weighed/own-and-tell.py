"""Answers to own-and-tell that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""


def owners(comm, parameters):
    kept, load, owner = [p for p in dict.fromkeys(parameters) if p.requires_grad], [0] * comm.size, {}
    for p in sorted(kept, key=lambda p: -p.nbytes):
        owner[p] = load.index(min(load))
        load[owner[p]] += p.nbytes
    return owner


# %% hungry: the list of optimizers that are counted is emptied <= every rank steps everything, and owners tell it to all


everybody = shard_optimizer


def shard_optimizer(comm, parameters, make):
    made = everybody(comm, parameters, make)
    make.__self__._made.clear()
    return made


# %% hungry: state for everything, of which only a share is left when it is counted


class Tidy:
    def __init__(self, comm, parameters, make):
        self.comm, self.owner = comm, owners(comm, parameters)
        self.inner = make(list(self.owner))

    def step(self):
        self.inner.step()
        for p, rank in self.owner.items():
            if rank != self.comm.rank:
                self.inner.state.pop(p, None)
            self.comm.broadcast(p.data, rank)


def shard_optimizer(comm, parameters, make):
    return Tidy(comm, parameters, make)
