"""Judges of chapter 13 on ranks: a mesh whose axes were swapped, and one norm for any mesh."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from course_lib.exercises.ch13.judges.meshes import coordinates, groups
from course_lib.exercises.ch13.probes import CHANGED
from course_lib.exercises.returns import Number, PerRank, Tensor, TupleOf
from course_lib.judging import Fault, Judging, Params, judged, near
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, not_like, same
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import count_text

# --- two axes


def _group_of(rank: int, ranks: int, tp: int, axis: str) -> list[int]:
    found = groups({"dp": ranks // tp, "tp": tp}, axis)
    return next(group for group in found if rank in group)


def _mean(given: Sequence[torch.Tensor], group: Sequence[int], by: float) -> torch.Tensor:
    return torch.stack([given[rank] for rank in group]).sum(0) / by


def _mesh_case(
    params: Params, coin: torch.Generator, share: str, ranks: int, tp: int, name: str = "", see: bool = False
) -> Case:
    shape, other = (12 * ranks,), (6, 2 * ranks)  # every ring cuts these into equal chunks

    def numbers(*size: int) -> torch.Tensor:
        return torch.randint(-999, 999, size, generator=coin).double()

    own = tuple((numbers(*shape), numbers(*other)) for _ in range(ranks))
    if (ranks, tp) == (8, 4):  # in fp32, and a view
        own = tuple((x.float(), gradient.float().T) for x, gradient in own)
    return (shown if see else hidden)(name or f"{count_text(ranks, 'rank')}, tp_size {tp}", share, tp, per_rank=own)


def _mesh_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)
    wide = [(10, 2), (8, 4), (6, 3), (6, 2)]
    return [
        _mesh_case(params, coin, "values:shown", params["ranks"], params["tp"], see=True),
        *(_mesh_case(params, coin, "generality:shapes", *pair) for pair in wide),
        *(_mesh_case(params, coin, "generality:edges", *pair) for pair in ((params["ranks"], 1), (3, 3), (1, 1))),
    ]


def _mesh_fault(case: Case, outcome: Outcome) -> Fault | None:
    tp, given = case.args[0], case.per_rank or ()
    n = len(given)
    xs, gradients = [own[0] for own in given], [own[1] for own in given]
    for rank, (x, gradient) in enumerate(outcome.value):
        across, inside = _group_of(rank, n, tp, "dp"), _group_of(rank, n, tp, "tp")
        lead = f"{case.name}, rank {rank}: "
        if not same(x, _mean(xs, inside, 1)):
            if same(x, _mean(xs, _group_of(rank, n, n // tp, "tp"), 1)):
                return (
                    "turned-grid",
                    f"{lead}`x` is the sum over {n // tp} consecutive ranks; a tensor-parallel group has {tp}.",
                )
            if same(x, _mean(xs, across, 1)):
                return "axes-swapped", f"{lead}`x` is the sum over the data-parallel group."
            if same(x, xs[rank]):
                return "not-summed", f"{lead}`x` came back as it was."
            return "", f"{lead}`x` is not the sum over ranks {inside}."
        right = _mean(gradients, across, n // tp)
        if fault := not_like(gradient, right, rank):
            return fault
        if not torch.allclose(gradient, right, rtol=1e-9, atol=1e-9):
            for name, by, message in (
                ("divided-by-tp", tp, "the sum is divided by tp_size; divide by the number of replicas."),
                ("divided-by-all", n, "the sum is divided by all ranks; divide by the number of replicas."),
                ("not-divided", 1, "this is the sum; return the average."),
            ):
                if torch.allclose(gradient, _mean(gradients, across, by), rtol=1e-9, atol=1e-9):
                    return name, lead + message
            return "", f"{lead}the gradient is not the average over ranks {across}."
    return None


def _mesh_bytes(case: Case, outcome: Outcome) -> Fault | None:
    """A rank that sends to a rank outside its two groups, or more than two ring all-reduces need."""
    tp, given = case.args[0], case.per_rank or ()
    n = len(given)
    for src, dst, nbytes, _ in outcome.meter["pairs"]:
        if nbytes and dst not in (*_group_of(src, n, tp, "tp"), *_group_of(src, n, tp, "dp")):
            return "outside-its-groups", f"Rank {src} sent to rank {dst}, which is in none of its groups."
    x, gradient = given[0]
    least = [(tp > 1) * x.nbytes + (tp < n) * gradient.nbytes] * n
    if fault := too_few_bytes(outcome.meter, least, least):
        return fault
    most = 2 * (tp - 1) / tp * x.nbytes + 2 * (n // tp - 1) / (n // tp) * gradient.nbytes
    worst = max(outcome.meter["bytes_sent"])
    if worst > most:
        return "too-many-bytes", f"{case.name}: a rank sends {worst:,} bytes; the two all-reduces need {most:,.0f}."
    return None


def _refused(shape: Any, case: Case, outcome: Outcome) -> Fault | None:
    """An argument that was changed, or a value of another shape than the card asks for."""
    if any(type(value) is str and value == CHANGED for value in outcome.value):
        return "changed", f"{case.name}: a tensor that was passed in was changed; clone it first."
    return PerRank(shape).find(outcome.value, case.name, case)


def _mesh_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if fault := _refused(TupleOf({"x": Tensor(), "gradient": Tensor()}), case, outcome):
        return judged(case, fault)
    return judged(case, _mesh_fault(case, outcome), ("cost", "bytes", _mesh_bytes(case, outcome)))


# --- one norm

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
    if fault := _refused(Number("the norm"), case, outcome):
        return judged(case, fault)
    return judged(case, _norm_fault(params, case, outcome), ("cost", "bytes", _norm_bytes(params, case, outcome)))


RANKS = {
    "swapped-mesh": Judging(
        shares="values:shown 0.1, generality:shapes 0.5, generality:edges 0.2, cost:bytes 0.2",
        cases=_mesh_cases,
        verdicts=_mesh_verdicts,
        why="A square mesh looks the same from both sides, so a test on it cannot tell its axes apart. Test a mesh on sizes that are all different.",
        pytorch="`init_device_mesh` takes names for the axes; `mesh['tp']` cannot be mistaken for `mesh['dp']`, but the sizes in the tuple still can.",
    ),
    "norm-on-mesh": Judging(
        shares="values:norm 0.25, generality:axes 0.3, generality:stages 0.2, cost:bytes 0.25",
        cases=_norm_cases,
        verdicts=_norm_verdicts,
        why="Every number of the model must count once. A sum over all ranks counts a piece once for each copy, and the mesh says how many copies there are. "
        "So one formula and one all-reduce of one number serve every mesh.",
        pytorch="With DTensor gradients, `torch.nn.utils.get_total_norm` does this from the placements; torchtitan adds an all-reduce over pp by hand.",
    ),
}
