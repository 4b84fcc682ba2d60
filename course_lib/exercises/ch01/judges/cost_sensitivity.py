"""Judge of cost-sensitivity: what is one point of MFU worth?"""

import random

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, table
from course_lib.judging.draws import days_alone, draw_rows, logarithmic, one_apart, plain, rounded, unseen
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.units import HOUR, money_text, number_text


def run_cost(p: float, d: float, f: float, price: float, u: float) -> float:
    """US dollars of the GPU-hours of a run."""
    return days_alone(p, d, f, u) * 24 * price


def _point(p: float, d: float, f: float, c: float, u: float) -> float:
    """US dollars that the next percentage point of MFU saves."""
    return run_cost(p, d, f, c, u) - run_cost(p, d, f, c, u + 0.01)


def _slope(p: float, d: float, f: float, c: float, u: float) -> float:
    """Minus the derivative of the cost, in US dollars per percentage point of MFU."""
    return run_cost(p, d, f, c, u) / u / 100


def _point_words(p: float, d: float, f: float, c: float, u: float) -> str:
    return f"{number_text(p)} parameters, {number_text(d)} tokens, {money_text(c)}/h, {100 * u:g} % MFU"


def _point_column(asked: str) -> Column:
    want, other = (_point, _slope) if asked == "point" else (_slope, _point)
    mixed_up = {
        "point": Mistake("slope", other, "this is the slope; take the difference of two costs, a whole point apart."),
        "slope": Mistake("difference", other, "this is the difference over a whole point, not the derivative."),
    }
    whole_unit = "this is per whole unit of MFU; a point is a hundredth."
    mistakes = (
        mixed_up[asked],
        Mistake("sign", scaled(want, -1), "the sign is wrong: a saving is positive."),
        Mistake("per-unit", scaled(want, 100), whole_unit),
        Mistake("per-unit", scaled(_slope, 100), whole_unit),
        Mistake("one-per-cent-of-cost", scaled(run_cost, 0.01), "1 % *more* MFU saves this; a point is not 1 %."),
        Mistake("point-below", lambda *row: _point(*row[:4], row[4] - 0.01), "that is the point below `mfu`."),
        Mistake("the-cost", run_cost, "this is the whole cost of the run."),
        Mistake("seconds-as-hours", scaled(want, HOUR), "the price is per hour, the time in seconds."),
        Mistake("days-as-hours", scaled(want, 1 / 24), "the price is per hour, the time in days."),
        Mistake("percent-of-cost", lambda *row: want(*row) / run_cost(*row), "this is a share; give dollars."),
    )
    return Column(part="saved", unit="US dollars", want=want, words=_point_words, mistakes=mistakes)


def _point_cases(params: Params, rng: random.Random) -> list[Case]:
    run = tuple(params[name] for name in ("params", "tokens", "flops", "usd_per_hour", "mfu"))
    peaks = (312e12, 989e12, 2250e12)
    work = logarithmic(1e8, 1e12), logarithmic(1e10, 3e13)
    others = draw_rows(rng, 20, *work, peaks, (0.8, 1.99, 2, 3.5, 12.0), rounded(0.05, 0.9, 3))
    work = logarithmic(1e9, 1e12), logarithmic(1e11, 2e13)
    usual = draw_rows(rng, 3, *work, peaks[:2], (1.5, 3.0), rounded(0.2, 0.5, 3))
    ends = [(1e9, 1e10, 989e12, 2.0, 0.01235), (7e10, 1e12, 989e12, 2.0, 0.9), (3e6, 1e8, 312e12, 0.01, 0.3)]
    return [
        shown("the run", "values:saved", 0, [run]),
        plain("saved", 0, "three more runs", usual),
        unseen(rng, "saved", 0, "other runs", [*others, *one_apart(others, _point), *ends]),
    ]


JUDGING = Judging(
    shares={"values:saved": 0.4, "generality:saved": 0.6},
    cases=_point_cases,
    verdicts=lambda params, *given: table(_point_column(params["asked"]))(params, *given),
    why="Cost scales as 1/MFU and the number of GPUs cancels: half the GPUs for twice as long are the same GPU-hours. The "
    "slope is cost/MFU per unit, so a point is worth most where the MFU is low. One per cent more MFU always saves one per "
    "cent of the cost (elasticity −1). A whole point saves a little less than the slope says, because the curve flattens.",
)

ANSWERS = r"""# %% right: a difference of two costs
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
"""
