"""Judges of the tiles: moves are counted by walking the loops with one slot a matrix, dips by counting whole waves."""

import math
import random
from functools import cache
from typing import Any

from course_lib.judging import Judging, Mistake, Params, describe, is_number
from course_lib.judging.draws import unseen
from course_lib.judging.old_columns import EXACT, Column, columns, table
from course_lib.records import Case, Outcome, Verdict


@cache
def counted_moves(stays: str, m: int, k: int, n: int, tile: int) -> int:
    """Elements loaded and written, counted in the loops; the cache has one slot of a tile for each matrix."""

    def sides(length: int) -> list[int]:
        return [min(tile, length - start) for start in range(0, length, tile)]

    rows, depths, widths = sides(m), sides(k), sides(n)
    slots: dict[str, tuple[int, int] | None] = {"A": None, "B": None}
    moved = 0

    def load(matrix: str, i: int, j: int, elements: int) -> int:
        if slots[matrix] == (i, j):
            return 0
        slots[matrix] = (i, j)
        return elements

    if stays == "C":
        for i, height in enumerate(rows):
            for j, width in enumerate(widths):
                for step, depth in enumerate(depths):
                    moved += load("A", i, step, height * depth) + load("B", step, j, depth * width)
                moved += height * width
        return moved
    for i, height in enumerate(rows):
        for step, depth in enumerate(depths):
            for j, width in enumerate(widths):
                moved += load("A", i, step, height * depth) + load("B", step, j, depth * width)
                moved += height * width * (1 if step == 0 else 2)
    return moved


