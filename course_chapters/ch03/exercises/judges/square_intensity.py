from course_chapters.ch03.exercises.judges.shared import MEMORIES, PEAKS
from course_chapters.ch03.exercises.square_intensity import PAST
from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, one_apart, plain, shown, unseen
from course_grader.judging.per_row import Column, Word, shares, table
from course_lib.estimate.units import bytes_text, flops_text

right = Worked("square-intensity")


def _cases(params: Params, rng: Random) -> list[Case]:
    size, own = params["size"], (params["flops"], params["bandwidth"])
    middle = int(size * 1.25 * own[0] / own[1])  # the ridge lies between its two counts
    other = (125e12, 0.9e12)
    near = (8, 100, 256, 300, 400, 500, 600, 800, 1000, 1600, 2400, 100_000)  # sides on both sides of these ridges
    rows = draw_rows(rng, 24, near, (1, 2, 4, 8), PEAKS, MEMORIES)
    at = 256 * size  # here one count equals a ridge of 256, and at 1.5 times the side the other one does
    edges = [(side, size, 256 * 4e12, 4e12) for side in (at - 1, at, at + 1, at * 3 // 2, at * 3 // 2 + 1)]
    return [
        shown(params["device"], "values:reads", 0, [(side, size, *own) for side in (params["side"], middle)]),
        plain("", 0, "another device", [(600, 2, *other), (600, 4, *other), (200, 1, *other), (100, 2, *other)]),
        unseen(rng, "", 0, "other products", [*rows, *one_apart(rows, right), (1, 1, 989e12, 3.35e12)]),
        unseen(rng, "", 0, "at the ridge", edges),
    ]


def _words(n: int, size: int, flops: float, bandwidth: float) -> str:
    return f"n = {n:,} at {size} B on {flops_text(flops)}/s and {bytes_text(bandwidth)}/s"


JUDGING = Judging(
    shares=shares(reads=(0.15, 0.15), writes=(0.15, 0.15), ridge=(0.2, 0.2)),
    cases=_cases,
    verdicts=table(
        [
            Column("reads", "FLOP per byte read", words=_words),
            Column("writes", "FLOP per byte moved", words=_words),
            Word("ridge", PAST, words=_words),
        ],
        right=right,
    ),
    why="The counts are n / size and two thirds of that. They disagree only for sides between 1 and 1.5 times size × "
    "ridge. At n = 4,096 in 16 bits they are 2,048 and 1,365 FLOP per byte, both far past the ridge of an H100; "
    "at n = 700, one is.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP; PyTorch does not count the bytes for you.",
)

ANSWERS = r'''# %% right: worked
def both_counts(n: int, size: int, flops: float, bandwidth: float) -> tuple[float, float, str]:
    """FLOP per byte (reads only, with the write), and which of them are past the ridge."""
    flop, matrix, ridge = 2 * n**3, size * n**2, flops / bandwidth
    reads, writes = flop / (2 * matrix), flop / (3 * matrix)
    if writes > ridge:
        return reads, writes, "both"
    return reads, writes, "reads only" if reads > ridge else "neither"
# %% right: in closed form
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> n / size, n / 1.5 / size
# %% wrong: multiply adds => values
# > a multiplication and an addition are two FLOP.
# ~ 2 * n**3 ==> n**3
# %% wrong: elements => values
# > this is per element, not per byte.
# ~ size * n**2 ==> n**2
# %% wrong: two bytes => values
# > an element has `size` bytes, which is not always 2.
# ~ size * n**2 ==> 2 * n**2
# %% wrong: the other order => values
# > the count of the reads alone comes first.
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> flop / (3 * matrix), flop / (2 * matrix)
# %% wrong: one matrix read => values
# > A and B are both read.
# ~ flop / (2 * matrix), flop / (3 * matrix) ==> flop / matrix, flop / (2 * matrix)
# %% wrong: the output read => values
# > C is written and never read.
# ~ flop / (3 * matrix) ==> flop / (4 * matrix)
# %% wrong: at the ridge => generality
# > a count that equals the ridge is not past it.
# ~ writes > ridge ==> writes >= ridge
# ~ reads > ridge ==> reads >= ridge
# %% wrong: the reads for both => values
# > the two counts need not lie on the same side of the ridge.
# ~ if writes > ridge ==> if reads > ridge
# %% wrong: ridge upside down => values
# > the ridge is FLOP/s divided by bytes/s.
# ~ flops / bandwidth ==> bandwidth / flops
'''
