FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def ring(report):
    n = report["ranks"]
    return FACTORS[report["collective"]] * (n - 1) / n


def rule(report):
    return ring(report) * report["nbytes"] / report["seconds"]


def rate(report, **but):
    r = report | but
    return (
        (1 if r["sent_once"] else ring(r))
        * r["nbytes"]
        * r["sent_bytes"]
        / r["element_bytes"]
        / r["waited_seconds"]
        / r["wires"]
    )


def cause(report, slips=("bits for bytes", "both directions", "factor twice"), does=None):
    for name, factor in (("bits for bytes", 8), ("both directions", 2), ("factor twice", ring(report))):
        if name in slips and abs(report["printed"] / rule(report) / factor - 1) < 0.03:
            return name
    shares = {
        "no ring": ring(report) if report["sent_once"] else 1,
        "fewer bits sent": report["element_bytes"] / report["sent_bytes"],
        "clock did not wait": report["waited_seconds"] / report["seconds"],
        "several wires": report["wires"],
        "as it says": 1.1,
    }
    return max(does or shares, key=shares.get)


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
    bytes_sent = (
        report["nbytes"]
        // report["element_bytes"]
        * report["sent_bytes"]
        * (1.0 if report["sent_once"] else per_tensor)
    )
    one = bytes_sent / report["wires"] / report["waited_seconds"]
    over = report["printed"] / (report["nbytes"] * per_tensor / report["seconds"])
    if over > 5:
        return "bits for bytes", one
    if over < 1.2:
        saved = [
            (report["waited_seconds"] / report["seconds"], "clock did not wait"),
            (report["wires"], "several wires"),
        ]
        saved += [
            (report["element_bytes"] / report["sent_bytes"], "fewer bits sent"),
            (per_tensor if report["sent_once"] else 1, "no ring"),
        ]
        most, name = max(saved)
        return (name if most > 1.05 else "as it says"), one
    return ("both directions" if abs(over - 2) < abs(over - per_tensor) else "factor twice"), one


# %% wrong: the printed number is what the wire carries => values printed
def explain(report):
    return cause(report), report["printed"]


# %% wrong: the definition is what the wire carries => values by-the-rule
def explain(report):
    return cause(report), rule(report)


# %% wrong: bytes over seconds => values no-ring
def explain(report):
    return cause(report), rate(report, sent_once=True)


# %% wrong: the clock that did not wait => values hasty-clock
def explain(report):
    return cause(report), rate(report, waited_seconds=report["seconds"])


# %% wrong: all wires together => values all-wires
def explain(report):
    return cause(report), rate(report, wires=1)


# %% wrong: bytes of the tensor => values full-width
def explain(report):
    return cause(report), rate(report, sent_bytes=report["element_bytes"])


# %% wrong: always a ring => values a-ring
def explain(report):
    return cause(report), rate(report, sent_once=False)


# %% wrong: one factor for all collectives => values wrong-factor
def explain(report):
    return cause(report), rate(report, collective="all_reduce")


# %% wrong: in bits => values bits
def explain(report):
    return cause(report), 8 * rate(report)


# %% wrong: halved, for two directions => values half
def explain(report):
    return cause(report), rate(report) / 2


# %% wrong: always the same cause => values not-no-ring
def explain(report):
    return "both directions", rate(report)


# %% wrong: nothing is ever wrong => values unnoticed
def explain(report):
    return "as it says", rate(report)


# %% wrong: above the line or not => values -
def explain(report):
    return ("clock did not wait" if report["printed"] > report["line"] else "as it says"), rate(report)


# %% wrong: printers make no mistakes => values unnoticed
def explain(report):
    return cause(report, slips=()), rate(report)


# %% wrong: a per cent of a clock is a cause => values false-alarm
def explain(report):
    said = cause(report)
    return (
        "clock did not wait" if said == "as it says" and report["waited_seconds"] > report["seconds"] else said
    ), rate(report)


# %% wrong: the example's factor => values -
def explain(report):
    two = report | {"ranks": 8}
    return cause(two), rate(two)


# %% wrong: a rate alone => values wrong-shape
def explain(report):
    return rate(report)


# %% wrong: other words => values no-such-word
def explain(report):
    return "NVLS", rate(report)


# %% wrong: the first of several causes => generality not-several-wires
def explain(report):
    n = report["ranks"]
    per_tensor = (1.0 if report["collective"] != "all_reduce" else 2.0) * (1 - 1 / n)
    bytes_sent = (
        report["nbytes"]
        // report["element_bytes"]
        * report["sent_bytes"]
        * (1.0 if report["sent_once"] else per_tensor)
    )
    one = bytes_sent / report["wires"] / report["waited_seconds"]
    if report["sent_once"]:
        return "no ring", one
    if report["sent_bytes"] < report["element_bytes"]:
        return "fewer bits sent", one
    if report["wires"] > 1:
        return "several wires", one
    if report["waited_seconds"] > 1.5 * report["seconds"]:
        return "clock did not wait", one
    over = report["printed"] / (report["nbytes"] * per_tensor / report["seconds"])
    if over > 5:
        return "bits for bytes", one
    if over < 1.2:
        return "as it says", one
    return ("both directions" if abs(over - 2) < abs(over - per_tensor) else "factor twice"), one


# %% wrong: nothing is wrong below the line => generality unnoticed
def explain(report):
    return "as it says" if report["printed"] <= report["line"] else cause(report), rate(report)
