from course_grader.exercises import Card, Tensor, TupleOf, Worth

GIVEN = """```python
def answer_log_probs(logits, tokens, first, length, temperature):
    scores = logits.log_softmax(-1)
    found = scores.gather(-1, tokens[:, :, None]).squeeze(-1)
    place = torch.arange(tokens.shape[1])
    mask = (place >= first[:, None]) & (place < length[:, None])
    return found[:, 1:], mask[:, :-1]
```"""

CARD = Card(
    title="What the generator drew from",
    text=f"""With this code, a trainer's ratios are far from 1 before the first update. Repair it. Each of its bugs was
in a public trainer: logits at another temperature than the generator's (*huggingface/trl, pull request 3029, 2025*), a
mask that is one token away from the log probabilities (*modelscope/ms-swift, pull request 8427, 2026*), and logits in
16 bits, until the trainer forced fp32 (*PrimeIntellect-ai/prime-rl, pull request 664, 2025*).

{GIVEN}

- `logits` (B, S, V): position p scores the token at p + 1. `tokens` (B, S) are questions with their answers; row b's
  answer begins at `first[b]` and ends before `length[b]`. Both are int64 tensors (B,).
- The generator drew each token from softmax(logits / `temperature`).
- Return `(log_probs, mask)`, both (B, S − 1). Column p belongs to the token at p + 1. `log_probs` are float32, computed
  from logits converted to fp32. `mask` is True for tokens of the answer. Leave the arguments as they are.

Shown: temperature {{{{temperature}}}}.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Which position scores the token at place 3? Which column of the result is that?",
        "Cut the last position off the logits and the first token off the tokens, and use the same places in the mask.",
        "`scores = (logits[:, :-1].float() / temperature).log_softmax(-1)`, gather `tokens[:, 1:]`, and a mask of "
        "`place = torch.arange(1, S)`.",
    ),
    answers=("answer_log_probs",),
    allowed="torch.",
    hides=("course_chapters.ch19.policy:token_log_probs", "course_chapters.ch19.adding:answer_log_probs"),
    params={"temperature": 0.6},
    vary=lambda draw: {"temperature": draw.choice((0.5, 0.7, 0.8))},
    returns=TupleOf({"log_probs": Tensor(), "mask": Tensor()}),
)
