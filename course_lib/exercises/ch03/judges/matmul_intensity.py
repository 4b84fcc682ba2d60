"""Judge of matmul-intensity: FLOP per byte, counted."""

import random
from typing import Any

from course_lib.exercises.ch03.judges.shared import MEMORIES, PEAKS
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, shares, table
from course_lib.judging.draws import draw_rows, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.units import GB, TFLOP, bytes_text, flops_text

_ONLY_READS = "only reads count here."
_SIZE = "an element has `size` bytes, which is not always 2."
_READS = {False: "", True: ", reads only"}  # by `reads_only`


def _size_text(size: int) -> str:
    return f"{size} byte{'' if size == 1 else 's'}"


def matmul_bytes(output: str, m: int, k: int, n: int, size: int, reads_only: bool = False) -> int:
    """Bytes that a product moves: both inputs read, the output read if it is added to, and written unless `reads_only`."""
    return size * (m * k + k * n + m * n * ((output == "accumulated") + (not reads_only)))


def _matmul_column(output: str) -> Column:
    def intensity(m: int, k: int, n: int, size: int, reads_only: bool, output: str = output) -> float:
        return 2 * m * k * n / matmul_bytes(output, m, k, n, size, reads_only)

    def other_count(*row: Any) -> float:
        """The value with the other answer to whether the write counts."""
        return intensity(*row[:4], not row[4])

    other, moved = {
        "written": ("accumulated", "this reads the output too, but the output is only written."),
        "accumulated": ("written", "the output has to be read as well, because something is added to it."),
    }[output]
    return Column(
        part="matmul",
        unit="FLOP per byte",
        want=intensity,
        words=lambda m, k, n, s, r: f"({m:,} × {k:,}) by ({k:,} × {n:,}) at {_size_text(s)}{_READS[r]}",
        hint="Which of the three matrices are read, and which are written?",
        mistakes=(
            Mistake("no-write", lambda *row: None if row[4] else other_count(*row), "the output is written too."),
            Mistake("write-counted", lambda *row: other_count(*row) if row[4] else None, _ONLY_READS),
            Mistake("other-output", lambda *row: intensity(*row, other), moved),
            Mistake("multiply-adds", scaled(intensity, 1 / 2), "a multiplication and an addition are two FLOP."),
            Mistake("elements", lambda *row: intensity(*row) * row[3], "this is FLOP per element, not per byte."),
            Mistake("upside-down", lambda *row: 1 / intensity(*row), "this is bytes per FLOP."),
            Mistake("two-bytes", lambda m, k, n, s, r: intensity(m, k, n, 2, r), _SIZE),
            Mistake("square-only", lambda m, k, n, s, r: intensity(m, m, m, s, r), "this is for a square."),
        ),
    )


def _moves(reads_only: bool) -> int:
    """How often ReLU moves each element: it reads it, and writes it if writes count."""
    return 1 if reads_only else 2


_RELU = Column(
    part="relu",
    unit="FLOP per byte",
    want=lambda s, r: 1 / (_moves(r) * s),
    words=lambda s, r: f"elements of {_size_text(s)}{_READS[r]}",
    mistakes=(
        Mistake("no-write", lambda s, r: None if r else 1 / s, "every element is written too."),
        Mistake("write-counted", lambda s, r: 1 / (2 * s) if r else None, _ONLY_READS),
        Mistake("elements", lambda s, r: 1 / _moves(r), "this is FLOP per element moved; give FLOP per byte."),
        Mistake("upside-down", lambda s, r: _moves(r) * s, "this is bytes per FLOP."),
        Mistake("two-bytes", lambda s, r: 1 / (_moves(r) * 2), _SIZE),
        Mistake("two-flop", lambda s, r: 2 / (_moves(r) * s), "a comparison with zero is one FLOP here."),
    ),
)
_RIDGE = Column(
    part="ridge",
    unit="FLOP per byte",
    want=lambda f, b: f / b,
    words=lambda f, b: f"{flops_text(f)}/s and {bytes_text(b)}/s",
    mistakes=(
        Mistake("upside-down", lambda f, b: b / f, "this is bytes per FLOP."),
        Mistake("sparse-peak", lambda f, b: 2 * f / b, "the peak given is dense already; do not double it."),
        Mistake("mixed-units", lambda f, b: (f / TFLOP) / (b / GB), "TFLOP over GB is too small by a factor of 1,000."),
    ),
)


