from collections.abc import Mapping

from course_grader.exercises import Card, ListOf, Number, Rows, Worth

DEALT: Mapping[str, str] = {
    "zig-zag": "Cut the sequence into 2N blocks of consecutive tokens, as `torch.tensor_split` does: the first blocks "
    "are one token longer where the length does not divide. Rank r gets block r and then block 2N − 1 − r",
    "snake": "Deal the tokens one by one, as in a snake draft: tokens 0 to N − 1 go to ranks 0 to N − 1, the next N "
    "tokens go to ranks N − 1 to 0, and so on. Each rank keeps its tokens in the order of the sequence",
}

CARD = Card(
    title="Give every rank the same work",
    text="""Write two functions. The first spreads a sequence over ranks so that causal attention takes all of them
about the same time; the second measures how well that succeeds.

- `spread_tokens(length, ranks)` returns a list with one list of positions for each of the N ranks. {{means}}.
- Every position from 0 to length − 1 occurs once. A rank may stay empty.
- `work_ratio(parts)` takes any such list of positions. The work of a rank is the number of (query, key) pairs that it
  computes: its queries see all keys at or before their own position. Return the work of the busiest rank divided by the
  mean over all ranks, for at least one token.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "How many keys does the query at position p see?",
        "Half of a rank's tokens should be early, which makes them cheap, and half late. The work of a rank is the "
        "sum of (position + 1).",
        "`blocks = torch.arange(length).tensor_split(2 * ranks)`; `blocks[r].tolist() + blocks[-1 - r].tolist()`; for "
        "the snake, token p belongs to `min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks))`.",
    ),
    answers=("spread_tokens", "work_ratio"),
    allowed="everything; the library's layouts are switched off.",
    hides=("course_lib.parallel.context.layout:contiguous, zig_zag, striped, pairs, imbalance",),
    params={"dealt": "zig-zag", "means": DEALT["zig-zag"]},
    vary=lambda draw: {"dealt": "snake", "means": DEALT["snake"]},
    structural="dealt",
    returns=Rows(ListOf(ListOf(Number("a position", whole=True))), Number()),
)
