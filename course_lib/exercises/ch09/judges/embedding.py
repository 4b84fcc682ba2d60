"""The judge of chapter 09's embedding whose rows are shared out."""

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges.regions import (
    FORM,
    as_part,
    case_of,
    gradient_faults,
    over_ranks,
    results,
    ring_most,
    touched,
    traffic,
)
from course_lib.judging import Fault, Judging, Mistake, Params, judged, verdict
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.records import Case, Outcome, Verdict


def _owned(params: Params, vocab: int, n: int, rank: int) -> Tensor:
    """The rows that a rank holds."""
    every = torch.arange(vocab)
    return every[rank::n] if params["dealt"] == "round-robin" else every.tensor_split(n)[rank]


def _embed_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def make(
        name: str, n: int, vocab: int, tokens: Tensor, hidden: int = 6, dtype: torch.dtype = torch.float32, **more: Any
    ) -> Case:
        table, gradient = (normal(coin, vocab, hidden, dtype=dtype), normal(coin, *tokens.shape, hidden, dtype=dtype))
        per_rank = tuple(
            (tokens.clone(), gradient.clone(), vocab, table[_owned(params, vocab, n, rank)].clone())
            for rank in range(n)
        )
        return case_of(name, n, per_rank, secret={"table": table, "gradient": gradient, "tokens": tokens}, **more)

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=coin)

    def with_edges(words: int, n: int) -> Tensor:
        """Two rows of tokens, among them the first and last word of every rank, and one of them twice."""
        ends = [_owned(params, words, n, rank)[[0, -1]] for rank in range(n)]
        row = torch.cat([*ends, draw(words, 7 - 2 * n), ends[0][:1]])
        return row[torch.randperm(8, generator=coin)].reshape(2, 4)

    vocab = params["vocab"]
    edges = torch.cat([_owned(params, 11, 3, rank)[[0, -1]] for rank in range(3)]).reshape(2, 3)
    return [
        make("three ranks", 3, vocab, with_edges(vocab, 3), part="vectors"),
        make("two ranks, other data", 2, vocab + 3, with_edges(vocab + 3, 2), part="vectors", visible=False),
        make("one rank", 1, 7, draw(7, 1, 5), kind="generality", part="vocabularies", visible=False),
        make(
            "the first and last word of every rank", 3, 11, edges, kind="generality", part="vocabularies", visible=False
        ),
        make(
            "words of one rank only",
            4,
            vocab,
            torch.zeros(1, 6, dtype=torch.int64) + 1,
            kind="generality",
            part="vocabularies",
            visible=False,
        ),
        make(
            "five ranks, 8 words, 64 bits",
            5,
            8,
            draw(8, 3, 3),
            4,
            torch.float64,
            kind="generality",
            part="vocabularies",
            visible=False,
        ),
    ]


def _clamped(params: Params, case: Case, n: int) -> list[Tensor]:
    """What every rank looks up when indices that are not its own are clamped."""
    tokens, found = case.secret["tokens"], []
    for own in case.per_rank or ():
        weight = own[3]
        rank = len(found)
        place = (
            tokens // n
            if params["dealt"] == "round-robin"
            else tokens - int(_owned(params, len(case.secret["table"]), n, rank)[0])
        )
        found.append(F.embedding(place.clamp(0, len(weight) - 1), weight))
    return found


def _embedded(case: Case, params: Params, n: int) -> Tensor:
    """What comes out if ranks take their rows for those that another deal would have given them."""
    tokens, total = case.secret["tokens"], torch.zeros_like(case.secret["gradient"])
    for rank, own in enumerate(case.per_rank or ()):
        held = _owned(params, len(case.secret["table"]), n, rank)
        mine = torch.isin(tokens, held)
        total += own[3][(tokens - int(held[0])).where(mine, 0)] * mine.unsqueeze(-1)
    return total


