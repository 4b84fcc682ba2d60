from course_grader.exercises import Card, PerRank, Tensor, Worth

WAYS = {
    "average": "the **mean** of the ranks' gradients, as DistributedDataParallel does",
    "sum": "the **sum** of the ranks' gradients",
}

CARD = Card(
    title="Which tokens count, and how much",
    text="""Give every position of this rank's packed conversations the weight that its loss needs, so that all ranks
together learn from the mean over **all tokens with a loss**. Write `weights(comm, ids, learned)`.

- `ids` (rows, room) says which conversation of this rank a position belongs to; −1 is padding. `learned` (rows, room)
  is True where the assistant wrote the token.
- Position p predicts the token at p + 1. It has a loss if that token is learned and belongs to the same conversation.
  The last position of a row predicts nothing.
- Return a float32 tensor (rows, room): 0 where there is no loss. The rank's loss is the sum of weight · token loss.
  After the backward pass, the trainer takes {{rule}}; the result must be the gradient of the mean.
- If no rank has a token to learn, all weights are 0. Ranks can have different numbers of rows.
- **Budget:** one collective of one number.""",
    **Worth(points=6, minutes=5, difficulty=3, importance=5),
    hints=(
        "Rank 0 has 3 tokens to learn, rank 1 has 300. How should a token of rank 0 weigh against one of rank 1?",
        "Compare `ids[:, 1:]` with `ids[:, :-1]`. Which number of which ranks is in the denominator, and what does the "
        "trainer's averaging divide by once more?",
        "`counts[:, :-1] = learned[:, 1:] & (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)`; all-reduce its sum in "
        "float64; `counts * factor / total`, where factor is the number of ranks if gradients are averaged.",
    ),
    answers=("weights",),
    allowed="torch and every operation of `comm`.",
    hides=(
        "course_lib.parallel.data.token_weighting:loss_scale, totals, mean_metrics",
        "course_lib.model.packing:next_token_targets",
        "course_chapters.ch19.sft:pack, targets_in",
    ),
    params={"way": "average", "rule": WAYS["average"], "room": 12},
    vary=lambda draw: {"way": "sum", "rule": WAYS["sum"], "room": draw.choice((10, 14, 16))},
    structural="way",
    returns=PerRank(Tensor("a float32 tensor")),
)
