T = d = 8192
L = 80
INPUTS = T * d * L * 2 / 1e9
GOOD = {
    "state-70b-1120": (16 * 70 / 1e3, "right", "as printed"),
    "adam-2p-2p-8p": (16 * 7, "wrong", "a bucket is left out"),
    "moments-7b-56": (8 * 7, "right", "as printed"),
    "state-405b-3200": (16 * 405 / 1e3, "wrong", "a bucket is left out"),
    "state-405b-4860": (12 * 405 / 1e3, "right", "as printed"),
    "cards-405b-60": (61, "right", "as printed"),
    "activations-130-200": (12 * INPUTS, "right", "as printed"),
    "activations-14": (T * L * d * 14 / 1e9, "wrong", "numbers for bytes"),
    "activations-btld": ((34 + 5 * 64 * T / d) / 34, "wrong", "missing term"),
    "checkpointed-2.6": (INPUTS, "wrong", "missing factor"),
    "checkpointed-20": (INPUTS + T * d * 2 * 14 / 1e9, "wrong", "does not follow"),
    "checkpoint-sqrt": (80, "wrong", "wrong growth"),
    "checkpoint-33-forward": (100, "wrong", "wrong baseline"),
    "oom-construction": (140, "wrong", "wrong moment"),
}


# %% right: recomputed one by one
def audit_memory():
    return GOOD


# %% right: within five per cent, lists  from: recomputed one by one
# ~ GOOD ==> {name: [number * 1.03, said.upper(), f" {cause} "] for name, (number, said, cause) in GOOD.items()}


# %% wrong: the printed numbers => values as-printed
from course_lib import facts


def audit_memory():
    scale = {"cards-405b-60": 1, "activations-btld": 1, "checkpoint-sqrt": 1, "checkpoint-33-forward": 0.01}
    scale |= dict.fromkeys(("state-70b-1120", "state-405b-3200", "state-405b-4860"), 1e12)
    return {name: (float(facts.claim(name).value) / scale.get(name, 1e9), "right", "as printed") for name in GOOD}


# %% wrong: no master copy anywhere => values no-master  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "state-405b-3200": (4.86, "wrong", "a bucket is left out")}

# %% wrong: the printed formula to the letter => values the-formula  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "checkpointed-2.6": (0.00131072, "wrong", "missing factor")}

# %% wrong: the live layer is forgotten => values no-live-layer  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "checkpointed-20": (10.74, "wrong", "does not follow")}

# %% wrong: the term alone => values term-only  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "activations-btld": (9.411764705882353, "wrong", "missing term")}

# %% wrong: a third more => values as-printed  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "checkpoint-33-forward": (33.3, "right", "as printed")}

# %% wrong: root of the layers => values as-printed  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "checkpoint-sqrt": (8.94, "right", "as printed")}

# %% wrong: dies where it was printed => values all-state  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "oom-construction": (1120, "right", "as printed")}

# %% half: one error and one control => 3  from: recomputed one by one
# ~ GOOD ==> {name: GOOD[name] for name in ("state-70b-1120", "checkpoint-sqrt")}

# %% half: one statement missed => 19.5  from: recomputed one by one
# ~ GOOD ==> {**GOOD, "checkpointed-20": (20, "right", "as printed")}
