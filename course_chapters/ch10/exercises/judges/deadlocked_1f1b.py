from course_chapters.ch10.exercises.judges.models import SAMPLES, SECONDS, WIDTH, gradients_fault, model_cases
from course_chapters.ch10.exercises.judges.shared import traffic_fault
from course_chapters.ch10.exercises.shared import WORK
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Weighed, oracle
from course_grader.judging.ranks import BUFFER, BUFFERS_LATE, LATE, STREAM, STREAM_LATE

SLACK = 1.2  # over the time that 1F1B takes where messages take none
ACTIVATIONS = 20_000_000  # bytes that a micro-batch leaves behind where the operating system counts


def _hang_cases(params: Params, rng: Random) -> list[Case]:
    case, p, m = model_cases(rng), params["ranks"], params["microbatches"]
    cases = [
        case(f"{p} ranks, {m} micro-batches", "values:gradients", range(p), m, visible=True),
        case("two ranks, other data", "values:gradients", range(2), 3),
    ]
    for p, m in ((1, 3), (4, 2), (2, 1), (7, 9), (3, 3)):
        name = "one rank alone" if p == 1 else f"{p} ranks, {m} micro-batch{'es' * (m > 1)}"
        cases.append(case(name, "generality:sizes", range(p), m))
    unkind = {
        "safe": ((3, LATE), (4, BUFFER), (3, BUFFERS_LATE)),
        "order": ((4, STREAM), (3, STREAM_LATE), (2, STREAM)),
    }
    for part, adversaries in unkind.items():
        for p, adversary in adversaries:
            cases.append(case(f"{p} ranks, {adversary}", f"protocol:{part}", range(p), 5, adversary=adversary))
    return cases


def _memory_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    m = len(case.secret[1])
    for rank, done in enumerate(outcome.value):
        held, most = done["held"], min(len(outcome.value) - rank, m)
        if held > most:
            gpipe_like = " All its forwards come first, as in GPipe." if held == m else ""
            return "too-much-memory", f"rank {rank} holds {held} micro-batches at once; 1F1B holds {most}.{gpipe_like}"
    return None


def _time_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    m, slot, took = len(case.secret[1]), sum(SECONDS), outcome.meter["seconds"]
    best = (m + (case.ranks or 1) - 1) * slot
    if took > SLACK * best + 1e-9:
        told = f"it takes {took / slot:.3g} times a forward and backward; 1F1B takes {best / slot:.3g}."
        return "slow", f"{told} It no longer hangs; which ranks now wait where 1F1B would let them work?"
    if took < m * slot - 1e-9:
        return "skipped", "it took less time than one stage computes: work was left out."
    return None


