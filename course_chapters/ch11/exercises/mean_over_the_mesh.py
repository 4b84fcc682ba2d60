from course_chapters.ch11.exercises.probes import averaged
from course_grader.exercises import Anything, Card, DictOf, ListOf, PerRank, Tensor, Worth

CARD = Card(
    title="One mean over data and context ranks",
    text="""Write `mean_gradients(dp, cp, gradients, tokens)`. Ranks of a context-parallel group hold parts of the same
sequences, and data-parallel replicas hold other sequences. The gradient of a step is that of the mean loss over all
counted tokens of all of them.

- `dp` and `cp` are communicators: this rank's replicas, and the ranks that share its sequences. `comm.all_reduce(t)`
  adds in place.
- `gradients` is a list of fp32 tensors: the gradient of the **{{loss}}** loss over this rank's `tokens` counted tokens.
  `tokens` differs from rank to rank.
- `tokens` may be 0. Such a rank's gradients are {{empty}}, and do not count. If no rank has a counted token, return
  zeros.
- Return a list of new tensors. Change no argument.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Are two ranks of a context-parallel group two samples, or parts of one?",
        "Turn each gradient into that of a sum of losses, add over both groups, and divide by the number of tokens "
        "that all ranks counted.",
        "`sums = [g.new_zeros(g.shape) if tokens == 0 else g * tokens for g in gradients]` for means; all-reduce each "
        "of them and the count over `cp` and over `dp`; divide by `max(count, 1)`.",
    ),
    answers=("mean_gradients",),
    allowed="torch and the operations of `dp` and `cp`.",
    params={"loss": "mean", "empty": "NaN"},
    vary=lambda draw: {"loss": "summed", "empty": "0"},
    structural="loss",
    needs=("07",),
    probe=averaged,
    returns=PerRank(DictOf({"gradients": ListOf(Tensor()), "shared": Anything()})),
)
