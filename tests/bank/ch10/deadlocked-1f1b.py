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


# %% wrong: as it was found => protocol deadlock  from: the card

# %% wrong: GPipe, which does not hang and holds everything => cost too-much-memory  from: the card
# ~ min(last - rank, microbatches) ==> microbatches

# %% wrong: one micro-batch at a time, which does not hang and does not pipeline => cost slow  from: the card
# ~ min(last - rank, microbatches) ==> 0

# %% wrong: starts its sends and goes on, which hangs where a pair keeps its order => protocol deadlock  from: the card
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

# %% wrong: one extra forward ahead => cost too-much-memory  from: starts its sends and goes on, which hangs where a pair keeps its order
# ~ min(last - rank, microbatches) ==> min(last - rank + (rank < last), microbatches)

# %% wrong: all receives posted in the beginning, which a stream does not forgive => protocol deadlock  from: the card
#       rank, last = comm.rank, comm.size - 1
# +     def posted(peer):
# +         tensors = [empty() for _ in range(microbatches)]
# +         return [(tensor, comm.irecv(tensor, peer)) for tensor in tensors]
# +     inputs, grads = posted(rank - 1) if rank > 0 else [], posted(rank + 1) if rank < last else []
# -             x = empty()
# -             comm.recv(x, rank - 1)
# +             x, work = inputs[m]
# +             work.wait()
# -             grad = empty()
# -             comm.recv(grad, rank + 1)
# +             grad, work = grads[m]
# +             work.wait()

# %% wrong: fused, but x for the next turn is received into the one at work => values -  from: one batch for both directions, as Megatron-LM does
# ~ swap(comm, g, before, empty) ==> swap(comm, g, before, lambda used=x: used)

# %% wrong: nine tensors in turn => generality wrong-pairing  from: one batch for both directions, as Megatron-LM does
#       before, after = rank - 1, rank + 1
# +     def empty(pool=[empty() for _ in range(9)]):
# +         pool.append(pool.pop(0))
# +         return pool[0]

# %% half: starts its sends and goes on => 8.5  from: starts its sends and goes on, which hangs where a pair keeps its order

# %% half: GPipe => 5  from: GPipe, which does not hang and holds everything
