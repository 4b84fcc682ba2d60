"""Judges of chapter 11 on who holds which token: balanced layouts, packed documents, targets and positions."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, judged, number_fault, prediction
from course_lib.judging.cases import hidden, shown
from course_lib.judging.mistakes import mistakes
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case, Outcome, Verdict

Parts = list[list[int]]

# --- zig-zag-positions


def dealt(how: str, length: int, ranks: int) -> Parts:
    """Each rank's positions in one of the layouts that the variants ask for, or in one of the wrong ones."""
    if how == "snake":
        return [
            [p for p in range(length) if min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) == r]
            for r in range(ranks)
        ]
    if how == "striped":
        return [list(range(r, length, ranks)) for r in range(ranks)]
    blocks = [block.tolist() for block in torch.arange(length).tensor_split(2 * ranks)]
    other = {
        "zig-zag": lambda r: 2 * ranks - 1 - r,
        "half-apart": lambda r: r + ranks,
        "contiguous": lambda r: 2 * r + 1,
    }[how]
    return [blocks[2 * r if how == "contiguous" else r] + blocks[other(r)] for r in range(ranks)]


def imbalance(parts: Sequence[Sequence[int]]) -> float:
    """The causal pairs of the busiest rank over their mean."""
    work = [sum(p + 1 for p in own) for own in parts]
    return max(work) * len(work) / sum(work)


def _layout_cases(params: Params, rng: random.Random) -> list[Case]:
    def some(ranks: int) -> tuple[int, int]:
        return (rng.randrange(2, 5) * 2 * ranks, ranks)

    def anywhere(length: int, ranks: int) -> tuple[Parts]:
        parts: Parts = [[] for _ in range(ranks)]
        for p in range(length):
            parts[rng.randrange(ranks)].append(p)
        return (parts,)

    rest = [(2999, 4), (rng.randrange(50, 57), 4), (11, 3), (23, 5), (9, 2), (40, 9), (100, 16)]
    empty = [([[0, 1, 2], [], [3]],), ([[], [0]],), ([[2, 0], [1, 3], []],), ([[0], [1], [2], [6, 3], [4], [5], []],)]
    both = [(dealt("contiguous", 16, 4),), (dealt("zig-zag", 16, 4),)]
    return [
        shown("16 tokens on four ranks", "values:layout", 0, [(16, 4)]),
        shown("imbalance of contiguous and zig-zag parts", "values:imbalance", 1, both),
        hidden("lengths that divide", "values:layout", 0, [some(2), some(3), some(5)]),
        hidden("lengths that do not divide", "generality:lengths", 0, rest),
        hidden("fewer tokens than blocks", "generality:lengths", 0, [(7, 4), (3, 5), (1, 3), (4, 4), (5, 3)]),
        hidden("one rank", "generality:lengths", 0, [(6, 1), (7, 1), (1, 1)]),
        hidden("no token", "generality:lengths", 0, [(0, 1), (0, 3)]),
        hidden("tokens anywhere", "values:imbalance", 1, [anywhere(20, 3), anywhere(33, 4), anywhere(12, 1)]),
        hidden("imbalance with an empty rank", "values:imbalance", 1, empty),
    ]


SLIPS = {
    "contiguous": "these are contiguous parts: the last rank has the most work.",
    "half-apart": "rank r got blocks r and r + N; take the blocks from both ends.",
    "striped": "these are stripes, r, r + N, …; turn around after every round.",
    "zig-zag": "this solves the public form of the exercise: blocks from both ends.",
    "snake": "this deals tokens one by one; blocks are asked for.",
}


def _layout_fault(params: Params, case: Case, values: Sequence[Any]) -> Fault | None:
    for (length, ranks), got in zip(case.args[1], values, strict=True):
        want, lead = dealt(params["dealt"], length, ranks), f"{length} tokens on {ranks} ranks: "
        parts = [[int(p) for p in own] for own in got]
        if parts == want:
            continue
        if len(parts) != ranks:
            return "wrong-shape", f"{lead}{len(parts)} lists came back; return one for each rank."
        if fault := once(parts, length):
            return fault[0], lead + fault[1]
        for how, message in SLIPS.items():
            if how != params["dealt"] and all(
                [[int(p) for p in own] for own in other] == dealt(how, *row)
                for row, other in zip(case.args[1], values, strict=True)
            ):
                return how, lead + message
        if [sorted(own) for own in parts] == [sorted(own) for own in want]:
            return "other-order", f"{lead}each rank has the right tokens, in another order."
        if sorted(map(sorted, parts)) == sorted(map(sorted, want)):
            return "other-ranks", f"{lead}the parts are right, but they belong to other ranks."
        return (
            "other-parts",
            f"{lead}the parts are not those asked for. Where the length does not divide, which blocks are longer?",
        )
    return None


