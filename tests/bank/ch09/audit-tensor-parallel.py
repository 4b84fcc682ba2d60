GOOD = {
    "tp-row-formula": (4, "wrong", "needs only its part"),
    "tp-128-gb": (7.516, "wrong", "another scope"),
    "tp-71-s": (0.1315, "wrong", "another scope"),
    "tp-504-reduces": (8064, "wrong", "missing factor"),
    "tp-one-layer": (6.375, "wrong", "reason does not hold"),
    "tp-16-heads": (16, "right", "as printed"),
    "tp-four-reduces": (4, "right", "as printed"),
    "tp-8bsh": (8, "right", "as printed"),
    "tp-76-percent": (0.756, "right", "as printed"),
}


# %% right: recomputed
def audit_tp():
    h, ffn, layers, kv, d, tp, pp, dp, micro = 16384, 53248, 126, 8, 128, 8, 16, 128, 16
    tokens = 4 * 2**20 / dp
    block = 4 * 2 * (1 - 1 / tp) * tokens * h * 2
    layer = 2 * (2 * h * h + 2 * h * kv * d + 3 * h * ffn)
    return {
        "tp-row-formula": (8 / 2, "wrong", "needs only its part"),
        "tp-128-gb": (block / 1e9, "wrong", "another scope"),
        "tp-71-s": (block * layers / pp / 450e9, "wrong", "another scope"),
        "tp-504-reduces": (4 * layers * micro, "wrong", "missing factor"),
        "tp-one-layer": (layer / 1e9, "wrong", "reason does not hold"),
        "tp-16-heads": (128 / tp, "right", "as printed"),
        "tp-four-reduces": (4, "right", "as printed"),
        "tp-8bsh": (4 * 2, "right", "as printed"),
        "tp-76-percent": (15.1e15 / 512 / 39e12, "right", "as printed"),
    }


# %% right: numbers looked up, lists for tuples
def audit_tp():
    return {name: list(row) for name, row in GOOD.items()}


# %% wrong: the printed numbers back => values as-printed
def audit_tp():
    printed = {"tp-row-formula": 8, "tp-128-gb": 128, "tp-71-s": 71, "tp-504-reduces": 504, "tp-one-layer": 80}
    return {name: (printed.get(name, row[0]), "right", "as printed") for name, row in GOOD.items()}


# %% wrong: one all-reduce for a block => values one-all-reduce  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-128-gb": (1.879, "wrong", "another scope")}

# %% wrong: all blocks on one GPU => values all-blocks  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-71-s": (2.1045, "wrong", "another scope")}

# %% wrong: both ways of the link => values both-ways  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-71-s": (0.0658, "wrong", "another scope")}

# %% wrong: one stage, one micro-batch => values one-gpu  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-504-reduces": (31.5, "wrong", "missing factor")}

# %% wrong: KV heads as many as query heads => values heads-alike  from: numbers looked up, lists for tuples
# ~ name: list(row) for name, row in GOOD.items() ==> **GOOD, "tp-one-layer": (7.382, "wrong", "reason does not hold")

# %% wrong: per cent => values percent  from: numbers looked up, lists for tuples
# ~ {name: list(row) for name, row in GOOD.items()} ==> {**GOOD, "tp-76-percent": (75.6, "right", "as printed")}


# %% half: three of nine missing => 6
def audit_tp():
    return {name: row for name, row in GOOD.items() if name not in ("tp-128-gb", "tp-71-s", "tp-8bsh")}