def side_of(cache_elements: int) -> int:
    """The largest tile of which three fit."""
    return math.isqrt(cache_elements // 3)


def _intensity(stays: str, m: int, k: int, n: int, cache_elements: int, size: int) -> float:
    return 2 * m * k * n / (size * counted_moves(stays, m, k, n, side_of(cache_elements)))


def _moves_formula(stays: str, m: int, k: int, n: int, rows: float, steps: float, width: float) -> float:
    """Moves from tiles along the three sides, which a slip may leave unrounded."""
    if stays == "C":
        return m * k * width + k * n * rows + m * n
    return m * k + k * n * rows + m * n * (2 * steps - 1)


def _tile_columns(stays: str) -> tuple[Column, Column, Column]:
    other = "A" if stays == "C" else "C"

    def up(value: int, tile: int) -> int:
        return -(-value // tile)

    def moves(m: int, k: int, n: int, t: int) -> int:
        return counted_moves(stays, m, k, n, t)

    def by_tile(wrong: Any) -> Any:
        return lambda m, k, n, c, s: (
            (side := wrong(c)) >= 1 and 2 * m * k * n / (s * counted_moves(stays, m, k, n, int(side))) or None
        )

    def size_words(m: int, k: int, n: int, *_: int) -> str:
        return f"({m:,} × {k:,}) by ({k:,} × {n:,})"

    return (
        Column(
            part="moves",
            unit="elements",
            want=moves,
            rel=EXACT,
            hint="Count how often each tile of A, B and C comes by.",
            words=lambda m, k, n, t: f"{size_words(m, k, n)} in tiles of {t}",
            slips=(
                Mistake(
                    "infinite-cache",
                    lambda m, k, n, t: m * k + k * n + m * n,
                    "this moves every matrix once, which needs a cache that holds them all.",
                ),
                Mistake(
                    "infinite-cache",
                    lambda m, k, n, t: m * k + k * n,
                    "this loads both inputs once and forgets the output.",
                ),
                Mistake(
                    "no-tiles",
                    lambda m, k, n, t: 2 * m * k * n,
                    "this loads two elements for every product: a cache of nothing.",
                ),
                Mistake(
                    "output-forgotten",
                    lambda m, k, n, t: moves(m, k, n, t) - (m * n if stays == "C" else m * n * (2 * up(k, t) - 1)),
                    "the output is not in it.",
                ),
                Mistake(
                    "output-read-first",
                    lambda m, k, n, t: moves(m, k, n, t) + m * n,
                    "there is nothing to load of an output tile that nobody has written yet.",
                ),
                Mistake(
                    "written-only-once",
                    lambda m, k, n, t: m * k + k * n * up(m, t) + m * n if stays == "A" else None,
                    "a tile of C does not stay here: it comes by at every step along k.",
                ),
                Mistake(
                    "other-matrix-stays",
                    lambda m, k, n, t: counted_moves(other, m, k, n, t),
                    f"this keeps a tile of {other}; here a tile of {stays} stays.",
                ),
                Mistake(
                    "swapped-sides",
                    lambda m, k, n, t: m * k * up(m, t) + k * n * up(n, t) + m * n if stays == "C" and m != n else None,
                    "A comes by once for every column of tiles, B once for every row, not the other way round.",
                ),
                Mistake(
                    "not-rounded",
                    lambda m, k, n, t: _moves_formula(stays, m, k, n, m / t, k / t, n / t),
                    "tiles along a side are a whole number; the last one is only smaller.",
                ),
                Mistake(
                    "rounded-down",
                    lambda m, k, n, t: _moves_formula(stays, m, k, n, m // t, k // t, n // t),
                    "the last, smaller tile is missing.",
                ),
                Mistake(
                    "bytes", lambda m, k, n, t: 2 * moves(m, k, n, t), "these seem to be bytes; elements are asked for."
                ),
            ),
        ),
        Column(
            part="tile",
            unit="elements along a side",
            want=side_of,
            rel=EXACT,
            words=lambda c: f"a cache of {c:,} elements",
            slips=(
                Mistake("one-tile", lambda c: math.isqrt(c), "one tile would fit; three are at work."),
                Mistake("two-tiles", lambda c: math.isqrt(c // 2), "two tiles would fit; C has one too."),
                Mistake("not-whole", lambda c: math.sqrt(c / 3), "a side is a whole number."),
                Mistake("rounded-up", lambda c: side_of(c) + 1, "three of these need more than there is."),
                Mistake(
                    "elements-of-a-tile",
                    lambda c: c // 3,
                    "that is how many elements a tile may have; what is its side?",
                ),
                Mistake(
                    "side-over-three", lambda c: math.isqrt(c) // 3, "three times the area, not three times the side."
                ),
            ),
        ),
        Column(
            part="intensity",
            unit="FLOP per byte",
            want=lambda *row: _intensity(stays, *row),
            words=lambda m, k, n, c, s: (
                f"{size_words(m, k, n)} through {c:,} elements of {s} byte{'' if s == 1 else 's'}"
            ),
            slips=(
                Mistake(
                    "infinite-cache",
                    lambda m, k, n, c, s: 2 * m * k * n / (s * (m * k + k * n + m * n)),
                    "this is the intensity with an infinite cache.",
                ),
                Mistake(
                    "multiply-adds",
                    lambda *row: _intensity(stays, *row) / 2,
                    "a multiplication and an addition are two FLOP.",
                ),
                Mistake(
                    "elements",
                    lambda m, k, n, c, s: _intensity(stays, m, k, n, c, s) * s if s > 1 else None,
                    "this is FLOP per element; an element has several bytes.",
                ),
                Mistake(
                    "one-tile", by_tile(math.isqrt), "the tile is as large as the whole cache; three of them must fit."
                ),
                Mistake(
                    "bytes-for-elements",
                    lambda m, k, n, c, s: _intensity(stays, m, k, n, c // s, s) if c // s >= 12 else None,
                    "the cache is given in elements already.",
                ),
                Mistake("other-matrix-stays", lambda *row: _intensity(other, *row), f"this keeps a tile of {other}."),
            ),
        ),
    )


def _tile_alike(params: Params) -> tuple[bool, bool]:
    """Whether tiles fit the side shown, and whether a third of the cache is a square: rounding shows in the second alone."""
    return params["side"] % params["tile"] == 0, 3 * side_of(params["cache"]) ** 2 == params["cache"]


def _tile_cases(params: Params, rng: random.Random) -> list[Case]:
    side, tile, store, size = (params[name] for name in ("side", "tile", "cache", "size"))

    def sized(tiles: int, whole: bool) -> int:
        """A side of at least two tiles."""
        return tiles * rng.randint(2, 7) + (0 if whole else rng.randint(1, tiles - 1))

    even = [
        (sized(t, True), sized(t, True), sized(t, True), t) for t in (rng.choice((2, 8, 16, 32, 64)) for _ in range(10))
    ]
    odd = [
        (sized(t, False), sized(t, False), sized(t, False), t)
        for t in (rng.choice((3, 5, 16, 48, 100)) for _ in range(10))
    ]
    caches = [3, 11, 12, 27, 48, 300, 12_288, 3 * 64**2, 3 * 64**2 - 1, *(rng.randint(4, 200_000) for _ in range(12))]
    deep = []
    for _ in range(12):
        store_of = rng.choice((12, 300, 3072, 12_288, 24_000))
        t = side_of(store_of)
        deep.append(
            (
                t * rng.randint(2, 6) + rng.randint(1, t),
                t * rng.randint(2, 6) + rng.randint(0, t),
                t * rng.randint(2, 6) + rng.randint(1, t),
                store_of,
                rng.choice((1, 2, 4)),
            )
        )
    return [
        Case(name="the tiles shown", args=(0, [(side, side, side, tile)]), part="moves"),
        Case(name=f"{params['cache_kib']} KiB", args=(1, [(store,)]), part="tile"),
        Case(name="the best tile", args=(2, [(side, side, side, store, size)]), part="intensity"),
        unseen(rng, "moves", 0, "other tiles", even + odd),
        unseen(rng, "tile", 1, "other caches", [(c,) for c in caches]),
        unseen(rng, "intensity", 2, "other products", deep),
    ]


TILED_INTENSITY = Judging(
    alike=_tile_alike,
    shares={
        "values:moves": 0.15,
        "values:tile": 0.1,
        "values:intensity": 0.15,
        "generality:moves": 0.25,
        "generality:tile": 0.15,
        "generality:intensity": 0.2,
    },
    cases=_tile_cases,
    verdicts=lambda params, case, outcome: columns(*_tile_columns(params["stays"]))(params, case, outcome),
    why="A matrix moves as often as there are tiles along the side it does not have: every element of A meets every column of C, "
    "and a tile's width of columns at a time. Three tiles share the cache, so the side grows with the square root of a third of "
    "it, and with the side the intensity: a cache four times as large halves the bytes. What stays is cheap; keeping C writes it "
    "once, keeping A sends C back and forth at every step along k.",
    pytorch="`torch.matmul` picks tiles for the GPU's shared memory; a Triton matmul spells them out (`BLOCK_M`, `BLOCK_N`, `BLOCK_K`).",
)


def share_kept(slots: int, m: int, n: int, tile: int, sms: int) -> float:
    """Useful elements over paid ones."""
    count = -(-m // tile) * -(-n // tile)
    waves = -(-count // (sms * slots))
    return m * n / (waves * sms * slots * tile * tile)


def falls(slots: int, m: int, sizes: list[int], tile: int, sms: int) -> list[int]:
    """The sizes at which the share is lower than at the size before, by whole numbers."""

    def paid(n: int) -> int:
        return -(-(-(-m // tile) * -(-n // tile)) // (sms * slots))

    return [n for before, n in zip(sizes, sizes[1:], strict=False) if n * paid(before) < before * paid(n)]


def _share_column(slots: int) -> Column:
    other = 2 if slots == 1 else 1
    return Column(
        part="efficiency",
        unit="(a fraction of one)",
        want=lambda *row: share_kept(slots, *row),
        words=lambda m, n, t, s: f"{m:,} × {n:,} in tiles of {t} on {s} processors",
        hint="What was paid for: whole tiles, and whole rounds of them.",
        slips=(
            Mistake(
                "no-waves",
                lambda m, n, t, s: m * n / (-(-m // t) * -(-n // t) * t * t),
                "the last round is not full, but it takes as long as a full one.",
            ),
            Mistake(
                "no-tiles",
                lambda m, n, t, s: m * n / (math.ceil(m * n / (t * t) / (s * slots)) * s * slots * t * t),
                "a part of a tile at an edge costs a whole one.",
            ),
            Mistake(
                "other-slots",
                lambda m, n, t, s: share_kept(other, m, n, t, s),
                f"a processor takes {'one tile' if slots == 1 else 'two tiles'} at a time here.",
            ),
            Mistake(
                "percent", lambda *row: 100 * share_kept(slots, *row), "this is in per cent; give a fraction of one."
            ),
            Mistake("upside-down", lambda *row: 1 / share_kept(slots, *row), "this is paid over useful."),
            Mistake("one", lambda *row: 1.0, "whole tiles on whole rounds leave less than everything."),
            Mistake("last-round-only", lambda m, n, t, s: _last(m, n, t, s * slots), "this is the last round alone."),
        ),
    )


def _last(m: int, n: int, tile: int, places: int) -> float:
    count = -(-m // tile) * -(-n // tile)
    return (count % places or places) / places


def _dip_fault(slots: int, row: tuple[Any, ...], value: Any) -> tuple[str, str] | None:
    m, sizes, tile, sms = row
    want = falls(slots, m, sizes, tile, sms)
    words = f"m = {m:,}, tiles of {tile}, {sms} processors"
    if value is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if type(value) not in (list, tuple) or not all(is_number(each) for each in value):
        return "not-a-list", f"{words}: return a list of sizes; got {describe(value)}."
    got = [float(each) for each in value]
    if got == [float(each) for each in want]:
        return None
    before = {after: earlier for earlier, after in zip(sizes, sizes[1:], strict=False)}
    by_area = [
        n
        for earlier, n in zip(sizes, sizes[1:], strict=False)
        if n * math.ceil(m * earlier / tile**2 / (sms * slots)) < earlier * math.ceil(m * n / tile**2 / (sms * slots))
    ]
    tile_only = [
        n for earlier, n in zip(sizes, sizes[1:], strict=False) if n * -(-earlier // tile) < earlier * -(-n // tile)
    ]
    known = (
        ("smooth", [], "a smooth curve has no dips; this one falls wherever a tile or a round is begun."),
        ("one-early", [before[n] for n in want], "these are the sizes before the falls: the last good ones."),
        ("positions", [sizes.index(n) for n in want], "these are positions in the list; sizes are asked for."),
        ("positions", [sizes.index(n) - 1 for n in want], "these are positions in the list; sizes are asked for."),
        ("no-waves", tile_only, "these are the falls where a tile is begun; look where a round is begun."),
        ("no-tiles", by_area, "tiles are cut along both sides; a part of one at an edge costs a whole one."),
        (
            "other-slots",
            falls(2 if slots == 1 else 1, m, sizes, tile, sms),
            "a processor takes another number of tiles at a time.",
        ),
        ("everything", sizes, "the share does not fall everywhere."),
        ("rises", [n for n in sizes[1:] if n not in want], "these are the sizes where it rises."),
    )
    for name, wrong, message in known:
        if got == [float(each) for each in wrong] and wrong != want:
            return name, f"{words}: {message}"
    extra, missing = len(set(got) - set(want)), len(set(map(float, want)) - set(got))
    if not extra and not missing:
        return "order", f"{words}: the sizes are right, but not in rising order or not once each."
    return "", f"{words}: {extra} of the sizes are no dips, {missing} dips are missing."


def _dips_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] == 0:
        return columns(_share_column(params["slots"]))(params, case, outcome)
    got = table(outcome.value, case, "dips", case.kind)
    if isinstance(got, Verdict):
        return [got]
    faults = (_dip_fault(params["slots"], row, value) for row, value in zip(case.args[1], got, strict=True))
    mistake, message = next((fault for fault in faults if fault), ("", ""))
    return [Verdict(kind=case.kind, part="dips", ok=not message, mistake=mistake, message=message, case=case.name)]


def _dips_cases(params: Params, rng: random.Random) -> list[Case]:
    m, tile, sms = params["m"], params["tile"], params["sms"]
    sizes = list(range(params["first"], params["last"] + 1, params["step"]))
    shapes = [
        (rng.randint(1, 9000), rng.randint(1, 9000), rng.choice((16, 64, 128, 256)), rng.choice((1, 7, 80, 108, 132)))
        for _ in range(24)
    ]
    others = []
    for _ in range(8):
        t = rng.choice((32, 64, 128))
        step = rng.choice((t // 2, t, 3 * t // 2, 37))
        start = rng.randint(1, 3 * t)
        others.append(
            (rng.randint(t, 20 * t), list(range(start, start + 40 * step, step)), t, rng.choice((7, 24, 80, 108, 132)))
        )
    return [
        Case(
            name="three sizes",
            args=(0, [(m, n, tile, sms) for n in (sizes[0], sizes[7], sizes[-1])]),
            part="efficiency",
        ),
        Case(name="the sizes shown", args=(1, [(m, sizes, tile, sms)]), part="dips"),
        unseen(
            rng,
            "efficiency",
            0,
            "other outputs",
            [*shapes, (128, 128, 128, 1), (1, 1, 128, 132), (4096, 4096, 128, 132)],
        ),
        unseen(rng, "dips", 1, "other sweeps", others),
    ]


QUANTISATION = Judging(
    shares={"values:efficiency": 0.25, "values:dips": 0.2, "generality:efficiency": 0.3, "generality:dips": 0.25},
    cases=_dips_cases,
    verdicts=_dips_verdicts,
    why="Work comes in whole tiles and tiles in whole rounds, so the time of a matmul is a staircase in its size while its FLOP "
    "grow smoothly: just after each step some of what is paid for is idle. One column more can start a round of which nearly all "
    "processors sit out. That is why vocabularies are padded and widths are multiples of 128.",
    pytorch="`torch.nn.Embedding` and the output layer are often padded to a multiple of 64 or 128 for this reason.",
)
