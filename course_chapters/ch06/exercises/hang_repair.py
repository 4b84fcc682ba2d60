from course_chapters.ch06.exercises.probes import from_messages
from course_grader.exercises import Card, PerRank, Tensor, TupleOf, Worth
from course_grader.exercises.point_to_point import ALLOWED

HANGING = """```python
def swap_edges(comm, ahead, behind):
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    from_before, from_after = torch.empty_like(ahead), torch.empty_like(behind)
    works = [comm.isend(ahead, after), comm.isend(behind, before)]
    works += [comm.irecv(from_before, before), comm.irecv(from_after, after)]
    for work in works:
        work.wait()
    return from_before, from_after
```"""

CARD = Card(
    title="It runs here and hangs there",
    text=f"""Repair a ring exchange that ran on CPUs and hung on GPUs. A public course posted every hop's `isend` and
`irecv` as separate calls (*callummcdougall/ARENA_3.0, pull request 407, 2026; see also NVIDIA/nccl, issue 479, 2021*).
On one GPU stream, operations with a peer run in the order in which they were issued, so every rank's send waited for a
receive that was queued behind the neighbor's own send. This function has that bug in both directions:

{HANGING}

- Every rank gives `ahead` to the next rank of the ring and `behind` to the previous one. It returns two tensors: what
  the previous rank sent ahead, and what the next rank sent behind. Pipelines do this with activations and gradients.
- `ahead` and `behind` may differ in shape and dtype; each has the same shape on all ranks.
- It must not hang when a pair's operations run in the order of issue, nor when nothing is buffered.
- Every rank sends each tensor once, and all act at the same time: at most six latencies for any number of ranks.
- In a ring of two, both neighbors are the same rank. A single rank returns its own two tensors and sends nothing.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "For two neighbors, write down the order in which each issues its operations with the other. Which operation "
        "comes first on both sides, and can it finish alone?",
        "Either make the four halves one operation, which has no order inside, or let even ranks send while odd ranks "
        "receive. Then run it with two ranks and check which of the two messages arrives where.",
        "`comm.batch_isend_irecv([P2POp(comm.isend, ahead, after), P2POp(comm.irecv, from_before, before), …])`. "
        "Messages of one pair are matched in order or by `tag`. With two ranks, list the receives in the order in "
        "which the other side sends, or give each direction a tag.",
    ),
    answers=("swap_edges",),
    allowed=ALLOWED,
    params={"numbers": 6},
    vary=lambda draw: {"numbers": draw.randrange(4, 10)},
    probe=from_messages,
    returns=PerRank(TupleOf({"from_before": Tensor(), "from_after": Tensor()})),
)
