"""Cards of chapter 11 on who holds which token: balance, packed documents, targets and positions, one mean over all ranks."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch11.probes import averaged, batch
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Number, PerRank, Rows, Tensor

DEALT: Mapping[str, str] = {
    "zig-zag": "Cut the sequence into 2N blocks of consecutive tokens, as `torch.tensor_split` does: the first blocks are one token longer where the "
    "length does not divide. Rank r gets block r and then block 2N − 1 − r",
    "snake": "Deal the tokens one by one, as in a snake draft: tokens 0 to N − 1 go to ranks 0 to N − 1, the next N tokens go to ranks N − 1 to 0, and so on. "
    "Each rank keeps its tokens in the order of the sequence",
}

ZIG_ZAG = Card(
    id="zig-zag-positions",
    chapter="11",
    title="Give every rank the same work",
    text="""Write two functions. The first spreads a sequence over ranks so that causal attention takes all of them about the same time; the second measures how well
that succeeds.

- `spread_tokens(length, ranks)` returns a list with one list of positions for each of the N ranks. {{means}}.
- Every position from 0 to length − 1 occurs once. A rank may stay empty.
- `work_ratio(parts)` takes any such list of positions. The work of a rank is the number of (query, key) pairs that it computes: its queries see all keys at
  or before their own position. Return the work of the busiest rank divided by the mean over all ranks, for at least one token.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "How many keys does the query at position p see?",
        "Half of a rank's tokens should be early, which makes them cheap, and half late. The work of a rank is the sum of (position + 1).",
        "`blocks = torch.arange(length).tensor_split(2 * ranks)`; `blocks[r].tolist() + blocks[-1 - r].tolist()`; for the snake, token p belongs to "
        "`min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks))`.",
    ),
    answers=("spread_tokens", "work_ratio"),
    allowed="everything; the library's layouts are switched off.",
    hides=tuple(
        f"context_parallel.layout:{name}" for name in ("contiguous", "zig_zag", "striped", "pairs", "imbalance")
    ),
    params={"dealt": "zig-zag", "means": DEALT["zig-zag"]},
    vary=lambda draw: {"dealt": "snake", "means": DEALT["snake"]},
    structural="dealt",
    probe=rows,
    returns=Rows(ListOf(ListOf(Number("a position", whole=True))), Number()),
)

PREDICT_BALANCE = Card(
    id="predict-causal-balance",
    chapter="11",
    title="Predict: what does an uneven cut cost?",
    text="""Predict the busiest rank's work as a multiple of the mean over all ranks. {{ranks}} ranks share one sequence in contiguous parts, and attention is causal.

Commit to an interval `(low, high)` with high at most 4 times low, then run the check: it reveals the number. You get the points for committing.""",
    **Worth(points=1, minutes=5, difficulty=1, importance=4),
    **PREDICTION,
    hints=(
        "Which fraction of all pairs belongs to the last of two equal parts?",
        "The last of N parts sees, on average, nearly the whole sequence. The mean query sees half of it.",
        "The last part's queries see between (N − 1)/N and all of the sequence. Divide the middle of that by one half.",
    ),
    answers=("busiest_over_mean",),
    allowed="everything but a run.",
    params={"ranks": 8},
    vary=lambda draw: {"ranks": draw.choice((4, 6, 12, 16))},
)

POSITIONS: Mapping[str, str] = {
    "document": "`positions` count from 0 in every document, as RoPE needs them in packed training",
    "sequence": "`positions` count from 0 over the whole packed sequence, as some models are trained",
}

