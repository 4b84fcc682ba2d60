# %% right: the peak of all GPUs
def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps
    return 6 * params * tokens / seconds / (gpus * gpu_flops)


# %% right: any variant
from course_lib import params

EACH = params("mfu-bug").scope == "each"


def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
    tokens = sequence * batch * steps * (gpus if EACH else 1)
    return 6 * params * tokens / seconds / gpus / gpu_flops


# %% wrong: as published => values as-printed unless scope=each  from: the peak of all GPUs
# ~ (gpus * gpu_flops) ==> gpu_flops


# %% wrong: sparse peak and the GPUs => values sparse-peak  from: the peak of all GPUs
# ~ (gpus * gpu_flops) ==> (2 * gpu_flops * gpus)

# %% wrong: recomputation counted => values recompute-counted  from: the peak of all GPUs
# ~ return 6 ==> return 8

# %% wrong: in per cent => values percent  from: the peak of all GPUs
# ~ return 6 ==> return 600

# %% wrong: one GPU's tokens over all peaks => values twice-by-gpus  from: the peak of all GPUs
# ~ sequence * batch ==> sequence * (batch / gpus)

# %% wrong: tokens of one step => values one-step  from: the peak of all GPUs
# ~ batch * steps ==> batch

# %% wrong: sixteen by heart => values -  from: the peak of all GPUs
# ~ (gpus * ==> (16 *

# %% wrong: one sequence for each GPU => values -  from: the peak of all GPUs
# ~ batch * steps ==> steps
# ~ (gpus * gpu_flops) ==> gpu_flops

# %% wrong: right for the example only => values only-the-example  from: the peak of all GPUs
# ~ 6 * params * tokens / seconds / (gpus * gpu_flops) ==> 0.02836

# %% wrong: asks the library => raised  from: the peak of all GPUs
#   def mfu_fixed(params, sequence, batch, steps, seconds, gpus, gpu_flops):
# +     from course_lib import compute
# ~ 6 * params * tokens / seconds / (gpus * gpu_flops) ==> compute.mfu(params, tokens / seconds, gpus, gpu_flops)
