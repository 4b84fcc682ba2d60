import math

from course_lib import roofline


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
