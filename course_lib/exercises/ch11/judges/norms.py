"""Judges of chapter 11 on replicated weights and activations, and on one mean over data and context ranks."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.judging.columns import CLOSE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, unseen
from course_lib.judging.mistakes import mistakes
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome

# --- activation-shares


def activation_bytes(tokens: int, hidden: int, tp: int, cp: int, sequence_parallel: bool) -> float:
    """Bytes of a layer's activations on one rank; Korthikanti et al. 2022, table 2, without the s² term of unfused attention."""
    return tokens / cp * hidden * (10 / (tp if sequence_parallel else 1) + 24 / tp)


def _share_cases(params: Params, rng: random.Random) -> list[Case]:
    size, plain = (params["tokens"], params["hidden"]), "bytes"
    drawn = draw_rows(rng, 6, (2048, 4096, 8192), (1024, 4096, 6144), (2, 4, 8), (2, 4, 16), (True, False))
    edges = [(512, 768, 1, 1, True), (512, 768, 1, 1, False), (4096, 1024, 1, 8, False), (13, 640, 3, 5, True)]
    alike = each_changed((4096, 1024, 4, 8, True), (8192, 2048, 16, 32, False))
    return [
        shown("with and without", "values:bytes", 0, [(*size, 8, 1, False), (*size, 8, 1, True), (*size, 8, 4, True)]),
        unseen(rng, plain, 0, "other sizes", drawn),
        generality(plain, 0, "one rank in a direction, and sizes that do not divide", edges),
        generality(plain, 0, "one number differs", alike),
    ]


SHARES = Column(
    part="bytes",
    unit="bytes",
    want=activation_bytes,
    words=lambda tokens, hidden, tp, cp, sp: (
        f"{tokens:,} tokens, hidden {hidden:,}, tp {tp}, cp {cp}, {'with' if sp else 'without'} sequence parallelism"
    ),
    mistakes=mistakes(
        {
            "all-divided": lambda t, h, tp, cp, sp: 34 * t * h / cp / tp,
            "never-divided": lambda t, h, tp, cp, sp: activation_bytes(t, h, tp, cp, False),
            "another-factor": lambda t, h, tp, cp, sp: activation_bytes(t, h, tp, cp, sp) / (tp if sp else 1),
            "no-context": lambda t, h, tp, cp, sp: activation_bytes(t, h, tp, 1, sp),
            "context-inside": lambda t, h, tp, cp, sp: t * h * (10 / (tp if sp else 1) + 24 / tp / cp),
            "two-bytes-again": lambda t, h, tp, cp, sp: 2 * activation_bytes(t, h, tp, cp, sp),
        },
        {
            "all-divided": "without sequence parallelism, the 10 outside the matmuls are not divided.",
            "never-divided": "sequence parallelism divides the 10 as well.",
            "another-factor": "sequence parallelism uses the ranks of tp, and adds none.",
            "no-context": "context parallelism divides the tokens.",
            "context-inside": "context parallelism divides the norms' tokens, too.",
            "two-bytes-again": "34 is in bytes already, not in numbers.",
        },
    ),
    rel=CLOSE,
)

# --- norm-gradients

KINDS = {
    "norm.weight": "partial",
    "mlp.bias": "partial",
    "up.weight": "sharded",
    "down.weight": "sharded",
    "router.weight": "whole",
}


