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
