from course_chapters.ch03.exercises.judges.shared import MEMORIES, PEAKS
from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, one_apart, plain, shown, unseen
from course_grader.judging.per_row import Column, shares, table
from course_lib.estimate.units import bytes_text, flops_text

_READS = {False: "", True: ", reads only"}  # by `reads_only`


def _size_text(size: int) -> str:
    return f"{size} byte{'' if size == 1 else 's'}"


right = Worked("matmul-intensity")


def _intensity_cases(params: Params, rng: Random) -> list[Case]:
    side, size = params["side"], params["size"]
    rows, columns = (1, 7, 64, 1000, 8192), (5, 512, 11_008, 50_257)
    shapes = draw_rows(rng, 14, rows, (3, 128, 4096, 28_672), columns, (1, 2, 4, 8), (False, True))
    shapes += one_apart(shapes, right[0])
    both = (False, True)
    rates = draw_rows(rng, 10, PEAKS, MEMORIES)
    return [
        shown("the square product", "values:matmul", 0, [(side, side, side, size, reads) for reads in both]),
        shown("the ReLU", "values:relu", 1, [(size, reads) for reads in both]),
        shown(params["device"], "values:ridge", 2, [(params["flops"], params["bandwidth"])]),
        plain("relu", 1, "two more elements", [(1, False), (8, True)]),
        unseen(rng, "matmul", 0, "other shapes", [*shapes, (1, 1, 1, 1, False), (4096, 4096, 4096, 1, False)]),
        unseen(rng, "relu", 1, "other elements", [(size, reads) for size in (1, 2, 4, 8, 16) for reads in both]),
        unseen(rng, "ridge", 2, "other devices", rates),
    ]


JUDGING = Judging(
    shares=shares(matmul=(0.2, 0.3), relu=(0.1, 0.15), ridge=(0.1, 0.15)),
    cases=_intensity_cases,
    verdicts=table(
        Column(
            "matmul",
            "FLOP per byte",
            words=lambda m, k, n, s, r: f"({m:,} × {k:,}) by ({k:,} × {n:,}) at {_size_text(s)}{_READS[r]}",
            hint="Which of the three matrices are read, and which are written?",
        ),
        Column("relu", "FLOP per byte", words=lambda s, r: f"elements of {_size_text(s)}{_READS[r]}"),
        Column("ridge", "FLOP per byte", words=lambda f, b: f"{flops_text(f)}/s and {bytes_text(b)}/s"),
        right=right,
    ),
    why="The FLOP grow with the volume m·k·n, the bytes with the three faces. So a large product lies far to the "
    "right of any ridge, and an elementwise operation of any size far to the left. For a product of side 4,096 in "
    "16 bits, the reads alone give 2,048; with the output it is 1,365. Say which bytes you count whenever you "
    "quote an intensity.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP; PyTorch does not count the bytes for you.",
)

ANSWERS = r'''# %% right: worked
output = params("matmul-intensity").output  # leave as is: "written" or "accumulated": what your variant does with C


def matmul_intensity(m: int, k: int, n: int, size: int, reads_only: bool) -> float:
    """FLOP per byte of C = A·B with A (m, k), B (k, n) and `size` bytes per element."""
    passes = (output == "accumulated") + (not reads_only)
    return 2 * m * k * n / (size * (m * k + k * n + passes * m * n))


def relu_intensity(size: int, reads_only: bool) -> float:
    """FLOP per byte of max(x, 0), one FLOP per element of `size` bytes."""
    return 1 / size if reads_only else 1 / (2 * size)


def ridge(flops: float, bandwidth: float) -> float:
    """FLOP per byte at which FLOP/s and bytes/s are equally busy."""
    return flops / bandwidth
# %% right: harmonic sides, numpy
# ~ 2 * m * k * n / (size * (m * k + k * n + passes * m * n)) ==> np.float64(2) / size / (1 / n + 1 / m + passes / k)
# ~ 1 / size if reads_only else 1 / (2 * size) ==> np.divide(1, size + (1 - reads_only) * size)
# ~ return flops / bandwidth ==> return np.float64(flops) / bandwidth
# %% wrong: no write => values
# > the output is written too.
# ~ (output == "accumulated") + (not reads_only) ==> output == "accumulated"
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 1 / size
# %% wrong: write counted => values
# > only reads count here.
# ~ (output == "accumulated") + (not reads_only) ==> (output == "accumulated") + 1
# ~ return 1 / size if reads_only else ==> return
# %% wrong: turned round => values
# > `reads_only` leaves the writes out; this counts them then, and only then.
# ~ (not reads_only) ==> reads_only
# ~ 1 / size if reads_only ==> 1 / size if not reads_only
# %% wrong: other output => values
# > the output is not counted as often as it moves. Here {{output_words}}.
# ~ output == "accumulated" ==> output != "accumulated"
# %% wrong: multiply adds => values
# > a multiplication and an addition are two FLOP.
# ~ 2 * m * k * n / ==> m * k * n /
# %% wrong: elements => values
# > this is FLOP per element, not per byte.
# ~ (size * (m * k + k * n + passes * m * n)) ==> (m * k + k * n + passes * m * n)
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 1 if reads_only else 1 / 2
# %% wrong: two flop => values
# > a comparison with zero is one FLOP here.
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 2 / size if reads_only else 2 / (2 * size)
# %% wrong: square only => generality
# > this is right for square matrices alone.
# ~ 2 * m * k * n / (size * (m * k + k * n + passes * m * n)) ==> 2 * m / (size * (2 + passes))
# %% wrong: two bytes => values
# > an element has `size` bytes, which is not always 2.
# ~ (size * (m * k + k * n + passes * m * n)) ==> (2 * (m * k + k * n + passes * m * n))
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 0.5 if reads_only else 0.25
# %% wrong: the shown numbers => values two-bytes
# ~ 2 * m * k * n / (size * (m * k + k * n + passes * m * n)) ==> 2048.0 if reads_only else 1365.33
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 0.5 if reads_only else 0.25
# ~ return flops / bandwidth ==> return 295.22
# %% wrong: upside down => values
# > this is bytes per FLOP.
# ~ 2 * m * k * n / (size * (m * k + k * n + passes * m * n))
# ~~ ==> size * (m * k + k * n + passes * m * n) / (2 * m * k * n)
# ~ 1 / size if reads_only else 1 / (2 * size) ==> size if reads_only else 2 * size
# ~ return flops / bandwidth ==> return bandwidth / flops
# %% wrong: sparse peak => values
# > the peak given is dense already; do not double it.
# ~ return flops / bandwidth ==> return 2 * flops / bandwidth
# %% wrong: mixed units => values
# > TFLOP over GB is too small by a factor of 1,000.
# ~ return flops / bandwidth ==> return flops / bandwidth / 1000
# %% half: the ridge is not there yet => 1.5
# ~ return flops / bandwidth ==> raise NotImplementedError
# %% wrong: sizes of one to eight bytes by heart => generality raised
# ~ 1 / size if reads_only else 1 / (2 * size) ==> {1: 1, 2: 1 / 2, 4: 1 / 4, 8: 1 / 8}[size] / (2 - reads_only)
'''
