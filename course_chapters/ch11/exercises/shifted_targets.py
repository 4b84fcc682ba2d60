from course_grader.exercises import Card, ListOf, Tensor, Worth, call, watched

POSITIONS = {
    "document": "`positions` count from 0 in every document, as RoPE needs them in packed training",
    "sequence": "`positions` count from 0 over the whole packed sequence, as some models are trained",
}

CARD = Card(
    title="Find the bug: a target lost at every cut",
    text="""Repair `local_batch`, which prepares one rank's tokens. It shifts the targets after the cut: a data collator
did so with zig-zag parts (*NVIDIA-BioNeMo/bionemo-recipes, pull request 1449, February 2026*), and a loss function with
contiguous ones (*huggingface/transformers, pull request 36607, March 2025*). In short:

```python
def local_batch(tokens, documents, indices):
    inputs = tokens[indices]
    targets = torch.cat([inputs[1:], torch.tensor([-100])])
    return inputs, targets, torch.arange(len(indices))
```

- `tokens` and `documents` (an id for each token) describe the whole packed sequence, and `indices` this rank's
  positions in it, in any order. All are int64.
- A target is the next token of the same document. The last token of a document has the target −100, which the loss
  ignores. Neighboring documents have different ids, but an id may occur again later.
- {{means}}. Return int64 tensors, and change no argument.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "With parts [0, 1, 6, 7] and [2, 3, 4, 5], what is the target of token 1?",
        "Compute targets and positions for the whole sequence first, then take this rank's indices from each.",
        "`last = torch.ones(len(tokens), dtype=torch.bool)`; `last[:-1] = documents[1:] != documents[:-1]`; `targets "
        "= tokens.roll(-1).where(~last, -100)`; the start of each document is the largest index so far at which the "
        "id changes (`cummax`).",
    ),
    answers=("local_batch",),
    allowed="torch; the library's functions for packed documents are switched off.",
    hides=("course_lib.model.packing:next_token_targets", "course_lib.model.packing:document_positions"),
    params={"count": "document", "means": POSITIONS["document"]},
    vary=lambda draw: {"count": "sequence", "means": POSITIONS["sequence"]},
    structural="count",
    needs=("04",),
    probe=watched(call),
    returns=ListOf(Tensor(), 3),
)
