from course_lib import facts

OK = ("right", "as printed")
GOOD = {
    "nanogpt-104-mfu": (104 * 312 / 989.5, "wrong", "another chip's peak"),
    "fms-24-mfu": (9600 * 0.05 / 989.5 * 100, "wrong", "sparse peak"),
    "megatron-52-of-peak": (163 * 3 / 4 / 312 * 100, "wrong", "recomputation counted"),
    "llama3-41-mfu": (400 / 989.5 * 100, *OK),
    "palm-46-mfu": (238_300 * 6 * 540.35e9 / (6144 * 275e12) * 100, *OK),
    "llama-21-days": (1.4e12 / (380 * 2048) / 86_400, *OK),
    "llama3-faulty-gpus": (148 / 419 * 100, "wrong", "not what its own rows say"),
    "llama2-gpu-hours": ((184_320 + 368_640 + 1_720_320) / 1e6, "wrong", "counts what is not asked"),
    "deepseek-dollars": (2.788 * 2, *OK),
}


# %% right: by hand
def audit_runs():
    return GOOD


# %% right: three digits, lists, and words with capitals
def audit_runs():
    return {name: [float(f"{number:.3g}"), *map(str.capitalize, words)] for name, (number, *words) in GOOD.items()}


# %% wrong: all right as printed, with the printed numbers => values as-printed
def audit_runs():
    scale = {"llama-21-days": 1, "llama2-gpu-hours": 1e6, "deepseek-dollars": 1e6}
    return {name: (float(one.value) / scale.get(name, 0.01), *OK) for name, one in facts.claims("15").items()}


# %% wrong: peaks the wrong way round => values upside-down  from: by hand
# ~ GOOD ==> GOOD | {"nanogpt-104-mfu": (104 * 989 / 312, "wrong", "another chip's peak")}

# %% wrong: a third off for the second forward pass => values a-third-off  from: by hand
# ~ GOOD ==> GOOD | {"megatron-52-of-peak": (100 * 163 * 2 / 3 / 312, "wrong", "recomputation counted")}

# %% wrong: the sparse peak => values sparse  from: by hand
# ~ GOOD ==> GOOD | {"llama3-41-mfu": (400 / 1979 * 100, "wrong", "sparse peak")}

# %% wrong: planned interruptions, too => values with-planned  from: by hand
# ~ GOOD ==> GOOD | {"llama3-faulty-gpus": (100 * 148 / 466, "wrong", "counts what is not asked")}

# %% wrong: one GPU for two thousand => values one-gpu  from: by hand
# ~ GOOD ==> GOOD | {"llama-21-days": (1.4e12 / 380 / 86_400, "wrong", "not what its own rows say")}

# %% wrong: hours for days => values hours  from: by hand
# ~ GOOD ==> GOOD | {"llama-21-days": (1.4e12 / 380 / 2048 / 3600, "wrong", "not what its own rows say")}

# %% wrong: fractions for per cent => values other-unit  from: by hand
# ~ GOOD ==> GOOD | {"palm-46-mfu": (0.457, *OK)}


# %% half: three are missing => 4  from: by hand
# ~ GOOD ==> {name: GOOD[name] for name in GOOD if name not in ("palm-46-mfu", "llama2-gpu-hours", "deepseek-dollars")}
