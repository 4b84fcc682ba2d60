from course_chapters.ch03.exercises.shared import CHIPS
from course_grader.exercises import Card, ListOf, Number, Rows, Worth
from course_grader.exercises.snippets import CLOSE
from course_lib.estimate import facts

WAVES = 7  # that the sizes shown go through
_SLOTS = {1: "one tile at a time", 2: "two tiles at a time (so a round has two tiles per processor)"}


def _dips(slots: int, m: int, tile: int, device: str) -> dict[str, object]:
    sms = int(facts.chip(device).sms)
    columns = -(-WAVES * sms * slots // -(-m // tile))  # so many columns of tiles make that many waves
    own = {"slots": slots, "slots_words": _SLOTS[slots], "m": m, "tile": tile, "device": device, "sms": sms}
    return own | {"first": tile, "last": (columns + 2) * tile, "step": tile // 2}


CARD = Card(
    title="Whole tiles, whole waves",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("efficiency", "dips"),
    text=f"""Compute how much of the peak whole tiles and whole rounds leave, and where it drops. An output of m × n is
split into tiles of `tile` × `tile`, and part of a tile costs as much as a whole one. The device processes tiles in
rounds (*waves*): each of `sms` processors takes {{{{slots_words}}}}, and part of a round takes as long as a whole one.
There are no other losses.

- `efficiency(m, n, tile, sms)`: useful elements of the output divided by the elements that were computed, as a fraction
  of one.
- `dips(m, sizes, tile, sms)`: those of `sizes` (a rising list of n) at which the efficiency is **lower** than at the
  size before, as a list, in order. The first size cannot be a dip.

The visible case has m = {{{{m:int}}}}, tiles of {{{{tile:int}}}}, the {{{{sms:int}}}} processors of one {{{{device}}}},
and n from {{{{first:int}}}} to {{{{last:int}}}} in steps of {{{{step:int}}}}. {CLOSE}""",
    hints=(
        "Does a processor without a tile in the last round cost anything?",
        "Tiles along each side, rounded up, multiplied; rounds, rounded up; the cost is the elements "
        "of all rounds on all processors.",
        "`tiles = ceil(m/tile) * ceil(n/tile)`; `waves = ceil(tiles / (sms * at_a_time))`; `m * n / (waves * sms * "
        "at_a_time * tile**2)`; a dip is where this falls.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.tiles:quantization, tiles, waves, dips",),
    params=_dips(1, 2048, 128, "H100 SXM"),
    vary=lambda draw: _dips(2, draw.choice((1536, 3072, 4096)), draw.choice((64, 128, 192)), draw.choice(CHIPS)),
    structural="slots",
    returns=Rows(Number(), ListOf(Number(), what="size")),
)
