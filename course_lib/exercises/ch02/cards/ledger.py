"""The ledger of chapter 02: what autograd kept of a real block, reconciled with a formula."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.probes import rows

_ATTENTION = {
    "fused": "by PyTorch's fused kernel, which keeps its inputs, its output and one fp32 number for each head and token",
    "by hand": "written out: scores, a mask of the later tokens (one byte each, the same for all heads), softmax, a product",
}


def _block(attention: str, hidden: int, heads: int, ffn: int) -> dict[str, Any]:
    sizes = {"batch": 3, "seq": 48, "hidden": hidden, "heads": heads, "ffn": ffn}
    return {"attention": attention, "attention_words": _ATTENTION[attention], **sizes}


def _variant(draw: random.Random) -> Mapping[str, Any]:
    heads, hidden = draw.choice(((6, 192), (8, 256), (4, 256), (6, 384), (3, 192), (2, 160)))
    return _block("by hand", hidden, heads, 4 * hidden)


RECONCILE_LEDGER = Card(
    id="reconcile-ledger",
    chapter="02",
    title="A ledger that adds up",
    **Worth(points=20, minutes=20, difficulty=4, importance=5),
    answers=("kept_bytes", "block_bytes"),
    text="""A real block ran once: LayerNorm, attention, LayerNorm, and an MLP of two matrices with a GELU between them, with
residual connections and no dropout. Attention is computed {{attention_words}}. What autograd saved for the backward pass is in

```python
from course_lib.exercises.ch02.block import saved_rows

rows = saved_rows(batch={{batch}}, seq={{seq}}, hidden={{hidden}}, heads={{heads}}, ffn={{ffn}}, attention="{{attention}}")
```

one dictionary for each time that something was saved: `"group"` (the part of the block that saved it: `"norm1"`,
`"attention"`, `"norm2"`, `"mlp"`), `"shape"` and `"dtype"` of what was saved, `"storage"` (a number: two rows with the same
one share memory), `"nbytes"` (of that whole storage, which stays alive as long as any part of it is needed) and
`"parameter"` (whether it is a weight or bias, which is in memory anyway).

- `kept_bytes(rows)`: a dictionary with every group of the rows, and the bytes that each keeps alive **for the backward pass**:
  no parameters, each storage once, under the group that saved it first. Exact.
- `block_bytes(batch, seq, hidden, heads, ffn, size)`: the bytes that this block keeps at those sizes, with `size` bytes a number
  (4 for fp32, 2 for bf16), from a formula of yours, within **1 %** of what is measured. Heads have at least 32 numbers, `hidden` at least 128.

Look at the rows before you write a formula: which tensor of which size is each?""",
    hints=(
        "How many different storages does the output of the first norm end up in, although three matrices need it?",
        "First: go through the rows, skip parameters and storages that were seen before. Then: name every row that is left (what went "
        "into a norm, what a matrix multiplied, what the activation function got, what attention kept) and give its size in tokens, "
        "hidden, ffn, heads. Tensors of a number a token are too small to matter.",
        "tokens = batch · seq. Count how many rows are tokens · hidden numbers, how many tokens · ffn. By hand, add the softmax: "
        "batch · heads · seq² numbers, and seq² bytes of mask.",
    ),
    allowed="the standard library and numpy; `saved_rows` is switched off during the check, so measure before it.",
    hides=("exercises.ch02.block:saved_rows", "memory:layer_terms", "memory:layer_bytes", "memory:activation_bytes"),
    params=_block("fused", 128, 4, 512),
    vary=_variant,
    structural="attention",
    probe=rows,
)
