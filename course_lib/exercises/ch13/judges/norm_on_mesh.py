"""Judge of norm-on-mesh: one norm for any mesh."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from course_lib.exercises.ch13.judges.shared import coordinates, refused
from course_lib.exercises.returns import Number
from course_lib.judging import Fault, Judging, Params, judged, near
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict

Spec = tuple[tuple[int, ...], tuple[str, ...]]  # shape of a whole gradient, axes over which it is sharded


def _pieces(
    rng: random.Random, coin: torch.Generator, sizes: Mapping[str, int], specs: Sequence[Spec], dtype: torch.dtype
) -> list[Any]:
    """Each rank's list of (piece, axes): a gradient is cut along its first dimension, the last pieces shorter or empty."""
    ranks = math.prod(sizes.values())
    held: list[Any] = [[] for _ in range(ranks)]
    for shape, axes in specs:
        whole = (torch.randn(shape, generator=coin, dtype=torch.float64) * rng.choice((0.1, 1, 30))).to(dtype)
        cuts = math.prod(sizes[axis] for axis in axes)
        chunk = -(-shape[0] // cuts)
        for rank in range(ranks):
            at, index = coordinates(rank, sizes), 0
            for axis in axes:
                index = index * sizes[axis] + at[axis]
            held[rank].append((whole[index * chunk : (index + 1) * chunk].clone(), axes))
    return held


def _on_stages(held: list[Any], sizes: Mapping[str, int], coin: torch.Generator) -> list[Any]:
    """A further gradient on the first pipeline stage alone: the other stages hold nothing of it."""
    extra = torch.randn(40, generator=coin, dtype=torch.float64)
    for rank, parts in enumerate(held):
        if coordinates(rank, sizes)["pp"] == 0:
            parts.append((extra.clone(), ("pp",)))
    return held


def norm(held: Sequence[Any], sizes: Mapping[str, int], power: float, copies: bool = True) -> float:
    """The norm of all gradients from every rank's pieces; without `copies`, replicated pieces count on each rank."""
    total = 0.0
    for parts in held:
        for piece, axes in parts:
            times = math.prod(size for axis, size in sizes.items() if axis not in axes) if copies else 1
            total += piece.double().abs().pow(power).sum().item() / times
    return total ** (1 / power)


def _norm_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def case(
        name: str,
        share: str,
        sizes: Mapping[str, int],
        specs: Sequence[Spec],
        dtype: torch.dtype = torch.float64,
        stages: bool = False,
        see: bool = False,
    ) -> Case:
        held = _pieces(rng, coin, sizes, specs, dtype)
        if stages:
            held = _on_stages(held, sizes, coin)
        return (shown if see else hidden)(name, share, dict(sizes), per_rank=tuple((parts,) for parts in held))

    mixed = [((24, 9), ("tp",)), ((50,), ()), ((30, 7), ("dp",)), ((23, 4), ("dp", "tp"))]
    many = [((9, 2, 3), ("ep",)), ((40,), ()), ((6, 5), ("ep",))] * 3
    staged, empty = [((60, 3), ("x", "pp"))], [((2, 40), ("b",)), ((300,), ("a",))]
    cube = [((24, 5), ("tp", "pp")), ((40,), ("pp",)), ((9, 9), ("cp", "pp")), ((60,), ())]
    return [
        case("tp 2, some gradients replicated", "values:norm", {"tp": 2}, [((80, 4), ("tp",)), ((90,), ())], see=True),
        case("dp 2, tp 2", "values:norm", {"dp": 2, "tp": 2}, mixed),
        case("all gradients sharded", "values:norm", {"dp": 3}, [((90, 2), ("dp",)), ((60,), ("dp",))]),
        case("pp 2, cp 2, tp 2", "generality:axes", {"pp": 2, "cp": 2, "tp": 2}, cube),
        case("stages with other parts", "generality:stages", {"cp": 1, "pp": 3, "x": 2}, staged, stages=True),
        case("empty pieces, bf16", "generality:axes", {"b": 3, "a": 2}, empty, torch.bfloat16),
        hidden(
            "a stage without parts",
            "generality:stages",
            {"pp": 2},
            per_rank=(([(torch.ones(70).double() * 3, ("pp",)), (torch.tensor(9.0), ("pp",))],), ([],)),
        ),
        case("ep 3, many parts in fp32", "generality:axes", {"ep": 3}, many, torch.float32),
        case("one rank", "generality:axes", {"dp": 1, "tp": 1}, [((30,), ("tp",)), ((8,), ())]),
    ]


def _norm_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    sizes, held, p = case.args[0], [own[0] for own in case.per_rank or ()], params["power"]
    want = norm(held, sizes, p)
    for rank, got in enumerate(outcome.value):
        if near(got, want, 1e-10):  # sums in fp32 may agree to eight digits
            continue
        lead = f"{case.name}, rank {rank}: "
        known = {
            "copies-counted": (norm(held, sizes, p, copies=False), "replicated pieces count once for each copy."),
            "own-pieces": (norm([held[rank]], sizes, p, copies=False), "this is the norm of the rank's own pieces."),
            "all-divided": (
                norm(held, sizes, p, copies=False) / len(held) ** (1 / p),
                "every piece is divided by the number of ranks, but not every piece has that many copies.",
            ),
            "no-root": (want**p, "this is the sum; take the root."),
        }
        if p != 2:
            known["euclidean"] = (norm(held, sizes, 2), f"this is the 2-norm; asked is the {p}-norm.")
        for name, (value, message) in known.items():
            if near(got, value, 1e-7):
                return name, lead + message
        if near(got, want, 1e-2):
            return "rounded", f"{lead}close, but not right to ten digits. Add up in float64."
        return "", f"{lead}got {got:.6g}, {got / want:.4g} times the right norm."
    return None


def _norm_bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    worst, n = max(outcome.meter["bytes_sent"]), case.ranks or 1
    if worst <= params["most"]:
        return too_few_bytes(outcome.meter, [4 * (n > 1)] * n, [4 * (n > 1)] * n)
    return (
        "too-many-bytes",
        f"{case.name}: a rank sends {worst:,} bytes; {params['most']} are enough for a few numbers.",
    )


def _norm_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if fault := refused(Number("the norm"), case, outcome):
        return judged(case, fault)
    return judged(case, _norm_fault(params, case, outcome), ("cost", "bytes", _norm_bytes(params, case, outcome)))


JUDGING = Judging(
    shares="values:norm 0.25, generality:axes 0.3, generality:stages 0.2, cost:bytes 0.25",
    cases=_norm_cases,
    verdicts=_norm_verdicts,
    why="Every number of the model must count once. A sum over all ranks counts a piece once for each copy, and the mesh says how many copies there are. "
    "So one formula and one all-reduce of one number serve every mesh.",
    pytorch="With DTensor gradients, `torch.nn.utils.get_total_norm` does this from the placements; torchtitan adds an all-reduce over pp by hand.",
)

ANSWERS = r"""import math

import torch


# %% right: divided by the copies
def mesh_norm(comm, sizes, parts):
    total = torch.zeros(1, dtype=torch.float64)
    for tensor, axes in parts:
        copies = math.prod(size for axis, size in sizes.items() if axis not in axes)
        total += tensor.double().square().sum() / copies
    comm.all_reduce(total)
    return total.sqrt().item()


# %% right: the first copy alone counts
def mesh_norm(comm, sizes, parts):
    at, rest = {}, comm.rank
    for axis in reversed(sizes):
        rest, at[axis] = divmod(rest, sizes[axis])
    own = sum(
        float((tensor.double() ** 2).sum())
        for tensor, axes in parts
        if all(at[axis] == 0 for axis in sizes if axis not in axes)
    )
    pieces = [torch.zeros(1, dtype=torch.float64) for _ in range(comm.size)]
    comm.all_gather(pieces, torch.tensor([own], dtype=torch.float64))
    return math.sqrt(sum(piece.item() for piece in pieces))


# %% right: any variant  from: divided by the copies
# - def mesh_norm(comm, sizes, parts):
# + from course_lib import params
# + POWER = params("norm-on-mesh").power
# + def mesh_norm(comm, sizes, parts):
# ~ square() ==> abs().pow(POWER)
# ~ total.sqrt() ==> (total ** (1 / POWER))

# %% wrong: every copy counts => values copies-counted  from: divided by the copies
# ~ () / copies ==> ()

# %% wrong: divided by all ranks => values -  from: divided by the copies
# ~ () / copies ==> () / comm.size

# %% wrong: the copies of whole gradients alone => values -  from: divided by the copies
# ~ math.prod(size for axis, size in sizes.items() if axis not in axes) ==> 1 if axes else comm.size

# %% wrong: own pieces => values own-pieces  from: divided by the copies
# ~ comm.all_reduce(total) ==> pass

# %% wrong: the sum => values no-root  from: divided by the copies
# ~ sqrt().item ==> item

# %% wrong: added up in bf16 => generality -  from: divided by the copies
# ~ double().square ==> square

# %% wrong: one all-reduce for each part => generality deadlock  from: divided by the copies
# -         total += tensor.double().square().sum() / copies
# -     comm.all_reduce(total)
# +         own = tensor.double().square().sum().reshape(1) / copies
# +         comm.all_reduce(own)
# +         total += own

# %% wrong: whole gradients are gathered => cost too-many-bytes  from: divided by the copies
#           total += tensor.double().square().sum() / copies
# +     flat = torch.zeros(500, dtype=torch.float64)
# +     comm.all_reduce(flat)

# %% wrong: axes by their usual names => generality -  from: divided by the copies
# ~ size for axis, size in sizes.items() ==> sizes.get(axis, 1) for axis in ("dp", "cp", "pp", "tp")

# %% wrong: a rank without parts stops early => generality deadlock  from: divided by the copies
#       total = torch.zeros(1, dtype=torch.float64)
# +     if not parts:
# +         return 0.0

# %% wrong: scaled in place => values -  from: divided by the copies
# ~ double().square().sum() / copies ==> mul_(1 / math.sqrt(copies)).double().square().sum()

# %% wrong: added up in fp32 => values rounded  from: divided by the copies
# ~ double ==> float

# %% wrong: five parts at most => generality ~  from: any variant
# ~ in parts: ==> in parts[:5]:
"""