def _embed_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, table, tokens = case.ranks or 1, case.secret["table"], case.secret["tokens"]
    if fault := results(outcome.value, n, FORM):
        return [verdict(case.kind, case.part, case, fault)]
    vocab, want = len(table), F.embedding(tokens, table)
    whole = torch.zeros_like(table).index_add(
        0, tokens.reshape(-1), case.secret["gradient"].reshape(-1, table.shape[1])
    )
    clamped = _clamped(params, case, n)
    dealt = params["dealt"] == "round-robin"
    in_blocks = _embedded(case, {"dealt": "blocks"}, n) if dealt else want

    def values(rank: int, got: Mapping[str, Any]) -> Fault | None:
        mine = torch.isin(tokens, _owned(params, vocab, n, rank)).unsqueeze(-1)
        slips: list[Mistake] = [
            Mistake(
                "public-form",
                in_blocks,
                "this solves the public form of the exercise, where each rank holds a block; here words were dealt out in turn.",
            ),
            Mistake(
                "clamped",
                sum(clamped),
                f"every token's vector has {n} vectors in it: one from each rank, of which one only is this token's. An index "
                "that was clamped is some other word's.",
            ),
            Mistake("own-part", want * mine, "only this rank's words have a vector; the others' have yet to come."),
            Mistake(
                "one-clamped",
                clamped[rank],
                "this rank's own look-up alone: of other ranks' words it holds no vectors.",
            ),
            Mistake("mean", want / n, "this is a mean over ranks; one of them has the vector, the others add zero."),
        ]
        return tensor_fault(
            f"Rank {rank}: the output",
            got["y"],
            want,
            slips,
            otherwise="Which words does this rank hold, and at which places?"
            + (" Here they are dealt out in turn." if dealt else ""),
        )

    def gradients(rank: int, got: Mapping[str, Any]) -> Fault | None:
        own = _owned(params, vocab, n, rank)
        place = tokens // n if params["dealt"] == "round-robin" else tokens - int(own[0])
        strangers = torch.zeros(len(own), table.shape[1], dtype=table.dtype).index_add(
            0, place.clamp(0, len(own) - 1).reshape(-1), case.secret["gradient"].reshape(-1, table.shape[1])
        )
        right = whole[own]
        zeroth = right.clone()
        zeroth[0] += case.secret["gradient"].reshape(-1, table.shape[1])[~torch.isin(tokens, own).reshape(-1)].sum(0)
        slips: dict[str, tuple[Mistake, ...]] = {
            "weight": (
                Mistake(
                    "strangers-gradient",
                    strangers,
                    "rows also get the gradients of words of other ranks, which were looked up in their place.",
                ),
                Mistake(
                    "strangers-gradient",
                    zeroth,
                    "row 0 also gets the gradients of words of other ranks, which were looked up in its place.",
                ),
                Mistake(
                    "times-n",
                    n * right,
                    f"it is {n} times too large: behind the sum all ranks hold the same, so its gradient is not summed again.",
                ),
            )
        }
        return gradient_faults(got, rank, ("weight",), {"weight": right}, slips)

    found = over_ranks(outcome.value, values) or touched(outcome.value)
    behind = None if found else over_ranks(outcome.value, gradients)
    if case.kind != "values":
        return [verdict(case.kind, case.part, case, found or behind)]
    if found:
        return [
            verdict("values", "vectors", case, found),
            verdict("values", "gradients", case, (found[0], "Gradients count once the vectors are right.")),
        ]
    item, one = want.element_size(), ring_most(want.numel(), want.element_size(), n)
    rows = (n - 1) * -(-vocab // n) * table.shape[1] * item
    known = (
        Mistake(
            "summed-back",
            one,
            "A second all-reduce, in the backward pass: the gradient is the same on all ranks already.",
        ),
        Mistake("gathered-table", rows - one, "The table travels: pieces are there so that nobody needs the whole."),
        Mistake(
            "gathered",
            (n - 1) * want.numel() * item - one,
            "Every rank's vectors go to every rank: an all-reduce sends less than two of them.",
        ),
    )
    spent = traffic(
        outcome.meter,
        2 * (n - 1) * want.numel() * item,
        one,
        known,
        "One all-reduce of the output, in the forward pass.",
    )
    return [
        verdict("values", "vectors", case, None),
        *judged(as_part(case, "gradients"), behind, ("cost", "bytes", spent)),
    ]


EMBEDDING = {
    "vocab-embedding": Judging(
        shares={"values:vectors": 0.35, "values:gradients": 0.25, "cost:bytes": 0.2, "generality:vocabularies": 0.2},
        cases=_embed_cases,
        verdicts=_embed_verdicts,
        why="Looking up is multiplying with a one-hot row, so cutting the table by rows is a row cut: a rank that has none of a token's row adds zero. The "
        "clamp keeps the index legal; it is the mask that makes the answer right, in both passes.",
        pytorch="DTensor's `RowwiseParallel` of an `nn.Embedding` masks in the same way; Megatron's `VocabParallelEmbedding`.",
    )
}
