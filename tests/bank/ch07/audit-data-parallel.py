GOOD = {
    "all-reduce-350x": (0.3255, "wrong", "another unit"),
    "fsdp-cuts-all-reduce": (1.5, "wrong", "memory for traffic"),
    "mean-of-shards-exact": (0.896, "wrong", "unequal parts"),
    "six-months-1024": (5.85, "right", "as printed"),
    "v5p-2550-tokens": (2556, "right", "as printed"),
    "resnet-8-to-256": (0.906, "right", "as printed"),
}


# %% right: recomputed
def audit_dp():
    step = 6 * 70e9 * 8192 / 0.4e15
    averages = ((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2
    months = 6 * 70e9 * 15e12 / 0.4e15 / 1024 / (365.25 * 86400 / 12)
    return {
        "all-reduce-350x": (2.8 / step, "wrong", "another unit"),
        "fsdp-cuts-all-reduce": (3 / 2, "wrong", "memory for traffic"),
        "mean-of-shards-exact": (averages / 4, "wrong", "unequal parts"),
        "six-months-1024": (months, "right", "as printed"),
        "v5p-2550-tokens": (4.6e14 / 1.8e11, "right", "as printed"),
        "resnet-8-to-256": (29 * 8 / 256, "right", "as printed"),
    }


# %% right: a table, in other letters
def audit_dp():
    return {name: [number, said.upper(), cause.capitalize()] for name, (number, said, cause) in GOOD.items()}


# %% wrong: believes the ratio => values as-printed  from: step at the peak
# ~ 0.81, "wrong", "another unit" ==> 350, "right", "as printed"

# %% wrong: step at the peak => values peak  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "all-reduce-350x": (0.81, "wrong", "another unit")


# %% wrong: the average itself => values not-over
def audit_dp():
    return GOOD | {"mean-of-shards-exact": (3.58, "wrong", "unequal parts")}


# %% wrong: an all-gather counted as an all-reduce => values three  from: one all-gather forgotten
# ~ 1.0, "right", "as printed" ==> 3.0, "wrong", "memory for traffic"

# %% wrong: one all-gather forgotten => values one-gather  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "fsdp-cuts-all-reduce": (1.0, "right", "as printed")

# %% wrong: hides behind the whole step => values whole-step  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "v5p-2550-tokens": (1704, "wrong", "another baseline")

# %% wrong: a speed-up => values speed-up  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "resnet-8-to-256": (29, "wrong", "another baseline")


# %% wrong: all wrong => values blind
def audit_dp():
    return {name: (row[0], "wrong", row[2] if row[1] == "wrong" else "another unit") for name, row in GOOD.items()}


# %% half: two of six missed => 4
def audit_dp():
    return GOOD | {
        "all-reduce-350x": (350, "right", "as printed"),
        "v5p-2550-tokens": (1704, "wrong", "another baseline"),
    }
