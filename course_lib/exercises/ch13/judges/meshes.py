"""Judges of chapter 13's meshes: the batch on a mesh, ranks and coordinates, groups, and the levels that they cross."""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch13.cards.meshes import RUNS
from course_lib.judging import Fault, Judging, Mistake, Params, describe, is_number, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import EXACT, Column
from course_lib.records import Case, Outcome, Verdict

Sizes = Mapping[str, int]
Level = tuple[str, int]
NAMES = ("dp", "pp", "cp", "tp", "ep", "dp_replicate", "dp_shard", "x", "rows")


def strides(sizes: Sizes, fastest: str = "last") -> dict[str, int]:
    """The distance in ranks between neighbors on each axis."""
    order = list(sizes) if fastest == "first" else list(sizes)[::-1]
    steps = itertools.accumulate([1, *(sizes[axis] for axis in order[:-1])], lambda one, other: one * other)
    found = dict(zip(order, steps, strict=True)) if order else {}
    return {axis: found[axis] for axis in sizes}


def coordinates(rank: int, sizes: Sizes, fastest: str = "last") -> dict[str, int]:
    """A rank's coordinate on each axis."""
    steps = strides(sizes, fastest)
    return {axis: rank // steps[axis] % size for axis, size in sizes.items()}


def rank_of(at: Mapping[str, int], sizes: Sizes, fastest: str = "last") -> int:
    """The rank at these coordinates."""
    steps = strides(sizes, fastest)
    return sum(at[axis] * steps[axis] for axis in sizes)


def groups(sizes: Sizes, axis: str, fastest: str = "last") -> list[list[int]]:
    """All groups of an axis, each in the order of its coordinate."""
    step, size = strides(sizes, fastest)[axis], sizes[axis]
    ranks = range(math.prod(sizes.values()))
    return [[rank + step * k for k in range(size)] for rank in ranks if rank // step % size == 0]


def mesh(rng: random.Random, axes: int, most: int = 120, choices: Sequence[int] = (1, 2, 3, 4, 5, 6, 8)) -> Sizes:
    """A mesh with this many axes, of names and sizes in any order."""
    while True:
        sizes = {name: rng.choice(choices) for name in rng.sample(NAMES, axes)}
        if math.prod(sizes.values()) <= most:
            return sizes


# --- the batch


def micro_batches(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> int | None:
    """Micro-batches of a replica in a step; None where something does not divide."""
    model = tp * cp * pp
    if gpus % model or sequences % (gpus // model * micro):
        return None
    return sequences // (gpus // model * micro)


def _per(*ignored: str) -> Callable[..., float | None]:
    """Micro-batches with some axes or the micro-batch left out, rounded down where they do not divide."""

    def count(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> int | None:
        sizes = {"tp": tp, "cp": cp, "pp": pp}
        model = math.prod(size for axis, size in sizes.items() if axis not in ignored)
        data = 1 if "dp" in ignored else max(1, gpus // model)
        return sequences // (data * (1 if "micro" in ignored else micro))

    return count


def _run_words(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> str:
    return f"{gpus:,} GPUs, tp {tp}, cp {cp}, pp {pp}, {sequences} sequences in micro-batches of {micro}"


MICRO_BATCHES = Column(
    part="batches",
    unit="micro-batches",
    want=micro_batches,
    words=_run_words,
    rel=EXACT,
    none="the GPUs or the sequences do not divide; return None",
    some="everything divides here",
    mistakes=(
        Mistake(
            "cp-counted",
            _per("cp"),
            "the ranks of a cp group hold pieces of the same sequences, so cp is no part of dp.",
        ),
        Mistake("tp-counted", _per("tp"), "tp ranks see the same sequences, so tp is no part of dp."),
        Mistake("pp-counted", _per("pp"), "pipeline stages see the same sequences, so pp is no part of dp."),
        Mistake("all-gpus", _per("tp", "cp", "pp"), "only dp ranks see other sequences, not all GPUs."),
        Mistake("per-replica", _per("micro"), "these are sequences of a replica; divide by the micro-batch."),
        Mistake("no-replicas", _per("dp"), "the replicas share the sequences; divide by dp."),
        Mistake("rounded-down", _per(), "this rounds down; return None where the division leaves a remainder."),
    ),
)

TOKENS_HELD = Column(
    part="tokens",
    unit="tokens",
    want=lambda micro, length, cp: micro * length // cp if length % cp == 0 else None,
    words=lambda micro, length, cp: f"{micro} sequences of {length:,} tokens, cp {cp}",
    rel=EXACT,
    none="cp does not divide the length; return None",
    mistakes=(
        Mistake(
            "whole-sequences", lambda micro, length, cp: micro * length, "cp cuts the sequence; a rank holds a part."
        ),
        Mistake("one-sequence", lambda micro, length, cp: length // cp, "a micro-batch has several sequences."),
        Mistake(
            "cut-sequences",
            lambda micro, length, cp: micro * length // cp,
            "each sequence is cut; a length that cp does not divide gives None.",
        ),
        Mistake("more-tokens", lambda micro, length, cp: micro * length * cp, "more ranks hold fewer tokens each."),
    ),
)


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
    def shape() -> tuple[int, int, int, int]:
        return (
            rng.choice((1, 2, 3, 4, 8)),
            rng.choice((2, 3, 4, 16)),
            rng.choice((1, 2, 5, 16)),
            rng.choice((1, 2, 3, 8, 12)),
        )

    def fitting() -> tuple[int, ...]:
        tp, cp, pp, dp = shape()
        micro, count = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3, 7, 16))
        return tp * cp * pp * dp, tp, cp, pp, dp * micro * count, micro

    def gpus_left() -> tuple[int, ...]:
        gpus, tp, cp, pp, sequences, micro = fitting()
        return gpus + rng.choice((1, tp * cp * pp - 1)), tp, cp, pp, sequences * (gpus + 1), micro

    own = tuple(params[name] for name in ("gpus", "tp", "cp", "pp", "sequences", "micro"))
    others = [row[:5] + row[6:] for row in RUNS if row[:5] + row[6:] != own]
    uneven = [(64, 4, 2, 2, 36, 2), (64, 4, 2, 2, 4, 1), (64, 4, 2, 2, 2, 1), (24, 4, 2, 3, 7, 2), (8, 1, 8, 1, 3, 2)]
    too_few = [(8, 8, 2, 1, 16, 1), (24, 4, 2, 4, 12, 1), *(gpus_left() for _ in range(4))]
    edges = [(1, 1, 1, 1, 1, 1), (8, 2, 4, 1, 3, 3), (8, 1, 1, 1, 8, 1), (12, 3, 2, 2, 5, 5)]
    held = [(m, length, c) for m in (1, 3, 4) for length, c in ((96, 3), (8192, 16), (1000, 7), (10, 4), (64, 1))]
    return [
        shown("the example", "values:batches", 0, [own]),
        shown("the example", "values:tokens", 1, [(params["micro"], params["length"], params["cp"])]),
        hidden("other runs", "values:batches", 0, others + [fitting() for _ in range(10)]),
        hidden("other lengths", "values:tokens", 1, held),
        hidden("sequences or GPUs left over", "generality:remainders", 0, uneven + too_few),
        hidden("one rank, one replica, one micro-batch", "generality:remainders", 0, edges),
    ]


def _batch_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    column = (MICRO_BATCHES, TOKENS_HELD)[case.args[0]]
    return judged(case, column.fault(case, outcome.value))


# --- rows whose values are no numbers


def same_plain(got: Any, right: Any) -> bool:
    """Whether what came back, which may be anything, equals a plain number, text, None or dictionary of numbers."""
    if type(right) is dict:
        same_keys = type(got) is dict and got.keys() == right.keys()
        return same_keys and all(same_plain(got[key], value) for key, value in right.items())
    return is_number(got) and got == right if is_number(right) else type(got) is type(right) and got == right


def row_fault(
    case: Case,
    values: Sequence[Any],
    want: Callable[..., Any],
    words: Callable[..., str],
    known: Mapping[str, tuple[Callable[..., Any], str]],
    same: Callable[[Any, Any], bool] = same_plain,
) -> Fault | None:
    """The first wrong row, named by a mistake only if it gives what came back on every row."""
    rows = case.args[1]
    for row, got in zip(rows, values, strict=True):
        if same(got, want(*row)):
            continue
        for name, (wrong, message) in known.items():
            if all(same(value, wrong(*each)) for each, value in zip(rows, values, strict=True)):
                return name, f"{words(*row)}: {message}"
        return "", f"{words(*row)}: {describe(got)} is not right."
    return None


# --- ranks and coordinates


def _mesh_words(sizes: Sizes) -> str:
    return "mesh {" + ", ".join(f"{axis}: {size}" for axis, size in sizes.items()) + "}"


def _sorted_groups(value: Any) -> list[list[int]] | None:
    if type(value) not in (list, tuple) or not all(type(group) in (list, tuple) for group in value):
        return None
    if not all(type(rank) is int for group in value for rank in group):
        return None
    return sorted(map(list, value))


def _groups_fault(sizes: Sizes, axis: str, got: Any, right: list[list[int]], fastest: str) -> Fault | None:
    lead = f"{_mesh_words(sizes)}, axis {axis}: "
    found = _sorted_groups(got)
    if found is None:
        return "wrong-shape", f"{lead}return a list of groups, each a list of ranks; got {describe(got)}."
    if found == sorted(right):
        return None
    held = sorted(rank for group in found for rank in group)
    if held != list(range(math.prod(sizes.values()))):
        return "not-a-partition", f"{lead}every rank belongs to exactly one group of an axis."
    if any(len(group) != sizes[axis] for group in found):
        return "wrong-size", f"{lead}a group of this axis has {sizes[axis]} ranks."
    if sorted(map(sorted, found)) == sorted(right):
        return "other-order", f"{lead}the ranks of a group come in the order of their coordinate."
    if found == sorted(groups(sizes, axis, "first" if fastest == "last" else "last")):
        return (
            "turned-round",
            f"{lead}these are the groups if the {'first' if fastest == 'last' else 'last'} axis changed fastest.",
        )
    return "", f"{lead}the ranks of {found[0]} do not differ in this coordinate alone."


def _coordinate_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    which, rows = case.args
    fastest = params["fastest"]
    other = "first" if fastest == "last" else "last"
    turned = f"the {fastest} axis changes fastest here."
    if which == 2:
        pairs = zip(rows, outcome.value, strict=True)
        found = (_groups_fault(*row, got, groups(*row, fastest), fastest) for row, got in pairs)
        return next((fault for fault in found if fault), None)
    if which == 0 and (odd := next((got for got in outcome.value if type(got) is not dict), None)) is not None:
        return "wrong-shape", f"return a dictionary from axis to coordinate; got {describe(odd)}."
    oracle = rank_of if which else coordinates

    def words(first: Any, sizes: Sizes) -> str:
        return f"{_mesh_words(sizes)}, {'coordinates' if which else 'rank'} {first}"

    def listed(at: Mapping[str, int], sizes: Sizes) -> int:
        """Coordinates taken in the order of `at`, not by name."""
        return rank_of(dict(zip(sizes, at.values(), strict=True)), sizes, fastest)

    known: dict[str, tuple[Callable[..., Any], str]] = {"turned-round": (lambda *row: oracle(*row, other), turned)}
    if which:
        known["by-position"] = (listed, "take coordinates by the name of their axis; `at` may have another order.")
    return row_fault(case, outcome.value, lambda *row: oracle(*row, fastest), words, known)


def _coordinate_cases(params: Params, rng: random.Random) -> list[Case]:
    fastest = params["fastest"]
    example = {"dp": 2, "pp": 3, "tp": 4} if fastest == "last" else {"tp": 4, "pp": 3, "dp": 2}
    meshes = [mesh(rng, axes, choices=(2, 3, 4, 5, 6, 8)) for axes in (2, 3, 3, 4, 5)]
    odd = [{"tp": 1}, {"pp": 7}, {"dp": 1, "x": 5, "tp": 1}, {"cp": 1, "ep": 1}, {"b": 3, "a": 5, "c": 1, "d": 2}]

    def ranks(sizes: Sizes) -> list[int]:
        n = math.prod(sizes.values())
        return sorted({0, n - 1, *(rng.randrange(n) for _ in range(6))})

    def mixed(rank: int, sizes: Sizes) -> tuple[dict[str, int], Sizes]:
        at = list(coordinates(rank, sizes, fastest).items())
        rng.shuffle(at)
        return dict(at), sizes

    def asked(which: int, given: Sequence[Sizes]) -> list[tuple[Any, ...]]:
        if which == 2:
            return [(sizes, axis) for sizes in given for axis in sizes]
        rows = [(rank, sizes) for sizes in given for rank in ranks(sizes)]
        return rows if which == 0 else [mixed(*row) for row in rows]

    parts = ("coordinates", "ranks", "groups")
    first = [(5, example), (coordinates(17, example, fastest), example), (example, "pp")]
    return [
        *(shown("the mesh of the example", f"values:{part}", at, [first[at]]) for at, part in enumerate(parts)),
        *(hidden("other meshes", f"values:{part}", at, asked(at, meshes)) for at, part in enumerate(parts)),
        *(
            hidden("axes of size one, one axis, other names", "generality:sizes", at, asked(at, odd))
            for at in range(len(parts))
        ),
    ]


def _coordinate_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, _coordinate_fault(params, case, outcome))


# --- levels


def widest_level(
    sizes: Sizes, axis: str, levels: Sequence[Level], reach: Callable[..., bool] | None = None
) -> str | None:
    """The first level that holds every group of an axis inside one of its units; None for groups of one rank."""
    inside = reach or (lambda group, devices: group[0] // devices == group[-1] // devices)
    if sizes[axis] == 1:
        return None
    found = groups(sizes, axis)
    return next((name for name, devices in levels if all(inside(each, devices) for each in found)), "cluster")


def _first_group(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    """The mistake that looks at rank 0's group alone."""
    last = (sizes[axis] - 1) * strides(sizes)[axis]
    return None if sizes[axis] == 1 else next((name for name, devices in levels if last < devices), "cluster")


def _by_size(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    """The mistake that compares the number of ranks."""
    return None if sizes[axis] == 1 else next((name for name, devices in levels if sizes[axis] <= devices), "cluster")


def _any_group(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    if sizes[axis] == 1:
        return None
    found = groups(sizes, axis)
    return next((name for name, n in levels if any(g[0] // n == g[-1] // n for g in found)), "cluster")


def _turned(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    return widest_level(dict(reversed(sizes.items())), axis, levels)


def _alone(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    return levels[0][0] if sizes[axis] == 1 else widest_level(sizes, axis, levels)


LEVEL_MISTAKES = {
    "first-group": (_first_group, "rank 0's group lies inside this level, but another group straddles two units."),
    "by-size": (
        _by_size,
        "the number of ranks says nothing about where they are; neighbors on an outer axis are far apart.",
    ),
    "any-group": (_any_group, "every group must lie inside one unit, not only some of them."),
    "turned-round": (_turned, "the last axis changes fastest."),
    "alone": (_alone, "a group of one rank sends nothing; return None."),
}


def _level_words(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str:
    return f"{_mesh_words(sizes)}, axis {axis}, {', '.join(f'{name} of {n}' for name, n in levels)}"


def _level_cases(params: Params, rng: random.Random) -> list[Case]:
    server, rack = params["servers"], params["per_rack"] * params["servers"]
    shape = {"dp": 2, "pp": params["per_rack"], "tp": server}
    levels = [("server", server), ("rack", rack)]

    def drawn() -> tuple[Sizes, str, list[Level]]:
        sizes, inner = mesh(rng, rng.choice((2, 3, 4)), 200, (2, 3, 4, 6, 8)), rng.choice((3, 4, 6, 8))
        outer = inner * rng.choice((2, 3, 4))
        named = rng.sample(("tray", "board", "rack", "pod", "hall"), 3)
        counts = (inner, outer, outer * rng.choice((2, 5)))
        levels = list(zip(named, counts, strict=True))[: rng.choice((1, 2, 3))]
        return sizes, rng.choice(list(sizes)), levels

    def whole(count: int) -> list[tuple[Sizes, str, list[Level]]]:
        """Rows in which no group reaches further than rank 0's."""
        rows = (drawn() for _ in itertools.count())
        return list(itertools.islice((row for row in rows if widest_level(*row) == _first_group(*row)), count))

    straddling = [
        ({"dp": 8, "tp": 3}, "tp", [("server", 8), ("rack", 16)]),
        ({"dp": 4, "cp": 3, "tp": 2}, "cp", [("tray", 4), ("pod", 12)]),
    ]
    straddling += [
        ({"a": 3, "b": 5}, "b", [("server", 4), ("rack", 8)]),
        ({"pp": 6, "tp": 6}, "tp", [("server", 8), ("row", 72)]),
    ]
    edges = [
        ({"dp": 3, "tp": 1}, "tp", levels),
        ({"dp": 1, "tp": server}, "dp", levels),
        ({"dp": rack * 2}, "dp", levels),
    ]
    edges += [({"tp": server}, "tp", [("server", server)]), ({"tp": server + 1}, "tp", [("server", server)])]
    return [
        shown("a mesh that fills servers", "values:levels", 0, [(shape, axis, levels) for axis in ("tp", "dp")]),
        hidden("other meshes", "values:levels", 0, whole(24)),
        hidden("groups that straddle", "generality:straddling", 0, straddling + [drawn() for _ in range(12)]),
        hidden("groups of one rank, and groups that just fit", "generality:edges", 0, edges),
    ]


def _level_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    values = [got.strip().lower() if type(got) is str else got for got in outcome.value]
    return judged(case, row_fault(case, values, widest_level, _level_words, LEVEL_MISTAKES))


MESHES = {
    "batch-on-mesh": Judging(
        shares="values:batches 0.4, values:tokens 0.25, generality:remainders 0.35",
        cases=_batch_cases,
        verdicts=_batch_verdicts,
        why="Only data-parallel replicas see different sequences. tp and pp cut the model and cp cuts the sequence, so their ranks work on the same "
        "ones: sequences = dp · micro-batches · micro. If cp counted as samples, a change of cp would change the batch and with it the training.",
        pytorch="torchtitan checks that `global_batch_size` is a multiple of `local_batch_size` times the dp degree; cp is not in that product.",
    ),
    "mesh-coordinates": Judging(
        shares="values:coordinates 0.25, values:ranks 0.2, values:groups 0.25, generality:sizes 0.3",
        cases=_coordinate_cases,
        verdicts=_coordinate_verdicts,
        why="A rank is a number whose digits are the coordinates, each digit with its own base. An axis of size one adds a digit that is always 0. "
        "The groups of an axis partition the ranks, and a group of one axis meets a group of another in at most one rank.",
        pytorch="`init_device_mesh('cuda', (2, 3, 4), mesh_dim_names=('dp', 'pp', 'tp'))`, then `mesh.get_coordinate()` and `mesh['tp'].get_group()`.",
    ),
    "crossed-wires": Judging(
        shares="values:levels 0.35, generality:straddling 0.45, generality:edges 0.2",
        cases=_level_cases,
        verdicts=_level_verdicts,
        why="Neighbors on an axis are a stride apart, and a group spans (size − 1) strides. Where sizes do not divide a server, some groups straddle "
        "two servers, and all groups wait for the slowest one.",
        pytorch="`init_device_mesh` numbers ranks in the same way; `NCCL_DEBUG=INFO` prints for each channel whether it goes over NVLink or the network.",
    ),
}
