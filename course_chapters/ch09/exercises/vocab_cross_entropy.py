from course_chapters.ch09.exercises.probes import BOTH_PASSES, losses
from course_grader.exercises import Card, Worth

CARD = Card(
    title="A loss without gathered logits",
    text="""Write `vocab_cross_entropy(comm, logits, targets, vocab)`: the mean cross-entropy over all tokens, the same
on every rank, without gathering the logits. The last matrix is split by columns, so every rank has the logits of its
part of the vocabulary, in blocks as `torch.tensor_split` cuts them. Gathering would send {{vocab:int}} numbers per
token and keep them. `logits` (batch, seq, columns here), `targets` (batch, seq) whole numbers below `vocab`, the same
on all ranks. After `loss.backward()` every rank has the gradient of its logits, as in one process.

- **Bytes:** a few numbers per token, at most those of four all-reduces of (batch, seq) in float32, forward and backward
  together.
- It works at logits of ±10⁴, in float32.
- Logits of 16 bits: the loss is computed and returned in float32; the gradient has the logits' dtype.
- Peak memory: at most eight times this rank's logits in float32.""",
    **Worth(points=10, minutes=25, difficulty=5, importance=4),
    kind="more",
    hints=(
        "The loss of a token is log Σ exp(zⱼ) − z of its target. Which of these three can a rank know alone, and what "
        "is the least that it needs from the others?",
        "First the largest logit of each token over all ranks (MAX), so that nothing overflows; then Σ exp(z − "
        "largest), and the target's logit, which one rank has; the others add zero. The gradient is softmax − one, "
        "and softmax needs only what the rank knows by now.",
        'All-reduce `z.detach().amax(-1)` with `op="MAX"`; `z = z - largest.unsqueeze(-1)`; `sum_out(z.exp().sum(-1), '
        "comm).log() - sum_out(picked, comm)`, where `picked` is zero for targets of others; `.mean()`. Without "
        "`sum_out`: a Function that keeps softmax and mask.",
    ),
    answers=("vocab_cross_entropy",),
    allowed="every operation of `comm`; torch; `copy_in` and `sum_out` of `course_lib.parallel.tensor`.",
    hides=(
        "course_lib.parallel.tensor.vocabulary:cross_entropy, gather_logits, _rows",
        "course_lib.parallel.four_axes:loss_sum",
    ),
    params={"vocab": 96},
    vary=lambda draw: {"vocab": draw.choice((88, 96, 112))},
    probe=losses,
    returns=BOTH_PASSES,
)
