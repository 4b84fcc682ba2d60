"""Judges of the tiles: moves are counted by walking the loops with one slot a matrix, dips by counting whole waves."""

import math
import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise

from course_lib.judging import Fault, Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, Series, shares, table
from course_lib.judging.draws import draw_rows, one_apart, unseen
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case

_SLOTS = {1: "one tile", 2: "two tiles"}


@cache
def counted_moves(stays: str, m: int, k: int, n: int, tile: int) -> int:
    """Elements loaded and written, counted in the loops; the cache has one slot of a tile for each matrix."""

    rows, depths, widths = (list(enumerate(_sides(length, tile))) for length in (m, k, n))
    if stays == "C":
        steps = [(row, depth, width) for row in rows for width in widths for depth in depths]
    else:
        steps = [(row, depth, width) for row in rows for depth in depths for width in widths]
    slots: dict[str, tuple[int, int]] = {}
    moved = 0
    for (i, height), (step, depth), (j, width) in steps:
        for matrix, place, elements in (("A", (i, step), height * depth), ("B", (step, j), depth * width)):
            moved += elements if slots.get(matrix) != place else 0
            slots[matrix] = place
        times = (step == len(depths) - 1) if stays == "C" else 1 + (step > 0)  # that this tile of C moves
        moved += times * height * width
    return moved


def _sides(length: int, tile: int) -> list[int]:
    """The sides of the tiles along a length."""
    return [min(tile, length - start) for start in range(0, length, tile)]


