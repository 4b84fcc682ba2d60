# %% right: the peak of all GPUs
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps
    return 6 * params * tokens / seconds / (gpus * gpu_flops)


# %% right: the tokens of one GPU over one peak, numpy
import numpy as np


def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens_per_gpu_s = np.float64(sequence) * (batch / gpus) * steps / seconds
    return (2 + 4) * params * tokens_per_gpu_s / gpu_flops


# %% right: any variant
from course_lib import params

EACH = params("mfu-bug").scope == "each"


def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps * (gpus if EACH else 1)
    return 6 * params * tokens / seconds / gpus / gpu_flops


# %% wrong: as published => values as-printed unless scope=each  from: the peak of all GPUs
# ~ (gpus * gpu_flops) ==> gpu_flops


# %% wrong: sparse peak and the GPUs => values sparse-peak
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 6 * params * sequence * batch * steps / seconds / (2 * gpu_flops * gpus)


# %% wrong: recomputation counted => values recompute-counted
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 8 * params * sequence * batch * steps / seconds / (gpus * gpu_flops)


# %% wrong: in per cent => values percent
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 600 * params * sequence * batch * steps / seconds / (gpus * gpu_flops)


# %% wrong: one GPU's tokens over all peaks => values twice-by-gpus
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 6 * params * sequence * (batch / gpus) * steps / seconds / (gpus * gpu_flops)


# %% wrong: tokens of one step => values one-step
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 6 * params * sequence * batch / seconds / (gpus * gpu_flops)


# %% wrong: sixteen by heart => values -
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 6 * params * sequence * batch * steps / seconds / (16 * gpu_flops)


# %% wrong: one sequence for each GPU => values -
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 6 * params * sequence * steps / seconds / gpu_flops


# %% wrong: right for the example only => values only-the-example
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return 0.02836


# %% wrong: asks the library => raised
from course_lib import compute


def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    return compute.mfu(params, sequence * batch * steps / seconds, gpus, gpu_flops)
