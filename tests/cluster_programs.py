"""Programs of a communicator that several test files run: some right, some wrong."""

import random

import torch

from course_lib.cluster import P2POp


def ring_all_reduce(comm, x):
    """A right ring all-reduce: in place, chunks as even as can be."""
    n, r = comm.size, comm.rank
    chunks = list(x.tensor_split(n))
    for step in range(2 * (n - 1)):
        adds = step < n - 1
        out, into = (
            ((r - step) % n, (r - step - 1) % n) if adds else ((r + 1 - step + n - 1) % n, (r - step + n - 1) % n)
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


def _neighbors(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def sums_before_wait(comm, x):
    """Wrong: adds what may have arrived, with nothing said between, in three steps."""
    right, left = _neighbors(comm)
    y, total = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(3):
        sent, got = comm.isend(x, right), comm.irecv(y, left)
        total += y
        sent.wait()
        total += 10 * y
        got.wait()
    return total


def looks_before_wait(comm, x):
    """Wrong: reads what may have arrived as numbers of Python, by ways that compute nothing."""
    right, left = _neighbors(comm)
    y, seen = torch.zeros_like(x), []
    for look in (
        torch.Tensor.tolist,
        lambda t: t.numpy().sum().item(),
        lambda t: float(t[0]),
        repr,
        lambda t: bytes(t.untyped_storage()),
    ):
        sent = comm.isend(x, right)
        works = comm.batch_isend_irecv([P2POp(comm.irecv, y, left)])
        seen.append(str(look(y)))
        sent.wait()
        seen.append(str(look(y)))
        works[0].wait()
        x += 1
    return seen


def passes_on_before_wait(comm, x):
    """Wrong: sends what may not have arrived, and what lies beside it."""
    right, left = _neighbors(comm)
    arrives, lies_beside, y, z = torch.zeros(4, len(x)).unbind()
    got = comm.irecv(arrives, left)
    sent = comm.isend(x, right)
    on, beside = comm.isend(arrives, right, tag=1), comm.isend(lies_beside, right, tag=2)
    sent.wait()
    comm.recv(z, left, tag=2)
    comm.recv(y, left, tag=1)
    for work in (got, on, beside):
        work.wait()
    return y, z


def reduces_before_wait(comm, x):
    """Wrong: a collective of what may not have arrived."""
    right, left = _neighbors(comm)
    y = torch.zeros_like(x)
    sent, got = comm.isend(x, right), comm.irecv(y, left)
    total = y if comm.rank else x
    comm.all_reduce(total)
    got.wait()
    sent.wait()
    return total, y


def under_modes_of_its_own(comm, x):
    """Right: with modes of torch that open and close between the halves, in every order."""
    right, left = _neighbors(comm)
    y, found = torch.zeros_like(x), []
    with torch.device("cpu"):
        sent, got = comm.isend(x, right), comm.irecv(y, left)
    sent.wait()
    got.wait()
    found.append(y.clone())
    sent, got = comm.isend(x, right), comm.irecv(y, left)
    with torch.device("meta"):
        sent.wait()
        got.wait()
        shape = torch.empty(3)
    found.append(shape.device.type)
    sent, got = comm.isend(x, right), comm.irecv(y, left)
    inside = torch.device("meta")
    inside.__enter__()
    got.wait()
    inside.__exit__(None, None, None)
    sent.wait()
    return found, torch.zeros(1).device.type, y


def polls(comm, x):
    """Right: looks until it has arrived."""
    right, left = _neighbors(comm)
    y = torch.zeros_like(x)
    got, sent = comm.irecv(y, left), comm.isend(x, right)
    while not got.is_completed():
        pass
    total = x + y
    sent.wait()
    return total


def many_at_once(comm, x):
    """Right: more halves under way than a rank may be ahead."""
    right, left = _neighbors(comm)
    into = torch.zeros(80, len(x))
    works = [work for tag in range(80) for work in (comm.irecv(into[tag], left, tag), comm.isend(x + tag, right, tag))]
    for work in works:
        work.wait()
    return into.sum(0)


def computes_while_it_passes_on(comm, x):
    """Wrong: what it sends on arrives while it computes."""
    arrives, y, z = torch.zeros(3, len(x)).unbind()
    if comm.rank == 1:
        got, on = comm.irecv(arrives, 2), comm.isend(arrives, 0, tag=1)
        comm.compute(1.0)
        other = comm.isend(x, 0, tag=2)
        other.wait()
        got.wait()
        on.wait()
    elif comm.rank == 0:
        comm.recv(y, 1, tag=2)
        comm.recv(z, 1, tag=1)
    elif comm.rank == 2:
        comm.send(x, 1)
    return y, z


def at_random(comm, seed):
    """Mostly wrong: halves around a ring in any order, with looks and changes between, on rows that are sent and
    received at once."""
    right, left = _neighbors(comm)
    coin, rows, seen = random.Random(seed), torch.arange(20.0).view(4, 5).add(100 * comm.rank).unbind(), []
    sends, receives = {}, {}  # tag -> (work, row)
    sent = got = 0
    for _ in range(16):
        deed, row = coin.choice("ssrrwwlcbp"), coin.randrange(4)
        if deed == "s" and sent <= got + 2:
            sends[sent] = comm.isend(rows[row], right, sent), row
            sent += 1
        elif deed == "r" and got < sent and row not in [each for _, each in sends.values()]:
            receives[got] = comm.irecv(rows[row], left, got), row
            got += 1
        elif deed == "w" and (
            over := [(half, tag) for half in (sends, receives) for tag in half if tag < min(sent, got)]
        ):
            half, tag = coin.choice(over)
            half.pop(tag)[0].wait()
        elif deed == "l":
            seen.append(rows[row].sum().item())
        elif deed == "c":
            rows[row].add_(1)
        elif deed == "b":
            comm.barrier()
        elif deed == "p" and receives:
            seen.append(next(iter(receives.values()))[0].is_completed())
    last = [comm.irecv(torch.empty(5), left, tag) for tag in range(got, sent)]
    for work in [*last, *(work for half in (receives, sends) for work, _ in half.values())]:
        work.wait()
    return seen, rows
