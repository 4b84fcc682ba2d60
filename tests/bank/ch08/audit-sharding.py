OK = ("right", "as printed")
GOOD = {
    "zero-1-31-gb": ((4 + 12 / 64) * 7.5, *OK),
    "fsdp-70b-280": (3 * 140, "wrong", "memory for traffic"),
    "zero-3-12-bytes": (16 * 7.5 / 64, "wrong", "master copy left out"),
    "zero-3-half-more": (1.5, *OK),
    "zero-3-three-times": (1.0, "wrong", "three operations, not three all-reduces"),
    "hsdp-405b-eight": (16 * 405 / 8, "wrong", "does not fit"),
    "zero-1-405b-shard": (8 * 405 / 1024, *OK),
    "hsdp-third-across": (3 * 7 / 8 * 810 / (2 * 810 / 8), "wrong", "a part, not the model"),
    "zero-3-scales": (0.919, "wrong", "what stays"),
}


# %% right: by hand
def audit_sharding():
    return GOOD


# %% right: lists, words in capitals  from: by hand
# -     return GOOD
# +     return {name: [number, said.upper(), cause.title()] for name, (number, said, cause) in GOOD.items()}

# %% wrong: all right as printed, with the printed numbers => values as-printed  from: by hand
# -     return GOOD
# +     numbers = 31.4, 280, 12 * 7.5 / 64, 1.5, 3, 80, 3.16, 3, 0.5
# +     return {name: (number, *OK) for name, number in zip(GOOD, numbers)}

# %% wrong: gathered once => values as-printed  from: by hand
# ~ GOOD ==> GOOD | {"fsdp-70b-280": (280.0 * 1.0, "wrong", "memory for traffic"), "zero-3-half-more": (1.0, *OK)}

# %% wrong: 16-bit gradients in both => values 16-bits  from: by hand
# ~ GOOD ==> GOOD | {"zero-3-three-times": (1.5, "wrong", "three operations, not three all-reduces")}

# %% wrong: the state over all GPUs => values over-all  from: by hand
# ~ GOOD ==> GOOD | {"hsdp-405b-eight": (16 * 405 / 24576, *OK)}

# %% wrong: a master copy that is not there => values with-master  from: by hand
# ~ GOOD ==> GOOD | {"zero-1-405b-shard": (12 * 405 / 1024, "wrong", "master copy left out")}

# %% wrong: across goes one half of an all-reduce => values no-all-reduce  from: by hand
# ~ GOOD ==> GOOD | {"hsdp-third-across": (21.0, "wrong", "a part, not the model")}

# %% wrong: in bytes => values other-unit  from: by hand
# ~ GOOD ==> GOOD | {"hsdp-405b-eight": (810e9, "wrong", "does not fit")}

# %% wrong: no rings, no activations => values no-ring  from: by hand
# -     return GOOD
# +     def at(n):
# +         return 16 * 405 / n + 4 * 405 / 126
# +     return GOOD | {
# +         "fsdp-70b-280": (420, "wrong", "what stays"),
# +         "zero-3-12-bytes": (1.875, "wrong", "what stays"),
# +         "zero-3-three-times": (8 / 4, "wrong", "three operations, not three all-reduces"),
# +         "hsdp-405b-eight": (6480, "wrong", "does not fit"),
# +         "zero-1-405b-shard": (1.58, "wrong", "master copy left out"),
# +         "hsdp-third-across": (12, "wrong", "a part, not the model"),
# +         "zero-3-scales": (at(2048) / at(1024), "wrong", "what stays"),
# +     }

# %% half: one is missing => 8  from: by hand
# ~ GOOD ==> {name: value for name, value in GOOD.items() if name != "zero-3-scales"}