def _sync_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def data(ranks: int, steps: int, kinds: Mapping[str, str], mixed: bool = False) -> Any:
        sizes = {
            name: (rng.randrange(1, 5), rng.randrange(1, 4)) if at % 2 else (rng.randrange(2, 6),)
            for at, name in enumerate(kinds)
        }
        same = {name: normal(coin, *size) for name, size in sizes.items()}
        own = [
            {name: normal(coin, *size) if kinds[name] == "sharded" else same[name] for name, size in sizes.items()}
            for _ in range(ranks)
        ]
        listed = [list(kinds)[:: -1 if mixed and rank % 2 else 1] for rank in range(ranks)]
        rows: list[tuple[Any, ...]] = [
            ({name: kinds[name] for name in names}, 0.1, weights, [])
            for names, weights in zip(listed, own, strict=True)
        ]
        for _ in range(steps):
            whole = {name: normal(coin, *size) for name, size in sizes.items()}
            for row in rows:
                names = rng.sample(list(sizes), len(sizes)) if mixed else list(sizes)
                row[3].append(
                    {name: whole[name] if kinds[name] == "whole" else normal(coin, *sizes[name]) for name in names}
                )
        return tuple(rows)

    other = {f"{name[:-2]}.{at}": kind for at, (name, kind) in enumerate(reversed(KINDS.items()))}
    turned = dict(zip(KINDS, reversed(KINDS.values()), strict=True))
    many = {f"{letter}{at}.w": "partial" for letter in "bBaAc" for at in (2, 1)} | {"b.w": "whole"}
    return [
        shown(f"{ranks_text(n)}, one step", "values:weights", per_rank=data(n, 1, KINDS)),
        hidden("four ranks, ten steps", "values:weights", per_rank=data(4, 10, KINDS)),
        hidden("four ranks, other kinds", "values:weights", per_rank=data(4, 1, turned)),
        hidden("three ranks, other names", "generality:names", per_rank=data(3, 2, other)),
        hidden("three ranks, each in another order", "generality:names", per_rank=data(3, 3, other, mixed=True)),
        hidden("two ranks, no partial one", "generality:names", per_rank=data(2, 2, {"a": "sharded", "b": "whole"})),
        hidden("partial gradients alone", "generality:names", per_rank=data(2, 2, dict.fromkeys("ac", "partial"))),
        hidden("three ranks, many names that are alike", "generality:names", per_rank=data(3, 3, many, mixed=True)),
        hidden("one rank alone", "generality:names", per_rank=data(1, 3, KINDS)),
    ]


def stepped(case: Case, how: str = "") -> list[dict[str, Tensor]]:
    """Each rank's weights after all steps, in float64; `how` names a mistake."""
    rows = case.per_rank or ()
    kinds, rate = rows[0][:2]
    summed = {
        "": ("partial",),
        "whole-summed": ("partial", "whole"),
        "all-summed": ("partial", "whole", "sharded"),
    }.get(how, ())
    found = [{name: tensor.double() for name, tensor in row[2].items()} for row in rows]
    for step in range(len(rows[0][3])):
        for name, kind in kinds.items():
            column = [row[3][step][name].double() for row in rows]
            total = sum(column)
            for weights, own in zip(found, column, strict=True):
                averaged = how == "averaged" and kind == "partial"
                weights[name] = weights[name] - rate * (
                    total / len(rows) if averaged else total if kind in summed else own
                )
    return found


SYNC_SLIPS = {
    "not-synced": "partial gradients of other ranks are missing, so the copies drift apart.",
    "averaged": "partial gradients were averaged; each rank's tokens add their own share to the sum.",
    "whole-summed": "gradients that are whole on every rank were added N times.",
    "all-summed": "gradients of different parts of a weight were added to each other.",
}


def _sync_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    wants, named = stepped(case), None
    for rank, (got, want) in enumerate(zip(results, wants, strict=True)):
        if set(got) != set(want):
            return "other-names", f"rank {rank}: return a gradient for each of {', '.join(sorted(want))}."
        for name in want:
            if tensor_fault("", got[name], want[name].float()):
                named = named or {how: stepped(case, how) for how in SYNC_SLIPS}
                slips = [Mistake(how, named[how][rank][name].float(), message) for how, message in SYNC_SLIPS.items()]
                return tensor_fault(f"rank {rank}, {name} after all steps", got[name], want[name].float(), slips)
    return None


