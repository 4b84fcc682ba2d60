OK = ("right", "as printed")
GOOD = {
    "fp16-zero-below": (0.5, "wrong", "rounded up"),
    "master-copy-50": (0.5, *OK),
    "e4m3-largest": (448, *OK),
    "mixed-halves-memory": (1.0, "wrong", "activations alone"),
    "fp16-ratio-2048": (2048, *OK),
    "mixed-12-bytes": (16, "wrong", "a copy is missing"),
    "e5m2-largest": (57344, *OK),
    "bf16-gradient-bytes": (4, "wrong", "another dtype"),
}


# %% right: by hand
def audit_bits():
    return GOOD


# %% right: lists, capitals, whole numbers as fractions  from: by hand
# ~ GOOD ==> {name: [float(number), verdict.title(), cause.title()] for name, (number, verdict, cause) in GOOD.items()}

# %% wrong: everything is right => values -  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, (number, _, _) in GOOD.items()}


# %% wrong: everything is wrong => values -  from: by hand
# ~ GOOD ==> {name: (n, "wrong", c if c != "as printed" else "another format") for name, (n, _, c) in GOOD.items()}

# %% wrong: the printed numbers => values as-printed  from: by hand
# ~ GOOD ==> {name: (number, *OK) for name, number in zip(GOOD, (1, 0.5, 448, 0.5, 2048, 12, 57344, 2))}

# %% wrong: fp8 as IEEE would have it => values ieee  from: by hand
# ~ GOOD ==> GOOD | {"e4m3-largest": (240, "wrong", "another format")}

# %% wrong: the whole spacing decides => values whole-spacing  from: by hand
# ~ GOOD ==> GOOD | {"fp16-ratio-2048": (1024, "wrong", "another format")}

# %% wrong: another cause => values wrong-cause  from: by hand
# ~ GOOD ==> GOOD | {"mixed-12-bytes": (16, "wrong", "another dtype")}

# %% wrong: the magnitude itself => values other-unit  from: by hand
# ~ GOOD ==> GOOD | {"fp16-zero-below": (2.0**-25, "wrong", "rounded up")}

# %% wrong: left as it is => not-answered  from: by hand
# ~ return GOOD ==> raise NotImplementedError


# %% half: one statement is missing => 7  from: by hand
# ~ GOOD ==> {name: answer for name, answer in GOOD.items() if name != "e5m2-largest"}
