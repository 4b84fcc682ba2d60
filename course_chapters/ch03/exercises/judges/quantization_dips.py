"""Judge of quantization-dips: whole tiles, whole waves."""

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from course_chapters.ch03.exercises.judges.shared import up
from course_grader.judging import Fault, Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.mistakes import scaled
from course_grader.judging.per_row import Column, Series, table
from course_grader.judging.random_inputs import draw_rows, one_apart, unseen
from course_grader.records import Case

_SLOTS = {1: "one tile", 2: "two tiles"}


def share_kept(slots: int, m: int, n: int, tile: int, sms: int) -> float:
    """Useful elements divided by computed ones."""
    waves = up(up(m, tile) * up(n, tile), sms * slots)
    return m * n / (waves * sms * slots * tile * tile)


def falls(slots: int, m: int, sizes: Sequence[int], tile: int, sms: int) -> list[int]:
    """The sizes at which the share is lower than at the size before, by whole numbers."""
    return _falls(sizes, lambda n: up(up(m, tile) * up(n, tile), sms * slots))


def _falls(sizes: Sequence[int], paid: Callable[[int], int]) -> list[int]:
    """The sizes n at which n / paid(n) is lower than at the size before."""
    return [n for before, n in pairwise(sizes) if n * paid(before) < before * paid(n)]


def _share_column(slots: int) -> Column:
    kept = partial(share_kept, slots)

    def no_waves(m: int, n: int, t: int, s: int) -> float:
        return m * n / (up(m, t) * up(n, t) * t * t)

    def no_tiles(m: int, n: int, t: int, s: int) -> float:
        return m * n / (math.ceil(m * n / (t * t) / (s * slots)) * s * slots * t * t)

    def last_round(m: int, n: int, t: int, s: int) -> float:
        return ((up(m, t) * up(n, t)) % (s * slots) or s * slots) / (s * slots)

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
                lambda m, sizes, t, s: _falls(sizes, lambda n: up(n, t)),
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


JUDGING = Judging(
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

ANSWERS = r"""import math

from course_lib.estimate import roofline


# %% right: tiles, waves, paid
def efficiency(m, n, tile, sms):
    tiles = math.ceil(m / tile) * math.ceil(n / tile)
    waves = math.ceil(tiles / sms)
    return m * n / (waves * sms * tile**2)


def dips(m, sizes, tile, sms):
    share = [efficiency(m, n, tile, sms) for n in sizes]
    return [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]]


# %% right: numpy, whole numbers
import numpy as np


def efficiency(m, n, tile, sms):
    tiles = -(-m // tile) * -(-n // tile)
    return np.float64(m) * n / (np.ceil(tiles / sms) * sms * tile * tile)


def dips(m, sizes, tile, sms):
    n = np.array(sizes)
    paid = -(-(-(-m // tile) * -(-n // tile)) // sms)
    return n[1:][n[1:] * paid[:-1] < n[:-1] * paid[1:]]


# %% right: any variant  from: tiles, waves, paid
# - def efficiency(m, n, tile, sms):
# + from course_lib import params
# + SLOTS = params("quantization-dips").slots
# + def efficiency(m, n, tile, sms):
# +     sms *= SLOTS

# %% wrong: tiles only => values no-waves  from: tiles, waves, paid
# ~ waves * sms * tile ==> tiles * tile

# %% wrong: no tiles, only waves => values no-tiles  from: tiles, waves, paid
# ~ math.ceil(m / tile) * math.ceil(n / tile) ==> m * n / tile**2

# %% wrong: a smooth curve => values smooth  from: tiles, waves, paid
# ~ [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]] ==> []

# %% wrong: the sizes before => values one-early  from: tiles, waves, paid
# ~ [sizes[i] for ==> [sizes[i - 1] for

# %% wrong: positions => values positions  from: tiles, waves, paid
# ~ [sizes[i] for ==> [i for

# %% wrong: two tiles at a time => values other-slots unless slots=2  from: tiles, waves, paid
# ~ tiles / sms ==> tiles / (2 * sms)
# ~ (waves * sms ==> (waves * 2 * sms

# %% wrong: in per cent => values percent  from: tiles, waves, paid
# ~ return m * n ==> return 100 * m * n

# %% wrong: the area over the area => generality no-tiles  from: tiles, waves, paid
# ~ math.ceil(m / tile) * math.ceil(n / tile) ==> math.ceil(m * n / tile**2)
# ~ efficiency(m, n, tile, sms) for ==> m * n / math.ceil(math.ceil(m / tile) * math.ceil(n / tile) / sms) for

# %% wrong: 132 by heart => values -  from: tiles, waves, paid
# ~ tiles / sms ==> tiles / 132
# ~ waves * sms ==> waves * 132

# %% wrong: asks the library => raised  from: tiles, waves, paid
# ~ m * n / (waves * sms * tile**2) ==> roofline.quantization(m, n, tile, tile, sms)
# ~ [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]] ==> roofline.dips(sizes, share)

# %% half: the dips are not there yet => 3.75  from: tiles, waves, paid
# ~ return [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]] ==> raise NotImplementedError

# %% wrong: never looks at the second size => generality -  from: tiles, waves, paid
# ~ range(1, len(sizes)) ==> range(2, len(sizes))

# %% wrong: a small fall is none => generality -  from: tiles, waves, paid
# ~ share[i] < share[i - 1]] ==> share[i] < share[i - 1] * (1 - 1e-4)]

# %% wrong: remembers a sweep by its ends => generality -  from: tiles, waves, paid
# - def dips(m, sizes, tile, sms):
# + SHARES = {}
# + def dips(m, sizes, tile, sms):
#       share = [efficiency(m, n, tile, sms) for n in sizes]
# +     share = SHARES.setdefault((m, len(sizes), sizes[-1], tile, sms), share)
"""
