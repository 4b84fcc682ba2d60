import math
from collections.abc import Mapping, Sequence

import torch

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, near, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import bytes_fault

Spec = tuple[tuple[int, ...], tuple[str, ...]]  # shape of a whole gradient, axes over which it is sharded
right, coordinates = Worked("norm-on-mesh"), Worked("mesh-coordinates")[0]


def _pieces(
    rng: Random, coin: torch.Generator, sizes: Mapping[str, int], specs: Sequence[Spec], dtype: torch.dtype
) -> list[list[object]]:
    """Each rank's list of (piece, axes): a gradient is cut along its first dimension, the last pieces shorter or
    empty."""
    ranks = math.prod(sizes.values())
    held: list[list[object]] = [[] for _ in range(ranks)]
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


def _norm_cases(params: Params, rng: Random) -> list[Case]:
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
        if stages:  # a further gradient, of which the first pipeline stage alone holds anything
            extra = torch.randn(40, generator=coin, dtype=torch.float64)
            for rank, parts in enumerate(held):
                parts += [(extra.clone(), ("pp",))] * (coordinates(rank, sizes)["pp"] == 0)
        return (shown if see else hidden)(name, share, dict(sizes), per_rank=tuple((parts,) for parts in held))

    first = [(torch.ones(70).double() * 3, ("pp",)), (torch.tensor(9.0), ("pp",))]
    same = torch.randn(40, generator=coin, dtype=torch.float64)  # pieces that happen to be equal, or copies of one
    equal = (([(same, ("dp",))],),) * 2
    mixed = [((24, 9), ("tp",)), ((50,), ()), ((30, 7), ("dp",)), ((23, 4), ("dp", "tp"))]
    many = [((9, 2, 3), ("ep",)), ((40,), ()), ((6, 5), ("ep",))] * 3
    staged, empty = [((60, 3), ("x", "pp"))], [((2, 40), ("b",)), ((300,), ("a",))]
    cube = [((24, 5), ("tp", "pp")), ((40,), ("pp",)), ((9, 9), ("cp", "pp")), ((60,), ())]
    return [
        case("tp 2, some gradients replicated", "values:norm", {"tp": 2}, [((80, 4), ("tp",)), ((90,), ())], see=True),
        hidden("dp 2, equal pieces", "generality:axes", {"dp": 2, "tp": 1}, per_rank=equal),
        hidden("tp 2, copies", "generality:axes", {"dp": 1, "tp": 2}, per_rank=equal),
        case("dp 2, tp 2", "values:norm", {"dp": 2, "tp": 2}, mixed),
        case("all gradients sharded", "values:norm", {"dp": 3}, [((90, 2), ("dp",)), ((60,), ("dp",))]),
        case("pp 2, ep 1, cp 2, tp 2", "generality:axes", {"pp": 2, "ep": 1, "cp": 2, "tp": 2}, cube),
        case("stages with other parts", "generality:stages", {"cp": 1, "pp": 3, "x": 2}, staged, stages=True),
        case("empty pieces, bf16", "generality:axes", {"b": 3, "a": 2}, empty, torch.bfloat16),
        hidden("a stage without parts", "generality:stages", {"pp": 2}, per_rank=((first,), ([],))),
        case("ep 3, many parts in fp32", "generality:axes", {"ep": 3}, many, torch.float32),
        case("one rank", "generality:axes", {"dp": 1, "tp": 1}, [((30,), ("tp",)), ((8,), ())]),
    ]


def _norm_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for rank, (got, want) in enumerate(zip(outcome.value, right.value(case), strict=True)):
        lead = f"rank {rank}: "
        if near(got, want, 1e-10):  # sums in fp32 may agree to eight digits
            continue
        if near(got, want, 1e-2):
            return Wrong("rounded", f"{lead}close, but not right to ten digits. Add up in float64.", lead)
        return Wrong("", f"{lead}got {got:.6g}, {got / want:.4g} times the right norm.", lead)
    return None


def _norm_bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    n = case.ranks or 1
    return bytes_fault(outcome.meter, [params["most"]] * n, "a few numbers take at most", [4 * (n > 1)] * n)


JUDGING = Judging(
    shares="values:norm 0.25, generality:axes 0.3, generality:stages 0.2, cost:bytes 0.25",
    cases=_norm_cases,
    verdicts=oracle(_norm_fault, {"cost:bytes": _norm_bytes}, named=True),
    why="Every number of the model must count once. A sum over all ranks counts a piece once for each copy, and the "
    "mesh says how many copies there are. So one formula and one all-reduce of one number serve every mesh.",
    pytorch="With DTensor gradients, `torch.nn.utils.get_total_norm` does this from the placements; torchtitan adds "
    "an all-reduce over pp by hand.",
)

ANSWERS = r'''# %% right: worked
power = params("norm-on-mesh").power  # leave as is


def mesh_norm(comm, sizes, parts):
    """The norm of all gradients of the model, from this rank's pieces (tensor, axes over which it is sharded)."""
    total = torch.zeros(1, dtype=torch.float64)
    for tensor, axes in parts:
        copies = math.prod(size for axis, size in sizes.items() if axis not in axes)
        total += tensor.double().abs().pow(power).sum() / copies
    comm.all_reduce(total)
    return total.item() ** (1 / power)
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
# %% wrong: copies counted => values
# > replicated pieces are counted once for each copy here; count them once.
# ~ .sum() / copies ==> .sum()
# %% wrong: all divided => values
# > every piece is divided by the number of ranks, but not every piece has that many copies.
# ~ .sum() / copies ==> .sum() / comm.size
# %% wrong: whole copies => values
# > a gradient that is sharded over some axes is taken to have no copies; it has them along all other axes.
# ~ math.prod(size for axis, size in sizes.items() if axis not in axes) ==> 1 if axes else comm.size
# %% wrong: own pieces => values
# > this is the norm of the rank's own pieces.
# ~ comm.all_reduce(total) ==> pass
# %% wrong: no root => values
# > this is the sum; take the root.
# ~ total.item() ** (1 / power) ==> total.item()
# %% wrong: own dtype => generality
# > the powers are added up in the pieces' own dtype, not in float64.
# ~ tensor.double().abs() ==> tensor.abs()
# %% wrong: added up in fp32 => values rounded
# ~ double ==> float
# %% wrong: an all-reduce for each part => generality
# > each part has an all-reduce of its own, and ranks that hold fewer parts do not join all of them.
# -         total += tensor.double().abs().pow(power).sum() / copies
# -     comm.all_reduce(total)
# +         own = tensor.double().abs().pow(power).sum().reshape(1) / copies
# +         comm.all_reduce(own)
# +         total += own
# %% wrong: stays away => generality
# > a rank without parts does not join the all-reduce, and the others wait for it.
#       total = torch.zeros(1, dtype=torch.float64)
# +     if not parts:
# +         return 0.0
# %% wrong: whole gradients are gathered => cost too-many-bytes
#           total += tensor.double().abs().pow(power).sum() / copies
# +     flat = torch.zeros(500, dtype=torch.float64)
# +     comm.all_reduce(flat)
# %% wrong: usual axes => generality
# > copies are counted along dp, cp, pp and tp alone; a mesh may have other axes.
# ~ size for axis, size in sizes.items() ==> sizes.get(axis, 1) for axis in ("dp", "cp", "pp", "tp")
# %% wrong: scaled in place => values changed
# ~ double().abs().pow(power).sum() / copies ==> mul_(copies ** (-1 / power)).double().abs().pow(power).sum()
# %% wrong: five parts at most => generality ~
# ~ in parts: ==> in parts[:5]:
'''
