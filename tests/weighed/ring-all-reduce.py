"""Answers to ring-all-reduce that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""

import torch


# %% hungry: keeps everything that comes


def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    chunks, kept = [chunk.clone() for chunk in x.reshape(-1).tensor_split(n)], []
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = torch.empty_like(chunks[into])
        work = comm.isend(chunks[out], (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        kept += [chunks[into], arrived]
        chunks[into] = chunks[into] + arrived if step < n - 1 else arrived
    return torch.cat(chunks).reshape(x.shape)


# %% hungry: a copy for every hop


def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    stages = [x.reshape(-1).clone()]
    for step in range(2 * n - 2):
        flat = stages[-1].clone()
        chunks = flat.tensor_split(n)
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = torch.empty_like(chunks[into])
        work = comm.isend(chunks[out], (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived)
        stages.append(flat)
    return flat.reshape(x.shape)
