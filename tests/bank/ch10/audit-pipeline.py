from course_lib.schedules import interleaved, one_f_one_b, peak_activations
from course_lib.timeline import play

OK = ("right", "as printed")
GOOD = {
    "bubble-4-8": (3 / 11, *OK),
    "recompute-forwards": (1.0, "wrong", "another whole"),
    "pipeline-activations": (1.0, "wrong", "more in flight"),
    "interleaved-bubble": (7 / 64, *OK),
    "accumulation-gradients": (1.0, "wrong", "one copy anyway"),
    "interleaved-layers": (10, "wrong", "layers left over"),
    "bubble-16-64": (15 / 79, *OK),
    "recompute-sqrt-stage": (80, "wrong", "another recipe"),
}


# %% right: by hand
def audit_pp():
    return GOOD


# %% right: counted by the library
def audit_pp():
    first = peak_activations(one_f_one_b(16, 64))[0]
    return {
        "bubble-4-8": [play(one_f_one_b(4, 8)).bubble_fraction, *OK],
        "recompute-forwards": [1, "Wrong", "Another whole"],
        "pipeline-activations": [first / 16, "wrong", "more in flight"],
        "interleaved-bubble": [play(interleaved(8, 32)).bubble_over_ideal, *OK],
        "accumulation-gradients": [1, "wrong", "one copy anyway"],
        "interleaved-layers": [len([*range(1, 6), *range(21, 26)]), "wrong", "layers left over"],
        "bubble-16-64": [play(one_f_one_b(16, 64)).bubble_fraction, *OK],
        "recompute-sqrt-stage": [first * 80 / 16, "wrong", "another recipe"],
    }


# %% wrong: all right as printed, with the printed numbers => values as-printed
def audit_pp():
    printed = dict(zip(GOOD, (0.273, 0.33, 0.0625, 0.109375, 0.0625, 20, 0.19, 8.94)))
    return {name: (number, *OK) for name, number in printed.items()}


# %% wrong: idle over working time everywhere => values over-work
def audit_pp():
    return GOOD | {
        "bubble-4-8": (0.375, "wrong", "another convention"),
        "bubble-16-64": (15 / 64, "wrong", "another convention"),
    }


# %% wrong: interleaving as a share of all time => values of-all  from: by hand
# ~ GOOD ==> GOOD | {"interleaved-bubble": (3.5 / 35.5, "wrong", "another convention")}


# %% wrong: GPipe's first stage => values gpipe
def audit_pp():
    return GOOD | {
        "pipeline-activations": (4.0, "wrong", "more in flight"),
        "recompute-sqrt-stage": (320, "wrong", "another recipe"),
    }


# %% wrong: one micro-batch in the stage => values one-micro-batch  from: by hand
# ~ GOOD ==> GOOD | {"recompute-sqrt-stage": (5, "wrong", "another recipe")}

# %% wrong: twice the forwards => values times  from: by hand
# ~ GOOD ==> GOOD | {"recompute-forwards": (2.0, "wrong", "another whole")}

# %% wrong: per cent => values percent  from: by hand
# ~ GOOD ==> GOOD | {"recompute-forwards": (100, "wrong", "another whole")}

# %% wrong: a gradient for each micro-batch => values one-each  from: by hand
# ~ GOOD ==> GOOD | {"accumulation-gradients": (16, "wrong", "one copy anyway")}

# %% half: seven of eight => 7  from: one micro-batch in the stage
