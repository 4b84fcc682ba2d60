"""Judge of reconcile-ledger: a ledger that adds up."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from course_lib.exercises.ch02.block import GROUPS, saved_rows
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Breakdown, Column, table
from course_lib.judging.draws import one_apart, unseen
from course_lib.records import Case

Row = Mapping[str, Any]
Rows = Sequence[Row]
NEAR = 0.01
ITEM = {"float32": 4, "bfloat16": 2, "bool": 1, "float64": 8, "int64": 8}


def kept_of(
    rows: Rows,
    size: Callable[[Row], int] = lambda row: row["nbytes"],
    key: Callable[[Row], Any] = lambda row: row["storage"],
    parameters: bool = False,
) -> dict[str, int]:
    """Bytes by group, each `key` once where it was saved first; by default whole storages, without parameters."""
    kept = dict.fromkeys((row["group"] for row in rows), 0)
    seen = set()
    for row in rows:
        if (parameters or not row["parameter"]) and key(row) not in seen:
            seen.add(key(row))
            kept[row["group"]] += size(row)
    return kept


def _view_bytes(row: Row) -> int:
    return math.prod(row["shape"]) * ITEM[row["dtype"]]


FIRST_GROUP = "count a storage once, under the first group that saved it."
SHARED = "some of these views share a storage, and each keeps all of it alive."
WITH_PARAMETERS = "this includes weights and biases, which are in memory anyway."

KEPT = Breakdown(
    part="kept", unit="bytes", want=kept_of, words=lambda rows: f"{len(rows)} rows", rel=EXACT, floor=0
).knowing(
    Mistake("aliases-counted", lambda rows: kept_of(rows, key=id), "count each storage once."),
    Mistake("parameters-counted", lambda rows: kept_of(rows, parameters=True), WITH_PARAMETERS),
    Mistake("everything-counted", lambda rows: kept_of(rows, key=id, parameters=True), WITH_PARAMETERS),
    Mistake("views-measured", lambda rows: kept_of(rows, _view_bytes), "a view keeps its whole storage alive."),
    Mistake("views-added", lambda rows: kept_of(rows, _view_bytes, id), SHARED),
    Mistake(
        "every-group-again", lambda rows: kept_of(rows, key=lambda row: (row["group"], row["storage"])), FIRST_GROUP
    ),
    Mistake("last-group", lambda rows: kept_of(rows[::-1]), FIRST_GROUP),
    Mistake("counted-not-sized", lambda rows: kept_of(rows, lambda row: 1), "this counts storages; return bytes."),
)


def terms(attention: str, batch: int, seq: int, hidden: int, heads: int, ffn: int, size: int) -> dict[str, float]:
    """Bytes of each tensor that the block keeps, by name."""
    tokens = batch * seq
    row = tokens * hidden * size
    found = {
        "norm1.input": row,
        "norm1.statistics": 2 * tokens * size,
        "attention.input": row,
        "attention.q": row,
        "attention.k": row,
        "attention.v": row,
        "attention.context": row,
        "norm2.input": row,
        "norm2.statistics": 2 * tokens * size,
        "mlp.input": row,
        "mlp.up": tokens * ffn * size,
        "mlp.activated": tokens * ffn * size,
    }
    if attention == "fused":
        return {**found, "attention.logsumexp": 4 * tokens * heads}
    return {**found, "attention.softmax": tokens * seq * heads * size, "attention.mask": seq * seq}


def block_of(attention: str, *sizes: int) -> float:
    """All terms together."""
    return sum(terms(attention, *sizes).values())


ATTENTION = {
    "by hand": "this block's attention keeps its softmax.",
    "fused": "this block's attention is fused, so it does not keep the scores.",
}
ONE_INPUT = "queries, keys and values share one input."
NORMED = "the norms' outputs are missing; the matrices after them need their inputs."
PRINTED = "the printed formula is for 16 bits with dropout masks and an MLP of 4 · hidden."


def _block_column(attention: str) -> Column:
    by_hand = attention == "by hand"
    other, name = ("fused", "public-form") if by_hand else ("by hand", "other-form")

    def want(*row: int) -> float:
        return block_of(attention, *row)

    def without(*names: str) -> Callable[..., float]:
        return lambda *row: sum(value for term, value in terms(attention, *row).items() if term not in names)

    def plus(more: Callable[..., float]) -> Callable[..., float]:
        return lambda *row: want(*row) + more(*row)

    hand_made = (
        Mistake("scores-twice", plus(lambda b, s, h, a, f, z: z * b * a * s * s), "only the softmax is kept."),
        Mistake("mask-a-head", plus(lambda b, s, h, a, f, z: (b * a - 1) * s * s), "all heads share one mask."),
    )
    return Column(
        part="block",
        unit="bytes",
        want=want,
        rel=NEAR,
        words=lambda b, s, h, a, f, z: f"{b} × {s} tokens, hidden {h}, {a} heads, ffn {f}, {z} bytes a number",
        hint="Name every storage in the rows, and write its size in tokens, hidden, ffn and heads.",
    ).knowing(
        Mistake(name, lambda *row: block_of(other, *row), ATTENTION[attention]),
        Mistake("always-two-bytes", lambda *row: want(*row[:5], 2), "this takes 2 bytes per number, not `size`."),
        Mistake("always-four-bytes", lambda *row: want(*row[:5], 4), "this takes 4 bytes per number, not `size`."),
        Mistake("four-times-hidden", lambda *row: want(*row[:4], 4 * row[2], row[5]), "the MLP's width is `ffn`."),
        Mistake("printed-formula", lambda b, s, h, a, f, z: s * b * h * 34, PRINTED),
        Mistake("printed-formula", lambda b, s, h, a, f, z: s * b * h * (34 + 5 * a * s / h), PRINTED),
        Mistake("with-weights", plus(lambda b, s, h, a, f, z: z * (4 * h * h + 2 * h * f)), WITH_PARAMETERS),
        Mistake("numbers", lambda *row: want(*row) / row[-1], "this counts numbers; return bytes."),
        Mistake("one-sequence", lambda *row: want(1, *row[1:]), "this is one sequence of the batch."),
        Mistake("one-wide-tensor", without("mlp.activated"), "the MLP's second matrix needs the GELU's output."),
        Mistake("one-wide-tensor", without("mlp.up"), "the GELU needs its input."),
        Mistake("norm-outputs-forgotten", without("attention.input", "mlp.input"), NORMED),
        Mistake("norm-inputs-forgotten", without("norm1.input", "norm2.input"), "the norms' inputs are missing."),
        Mistake("context-forgotten", without("attention.context"), "the input of the output matrix is missing."),
        Mistake("input-three-times", plus(lambda b, s, h, a, f, z: 2 * b * s * h * z), ONE_INPUT),
        *(hand_made if by_hand else ()),
    )


@cache
def _real(*sizes: Any) -> list[dict[str, Any]]:
    return saved_rows(*sizes)


def _traps(rng: random.Random) -> list[dict[str, Any]]:
    """Constructed rows: small views of large storages, storages that two groups saved, weights in between."""
    storages = [
        (number, 4 * rng.randint(1, 500)) for number in rng.sample(range(0, 1_600_000, 99_991), rng.randint(4, 12))
    ]
    weights = {number for number, _ in storages if rng.random() < 0.3}
    found = []
    for _ in range(rng.randint(8, 30)):
        number, nbytes = rng.choice(storages)
        shape = [max(1, nbytes // 4 // rng.choice((1, 1, 2, 4)))]
        row = {"group": rng.choice(GROUPS), "storage": number, "nbytes": nbytes, "shape": shape, "dtype": "float32"}
        found.append({**row, "parameter": number in weights})
    return found


def _cases(params: Params, rng: random.Random) -> list[Case]:
    attention = params["attention"]
    example = tuple(params[name] for name in ("batch", "seq", "hidden", "heads", "ffn"))

    def sizes(large: bool) -> tuple[int, ...]:
        heads = rng.choice((8, 16, 32) if large else (1, 2, 3, 4))
        hidden = heads * rng.choice((32, 64, 96, 128))
        return (
            rng.randint(1, 16 if large else 3),
            rng.choice((37, 128, 1024, 4096) if large else (5, 16, 33)),
            hidden,
            heads,
            rng.choice((hidden, 3 * hidden, 4 * hidden, 1000 + hidden)),
        )

    kinds = ("fused", "by hand"), ("float32", "bfloat16")
    real = [(_real(*sizes(False), *map(rng.choice, kinds)),) for _ in range(5)]
    blocks = [(1, 4096, 512, 8, 512, 2), *((*sizes(True), rng.choice((2, 4))) for _ in range(24))]
    apart = one_apart(blocks, partial(block_of, attention), lambda b, s, h, a, *_: h % a == 0 and h >= 32 * a)
    return [
        shown("the block shown", "values:kept", 0, [(_real(*example, attention),)]),
        shown("the block shown", "values:block", 1, [(*example, 4)]),
        unseen(rng, "kept", 0, "other rows", [*real, *((_traps(rng),) for _ in range(8)), ([],)]),
        unseen(rng, "block", 1, "other blocks", [*blocks, *apart]),
    ]


JUDGING = Judging(
    # where `ffn` is four times `hidden` in the block shown, only unseen blocks tell the two apart
    alike=lambda params: params["ffn"] / params["hidden"],
    shares={"values:kept": 0.25, "values:block": 0.2, "generality:kept": 0.25, "generality:block": 0.3},
    cases=_cases,
    verdicts=lambda params, case, outcome: table(KEPT, _block_column(params["attention"]))(params, case, outcome),
    why="The block keeps eight tensors of shape (tokens, hidden): both norms' inputs and outputs, queries, keys, values, and attention's "
    "result. It keeps two of shape (tokens, ffn): the GELU's input and output. Written out, attention adds the softmax, which grows "
    "with the square of the sequence length. The published 34 + 5as/h is this list in 16 bits with an MLP of 4 · hidden and three "
    "dropout masks. The list depends on the kernel, dropout and data type, so compare terms, not totals.",
    pytorch="`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` sees what is saved. Two tensors share memory if they have the "
    "same `untyped_storage()`.",
)

ANSWERS = r"""# %% right: seen storages, and a formula
def kept_bytes(rows):
    found, seen = {}, set()
    for row in rows:
        found.setdefault(row["group"], 0)
        if row["parameter"] or row["storage"] in seen:
            continue
        seen.add(row["storage"])
        found[row["group"]] += row["nbytes"]
    return found


