# %% right: recomputed
def audit_context():
    return {
        "cp-attention-256": ((131072 / 8192) ** 2, "right", "as printed"),
        "ulysses-stores-all": (1 / 8, "wrong", "another exchange"),
        "ring-one-nth": (2 / 8, "wrong", "one block more"),
        "sp-fourth-axis": (16 * 8 * 4, "wrong", "counted twice"),
        "cp-half-wasted": (1 - 16 / 31, "right", "as printed"),
        "llama3-cp-batch": (8 * 16 * 131072 / 1e6, "right", "as printed"),
        "sp-same-bandwidth": (1.0, "right", "as printed"),
        "ring-scores": (1 / 64, "wrong", "both sides are split"),
    }


# %% right: rounded, in capitals
def audit_context():
    return {
        "cp-attention-256": (256, "RIGHT", "As printed"),
        "ulysses-stores-all": (0.125, "Wrong", "another exchange"),
        "ring-one-nth": (0.25, "Wrong", "one block more"),
        "sp-fourth-axis": (512, "wrong", "Counted twice"),
        "cp-half-wasted": (0.48, "right", "as printed"),
        "llama3-cp-batch": (16.8, "right", "as printed"),
        "sp-same-bandwidth": (1, "right", "as printed"),
        "ring-scores": (0.0156, "wrong", "both sides are split"),
    }


# %% wrong: everything as printed => values as-printed
def audit_context():
    printed = {
        "cp-attention-256": 256.0,
        "ulysses-stores-all": 1.0,
        "ring-one-nth": 1 / 8,
        "sp-fourth-axis": 4096,
        "cp-half-wasted": 0.5,
        "llama3-cp-batch": 16.0,
        "sp-same-bandwidth": 1.0,
        "ring-scores": 1 / 8,
    }
    return {name: (number, "right", "as printed") for name, number in printed.items()}


# %% wrong: everything is wrong => values wrong-verdict
def audit_context():
    numbers = [256, 1 / 8, 2 / 8, 512, 1 - 16 / 31, 16.78, 1.0, 1 / 64]
    names = "cp-attention-256 ulysses-stores-all ring-one-nth sp-fourth-axis cp-half-wasted llama3-cp-batch sp-same-bandwidth ring-scores"
    return {name: (number, "wrong", "counted twice") for name, number in zip(names.split(), numbers, strict=True)}


# %% wrong: context ranks are samples => values context-as-samples  from: recomputed
# ~ 131072 / 1e6, "right", "as printed" ==> 16 * 131072 / 1e6, "wrong", "samples and parts"

# %% wrong: the other cause => values wrong-cause  from: recomputed
# ~ "both sides are split" ==> "one block more"

# %% wrong: the busy share => values busy  from: recomputed
# ~ 1 - 16 ==> 16

# %% wrong: an all-reduce stays => values twice  from: recomputed
# ~ 1.0, "right", "as printed" ==> 2.0, "wrong", "counted twice"

# %% wrong: tokens in place of millions => values other-unit  from: recomputed
# ~ 131072 / 1e6 ==> 131072
