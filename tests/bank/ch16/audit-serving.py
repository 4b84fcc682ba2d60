OK = ("right", "as printed")
GOOD = {
    "opt-13b-token": (819.2, *OK),
    "llama-70b-128k": (42.9, "wrong", "query heads"),
    "llama-70b-1m": (328, *OK),
    "llama-70b-4k": (1342, "wrong", "one GPU's share"),
    "draft-four": (2.40, "wrong", "no token of its own"),
    "h200-70b-usd": (5.16, *OK),
    "h100-spot-usd": (13.9, "wrong", "decimal point"),
    "deepseek-day-cost": (87072, *OK),
}


# %% right: by hand
def audit_serving():
    return GOOD


# %% right: by formula, lists, other letters  from: by hand
# -     return GOOD
# +     token = 2 * 80 * 8 * 128 * 2
# +     return GOOD | {
# +         "opt-13b-token": [2 * 40 * 5120 * 2 / 1e3, "Right", "As printed"],
# +         "llama-70b-128k": [token * 2**17 / 1e9, "wrong", "Query heads"],
# +         "draft-four": [(1 - 0.8**5) / (1 - 0.8) / (1 + 4 * 0.1), "wrong", "no token of its own"],
# +         "h100-spot-usd": [2.5 / (50 * 3600) * 1e6, "wrong", "decimal point"],
# +     }

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}

# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", "query heads" if (judgment, cause) == OK else cause) for name, (number, judgment, cause) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (800, 340, 320, 160, 1.687, 5.16, 0.14, 87072))}

# %% wrong: a key for each query head => values query-heads  from: by hand
# ~ GOOD ==> GOOD | {"llama-70b-1m": (2621, "wrong", "query heads")}

# %% wrong: guesses are free => values free-guesses  from: by hand
# ~ GOOD ==> GOOD | {"draft-four": (3.36, "wrong", "no token of its own")}

# %% wrong: one GPU a node => values one-gpu-a-node  from: by hand
# ~ GOOD ==> GOOD | {"deepseek-day-cost": (10884, "wrong", "always busy")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"llama-70b-4k": (1342, "wrong", "query heads")}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError

# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "h200-70b-usd"}