def block_bytes(batch, seq, hidden, heads, ffn, size):
    return batch * seq * size * (8 * hidden + 2 * ffn)


# %% right: any variant, with the small terms  from: seen storages, and a formula
# -     return batch * seq * size * (8 * hidden + 2 * ffn)
# +     from course_lib import params
# +     by_hand = params("reconcile-ledger").attention == "by hand"
# +     scores = batch * heads * seq * seq * size + seq * seq if by_hand else 4 * batch * seq * heads
# +     return batch * seq * size * (8 * hidden + 2 * ffn + 4) + scores

# %% wrong: shared storages counted again => values aliases-counted  from: seen storages, and a formula
# ~ if row["parameter"] or row["storage"] in seen: ==> if row["parameter"]:

# %% wrong: parameters counted => values parameters-counted  from: seen storages, and a formula
# ~ ["parameter"] or row["storage"] ==> ["storage"]


# %% wrong: everything counted => values everything-counted  from: seen storages, and a formula
def kept_bytes(rows):
    found = {}
    for row in rows:
        found[row["group"]] = found.get(row["group"], 0) + row["nbytes"]
    return found


# %% wrong: the total => values one-number  from: seen storages, and a formula
#       return found
# + by_group = kept_bytes
# + def kept_bytes(rows):
# +     return sum(by_group(rows).values())

