import torch
from course_lib.cluster import P2POp


def swap(comm, tensor, peer, empty):
    """Send a tensor to a neighbor and receive its own in one batch."""
    got = empty()
    for work in comm.batch_isend_irecv([P2POp(comm.isend, tensor, peer), P2POp(comm.irecv, got, peer)]):
        work.wait()
    return got


def receive(comm, peer, empty):
    """A tensor from a rank."""
    got = empty()
    comm.recv(got, peer)
    return got


# %% right: one batch for both directions, as Megatron-LM does
def run_1f1b(comm, forward, backward, empty, microbatches):
    rank, last = comm.rank, comm.size - 1
    before, after = rank - 1, rank + 1

    def next_input():
        return receive(comm, before, empty) if rank > 0 else None

    ahead = min(last - rank, microbatches)
    for m in range(ahead):
        y = forward(m, next_input())
        if rank < last:
            comm.send(y, after)
    steady = microbatches - ahead
    x = next_input() if steady else None
    for m in range(steady):
        y = forward(ahead + m, x)
        grad = swap(comm, y, after, empty) if rank < last else None
        g = backward(m, grad)
        if rank > 0 and m < steady - 1:
            x = swap(comm, g, before, empty)
        elif rank > 0:
            comm.send(g, before)
    for m in range(steady, microbatches):
        g = backward(m, receive(comm, after, empty) if rank < last else None)
        if rank > 0:
            comm.send(g, before)


# %% right: even ranks send first, odd ranks receive first
def run_1f1b(comm, forward, backward, empty, microbatches):
    rank, last = comm.rank, comm.size - 1

    def trade(tensor, peer):
        if rank % 2 == 0:
            comm.send(tensor, peer)
            return receive(comm, peer, empty)
        got = receive(comm, peer, empty)
        comm.send(tensor, peer)
        return got

    ahead = min(last - rank, microbatches)
    steady = microbatches - ahead
    for m in range(ahead):
        y = forward(m, receive(comm, rank - 1, empty) if rank else None)
        comm.send(y, rank + 1)
    x = receive(comm, rank - 1, empty) if rank and steady else None
    for m in range(steady):
        y = forward(ahead + m, x)
        g = backward(m, trade(y, rank + 1) if rank < last else None)
        if rank and m + 1 < steady:
            x = trade(g, rank - 1)
        elif rank:
            comm.send(g, rank - 1)
    for m in range(steady, microbatches):
        g = backward(m, receive(comm, rank + 1, empty))
        if rank:
            comm.send(g, rank - 1)


# %% right: receive the gradient first and send the activation then, on even ranks
def run_1f1b(c, F, B, e, M):
    r, L = c.rank, c.size - 1

    def t(x, p):
        if r % 2:
            c.send(x, p)
            return receive(c, p, e)
        g = receive(c, p, e)
        c.send(x, p)
        return g

    a = min(L - r, M)
    for m in range(a):
        c.send(F(m, receive(c, r - 1, e) if r else None), r + 1)
    x = receive(c, r - 1, e) if r and a < M else None
    for m in range(M - a):
        y = F(a + m, x)
        g = B(m, t(y, r + 1) if r < L else None)
        if r:
            if m < M - a - 1:
                x = t(g, r - 1)
            else:
                c.send(g, r - 1)
    for m in range(M - a, M):
        g = B(m, receive(c, r + 1, e))
        if r:
            c.send(g, r - 1)


# %% wrong: as it was found => protocol deadlock
def run_1f1b(comm, forward, backward, empty, microbatches):
    rank, last = comm.rank, comm.size - 1

    def one_forward(m):
        y = forward(m, receive(comm, rank - 1, empty) if rank > 0 else None)
        if rank < last:
            comm.send(y, rank + 1)

    def one_backward(m):
        grad = backward(m, receive(comm, rank + 1, empty) if rank < last else None)
        if rank > 0:
            comm.send(grad, rank - 1)

    ahead = min(last - rank, microbatches)
    for m in range(ahead):
        one_forward(m)
    for m in range(microbatches - ahead):
        one_forward(ahead + m)
        one_backward(m)
    for m in range(microbatches - ahead, microbatches):
        one_backward(m)


# %% wrong: GPipe, which does not hang and holds everything => cost too-much-memory
def run_1f1b(comm, forward, backward, empty, microbatches):
    rank, last = comm.rank, comm.size - 1
    for m in range(microbatches):
        y = forward(m, receive(comm, rank - 1, empty) if rank else None)
        if rank < last:
            comm.send(y, rank + 1)
    for m in range(microbatches):
        g = backward(m, receive(comm, rank + 1, empty) if rank < last else None)
        if rank:
            comm.send(g, rank - 1)


# %% wrong: one micro-batch at a time, which does not hang and does not pipeline => cost slow  from: GPipe, which does not hang and holds everything
#               comm.send(y, rank + 1)
# -     for m in range(microbatches):

