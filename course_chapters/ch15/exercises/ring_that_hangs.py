from course_chapters.ch15.exercises.probes import passed_round
from course_grader.exercises import Card, DictOf, ListOf, Number, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="The ring that hangs on GPUs only",
    text="""Repair a ring that hangs on GPUs although its tests pass. Every rank has a block, and every rank must visit
every block, as context parallelism does with keys and values. While a rank visits one block, the next one should
already be on its way. The program below passes its tests where the transport buffers a sender's bytes. GPUs do not
buffer: each send waits for a receive, and each receive is queued behind a send. An `isend` and an `irecv` issued one by
one on one stream have the same problem (*NVIDIA/Fuser, pull request 5855, 2026*; *callummcdougall/ARENA_3.0, pull
request 407, 2026*).

```python
def ring_pass(comm, block, visit):
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    coming, total = torch.empty_like(block), 0
    for hop in range(comm.size):
        if hop < comm.size - 1:
            sending = comm.isend(block, after)
        total = total + visit(block, (comm.rank - hop) % comm.size)
        if hop < comm.size - 1:
            sending.wait()
            comm.recv(coming, before)
            block, coming = coming, block
    return total
```

`visit(block, owner)` takes a block and the rank that owns it, needs some time, and returns a tensor. Return the sum
over all blocks.

The hang hides a second bug: the backward pass still needs the caller's own `block`, so it must stay unchanged. Repair
both.

- **Nothing hangs**, with or without buffers, whether operations run in the order of issue or not. A single rank sends
  nothing.
- **Bytes** as before: each rank sends $N-1$ blocks, all to the next rank.
- **Hidden**: visits take longer than hops, so the hops add no time.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "What does every rank wait for first, and what must happen elsewhere before that can finish? Who owns the "
        "tensor that the second hop receives into?",
        "Start both halves of a hop as one operation without an inner order, visit, then wait. Receive into a tensor "
        "that is neither the caller's nor in flight.",
        "In each hop a new `coming`; `comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, "
        "coming, before)])`; visit; wait; `block = coming`.",
    ),
    answers=("ring_pass",),
    returns=PerRank(DictOf({"total": Tensor(), "owners": ListOf(Number(whole=True)), "block": Tensor()})),
    allowed=ALLOWED,
    params={"numbers": 6},
    vary=lambda draw: {"numbers": draw.randrange(4, 10)},
    needs=("06",),
    probe=passed_round,
)
