import math

OK = ("right", "as printed")
GOOD = {
    "failure-every-hour": (6.19, "wrong", "another size"),
    "interruptions-few-hours": (2.78, *OK),
    "llama3-54-days": (78.4, "wrong", "a snapshot"),
    "checkpoint-minutes": (3.88, *OK),
    "checkpoint-minutes-slow": (19.3, "wrong", "saves are not free"),
    "rsc-16384": (1.8, *OK),
    "always-broken": (0.377, "wrong", "another size"),
    "hbm3-share": (0.172, *OK),
}


# %% right: by hand
def audit_failures():
    return GOOD


# %% right: by formula
def audit_failures():
    gpu = 54 * 24 * 16384 / 419
    mtbf = gpu / 16384 * 3600
    return GOOD | {
        "failure-every-hour": [gpu / 8192, "Wrong", "Another size"],
        "checkpoint-minutes": [math.sqrt(2 * 405e9 * 12 / 2e12 * mtbf) / 60, *OK],
        "checkpoint-minutes-slow": [math.sqrt(2 * 60 * mtbf) / 60, "wrong", "saves are not free"],
        "always-broken": [1 - math.exp(-24 * 1000 / gpu), "wrong", "another size"],
    }


# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}

# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", cause.replace("as printed", "another size")) for name, (number, _, cause) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (1, 2.8, 54, 4, 4, 1.8, 1, 0.172))}

# %% wrong: nodes taken for GPUs => values gpus-as-nodes  from: by hand
# ~ GOOD ==> GOOD | {"rsc-16384": (24 / 6.5e-3 / 16384, "wrong", "another size")}

# %% wrong: without the 2 => values no-two  from: by hand
# ~ GOOD ==> GOOD | {"checkpoint-minutes": (3.88 / math.sqrt(2), *OK)}

# %% wrong: the expected number => values expected-number  from: by hand
# ~ GOOD ==> GOOD | {"always-broken": (0.473, "wrong", "another size")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"llama3-54-days": (78.4, "wrong", "planned stops")}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError

# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "hbm3-share"}
