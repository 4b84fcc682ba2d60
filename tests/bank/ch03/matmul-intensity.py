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


# %% right: any variant  from: counted
# - def matmul_intensity(m, k, n, size):
# + from course_lib import params
# + TIMES = 2 if params("matmul-intensity").output == "accumulated" else 1
# + def matmul_intensity(m, k, n, size):
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return 2 * m * k * n / (size * (m * k + k * n + TIMES * m * n))
# -     return 1 / (2 * size)
# +     return 0.5 / size

# %% wrong: inputs only => values no-write  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return 2 * m * k * n / (size * (m * k + k * n))
# -     return 1 / (2 * size)
# +     return 1 / size

# %% wrong: the output is read too => values other-output unless output=accumulated  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return 2 * m * k * n / (size * (m * k + k * n + 2 * m * n))

# %% wrong: multiply-adds => values multiply-adds  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return m * k * n / (size * (m * k + k * n + m * n))

# %% wrong: elements for bytes => values elements  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return 2 * m * k * n / (m * k + k * n + m * n)
# -     return 1 / (2 * size)
# +     return 1 / 2

# %% wrong: a square formula => generality square-only  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return 2 * m / (3 * size)

# %% wrong: two bytes by heart => values no-write  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return 2 * m * k * n / (2 * (m * k + k * n + m * n))
# -     return 1 / (2 * size)
# +     return 0.25

# %% wrong: the shown numbers => values -  from: two bytes by heart
# -     return 2 * m * k * n / (2 * (m * k + k * n + m * n))
# +     return 1365.33
# -     return flops / bandwidth
# +     return 295.22

# %% wrong: bytes per FLOP => values upside-down  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return size * (m * k + k * n + m * n) / (2 * m * k * n)
# -     return 1 / (2 * size)
# +     return 2 * size
# -     return flops / bandwidth
# +     return bandwidth / flops

# %% wrong: the sparse ridge => values sparse-peak  from: counted
# -     return flops / bandwidth
# +     return 2 * flops / bandwidth

# %% wrong: asks the library => raised  from: counted
# - def matmul_intensity(m, k, n, size):
# + from course_lib import roofline
# + def matmul_intensity(m, k, n, size):
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     return roofline.matmul(m, k, n, size).memory_intensity
# -     return 1 / (2 * size)
# +     return roofline.relu(10, size).memory_intensity
# -     return flops / bandwidth
# +     return roofline.ridge(flops, bandwidth)

# %% wrong: untouched => not-answered  from: counted
# -     return 2 * m * k * n / (size * (m * k + k * n + m * n))
# +     raise NotImplementedError
# -     return 1 / (2 * size)
# +     raise NotImplementedError
# -     return flops / bandwidth
# +     raise NotImplementedError

# %% half: the ridge is not there yet => 1.5  from: counted
# -     return flops / bandwidth
# +     raise NotImplementedError
