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


# %% right: from the printed FLOPs, rounded  from: all six
# ~ 6 * 405e9 * 15.6e12 ==> 3.8e25
# ~ 30.84e6 / 16_384 / 24 ==> 78
# ~ 6 * 7e9 * 2e12 / (0.5 * PEAK) / DAY ==> 1965

# %% wrong: against the peak => values against-the-peak  from: all six
# ~ 1 - 0.4 / 0.5, "wrong", "wrong baseline" ==> 0.6, "right", "as printed"

# %% wrong: one route for both => values flops-route  from: all six
# ~ 30.84e6 / 16_384 / 24 ==> 66

# %% wrong: at full speed => values full-speed  from: all six
# ~ (16_384 * PEAK * 0.41) ==> (16_384 * PEAK)
# ~ (0.5 * PEAK) / DAY, "right", "as printed" ==> PEAK / DAY, "wrong", "missing factor"
# ~ 10 * (1 - 0.35 / 0.5), "right", "as printed" ==> 6.5, "wrong", "wrong baseline"


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


# %% half: a wrong cause twice => 8  from: all six
# ~ (16_384 * PEAK * 0.41) / DAY, "wrong", "wrong scope" ==> (16_384 * PEAK * 0.41) / DAY, "wrong", "missing factor"
# ~ 30.84e6 / 16_384 / 24, "wrong", "wrong scope" ==> 30.84e6 / 16_384 / 24, "wrong", "missing factor"
