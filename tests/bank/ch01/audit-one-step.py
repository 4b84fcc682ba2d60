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


# %% right: lists, rounded, by the library, words in capitals
from course_lib import compute


def audit_steps():
    return {
        "step-70b-8ms": [round(compute.train_seconds(70e9, 8192, 1e15, 0.4), 1), "Wrong", "Unit"],
        "llama70b-500-years": [499, "Right", "As printed"],
        "llama70b-6-months": [5.9, "Right", "As printed"],
        "llama3-17-days": [
            round(compute.train_seconds(405e9, 15e12, PEAK, 0.4, 24_576) / DAY),
            "Wrong",
            "Missing factor",
        ],
        "gpt3-5-years": [10.1, "Wrong", "Dense or sparse"],
        "cluster-24-eflops": [24.3, "Right", "As printed"],
        "something-else": None,
    }


# %% wrong: printed numbers called wrong => values as-printed
def audit_steps():
    return {
        "step-70b-8ms": (0.0086, "wrong", "unit"),
        "llama70b-500-years": (500, "right", "as printed"),
        "llama70b-6-months": (6, "right", "as printed"),
        "llama3-17-days": (17.4, "wrong", "missing factor"),
        "gpt3-5-years": (5.04, "wrong", "dense or sparse"),
        "cluster-24-eflops": (24.3, "right", "as printed"),
    }


# %% wrong: milliseconds => values milliseconds
def audit_steps():
    return {
        "step-70b-8ms": (8601.6, "wrong", "unit"),
        "llama70b-500-years": (499, "right", "as printed"),
        "llama70b-6-months": (5.85, "right", "as printed"),
        "llama3-17-days": (43.4, "wrong", "missing factor"),
        "gpt3-5-years": (10.1, "wrong", "dense or sparse"),
        "cluster-24-eflops": (24.3, "right", "as printed"),
    }


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


# %% wrong: no dictionary => values no-dictionary
def audit_steps():
    return [(8.6, "wrong", "unit")]


# %% half: one error missed for its cause => 10  from: milliseconds
# ~ 8601 ==> 8
# ~ "missing factor" ==> "wrong baseline"


# %% half: two answered so far => 4
def audit_steps():
    return {"gpt3-5-years": (10.1, "wrong", "dense or sparse"), "cluster-24-eflops": (24.3, "right", "as printed")}
