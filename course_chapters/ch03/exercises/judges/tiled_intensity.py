import math
import random

from course_grader.judging import EXACT, Case, Column, Judging, Params, Worked, one_apart, shares, shown, table, unseen

right = Worked("tiled-intensity")


def _size_words(m: int, k: int, n: int) -> str:
    return f"({m:,} × {k:,}) by ({k:,} × {n:,})"


def _tile_alike(params: Params) -> tuple[bool, bool]:
    """Whether tiles fit the side shown, and whether a third of the cache is a square: rounding shows in the second
    alone."""
    return params["side"] % params["tile"] == 0, 3 * right[1](params["cache"]) ** 2 == params["cache"]


def _countable(m: int, k: int, n: int, tile: int) -> bool:
    """Whether each side is longer than a tile, and a loop over the tiles is short."""
    return min(m, k, n) > tile and math.prod(math.ceil(side / tile) for side in (m, k, n)) < 700


def _cases(params: Params, rng: random.Random) -> list[Case]:
    side, store = params["side"], params["cache"]

    def sized(tiles: int, whole: bool) -> int:
        return tiles * rng.randint(2, 7) + (0 if whole else rng.randint(1, tiles - 1))

    tiles_even, tiles_odd = (2, 8, 16, 32, 64), (3, 5, 16, 48, 100)
    even = [(*(sized(t, True) for _ in range(3)), t) for t in (rng.choice(tiles_even) for _ in range(10))]
    odd = [(*(sized(t, False) for _ in range(3)), t) for t in (rng.choice(tiles_odd) for _ in range(10))]
    caches = [3, 11, 12, 27, 48, 300, 12_288, 3 * 64**2, 3 * 64**2 - 1, 3 * 4096**2 - 1]
    caches += [rng.randint(4, 200_000) for _ in range(12)]
    deep = []
    for _ in range(12):
        store_of = rng.choice((12, 300, 3072, 12_288, 24_000))
        t = right[1](store_of)
        sides = [t * rng.randint(2, 6) + rng.randint(low, t) for low in (1, 0, 1)]
        deep.append((*sides, store_of, rng.choice((1, 2, 4, 8))))
    odd += one_apart(odd, right[0], _countable)
    deep += one_apart(deep, right[2], lambda m, k, n, c, _: _countable(m, k, n, right[1](c)))
    return [
        shown("the tiles shown", "values:moves", 0, [(side, side, side, params["tile"])]),
        shown(f"{params['cache_kib']} KiB", "values:tile", 1, [(store,)]),
        shown("the best tile", "values:intensity", 2, [(side, side, side, store, params["size"])]),
        unseen(rng, "moves", 0, "other tiles", even + odd),
        unseen(rng, "tile", 1, "other caches", [(c,) for c in caches]),
        unseen(rng, "intensity", 2, "other products", deep),
    ]


JUDGING = Judging(
    alike=_tile_alike,
    shares=shares(moves=(0.15, 0.25), tile=(0.1, 0.15), intensity=(0.15, 0.2)),
    cases=_cases,
    verdicts=table(
        Column(
            "moves",
            "elements",
            rel=EXACT,
            hint="Count how often each tile of A, B and C moves.",
            words=lambda m, k, n, t: f"{_size_words(m, k, n)} in tiles of {t}",
        ),
        Column("tile", "elements along a side", rel=EXACT, words=lambda c: f"a cache of {c:,} elements"),
        Column(
            "intensity",
            "FLOP per byte",
            words=lambda m, k, n, c, s: (
                f"{_size_words(m, k, n)} through {c:,} elements of {s} byte{'' if s == 1 else 's'}"
            ),
        ),
        right=right,
    ),
    why="A matrix moves as often as there are tiles along the side that it does not have: every element of A is used "
    "for every column of C, one tile width of columns at a time. Three tiles share the cache, so the side and the "
    "intensity grow with the square root of the cache: four times the cache halves the bytes. Keeping C writes it "
    "once; keeping A moves C in and out at every step along k.",
    pytorch="`torch.matmul` picks tiles for the GPU's shared memory; in Triton you choose `BLOCK_M`, `BLOCK_N` "
    "and `BLOCK_K`.",
)

