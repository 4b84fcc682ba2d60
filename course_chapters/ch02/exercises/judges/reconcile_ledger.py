from functools import cache

from course_chapters.ch02.exercises.block import GROUPS, saved_rows
from course_grader.judging import Case, Judging, Params, Random, Worked, one_apart, shown, unseen
from course_grader.judging.per_row import EXACT, Breakdown, Column, shares, table

right = Worked("reconcile-ledger")


_real = cache(saved_rows)


def _traps(rng: Random) -> list[dict[str, object]]:
    """Constructed rows: small views of large storages, storages that two groups saved, weights in between."""
    numbers = rng.sample(range(0, 1_600_000, 99_991), rng.randint(4, 12))
    storages = [(number, 4 * rng.randint(1, 500)) for number in numbers]
    weights = {number for number, _ in storages if rng.random() < 0.3}
    found = []
    for _ in range(rng.randint(8, 30)):
        number, nbytes = rng.choice(storages)
        shape = [max(1, nbytes // 4 // rng.choice((1, 1, 2, 4)))]
        row = {"group": rng.choice(GROUPS), "storage": number, "nbytes": nbytes, "shape": shape, "dtype": "float32"}
        found.append({**row, "parameter": number in weights})
    return found


def _cases(params: Params, rng: Random) -> list[Case]:
    example = tuple(params[name] for name in ("batch", "seq", "hidden", "heads", "ffn"))

    def sizes(large: bool) -> tuple[int, ...]:
        heads = rng.choice((8, 16, 32) if large else (1, 2, 3, 4))
        hidden = heads * rng.choice((32, 64, 96, 128))
        batch, seq = rng.randint(1, 16 if large else 3), rng.choice((37, 128, 1024, 4096) if large else (5, 16, 33))
        return batch, seq, hidden, heads, rng.choice((hidden, 3 * hidden, 4 * hidden, 1000 + hidden))

    kinds = ("fused", "by hand"), ("float32", "bfloat16")
    real = [(_real(*sizes(False), *map(rng.choice, kinds)),) for _ in range(5)]
    blocks = [(1, 4096, 512, 8, 512, 2), *((*sizes(True), rng.choice((2, 4))) for _ in range(24))]
    apart = one_apart(blocks, right[1], lambda b, s, h, a, *_: h % a == 0 and h >= 32 * a)
    return [
        shown("the block shown", "values:kept", 0, [(_real(*example, params["attention"]),)]),
        shown("the block shown", "values:block", 1, [(*example, 4)]),
        unseen(rng, "kept", 0, "other rows", [*real, *((_traps(rng),) for _ in range(8)), ([],)]),
        unseen(rng, "block", 1, "other blocks", [*blocks, *apart]),
    ]


JUDGING = Judging(
    # where `ffn` is four times `hidden` in the block shown, only unseen blocks tell the two apart
    alike=lambda params: params["ffn"] / params["hidden"],
    shares=shares(kept=(0.25, 0.25), block=(0.2, 0.3)),
    cases=_cases,
    verdicts=table(
        Breakdown("kept", "bytes", words=lambda rows: f"{len(rows)} rows", rel=EXACT, floor=0),
        Column("block", "bytes", rel=0.01, words=right.words(1), hint="Name every storage in the rows, and its size."),
        right=right,
    ),
    why="The block keeps eight tensors of shape (tokens, hidden): both norms' inputs and outputs, queries, keys, "
    "values, and attention's result. It keeps two of shape (tokens, ffn): the GELU's input and output. Written "
    "out, attention adds the softmax, which grows with the square of the sequence length. The published 34 + "
    "5as/h is this list in 16 bits with an MLP of 4 · hidden and three dropout masks. The list depends on the "
    "kernel, dropout and data type, so compare terms, not totals.",
    pytorch="`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` sees what is saved. Two tensors share memory if "
    "they have the same `untyped_storage()`.",
)

ANSWERS = r'''def saved_rows(*block):
    """Rows that the cell only looks at."""
# %% right: worked
asked = params("reconcile-ledger")  # leave as is
attention = asked.attention  # "fused" or "by hand": your variant
saved = saved_rows(asked.batch, asked.seq, asked.hidden, asked.heads, asked.ffn, attention)  # look at these rows


def kept_bytes(rows: list[dict]) -> dict[str, int]:
    """Bytes of activations by group, without parameters, each storage once."""
    kept, seen = {row["group"]: 0 for row in rows}, set()
    for row in rows:
        if not row["parameter"] and row["storage"] not in seen:
            seen.add(row["storage"])
            kept[row["group"]] += row["nbytes"]
    return kept


def block_bytes(batch: int, seq: int, hidden: int, heads: int, ffn: int, size: int) -> float:
    """Bytes that the block keeps, within 1 %, with `size` bytes per number."""
    scores = seq * seq * (batch * heads * size + 1)  # the softmax, and a mask of one byte each
    return batch * seq * size * (8 * hidden + 2 * ffn) + (scores if attention == "by hand" else 0)
# %% right: with the small terms
# ~ {row["group"]: 0 for row in rows}, set() ==> dict.fromkeys((row["group"] for row in rows), 0), {row["storage"] for
# ~~ row in rows if row["parameter"]}
# ~ not row["parameter"] and row ==> row
# ~ ffn) + (scores if attention == "by hand" else 0 ==> ffn + 4) + (scores if attention == "by hand" else 4 * batch *
# ~~ seq * heads
# %% wrong: aliases counted => values
# > count each storage once.
# ~ ["parameter"] and row["storage"] not in seen ==> ["parameter"]
# %% wrong: parameters counted => values
# > this includes weights and biases, which are in memory anyway.
# ~ if not row["parameter"] and ==> if
# ~ (8 * hidden + 2 * ffn) + ==> (8 * hidden + 2 * ffn) + size * (4 * hidden**2 + 2 * hidden * ffn) +
# %% wrong: everything counted => values
# > this includes weights and biases, and a storage as often as it was saved.
# ~ if not row["parameter"] and row["storage"] not in seen ==> if True
# %% wrong: views measured => generality
# > a view keeps its whole storage alive.
# ~ row["nbytes"] ==> __import__("math").prod(row["shape"]) * {"float32": 4, "bfloat16": 2, "bool": 1}[row["dtype"]]
# %% wrong: views added => values aliases-counted
# ~ ["parameter"] and row["storage"] not in seen ==> ["parameter"]
# ~ row["nbytes"] ==> __import__("math").prod(row["shape"]) * {"float32": 4, "bfloat16": 2, "bool": 1}[row["dtype"]]
# %% wrong: every group again => generality
# > count a storage once, under the first group that saved it.
# ~ row["storage"] not in seen ==> (row["group"], row["storage"]) not in seen
# ~ seen.add(row["storage"]) ==> seen.add((row["group"], row["storage"]))
# %% wrong: last group => generality
# > count a storage under the first group that saved it, not the last.
# ~ for row in rows: ==> for row in rows[::-1]:
# %% wrong: counted not sized => values
# > this counts storages; return bytes.
# ~ row["nbytes"] ==> 1
# %% wrong: the total => values one-number
# ~ return kept ==> return sum(kept.values())
# %% wrong: another form's attention => values other-form unless attention=by hand
# > this block's attention is fused, so it does not keep the scores.
# ~ (scores if attention == "by hand" else 0) ==> scores
# %% wrong: another form's scores without a mask => values other-form unless attention=by hand
# ~ (scores if attention == "by hand" else 0) ==> scores - seq * seq * (attention == "fused")
# %% wrong: the public form's attention => values public-form unless attention=fused
# > this block's attention keeps its softmax.
# ~ (scores if attention == "by hand" else 0) ==> (scores if False else 0)
# %% wrong: always two bytes => values
# > this takes 2 bytes per number, not `size`.
# ~ scores = ==> size = 2; scores =
# %% wrong: always four bytes => generality
# > this takes 4 bytes per number, not `size`.
# ~ scores = ==> size = 4; scores =
# %% wrong: four times hidden => generality
# > the MLP's width is `ffn`.
# ~ 2 * ffn ==> 8 * hidden
# %% wrong: printed formula => values
# > the printed formula is for 16 bits with dropout masks and an MLP of 4 · hidden.
# ~ scores = ==> return seq * batch * hidden * 34; scores =
# %% wrong: the printed formula with scores => values printed-formula
# ~ scores = ==> return seq * batch * hidden * (34 + 5 * heads * seq / hidden); scores =
# %% wrong: numbers => values
# > this counts numbers; return bytes.
# ~ scores = ==> size = 1; scores =
# %% wrong: one sequence => values
# > this is one sequence of the batch.
# ~ scores = ==> batch = 1; scores =
# %% wrong: one wide tensor => values
# > this has one tensor of the MLP's width: the GELU needs its input, and the second matrix needs the GELU's output.
# ~ 2 * ffn ==> ffn
# %% wrong: norm outputs forgotten => values
# > two tensors are missing or one too wide is counted: list the norms' inputs, and their outputs, which the matrices
# > need.
# ~ 8 * hidden ==> 6 * hidden
# %% wrong: context forgotten => values
# > one tensor of the hidden size is missing, such as the input of the output matrix.
# ~ 8 * hidden ==> 7 * hidden
# %% wrong: input three times => values
# > queries, keys and values share one input.
# ~ 8 * hidden ==> 10 * hidden
# %% wrong: scores twice => values scores-twice unless attention=fused
# > only the softmax is kept of the scores.
# ~ if attention ==> + seq * seq * batch * heads * size if attention
# %% wrong: no softmax => values no-softmax unless attention=fused
# > the softmax is missing: batch · heads · seq² numbers.
# ~ (batch * heads * size + 1) ==> 1
# %% wrong: no mask => generality no-mask unless attention=fused
# > the mask is missing: seq² bytes.
# ~ (batch * heads * size + 1) ==> (batch * heads * size)
# %% wrong: mask a head => values mask-a-head unless attention=fused
# > all heads share one mask.
# ~ size + 1) ==> (size + 1))
# %% wrong: the library's terms => values raised
# ~ scores = ==> memory = __import__("course_lib.estimate.memory").estimate.memory;
# ~~ memory.layer_bytes(memory.Shape(layers=1, hidden=hidden, heads=heads, ffn=ffn, vocab=1), batch, seq); scores =
# %% half: the rows alone => 5
# ~ scores = ==> raise NotImplementedError; scores =
# %% half: the formula for this block only => 14
# ~ 2 * ffn ==> 8 * hidden
'''
