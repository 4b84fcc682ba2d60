"""Judges of chapter 11 on what a transfer must reach: the neighbors that a sliding window needs, and when the ring hides."""

import math
import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.reference import touched
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.columns import EXACT, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, safely_off_whole, unseen
from course_lib.judging.mistakes import mistakes
from course_lib.judging.ranks import BUFFERS_LATE, LATE, moved_early
from course_lib.judging.tensors import coin_of, normal, not_like, same
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict

# --- window-halo


def _halo_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(lengths: Sequence[int], window: int, heads: int = 2, view: bool = False) -> Any:
        width = rng.randrange(1, 7)

        def tensor(length: int) -> Tensor:
            x = normal(coin, length, heads, width).transpose(0, 1)
            return x.bfloat16() if view else x.contiguous()

        return tuple((list(lengths), window, tensor(length), tensor(length)) for length in lengths)

    def some(ranks: int) -> list[int]:
        return [rng.randrange(2, 7) for _ in range(ranks)]

    return [
        shown(f"four ranks, a window of {params['window']}", "values:keys", per_rank=data([8] * 4, params["window"])),
        hidden("three ranks, uneven lengths", "values:keys", per_rank=data([5, 17, 4], 4)),
        hidden("three ranks, a long window", "values:keys", per_rank=data([5, 17, 4], 18)),
        hidden("a window across several ranks", "generality:windows", per_rank=data([2, 3, 1, 4, 2], 8)),
        hidden("a window across six ranks", "generality:windows", per_rank=data([2, 1, 1, 2, 1, 1, 3], 8)),
        hidden("a window that ends at a rank's first token", "generality:windows", per_rank=data([3, 4, 3, 4], 5)),
        hidden("a window of one", "generality:windows", per_rank=data(some(3), 1)),
        hidden("a window of two", "generality:windows", per_rank=data([1, 2, 1], 2)),
        hidden("a window longer than the sequence", "generality:windows", per_rank=data([3, 2, 4], 50)),
        hidden("ranks without tokens", "generality:lengths", per_rank=data([4, 0, 3, 0], 4)),
        hidden("the first ranks without tokens", "generality:lengths", per_rank=data([0, 0, 3, 5], 4)),
        hidden("no token at all", "generality:lengths", per_rank=data([0, 0], 4)),
        hidden("one rank alone", "generality:lengths", per_rank=data([6], 3)),
        hidden("three ranks, a view in bf16", "generality:lengths", per_rank=data(some(3), 5, 3, view=True)),
        *under((LATE, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data([5, 6, 5], 4)),
    ]


def needs(lengths: Sequence[int], window: int, rank: int) -> range:
    """The positions of other ranks that a rank's queries see."""
    start = sum(lengths[:rank])
    return range(max(0, start - window + 1), start) if lengths[rank] else range(0)


STARTS = {
    "one-too-many": "one key too many; a query sees itself and window − 1 keys before it",
    "one-too-few": "one key too few; a query sees itself and window − 1 keys before it",
    "no-halo": "its own keys alone; its first queries see keys of other ranks",
    "one-neighbor": "keys of one neighbor alone; the window reaches further",
    "everything": "all keys from the start of the sequence",
}


def _halo_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    rows = case.per_rank or ()
    lengths, window = rows[0][:2]
    for rank, got in enumerate(results):
        for at, name in ((2, "k"), (3, "v")):
            whole, start = torch.cat([row[at] for row in rows], 1), sum(lengths[:rank])
            end, halo = start + lengths[rank], needs(lengths, window, rank)
            first_seen = start - len(halo)
            want = whole[:, first_seen:end]
            if same(got[name], want):
                continue
            neighbor = max(first_seen, start - (lengths[rank - 1] if rank else 0))
            for slip, there in zip(STARTS, (first_seen - 1, first_seen + 1, start, neighbor, 0), strict=True):
                if 0 <= there != first_seen and same(got[name], whole[:, there:end]):
                    return slip, f"rank {rank}, {name}: this is {STARTS[slip]}."
            if fault := not_like(got[name], want, rank):
                return fault
            if case.adversary is not None:
                return moved_early(case, rank)
            return "other-numbers", f"rank {rank}, {name}: other numbers than those of the sequence, or another order."
    return touched(results)


def _halo_bytes(case: Case, outcome: Outcome) -> Fault | None:
    rows = case.per_rank or ()
    lengths, window = rows[0][:2]
    starts = [0, *accumulate(lengths)]
    row = 2 * rows[0][2].shape[0] * rows[0][2].shape[2] * rows[0][2].element_size()
    due = {
        (src, dst): row * shared
        for src in range(len(rows))
        for dst in range(len(rows))
        if (shared := len(set(needs(lengths, window, dst)) & set(range(starts[src], starts[src + 1]))))
    }
    for src, dst, nbytes, messages in outcome.meter["pairs"]:
        if messages and (src, dst) not in due:
            return "not-needed", f"rank {src} sent to rank {dst}, whose queries see none of its keys."
        if nbytes > due.get((src, dst), 0):
            return "too-many-bytes", f"rank {src} sent {nbytes:,} bytes to rank {dst}, which needs {due[src, dst]:,}."
    needed = [sum(size for (_, dst), size in due.items() if dst == rank) for rank in range(len(rows))]
    return too_few_bytes(outcome.meter, [0] * len(rows), needed)


def _halo_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _halo_fault(case, outcome.value)
    cost = None if case.adversary else ("cost", "neighbors", _halo_bytes(case, outcome))
    return judged(case, fault, *([cost] if cost else []), named=True)


# --- hide-the-ring

Link = tuple[float, float, float, int, int, int]


def tokens_to_hide(seen: str, link: Link) -> float:
    """Tokens per rank from which on a step's computation takes as long as the transfer of the next block."""
    flops, bandwidth, latency, heads, kv_heads, width = link
    a, b = {"all": 4, "causal": 2}[seen] * heads * width / flops, 4 * kv_heads * width / bandwidth
    return (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)


def fewest(seen: str, *link: Any) -> int:
    """The same as a whole number of tokens."""
    return max(1, math.ceil(tokens_to_hide(seen, link)))  # type: ignore[arg-type]


def _hide_cases(params: Params, rng: random.Random) -> list[Case]:
    seen = params["seen"]

    def drawn(count: int, *latencies: float) -> list[Link]:
        fields = logarithmic(1e14, 2e15), logarithmic(1e10, 9e11), latencies, (32, 40, 64, 96), (1, 4, 8), (64, 128)
        return draw_rows(rng, count, *fields, keep=lambda row: safely_off_whole(tokens_to_hide(seen, row)))  # type: ignore[arg-type]

    exact = [(2.0**40, 2.0**30, 0.0, 16, 4, 64), (2.0**44, 2.0**38, 0.0, 8, 8, 128), (2.0**40, 2.0**34, 0.0, 64, 1, 32)]
    exact += [(2.0**40, 2.0**30, 2.0**power, 16, 4, 64) for power in (-10, -11)]  # one of them for each mask
    exact += [(2.0**40, 2.0**30 * (1 - 1e-6), 0.0, 16, 4, 64)]  # a little longer
    alike = each_changed((4e14, 5e10, 2e-5, 32, 8, 128), (8e14, 1e11, 0.03, 64, 32, 64))
    tiny = [(1e9, 1e12, 0.0, 32, 1, 128), (1e12, 1e9, 1e-3, 1, 1, 1), (4e14, 9e11, 1e-7, 32, 1, 64)]
    return [
        shown("one link", "values:tokens", 0, [(4e14, 5e10, 0.0, 32, 8, 128)]),
        shown("with latency", "values:tokens", 0, [(4e14, 5e10, 1e-5, 32, 8, 128)]),
        unseen(rng, "tokens", 0, "other links, no latency", drawn(4, 0.0)),
        unseen(rng, "tokens", 0, "other links with latency", drawn(5, 1e-6, 2e-5, 3e-4)),
        generality("tokens", 0, "computation exactly as long as the transfer", exact),
        generality("tokens", 0, "less than a token, and small numbers", tiny),
        generality("tokens", 0, "one number differs", alike),
    ]


HIDDEN = {
    "other-mask": "this counts another number of FLOPs: which part of each block is computed?",
    "no-latency": "the latency is missing.",
    "rounded-down": "rounded down, the transfer is still a little longer.",
    "one-more": "one token fewer is enough.",
    "query-heads": "keys and values have KV heads.",
    "keys-alone": "this is half of the bytes: keys and values, two bytes a number.",
}


def _hide_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    seen = params["seen"]
    other = "causal" if seen == "all" else "all"

    slips = {
        "other-mask": lambda *row: fewest(other, *row),
        "no-latency": lambda *row: fewest(seen, *row[:2], 0.0, *row[3:]),
        "rounded-down": lambda *row: math.floor(tokens_to_hide(seen, row)),  # type: ignore[arg-type]
        "one-more": lambda *row: fewest(seen, *row) + 1,
        "query-heads": lambda f, b, latency, h, k, w: fewest(seen, f, b, latency, h, h, w),
        "keys-alone": lambda f, b, *rest: fewest(seen, f, 2 * b, *rest),
    }
    column = Column(
        part="tokens",
        unit="tokens",
        want=lambda *row: fewest(seen, *row),
        words=lambda f, b, s, h, k, w: f"{f:.3g} FLOP/s, {b:.3g} B/s, {s:g} s, {h} heads, {k} KV heads of {w}",
        rel=EXACT,
        mistakes=mistakes(slips, HIDDEN),
    )
    return table(column)(params, case, outcome)


REACH = {
    "window-halo": Judging(
        shares="values:keys 0.3, cost:neighbors 0.3, protocol:safe 0.1, generality:windows 0.15, generality:lengths 0.15",
        cases=_halo_cases,
        verdicts=_halo_verdicts,
        why="""A query sees at most window − 1 keys before its rank's first token. All ranks know all lengths, so sender and receiver compute the same overlaps, and no rank
has to ask. The bytes do not grow with the sequence or with the number of ranks.""",
        pytorch="PyTorch has no such exchange ready-made; a mask in `flex_attention` limits the work, not the messages.",
    ),
    "hide-the-ring": Judging(
        shares=shares(tokens=(0.4, 0.6)),
        cases=_hide_cases,
        verdicts=_hide_verdicts,
        why="""Computation grows with the square of the tokens on a rank, and the transfer with their number. So there is a smallest part that hides its transfer. GQA shrinks the transfer
and not the computation, which is why it helps the ring.""",
        pytorch="PyTorch's ring attention starts the exchange of the next block before it computes on the current one.",
    ),
}
