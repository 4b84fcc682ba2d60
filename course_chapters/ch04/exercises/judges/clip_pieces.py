"""Judge of clip-pieces: one norm for all pieces."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_grader.exercises.values import describe, is_number, near
from course_grader.judging import Fault, Judging, Mistake, Params, first, verdict
from course_grader.judging.cases import hidden, ranks_text, shown
from course_grader.judging.tensors import all_close, coin_of, largest, normal, squares, tensor_fault
from course_grader.records import Case, Outcome, Verdict

Shards = Sequence[dict[str, Tensor]]
# PyTorch adds 1e-6 to the norm.
LOOSE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 1e-2}


def norm_of(shards: Shards, copies: Sequence[str], count: int = 1) -> float:
    """The norm of the whole gradient; `count`: how often a replicated tensor counts (0: not at all; -1: on every rank)."""
    pieces = squares(g for shard in shards for name, g in shard.items() if name not in copies)
    held = {name: [shard[name] for shard in shards if name in shard] for name in copies}
    each = squares(g for name in copies for g in (held[name] if count < 0 else held[name][:1] * count))
    return math.sqrt(pieces + each)


def scaled(shards: Shards, factor: Any) -> list[Tensor]:
    """All gradients times a factor, which may be a function of the rank and the tensor."""
    by = factor if callable(factor) else lambda rank, tensor: factor
    return [(g.double() * by(rank, g)).to(g.dtype) for rank, shard in enumerate(shards) for g in shard.values()]


def _factor(norm: float, limit: float) -> float:
    return min(1.0, limit / norm) if norm and math.isfinite(norm) else 1.0


def _norms(shards: Shards, copies: Sequence[str]) -> tuple[Mistake, ...]:
    """Norms that are wrong, each used for all gradients."""
    tensors = [g for shard in shards for g in shard.values()]
    whole = norm_of(shards, copies)
    rounded = math.inf if any(g.dtype == torch.float16 for g in tensors) else math.nan
    ranks = [math.sqrt(squares(shard.values())) for shard in shards]
    return (
        Mistake("copies-counted", norm_of(shards, copies, -1), "copies are counted on every rank; count them once."),
        Mistake("copies-left-out", norm_of(shards, copies, 0), "replicated gradients are missing from the norm."),
        Mistake("norms-added", sum(math.sqrt(squares([g])) for g in tensors), "norms are added up; add squares."),
        Mistake("norms-added", sum(ranks), "norms are added up; add squares."),
        Mistake("not-rooted", whole**2, "this is the squared norm; take the root."),
        Mistake("largest", largest(tensors), "this is the largest number, not the norm."),
        Mistake(
            "mean-of-ranks",
            math.sqrt(sum(r * r for r in ranks) / max(len(ranks), 1)),
            "the squares are averaged; add them.",
        ),
        Mistake("summed-in-16-bits", rounded, "the squares overflow in 16 bits; compute them in fp32."),
    )


def _gradient_mistakes(shards: Shards, limit: float, copies: Sequence[str]) -> list[Mistake]:
    whole, tensors = norm_of(shards, copies), [g for shard in shards for g in shard.values()]
    wrong = [(each, _factor(each.value, limit)) for each in _norms(shards, copies) if not math.isnan(each.value)]
    ranks = [math.sqrt(squares(shard.values())) for shard in shards]

    def own_tensor(rank: int, tensor: Tensor) -> float:
        return _factor(math.sqrt(squares([tensor])), limit)

    return [
        Mistake(
            "per-rank", scaled(shards, lambda rank, tensor: _factor(ranks[rank], limit)), "each rank uses its own norm."
        ),
        Mistake("per-tensor", scaled(shards, own_tensor), "every tensor is clipped by its own norm."),
        Mistake(
            "scaled-up", scaled(shards, limit / whole if whole else 1.0), "a small gradient is scaled up; leave it."
        ),
        Mistake("by-value", [g.clamp(-limit, limit) for g in tensors], "each number is cut off at the limit."),
        Mistake(
            "one-copy", _once(shards, _factor(whole, limit), copies), "only one copy is scaled; scale all of them."
        ),
        Mistake("twice", scaled(shards, _factor(whole, limit) ** 2), "the factor is applied twice."),
        *(Mistake(each.name, scaled(shards, factor), each.message) for each, factor in wrong),
        Mistake("not-clipped", scaled(shards, 1.0), "nothing was clipped."),
    ]


def _once(shards: Shards, factor: float, copies: Sequence[str]) -> list[Tensor]:
    seen: set[str] = set()
    found = []
    for shard in shards:
        for name, g in shard.items():
            found.append(g if name in seen else (g.double() * factor).to(g.dtype))
            seen |= {name} & set(copies)
    return found


def cut(pieces: Sequence[Tensor], ranks: int, rng: random.Random) -> list[dict[str, Tensor]]:
    """Rows of numbers cut into shards at random places; shards may be empty."""
    shards: list[dict[str, Tensor]] = [{} for _ in range(ranks)]
    for number, piece in enumerate(pieces):
        ends = sorted(rng.randrange(len(piece) + 1) for _ in range(ranks - 1))
        for shard, start, end in zip(shards, [0, *ends], [*ends, len(piece)], strict=True):
            if end > start:
                shard[f"w{number}"] = piece[start:end].clone()
    return shards


def _with_copies(shards: Shards, tensor: Tensor) -> list[dict[str, Tensor]]:
    return [{"norm": tensor.clone(), **shard} for shard in shards]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["elements"]

    def pieces(size: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        return [
            (normal(coin, n // 2, dtype=torch.float64) * size).to(dtype),
            (normal(coin, n - n // 2, dtype=torch.float64) * size).to(dtype),
        ]

    given = pieces()
    shards = cut(given, params["ranks"], rng)
    broken = [cut(pieces(), 3, rng) for _ in range(3)]
    for each, odd in zip(broken, (math.inf, -math.inf, math.nan), strict=True):
        next(iter(next(filter(None, each)).values()))[0] = odd
    exact = [{"w": torch.tensor([3.0, 0.0], dtype=torch.float64)}, {"w": torch.tensor([4.0], dtype=torch.float64)}]
    some = _with_copies(cut(pieces(), 3, rng), normal(coin, 9, dtype=torch.float64))
    table = normal(coin, 3, 4, dtype=torch.float64).T
    some = [{"b": table.clone(), **shard} for shard in some]
    return [
        shown("the shown shards", "values:gradients", shards, 2.0, ()),
        hidden("a norm below the limit", "values:gradients", cut(pieces(0.01), 3, rng), 1.0, ()),
        hidden("gradients in fp32", "values:gradients", cut(pieces(1.0, torch.float32), 2, rng), 1.0, ()),
        *(
            hidden(f"the same gradient on {ranks_text(k)}", "generality:splits", cut(given, k, rng), 2.5, ())
            for k in (1, 2, 11)
        ),
        hidden("copies on three ranks", "generality:copies", some, 1.5, ("norm", "b")),
        hidden(
            "copies and nothing else",
            "generality:copies",
            _with_copies([{}, {}], normal(coin, 5, dtype=torch.float64)),
            0.5,
            ("norm",),
        ),
        hidden("gradients of zero", "generality:edges", [{"w": torch.zeros(3, dtype=torch.float64)}, {}], 1.0, ()),
        hidden("a norm equal to the limit", "generality:edges", exact, 5.0, ()),
        hidden("a norm just above the limit", "generality:edges", exact, 4.9995, ()),
        *(hidden("infinity or NaN in one shard", "generality:edges", each, 1.0, ()) for each in broken),
        hidden("bfloat16", "generality:edges", cut(pieces(1.0, torch.bfloat16), 2, rng), 1.0, ()),
        hidden("squares beyond float16", "generality:edges", cut(pieces(300.0, torch.float16), 2, rng), 1.0, ()),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    shards, limit, copies = case.args
    norm, gradients = outcome.value["norm"], outcome.value["gradients"]
    whole = norm_of(shards, copies)
    fault = _gradient_fault(case, shards, limit, copies, gradients)
    told = _norm_fault(case, shards, limit, copies, norm, whole)
    if case.kind == "values":
        return [verdict("values", "gradients", case, fault), verdict("values", "norm", case, told)]
    return [verdict(case.kind, case.part, case, first(fault, told))]


def _gradient_fault(case: Case, shards: Shards, limit: float, copies: Sequence[str], got: Any) -> Fault | None:
    whole = norm_of(shards, copies)
    want = scaled(shards, _factor(whole, limit) if math.isfinite(whole) else 1.0)
    if len(got) != len(want):
        return "wrong-shape", f"{case.name}: a gradient is missing from its dictionary."
    if not math.isfinite(whole):
        same = all(
            torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
            if a.shape == b.shape and a.dtype == b.dtype
            else False
            for a, b in zip(got, want, strict=True)
        )
        return (
            None
            if same
            else ("scaled-by-nan", f"{case.name}: gradients changed although the norm is not finite; leave them.")
        )
    rel = LOOSE[want[0].dtype]
    if all_close(got, want, rel):
        return None
    for mistake in _gradient_mistakes(shards, limit, copies):
        if all_close(got, mistake.value, rel) and not all_close(mistake.value, want, rel):
            return mistake.name, f"{case.name}: {mistake.message}"
    names = [(rank, name) for rank, shard in enumerate(shards) for name in shard]
    pairs = zip(names, got, want, strict=True)
    faults = (
        tensor_fault(f"{case.name}, rank {rank}, {name!r}", one, two, rel=rel) for (rank, name), one, two in pairs
    )
    return next(fault for fault in faults if fault)


def _norm_fault(
    case: Case, shards: Shards, limit: float, copies: Sequence[str], got: Any, whole: float
) -> Fault | None:
    if not math.isfinite(whole):
        told = type(got) is float and not math.isfinite(got)
        return (
            None if told else ("hides-infinity", f"{case.name}: got {describe(got)}; return the norm, infinite or NaN.")
        )
    if not is_number(got):
        return "not-a-number", f"{case.name}: return the norm before clipping; got {describe(got)}."
    rel = 1e-3 if any(g.dtype == torch.float16 for shard in shards for g in shard.values()) else 1e-5
    if near(got, whole, rel):
        return None
    known = (
        *_norms(shards, copies),
        Mistake("norm-after", min(whole, limit), "this is the norm after clipping; return the one before."),
    )
    for mistake in known:
        if near(got, mistake.value, rel):
            return mistake.name, f"{case.name}, the norm: {mistake.message}"
    return (
        "other-norm",
        f"{case.name}: the norm is {got / whole if whole else got:.4g} {'times the right one' if whole else 'where 0 is right'}.",
    )


JUDGING = Judging(
    shares="values:gradients 0.4, values:norm 0.1, generality:splits 0.2, generality:copies 0.15, generality:edges 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="The square of a norm is a sum over elements, so it can be summed over pieces in any order; the norm itself cannot. One factor for "
    "all pieces keeps the direction of the gradient. On real ranks the sum of squares is one all-reduce of a single number. Replicated "
    "tensors, such as norms under tensor parallelism, must enter this sum once: counted on every rank, they make the norm grow with "
    "the number of ranks, and the same run clips harder on more GPUs.",
    pytorch="`torch.nn.utils.clip_grad_norm_` on DTensors all-reduces the squares; with `error_if_nonfinite=False` (the default) it multiplies "
    "every gradient by NaN where the norm is NaN. Double counting: NVIDIA-NeMo/RL pull request 3788.",
)

ANSWERS = r"""import math

