OK = ("right", "as printed")
GOOD = {
    "fsdp-table-three": (1.5, "wrong", "collectives for bytes"),
    "gpt3-34-days": (33.9, *OK),
    "hsdp-third-across": (10.5, "wrong", "whole for a shard"),
    "deepseek-3.7-days": (3.66, *OK),
    "llama3-17-days": (43.4, "wrong", "full speed"),
    "llama3-compute": (3.79e25, *OK),
    "forty-percent-burns-sixty": (0.2, "wrong", "another baseline"),
    "trillion-84-days": (83.2, *OK),
}


# %% right: by hand
def audit_synthesis():
    return GOOD


# %% right: by formula  from: by hand
# -     return GOOD
# +     def days(flops, gpus, reached):
# +         return flops / (gpus * reached) / 86400
# +     return GOOD | {
# +         "gpt3-34-days": [days(8 * 300e9 * 175e9, 1024, 140e12), "Right", "As printed"],
# +         "llama3-17-days": [days(3.645e25, 24576, 0.4 * 989e12), "wrong", "full speed"],
# +         "trillion-84-days": [days(8 * 450e9 * 1e12, 3072, 163e12), *OK],
# +         "deepseek-3.7-days": [180e3 / 2048 / 24, *OK],
# +     }

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}


# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (number, "wrong", "full speed" if why == OK[1] else why) for name, (number, _, why) in GOOD.items()}


# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (3, 34, 3, 3.7, 17, 3.8e25, 0.6, 84))}

# %% wrong: six FLOPs where it recomputes => values six  from: by hand
# ~ GOOD ==> GOOD | {"gpt3-34-days": (25.4, "wrong", "full speed")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"forty-percent-burns-sixty": (0.2, "wrong", "full speed")}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError


# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "llama3-compute"}
