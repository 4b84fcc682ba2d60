import math

WEEK = 7 * 86_400


# %% right: doubles, then bisects
def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    def weeks_on(n):
        return 6 * params * tokens / (n * gpu_flops * mfu * keep ** math.log2(n)) / WEEK

    high = 1
    while weeks_on(high) > weeks:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if weeks_on(middle) <= weeks else (middle, high)
    return weeks_on(gpus), high


# %% right: solved for N
import numpy as np


def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    alone = 6 * params * tokens / (gpu_flops * mfu) / WEEK
    power = 1 + np.log2(keep)
    return [alone / gpus**power, max(1, np.ceil((alone / weeks) ** (1 / power)))]


# %% right: any variant
from course_lib import params

LAW = params("years-to-weeks").law


def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    alone = 6 * params * tokens / (gpu_flops * mfu) / WEEK

    def weeks_on(n):
        if LAW == "serial":
            return alone * ((1 - keep) + keep / n)
        return alone / n / keep ** math.log2(n)

    if LAW == "serial":
        spare = weeks / alone - (1 - keep)
        return weeks_on(gpus), (max(1, math.ceil(keep / spare)) if spare > 0 else None)
    return weeks_on(gpus), max(1, math.ceil((alone / weeks) ** (1 / (1 + math.log2(keep)))))


# %% wrong: perfect scaling => values perfect-scaling  from: solved for N
# ~ 1 + np.log2(keep) ==> 1

# %% wrong: corrected once => values one-pass  from: solved for N
# ~ max(1, np.ceil((alone / weeks) ** (1 / power))) ==> np.ceil(np.ceil(alone / weeks) ** (2 - power))

# %% wrong: a power of two => values power-of-two  from: doubles, then bisects
# ~ while high - low > 1: ==> while False:

# %% wrong: the loss once => values keep-once  from: solved for N
# ~ / (gpu_flops * mfu) / WEEK ==> / (gpu_flops * mfu * keep) / WEEK
# ~ 1 + np.log2(keep) ==> 1

# %% wrong: natural logarithm => values natural-logarithm  from: solved for N
# ~ np.log2 ==> np.log

# %% wrong: faster with every doubling => values speed-up  from: natural logarithm
# ~ + np.log ==> - np.log2

# %% wrong: rounded down => values one-too-few  from: solved for N
# ~ np.ceil ==> int

# %% wrong: the example's keep by heart => values -  from: natural logarithm
# ~ log(keep) ==> log2(0.97)


# %% wrong: one more where it fits exactly => generality one-too-many  from: solved for N
# ~ max(1, np.ceil((alone / weeks) ** (1 / power))) ==> int((alone / weeks) ** (1 / power)) + 1


# %% wrong: whole doublings only => values one-pass  from: doubles, then bisects
# ~ keep ** math.log2(n) ==> keep ** int(math.log2(n))

# %% half: one direction only => 3  from: solved for N
# ~ max(1, np.ceil((alone / weeks) ** (1 / power))) ==> None

# %% wrong: 4,096 GPUs at most => values -  from: doubles, then bisects
# ~ weeks_on(gpus), high ==> weeks_on(min(gpus, 4096)), high