def _sync_cost(case: Case, outcome: Outcome) -> Fault | None:
    kinds, _, weights, steps = (case.per_rank or ())[0]
    n, size = case.ranks or 1, sum(4 * weights[name].numel() for name, kind in kinds.items() if kind == "partial")
    most = len(steps) * (2 * (n - 1) * (-(-size // 4 // n)) * 4)
    for rank, sent in enumerate(outcome.meter["bytes_sent"]):
        if outcome.meter["collectives"][rank] > len(steps):
            return (
                "many-calls",
                f"rank {rank} made {outcome.meter['collectives'][rank]} calls in {len(steps)} steps; join the partial gradients in one.",
            )
        if sent > most:
            return (
                "too-many-bytes",
                f"rank {rank} sent {sent:,} bytes; an all-reduce of the partial gradients takes at most {most:,}.",
            )
    least = (n > 1) * len(steps) * size / 2
    return too_few_bytes(outcome.meter, [least] * n, [least] * n)


# --- mean-over-the-mesh


def _mean_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        dp: int,
        cp: int,
        counts: Sequence[int],
        tp: int = 1,
        across: bool = False,
        shapes: Sequence[tuple[int, ...]] = ((2,), (2, 2, 3), (5, 1)),
        view: bool = False,
    ) -> Any:
        """Ranks with cp innermost, or with dp innermost where `across`; ranks of tp are innermost of all, and hold other weights."""

        def place(d: int, c: int, t: int) -> int:
            return ((c * dp + d) if across else (d * cp + c)) * tp + t

        dps = [[place(d, c, t) for d in range(dp)] for c in range(cp) for t in range(tp)]
        cps = [[place(d, c, t) for c in range(cp)] for d in range(dp) for t in range(tp)]
        rows = []
        for rank in range(dp * cp * tp):
            tokens = counts[rank // tp % len(counts)]
            fill = 1.0 if tokens else {"NaN": torch.nan, "0": 0.0}[params["empty"]]
            own = [normal(coin, *shape) * fill * (1 + rank) for shape in shapes]
            rows.append((dps, cps, tokens, [each.mT if view and each.ndim > 1 else each for each in own]))
        return tuple(rows)

    large, other = [70_001, 9, 40_003, 0], ((), (3, 2), (0, 2), (4,), (2, 1, 3))
    return [
        shown("dp 2, cp 2", "values:mean", per_rank=data(2, 2, [5, 3, 1, 7], shapes=((3, 2), (4,)))),
        hidden("dp 2, cp 3", "values:mean", per_rank=data(2, 3, [2, 9, 4, 1, 6, 3])),
        hidden("dp 3, cp 2, other order", "generality:meshes", per_rank=data(3, 2, [8, 1, 5, 2, 3, 4], across=True)),
        hidden("dp 2, cp 2, tp 2", "generality:meshes", per_rank=data(2, 2, [5, 3, 1, 7], tp=2)),
        hidden("dp 4, cp 2, views", "generality:meshes", per_rank=data(4, 2, large, shapes=other, view=True)),
        hidden("dp 1, cp 3", "generality:meshes", per_rank=data(1, 3, [2, 5, 1])),
        hidden("dp 3, cp 1", "generality:meshes", per_rank=data(3, 1, [2, 5, 1])),
        hidden("one rank alone", "generality:meshes", per_rank=data(1, 1, [4])),
        hidden("a rank without counted tokens", "generality:empty", per_rank=data(2, 2, [5, 0, 2, 7])),
        hidden("a sequence without counted tokens", "generality:empty", per_rank=data(2, 2, [0, 0, 2, 7])),
        hidden("one counted token in all", "generality:empty", per_rank=data(2, 2, [0, 0, 1, 0])),
        hidden("no counted token at all", "generality:empty", per_rank=data(2, 2, [0, 0, 0, 0])),
        hidden("one rank alone without counted tokens", "generality:empty", per_rank=data(1, 1, [0], shapes=((3,),))),
    ]


def mean_of(case: Case, rank: int, how: str, summed: bool) -> list[Tensor]:
    """The mean gradients on a rank, in float64, or those of a mistake."""
    rows = case.per_rank or ()
    dps, cps = rows[0][:2]
    dp = next(group for group in dps if rank in group)
    cp = next(group for group in cps if rank in group)
    mesh = [other for first_ in dp for other in next(group for group in cps if first_ in group)]
    members = {"dp-only": dp, "cp-only": cp}.get(how, mesh)

    def total(ranks: Sequence[int], at: int) -> Any:
        return sum(rows[r][3][at].double().nan_to_num(0.0) * (1 if summed else rows[r][2]) for r in ranks)

    def count(ranks: Sequence[int]) -> int:
        return max(sum(rows[r][2] for r in ranks), 1)

    found = []
    for at in range(len(rows[rank][3])):
        means = {r: total([r], at) / count([r]) for r in members}
        found.append(
            {
                "mean-of-means": lambda m=means: sum(m.values()) / len(m),
                "context-as-samples": lambda at=at: total(mesh, at) / count(mesh) / len(cp),
                "mean-of-sequences": lambda at=at: (
                    sum(total(g, at) / count(g) for g in cps if set(g) <= set(mesh)) / len(dp)
                ),
            }.get(how, lambda at=at: total(members, at) / count(members))()
        )
    return found


MEAN_SLIPS = {
    "dp-only": "only the replicas were averaged; the other parts of this sequence are missing.",
    "cp-only": "only the ranks of this sequence were averaged; the other replicas are missing.",
    "mean-of-means": "every rank counts the same here; a rank counts by its tokens.",
    "mean-of-sequences": "every replica counts the same here; a sequence counts by its tokens.",
    "context-as-samples": "it was divided by the number of context ranks, too; they are parts of one sequence, not samples.",
}


def _mean_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    summed = params["loss"] == "summed"
    for rank, got in enumerate(outcome.value):
        want, given = mean_of(case, rank, "", summed), (case.per_rank or ())[rank][3]
        if len(got["gradients"]) != len(given):
            return "wrong-shape", f"rank {rank} returned {len(got['gradients'])} tensors; return {len(given)}."
        for at, tensor in enumerate(got["gradients"]):
            if tensor_fault("", tensor, want[at].float()):
                slips = [
                    Mistake(how, mean_of(case, rank, how, summed)[at].float(), message)
                    for how, message in MEAN_SLIPS.items()
                ]
                return tensor_fault(f"rank {rank}, gradient {at}", tensor, want[at].float(), slips)
        if got["touched"] is not False:
            return "changed", f"rank {rank}: an argument was changed; return new tensors."
        if got["shared"] is not False:
            return "given-back", f"rank {rank}: a given gradient came back; return new tensors."
    return None


NORMS = {
    "activation-shares": Judging(
        shares=shares(bytes=(0.5, 0.5)),
        cases=_share_cases,
        verdicts=table(SHARES),
        why="""Tensor parallelism splits the matmuls and what lies between them. Norms and dropouts work token by token, so the same ranks can share their tokens: no new ranks, and no
new bytes on the wire. Context parallelism has ranks of its own and splits the tokens of everything, attention included.""",
        pytorch="`SequenceParallel` in `torch.distributed.tensor.parallel` shards the norms; `context_parallel` shards the sequence.",
    ),
    "norm-gradients": Judging(
        shares="values:weights 0.4, cost:bytes 0.2, generality:names 0.4",
        cases=_sync_cases,
        verdicts=lambda params, case, outcome: judged(
            case, _sync_fault(case, outcome.value), ("cost", "bytes", _sync_cost(case, outcome)), named=True
        ),
        why="""A norm's weight is used by every token, and each rank saw some of them, so the gradients add up. Averaging makes the norms learn N times more slowly and keeps the copies
equal: nothing but a comparison with one process shows it.""",
        pytorch="With DTensor the gradient of a replicated weight is `Partial` after a sharded backward pass, and is summed when it is redistributed.",
    ),
    "mean-over-the-mesh": Judging(
        shares="values:mean 0.4, generality:meshes 0.3, generality:empty 0.3",
        cases=_mean_cases,
        verdicts=lambda params, case, outcome: judged(case, _mean_fault(params, case, outcome), named=True),
        why="""The loss is one mean over tokens, wherever they are. Sums add over any groups in any order, and the division comes last, by the number of tokens that were counted.
Parts of a sequence differ in counted tokens more than whole sequences do, because prompts and padding sit at its ends.""",
        pytorch="FSDP reduces over the flattened (dp, cp) mesh; Megatron-LM does the same with its dp-cp group, and scales the loss by the global token count.",
    ),
}