SHIFTED_TARGETS = Card(
    id="shifted-targets",
    chapter="11",
    title="Find the bug: a target lost at every cut",
    text="""Repair `local_batch`, which prepares one rank's tokens. It shifts the targets after the cut: a data collator did so with zig-zag parts
(*NVIDIA-BioNeMo/bionemo-recipes, pull request 1449, February 2026*), and a loss function with contiguous ones (*huggingface/transformers, pull request
36607, March 2025*). In short:

```python
def local_batch(tokens, documents, indices):
    inputs = tokens[indices]
    targets = torch.cat([inputs[1:], torch.tensor([-100])])
    return inputs, targets, torch.arange(len(indices))
```

- `tokens` and `documents` (an id for each token) describe the whole packed sequence, and `indices` this rank's positions in it, in any order. All are int64.
- A target is the next token of the same document. The last token of a document has the target −100, which the loss ignores. Neighboring documents have
  different ids, but an id may occur again later.
- {{means}}. Return int64 tensors, and change no argument.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "With parts [0, 1, 6, 7] and [2, 3, 4, 5], what is the target of token 1?",
        "Compute targets and positions for the whole sequence first, then take this rank's indices from each.",
        "`last = torch.ones(len(tokens), dtype=torch.bool)`; `last[:-1] = documents[1:] != documents[:-1]`; `targets = tokens.roll(-1).where(~last, -100)`; "
        "the start of each document is the largest index so far at which the id changes (`cummax`).",
    ),
    answers=("local_batch",),
    allowed="torch; the library's functions for packed documents are switched off.",
    hides=("packing:next_token_targets", "packing:document_positions"),
    params={"count": "document", "means": POSITIONS["document"]},
    vary=lambda draw: {"count": "sequence", "means": POSITIONS["sequence"]},
    structural="count",
    needs=("04",),
    probe=batch,
    returns=DictOf({"batch": ListOf(Tensor(), 3), "touched": Anything()}),
)

SPLIT_DOCUMENTS = Card(
    id="split-packed-documents",
    chapter="11",
    title="Balance a pack of documents",
    text="""Write `split_pack(lengths, ranks)`, which spreads a pack of documents over ranks. Attention stays within a document, so equal numbers of tokens are not equal work: a long
document costs more per token than a short one.

- `lengths` are the documents' tokens, in the order in which they are packed; a length may be 0. Return a list with one list of positions in the pack for
  each rank. Every position occurs once.
- The work of a token is the number of keys that it sees: those of its document up to and including itself.
- The busiest rank's work is at most 1.05 times the mean, plus the length of the longest document.
- The largest number of tokens on a rank is at most 1.05 times the mean, plus 1.""",
    **Worth(points=8, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Zig-zag balances one document. What happens if many documents are shorter than 2N tokens?",
        "What counts is a token's work, not which document it belongs to. Deal the tokens like cards, the expensive ones first.",
        "Sort all tokens by their work, largest first; token number i goes to rank `min(i % (2 * n), 2 * n - 1 - i % (2 * n))`.",
    ),
    answers=("split_pack",),
    allowed="everything; the library's layouts are switched off.",
    hides=tuple(f"context_parallel.layout:{name}" for name in ("split_documents", "zig_zag")),
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5, 6))},
    needs=("04",),
    probe=rows,
    returns=Rows(ListOf(ListOf(Number("a position", whole=True)))),
)

MEAN_OVER_MESH = Card(
    id="mean-over-the-mesh",
    chapter="11",
    title="One mean over data and context ranks",
    text="""Write `mean_gradients(dp, cp, gradients, tokens)`. Ranks of a context-parallel group hold parts of the same sequences, and data-parallel replicas hold other
sequences. The gradient of a step is that of the mean loss over all counted tokens of all of them.

- `dp` and `cp` are communicators: this rank's replicas, and the ranks that share its sequences. `comm.all_reduce(t)` adds in place.
- `gradients` is a list of fp32 tensors: the gradient of the **{{loss}}** loss over this rank's `tokens` counted tokens. `tokens` differs from rank to rank.
- `tokens` may be 0. Such a rank's gradients are {{empty}}, and do not count. If no rank has a counted token, return zeros.
- Return a list of new tensors. Change no argument.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Are two ranks of a context-parallel group two samples, or parts of one?",
        "Turn each gradient into that of a sum of losses, add over both groups, and divide by the number of tokens that all ranks counted.",
        "`sums = [g.new_zeros(g.shape) if tokens == 0 else g * tokens for g in gradients]` for means; all-reduce each of them and the count over `cp` and over `dp`; "
        "divide by `max(count, 1)`.",
    ),
    answers=("mean_gradients",),
    allowed="torch and the operations of `dp` and `cp`.",
    params={"loss": "mean", "empty": "NaN"},
    vary=lambda draw: {"loss": "summed", "empty": "0"},
    structural="loss",
    needs=("07",),
    probe=averaged,
    returns=PerRank(DictOf({"gradients": ListOf(Tensor()), "touched": Anything(), "shared": Anything()})),
)
