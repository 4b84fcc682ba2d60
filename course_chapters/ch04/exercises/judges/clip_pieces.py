import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.exercises.values import describe, is_number, near
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Worked, Wrong, first, verdict
from course_grader.judging.cases import hidden, ranks_text, shown
from course_grader.judging.tensors import coin_of, normal, same_tensors, tensor_fault

Shards = Sequence[dict[str, Tensor]]
# PyTorch adds 1e-6 to the norm.
LOOSE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 1e-2}

right = Worked("clip-pieces")


def cut(pieces: Sequence[Tensor], ranks: int, rng: Random) -> list[dict[str, Tensor]]:
    """Rows of numbers cut into shards at random places; shards may be empty."""
    shards: list[dict[str, Tensor]] = [{} for _ in range(ranks)]
    for number, piece in enumerate(pieces):
        ends = sorted(rng.randrange(len(piece) + 1) for _ in range(ranks - 1))
        for shard, start, end in zip(shards, [0, *ends], [*ends, len(piece)], strict=True):
            if end > start:
                shard[f"w{number}"] = piece[start:end].clone()
    return shards


def _with_copies(shards: Shards, **copies: Tensor) -> list[dict[str, Tensor]]:
    return [{**{name: tensor.clone() for name, tensor in copies.items()}, **shard} for shard in shards]


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, n = coin_of(rng), params["elements"]

    def pieces(size: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        return [(normal(coin, count, dtype=torch.float64) * size).to(dtype) for count in (n // 2, n - n // 2)]

    given = pieces()
    shards = cut(given, params["ranks"], rng)
    broken = [cut(pieces(), 3, rng) for _ in range(3)]
    for each, odd in zip(broken, (math.inf, -math.inf, math.nan), strict=True):
        next(iter(next(filter(None, each)).values()))[0] = odd
    exact = [{"w": torch.tensor([3.0, 0.0], dtype=torch.float64)}, {"w": torch.tensor([4.0], dtype=torch.float64)}]
    copies = {"b": normal(coin, 3, 4, dtype=torch.float64).T, "norm": normal(coin, 9, dtype=torch.float64)}
    some = _with_copies(cut(pieces(), 3, rng), **copies)
    alone = _with_copies([{}, {}], norm=normal(coin, 5, dtype=torch.float64))
    return [
        shown("the shown shards", "values:gradients", shards, 2.0, ()),
        hidden("a norm below the limit", "values:gradients", cut(pieces(0.01), 3, rng), 1.0, ()),
        hidden("gradients in fp32", "values:gradients", cut(pieces(1.0, torch.float32), 2, rng), 1.0, ()),
        *(
            hidden(f"the same gradient on {ranks_text(k)}", "generality:splits", cut(given, k, rng), 2.5, ())
            for k in (1, 2, 11)
        ),
        hidden("copies on three ranks", "generality:copies", some, 1.5, tuple(copies)),
        hidden("copies and nothing else", "generality:copies", alone, 0.5, ("norm",)),
        hidden("gradients of zero", "generality:edges", [{"w": torch.zeros(3, dtype=torch.float64)}, {}], 1.0, ()),
        hidden("a norm equal to the limit", "generality:edges", exact, 5.0, ()),
        hidden("a norm just above the limit", "generality:edges", exact, 4.9995, ()),
        *(hidden("infinity or NaN in one shard", "generality:edges", each, 1.0, ()) for each in broken),
        hidden("a limit of zero", "generality:edges", cut(pieces(), 2, rng), 0.0, ()),
        hidden("bfloat16", "generality:edges", cut(pieces(1.0, torch.bfloat16), 2, rng), 1.0, ()),
        hidden("squares beyond float16", "generality:edges", cut(pieces(300.0, torch.float16), 2, rng), 1.0, ()),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    want = right.value(case)
    fault = _gradient_fault(case, outcome.value["gradients"], want["gradients"], want["norm"])
    told = _norm_fault(case, outcome.value["norm"], want["norm"])
    if case.kind == "values":
        return [verdict("values", "gradients", case, fault), verdict("values", "norm", case, told)]
    return [verdict(case.kind, case.part, case, first(fault, told))]


def _gradient_fault(case: Case, got: Sequence[Tensor], want: Sequence[Tensor], norm: float) -> Fault | None:
    if len(got) != len(want):
        return "wrong-shape", f"{case.name}: a gradient is missing from its dictionary."
    if not math.isfinite(norm):
        told = f"{case.name}: gradients changed although the norm is not finite; leave them."
        return None if same_tensors(got, want) else ("scaled-by-nan", told)
    names = [(rank, name) for rank, shard in enumerate(case.args[0]) for name in shard]
    for (rank, name), one, like in zip(names, got, want, strict=True):
        if fault := tensor_fault(f"{case.name}, rank {rank}, {name!r}", one, like, rel=LOOSE[like.dtype]):
            return Wrong(*fault)._replace(lead=f"{case.name}: ", where=("gradients",))
    return None


def _norm_fault(case: Case, got: object, want: float) -> Fault | None:
    if not math.isfinite(want):
        told = f"{case.name}: got {describe(got)}; return the norm, infinite or NaN."
        return None if type(got) is float and not math.isfinite(got) else ("hides-infinity", told)
    if not is_number(got):
        return "not-a-number", f"{case.name}: return the norm before clipping; got {describe(got)}."
    half = any(g.dtype == torch.float16 for shard in case.args[0] for g in shard.values())
    if near(got, want, 1e-3 if half else 1e-5):
        return None
    apart = f"{got / want:.7g} times the right one" if want else f"{got:.4g} where 0 is right"
    return Wrong("other-norm", f"{case.name}: the norm is {apart}.", f"{case.name}, the norm: ", ("norm",))


JUDGING = Judging(
    within=1e-5,
    shares="values:gradients 0.4, values:norm 0.1, generality:splits 0.2, generality:copies 0.15, "
    "generality:edges 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="The square of a norm is a sum over elements, so it can be summed over pieces in any order; the norm itself "
    "cannot. One factor for all pieces keeps the direction of the gradient. On real ranks the sum of squares is "
    "one all-reduce of a single number. Replicated tensors, such as norms under tensor parallelism, must enter "
    "this sum once: counted on every rank, they make the norm grow with the number of ranks, and the same run "
    "clips harder on more GPUs.",
    pytorch="`torch.nn.utils.clip_grad_norm_` on DTensors all-reduces the squares; with `error_if_nonfinite=False` "
    "(the default) it multiplies every gradient by NaN where the norm is NaN. Double counting: NVIDIA-NeMo/RL "
    "pull request 3788.",
)

ANSWERS = r'''# %% right: worked
def clip(shards: list[dict], limit: float, replicated: set[str]) -> float:
    """The norm of the whole gradient before clipping; scales the gradients in `shards`."""
    total, seen = 0.0, set()
    for shard in shards:
        for name, gradient in shard.items():
            if name not in seen:
                total += gradient.double().square().sum().item()
            seen |= {name} & replicated
    norm = total**0.5
    if norm > limit and norm < float("inf"):
        for shard in shards:
            for gradient in shard.values():
                gradient.mul_(limit / norm)
    return norm
# %% right: tensors, assigned to the dictionaries
# ~ 0.0, set() ==> torch.zeros(()), set()
# ~ gradient.double().square().sum().item() ==> gradient.float().norm() ** 2
# ~ norm = total**0.5 ==> norm = total.sqrt()
# -     if norm > limit and norm < float("inf"):
# -         for shard in shards:
# -             for gradient in shard.values():
# -                 gradient.mul_(limit / norm)
# +     factor = (limit / (norm + 1e-6)).clamp(max=1.0) if torch.isfinite(norm) else torch.ones(())
# +     for shard in shards:
# +         for name in list(shard):
# +             shard[name] = (shard[name] * factor).to(shard[name].dtype)
# %% wrong: every rank clips its own shard => values per-rank
# > each rank uses its own norm.
#   def clip(shards: list[dict], limit: float, replicated: set[str]) -> float:
# +     return math.hypot(*(clip_all([shard], limit, replicated) for shard in shards))
# + def clip_all(shards, limit, replicated):
# %% wrong: every tensor by itself => values per-tensor
# > every tensor is clipped by its own norm.
# -             if name not in seen:
# -                 total += gradient.double().square().sum().item()
# +             norm = gradient.double().norm().item()
# +             total += norm**2
# +             gradient.mul_(min(1.0, limit / norm) if norm else 1.0)
# ~ norm < float("inf") ==> norm < limit
# %% wrong: each number is cut off => values by-value
# > each number is cut off at the limit.
# ~ gradient.mul_(limit / norm) ==> gradient.clamp_(-limit, limit)
# %% wrong: norms are added up => values norms-added
# > norms are added up; add squares.
# ~ square().sum ==> norm
# ~ total**0.5 ==> total
# %% wrong: norms of ranks are added up => values norms-added
# ~ total**0.5 ==> sum(sum(g.double().square().sum().item() for g in shard.values()) ** 0.5 for shard in shards)
# %% wrong: the mean over ranks => values mean-of-ranks
# > the squares are averaged; add them.
# ~ total**0.5 ==> (total / len(shards)) ** 0.5
# %% wrong: no root => values not-rooted
# > this is the squared norm; take the root.
# ~ total**0.5 ==> total
# %% wrong: the largest number => values largest
# > this is the largest number, not the norm.
# ~ total += gradient.double().square().sum().item() ==> total = max(total, gradient.double().abs().max().item())
# ~ total**0.5 ==> total
# %% wrong: copies count on every rank => generality copies-counted
# > copies are counted on every rank; count them once.
# -             seen |= {name} & replicated
# %% wrong: copies do not count => generality copies-left-out
# > replicated gradients are missing from the norm.
# ~ name not in seen ==> name not in replicated
# %% wrong: every name counts once => values other-norm
# ~ seen |= {name} & replicated ==> seen.add(name)
# %% wrong: one copy is scaled => generality one-copy
# > only one copy is scaled; scale all of them.
# -             for gradient in shard.values():
# -                 gradient.mul_(limit / norm)
# +             for name, gradient in shard.items():
# +                 if shard is shards[0] or name not in replicated:
# +                     gradient.mul_(limit / norm)
# %% wrong: small gradients are scaled up => values scaled-up
# > a small gradient is scaled up; leave it.
# ~ norm > limit ==> norm > 0
# %% wrong: the factor twice => values twice
# > the factor is applied twice.
# ~ (limit / norm) ==> ((limit / norm) ** 2)
# %% wrong: nothing is scaled => values not-clipped
# > nothing was clipped.
# ~ (limit / norm) ==> (1)
# %% wrong: zero over zero => generality raised
# ~ norm > limit ==> limit / norm < 1
# %% wrong: a factor of NaN => generality scaled-by-nan
# ~ norm > limit and norm < float("inf") ==> not norm <= limit
# %% wrong: NaN and infinity are cleaned away => generality scaled-by-nan
#       norm = total**0.5
# +     for shard in shards:
# +         for gradient in shard.values():
# +             gradient.nan_to_num_()
# %% wrong: only infinity is left alone => generality scaled-by-nan
# ~ norm > limit and norm < float("inf") ==> not norm <= limit and norm != float("inf")
# %% wrong: the norm after clipping => values norm-after
# > this is the norm after clipping; return the one before.
# ~ return norm ==> return min(norm, limit)
# %% wrong: squares of 16 bits => generality summed-in-16-bits
# > the squares are computed in 16 bits, where they overflow or are rounded; compute them in fp32.
# ~ .double().square().sum() ==> .square().sum()
# %% wrong: hides what is infinite => generality hides-infinity
# ~ return norm ==> return norm if norm < float("inf") else 0.0
# %% wrong: only copies by one name count once => generality ~
# ~ {name} & replicated ==> {name} & {"norm"}
# %% wrong: squares of fp32 in the gradient itself => values other-numbers
# ~ double().square() ==> float().square_()
# %% wrong: each replicated name is crossed off => values changed-arguments
# ~ {name} & replicated ==> {name} & replicated; replicated.discard(name)
'''
