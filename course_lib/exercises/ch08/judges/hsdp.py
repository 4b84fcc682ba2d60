"""Judge of chapter 08's groups: what HSDP holds and sends, the smallest group that fits, and the quickest."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

from course_lib.exercises.ch08.cards.wires import KEPT
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.draws import plain
from course_lib.judging.optional_columns import Column, judge, results, told, tuples
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import BILLION, GB

PER_PARAM = 16
PARTS = ("held", "inside", "across")
USUAL = (70, 180, 405)  # billion parameters of models that do not fit into a node


def gathers_of(params: Params) -> int:
    """How often a step gathers weights."""
    return KEPT[params["kept"]][0]


def hsdp(gathers: int, params: float, ranks: int, group: int) -> tuple[float, float, float]:
    """Bytes of state on a rank, bytes it sends inside its group in a step, and across."""
    copies = ranks // group
    return (
        PER_PARAM * params / group,
        (gathers + 1) * (group - 1) / group * 2 * params,
        2 * (copies - 1) / copies * 2 * params / group,
    )


@cache
def groups(ranks: int) -> tuple[int, ...]:
    """Sizes of groups that divide the ranks."""
    return tuple(size for size in range(1, ranks + 1) if ranks % size == 0)


def smallest(params: float, ranks: int, memory: float, per_param: float = PER_PARAM) -> int | None:
    """The smallest group whose state fits."""
    return next((size for size in groups(ranks) if per_param * params / size <= memory), None)


def seconds(gathers: int, params: float, ranks: int, group: int, per_node: int, fast: float, slow: float) -> float:
    """Seconds on the wires, inside and across one after the other."""
    _, inside, across = hsdp(gathers, params, ranks, group)
    return inside / (fast if group <= per_node else slow) + across / (fast if ranks <= per_node else slow)


def best(gathers: int, params: float, ranks: int, memory: float, per_node: int, fast: float, slow: float) -> int | None:
    """The group that fits and takes the least time."""
    fits = [size for size in groups(ranks) if PER_PARAM * params / size <= memory]
    return (
        min(fits, key=lambda size: (seconds(gathers, params, ranks, size, per_node, fast, slow), size))
        if fits
        else None
    )


def _tied(gathers: int, row: Sequence[Any]) -> bool:
    """Whether another group comes so near the best that rounding could decide."""
    params, ranks, memory, per_node, fast, slow = row
    fits = [size for size in groups(ranks) if PER_PARAM * params / size <= memory]
    times = sorted(seconds(gathers, params, ranks, size, per_node, fast, slow) for size in fits)
    return len(times) > 1 and times[1] < times[0] * (1 + 1e-6)


def _words(params: float, ranks: int, group: int) -> str:
    return f"{params / BILLION:g}B on {ranks:,} ranks in groups of {group:,}"


def _fits_words(params: float, ranks: int, memory: float, *rest: Any) -> str:
    wires = f", {rest[0]} to a node, {rest[1] / GB:g} and {rest[2] / GB:g} GB/s" if rest else ""
    return f"{params / BILLION:g}B on {ranks:,} GPUs of {memory / GB:g} GB{wires}"


def _columns(gathers: int) -> tuple[dict[str, Column], Column, Column]:
    other = 3 - gathers
    public = gathers == 1
    inside_slips = (
        Mistake(
            "public-form" if public else "kept-weights",
            lambda p, n, k: hsdp(other, p, n, k)[1],
            "this solves the public form of the exercise: here weights are gathered once."
            if public
            else "weights are gathered twice here, forward and backward.",
        ),
        Mistake(
            "reduced-twice",
            lambda p, n, k: (gathers + 2) * (k - 1) / k * 2 * p,
            "a reduce-scatter is half of an all-reduce: gradients go round once.",
        ),
        Mistake("no-ring", lambda p, n, k: (gathers + 1) * 2 * p, "each rank leaves out its own part: (K − 1)/K."),
        Mistake(
            "over-the-world",
            lambda p, n, k: (gathers + 1) * (n - 1) / n * 2 * p,
            "gathering stays inside the group: it is K, not N, that counts.",
        ),
        Mistake(
            "each-an-all-reduce",
            lambda p, n, k: 2 * hsdp(gathers, p, n, k)[1],
            "an all-gather or a reduce-scatter sends half of what an all-reduce does.",
        ),
        Mistake(
            "gathers-only",
            lambda p, n, k: gathers * (k - 1) / k * 2 * p,
            "gradients are reduced inside the group as well.",
        ),
        Mistake("elements", lambda p, n, k: hsdp(gathers, p, n, k)[1] / 2, "these are numbers; each has two bytes."),
        Mistake(
            "a-part-only",
            lambda p, n, k: hsdp(gathers, p, n, k)[1] / k,
            "every rank needs the whole unit, so nearly all of the model goes past it.",
        ),
    )
    across_slips = (
        Mistake(
            "whole-model",
            lambda p, n, k: 2 * (n // k - 1) / (n // k) * 2 * p,
            "across goes only the rank's own part, a K-th of the gradients.",
        ),
        Mistake("half-a-ring", lambda p, n, k: hsdp(gathers, p, n, k)[2] / 2, "an all-reduce has two halves."),
        Mistake(
            "over-the-group",
            lambda p, n, k: 2 * (k - 1) / k * 2 * p / k,
            "the ring across has as many ranks as there are groups, N / K.",
        ),
        Mistake(
            "twice",
            lambda p, n, k: 2 * hsdp(gathers, p, n, k)[2],
            "this is twice as much: two bytes for each gradient, 2 · (M − 1)/M of them for an all-reduce.",
        ),
        Mistake("no-ring", lambda p, n, k: 2 * 2 * p / k, "each rank leaves out its own share of the ring: (M − 1)/M."),
    )
    held_slips = (
        Mistake(
            "over-the-world",
            lambda p, n, k: PER_PARAM * p / n,
            "the state is shared out over the group, not over all ranks; every group has a copy.",
        ),
        Mistake(
            "turned-round",
            lambda p, n, k: PER_PARAM * p / (n // k),
            "that shares the state out over as many ranks as there are groups; `group` is how many ranks share it.",
        ),
        Mistake("whole-state", lambda p, n, k: PER_PARAM * p, "the state is shared out over the group."),
        Mistake(
            "weights-only", lambda p, n, k: 2 * p / k, "these are the weights; the state has 16 bytes per parameter."
        ),
    )
    rows = {
        "held": Column(
            part="held", unit="bytes", want=lambda *row: hsdp(gathers, *row)[0], words=_words, slips=held_slips
        ),
        "inside": Column(
            part="inside", unit="bytes", want=lambda *row: hsdp(gathers, *row)[1], words=_words, slips=inside_slips
        ),
        "across": Column(
            part="across", unit="bytes", want=lambda *row: hsdp(gathers, *row)[2], words=_words, slips=across_slips
        ),
    }
    fewest = Column(
        part="smallest",
        unit="ranks",
        want=smallest,
        words=_fits_words,
        rel=1e-9,
        none="the state does not fit however it is grouped: `None`",
        slips=(
            Mistake(
                "no-divisor",
                lambda p, n, m: -(-PER_PARAM * p // m),
                "that many would be enough, and do not divide the ranks.",
            ),
            Mistake(
                "one-server",
                lambda p, n, m: 8 if PER_PARAM * p / 8 > m else None,
                "in groups of 8 a rank holds more than its memory; this was printed for a model that does not fit so.",
            ),
            Mistake(
                "weights-only",
                lambda p, n, m: smallest(p, n, m, 2),
                "that is enough for the weights; the state has 16 bytes per parameter.",
            ),
            Mistake("no-master", lambda p, n, m: smallest(p, n, m, 12), "that is enough without a master copy."),
            Mistake("largest", lambda p, n, m: n, "all ranks in one group fit, and so does a smaller group."),
        ),
    )
    quickest = Column(
        part="best",
        unit="ranks",
        want=lambda *row: best(gathers, *row),
        words=_fits_words,
        rel=1e-9,
        none="no group fits: `None`",
        slips=(
            Mistake(
                "smallest-that-fits",
                RULES["smallest-that-fits"],
                "this is the smallest group that fits; a larger one may send less across.",
            ),
            Mistake(
                "public-form" if public else "kept-weights",
                lambda *row: best(other, *row),
                f"{'this solves the public form of the exercise: ' if public else ''}weights are gathered {'once' if public else 'twice'} here.",
            ),
            Mistake(
                "memory-forgotten",
                lambda p, n, m, *w: best(gathers, p, n, float("inf"), *w),
                "it would be quick, and does not fit.",
            ),
            Mistake(
                "all-fast",
                lambda p, n, m, per, fast, slow: best(gathers, p, n, m, n, fast, fast),
                "that would be best if all wires were fast.",
            ),
            Mistake(
                "inside-always-fast",
                partial(RULES["inside-always-fast"], gathers=gathers),
                "a group larger than a node sends inside at the speed between nodes.",
            ),
            Mistake(
                "fewest-bytes",
                partial(RULES["fewest-bytes"], gathers=gathers),
                "these are the fewest bytes; the least time is asked for, and bytes inside and across go at other speeds.",
            ),
            Mistake("longer-of-two", partial(RULES["longer-of-two"], gathers=gathers), "the two times add up."),
            Mistake(
                "largest-inside",
                partial(RULES["largest-inside"], gathers=gathers),
                "this is the largest group that stays in a node, or else the smallest that fits; try the others.",
            ),
            Mistake(
                "node",
                lambda p, n, m, per, fast, slow: per,
                "one node is a good guess; work out what fits and what it takes.",
            ),
        ),
    )
    return rows, fewest, quickest


def _least(gathers: int, p: float, n: int, m: float, cost: Callable[[float, float, int], float]) -> int | None:
    """The group that fits and costs least, by bytes inside, bytes across and its size."""
    fits = [size for size in groups(n) if PER_PARAM * p / size <= m]
    return min(fits, key=lambda size: (cost(*hsdp(gathers, p, n, size)[1:], size), size)) if fits else None


RULES: Mapping[str, Callable[..., int | None]] = {  # other than the least time, each a row of arguments to a group
    "smallest-that-fits": lambda p, n, m, *wires, gathers=2: smallest(p, n, m),
    "inside-always-fast": lambda p, n, m, per, fast, slow, gathers=2: _least(
        gathers, p, n, m, lambda inside, across, size: inside / fast + across / slow
    ),
    "fewest-bytes": lambda p, n, m, *wires, gathers=2: _least(
        gathers, p, n, m, lambda inside, across, size: inside + across
    ),
    "longer-of-two": lambda p, n, m, per, fast, slow, gathers=2: _least(
        gathers,
        p,
        n,
        m,
        lambda inside, across, size: max(
            inside / (fast if size <= per else slow), across / (fast if n <= per else slow)
        ),
    ),
    "largest-inside": lambda p, n, m, per, fast, slow, gathers=2: max(
        (size for size in groups(n) if size <= per and PER_PARAM * p / size <= m), default=smallest(p, n, m)
    ),
}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    p, n, m, gathers = params["params"], params["ranks"], params["memory"], gathers_of(params)
    wires = (params["per_node"], params["fast"], params["slow"])

    def size() -> tuple[float, int]:
        return rng.choice((1, 7, 13, 30, 70, 180, 405, 671)) * BILLION, rng.choice(
            (8, 12, 48, 64, 100, 256, 1024, 6144, 16_384)
        )

    def sends() -> tuple[Any, ...]:
        params_, ranks = size()
        return params_, ranks, rng.choice(groups(ranks))

    def wired() -> tuple[Any, ...]:
        while True:
            row = (
                *size(),
                rng.choice((24, 40, 80, 141, 192)) * GB,
                rng.choice((4, 8, 16, 72)),
                rng.choice((150, 300, 450, 900)) * GB,
                rng.choice((12.5, 25, 50, 100)) * GB,
            )
            if not _tied(gathers, row):
                return row

    def telling(rule: Callable[..., int | None]) -> list[tuple[Any, ...]]:
        """Two rows on which another rule gives another group; fewer where it hardly ever does."""
        drawn = (wired() for _ in range(150))
        return list(islice((row for row in drawn if best(gathers, *row) not in (None, rule(*row, gathers=gathers))), 2))

    # three right answers, no two alike, and one at least that is no power of two
    usual = [(size * BILLION, ranks, m) for size, ranks in zip(USUAL, rng.sample((3072, 4096, 6144), 3), strict=True)]
    known = smallest(p, n, m) or n
    small = 8 * BILLION  # a model that fits in one node: its best group is no question of memory
    return [
        Case(
            name="groups of one node, and the smallest",
            args=(0, [(p, n, params["per_node"]), (p, n, known)]),
            part="volumes",
        ),
        Case(name="what fits", args=(1, [(p, n, m)]), part="smallest"),
        Case(name="what is quickest", args=(2, [(p, n, m, *wires), (small, n, m, *wires)]), part="best"),
        Case(
            name="other groups, one rank and all",
            args=(0, [*(sends() for _ in range(20)), (7e9, 64, 1), (7e9, 64, 64), (7e9, 1, 1)]),
            part="volumes",
            visible=False,
        ),
        plain("smallest", 1, "three more models", usual),
        plain(
            "best",
            2,
            "three more models, and a small one",
            [*((*row, *wires) for row in usual), (small, 3072, m, *wires)],
        ),
        Case(
            name="other clusters",
            args=(
                1,
                [(*size(), rng.choice((24, 80, 141)) * GB) for _ in range(20)]
                + [(405e9, 8, 80e9), (10e9, 4, 80e9), (5e9, 6, 20e9)],
            ),
            kind="generality",
            part="clusters",
            visible=False,
        ),
        Case(
            name="other wires",
            args=(
                2,
                [
                    *(wired() for _ in range(30)),
                    *(row for rule in RULES.values() for row in telling(rule)),
                    (1e9, 8, 80e9, 8, 450e9, 50e9),
                    (405e9, 8, 80e9, 8, 450e9, 50e9),
                ],
            ),
            kind="generality",
            part="wires",
            visible=False,
        ),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    rows, fewest, quickest = _columns(gathers_of(params))
    which = case.args[0]
    parts = PARTS if which == 0 else (case.part,)
    found = results(case, outcome.value, parts)
    if told(found):
        return found
    if which:
        return [judge((fewest, quickest)[which - 1], case, found, part=case.part)]
    if wrong := tuples(case, found, PARTS, PARTS):
        return wrong
    return [judge(rows[name], case, [row[place] for row in found]) for place, name in enumerate(PARTS)]


GROUPS = {
    "hsdp-group": Judging(
        shares={
            "values:held": 0.1,
            "values:inside": 0.15,
            "values:across": 0.15,
            "values:smallest": 0.15,
            "values:best": 0.1,
            "generality:clusters": 0.15,
            "generality:wires": 0.2,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="Inside, every rank still sees nearly the whole model go by, whatever K is; across goes a K-th of the gradients. So a group as large as a node pays the "
        "gathers on the fast wire and the least on the slow one. Memory decides whether it may be that small: 405B at 16 bytes needs 81 ranks at least, and then all "
        "of the gathering is back on the network.",
        pytorch="`fully_shard(model, mesh=init_device_mesh('cuda', (copies, group), mesh_dim_names=('replicate', 'shard')))`.",
    )
}
