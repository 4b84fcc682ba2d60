from course_lib import collectives

OK = ("right", "as printed")
GOOD = {
    "ring-free-scaling": (20.46, "wrong", "latency left out"),
    "ring-sends-2m": (1.969, *OK),
    "naive-root-bytes": (126, *OK),
    "all-reduce-log-form": (1.969, "wrong", "missing factor"),
    "gradients-280-gb": (275.6, *OK),
    "all-reduce-2.8-s": (2.756, *OK),
    "h200-bus-482": (482.3, *OK),
    "h100-480-over-450": (308.6, "wrong", "another algorithm's factor"),
    "reduce-scatter-74": (294, "wrong", "divided by N twice"),
}


# %% right: by hand
def audit_ring():
    return GOOD


# %% right: with the library, and the asymptote for the bytes
def audit_ring():
    n, latency = 64, collectives.ring_cost(0, 1024, 10e-6, 1).seconds * 1e3
    algorithm = 480 / collectives.BUS_FACTORS["all_reduce"](8)
    return {
        "ring-free-scaling": [latency, "Wrong", "Latency left out"],
        "ring-sends-2m": [2 * (n - 1) / n, *OK],
        "naive-root-bytes": [2.0 * (n - 1), *OK],
        "all-reduce-log-form": [2.0, "wrong", "missing factor"],
        "gradients-280-gb": [280, *OK],
        "all-reduce-2.8-s": [2.8, *OK],
        "h200-bus-482": [collectives.bus_bandwidth("all_reduce", 275.58, 1, 8), *OK],
        "h100-480-over-450": [algorithm * 9 / 8, "wrong", "another algorithm's factor"],
        "reduce-scatter-74": [4 * 73.5, "wrong", "divided by N twice"],
    }


# %% wrong: all right as printed, with the printed numbers => values as-printed
def audit_ring():
    printed = dict(zip(GOOD, (0, 2, 126, 1, 280, 2.8, 482.26, 480, 73.5)))
    return {name: (number, *OK) for name, number in printed.items()}


# %% wrong: one half of the ring => values one-half
def audit_ring():
    return GOOD | {
        "gradients-280-gb": (137.8, "wrong", "missing factor"),
        "ring-sends-2m": (0.984, "wrong", "missing factor"),
    }


# %% wrong: the all-gather's factor for an all-reduce => values gather-factor  from: by hand
# ~ GOOD ==> GOOD | {"h200-bus-482": (241.1, "wrong", "another algorithm's factor")}

# %% wrong: the correction as it was first proposed => values upside-down  from: by hand
# ~ GOOD ==> GOOD | {"h100-480-over-450": (213.3, "wrong", "another algorithm's factor")}

# %% wrong: seconds for milliseconds => values seconds  from: by hand
# ~ GOOD ==> GOOD | {"ring-free-scaling": (0.02046, "wrong", "latency left out")}

# %% wrong: the factor of two of an all-reduce => values two  from: by hand
# ~ GOOD ==> GOOD | {"reduce-scatter-74": (147, "wrong", "divided by N twice")}

# %% half: eight of nine => 8  from: the factor of two of an all-reduce