import torch


# %% right: a sum of squares
def clip(shards, limit, replicated):
    total, seen = 0.0, set()
    for shard in shards:
        for name, gradient in shard.items():
            if name in seen:
                continue
            seen |= {name} & replicated
            total += gradient.double().square().sum().item()
    norm = math.sqrt(total)
    if limit < norm < math.inf:
        for shard in shards:
            for gradient in shard.values():
                gradient.mul_(limit / norm)
    return norm


# %% right: one rank's share at a time, with tensors
def share_of(shard, rank, replicated):
    own = [g for name, g in shard.items() if name not in replicated or rank == 0]
    return sum((g.float().norm() ** 2 for g in own), torch.zeros(()))


def clip(shards, limit, replicated):
    norm = torch.stack([share_of(shard, rank, replicated) for rank, shard in enumerate(shards)]).sum().sqrt()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for shard in shards:
        for name in list(shard):
            if torch.isfinite(norm):
                shard[name] = (shard[name] * factor).to(shard[name].dtype)
    return norm


# %% wrong: every rank clips its own shard => values per-rank  from: a sum of squares
#   def clip(shards, limit, replicated):
# +     return math.hypot(*(clip_all([shard], limit, replicated) for shard in shards))
# + def clip_all(shards, limit, replicated):

# %% wrong: every tensor by itself => values per-tensor  from: a sum of squares
# ~ if name in seen: ==> if False:
# -             total += gradient.double().square().sum().item()
# +             norm = gradient.norm().item()
# +             total += norm**2
# +             gradient.mul_(min(1.0, limit / norm) if norm else 1.0)
# ~ limit < norm ==> math.inf < norm

