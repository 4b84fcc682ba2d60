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


# %% right: rounded, in capitals  from: recomputed
# ~ (131072 / 8192) ** 2, "right", "as printed" ==> 256, "RIGHT", "As printed"
# ~ 1 - 16 / 31, "right", ==> 0.48, "right",
# ~ 8 * 16 * 131072 / 1e6 ==> 16.8
# ~ 1 / 64, "wrong" ==> 0.0156, "Wrong"

# %% wrong: everything as printed => values as-printed  from: recomputed
# ~ return { ==> good = {
#       }
# +     printed = (256.0, 1.0, 1 / 8, 4096, 0.5, 16.0, 1.0, 1 / 8)
# +     return {name: (number, "right", "as printed") for name, number in zip(good, printed)}

# %% wrong: everything is wrong => values wrong-verdict  from: recomputed
# ~ return { ==> good = {
#       }
# +     return {name: (number, "wrong", "counted twice") for name, (number, _, _) in good.items()}

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
