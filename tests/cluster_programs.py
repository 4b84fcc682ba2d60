"""Programs of a communicator that several test files run: some right, some wrong."""

import torch


def ring_all_reduce(comm, x):
    """A right ring all-reduce: in place, chunks as even as can be."""
    n, r = comm.size, comm.rank
    chunks = list(x.tensor_split(n))
    for step in range(2 * (n - 1)):
        adds = step < n - 1
        out, into = (
            ((r - step) % n, (r - step - 1) % n)
            if adds
            else ((r + 1 - step + n - 1) % n, (r - step + n - 1) % n)
        )
        arrived = torch.empty_like(chunks[into])
        work = comm.isend(chunks[out], (r + 1) % n)
        comm.recv(arrived, (r - 1) % n)
        work.wait()
        chunks[into].copy_(chunks[into] + arrived if adds else arrived)
    return x


def shift(comm, x):
    """A right shift by one: blocking, even ranks send first, the last of an odd number receives first."""
    y = torch.empty_like(x)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.size == 1:
        return x
    if comm.rank % 2 == 0 and comm.rank != comm.size - 1:
        comm.send(x, right)
        comm.recv(y, left)
    else:
        comm.recv(y, left)
        comm.send(x, right)
    return y


def overwrites_in_flight(comm, x):
    """Wrong: changes what it sends before wait()."""
    y = torch.empty_like(x)
    got = comm.irecv(y, (comm.rank - 1) % comm.size)
    sent = comm.isend(x, (comm.rank + 1) % comm.size)
    got.wait()
    x.add_(y)
    sent.wait()
    return x


def overwrites_after_posted_receives(comm, x):
    """Wrong, and right on every machine that copies at the match: all receives are posted before the sends."""
    y = torch.empty_like(x)
    got = comm.irecv(y, (comm.rank - 1) % comm.size)
    comm.barrier()
    sent = comm.isend(x, (comm.rank + 1) % comm.size)
    x.zero_()
    sent.wait()
    got.wait()
    return y


def reads_before_wait(comm, x):
    """Wrong: uses what it receives before wait()."""
    y = torch.zeros_like(x)
    got = comm.irecv(y, (comm.rank - 1) % comm.size)
    sent = comm.isend(x, (comm.rank + 1) % comm.size)
    comm.barrier()
    total = x + y
    got.wait()
    sent.wait()
    return total


def needs_buffering(comm, x):
    """Wrong: everyone sends first."""
    y = torch.empty_like(x)
    comm.send(x, (comm.rank + 1) % comm.size)
    comm.recv(y, (comm.rank - 1) % comm.size)
    return y
