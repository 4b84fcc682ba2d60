# %% right: counted
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
# -     moved = m * k + k * n + (0 if reads_only else m * n)
# +     moved = m * k + k * n + (READ + (not reads_only)) * m * n
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return (0.5 + 0.5 * reads_only) / size

# %% wrong: inputs only => values no-write  from: counted
# -     moved = m * k + k * n + (0 if reads_only else m * n)
# +     moved = m * k + k * n
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return 1 / size

# %% wrong: the write always counts => values write-counted  from: counted
# -     moved = m * k + k * n + (0 if reads_only else m * n)
# +     moved = m * k + k * n + m * n
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return 1 / (2 * size)

# %% wrong: the output is read too => values other-output unless output=accumulated  from: counted
# -     moved = m * k + k * n + (0 if reads_only else m * n)
# +     moved = m * k + k * n + (1 + (not reads_only)) * m * n

# %% wrong: multiply-adds => values multiply-adds  from: counted
# -     return 2 * m * k * n / (size * moved)
# +     return m * k * n / (size * moved)

# %% wrong: elements for bytes => values elements  from: counted
# -     return 2 * m * k * n / (size * moved)
# +     return 2 * m * k * n / moved
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return 1 if reads_only else 1 / 2

# %% wrong: a square formula => generality square-only  from: counted
# -     return 2 * m * k * n / (size * moved)
# +     return 2 * m / ((2 if reads_only else 3) * size)

# %% wrong: two bytes by heart => values two-bytes  from: counted
# -     return 2 * m * k * n / (size * moved)
# +     return 2 * m * k * n / (2 * moved)
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return 0.5 if reads_only else 0.25

# %% wrong: the shown numbers => values -  from: two bytes by heart
# -     return 2 * m * k * n / (2 * moved)
# +     return 2048.0 if reads_only else 1365.33
# -     return flops / bandwidth
# +     return 295.22

# %% wrong: bytes per FLOP => values upside-down  from: counted
# -     return 2 * m * k * n / (size * moved)
# +     return size * moved / (2 * m * k * n)
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return size if reads_only else 2 * size
# -     return flops / bandwidth
# +     return bandwidth / flops

# %% wrong: the sparse ridge => values sparse-peak  from: counted
# -     return flops / bandwidth
# +     return 2 * flops / bandwidth

# %% wrong: asks the library => raised  from: counted
# - def matmul_intensity(m, k, n, size, reads_only):
# + from course_lib import roofline
# + def matmul_intensity(m, k, n, size, reads_only):
# -     return 2 * m * k * n / (size * moved)
# +     return roofline.matmul(m, k, n, size, write=not reads_only).memory_intensity
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     return roofline.relu(10, size, write=not reads_only).memory_intensity
# -     return flops / bandwidth
# +     return roofline.ridge(flops, bandwidth)

# %% wrong: untouched => not-answered  from: counted
# -     return 2 * m * k * n / (size * moved)
# +     raise NotImplementedError
# -     return 1 / size if reads_only else 1 / (2 * size)
# +     raise NotImplementedError
# -     return flops / bandwidth
# +     raise NotImplementedError

# %% half: the ridge is not there yet => 1.5  from: counted
# -     return flops / bandwidth
# +     raise NotImplementedError
