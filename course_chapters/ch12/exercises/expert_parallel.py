from collections.abc import Mapping

from course_chapters.ch12.exercises.probes import parallel
from course_chapters.ch12.exercises.shared import LAYER
from course_grader.exercises import Card, PerRank, Worth

PLACES: Mapping[str, str] = {
    "blocks": "Each rank holds n = `len(experts)` experts: rank r has experts r·n to r·n + n − 1, in this order",
    "round-robin": "Each rank holds n = `len(experts)` experts, dealt round-robin: rank r has the experts r, r + "
    "ranks, r + 2·ranks and so on, in this order",
}

CARD = Card(
    title="Experts on many ranks",
    text="""Write `expert_parallel(comm, x, ids, weights, experts, exchange)`, the same layer with its experts spread
over the ranks. Copies of tokens travel to the rank of their expert, and the results travel back.

- {{means}}. `ids` are the numbers of the experts over all ranks.
- `x`, `ids` and `weights` are this rank's own tokens. Row t of the result is Σⱼ weights[t, j] · expert ids[t, j] of
  x[t].
- `exchange(rows, send, receive)` exchanges rows with gradients: `send[j]` rows go to rank j, `receive[i]` rows come
  from rank i. Use it twice.
- Call each expert at most once, with its rows alone. Gradients flow to `x`, `weights` and all experts.
- A rank may have no tokens, or its experts may receive none. It must still take part in every exchange, **in the
  backward pass too**.
- There may be one rank. The number of tokens differs between ranks.

Budget: every copy for another rank crosses once each way, without padding. For counts, each rank may send 8 bytes per
expert on another rank.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "What must a rank know before it can receive rows, and how does it know which of its experts each row is for?",
        "Sort the copies by rank and then by local expert, and exchange the counts for each pair of rank and local "
        "expert. What arrives is sorted by source and then by expert. Sort it by expert, compute, undo the sorting, "
        "send back, undo the first sorting.",
        "`order = (rank_of * n + local).argsort(stable=True)`; `counts = bincount(..., minlength=ranks * n)`; "
        "all-to-all of `counts`; `which = arange(n).repeat(ranks).repeat_interleave(arrived_counts)`; start the "
        "result with a `cat` of all parts, empty ones too.",
    ),
    answers=("expert_parallel",),
    allowed="torch, `exchange` and the operations of `comm`; the library's layer is switched off.",
    hides=("course_lib.parallel.expert.exchange:dispatch, combine, all_to_all",),
    params={"placement": "blocks", "means": PLACES["blocks"], "tokens": 5},
    vary=lambda draw: {"placement": "round-robin", "means": PLACES["round-robin"], "tokens": draw.randrange(5, 10)},
    structural="placement",
    needs=("06",),
    probe=parallel,
    returns=PerRank(LAYER),
)