def _hang_weighed(params: Params, rng: Random) -> Weighed:
    """Two ranks, four micro-batches: 1F1B holds two and one at once, one more forward ahead makes it four, GPipe
    eight."""
    case = model_cases(rng)
    task, copies = ("cost:memory", range(2), 4), ACTIVATIONS // (SAMPLES * WIDTH * 8)
    large = case("two ranks, 4 micro-batches that leave 20 MB each", *task, copies=copies, seconds=30.0)
    warm = case("two ranks, 4 small micro-batches", *task, copies=100, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        return not WORK.find(outcome.value, large.name, large) and not gradients_fault(params, large, outcome)

    return Weighed(case=large, warm=warm, most=3.5 * ACTIVATIONS, done=done)


JUDGING = Judging(
    point=("cost:memory", "protocol:safe"),
    shares="values:gradients 0.25, cost:memory 0.25, cost:time 0.1, cost:once 0.05, protocol:safe 0.1, "
    "protocol:order 0.15, generality:sizes 0.1",
    measured_by_worker=("cost:memory",),
    cases=_hang_cases,
    verdicts=oracle(
        gradients_fault,
        {"cost:memory": _memory_fault, "cost:time": _time_fault, "cost:once": traffic_fault},
        named=True,
    ),
    weighed=_hang_weighed,
    why="""In the steady phase two neighbors always have something to send to each other. Operations in one batch have
no order, so neither rank waits for a receive that comes after the other's send. Taking turns (even ranks send first)
works as well. Starting the sends and continuing works without buffers, but not if the operations of a pair of ranks run
in the order in which they were issued.""",
    pytorch="Megatron-LM's `send_forward_recv_backward` and `send_backward_recv_forward`; `_batch_p2p` in "
    "`torch.distributed.pipelining`.",
)

ANSWERS = r'''from course_lib.cluster import P2POp
# %% right: worked
def run_1f1b(comm, forward, backward, empty, microbatches):
    """None. Run 1F1B on this rank's stage so that no sends wait for each other in a cycle."""

    def receive(peer):
        comm.recv(got := empty(), peer)
        return got

    def swap(tensor, peer):  # both directions in one batch, as Megatron-LM does
        halves = [P2POp(comm.isend, tensor, peer), P2POp(comm.irecv, got := empty(), peer)]
        for work in comm.batch_isend_irecv(halves):
            work.wait()
        return got

    rank, last = comm.rank, comm.size - 1
    ahead = min(last - rank, microbatches)
    steady = microbatches - ahead
    for m in range(ahead):
        y = forward(m, receive(rank - 1) if rank else None)
        comm.send(y, rank + 1)
    x = receive(rank - 1) if rank and steady else None
    for m in range(steady):
        y = forward(ahead + m, x)
        g = backward(m, swap(y, rank + 1) if rank < last else None)
        if rank and m < steady - 1:
            x = swap(g, rank - 1)
        elif rank:
            comm.send(g, rank - 1)
    for m in range(steady, microbatches):
        g = backward(m, receive(rank + 1))
        if rank:
            comm.send(g, rank - 1)
# %% right: even ranks send first, odd ranks receive first
# -         halves = [P2POp(comm.isend, tensor, peer), P2POp(comm.irecv, got := empty(), peer)]
# -         for work in comm.batch_isend_irecv(halves):
# -             work.wait()
# +         if comm.rank % 2 == 0:
# +             comm.send(tensor, peer)
# +         got = receive(peer)
# +         if comm.rank % 2:
# +             comm.send(tensor, peer)
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
# ~ rank, last = comm.rank, comm.size - 1 ==> return
# %% wrong: one tensor for all that is received => values wrong-pairing
#       """None. Run 1F1B on this rank's stage so that no sends wait for each other in a cycle."""
# +     def empty(only=empty()):
# +         return only
# %% wrong: nine tensors in turn => generality wrong-pairing
#       """None. Run 1F1B on this rank's stage so that no sends wait for each other in a cycle."""
# +     def empty(pool=[empty() for _ in range(9)]):
# +         pool.append(pool.pop(0))
# +         return pool[0]
# %% wrong: fused, but x for the next turn is received into the one at work => values wrong-pairing
# ~ x = swap(g, rank - 1) ==> x.copy_(swap(g, rank - 1))
# %% wrong: fewer micro-batches than stages are not thought of => generality raised
# ~ min(last - rank, microbatches) ==> last - rank
# ~ if rank and steady else ==> if rank else
# %% wrong: the first activations are sent twice => cost sent-again
# ~ forward(m, receive(rank - 1) if ==> forward(m, [receive(rank - 1) for _ in range(2)][1] if
# ~ comm.send(y, rank + 1) ==> [comm.send(y, rank + 1) for _ in range(2)]
# ~ x = receive(rank - 1) if ==> x = [receive(rank - 1) for _ in range(2)][1] if
# %% wrong: one extra forward ahead => cost too-much-memory  from: starts its sends and goes on, which hangs where a
# ~~ pair keeps its order
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
# %% half: starts its sends and goes on => 8.5  from: starts its sends and goes on, which hangs where a pair keeps its
# ~~ order
# %% half: GPipe => 5  from: GPipe, which does not hang and holds everything
'''
