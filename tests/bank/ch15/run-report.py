import math

from course_lib.runs import evidence


# %% right: a line for each run
def report(runs):
    lines, off = ["# Predicted and measured", ""], {}
    for name, run in runs.items():
        if evidence.digest(run) != run["sha256"]:
            lines.append(f"- `{name}` is left out: it was changed after it was written.")
            continue
        found, said = run["measured"], run["predicted"].get("step_seconds")
        line = f"- `{name}`: {found['step_seconds'] * 1e3:.4g} ms [{name}:measured.step_seconds]"
        line += f", {found['memory_bytes'] / 1e6:.4g} MB [{name}:measured.memory_bytes]"
        if said:
            off[name] = found["step_seconds"] / said
            line += f"; predicted {said * 1e3:.4g} ms [{name}:predicted.step_seconds]"
            line += f", off by {off[name]:.4g} × [{name}:measured.step_seconds / {name}:predicted.step_seconds]"
        lines.append(line)
    if off:
        lines += ["", f"Worst predicted: `{max(off, key=lambda name: abs(math.log(off[name])))}`"]
    return "\n".join(lines)


# %% right: a table, other units, ratios in per cent
def claim(value, unit, *fields):
    size = {"s": 1, "GB": 1e9, "%": 0.01}[unit]
    return f"{value / size:,.6g} {unit} [{' / '.join(fields)}]"


def report(runs):
    whole = {name: run for name, run in runs.items() if evidence.digest(run) == run["sha256"]}
    rows = ["| run | step | memory | predicted | measured / predicted |", "|---|---|---|---|---|"]
    worst = {}
    for name, run in whole.items():
        step, said = run["measured"]["step_seconds"], run["predicted"].get("step_seconds", 0)
        where = f"{name}:measured.step_seconds", f"{name}:predicted.step_seconds"
        cells = [
            f"`{name}`",
            claim(step, "s", where[0]),
            claim(run["measured"]["memory_bytes"], "GB", f"{name}:measured.memory_bytes"),
        ]
        cells += [claim(said, "s", where[1]), claim(step / said, "%", *where)] if said else ["not made", "none"]
        worst |= {max(step / said, said / step): name} if said else {}
        rows.append(f"| {' | '.join(cells)} |")
    refused = [f"Refused, as its hash does not fit: `{name}`." for name in runs if name not in whole]
    return "\n".join(["# Runs", *rows, *refused, *([f"Worst predicted: `{worst[max(worst)]}`"] if worst else [])])


# %% wrong: seconds are called milliseconds => values not-what-the-file-says  from: a line for each run
# ~ `: {found['step_seconds'] * 1e3:.4g} ==> `: {found['step_seconds']:.4g}

# %% wrong: bytes in mebibytes, called MB => values powers-of-two  from: a line for each run
# ~ 1e6 ==> 2**20

# %% wrong: two digits => values too-few-digits  from: a line for each run
# ~ found['step_seconds'] * 1e3:.4g ==> found['step_seconds'] * 1e3:.2g
# ~ said * 1e3:.4g ==> said * 1e3:.2g

# %% wrong: a number without a source => values no-source  from: a line for each run
# ~ "# Predicted and measured" ==> f"# Predicted and measured in {len(runs)} runs"

# %% wrong: the memory is not said => values missing-claim  from: a line for each run
# -         line += f", {found['memory_bytes'] / 1e6:.4g} MB [{name}:measured.memory_bytes]"

# %% wrong: the ratio upside down => values upside-down  from: a line for each run
# -             line += f", off by {off[name]:.4g} × [{name}:measured.step_seconds / {name}:predicted.step_seconds]"
# +             line += f", off by {1 / off[name]:.4g} × [{name}:predicted.step_seconds / {name}:measured.step_seconds]"

# %% wrong: the ratio has the source of its numerator => values wrong-unit  from: a line for each run
# ~ × [{name}:measured.step_seconds / {name}:predicted.step_seconds] ==> × [{name}:measured.step_seconds]

# %% wrong: the first run only => values run-left-out  from: a line for each run
# ~ runs.items() ==> list(runs.items())[:1]

# %% wrong: no unit => values no-unit  from: a line for each run
# ~ found['step_seconds'] * 1e3:.4g} ms ==> found['step_seconds']:.4g}

# %% wrong: a changed file is quoted => generality quotes-a-changed-file  from: a line for each run
# ~ evidence.digest(run) != run["sha256"] ==> False

# %% wrong: a changed file is left out in silence => generality run-left-out  from: a line for each run
# -             lines.append(f"- `{name}` is left out: it was changed after it was written.")

# %% wrong: a prediction is there, always => generality raised  from: a line for each run
# ~ ["predicted"].get("step_seconds") ==> ["predicted"]["step_seconds"]

# %% wrong: a prediction that is missing is zero => generality no-such-field  from: a line for each run
# ~ .get("step_seconds") ==> .get("step_seconds", 0.0)
# ~ if said: ==> if True:
# ~ = found["step_seconds"] / said ==> = found["step_seconds"] / said if said else 1.0

# %% wrong: the ratio furthest from one in difference => generality wrong-worst  from: a line for each run
# ~ math.log(off[name]) ==> off[name] - 1

# %% wrong: no worst => values no-worst  from: a line for each run
# ~ if off: ==> if False:

# %% wrong: six lines a run => cost too-long  from: a line for each run
# ~ "\n".join(lines) ==> "\n\n".join(line.replace("; ", "\n").replace(", ", "\n") for line in lines)


# %% wrong: the claims in a list => values no-page
def report(runs):
    return [(name, run["measured"]["step_seconds"], "s") for name, run in runs.items()]


# %% half: right, but a changed file is quoted => 6.8  from: a changed file is quoted

# %% wrong: it remembers which names were whole => generality ~  from: a line for each run
# ~ def report(runs): ==> def report(runs, kept={}):
# ~ evidence.digest(run) != run["sha256"]: ==> kept.setdefault(name, evidence.digest(run)) != run["sha256"]:
