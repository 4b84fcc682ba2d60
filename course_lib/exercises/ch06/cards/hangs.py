"""Further exercises of chapter 06 on ranks that wait: a hang to repair, a circle to find."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch06.probes import from_messages
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.returns import ListOf, Number, PerRank, Tensor, TupleOf

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

HANG_REPAIR = Card(
    id="hang-repair",
    chapter="06",
    title="It runs here and hangs there",
    text=f"""A reference solution of a public course posted every hop's `isend` and `irecv` as separate calls. It ran on CPUs.
On GPUs the ring hung for ever: on one stream, operations with a peer progress in the order in which they were issued, and
every rank's send waited for a receive that stood behind the neighbour's own send (*callummcdougall/ARENA_3.0, pull request
407, 2026; the same question: NVIDIA/nccl, issue 479, 2021*). This function has that bug in both directions:

{HANGING}

Each rank gives `ahead` to the rank after it and `behind` to the rank before it on a ring, and returns the pair: what the
rank before sent ahead, what the rank after sent behind. Pipelines do this with activations and gradients. `ahead` and
`behind` may differ in shape and dtype; each has the same shape on all ranks.

Repair it: no hang where a pair's operations keep their order of issue, none where nothing is buffered; every rank still
sends each tensor once, and all act at the same time: six latencies at most, however many ranks. In a ring of two, both neighbours are the same rank. One rank alone
is its own neighbour: it returns its own two tensors and sends nothing.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Write down, for two neighbours, the order in which each issues what concerns the other. Which operation stands first "
        "on both sides, and can it finish alone?",
        "Either make the four halves one operation, which has no order inside; or pair the ranks: even ones send while odd "
        "ones receive. Then run it with two ranks and look at which of the two messages arrives where.",
        "`comm.batch_isend_irecv([P2POp(comm.isend, ahead, after), P2POp(comm.irecv, from_before, before), …])`. Messages of "
        "one pair are matched in order, or by `tag`: with two ranks, list the receives in the order in which the other side "
        "sends, or give each direction a tag.",
    ),
    answers=("swap_edges",),
    allowed=ALLOWED,
    params={"numbers": 6},
    vary=lambda draw: {"numbers": draw.randrange(4, 10)},
    probe=from_messages,
    returns=PerRank(TupleOf({"from_before": Tensor(), "from_after": Tensor()})),
)

WAIT_FOR_CYCLE = Card(
    id="wait-for-cycle",
    chapter="06",
    title="Who waits for whom?",
    text="""A job stands still, or is it only slow? The log has one entry `(time, rank, state, peer)` whenever a rank begins
something. States: `"sends"` (to `peer`, and waits until it receives), `"receives"` (from `peer`, and waits until it
sends), `"computes"` (`peer` is `None`), `"done"`. Entries are in no order; a rank is in the state of its **latest** entry.

Write `find_cycle(log)`: the ranks of the circle in which each waits for the next, beginning with its smallest rank, such as
`[1, 4, 2]` when 1 waits for 4, 4 for 2 and 2 for 1; `[]` where there is none. A rank that sends to one which receives from it
does not wait: that message is on its way. Ranks that wait for a circle without being in it do not belong to it. Slow is no
circle. There is one circle at most.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "How many ranks can one rank wait for, by these states? What does that say about the shape of the graph?",
        "Reduce the log to one state a rank, then to `waits_for[rank]`. Strike out pairs that are about to meet. From any "
        "rank, follow the arrows until they end or come back to a rank seen before.",
        "`state = {}`; `for time, rank, what, peer in sorted(log, key=lambda e: e[0]): state[rank] = (what, peer)`. Met: "
        "`state.get(peer) == (other[what], rank)`. A circle is the part of the path from the first repeated rank on; rotate "
        "it so that its smallest rank comes first.",
    ),
    answers=("find_cycle",),
    params={"ranks": 6},
    vary=lambda draw: {"ranks": draw.randrange(5, 10)},
    returns=ListOf(Number("ranks", whole=True)),
)

HANGS = (HANG_REPAIR, WAIT_FOR_CYCLE)
