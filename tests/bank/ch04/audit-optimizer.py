# %% right: from the formulas
def audit_optimizer():
    tokens = 12 * 1024 * 5 * 8 * 600_000
    fit = (0.34 * 406.4 / (0.28 * 410.7)) ** (1 / 0.62) * (5.76e23 / 6) ** (0.28 / 0.62)
    updates = 252e6 / 4e6 + (2.87e12 - 252e6) / 8e6 + (15.6e12 - 2.87e12) / 16e6
    return {
        "accumulation-identical": ((1.5 + 17 / 3) / 2 / 4, "wrong", "unequal parts"),
        "noise-useful-regime": (1 / 8, "wrong", "variance for benefit"),
        "chinchilla-70b": (fit / 1e9, "wrong", "another fit"),
        "nanogpt-300b": (tokens / 1e9, "right", "as printed"),
        "goyal-8k": (0.1 * 8192 / 256, "right", "as printed"),
        "llama3-updates": (updates / 1e6, "right", "as printed"),
    }


# %% right: one estimated, with capitals  from: from the formulas
# ~ (1.5 + 17 / 3) / 2 / 4, "wrong", "unequal parts" ==> 0.896, "Wrong", "Unequal parts"
# ~ tokens / 1e9 ==> 295

# %% wrong: all as printed => values -  from: from the formulas
# ~ (1.5 + 17 / 3) / 2 / 4, "wrong", "unequal parts" ==> 1.0, "right", "as printed"
# ~ 1 / 8, "wrong", "variance for benefit" ==> 1.0, "right", "as printed"
# ~ fit / 1e9, "wrong", "another fit" ==> 70, "right", "as printed"

# %% wrong: everything is wrong => values wrong-verdict  from: from the formulas
# ~ (tokens / 1e9, "right", "as printed"), ==> (tokens / 1e9, "wrong", "another unit"),
# ~ (0.1 * 8192 / 256, "right", "as printed"), ==> (0.1 * 8192 / 256, "wrong", "another fit"),
# ~ (updates / 1e6, "right", "as printed"), ==> (updates / 1e6, "wrong", "unequal parts"),

# %% wrong: standard deviations => values deviation  from: from the formulas
# ~ 1 / 8 ==> 8**-0.5

# %% wrong: twenty tokens per parameter => values as-printed  from: from the formulas
# ~ fit / 1e9, "wrong", "another fit" ==> (5.76e23 / 120) ** 0.5 / 1e9, "right", "as printed"

# %% wrong: the compute to the other exponent => values other-exponent  from: from the formulas
# ~ ** (0.28 / 0.62) ==> ** (0.34 / 0.62)

# %% wrong: one GPU's tokens => values one-gpu  from: from the formulas
# ~ 1e9, "right", "as printed" ==> 8e9, "wrong", "one rank's share"

# %% wrong: the last batch throughout => values last-batch  from: from the formulas
# ~ updates / 1e6, "right", "as printed" ==> 15.6e12 / 16e6 / 1e6, "wrong", "another unit"

# %% wrong: another cause => values wrong-cause  from: from the formulas
# ~ "unequal parts" ==> "one rank's share"

# %% wrong: base units => values other-unit  from: from the formulas
# ~ updates / 1e6, ==> updates,


# %% wrong: None => values no-dictionary  from: from the formulas
# ~ return { ==> return None and {

# %% wrong: left as it is => not-answered  from: from the formulas
# ~ tokens = 12 * 1024 * 5 * 8 * 600_000 ==> raise NotImplementedError
