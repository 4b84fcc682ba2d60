# %% right: a difference of two costs
def cost_per_mfu_point(params, tokens, gpu_flops, usd_per_hour, mfu):
    def cost(u):
        return 6 * params * tokens / (gpu_flops * u) / 3600 * usd_per_hour

    return cost(mfu) - cost(mfu + 0.01)


# %% right: closed form, numpy
import numpy as np


def cost_per_mfu_point(params, tokens, gpu_flops, usd_per_hour, mfu):
    at_full_speed = np.float64(6) * params * tokens / gpu_flops * usd_per_hour / 3600
    return at_full_speed * 0.01 / (mfu * (mfu + 0.01))


# %% right: any variant
from course_lib import params

SLOPE = params("cost-sensitivity").asked == "slope"


def cost_per_mfu_point(params, tokens, gpu_flops, usd_per_hour, mfu):
    cost = 6 * params * tokens / (gpu_flops * mfu) / 3600 * usd_per_hour
    return cost / mfu * 0.01 if SLOPE else cost * 0.01 / (mfu + 0.01)


# %% wrong: the slope => values slope unless asked=slope  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> cost(mfu) / mfu / 100

# %% wrong: turned round => values sign  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> cost(mfu + 0.01) - cost(mfu)

# %% wrong: one per cent of the cost => values one-per-cent-of-cost  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> cost(mfu) * 0.01

# %% wrong: the point below => values point-below  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> cost(mfu - 0.01) - cost(mfu)

# %% wrong: a whole unit => values per-unit  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> cost(mfu) / mfu

# %% wrong: seconds at the price of hours => values seconds-as-hours  from: a difference of two costs
# ~ / 3600 * usd ==> * usd

# %% wrong: the whole cost => values the-cost  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> cost(mfu)

# %% wrong: the H100 by heart => values -  from: a difference of two costs
# ~ (gpu_flops * u) ==> (989e12 * u)

# %% wrong: the example by heart => values only-the-example  from: a difference of two costs
# ~ cost(mfu) - cost(mfu + 0.01) ==> 215_800

# %% wrong: asks the library => raised  from: a difference of two costs
#   def cost_per_mfu_point(params, tokens, gpu_flops, usd_per_hour, mfu):
# +     from course_lib import compute
# ~ cost(mfu) - cost(mfu + 0.01) ==> compute.points_of_mfu_usd(cost(mfu), mfu)

# %% wrong: GPUs cost half a dollar at least => generality -  from: a difference of two costs
# ~ / 3600 * usd_per_hour ==> / 3600 * max(usd_per_hour, 0.5)
