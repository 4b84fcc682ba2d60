"""Judge of square-intensity: one matmul, two counts."""

import random

from course_chapters.ch03.exercises.judges.shared import MEMORIES, PEAKS
from course_chapters.ch03.exercises.square_intensity import PAST
from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, Word, table
from course_grader.judging.random_inputs import draw_rows, one_apart, plain, unseen
from course_grader.records import Case
from course_lib.estimate.units import bytes_text, flops_text

right = Worked("square-intensity")
SIZES = (1, 2, 4, 8)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    one, own = (params["side"], params["size"]), (params["flops"], params["bandwidth"])
    counts = draw_rows(rng, 12, (1, 3, 64, 1000, 4096, 50_000), SIZES)
    middling = (8, 100, 256, 300, 400, 500, 600, 800, 1000, 1600, 2400, 100_000)  # near the ridges of these devices
    places = draw_rows(rng, 24, middling, SIZES, PEAKS, MEMORIES)
    edges = []  # at a ridge that is a whole number, each count equal to it, and one side further
    for size, ridge in draw_rows(rng, 3, SIZES, (128, 256, 512)):
        sides = (size * ridge - 1, size * ridge, size * ridge + 1, 3 * size * ridge // 2, 3 * size * ridge // 2 + 1)
        edges += [(side, size, ridge * 4e12, 4e12) for side in sides]
    return [
        shown("the square product", "values:counts", 0, [one]),
        shown(params["device"], "values:ridge", 1, [(*one, *own), (700, 2, *own)]),
        shown("another device", "values:ridge", 1, [(700, 2, 125e12, 0.9e12), (150, 1, 125e12, 0.9e12)]),
        plain("counts", 0, "three more products", draw_rows(rng, 3, (512, 1024, 5120), SIZES)),
        plain("ridge", 1, "three sizes", [(600, size, 989e12, 3.35e12) for size in (1, 2, 4)]),
        unseen(rng, "counts", 0, "other products", [*counts, *one_apart(counts, right[0])]),
        unseen(rng, "ridge", 1, "other devices", [*places, *one_apart(places, right[1])]),
        unseen(rng, "ridge", 1, "at the ridge", edges),
    ]


JUDGING = Judging(
    shares="values:counts 0.3, values:ridge 0.2, generality:counts 0.2, generality:ridge 0.3",
    cases=_cases,
    verdicts=table(
        [
            Column(
                part="counts",
                unit="FLOP per byte",
                want=want,
                words=lambda n, s, what=what: f"n = {n:,}, {s} B, {what}",
            )
            for what, want in (
                ("reads only", lambda n, size: right[0](n, size)[0]),
                ("with the write", lambda n, size: right[0](n, size)[1]),
            )
        ],
        Word(
            part="ridge",
            choices=PAST,
            want=right[1],
            words=lambda n, s, f, b: f"n = {n:,} at {s} B on {flops_text(f)}/s and {bytes_text(b)}/s",
        ),
    ),
    why="Both counts grow with n: n / size for the reads alone, and two thirds of that with the write. So they disagree only "
    "for sides between 1 and 1.5 times size × ridge. At n = 4,096 in 16 bits they are 2,048 and 1,365 FLOP per byte, "
    "and both lie far past the ridge of an H100; at n = 700 only the first lies past it.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP; PyTorch does not count the bytes for you.",
)

ANSWERS = r'''from course_lib.estimate import roofline


# %% right: worked
def both_counts(n: int, size: int) -> tuple[float, float]:
    """FLOP per byte of a product of side `n` with elements of `size` bytes: (reads only, with the write)."""
    ### BEGIN SOLUTION
    flop, matrix = 2 * n**3, size * n**2
    return flop / (2 * matrix), flop / (3 * matrix)
    ### END SOLUTION


def past_ridge(n: int, size: int, flops: float, bandwidth: float) -> str:
    """Which counts lie past the ridge: "both", "reads only" or "neither"."""
    ### BEGIN SOLUTION
    larger, smaller = both_counts(n, size)
    ridge = flops / bandwidth
    if smaller > ridge:
        return "both"
    return "reads only" if larger > ridge else "neither"
    ### END SOLUTION

# %% right: in closed form, times compared
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> n / size, n / 1.5 / size
# ~ ridge = flops / bandwidth ==> ridge = bandwidth / flops
# ~ if smaller > ridge ==> if 1 < smaller * ridge
# ~ if larger > ridge ==> if 1 < larger * ridge
# %% wrong: multiply adds => values
# > a multiplication and an addition are two FLOP.
# ~ 2 * n**3 ==> n**3
# %% wrong: elements => values
# > this is FLOP per element, not per byte.
# ~ size * n**2 ==> n**2
# %% wrong: two bytes => values
# > an element has `size` bytes, which is not always 2.
# ~ size * n**2 ==> 2 * n**2
# %% wrong: the other order => values
# > the pair begins with the count of the reads alone.
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> flop / (3 * matrix), flop / (2 * matrix)
# %% wrong: one matrix read => values
# > A and B are both read.
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> flop / matrix, flop / (2 * matrix)
# %% wrong: no write => values
# > the second count has the write of C too.
# ~ flop / (3 * matrix) ==> flop / (2 * matrix)
# %% wrong: the output read => values
# > C is written and never read.
# ~ flop / (3 * matrix) ==> flop / (4 * matrix)
# %% wrong: upside down => values
# > this is bytes per FLOP.
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> 2 * matrix / flop, 3 * matrix / flop
# %% wrong: the shown numbers => values -
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> 2048.0, 4096 / 3
# %% wrong: at the ridge => generality
# > a count equal to the ridge is not past it.
# ~ if smaller > ridge ==> if smaller >= ridge
# ~ if larger > ridge ==> if larger >= ridge
# %% wrong: the larger count for both => values
# > the two counts need not lie on the same side.
# ~ if smaller > ridge ==> if larger > ridge
# %% wrong: the smaller count for both => values
# > look at the count of the reads alone too.
# ~ if larger > ridge ==> if smaller > ridge
# %% wrong: this side of it => values
# > these are the counts that are not past the ridge.
# ~ if smaller > ridge ==> if larger < ridge
# ~ if larger > ridge ==> if smaller < ridge
# %% wrong: the ridge of an H100 => values
# > the ridge is that of the device given, not always an H100's.
# ~ flops / bandwidth ==> 989.4e12 / 3.35e12
# %% wrong: ridge upside down => values
# > the ridge is FLOP/s per byte/s, not the reverse.
# ~ flops / bandwidth ==> bandwidth / flops
# %% wrong: asks the library => raised
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> tuple(roofline.matmul(n, n, n, size, write=write).memory_intensity for write in (False, True))
# ~ flops / bandwidth ==> roofline.ridge(flops, bandwidth)
# %% half: the counts alone => 1.5
# ~ larger, smaller = both_counts(n, size) ==> raise NotImplementedError
'''
