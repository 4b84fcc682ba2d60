from course_grader.exercises import Card, Params, Random, Worth, rows

_ATTENTION = {
    "fused": "uses PyTorch's fused kernel, which keeps its inputs, its output and one fp32 number per head and token",
    "by hand": "is written out: scores, a mask of later tokens (one byte each, shared by all heads), softmax, "
    "and a product",
}


def _block(attention: str, hidden: int, heads: int, ffn: int) -> dict[str, object]:
    sizes = {"batch": 3, "seq": 48, "hidden": hidden, "heads": heads, "ffn": ffn}
    return {"attention": attention, "attention_words": _ATTENTION[attention], **sizes}


def _variant(draw: Random) -> Params:
    heads, hidden = draw.choice(((6, 192), (8, 256), (4, 256), (6, 384), (3, 192), (2, 160)))
    return _block("by hand", hidden, heads, 4 * hidden)


CARD = Card(
    title="A ledger that adds up",
    **Worth(points=20, minutes=20, difficulty=4, importance=5),
    answers=("kept_bytes", "block_bytes"),
    text="""Account for every byte that a real block keeps for its backward pass, first from a list of saved tensors and
then from a formula of your own. The block is LayerNorm, attention, LayerNorm and an MLP of two matrices with a GELU
between them, with residual connections and no dropout. Its attention {{attention_words}}.

- `saved` in the cell below lists what autograd saved. Each row is one tensor: `"group"` (who saved it: `"norm1"`,
  `"attention"`, `"norm2"` or `"mlp"`), `"shape"`, `"dtype"`, `"storage"` (rows with the same number share memory),
  `"nbytes"` (of that whole storage, which stays alive while any part of it is needed) and `"parameter"` (true for a
  weight or bias, which is in memory anyway).
- `kept_bytes(rows)`: a dictionary from each group in the rows to the bytes it keeps **for the backward pass**. Leave
  out parameters; count each storage once, under the group that saved it first. Exact.
- `block_bytes(batch, seq, hidden, heads, ffn, size)`: the bytes that this block keeps, with `size` bytes per number (4
  for fp32, 2 for bf16), within **1 %** of the measurement. Heads have at least 32 numbers, and `hidden` is at least
  128.

Look at the rows before you write the formula: which tensor is each row, and how large is it?""",
    hints=(
        "Three matrices need the output of the first norm. How many different storages does it occupy?",
        "First skip parameters and storages that you have seen before. Then name every remaining row (the input of a "
        "norm, the input of a matrix, the input of the activation function, what attention keeps) and write its size "
        "in tokens, hidden, ffn and heads. Tensors with one number per token are too small to matter.",
        "tokens = batch · seq. Count the rows of tokens · hidden numbers and those of tokens · ffn. With attention by "
        "hand, add the softmax, batch · heads · seq² numbers, and the mask, seq² bytes.",
    ),
    allowed="the standard library and numpy; `saved_rows` is switched off during the check, so call it before.",
    hides=(
        "course_chapters.ch02.exercises.block:saved_rows",
        "course_lib.estimate.memory:layer_terms, layer_bytes, activation_bytes",
    ),
    params=_block("fused", 128, 4, 512),
    vary=_variant,
    structural="attention",
    probe=rows,
)
