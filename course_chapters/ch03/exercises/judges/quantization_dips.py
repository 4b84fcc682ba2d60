import random
from collections.abc import Sequence

from course_grader.judging import WHOLE, Case, Judging, Params, Worked, Wrong, draw_rows, one_apart, shown, unseen
from course_grader.judging.per_row import Column, Series, shares, table

right = Worked("quantization-dips")


def _dips_apart(got: Sequence[float], want: Sequence[float]) -> Wrong:
    extra, missing = len(set(got) - set(want)), len(set(want) - set(got))
    if not extra and not missing:
        return Wrong("order", "the sizes are right, but not in rising order or not once each.", where=WHOLE)
    return Wrong("", f"{extra} of the sizes are not dips, and {missing} dips are missing.", where=WHOLE)


def _side(rng: random.Random) -> int:
    return rng.randint(1, 9000)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    m, tile, sms = params["m"], params["tile"], params["sms"]
    sizes = list(range(params["first"], params["last"] + 1, params["step"]))
    shapes = draw_rows(rng, 24, _side, _side, (16, 64, 128, 256), (1, 7, 80, 108, 132, 1000))
    shapes += one_apart(shapes, right[0])
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
    others += one_apart(others, right[1])
    others += [(128, [64, at, 100, 128, 129, 192], 64, 1) for at in (65, 64)]  # the second size falls, or it does not
    others += [(128, [200], 64, 4), (64, [64 * 10**5, 64 * 10**5 + 1], 64, 1)]  # one size; a tiny fall
    three = [(m, n, tile, sms) for n in (sizes[0], sizes[7], sizes[-1])]
    return [
        shown("three sizes", "values:efficiency", 0, three),
        shown("the sizes shown", "values:dips", 1, [(m, sizes, tile, sms)]),
        unseen(rng, "efficiency", 0, "other outputs", shapes),
        unseen(rng, "dips", 1, "other sweeps", others),
    ]


JUDGING = Judging(
    shares=shares(efficiency=(0.25, 0.3), dips=(0.2, 0.25)),
    cases=_cases,
    verdicts=table(
        Column(
            "efficiency",
            "(a fraction of one)",
            words=lambda m, n, t, s: f"{m:,} × {n:,} in tiles of {t} on {s} processors",
            hint="The cost counts whole tiles and whole rounds of them.",
        ),
        Series(
            "dips", rel=0.0, words=lambda m, sizes, t, s: f"m = {m:,}, tiles of {t}, {s} processors", apart=_dips_apart
        ),
        right=right,
    ),
    why="Work comes in whole tiles and tiles in whole rounds, so the time of a matmul grows in steps while its FLOP "
    "grow smoothly. Just after each step some processors are idle: one more column can start a round in which "
    "almost all of them are. For this reason vocabularies are padded, and widths are multiples of 128.",
    pytorch="`torch.nn.Embedding` and the output layer are often padded to a multiple of 64 or 128 for this reason.",
)

ANSWERS = r'''# %% right: worked
slots = params("quantization-dips").slots  # leave as is: tiles that a processor takes at a time in your variant


def efficiency(m: int, n: int, tile: int, sms: int) -> float:
    """Useful elements of an output of (m, n) divided by the elements computed, as a fraction of one."""
    tiles = math.ceil(m / tile) * math.ceil(n / tile)
    waves = math.ceil(tiles / (sms * slots))
    return m * n / (waves * sms * slots * tile**2)


def dips(m: int, sizes: list[int], tile: int, sms: int) -> list[int]:
    """Those of `sizes` at which the efficiency is lower than at the size before."""
    kept = [efficiency(m, n, tile, sms) for n in sizes]
    return [n for n, before, now in zip(sizes[1:], kept, kept[1:], strict=False) if now < before]
# %% right: numpy, whole numbers  from: worked
def efficiency(m, n, tile, sms):
    tiles = -(-m // tile) * -(-n // tile)
    return np.float64(m) * n / (np.ceil(tiles / sms / slots) * sms * slots * tile * tile)


def dips(m, sizes, tile, sms):
    n = np.array(sizes)
    paid = -(-(-(-m // tile) * -(-n // tile)) // (sms * slots))
    return n[1:][n[1:] * paid[:-1] < n[:-1] * paid[1:]]
# %% wrong: no waves => values
# > a partly filled round costs a full one.
# ~ waves * sms * slots * tile**2 ==> tiles * tile**2
# %% wrong: no tiles => values
# > part of a tile at an edge costs a whole one.
# ~ math.ceil(m / tile) * math.ceil(n / tile) ==> m * n / tile**2
# %% wrong: other slots => values
# > a processor takes {{slots_words}}; this counts another number.
# ~ params("quantization-dips").slots ==> 3 - params("quantization-dips").slots
# %% wrong: upside down => values
# > this is computed over useful.
# ~ return m * n / (waves * sms * slots * tile**2) ==> return (waves * sms * slots * tile**2) / (m * n)
# %% wrong: one => values
# > whole tiles and whole rounds waste a part.
# ~ return m * n / (waves * sms * slots * tile**2) ==> return 1.0
# %% wrong: last round only => values
# > this is the last round alone.
# ~ return m * n / (waves * sms * slots * tile**2) ==> return (tiles % (sms * slots) or sms * slots) / (sms * slots)
# %% wrong: smooth => values
# > this curve is not smooth; it falls where a tile or a round starts.
# ~ if now < before] ==> if now < 0]
# %% wrong: one early => values
# > these are the sizes before the dips.
# ~ zip(sizes[1:], ==> zip(sizes,
# %% wrong: positions => values
# > these are positions in the list; give the sizes.
# ~ zip(sizes[1:], ==> zip(range(1, len(sizes)),
# %% wrong: positions before => values positions
# ~ zip(sizes[1:], ==> zip(range(len(sizes)),
# %% wrong: everything => values
# > at some of these sizes the efficiency does not fall.
# ~ if now < before] ==> if now]
# %% wrong: first size => values
# > the first size has no size before it.
# ~ zip(sizes[1:], kept, kept[1:], strict=False) ==> zip(sizes, kept[-1:] + kept, kept, strict=False)
# %% wrong: rises => values
# > the efficiency rises, or stays, at these sizes.
# ~ now < before ==> now >= before
# %% wrong: equal is lower => generality
# > a size at which the efficiency stays the same is no dip.
# ~ now < before ==> now <= before
# %% wrong: lower than the best before => values
# > this compares with the best of all sizes before, not with the size just before.
# ~ if now < before] ==> if now < max(kept[: sizes.index(n)])]
# %% wrong: 132 by heart => values -
# ~ tiles / (sms * slots) ==> tiles / (132 * slots)
# ~ waves * sms ==> waves * 132
# %% wrong: never looks at the second size => generality -
# ~ if now < before ==> if now < before and n != sizes[1]
# %% wrong: a small fall is none => generality -
# ~ now < before ==> now < before * (1 - 1e-4)
# %% wrong: remembers a sweep by its ends => generality -
#       kept = [efficiency(m, n, tile, sms) for n in sizes]
# +     kept = dips.__dict__.setdefault(f"{m, len(sizes), sizes[-1], tile, sms}", kept)
# %% half: the dips are not there yet => 3.75
# ~ return [n for n, before, now in zip(sizes[1:], kept, kept[1:], strict=False) if now < before]
# ~~ ==> raise NotImplementedError
'''