# %% wrong: storages counted, not measured => values counted-not-sized  from: seen storages, and a formula
# ~ row["nbytes"] ==> 1

# %% wrong: the printed formula => values printed-formula  from: seen storages, and a formula
# ~ size * (8 * hidden + 2 * ffn) ==> hidden * 34

# %% wrong: the scores of attention => values other-form  from: seen storages, and a formula
# ~ (8 * hidden + 2 * ffn) ==> (8 * hidden + 2 * ffn + heads * seq)

# %% wrong: one wide tensor => values one-wide-tensor  from: seen storages, and a formula
# ~ 2 * ffn ==> ffn

# %% wrong: the norms' outputs are forgotten => values norm-outputs-forgotten  from: seen storages, and a formula
# ~ 8 ==> 6

# %% wrong: queries, keys and values each keep their input => values input-three-times  from: seen storages, and a formula
# ~ 8 ==> 10

# %% wrong: attention's output is forgotten => values context-forgotten  from: seen storages, and a formula
# ~ 8 ==> 7

# %% wrong: the weights as well => values with-weights  from: seen storages, and a formula
# ~ (8 * hidden + 2 * ffn) ==> (8 * hidden + 2 * ffn) + size * (4 * hidden**2 + 2 * hidden * ffn)

# %% wrong: numbers => values numbers  from: seen storages, and a formula
# ~ return batch * seq * size * (8 * hidden + 2 * ffn) ==> return batch * seq * (8 * hidden + 2 * ffn)

# %% wrong: the size of the views => generality views-measured  from: seen storages, and a formula
# ~ row["nbytes"] ==> __import__("math").prod(row["shape"]) * {"float32": 4, "bfloat16": 2, "bool": 1}[row["dtype"]]

# %% wrong: a storage counts in every group => generality every-group-again  from: seen storages, and a formula
# ~ if row["parameter"] or row["storage"] in seen: ==> if row["parameter"] or (row["group"], row["storage"]) in seen:
# ~ (row["storage"]) ==> ((row["group"], row["storage"]))

# %% wrong: four bytes always => generality always-four-bytes  from: seen storages, and a formula
# ~ return batch * seq * size * (8 * hidden + 2 * ffn) ==> return batch * seq * 4 * (8 * hidden + 2 * ffn)

# %% wrong: an MLP of four times hidden => generality four-times-hidden  from: seen storages, and a formula
# ~ 2 * ffn ==> 8 * hidden

# %% wrong: one sequence => values one-sequence  from: seen storages, and a formula
# ~ batch * seq ==> seq

# %% wrong: the library's terms => values raised  from: seen storages, and a formula
#       return found
# + from course_lib import memory
# -     return batch * seq * size * (8 * hidden + 2 * ffn)
# +     shape = memory.Shape(layers=1, hidden=hidden, heads=heads, ffn=ffn, vocab=1)
# +     return memory.layer_bytes(shape, batch, seq, kernels="flash", dtype="fp32", dropout=False)

# %% half: the rows alone => 5  from: seen storages, and a formula
# ~ return batch * seq * size * (8 * hidden + 2 * ffn) ==> raise NotImplementedError

# %% half: the formula for this block only => 14  from: an MLP of four times hidden
"""
