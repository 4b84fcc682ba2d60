PEAK, DAY, YEAR = 989e12, 86_400, 365.25 * 86_400


# %% right: all six
def audit_steps():
    run = 6 * 70e9 * 15e12 / (1e15 * 0.4)
    return {
        "step-70b-8ms": (6 * 70e9 * 8192 / (1e15 * 0.4), "wrong", "unit"),
        "llama70b-500-years": (run / YEAR, "right", "as printed"),
        "llama70b-6-months": (run / 1024 / (YEAR / 12), "right", "as printed"),
        "llama3-17-days": (3.645e25 / (24_576 * PEAK * 0.4) / DAY, "wrong", "missing factor"),
        "gpt3-5-years": (3.15e23 / PEAK / YEAR, "wrong", "dense or sparse"),
        "cluster-24-eflops": (24_576 * PEAK / 1e18, "right", "as printed"),
    }


# %% right: rounded, words in capitals, one entry more  from: all six
# ~ (run / YEAR, "right", "as printed") ==> (499, "Right", "As printed")
# ~ 3.15e23 / PEAK / YEAR, "wrong", "dense or sparse" ==> 10.1, "Wrong", "Dense or sparse"
# ~ (24_576 * PEAK / 1e18, "right", "as printed"), ==> (24.3, "right", "as printed"), "something-else": None,

# %% wrong: printed numbers called wrong => values as-printed  from: all six
# ~ 6 * 70e9 * 8192 / (1e15 * 0.4), ==> 0.0086,
# ~ 3.645e25 / (24_576 * PEAK * 0.4) / DAY ==> 17.4
# ~ 3.15e23 / PEAK / YEAR ==> 5.04

# %% wrong: milliseconds => values milliseconds  from: all six
# ~ 6 * 70e9 * 8192 / (1e15 * 0.4), ==> 8601.6,


# %% wrong: everything is right as printed => values blind
def audit_steps():
    printed = {
        "step-70b-8ms": 0.0084,
        "llama70b-500-years": 500,
        "llama70b-6-months": 6,
        "llama3-17-days": 17,
        "gpt3-5-years": 5,
        "cluster-24-eflops": 24.3,
    }
    return {name: (number, "right", "as printed") for name, number in printed.items()}


# %% wrong: no dictionary => values no-dictionary  from: all six
# ~ run = 6 * 70e9 * 15e12 / (1e15 * 0.4) ==> return [(8.6, "wrong", "unit")]

# %% half: one error missed for its cause => 10  from: all six
# ~ 6 * 70e9 * 8192 / (1e15 * 0.4), ==> 8.6,
# ~ "missing factor" ==> "wrong baseline"


# %% half: two answered so far => 4
def audit_steps():
    return {"gpt3-5-years": (10.1, "wrong", "dense or sparse"), "cluster-24-eflops": (24.3, "right", "as printed")}
