OK = ("right", "as printed")
GOOD = {
    "mesh-product-sp": (128, "wrong", "not an axis"),
    "explorer-7b-dp": (84, *OK),
    "eighteen-fold-tp": (9, "wrong", "both directions"),
    "llama3-dp-192": (128, "wrong", "another cluster"),
    "llama3-stage-layers": (7.875, *OK),
    "llama3-dp-4": (8, "wrong", "no such product"),
    "explorer-405b-128": (38, *OK),
    "hsdp-groups-of-eight": (128, "wrong", "does not fit"),
}


# %% right: by hand
def audit_meshes():
    return GOOD


# %% right: computed
def audit_meshes():
    group = 1
    while 16 * 405 / group > 80:
        group *= 2
    return GOOD | {
        "hsdp-groups-of-eight": [group, "Wrong", "Does not fit"],
        "explorer-405b-128": [12 * 405 / (8 * 4 * 4), *OK],
        "llama3-dp-4": [16_384 / 8 / 16 / 16, "wrong", "no such product"],
    }


# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (16, 84, 18, 192, 8, 4, 38, 8))}

# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", "does not fit") for name, (number, _, _) in GOOD.items()}

# %% wrong: cp is forgotten => values no-cp  from: by hand
# ~ GOOD ==> GOOD | {"llama3-dp-4": (128, "wrong", "no such product")}

# %% wrong: FSDP is forgotten => values no-fsdp  from: by hand
# ~ GOOD ==> GOOD | {"explorer-405b-128": (152, "wrong", "does not fit")}

# %% wrong: without a power of two => values no-power  from: by hand
# ~ GOOD ==> GOOD | {"hsdp-groups-of-eight": (81, "wrong", "does not fit")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"llama3-dp-192": (128, "wrong", "not an axis")}


# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "explorer-7b-dp"}
