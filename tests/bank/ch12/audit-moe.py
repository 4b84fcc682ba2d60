OK = ("right", "as printed")
GOOD = {
    "mixtral-14b": (12.9, "wrong", "shared parts twice"),
    "mixtral-same-cost": (3.62, "wrong", "compute alone"),
    "deepseek-37b": (5.6, *OK),
    "alltoall-twice": (4, "wrong", "forward alone"),
    "dbrx-65x": (65, *OK),
    "router-bound": (4, *OK),
    "half-per-rank": (10.95, "wrong", "parts averaged"),
    "ep-times": (8, *OK),
}


# %% right: by hand
def audit_moe():
    return GOOD


# %% right: from the facts  from: by hand
# -     return GOOD
# +     from math import comb, hypot
# +     from course_lib import facts
# +     mixtral, deepseek = facts.model("mixtral-8x7b"), facts.model("deepseek-v3")
# +     return GOOD | {
# +         "mixtral-14b": [float(mixtral.active_params) / 1e9, "Wrong", "Shared parts twice"],
# +         "mixtral-same-cost": [float(mixtral.params) / 12.9e9, "wrong", "compute alone"],
# +         "deepseek-37b": [100 * float(deepseek.active_params) / float(deepseek.params), *OK],
# +         "dbrx-65x": [comb(16, 4) / comb(8, 2), *OK],
# +         "half-per-rank": [hypot(20**0.5, 10.0), "wrong", "parts averaged"],
# +     }

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}

# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", cause.replace("as printed", "another k")) for name, (number, _, cause) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (14, 1, 5.51, 2, 65, 4, 7.236, 8))}

# %% wrong: eight whole models => values eight-models  from: by hand
# ~ GOOD ==> GOOD | {"mixtral-same-cost": (4.34, "wrong", "compute alone")}

# %% wrong: the share of the experts => values experts  from: by hand
# ~ GOOD ==> GOOD | {"deepseek-37b": (3.125, "wrong", "another k")}

# %% wrong: norms added => values sum-of-norms  from: by hand
# ~ GOOD ==> GOOD | {"half-per-rank": (14.47, "wrong", "parts averaged")}

# %% wrong: the loss of one layer => values one-layer  from: by hand
# ~ GOOD ==> GOOD | {"router-bound": (0.5, "wrong", "another k")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"alltoall-twice": (4, "wrong", "compute alone")}

# %% wrong: a fraction => values fraction  from: by hand
# ~ GOOD ==> GOOD | {"deepseek-37b": (0.056, *OK)}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError

# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "dbrx-65x"}
