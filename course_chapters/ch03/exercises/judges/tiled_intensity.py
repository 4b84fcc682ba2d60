"""Judge of tiled-intensity: a cache that is not infinite."""

import math
import random
from collections.abc import Callable
from functools import cache, partial

from course_chapters.ch03.exercises.judges.shared import up
from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.mistakes import scaled, shifted
from course_grader.judging.per_row import EXACT, Column, shares, table
from course_grader.judging.random_inputs import one_apart, unseen
from course_grader.records import Case


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
        return moves(m, k, n, t) - m * n * (1 if stays == "C" else 2 * up(k, t) - 1)

    def written_once(m: int, k: int, n: int, t: int) -> int | None:
        return m * k + k * n * up(m, t) + m * n if stays == "A" else None

    def swapped(m: int, k: int, n: int, t: int) -> int | None:
        return m * k * up(m, t) + k * n * up(n, t) + m * n if stays == "C" else None

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
    return min(m, k, n) > tile and math.prod(up(side, tile) for side in (m, k, n)) < 700


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
    moves = partial(_moves_by, params["stays"], up)
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


JUDGING = Judging(
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

ANSWERS = r"""import math

from course_lib.estimate import roofline


# %% right: columns and rows of tiles
def tile_moves(m, k, n, tile):
    columns, rows = math.ceil(n / tile), math.ceil(m / tile)
    return m * k * columns + k * n * rows + m * n


def best_tile(cache):
    return math.isqrt(cache // 3)


def tiled_intensity(m, k, n, cache, size):
    return 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache)))


# %% right: a loop that counts
def tile_moves(m, k, n, tile):
    moved = 0
    for i in range(0, m, tile):
        height = min(tile, m - i)
        for j in range(0, n, tile):
            width = min(tile, n - j)
            for l in range(0, k, tile):
                depth = min(tile, k - l)
                moved += height * depth + depth * width
            moved += height * width
    return moved


def best_tile(cache):
    side = 1
    while 3 * (side + 1) ** 2 <= cache:
        side += 1
    return float(side)


def tiled_intensity(m, k, n, cache, size):
    return 2.0 * m * k * n / size / tile_moves(m, k, n, int(best_tile(cache)))


# %% right: any variant  from: columns and rows of tiles
# - def tile_moves(m, k, n, tile):
# + from course_lib import params
# + STAYS = params("tiled-intensity").stays
# + def tile_moves(m, k, n, tile):
# -     columns, rows = math.ceil(n / tile), math.ceil(m / tile)
# -     return m * k * columns + k * n * rows + m * n
# +     columns, rows, steps = (-(-side // tile) for side in (n, m, k))
# +     if STAYS == "C":
# +         return m * k * columns + k * n * rows + m * n
# +     return m * k + k * n * rows + m * n * (2 * steps - 1)
# ~ math.isqrt(cache // 3) ==> int((cache / 3) ** 0.5 + 1e-9)

# %% wrong: an infinite cache => values infinite-cache  from: columns and rows of tiles
# ~ m * k * columns + k * n * rows ==> m * k + k * n

# %% wrong: no cache at all => values no-tiles  from: columns and rows of tiles
# ~ m * k * columns + k * n * rows + m * n ==> 2 * m * k * n
# ~ 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache))) ==> 1 / size

# %% wrong: forgets the output => values output-forgotten  from: columns and rows of tiles
# ~ k * n * rows + m * n ==> k * n * rows

# %% wrong: A stays => values other-matrix-stays unless stays=A  from: columns and rows of tiles
# ~ rows = math.ceil(n / tile), math.ceil(m / tile) ==> rows, steps = (math.ceil(side / tile) for side in (n, m, k))
# ~ * columns + k * n * rows + m * n ==> + k * n * rows + m * n * (2 * steps - 1)

# %% wrong: reads the output first => values output-read-first  from: columns and rows of tiles
# ~ k * n * rows + m * n ==> k * n * rows + 2 * m * n

# %% wrong: one tile fills the cache => values one-tile  from: columns and rows of tiles
# ~ (cache // 3) ==> (cache)

# %% wrong: a fraction of a tile => values not-whole  from: columns and rows of tiles
# ~ math.isqrt(cache // 3) ==> math.sqrt(cache / 3)

# %% wrong: tiles are not rounded => generality not-rounded  from: columns and rows of tiles
# -     columns, rows = math.ceil(n / tile), math.ceil(m / tile)
# -     return m * k * columns + k * n * rows + m * n
# +     return m * k * n / tile + k * n * m / tile + m * n
# -     return 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache)))
# +     columns, rows = math.ceil(n / best_tile(cache)), math.ceil(m / best_tile(cache))
# +     return 2 * m * k * n / (size * (m * k * columns + k * n * rows + m * n))

# %% wrong: the last tile is forgotten => generality rounded-down  from: tiles are not rounded
# ~ n / tile + k * n * m / tile ==> (n // tile) + k * n * (m // tile)

# %% wrong: sides are swapped => generality swapped-sides  from: tiles are not rounded
# ~ n / tile + k * n * m / tile ==> math.ceil(m / tile) + k * n * math.ceil(n / tile)

# %% wrong: the cache in bytes => values bytes-for-elements  from: columns and rows of tiles
# ~ best_tile(cache))) ==> best_tile(cache // size)))

# %% wrong: asks the library => raised  from: columns and rows of tiles
# ~ m * k * columns + k * n * rows ==> roofline.tile_loads(m, k, n, tile, tile)
# ~ math.isqrt(cache // 3) ==> roofline.largest_tile(cache)
# ~ 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache))) ==> roofline.tiled_intensity(n, best_tile(cache), size)

# %% half: only the tile is right => 2  from: columns and rows of tiles
# ~ return m * k * columns + k * n * rows + m * n ==> return 0
# ~ 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache))) ==> None

# %% half: moves and tile, not yet the intensity => 5  from: columns and rows of tiles
# ~ return 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache))) ==> raise NotImplementedError

# %% wrong: tiles of 299 at most => generality -  from: columns and rows of tiles
# ~ math.isqrt(cache // 3) ==> min(math.isqrt(cache // 3), 299)
"""