def _intensity_cases(params: Params, rng: random.Random) -> list[Case]:
    side, size = params["side"], params["size"]
    rows, columns = (1, 7, 64, 1000, 8192), (5, 512, 11_008, 50_257)
    shapes = draw_rows(rng, 14, rows, (3, 128, 4096, 28_672), columns, (1, 2, 4, 8), (False, True))
    shapes += one_apart(shapes, _matmul_column(params["output"]).want)
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
    verdicts=lambda params, *given: table(_matmul_column(params["output"]), _RELU, _RIDGE)(params, *given),
    why="The FLOP grow with the volume m·k·n, the bytes with the three faces. So a large product lies far to the right of any "
    "ridge, and an elementwise operation of any size far to the left. For a product of side 4,096 in 16 bits, the reads alone "
    "give 2,048; with the output it is 1,365. Say which bytes you count whenever you quote an intensity.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOP; PyTorch does not count the bytes for you.",
)

ANSWERS = r"""# %% right: counted
def matmul_intensity(m, k, n, size, reads_only):
    moved = m * k + k * n + (0 if reads_only else m * n)
    return 2 * m * k * n / (size * moved)


def relu_intensity(size, reads_only):
    return 1 / size if reads_only else 1 / (2 * size)


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% right: harmonic sides, numpy
import numpy as np


def matmul_intensity(m, k, n, size, reads_only):
    return np.float64(2) / size / (1 / n + 1 / m + (0 if reads_only else 1 / k))


def relu_intensity(size, reads_only):
    flop, read, written = 1, size, (1 - reads_only) * size
    return np.divide(flop, read + written)


def ridge(flops, bandwidth):
    return np.float64(flops) / bandwidth


# %% right: any variant  from: counted
# - def matmul_intensity(m, k, n, size, reads_only):
# + from course_lib import params
# + READ = params("matmul-intensity").output == "accumulated"
# + def matmul_intensity(m, k, n, size, reads_only):
# ~ (0 if reads_only else m * n) ==> (READ + (not reads_only)) * m * n
# ~ 1 / size if reads_only else 1 / (2 * size) ==> (0.5 + 0.5 * reads_only) / size

# %% wrong: inputs only => values no-write  from: counted
# ~ n + (0 if reads_only else m * n) ==> n
# ~ size if reads_only else 1 / (2 * size) ==> size

# %% wrong: the write always counts => values write-counted  from: counted
# ~ (0 if reads_only else m * n) ==> m * n
# ~ return 1 / size if reads_only else 1 / (2 * size) ==> return 1 / (2 * size)

# %% wrong: the output is read too => values other-output unless output=accumulated  from: counted
# ~ (0 if reads_only else m * n) ==> (1 + (not reads_only)) * m * n

# %% wrong: multiply-adds => values multiply-adds  from: counted
# ~ 2 * m ==> m

# %% wrong: elements for bytes => values elements  from: counted
# ~ (size * moved) ==> moved
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 1 if reads_only else 1 / 2

# %% wrong: a square formula => generality square-only  from: counted
# ~ m * k * n / (size * moved) ==> m / ((2 if reads_only else 3) * size)

# %% wrong: two bytes by heart => values two-bytes  from: counted
# ~ n / (size * moved) ==> n / (2 * moved)
# ~ 1 / size if reads_only else 1 / (2 * size) ==> 0.5 if reads_only else 0.25

# %% wrong: the shown numbers => values -  from: two bytes by heart
# ~ 2 * m * k * n / (2 * moved) ==> 2048.0 if reads_only else 1365.33
# ~ flops / bandwidth ==> 295.22

# %% wrong: bytes per FLOP => values upside-down  from: counted
# ~ 2 * m * k * n / (size * moved) ==> size * moved / (2 * m * k * n)
# ~ 1 / size if reads_only else 1 / (2 * size) ==> size if reads_only else 2 * size
# ~ flops / bandwidth ==> bandwidth / flops

# %% wrong: the sparse ridge => values sparse-peak  from: counted
# ~ return flops / bandwidth ==> return 2 * flops / bandwidth

# %% wrong: asks the library => raised  from: counted
# - def matmul_intensity(m, k, n, size, reads_only):
# + from course_lib import roofline
# + def matmul_intensity(m, k, n, size, reads_only):
# ~ 2 * m * k * n / (size * moved) ==> roofline.matmul(m, k, n, size, write=not reads_only).memory_intensity
# ~ 1 / size if reads_only else 1 / (2 * size) ==> roofline.relu(10, size, write=not reads_only).memory_intensity
# ~ flops / bandwidth ==> roofline.ridge(flops, bandwidth)

# %% half: the ridge is not there yet => 1.5  from: counted
# ~ return flops / bandwidth ==> raise NotImplementedError

# %% wrong: sizes of one to eight bytes by heart => generality raised  from: counted
# ~ 1 / size if reads_only else 1 / (2 * size) ==> {1: 1, 2: 1 / 2, 4: 1 / 4, 8: 1 / 8}[size] / (2 - reads_only)
"""