# %% wrong: starts its sends and goes on, which hangs where a pair keeps its order => protocol deadlock  from: as it was found
# ~ last = comm.rank, comm.size - 1 ==> last, works = comm.rank, comm.size - 1, []
# ~ comm.send(y, rank + 1) ==> works.append(comm.isend(y, rank + 1))
# ~ comm.send(grad, rank - 1) ==> works.append(comm.isend(grad, rank - 1))
#       for m in range(microbatches - ahead, microbatches):
#           one_backward(m)
# +     for work in works:
# +         work.wait()


# %% wrong: does nothing, gradients stay zero => values zero-gradients
def run_1f1b(comm, forward, backward, empty, microbatches):
    return None


# %% wrong: forwards only => values zero-gradients
def run_1f1b(comm, forward, backward, empty, microbatches):
    for m in range(microbatches):
        y = forward(m, receive(comm, comm.rank - 1, empty) if comm.rank else None)
        if comm.rank < comm.size - 1:
            comm.send(y, comm.rank + 1)


# %% wrong: one tensor for all that is received => values wrong-pairing  from: one batch for both directions, as Megatron-LM does
#       before, after = rank - 1, rank + 1
# +     def empty(only=empty()):
# +         return only

# %% wrong: fewer micro-batches than stages are not thought of => generality -  from: one batch for both directions, as Megatron-LM does
# ~ min(last - rank, microbatches) ==> last - rank
# ~ () if steady else None ==> ()

# %% wrong: the first activations are sent twice => cost sent-again  from: one batch for both directions, as Megatron-LM does
# ~ receive(comm, before, empty) ==> [receive(comm, before, empty) for _ in range(2)][1]
# ~ if rank < last: ==> for _ in range(2 if rank < last else 0):


# %% wrong: one extra forward ahead => cost too-much-memory  from: receive the gradient first and send the activation then, on even ranks
def run_1f1b(c, F, B, e, M):
    r, L = c.rank, c.size - 1
    works = []
    a = min(L - r + (r < L), M)
    row = [("F", m) for m in range(a)]
    for m in range(M):
        row += [("F", a + m)] * (a + m < M) + [("B", m)]
    for k, m in row:
        if k == "F":
            o, to = F(m, receive(c, r - 1, e) if r else None), r + 1
        else:
            o, to = B(m, receive(c, r + 1, e) if r < L else None), r - 1
        if o is not None:
            works.append(c.isend(o, to))
    for w in works:
        w.wait()


# %% wrong: all receives posted in the beginning, which a stream does not forgive => protocol deadlock  from: receive the gradient first and send the activation then, on even ranks
def run_1f1b(c, F, B, e, M):
    r, L = c.rank, c.size - 1
    X = [e() for _ in range(M)]
    Gr = [e() for _ in range(M)]
    wx = [c.irecv(X[m], r - 1) for m in range(M)] if r else []
    wg = [c.irecv(Gr[m], r + 1) for m in range(M)] if r < L else []
    a = min(L - r, M)

    def f(m):
        if r:
            wx[m].wait()
        y = F(m, X[m] if r else None)
        if r < L:
            c.send(y, r + 1)

    def b(m):
        if r < L:
            wg[m].wait()
        g = B(m, Gr[m] if r < L else None)
        if r:
            c.send(g, r - 1)

    for m in range(a):
        f(m)
    for m in range(M - a):
        f(a + m)
        b(m)
    for m in range(M - a, M):
        b(m)


# %% wrong: fused, but x for the next turn is received into the one at work => values -  from: receive the gradient first and send the activation then, on even ranks
# -     def t(x, p):
# -         if r % 2:
# -             c.send(x, p)
# -             return receive(c, p, e)
# -         g = receive(c, p, e)
# -         c.send(x, p)
# +     x = e()
# +     def sw(t, p, g):
# +         for w in c.batch_isend_irecv([P2POp(c.irecv, g, p), P2POp(c.isend, t, p)]):
# +             w.wait()
# -     x = receive(c, r - 1, e) if r and a < M else None
# +     if r and a < M:
# +         c.recv(x, r - 1)
# ~ (a + m, x) ==> (a + m, x if r else None)
# ~ t(y, r + 1) ==> sw(y, r + 1, e())
# ~ x = t(g, r - 1) ==> sw(g, r - 1, x)


# %% wrong: nine tensors in turn => generality wrong-pairing  from: one batch for both directions, as Megatron-LM does
#       before, after = rank - 1, rank + 1
# +     def empty(pool=[empty() for _ in range(9)]):
# +         pool.append(pool.pop(0))
# +         return pool[0]


# %% half: starts its sends and goes on => 8.5
def run_1f1b(comm, forward, backward, empty, microbatches):
    rank, last, works = comm.rank, comm.size - 1, []
    ahead = min(last - rank, microbatches)
    row = [("F", m) for m in range(ahead)]
    for m in range(microbatches):
        row += [("F", ahead + m)] * (ahead + m < microbatches) + [("B", m)]
    for kind, m in row:
        if kind == "F":
            out, to = forward(m, receive(comm, rank - 1, empty) if rank else None), rank + 1
        else:
            out, to = backward(m, receive(comm, rank + 1, empty) if rank < last else None), rank - 1
        if out is not None:
            works.append(comm.isend(out, to))
    for work in works:
        work.wait()


# %% half: GPipe => 5  from: GPipe, which does not hang and holds everything
