"""Judges of chapter 11's merge of partial attention and of ring attention."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.reference import RANKS, Shards, block_bytes, cut, shards, touched, weighed
from course_lib.exercises.ch11.probes import MEASURED, WEIGHED
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, describe, first, judged
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.mistakes import mistakes
from course_lib.judging.ranks import BUFFER, BUFFERS_LATE, LATE, moved_early
from course_lib.judging.tensors import close, coin_of, kind_fault, normal, tensor_fault
from course_lib.judging.traffic import off_the_ring, too_few_bytes
from course_lib.records import Case, Outcome, Verdict

Pair = tuple[Tensor, Tensor]
ROUNDED = 2.0**-22  # of the largest log-sum: what a weight may be off because the total was rounded to fp32
SHARP = 2e-5  # of a log-sum in fp32, relative to the largest in the case


def log_sum_fault(where: str, got: Any, want: Tensor, known: Sequence[Mistake] = ()) -> Fault | None:
    """What is wrong with log-sums: −∞ in other places, a dtype other than fp32, or other numbers."""
    if fault := kind_fault(where, got, want.float()):
        return fault
    if got.isnan().any() or (got == math.inf).any():
        return "not-finite", f"{where} holds NaN or +∞."
    if not torch.equal(got == -math.inf, want == -math.inf):
        return "not-minus-infinity", f"{where} must be −∞ exactly where a query sees no key."
    finite = want > -math.inf
    scale = max(1.0, want[finite].abs().max().item() if finite.any() else 1.0)

    def same(value: Tensor) -> bool:
        return bool(((got - value).abs()[finite] <= SHARP * scale).all())

    if same(want):
        return None
    named = next((each for each in known if same(each.on())), None)
    return (
        (named.name, f"{where}: {named.message}") if named else ("log-sum", f"{where} is not log Σ exp over all keys.")
    )


# --- merge-partial-attention


def _merge_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, heads, width = coin_of(rng), params["heads"], params["width"]

    def part(tokens: int, size: float, unseen: str = "") -> Pair:
        output, log_sum = normal(coin, heads, tokens, width), normal(coin, heads, tokens) * size
        hide = {"": slice(0, 0), "all": slice(None), "first": slice(0, 1)}.get(unseen, slice(0, None, 2))
        log_sum[:, hide] = -math.inf
        if unseen != "anything":
            output[:, hide] = torch.nan if unseen in ("some", "all") else 0.0
        else:
            output[:, :1] = torch.inf
        return output, log_sum

    def low(pair: Pair) -> Pair:
        return pair[0], pair[1] - 1e4

    halves, uncounted = ("", "some") * 6, ("anything", "anything", "first")
    blind = [(part(3, 1.0)[0], torch.full((heads, 3), -math.inf)) for _ in range(2)]
    return [
        shown("two parts", "values:pair", [part(3, 1.0), part(3, 1.0)]),
        hidden("five parts", "values:pair", [part(4, 2.0) for _ in range(5)]),
        hidden("three parts with log-sums far apart", "generality:large", [part(4, 30.0) for _ in range(3)]),
        hidden("two parts with log-sums in the thousands", "generality:large", [part(4, 4000.0) for _ in range(2)]),
        hidden("log-sums near -10,000", "generality:large", [low(part(3, 1.0)), low(part(3, 1.0))]),
        hidden("twelve parts near -10,000, half unseen", "generality:large", [low(part(3, 1.0, at)) for at in halves]),
        hidden("a hundred parts", "generality:large", [part(1, 1.0) for _ in range(100)]),
        hidden("one part", "generality:unseen", [part(2, 1.0)]),
        hidden("some queries see nothing of the first part", "generality:unseen", [part(5, 1.0, "some"), part(5, 1.0)]),
        hidden("no query sees the second part", "generality:unseen", [part(3, 1.0), part(3, 1.0, "all"), part(3, 1.0)]),
        hidden("the first query sees nothing", "generality:unseen", [part(4, 1.0, "first"), part(4, 1.0, "first")]),
        hidden("some queries see nothing at all", "generality:unseen", [part(5, 1.0, "some"), part(5, 1.0, "some")]),
        hidden("one part, of which some queries see nothing", "generality:unseen", [part(5, 1.0, "some")]),
        hidden("outputs that do not count", "generality:unseen", [part(5, 1.0, unseen) for unseen in uncounted]),
        hidden("no query sees anything, and outputs are finite", "generality:unseen", blind),
        hidden("no tokens", "generality:unseen", [part(0, 1.0), part(0, 1.0)]),
    ]


def merged_pair(parts: Sequence[Pair]) -> Pair:
    """Output and log-sum over all parts, in float64."""
    log_sums = torch.stack([log_sum for _, log_sum in parts]).double()
    total = log_sums.logsumexp(0)
    shares = (log_sums - total).exp().nan_to_num(0.0).unsqueeze(-1)
    return sum(share * output.double().nan_to_num(0.0) for share, (output, _) in zip(shares, parts, strict=True)), total


MERGED = {
    "plain-mean": "this is the plain mean; a part counts by its sum of exponentials.",
    "plain-sum": "the outputs were added; each is a mean over its own keys.",
    "not-divided": "it is not divided by the total sum of exponentials.",
}
SUMMED = {
    "largest": "this is the largest log-sum; add the exponentials.",
    "sum-of-logs": "the logs were added; add the exponentials, then take the log.",
}


def _merge_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    parts, got = case.args[0], outcome.value["merged"]
    if outcome.value["touched"] is not False:
        return "changed", "a given tensor was changed; return new ones."
    if type(got) not in (tuple, list) or len(got) != 2:
        return "wrong-shape", f"return (output, log_sum), two tensors; got {describe(got)}."
    output, total = merged_pair(parts)
    outputs, log_sums = [one.double().nan_to_num(0.0) for one, _ in parts], [two.double() for _, two in parts]
    slips = {
        "plain-mean": sum(outputs) / len(parts),
        "plain-sum": sum(outputs),
        "not-divided": output * total.exp().unsqueeze(-1),
    }
    sums = mistakes({"largest": torch.stack(log_sums).amax(0), "sum-of-logs": sum(log_sums)}, SUMMED)
    known = mistakes({name: value.float() for name, value in slips.items()}, MERGED)
    size = max((two[two > -math.inf].abs().max().item() for two in log_sums if (two > -math.inf).any()), default=0.0)
    return first(
        tensor_fault("the output", got[0], output.float(), known, rel=1e-4 + ROUNDED * size),
        log_sum_fault("the log-sum", got[1], total, sums),
    )


# --- ring-attention


def _ring_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(ranks: int, length: int, how: str, name: str, *heads: int, measured: bool = False, **more: Any) -> Any:
        packed = torch.tensor(sorted(rng.choice((3, 4, 9)) for _ in range(length)))
        options = {"window": {"window": 5}, "documents": {"documents": packed}}.get(name, {}) | (
            {MEASURED: True} if measured else {}
        )
        return shards(coin, cut(length, ranks, rng, how), (name, options), *heads, **more)

    def far(name: str, part: str, *args: Any, **more: Any) -> Case:
        return hidden(name, part, per_rank=data(*args, **more))

    return [
        shown("four ranks, zig-zag, causal", "values:attention", per_rank=data(4, 16, "zig-zag", "causal")),
        far("three ranks, everything visible", "values:attention", 3, 12, "contiguous", "all"),
        far("four ranks, four query heads, two KV heads", "values:attention", 4, 16, "zig-zag", "all", 4, 2),
        far("three ranks, tokens anywhere", "generality:layouts", 3, 17, "mixed", "causal", 4, 2, 6),
        far("four ranks, 13 tokens", "generality:layouts", 4, 13, "zig-zag", "causal", 3, 1),
        far("five ranks, three tokens", "generality:layouts", 5, 3, "zig-zag", "causal"),
        far("two ranks", "generality:layouts", 2, 9, "contiguous", "causal"),
        far("one rank alone", "generality:layouts", 1, 7, "contiguous", "causal", 4, 2),
        far("three ranks, a sliding window", "generality:masks", 3, 18, "zig-zag", "window"),
        far("three ranks, packed documents", "generality:masks", 3, 18, "mixed", "documents", 2, 1),
        far("three ranks, keys before the query alone", "generality:masks", 3, 12, "mixed", "strict"),
        far("three ranks, large scores", "generality:numbers", 3, 12, "zig-zag", "causal", size=60.0),
        far("three ranks, bfloat16", "generality:numbers", 3, 15, "mixed", "causal", 4, 2, dtype=torch.bfloat16),
        far("two ranks, fp16", "generality:numbers", 2, 9, "mixed", "documents", dtype=torch.float16),
        far("ten ranks, memory", "cost:memory", 10, 20, "contiguous", "causal", 2, 2, 64, measured=True),
        *under((LATE, BUFFER, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data(3, 12, "zig-zag", "causal")),
    ]


ATTENDED = {
    "own-block": "this rank's own keys alone; the other blocks are missing.",
    "after-missing": "the block of rank + 1 is missing.",
    "before-missing": "the block of rank − 1 is missing.",
    "seen-mean": "the blocks' outputs have equal weights.",
    "plain-mean": "the blocks' outputs have equal weights, also blocks that are not seen.",
    "not-rescaled": "the blocks' sums are relative to different maxima; rescale them when the maximum grows.",
    "local-positions": "the mask belongs to positions within the block; take those of the whole sequence.",
    "wrong-block": "the mask belongs to another block. Whose keys are here after t steps?",
    "no-mask": "every key was seen; the mask is missing.",
    "not-scaled": "the scores are not divided by √width.",
    "heads-in-turn": "query head i used KV head i % KV heads; neighbors share a head.",
}


def _slips(of: Shards, rank: int) -> dict[str, Callable[[], Tensor]]:
    n = of.ranks

    def local(rank: int, block: int) -> Tensor:
        return of.visible(torch.arange(len(of.positions[rank])), torch.arange(len(of.positions[block])))

    def mirrored(rank: int, block: int) -> Tensor:
        other = (2 * rank - block) % n
        return of.seen(rank, other if len(of.positions[other]) == len(of.positions[block]) else block)

    def without(other: int) -> Tensor:
        return of.attend(rank, [block for block in range(n) if block != other % n])[0]

    return {
        "own-block": lambda: of.attend(rank, [rank])[0],
        "after-missing": lambda: without(rank + 1),
        "before-missing": lambda: without(rank - 1),
        "seen-mean": lambda: of.mixed(rank, lambda log_sum, top: (log_sum > -math.inf).double()),
        "plain-mean": lambda: of.mixed(rank, lambda log_sum, top: torch.ones_like(top)),
        "not-rescaled": lambda: of.mixed(rank, lambda log_sum, top: (log_sum - top).exp()),
        "local-positions": lambda: of.attend(rank, seen=local)[0],
        "wrong-block": lambda: of.attend(rank, seen=mirrored)[0],
        "no-mask": lambda: of.attend(rank, seen=lambda rank, block: torch.ones_like(of.seen(rank, block)))[0],
        "not-scaled": lambda: of.attend(rank, scaled=False)[0],
        "heads-in-turn": lambda: of.attend(rank, tiled=True)[0],
    }


def _ring_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    of = Shards(case)
    for rank, (got, (out, log_sum)) in enumerate(zip(outcome.value, of.whole(), strict=True)):
        want, where = out.to(of.q[rank].dtype), f"rank {rank}'s output"
        fault = None
        if not close(got["out"], want):
            slips = {
                name: lambda value=value, to=want.dtype: value().to(to) for name, value in _slips(of, rank).items()
            }
            fault = tensor_fault(where, got["out"], want, mistakes(slips, ATTENDED))
        if fault and case.adversary is not None and fault[0] in ("other-numbers", "not-finite", "rounded"):
            return moved_early(case, rank)
        if fault := fault or log_sum_fault(f"rank {rank}'s log-sum", got["log_sum"], log_sum):
            return fault
    return touched(outcome.value)


def _ring_bytes(case: Case, outcome: Outcome, direction: int) -> Fault | None:
    blocks = block_bytes(case)
    for rank, spent in enumerate(outcome.meter["bytes_sent"]):
        most = sum(blocks) - blocks[(rank + direction) % len(blocks)]
        if spent > most:
            return "too-many-bytes", (
                f"rank {rank} sent {spent:,} bytes; {most:,} are enough. Are blocks sent once more at the end, padded, in another dtype, "
                "or with a copy for every query head?"
            )
    needed = [sum(blocks) - own for own in blocks] if case.part == "attention" else [0] * len(blocks)
    return too_few_bytes(outcome.meter, [0] * len(blocks), needed)


KEPT = 0.95  # of all blocks: six of ten are needed, with arithmetic in float64 eight; whoever keeps them all has 12


def _ring_memory(case: Case, outcome: Outcome) -> Fault | None:
    blocks = block_bytes(case)
    held = max(got["peak"] or 0 for got in outcome.value)
    if 0 < held <= KEPT * sum(blocks):
        return None
    return "whole-sequence", (
        f"at its peak a rank holds {held / blocks[0]:.1f} blocks of keys and values of {len(blocks)} besides its own; let go of a block once "
        "it has been used and passed on."
    )


HELD = 10.0  # blocks a rank may come to hold, the given tensors and messages under way included


def _ring_weighed(params: Params, rng: random.Random) -> Weighed:
    coin = coin_of(rng)

    def wants(case: Case) -> list[dict[str, Tensor]]:
        columns = (case.per_rank or ())[0][1][1][WEIGHED][1] % 64
        return [{"out": out[..., columns], "log_sum": log_sum} for out, log_sum in Shards(case).whole()]

    positions = cut(20, RANKS, rng, "contiguous")
    return weighed(lambda options: shards(coin, positions, ("causal", options), 2, 2, 64), HELD, wants)


def _ring_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _ring_fault(params, case, outcome)
    direction = 1 if params["direction"] == "next" else -1
    if case.part == "memory":
        return judged(case, first(fault, _ring_memory(case, outcome)), named=True)
    cost = first(
        off_the_ring(outcome.meter, direction, "rank, rank + 1, …" if direction > 0 else "rank, rank − 1, …"),
        _ring_bytes(case, outcome, direction),
    )
    return judged(case, fault, *([("cost", "bytes", cost)] if case.adversary is None else []), named=True)


RING = {
    "merge-partial-attention": Judging(
        shares="values:pair 0.5, generality:large 0.25, generality:unseen 0.25",
        cases=_merge_cases,
        verdicts=lambda params, case, outcome: judged(case, _merge_fault(params, case, outcome), named=True),
        why="""Each output was divided by its own sum of exponentials. exp(log_sum − total) replaces that divisor with the sum over all keys. Such merges can be done in
any order and in any grouping, which is why attention can be split.""",
        pytorch="`torch.ops.aten._scaled_dot_product_flash_attention` returns the log-sum; PyTorch's context parallelism merges with it.",
    ),
    "ring-attention": Judging(
        shares="values:attention 0.3, cost:bytes 0.2, cost:memory 0.1, protocol:safe 0.1, generality:layouts 0.1, generality:masks 0.1, "
        "generality:numbers 0.1",
        measured_by_worker=("cost:memory",),
        weighed=_ring_weighed,
        cases=_ring_cases,
        verdicts=_ring_verdicts,
        why="""Attention is a sum over keys, and log-sums let it be merged block by block. Each block passes every rank once, N − 1 messages in all. The mask depends on
positions in the whole sequence, so it holds for every layout.""",
        pytorch="`torch.distributed.tensor.experimental.context_parallel` replaces scaled_dot_product_attention with ring attention.",
    ),
}