def once(parts: Sequence[Sequence[int]], length: int) -> Fault | None:
    """A position that is missing, there twice, or outside the sequence."""
    told = [p for own in parts for p in own]
    if missing := sorted(set(range(length)) - set(told)):
        return "missing", f"position {missing[0]} is on no rank."
    if outside := sorted(set(told) - set(range(length))):
        return "outside", f"position {outside[0]} does not exist."
    twice = next((p for p in told if told.count(p) > 1), None)
    return None if twice is None else ("twice", f"position {twice} occurs more than once.")


RATIOS = {
    "keys-before": "a query sees its own key, too.",
    "tokens": "these are tokens; count the keys that each query sees.",
    "without-empty": "the mean is over all ranks, empty ones included.",
    "inverse": "this is the mean over the busiest; turn it around.",
    "own-keys": "these are the keys on the same rank; a query sees those of all ranks.",
}


def _imbalance_fault(case: Case, values: Sequence[Any]) -> Fault | None:
    for (parts,), got in zip(case.args[1], values, strict=True):
        work, held = [sum(p + 1 for p in own) for own in parts], [own for own in parts if own]
        near = [sum(key <= p for p in own for key in own) for own in parts]
        fault = number_fault(
            f"parts {parts}",
            got,
            imbalance(parts),
            unit="times the mean",
            mistakes=mistakes(
                {
                    "keys-before": max(map(sum, parts)) * len(parts) / max(sum(map(sum, parts)), 1),
                    "tokens": max(map(len, parts)) * len(parts) / sum(map(len, parts)),
                    "without-empty": max(work) * len(held) / sum(work),
                    "inverse": sum(work) / len(work) / max(work),
                    "own-keys": max(near) * len(near) / sum(near),
                },
                RATIOS,
            ),
        )
        if fault:
            return fault
    return None


def _layout_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if type(outcome.value) is str:  # not answered yet: the contract has said so
        return judged(case, ("not-answered", "this function is not answered yet."))
    fault = _imbalance_fault(case, outcome.value) if case.args[0] else _layout_fault(params, case, outcome.value)
    return judged(case, fault, named=True)


# --- predict-causal-balance


def busiest(params: Params) -> float:
    """The busiest rank's work over the mean, for contiguous parts of a long sequence."""
    return (2 * params["ranks"] - 1) / params["ranks"]


# --- shifted-targets


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(lengths: Sequence[int], indices: Sequence[int], ids: Sequence[int] = (), top: int = 1000) -> list[Tensor]:
        ids = ids or rng.sample(range(5, 90), len(lengths))
        documents = torch.tensor([i for i, n in zip(ids, lengths, strict=True) for _ in range(n)], dtype=torch.int64)
        tokens = torch.randint(0, top, (len(documents),), generator=coin)
        return [tokens, documents, torch.tensor(indices, dtype=torch.int64)]

    def anywhere(length: int, count: int) -> list[int]:
        return rng.sample(range(length), count)

    large = [2, 25, 3, 2], anywhere(32, 32), (0, 2**40, 2**40 + 1, 0), 2**40
    return [
        shown("8 tokens, rank 0 of 2, zig-zag", "values:targets", *data([8], [0, 1, 6, 7])),
        shown("8 tokens, rank 1 of 2, zig-zag", "values:targets", *data([8], [2, 3, 4, 5])),
        hidden("two documents, rank 1 of 3", "values:documents", *data([7, 5], [2, 3, 8, 9], ids=(4, 61))),
        hidden("a cut at the end of a document", "values:documents", *data([4, 8], [2, 3, 8, 9], ids=(11, 12))),
        hidden("tokens in any order", "generality:parts", *data([5, 6, 9], anywhere(20, 9))),
        hidden("documents of one token", "generality:parts", *data([1, 3, 1, 1, 2], list(range(8)))),
        hidden("an id that occurs again", "generality:parts", *data([3, 2, 4], anywhere(9, 9), ids=(7, 3, 7))),
        hidden("ids that fall", "generality:parts", *data([3, 4, 2], anywhere(9, 6), ids=(9, 5, 1))),
        hidden("the same token again and again", "generality:parts", *data([6, 4], anywhere(10, 7), top=2)),
        hidden("large ids and tokens, a longer document", "generality:parts", *data(*large)),
        hidden("the same documents, other tokens", "generality:parts", *data(*large)),
        hidden("a rank without tokens", "generality:parts", *data([4], [])),
        hidden("one token in all", "generality:parts", *data([1], [0])),
    ]


