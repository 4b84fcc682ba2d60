PEAK, DAY, YEAR = 989e12, 86_400, 365.25 * 86_400


# %% right: all six
def audit_run():
    flops = 6 * 405e9 * 15.6e12
    return {
        "54-days-by-flops": (flops / (16_384 * PEAK * 0.41) / DAY, "wrong", "wrong scope"),
        "54-days-by-hours": (30.84e6 / 16_384 / 24, "wrong", "wrong scope"),
        "forty-percent-burns-sixty": (1 - 0.4 / 0.5, "wrong", "wrong baseline"),
        "llama3-1170-years": (6 * 405e9 * 15e12 / PEAK / YEAR, "right", "as printed"),
        "seven-b-1966-days": (6 * 7e9 * 2e12 / (0.5 * PEAK) / DAY, "right", "as printed"),
        "waste-3-million": (10 * (1 - 0.35 / 0.5), "right", "as printed"),
    }


# %% right: from the printed FLOPs, rounded, numpy
import numpy as np


def audit_run():
    return {
        "54-days-by-flops": (np.float64(3.8e25) / (16_384 * PEAK * 0.41) / DAY, "wrong", "wrong scope"),
        "54-days-by-hours": (np.round(78.43), "wrong", "wrong scope"),
        "forty-percent-burns-sixty": (0.2, "wrong", "wrong baseline"),
        "llama3-1170-years": (1168, "right", "as printed"),
        "seven-b-1966-days": (1965, "right", "as printed"),
        "waste-3-million": (3, "right", "as printed"),
    }


# %% wrong: against the peak => values against-the-peak
def audit_run():
    return {
        "54-days-by-flops": (66, "wrong", "wrong scope"),
        "54-days-by-hours": (78.4, "wrong", "wrong scope"),
        "forty-percent-burns-sixty": (0.6, "right", "as printed"),
        "llama3-1170-years": (1168, "right", "as printed"),
        "seven-b-1966-days": (1966, "right", "as printed"),
        "waste-3-million": (3, "right", "as printed"),
    }


# %% wrong: one route for both => values flops-route  from: against the peak
# ~ 78.4 ==> 66
# ~ .6, "right", "as printed" ==> .2, "wrong", "wrong baseline"

# %% wrong: at full speed => values full-speed  from: from the printed FLOPs, rounded, numpy
# - import numpy as np
# ~ np.float64(3.8e25) / (16_384 * PEAK * 0.41) / DAY ==> 27.1
# ~ np.round(78.43) ==> 78.4
# ~ 1965, "right", "as printed" ==> 983, "wrong", "missing factor"
# ~ 3, "right", "as printed" ==> 6.5, "wrong", "wrong baseline"


# %% wrong: everything is right as printed => values blind
def audit_run():
    printed = {
        "54-days-by-flops": 54,
        "54-days-by-hours": 54,
        "forty-percent-burns-sixty": 0.6,
        "llama3-1170-years": 1170,
        "seven-b-1966-days": 1966,
        "waste-3-million": 3,
    }
    return {name: (number, "right", "as printed") for name, number in printed.items()}


# %% half: a wrong cause twice => 8  from: one route for both
# ~ "54-days-by-flops": (66, "wrong", "wrong scope"), ==> "54-days-by-flops": (66, "wrong", "missing factor"),
# ~ "54-days-by-hours": (66, "wrong", "wrong scope"), ==> "54-days-by-hours": (78.4, "wrong", "missing factor"),
