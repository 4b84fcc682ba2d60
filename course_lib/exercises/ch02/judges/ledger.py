"""Judge of the ledger: rows of real blocks and rows with traps, and the block's bytes term by term."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from course_lib.exercises.ch02.block import GROUPS, saved_rows
from course_lib.exercises.ch02.judges.parts import Parts, judge_parts
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, table
from course_lib.judging.draws import unseen
from course_lib.records import Case, Outcome, Verdict

Rows = Sequence[Mapping[str, Any]]
NEAR = 0.01
ITEM = {"float32": 4, "bfloat16": 2, "bool": 1, "float64": 8, "int64": 8}


def kept_of(rows: Rows) -> dict[str, int]:
    """Bytes by group: no parameters, each storage once, where it was saved first."""
    found = dict.fromkeys((row["group"] for row in rows), 0)
    seen = set()
    for row in rows:
        if not row["parameter"] and row["storage"] not in seen:
            seen.add(row["storage"])
            found[row["group"]] += row["nbytes"]
    return found


def _own(row: Mapping[str, Any]) -> int:
    return math.prod(row["shape"]) * ITEM[row["dtype"]]


def _by_group(count: Callable[[Rows], Mapping[str, float]]) -> Callable[[str], Callable[[Rows], float]]:
    return lambda group: lambda rows: count(rows).get(group, 0)


def _sum(
    rows: Rows, *, keep: Callable[[Mapping[str, Any]], bool], size: Callable[[Mapping[str, Any]], int]
) -> dict[str, float]:
    found: dict[str, float] = dict.fromkeys((row["group"] for row in rows), 0)
    for row in rows:
        if keep(row):
            found[row["group"]] += size(row)
    return found


def _once(
    rows: Rows, size: Callable[[Mapping[str, Any]], int], *, parameters: bool, key: Callable[[Mapping[str, Any]], Any]
) -> dict[str, float]:
    seen = set()

    def first(row: Mapping[str, Any]) -> bool:
        if row["parameter"] and not parameters or key(row) in seen:
            return False
        seen.add(key(row))
        return True

    return _sum(rows, keep=first, size=size)


_WAYS: tuple[tuple[str, Callable[[Rows], Mapping[str, float]], str], ...] = (
    (
        "aliases-counted",
        lambda rows: _sum(rows, keep=lambda r: not r["parameter"], size=lambda r: r["nbytes"]),
        "a storage that was saved several times is still one storage.",
    ),
    (
        "parameters-counted",
        lambda rows: _once(rows, lambda r: r["nbytes"], parameters=True, key=lambda r: r["storage"]),
        "weights and biases are in it; they are there anyway.",
    ),
    (
        "everything-counted",
        lambda rows: _sum(rows, keep=lambda r: True, size=lambda r: r["nbytes"]),
        "parameters are in it, and storages that were saved several times.",
    ),
    (
        "views-measured",
        lambda rows: _once(rows, _own, parameters=False, key=lambda r: r["storage"]),
        "this is the size of the views; a view keeps its whole storage alive.",
    ),
    (
        "views-added",
        lambda rows: _sum(rows, keep=lambda r: not r["parameter"], size=_own),
        "this adds up the sizes of what was saved; some of it shares memory, some keeps more alive than itself.",
    ),
    (
        "every-group-again",
        lambda rows: _once(rows, lambda r: r["nbytes"], parameters=False, key=lambda r: (r["group"], r["storage"])),
        "a storage that two groups saved counts once, under the first.",
    ),
    (
        "last-group",
        lambda rows: _once(list(reversed(rows)), lambda r: r["nbytes"], parameters=False, key=lambda r: r["storage"]),
        "a storage counts under the group that saved it first, not last.",
    ),
    (
        "counted-not-sized",
        lambda rows: _once(rows, lambda r: 1, parameters=False, key=lambda r: r["storage"]),
        "these are numbers of storages; bytes are asked for.",
    ),
)

KEPT = Parts(
    part="kept",
    unit="bytes",
    want=kept_of,
    words=lambda rows: f"{len(rows)} rows",
    slips={group: [Mistake(name, _by_group(way)(group), message) for name, way, message in _WAYS] for group in GROUPS},
)


def terms(attention: str, batch: int, seq: int, hidden: int, heads: int, ffn: int, size: int) -> dict[str, float]:
    """Bytes of everything that the block keeps, by name."""
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


def _block_column(attention: str) -> Column:
    other = "by hand" if attention == "fused" else "fused"
    told = (
        "this block's attention is fused: it never keeps the scores."
        if attention == "fused"
        else "this block's attention keeps its softmax."
    )

    def without(*names: str) -> Callable[..., float]:
        return lambda *row: sum(value for name, value in terms(attention, *row).items() if name not in names)

    def weights(b: int, s: int, h: int, a: int, f: int, z: int) -> float:
        return z * (4 * h * h + 2 * h * f)

    scores = {} if attention == "fused" else {"scores": lambda b, s, h, a, f, z: z * b * a * s * s}
    twice = (
        [
            Mistake(
                "scores-twice",
                lambda *row: block_of(attention, *row) + scores["scores"](*row),
                "the scores before the softmax are not kept: the softmax's own output is enough for its gradient.",
            )
        ]
        if scores
        else []
    )
    return Column(
        part="block",
        unit="bytes",
        want=lambda *row: block_of(attention, *row),
        rel=NEAR,
        words=lambda b, s, h, a, f, z: f"{b} × {s} tokens, hidden {h}, {a} heads, ffn {f}, {z} bytes a number",
        hint="Name every storage in the rows, and give its size in tokens, hidden, ffn and heads.",
        mistakes=(
            Mistake(
                "public-form" if attention == "by hand" else "other-form", lambda *row: block_of(other, *row), told
            ),
            Mistake(
                "always-two-bytes",
                lambda b, s, h, a, f, z: block_of(attention, b, s, h, a, f, 2),
                "a number has `size` bytes here.",
            ),
            Mistake(
                "always-four-bytes",
                lambda b, s, h, a, f, z: block_of(attention, b, s, h, a, f, 4),
                "a number has `size` bytes here.",
            ),
            Mistake(
                "four-times-hidden",
                lambda b, s, h, a, f, z: block_of(attention, b, s, h, a, 4 * h, z),
                "the MLP is `ffn` wide, not four times hidden.",
            ),
            Mistake(
                "printed-formula",
                lambda b, s, h, a, f, z: s * b * h * 34,
                "34 per token and hidden unit holds in 16 bits with dropout masks and an MLP of four times hidden.",
            ),
            Mistake(
                "printed-formula",
                lambda b, s, h, a, f, z: s * b * h * (34 + 5 * a * s / h),
                "34 + 5as/h holds in 16 bits with dropout; this block has none.",
            ),
            Mistake(
                "with-weights",
                lambda *row: block_of(attention, *row) + weights(*row),
                "the weights are in it; they are there anyway.",
            ),
            Mistake(
                "numbers", lambda *row: block_of(attention, *row) / row[-1], "these are numbers; bytes are asked for."
            ),
            Mistake(
                "one-sequence",
                lambda b, s, h, a, f, z: block_of(attention, 1, s, h, a, f, z),
                "this is one sequence of the batch.",
            ),
            Mistake(
                "one-wide-tensor",
                without("mlp.activated"),
                "the second matrix of the MLP needs what it multiplied; the GELU needs what it got.",
            ),
            Mistake(
                "one-wide-tensor",
                without("mlp.up"),
                "the GELU needs what it got; the second matrix of the MLP needs what it multiplied.",
            ),
            Mistake(
                "norm-outputs-forgotten",
                without("attention.input", "mlp.input"),
                "the norms' outputs are what the first matrices multiply.",
            ),
            Mistake("norm-inputs-forgotten", without("norm1.input", "norm2.input"), "a norm needs what it got."),
            Mistake(
                "context-forgotten",
                without("attention.context"),
                "the last matrix of attention needs what it multiplied.",
            ),
            Mistake(
                "input-three-times",
                lambda b, s, h, a, f, z: block_of(attention, b, s, h, a, f, z) + 2 * b * s * h * z,
                "queries, keys and values are made of one and the same tensor.",
            ),
            *twice,
            Mistake(
                "mask-a-head",
                lambda b, s, h, a, f, z: (
                    block_of(attention, b, s, h, a, f, z) + (b * a - 1) * s * s if scores else None
                ),
                "the mask is the same for all heads and sequences.",
            ),
        ),
    )


@cache
def _real(*sizes: Any) -> list[dict[str, Any]]:
    return saved_rows(*sizes)


def _traps(rng: random.Random) -> list[dict[str, Any]]:
    """Rows as no block leaves them: small views of large storages, storages that two groups saved, weights in between."""
    storages = [(number, 4 * rng.randint(1, 500)) for number in range(rng.randint(4, 12))]
    weights = {number for number, _ in storages if rng.random() < 0.3}
    found = []
    for _ in range(rng.randint(8, 30)):
        number, nbytes = rng.choice(storages)
        part = rng.choice((1, 1, 2, 4))
        found.append(
            {
                "group": rng.choice(GROUPS),
                "storage": number,
                "nbytes": nbytes,
                "shape": [max(1, nbytes // 4 // part)],
                "dtype": "float32",
                "parameter": number in weights,
            }
        )
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

    real = [
        (_real(*sizes(False), rng.choice(("fused", "by hand")), rng.choice(("float32", "bfloat16"))),) for _ in range(5)
    ]
    return [
        shown("the block shown", "values:kept", 0, [(_real(*example, attention),)]),
        shown("the block shown", "values:block", 1, [(*example, 4)]),
        unseen(rng, "kept", 0, "other rows", [*real, *((_traps(rng),) for _ in range(8))]),
        unseen(rng, "block", 1, "other blocks", [(*sizes(True), rng.choice((2, 4))) for _ in range(24)]),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] == 0:
        return judge_parts(KEPT, case, outcome)
    column = _block_column(params["attention"])
    return list(table(column, column)(params, case, outcome))


RECONCILE_LEDGER = Judging(
    alike=lambda params: (
        params["ffn"] / params["hidden"]
    ),  # where it is four, only unseen blocks tell `ffn` from four times hidden
    shares={"values:kept": 0.25, "values:block": 0.2, "generality:kept": 0.25, "generality:block": 0.3},
    cases=_cases,
    verdicts=_verdicts,
    why="Eight tensors of (tokens, hidden): what both norms got and gave, queries, keys, values, and what attention gave. Two of "
    "(tokens, ffn): what the GELU got and gave. Written out, attention adds the softmax, which grows with the square of the "
    "sequence. The published 34 + 5as/h is this list in 16 bits with 4 · hidden in the MLP and three dropout masks: the sizes are the "
    "same, the list depends on the kernel, on dropout and on the type. So reconcile the terms, not the totals.",
    pytorch="`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` sees what is saved; `tensor.untyped_storage()` tells whether two "
    "share memory.",
)