# %% wrong: norms are added up => values norms-added  from: a sum of squares
# ~ square().sum ==> norm
# ~ math.sqrt(total) ==> total

# %% wrong: no root => values not-rooted  from: a sum of squares
# ~ math.sqrt(total) ==> total

# %% wrong: copies count on every rank => generality copies-counted  from: a sum of squares
# -             seen |= {name} & replicated

# %% wrong: every name counts once => values -  from: a sum of squares
# ~ seen |= {name} & replicated ==> seen.add(name)

# %% wrong: copies do not count => generality copies-left-out  from: a sum of squares
# ~ if name in seen: ==> if name in replicated:

# %% wrong: one copy is scaled => generality one-copy  from: a sum of squares
# -             for gradient in shard.values():
# -                 gradient.mul_(limit / norm)
# +             for name, gradient in shard.items():
# +                 if shard is shards[0] or name not in replicated:
# +                     gradient.mul_(limit / norm)

# %% wrong: small gradients are scaled up => values scaled-up  from: a sum of squares
# ~ limit < norm ==> 0 < norm

# %% wrong: zero over zero => generality raised  from: a sum of squares
# ~ limit < norm ==> 1 < norm / norm * norm / limit

# %% wrong: a factor of NaN => generality scaled-by-nan  from: one rank's share at a time, with tensors
# -             if torch.isfinite(norm):
# -                 shard[name] = (shard[name] * factor).to(shard[name].dtype)
# +             shard[name] = (shard[name] * factor).to(shard[name].dtype)

# %% wrong: the norm after clipping => values norm-after  from: a sum of squares
# ~ return norm ==> return min(norm, limit)

# %% wrong: squares of 16 bits => generality summed-in-16-bits  from: a sum of squares
# ~ .double().square().sum().item() ==> .square().sum()

# %% wrong: hides what is infinite => generality hides-infinity  from: a sum of squares
# ~ return norm ==> return norm if math.isfinite(norm) else 0.0


# %% wrong: left as it is => not-answered  from: a sum of squares
# ~ total, seen = 0.0, set() ==> raise NotImplementedError

# %% wrong: only copies by one name count once => generality ~  from: a sum of squares
# ~ {name} & replicated ==> {name} & {"norm"}

# %% wrong: squares of fp32 in the gradient itself => values other-numbers  from: a sum of squares
# ~ double().square() ==> float().square_()

# %% wrong: each replicated name is crossed off => values changed-arguments  from: a sum of squares
# ~ {name} & replicated ==> {name} & replicated; replicated.discard(name)
"""