def side_of(cache_elements: int) -> int:
    """The largest tile of which three fit."""
    return math.isqrt(cache_elements // 3)


def _intensity(stays: str, m: int, k: int, n: int, cache_elements: int, size: int) -> float:
    return 2 * m * k * n / (size * counted_moves(stays, m, k, n, side_of(cache_elements)))


def _up(side: int, tile: int) -> int:
    """Tiles along a side."""
    return -(-side // tile)


def _moves_by(stays: str, tiles: Callable[[int, int], float], m: int, k: int, n: int, tile: int) -> float:
    """Moves by the formula, with `tiles(side, tile)` tiles along a side, which a mistake may leave unrounded."""
    if stays == "C":
        return m * k * tiles(n, tile) + k * n * tiles(m, tile) + m * n
    return m * k + k * n * tiles(m, tile) + m * n * (2 * tiles(k, tile) - 1)


def _size_words(m: int, k: int, n: int) -> str:
    return f"({m:,} × {k:,}) by ({k:,} × {n:,})"


def _moves_column(stays: str) -> Column:
    other = "A" if stays == "C" else "C"
    moves = partial(counted_moves, stays)

    def no_output(m: int, k: int, n: int, t: int) -> int:
        return moves(m, k, n, t) - m * n * (1 if stays == "C" else 2 * _up(k, t) - 1)

    def written_once(m: int, k: int, n: int, t: int) -> int | None:
        return m * k + k * n * _up(m, t) + m * n if stays == "A" else None

    def swapped(m: int, k: int, n: int, t: int) -> int | None:
        return m * k * _up(m, t) + k * n * _up(n, t) + m * n if stays == "C" else None

    return Column(
        part="moves",
        unit="elements",
        want=moves,
        rel=EXACT,
        hint="Count how often each tile of A, B and C moves.",
        words=lambda m, k, n, t: f"{_size_words(m, k, n)} in tiles of {t}",
        mistakes=(
            Mistake("infinite-cache", lambda m, k, n, t: m * k + k * n + m * n, "this requires an infinite cache."),
            Mistake("infinite-cache", lambda m, k, n, t: m * k + k * n, "this loads both inputs once and no output."),
            Mistake("no-tiles", lambda m, k, n, t: 2 * m * k * n, "this is the count without any cache."),
            Mistake("output-forgotten", no_output, "the output is missing."),
            Mistake("output-read-first", lambda m, k, n, t: moves(m, k, n, t) + m * n, "a new output tile is empty."),
            Mistake("written-only-once", written_once, "a tile of C does not stay; it moves at every step along k."),
            Mistake("other-matrix-stays", partial(counted_moves, other), f"this keeps a tile of {other}, not {stays}."),
            Mistake("swapped-sides", swapped, "A moves once for every column of tiles, B once for every row."),
            Mistake("not-rounded", partial(_moves_by, stays, lambda side, t: side / t), "round the tiles up."),
            Mistake("rounded-down", partial(_moves_by, stays, lambda side, t: side // t), "the last tile is missing."),
            Mistake("bytes", scaled(moves, 2), "these are bytes; give elements."),
        ),
    )


_TILE = Column(
    part="tile",
    unit="elements along a side",
    want=side_of,
    rel=EXACT,
    words=lambda c: f"a cache of {c:,} elements",
    mistakes=(
        Mistake("one-tile", math.isqrt, "one tile would fit; three are needed."),
        Mistake("two-tiles", lambda c: math.isqrt(c // 2), "two tiles would fit; C needs one too."),
        Mistake("not-whole", lambda c: math.sqrt(c / 3), "a side is a whole number."),
        Mistake("rounded-up", shifted(side_of, 1), "three of these do not fit."),
        Mistake("elements-of-a-tile", lambda c: c // 3, "this is the number of elements of a tile; what is its side?"),
        Mistake("side-over-three", lambda c: math.isqrt(c) // 3, "three times the area is not three times the side."),
    ),
)


def _intensity_column(stays: str) -> Column:
    other = "A" if stays == "C" else "C"
    right = partial(_intensity, stays)

    def infinite_cache(m: int, k: int, n: int, c: int, s: int) -> float:
        return 2 * m * k * n / (s * (m * k + k * n + m * n))

    def one_tile(m: int, k: int, n: int, c: int, s: int) -> float:
        return 2 * m * k * n / (s * counted_moves(stays, m, k, n, math.isqrt(c)))

    def bytes_for_elements(m: int, k: int, n: int, c: int, s: int) -> float | None:
        return right(m, k, n, c // s, s) if c // s >= 12 else None

    return Column(
        part="intensity",
        unit="FLOP per byte",
        want=right,
        words=lambda m, k, n, c, s: f"{_size_words(m, k, n)} through {c:,} elements of {s} byte{'' if s == 1 else 's'}",
        mistakes=(
            Mistake("infinite-cache", infinite_cache, "this is the intensity with an infinite cache."),
            Mistake("multiply-adds", scaled(right, 1 / 2), "a multiplication and an addition are two FLOP."),
            Mistake("elements", lambda *row: right(*row) * row[4], "this is FLOP per element, not per byte."),
            Mistake("one-tile", one_tile, "one tile fills the whole cache; three of them must fit."),
            Mistake("bytes-for-elements", bytes_for_elements, "the cache is given in elements already."),
            Mistake("other-matrix-stays", partial(_intensity, other), f"this keeps a tile of {other}."),
        ),
    )


def _tile_alike(params: Params) -> tuple[bool, bool]:
    """Whether tiles fit the side shown, and whether a third of the cache is a square: rounding shows in the second alone."""
    return params["side"] % params["tile"] == 0, 3 * side_of(params["cache"]) ** 2 == params["cache"]


def _countable(m: int, k: int, n: int, tile: int) -> bool:
    """Whether each side is longer than a tile, and the loops are short enough to be walked."""
    return min(m, k, n) > tile and math.prod(_up(side, tile) for side in (m, k, n)) < 700


def _tile_cases(params: Params, rng: random.Random) -> list[Case]:
    side, tile, store, size = (params[name] for name in ("side", "tile", "cache", "size"))

    def sized(tiles: int, whole: bool) -> int:
        """A side of at least two tiles."""
        return tiles * rng.randint(2, 7) + (0 if whole else rng.randint(1, tiles - 1))

    tiles_even, tiles_odd = (2, 8, 16, 32, 64), (3, 5, 16, 48, 100)
    even = [(*(sized(t, True) for _ in range(3)), t) for t in (rng.choice(tiles_even) for _ in range(10))]
    odd = [(*(sized(t, False) for _ in range(3)), t) for t in (rng.choice(tiles_odd) for _ in range(10))]
    caches = [
        3,
        11,
        12,
        27,
        48,
        300,
        12_288,
        3 * 64**2,
        3 * 64**2 - 1,
        3 * 4096**2 - 1,
        *(rng.randint(4, 200_000) for _ in range(12)),
    ]
    deep = []
    for _ in range(12):
        store_of = rng.choice((12, 300, 3072, 12_288, 24_000))
        t = side_of(store_of)
        sides = [t * rng.randint(2, 6) + rng.randint(low, t) for low in (1, 0, 1)]
        deep.append((*sides, store_of, rng.choice((1, 2, 4, 8))))
    moves = partial(_moves_by, params["stays"], _up)
    odd += one_apart(odd, moves, _countable)
    deep += one_apart(
        deep,
        lambda m, k, n, c, s: m * k * n / s / moves(m, k, n, side_of(c)),
        lambda *row: _countable(*row[:3], side_of(row[3])),
    )
    return [
        shown("the tiles shown", "values:moves", 0, [(side, side, side, tile)]),
        shown(f"{params['cache_kib']} KiB", "values:tile", 1, [(store,)]),
        shown("the best tile", "values:intensity", 2, [(side, side, side, store, size)]),
        unseen(rng, "moves", 0, "other tiles", even + odd),
        unseen(rng, "tile", 1, "other caches", [(c,) for c in caches]),
        unseen(rng, "intensity", 2, "other products", deep),
    ]


TILED_INTENSITY = Judging(
    alike=_tile_alike,
    shares=shares(moves=(0.15, 0.25), tile=(0.1, 0.15), intensity=(0.15, 0.2)),
    cases=_tile_cases,
    verdicts=lambda params, *given: table(_moves_column(params["stays"]), _TILE, _intensity_column(params["stays"]))(
        params, *given
    ),
    why="A matrix moves as often as there are tiles along the side that it does not have: every element of A is used for every "
    "column of C, one tile width of columns at a time. Three tiles share the cache, so the side and the intensity grow with the "
    "square root of the cache: four times the cache halves the bytes. Keeping C writes it once; keeping A moves C in and out at "
    "every step along k.",
    pytorch="`torch.matmul` picks tiles for the GPU's shared memory; in Triton you choose `BLOCK_M`, `BLOCK_N` and `BLOCK_K`.",
)


def share_kept(slots: int, m: int, n: int, tile: int, sms: int) -> float:
    """Useful elements divided by computed ones."""
    waves = _up(_up(m, tile) * _up(n, tile), sms * slots)
    return m * n / (waves * sms * slots * tile * tile)


def falls(slots: int, m: int, sizes: Sequence[int], tile: int, sms: int) -> list[int]:
    """The sizes at which the share is lower than at the size before, by whole numbers."""
    return _falls(sizes, lambda n: _up(_up(m, tile) * _up(n, tile), sms * slots))


def _falls(sizes: Sequence[int], paid: Callable[[int], int]) -> list[int]:
    """The sizes n at which n / paid(n) is lower than at the size before."""
    return [n for before, n in pairwise(sizes) if n * paid(before) < before * paid(n)]


def _share_column(slots: int) -> Column:
    kept = partial(share_kept, slots)

    def no_waves(m: int, n: int, t: int, s: int) -> float:
        return m * n / (_up(m, t) * _up(n, t) * t * t)

    def no_tiles(m: int, n: int, t: int, s: int) -> float:
        return m * n / (math.ceil(m * n / (t * t) / (s * slots)) * s * slots * t * t)

    def last_round(m: int, n: int, t: int, s: int) -> float:
        return ((_up(m, t) * _up(n, t)) % (s * slots) or s * slots) / (s * slots)

    return Column(
        part="efficiency",
        unit="(a fraction of one)",
        want=kept,
        words=lambda m, n, t, s: f"{m:,} × {n:,} in tiles of {t} on {s} processors",
        hint="The cost counts whole tiles and whole rounds of them.",
        mistakes=(
            Mistake("no-waves", no_waves, "a partly filled round costs a full one."),
            Mistake("no-tiles", no_tiles, "part of a tile at an edge costs a whole one."),
            Mistake("other-slots", partial(share_kept, 3 - slots), f"a processor takes {_SLOTS[slots]} at a time."),
            Mistake("percent", scaled(kept, 100), "this is a percentage; give a fraction of one."),
            Mistake("upside-down", lambda *row: 1 / kept(*row), "this is computed over useful."),
            Mistake("one", lambda *row: 1.0, "whole tiles and whole rounds waste a part."),
            Mistake("last-round-only", last_round, "this is the last round alone."),
        ),
    )


def _dips_column(slots: int) -> Series:
    dips = partial(falls, slots)

    def smooth_area(m: int, sizes: Sequence[int], tile: int, sms: int) -> list[int]:
        return _falls(sizes, lambda n: math.ceil(m * n / tile**2 / (sms * slots)))

    def one_early(m: int, sizes: Sequence[int], tile: int, sms: int) -> list[int]:
        return [sizes[sizes.index(n) - 1] for n in dips(m, sizes, tile, sms)]

    def positions(shift: int) -> Callable[..., list[int]]:
        return lambda m, sizes, *more: [sizes.index(n) - shift for n in dips(m, sizes, *more)]

    in_the_list = "these are positions in the list; give the sizes."
    return Series(
        part="dips",
        want=dips,
        rel=0.0,
        words=lambda m, sizes, t, s: f"m = {m:,}, tiles of {t}, {s} processors",
        apart=_dips_apart,
        mistakes=(
            Mistake("smooth", lambda *row: [], "this curve is not smooth; it falls where a tile or a round starts."),
            Mistake("one-early", one_early, "these are the sizes before the dips."),
            Mistake("positions", positions(0), in_the_list),
            Mistake("positions", positions(1), in_the_list),
            Mistake(
                "no-waves",
                lambda m, sizes, t, s: _falls(sizes, lambda n: _up(n, t)),
                "these are the falls where a tile starts; look where a round starts.",
            ),
            Mistake("no-tiles", smooth_area, "part of a tile at an edge, on either side, costs a whole one."),
            Mistake("other-slots", partial(falls, 3 - slots), "a processor takes another number of tiles."),
            Mistake("everything", lambda m, sizes, t, s: sizes, "the efficiency does not fall everywhere."),
            Mistake(
                "rises",
                lambda m, sizes, *more: [n for n in sizes[1:] if n not in dips(m, sizes, *more)],
                "the efficiency rises at these sizes.",
            ),
        ),
    )


def _dips_apart(got: Sequence[float], want: Sequence[float]) -> Fault:
    """How a list differs from the dips."""
    extra, missing = len(set(got) - set(want)), len(set(want) - set(got))
    if not extra and not missing:
        return "order", "the sizes are right, but not in rising order or not once each."
    return "", f"{extra} of the sizes are not dips, and {missing} dips are missing."


def _dips_cases(params: Params, rng: random.Random) -> list[Case]:
    m, tile, sms = params["m"], params["tile"], params["sms"]
    sizes = list(range(params["first"], params["last"] + 1, params["step"]))

    def side(rng: random.Random) -> int:
        return rng.randint(1, 9000)

    shapes = draw_rows(rng, 24, side, side, (16, 64, 128, 256), (1, 7, 80, 108, 132, 1000))
    shapes += one_apart(shapes, partial(share_kept, params["slots"]))
    shapes += [(128, 128, 128, 1), (1, 1, 128, 132), (4096, 4096, 128, 132)]
    others = []
    for _ in range(8):
        t = rng.choice((32, 64, 128))
        step = rng.choice((t // 2, t, 3 * t // 2, 37))
        start = rng.randint(1, 3 * t)
        sweep = list(range(start, start + 40 * step, step))
        others.append((rng.randint(t, 20 * t), sweep, t, rng.choice((7, 24, 80, 108, 132))))
    for m_even, s in ((64, 1), (128, 4)):  # many sizes with exactly the same efficiency as the size before
        others.append((m_even, list(range(64, 1281, 64)), 64, s))
    others += one_apart(others, partial(falls, params["slots"]))
    others += [(64, [64, at, 100, 128, 129, 192], 64, 1) for at in (65, 64)]  # the second size falls, or it does not
    others += [(128, [200], 64, 4), (64, [64 * 10**4, 64 * 10**4 + 1], 64, 1)]  # one size; a fall of a ten-thousandth
    three = [(m, n, tile, sms) for n in (sizes[0], sizes[7], sizes[-1])]
    return [
        shown("three sizes", "values:efficiency", 0, three),
        shown("the sizes shown", "values:dips", 1, [(m, sizes, tile, sms)]),
        unseen(rng, "efficiency", 0, "other outputs", shapes),
        unseen(rng, "dips", 1, "other sweeps", others),
    ]


QUANTIZATION = Judging(
    shares={"values:efficiency": 0.25, "values:dips": 0.2, "generality:efficiency": 0.3, "generality:dips": 0.25},
    cases=_dips_cases,
    verdicts=lambda params, *given: table(_share_column(params["slots"]), _dips_column(params["slots"]))(
        params, *given
    ),
    why="Work comes in whole tiles and tiles in whole rounds, so the time of a matmul grows in steps while its FLOP grow smoothly. "
    "Just after each step some processors are idle: one more column can start a round in which almost all of them are. For this "
    "reason vocabularies are padded, and widths are multiples of 128.",
    pytorch="`torch.nn.Embedding` and the output layer are often padded to a multiple of 64 or 128 for this reason.",
)
