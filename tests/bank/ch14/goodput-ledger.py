# %% right: as written
def ledger(log):
    spent = {"work": 0.0, "lost": 0.0, "save": 0.0, "restart": 0.0}
    steps, down = [], False
    for (before, _, _), (now, event, step) in zip(log, log[1:]):
        seconds = now - before
        if event == "step":
            steps.append((step, seconds))
        elif event == "saved":
            spent["save"] += seconds
        elif event == "restart":
            spent["restart"] += seconds
            spent["lost"] += sum(each for number, each in steps if number > step)
            steps = [each for each in steps if each[0] <= step]
            down = False
        else:
            spent["restart" if down else "lost"] += seconds
            down = True
    spent["work"] = sum(each for _, each in steps)
    return spent


# %% right: from the end
def ledger(log):
    spent = dict.fromkeys(["work", "lost", "save", "restart"], 0.0)
    lowest = float("inf")  # the lowest step that a later restart resumes from
    for at in range(len(log) - 1, 0, -1):
        now, event, step = log[at]
        seconds = now - log[at - 1][0]
        cause = {
            "step": "lost" if step is not None and step > lowest else "work",
            "saved": "save",
            "restart": "restart",
        }.get(event)
        if cause is None:
            earlier = [each for _, each, _ in log[:at] if each in ("failure", "restart")]
            cause = "restart" if earlier and earlier[-1] == "failure" else "lost"
        if event == "restart":
            lowest = min(lowest, step)
        spent[cause] += seconds
    return spent


# %% right: any variant  from: as written
# - def ledger(log):
# + from course_lib import params
# + UNIT = params("goodput-ledger").unit
# + def ledger(log):
# -     return spent
# +     total = log[-1][0] - log[0][0] if UNIT == "shares" else 1
# +     return {cause: seconds / total for cause, seconds in spent.items()}

# %% wrong: repeated steps are work => values repeated-as-work  from: as written
# ~ ["lost"] ==> ["work"]
# ~ spent["work"] = sum(each for _, each in steps) ==> spent["work"] += sum(each for _, each in steps)

# %% wrong: from the newest checkpoint => generality newest-checkpoint  from: as written
#               spent["save"] += seconds
# +             saved = step
#               spent["restart"] += seconds
# +             step = locals().get("saved", 0)

# %% wrong: the step of the checkpoint is lost too => values one-step-too-many  from: as written
# ~ (each for number, each in steps if number > step) ==> (each for number, each in steps if number >= step)
# ~ [each for each in steps if each[0] <= step] ==> [each for each in steps if each[0] < step]

# %% wrong: a failed restart is lost work => generality restart-is-lost  from: as written
# ~ "restart" if down else "lost" ==> "lost" if event == "failure" or not down else "restart"

# %% wrong: the end is work => values end-is-work  from: as written
# -             spent["restart" if down else "lost"] += seconds
# +             key = "restart" if down else "work" if event == "end" else "lost"
# +             spent[key] += seconds
# ~ spent["work"] = sum(each for _, each in steps) ==> spent["work"] += sum(each for _, each in steps)

# %% wrong: in shares => values other-unit unless unit=shares  from: as written
# ~ return spent ==> return {cause: seconds / (log[-1][0] - log[0][0]) for cause, seconds in spent.items()}

# %% wrong: the total => values one-number  from: as written
# ~ return spent ==> return sum(spent.values())

# %% wrong: only the failure's own time is lost => values -  from: as written
# ~ sum(each for number, each in steps if number > step) ==> 0

# %% wrong: saves that were lost are lost => values -  from: as written
# -             spent["save"] += seconds
# +             steps.append((step + 0.5, seconds))

# %% wrong: a step is lost when it is done again => generality ~  from: as written
# ~ if number > step) ==> if number > step and (number, "step") in [(n, kind) for when, kind, n in log if when > now])