def whole_batch(count: str, tokens: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
    """Targets and positions of the whole packed sequence."""
    targets, positions, start = [], [], 0
    for p in range(len(tokens)):
        same = p + 1 < len(tokens) and bool(documents[p + 1] == documents[p])
        targets.append(int(tokens[p + 1]) if same else -100)
        positions.append(p - start if count == "document" else p)
        start = start if same else p + 1
    return torch.tensor(targets, dtype=torch.int64), torch.tensor(positions, dtype=torch.int64)


BATCHED = {
    "shifted-after-the-cut": "the targets were shifted after the cut.",
    "across-documents": "a document's last token has the next document's first token as its target.",
    "wrapped-around": "the last token has the first one as its target.",
    "not-shifted": "these are the inputs; a target is the next token.",
    "local-positions": "they count within this rank's part.",
    "other-count": "they count over another range: the document, or the whole sequence?",
    "by-id": "a document whose id occurred before goes on counting.",
}


def _batch_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    tokens, documents, indices = case.args
    if outcome.value["touched"] is not False:
        return "changed", "an argument was changed."
    inputs, targets, positions = outcome.value["batch"]
    right_targets, right_positions = whole_batch(params["count"], tokens, documents)
    other = whole_batch("sequence" if params["count"] == "document" else "document", tokens, documents)[1]
    own = tokens[indices]
    ignored = torch.full((1,), -100)
    by_id = torch.stack([(documents[:p] == documents[p]).sum() for p in range(len(tokens))])
    target_slips = {
        "shifted-after-the-cut": torch.cat([own[1:], ignored])[: len(own)],
        "across-documents": torch.cat([tokens[1:], ignored])[indices],
        "wrapped-around": tokens.roll(-1)[indices],
        "not-shifted": own,
    }
    position_slips = {
        "local-positions": torch.arange(len(indices)),
        "other-count": other[indices],
        "by-id": by_id[indices],
    }
    for name, got, want, slips in (
        ("inputs", inputs, own, {}),
        ("targets", targets, right_targets[indices], target_slips),
        ("positions", positions, right_positions[indices], position_slips),
    ):
        if fault := kind_fault(f"`{name}`", got, want):
            return fault
        if torch.equal(got, want):
            continue
        for slip, value in slips.items():
            if torch.equal(got, value):
                return slip, f"`{name}`: {BATCHED[slip]}"
        return "other-numbers", f"`{name}` are not the right numbers."
    return None


# --- split-packed-documents


def _split_cases(params: Params, rng: random.Random) -> list[Case]:
    n = params["ranks"]

    def some(ranks: int, count: int, low: int, high: int) -> tuple[list[int], int]:
        return [rng.randrange(low, high) for _ in range(count)], ranks

    short = [([1] * 40, 4), ([2, 1, 3] * 12, 5), some(6, 30, 1, 7)]
    mixed = [([120] + [1] * 60, 4), ([1] * 90 + [90], 5), ([3] * 50 + [70] + [3] * 20, 6)]
    turned = [([40, 60, 8, 8, 8, 40], 3), ([8, 8, 40, 8, 40, 60], 3)]  # the same lengths, and other positions are deep
    return [
        shown("a long document and short ones", "values:balance", 0, [([64, 8, 24, 16], n)]),
        hidden("documents of all lengths", "values:balance", 0, [some(n, 6, 10, 80), some(3, 8, 1, 60), *turned]),
        hidden("one document", "values:balance", 0, [([97], 4), ([200], 3), ([300], 12), ([39], 10)]),
        hidden("many short documents", "generality:lengths", 0, short),
        hidden("short documents in turn", "generality:lengths", 0, [([1, 3] * 60, 2), ([3, 1] * 60, 2), ([8] * 40, 4)]),
        hidden("one long among many short", "generality:lengths", 0, mixed),
        hidden("empty documents", "generality:lengths", 0, [([0, 12, 0, 0, 9, 0], 3), ([0, 0], 2), ([], 3)]),
        hidden("more ranks than tokens", "generality:lengths", 0, [([2, 1], 5), ([1], 4), ([50], 70)]),
        hidden("one rank", "generality:lengths", 0, [([5, 0, 7], 1)]),
    ]


def _split_fault(case: Case, values: Sequence[Any]) -> Fault | None:
    for (lengths, ranks), got in zip(case.args[1], values, strict=True):
        lead = f"lengths {lengths[:6]}{' …' * (len(lengths) > 6)} on {ranks} ranks: "
        seen = [at + 1 for length in lengths for at in range(length)]
        parts = [[int(p) for p in own] for own in got]
        if len(parts) != ranks:
            return "wrong-shape", f"{lead}{len(parts)} lists came back; return one for each rank."
        if fault := once(parts, len(seen)):
            return fault[0], lead + fault[1]
        work, counts = [sum(seen[p] for p in own) for own in parts], [len(own) for own in parts]
        if max(work) > 1.05 * sum(work) / ranks + max(lengths, default=0):
            name = "equal-tokens" if max(counts) - min(counts) <= 1 else "unbalanced"
            why = "equal numbers of tokens are not equal work." if name == "equal-tokens" else ""
            return (
                name,
                f"{lead}the busiest rank has {max(work) * ranks / sum(work):.3g} times the mean work. {why}".strip(),
            )
        if max(counts) > 1.05 * sum(counts) / ranks + 1:
            return "uneven-tokens", f"{lead}a rank holds {max(counts)} tokens; the mean is {sum(counts) / ranks:.3g}."
    return None


LAYOUT = {
    "zig-zag-positions": Judging(
        shares="values:layout 0.4, values:imbalance 0.3, generality:lengths 0.3",
        cases=_layout_cases,
        verdicts=_layout_verdicts,
        why="""A query at position p sees p + 1 keys. Pairing an early token with a late one makes every pair cost the same, so all ranks finish together. Where the length does
not divide, a few longer blocks cost almost nothing.""",
        pytorch="`context_parallel` reorders its buffers in this way by default (its load balancer for causal masks).",
    ),
    "predict-causal-balance": prediction(
        "times the mean",
        busiest,
        lambda params: (
            f"With {params['ranks']} ranks the busiest has {busiest(params):.3g} times the mean work: (2N − 1)/N."
        ),
        why="""The last of N contiguous parts sees the keys of N − 1 whole parts and half of its own: (N − 1/2)/N of the sequence. The mean query sees half of it.""",
    ),
    "shifted-targets": Judging(
        shares="values:targets 0.4, values:documents 0.2, generality:parts 0.4",
        cases=_batch_cases,
        verdicts=lambda params, case, outcome: judged(case, _batch_fault(params, case, outcome), named=True),
        why="""The next token may be on another rank. Everything that depends on neighbors, targets and positions alike, is computed before the cut, and then each rank takes its part.""",
        pytorch="`transformers` accepts `shift_labels`, which were shifted before the cut; `context_parallel` cuts every buffer in the same way.",
    ),
    "split-packed-documents": Judging(
        shares="values:balance 0.6, generality:lengths 0.4",
        cases=_split_cases,
        verdicts=lambda params, case, outcome: judged(case, _split_fault(case, outcome.value), named=True),
        why="""The work of a token is its position in its document, plus one. Dealing tokens in that order, back and forth, leaves any two ranks at most one token's work apart.
Real implementations cut each document in 2N blocks, because kernels want long runs; they then pad the short ones.""",
        pytorch="Transformer Engine splits packed sequences document by document; its lengths must be divisible by 2N.",
    ),
}
