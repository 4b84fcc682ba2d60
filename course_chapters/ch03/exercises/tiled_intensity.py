from course_grader.exercises import Card, Number, Rows, Worth
from course_grader.exercises.snippets import CLOSE

_STAYS = {
    "C": {
        "stays_words": "a tile of **C** stays until it is finished: for each tile of C, the loop goes along k, and "
        "every step loads one tile of A and one of B; the finished tile is written once and "
        "never loaded",
        "loops": "for each row of tiles i:\n    for each column of tiles j:        # C[i, j] stays\n        for each "
        "step l along k:\n"
        "            load A[i, l], load B[l, j]\n        write C[i, j]",
    },
    "A": {
        "stays_words": "a tile of **A** stays until all its products are done: for each tile of A, the loop goes "
        "along n, and every step loads one tile of B, and loads and writes one tile of C (at the first "
        "step along k, C is still empty and only written)",
        "loops": "for each row of tiles i:\n    for each step l along k:           # A[i, l] stays, loaded once\n"
        "        for each column of tiles j:\n            load B[l, j]; load C[i, j] unless l is the first; "
        "write C[i, j]",
    },
}


def _tiled(stays: str, side: int, tile: int, cache_kib: int) -> dict[str, object]:
    sizes = {"side": side, "tile": tile, "cache_kib": cache_kib, "cache": cache_kib * 1024 // 2, "size": 2}
    return {"stays": stays, **_STAYS[stays], **sizes}


CARD = Card(
    title="A cache that is not infinite",
    **Worth(points=20, minutes=20, difficulty=4, importance=5),
    kind="more",
    answers=("tile_moves", "best_tile", "tiled_intensity"),
    text=f"""Count the bytes of a tiled matmul and find the best tile for a cache. “Every input is read once” requires a
cache that holds everything; this one holds three square tiles of t × t elements, one per matrix. Here
{{{{stays_words}}}}.

```text
{{{{loops}}}}
```

- `tile_moves(m, k, n, tile)`: elements loaded and written in total, for A (m, k), B (k, n), C (m, n). Each side is
  longer than a tile but need not be a multiple of it; the last tile of a row is then smaller, and so are its loads.
- `best_tile(cache)`: the largest whole t for which three tiles fit into a cache of `cache` **elements** (3 or more).
- `tiled_intensity(m, k, n, cache, size)`: FLOP per byte with the best tile, elements of `size` bytes.

The visible case has side {{{{side:int}}}}, tiles of {{{{tile:int}}}}, a cache of {{{{cache_kib:int}}}} KiB, which is
{{{{cache:int}}}} elements of 2 bytes. {CLOSE}""",
    hints=(
        "How often is one row of tiles of A loaded while all columns of C are computed?",
        "For each matrix: its elements times how often each of them moves. That count is a number of tiles along the "
        "side that the matrix does *not* have, rounded up; for the tile that stays it is one.",
        "`columns = ceil(n / tile)`, `rows = ceil(m / tile)`; if C stays: `m*k*columns + k*n*rows + m*n`; if A stays: "
        "`m*k + k*n*rows + m*n*(2*steps - 1)` with `steps = ceil(k / tile)`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.tiles:tile_loads, count_loads, tiled_intensity",),
    params=_tiled("C", 4096, 128, 228),
    vary=lambda draw: _tiled(
        "A", draw.choice((3072, 6144)), draw.choice((64, 96, 192)), draw.choice((100, 164, 192, 256))
    ),
    structural="stays",
    returns=Rows(Number("elements"), Number("elements along a side"), Number("FLOP per byte")),
)
