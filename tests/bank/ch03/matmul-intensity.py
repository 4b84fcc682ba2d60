# %% right: counted
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (size * (m * k + k * n + m * n))


def relu_intensity(size):
    return 1 / (2 * size)


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% right: harmonic sides, numpy
import numpy as np


def matmul_intensity(m, k, n, size):
    return np.float64(2) / size / (1 / n + 1 / m + 1 / k)


def relu_intensity(size):
    flop, read, written = 1, size, size
    return np.divide(flop, read + written)


def ridge(flops, bandwidth):
    return np.float64(flops) / bandwidth


# %% right: any variant
from course_lib import params

TIMES = 2 if params("matmul-intensity").output == "accumulated" else 1


def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (size * (m * k + k * n + TIMES * m * n))


def relu_intensity(size):
    return 0.5 / size


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: inputs only => values no-write
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (size * (m * k + k * n))


def relu_intensity(size):
    return 1 / size


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: the output is read too => values other-output unless output=accumulated
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (size * (m * k + k * n + 2 * m * n))


def relu_intensity(size):
    return 1 / (2 * size)


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: multiply-adds => values multiply-adds
def matmul_intensity(m, k, n, size):
    return m * k * n / (size * (m * k + k * n + m * n))


def relu_intensity(size):
    return 1 / (2 * size)


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: elements for bytes => values elements
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (m * k + k * n + m * n)


def relu_intensity(size):
    return 1 / 2


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: a square formula => generality square-only
def matmul_intensity(m, k, n, size):
    return 2 * m / (3 * size)


def relu_intensity(size):
    return 1 / (2 * size)


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: two bytes by heart => values no-write
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (2 * (m * k + k * n + m * n))


def relu_intensity(size):
    return 0.25


def ridge(flops, bandwidth):
    return flops / bandwidth


# %% wrong: the shown numbers => values -
def matmul_intensity(m, k, n, size):
    return 1365.33


def relu_intensity(size):
    return 0.25


def ridge(flops, bandwidth):
    return 295.22


# %% wrong: bytes per FLOP => values upside-down
def matmul_intensity(m, k, n, size):
    return size * (m * k + k * n + m * n) / (2 * m * k * n)


def relu_intensity(size):
    return 2 * size


def ridge(flops, bandwidth):
    return bandwidth / flops


# %% wrong: the sparse ridge => values sparse-peak
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (size * (m * k + k * n + m * n))


def relu_intensity(size):
    return 1 / (2 * size)


def ridge(flops, bandwidth):
    return 2 * flops / bandwidth


# %% wrong: asks the library => raised
from course_lib import roofline


def matmul_intensity(m, k, n, size):
    return roofline.matmul(m, k, n, size).memory_intensity


def relu_intensity(size):
    return roofline.relu(10, size).memory_intensity


def ridge(flops, bandwidth):
    return roofline.ridge(flops, bandwidth)


# %% half: the ridge is not there yet => 1.5
def matmul_intensity(m, k, n, size):
    return 2 * m * k * n / (size * (m * k + k * n + m * n))


def relu_intensity(size):
    return 1 / (2 * size)


def ridge(flops, bandwidth):
    raise NotImplementedError


# %% wrong: untouched => not-answered
def matmul_intensity(m, k, n, size):
    raise NotImplementedError


def relu_intensity(size):
    raise NotImplementedError


def ridge(flops, bandwidth):
    raise NotImplementedError
