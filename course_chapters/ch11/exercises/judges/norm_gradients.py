import random
from collections.abc import Mapping

from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Worked, hidden, oracle, ranks_text, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, normal, tensor_fault
from course_grader.judging.traffic import bytes_fault

right = Worked("norm-gradients")

KINDS = {
    "norm.weight": "partial",
    "mlp.bias": "partial",
    "up.weight": "sharded",
    "down.weight": "sharded",
    "router.weight": "whole",
}


def _sync_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["ranks"]

    def data(ranks: int, steps: int, kinds: Mapping[str, str], mixed: bool = False) -> PerRank:
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
        rows: list[tuple[dict[str, str], float, dict[str, Tensor], list[dict[str, Tensor]]]] = [
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


def _sync_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        if set(got) != set(want):
            return "other-names", f"rank {rank}: return a gradient for each of {', '.join(sorted(want))}."
        for name in want:
            if fault := tensor_fault(f"rank {rank}, {name} after all steps", got[name], want[name]):
                return fault
    return None


def _sync_cost(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    kinds, _, weights, steps = (case.per_rank or ())[0]
    n, size = case.ranks or 1, sum(4 * weights[name].numel() for name, kind in kinds.items() if kind == "partial")
    most = len(steps) * (2 * (n - 1) * (-(-size // 4 // n)) * 4)
    calls, least = max(outcome.meter["collectives"]), (n > 1) * len(steps) * size / 2
    if calls > len(steps):
        return "many-calls", f"a rank made {calls} calls in {len(steps)} steps; join the partial gradients in one."
    needs = "an all-reduce of the partial gradients takes at most"
    return bytes_fault(outcome.meter, [most] * n, needs, [least] * n)


JUDGING = Judging(
    shares="values:weights 0.4, cost:bytes 0.2, generality:names 0.4",
    cases=_sync_cases,
    verdicts=oracle(_sync_fault, {"cost:bytes": _sync_cost}, named=True),
    why="""A norm's weight is used by every token, and each rank saw some of them, so the gradients add up. Averaging
makes the norms learn N times more slowly and keeps the copies equal: nothing but a comparison with one process shows
it.""",
    pytorch="With DTensor the gradient of a replicated weight is `Partial` after a sharded backward pass, and is "
    "summed when it is redistributed.",
)

ANSWERS = r'''# %% right: worked
def sync_gradients(comm, gradients: dict, kinds: dict) -> dict:
    """The gradients by name, with those of replicated weights that saw only this rank's tokens summed over the
    ranks."""
    synced = dict(gradients)
    names = sorted(name for name in gradients if kinds[name] == "partial")  # the same order on all ranks
    if names:
        flat = torch.cat([gradients[name].reshape(-1) for name in names])
        comm.all_reduce(flat)
        parts = flat.split([gradients[name].numel() for name in names])
        synced |= {name: part.view_as(gradients[name]) for name, part in zip(names, parts, strict=True)}
    return synced
# %% right: in place
# ~ synced |= {name: part.view_as(gradients[name]) for name, part in zip(names, parts, strict=True)}
# ~~ ==> synced = {**gradients, **{name: gradients[name].copy_(part.view_as(gradients[name])) for name, part in
# ~~ zip(names, parts)}}
# %% wrong: as it was => values averaged  from: the card
# > partial gradients were averaged; each rank's tokens add their own share to the sum.
# %% wrong: not synced => values
# > partial gradients of other ranks are missing, so the copies drift apart.
# ~ if names: ==> if False:
# %% wrong: whole summed => values
# > gradients that are whole on every rank were added N times.
# ~ == "partial") ==> != "sharded")
# %% wrong: all summed => values
# > gradients of different parts of a weight were added to each other.
# ~ for name in gradients if kinds[name] == "partial") ==> for name in gradients)
# %% wrong: one call for each => cost many-calls
# -         comm.all_reduce(flat)
# -         parts = flat.split([gradients[name].numel() for name in names])
# +         parts = [gradients[name].reshape(-1) for name in names]
# +         for part in parts:
# +             comm.all_reduce(part)
# %% wrong: whole gradients travel => cost too-many-bytes
# ~ == "partial") ==> != "sharded")
# ~ zip(names, parts, strict=True)} ==> zip(names, parts, strict=True) if kinds[name] == "partial"}
# %% wrong: the order of this rank => generality other-numbers
# ~ sorted(name for name in gradients if kinds[name] == "partial")
# ~~ ==> [name for name in gradients if kinds[name] == "partial"]
# %% wrong: the order of this rank's kinds => generality other-numbers
# ~ sorted(name for name in gradients if kinds[name] == "partial")
# ~~ ==> [name for name, kind in kinds.items() if kind == "partial"]
# %% wrong: names sorted by their first letter => generality ~
# ~ sorted(name for name in gradients if kinds[name] == "partial")
# ~~ ==> sorted([name for name in gradients if kinds[name] == "partial"], key=min)
# %% wrong: nothing to join => generality raised
# ~ if names: ==> if True:
# %% wrong: the partial gradients alone come back => values other-names
# ~ return synced ==> return {name: synced[name] for name in names}
'''
