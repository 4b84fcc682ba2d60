# %% right: the definition first
def explain(report):
    n, nbytes = report["ranks"], report["nbytes"]
    factor = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}[report["collective"]] * (n - 1) / n
    by_rule = factor * nbytes / report["seconds"]
    sent = (1 if report["sent_once"] else factor) * nbytes * report["sent_bytes"] / report["element_bytes"]
    one = sent / report["waited_seconds"] / report["wires"]
    for name, times in (("bits for bytes", 8), ("both directions", 2), ("factor twice", factor)):
        if abs(report["printed"] / by_rule / times - 1) < 0.03:
            return name, one
    shares = {
        "no ring": factor if report["sent_once"] else 1,
        "fewer bits sent": report["element_bytes"] / report["sent_bytes"],
        "clock did not wait": report["waited_seconds"] / report["seconds"],
        "several wires": report["wires"],
        "as it says": 1.1,
    }
    return max(shares, key=shares.get), one


# %% right: from the wire upwards
def explain(report):
    n = report["ranks"]
    per_tensor = (1.0 if report["collective"] != "all_reduce" else 2.0) * (1 - 1 / n)
    numbers = report["nbytes"] // report["element_bytes"] * (1.0 if report["sent_once"] else per_tensor)
    one = numbers * report["sent_bytes"] / report["wires"] / report["waited_seconds"]
    over = report["printed"] / (report["nbytes"] * per_tensor / report["seconds"])
    if over > 5:
        return "bits for bytes", one
    if over < 1.2:
        saved = [
            (report["waited_seconds"] / report["seconds"], "clock did not wait"),
            (report["wires"], "several wires"),
            (report["element_bytes"] / report["sent_bytes"], "fewer bits sent"),
            (per_tensor if report["sent_once"] else 1, "no ring"),
        ]
        most, name = max(saved)
        return (name if most > 1.05 else "as it says"), one
    return ("both directions" if abs(over - 2) < abs(over - per_tensor) else "factor twice"), one


# %% wrong: the printed number is what the wire carries => values printed  from: the definition first
# ~ sent / report["waited_seconds"] / report["wires"] ==> report["printed"]

# %% wrong: the definition is what the wire carries => values by-the-rule  from: the definition first
# ~ sent / report["waited_seconds"] / report["wires"] ==> by_rule

# %% wrong: bytes over seconds => values no-ring  from: the definition first
# ~ (1 if report["sent_once"] else factor) * nbytes ==> nbytes

# %% wrong: the clock that did not wait => values hasty-clock  from: the definition first
# ~ sent / report["waited_seconds"] ==> sent / report["seconds"]

# %% wrong: all wires together => values all-wires  from: the definition first
# ~ sent / report["waited_seconds"] / report["wires"] ==> sent / report["waited_seconds"]

# %% wrong: bytes of the tensor => values full-width  from: the definition first
# ~ nbytes * report["sent_bytes"] / report["element_bytes"] ==> nbytes

# %% wrong: always a ring => values a-ring  from: the definition first
# ~ (1 if report["sent_once"] else factor) ==> factor

# %% wrong: one factor for all collectives => values wrong-factor  from: the definition first
# ~ (1 if report["sent_once"] else factor) ==> (1 if report["sent_once"] else 2 * (n - 1) / n)

# %% wrong: in bits => values bits  from: the definition first
# ~ sent / report["waited_seconds"] ==> 8 * sent / report["waited_seconds"]

# %% wrong: halved, for two directions => values half  from: the definition first
# ~ sent / report["waited_seconds"] ==> sent / 2 / report["waited_seconds"]

# %% wrong: above the line or not => values not-no-ring  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     return "clock did not wait" if report["printed"] > report["line"] else "as it says", one

# %% wrong: printers make no mistakes => values unnoticed  from: the definition first
# ~ / times - 1) < 0.03 ==> / times - 1) < 0

# %% wrong: a per cent of a clock is a cause => values false-alarm  from: the definition first
# ~ "as it says": 1.1, ==> "as it says": 1.1 if report["waited_seconds"] <= report["seconds"] else 1.0,

# %% wrong: the example's factor => values -  from: the definition first
# ~ n, nbytes = report["ranks"], ==> n, nbytes = 8,

# %% wrong: a rate alone => values wrong-shape  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     return one

# %% wrong: other words => values no-such-word  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     return "NVLS", one

# %% wrong: the first of several causes => generality not-several-wires  from: the definition first
# ~ max(shares, key=shares.get) ==> next((name for name, share in shares.items() if share > 1.1), "as it says")

# %% wrong: nothing is wrong below the line => generality unnoticed  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     if report["printed"] <= report["line"]:
# +         return "as it says", one
