from course_chapters.ch11.exercises.probes import exchanged
from course_grader.exercises import Anything, Card, PerRank, Worth

CARD = Card(
    title="From tokens to heads and back",
    text="""Write the two exchanges of Ulysses. Between them, each rank has all tokens of some heads, and any attention
function works unchanged.

- `tokens_to_heads(comm, x, lengths)`: `x` has shape (heads, this rank's tokens, width), and `lengths` lists the tokens
  of every rank. Return shape (heads / N, all tokens, width): rank r's share of the heads, with the tokens in the order
  of the ranks.
- With fewer heads than ranks (KV heads under GQA), each head goes to N / heads neighboring ranks: rank r gets head r //
  (N / heads) alone.
- If neither heads / N nor N / heads is whole, raise ValueError. Its message ends with the largest smaller number of
  ranks that fits, such as "use 3".
- `heads_to_tokens(comm, x, lengths)` undoes the first case: from (heads / N, all tokens, width) to (heads, this rank's
  tokens, width).
- Lengths differ and may be 0. The dtype stays, `x` may be any view, and it stays as it is.

Budget: each rank sends only the numbers that another rank needs, once.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Which heads of which tokens does rank r send to rank j?",
        "`all_to_all_single` exchanges rows of a flat tensor, with split sizes. Flatten what goes to rank 0, then to "
        "rank 1, and so on, and cut what arrives by `lengths`.",
        "`parts = x.tensor_split(n, 0)`; send `torch.cat([part.reshape(-1) for part in parts])`; receive `heads // n "
        "* length * width` numbers from each rank; view each as (heads // n, length, width) and join along the tokens.",
    ),
    answers=("tokens_to_heads", "heads_to_tokens"),
    allowed="torch and all operations of `comm`; the library's exchanges are switched off.",
    hides=("course_lib.parallel.context.ulysses:to_heads, to_tokens, exchange, ulysses_attention",),
    params={"ranks": 4, "width": 3},
    vary=lambda draw: {"ranks": draw.choice((2, 3, 5)), "width": draw.choice((2, 4, 5))},
    needs=("06", "09"),
    probe=exchanged,
    returns=PerRank(Anything("a tensor")),
)