ANSWERS = r'''# %% right: worked
stays = params("tiled-intensity").stays  # leave as is: "C" or "A": which tile stays in the cache in your variant


def tile_moves(m: int, k: int, n: int, tile: int) -> int:
    """Elements of A (m, k), B (k, n) and C (m, n) loaded and written, all together."""
    rows, steps, columns = (math.ceil(side / tile) for side in (m, k, n))
    if stays == "C":
        return m * k * columns + k * n * rows + m * n
    return m * k + k * n * rows + m * n * (2 * steps - 1)


def best_tile(cache: int) -> int:
    """The largest whole tile side for which three tiles fit into `cache` elements."""
    return math.isqrt(cache // 3)


def tiled_intensity(m: int, k: int, n: int, cache: int, size: int) -> float:
    """FLOP per byte with the best tile, elements of `size` bytes."""
    return 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache)))
# %% right: a loop that counts  from: worked
def tile_moves(m, k, n, tile):
    rows, steps, columns = ([min(tile, side - start) for start in range(0, side, tile)] for side in (m, k, n))
    moved = 0
    for height in rows:
        moved += sum(height * k + k * width + height * width for width in columns if stays == "C")
        for at, depth in enumerate(steps if stays == "A" else []):
            moved += height * depth + depth * n + height * n * (1 + (at > 0))
    return moved
# %% wrong: infinite cache => values
# > this requires an infinite cache.
# ~ rows, steps, columns = (math.ceil(side / tile) for side in (m, k, n)) ==> rows = steps = columns = 1
# %% wrong: inputs once => values
# > this loads both inputs once and no output.
# ~ m * k * columns + k * n * rows + m * n ==> m * k + k * n
# ~ m * k + k * n * rows + m * n * (2 * steps - 1) ==> m * k + k * n
# %% wrong: no tiles => values
# > this is the count without any cache.
# ~ m * k * columns + k * n * rows + m * n ==> 2 * m * k * n
# ~ m * k + k * n * rows + m * n * (2 * steps - 1) ==> 2 * m * k * n
# %% wrong: output forgotten => values
# > the output is missing.
# ~ columns + k * n * rows + m * n ==> columns + k * n * rows
# ~ m * k + k * n * rows + m * n * (2 * steps - 1) ==> m * k + k * n * rows
# %% wrong: output read first => values
# > a new output tile is empty.
# ~ columns + k * n * rows + m * n ==> columns + k * n * rows + 2 * m * n
# ~ (2 * steps - 1) ==> 2 * steps
# %% wrong: written only once => values  unless stays=C
# > a tile of C does not stay; it moves at every step along k.
# ~ m * n * (2 * steps - 1) ==> m * n
# %% wrong: other matrix stays => values
# > the wrong tile stays; here it is one of {{stays}}.
# ~ stays == "C" ==> stays != "C"
# %% wrong: swapped sides => generality
# > B moves once for every row of tiles; this counts tiles along the other side.
# ~ rows, steps, columns ==> columns, steps, rows
# %% wrong: not rounded => values
# > round the tiles up.
# ~ math.ceil(side / tile) ==> side / tile
# %% wrong: rounded down => values
# > the last tile is missing.
# ~ math.ceil(side / tile) ==> side // tile
# %% wrong: bytes => values
# > these are bytes; give elements.
# ~ m * k * columns + k * n * rows + m * n ==> 2 * (m * k * columns + k * n * rows + m * n)
# ~ m * k + k * n * rows + m * n * (2 * steps - 1) ==> 2 * (m * k + k * n * rows + m * n * (2 * steps - 1))
# %% wrong: one tile => values
# > one tile would fill the cache; three are needed.
# ~ math.isqrt(cache // 3) ==> math.isqrt(cache)
# %% wrong: two tiles => values
# > two tiles would fit; C needs one too.
# ~ math.isqrt(cache // 3) ==> math.isqrt(cache // 2)
# %% wrong: not whole => values
# > a side is a whole number.
# ~ math.isqrt(cache // 3) ==> math.sqrt(cache / 3)
# %% wrong: rounded up => values
# > three of these do not fit.
# ~ math.isqrt(cache // 3) ==> math.isqrt(cache // 3) + 1
# %% wrong: elements of a tile => values
# > this is the number of elements of a tile; what is its side?
# ~ math.isqrt(cache // 3) ==> cache // 3
# ~ best_tile(cache))) ==> math.isqrt(cache // 3)))
# %% wrong: side over three => values
# > three times the area is not three times the side.
# ~ math.isqrt(cache // 3) ==> max(1, math.isqrt(cache) // 3)
# %% wrong: multiply adds => values
# > a multiplication and an addition are two FLOP.
# ~ 2 * m * k * n / (size ==> m * k * n / (size
# %% wrong: elements => values
# > this is FLOP per element, not per byte.
# ~ (size * tile_moves(m, k, n, best_tile(cache))) ==> tile_moves(m, k, n, best_tile(cache))
# %% wrong: bytes for elements => values
# > the cache is given in elements already.
# ~ best_tile(cache))) ==> best_tile(max(3, cache // size))))
# %% wrong: tiles of 299 at most => generality -
# ~ math.isqrt(cache // 3) ==> min(math.isqrt(cache // 3), 299)
# %% half: only the tile is right => 2
# ~ return m * k * columns + k * n * rows + m * n ==> return 0
# ~ return m * k + k * n * rows + m * n * (2 * steps - 1) ==> return 0
# ~ 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache))) ==> None
# %% half: moves and tile, not yet the intensity => 5
# ~ return 2 * m * k * n / (size * tile_moves(m, k, n, best_tile(cache))) ==> raise NotImplementedError
'''
