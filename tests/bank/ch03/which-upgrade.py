# %% right: every upgrade tried
def best_upgrade(work, rates, factor):
    def step(speeds):
        return max(work[part] / speeds[part] for part in work)

    gains = {part: step(rates) / step({**rates, part: rates[part] * factor}) for part in rates}
    best = max(gains, key=gains.get)
    return best, gains[best]


# %% right: the busiest and the next, a list
def best_upgrade(work, rates, factor):
    times = sorted(((work[part] / rates[part], part) for part in work), reverse=True)
    (longest, name), (second, _) = times[:2]
    return [name, longest / max(second, longest / factor)]


# %% right: any variant  from: every upgrade tried
# - def best_upgrade(work, rates, factor):
# + from course_lib import params
# + WAIT = params("which-upgrade").overlap == "wires wait"
# + def best_upgrade(work, rates, factor):
# -         return max(work[part] / speeds[part] for part in work)
# +         times = {part: work[part] / speeds[part] for part in work}
# +         if WAIT:
# +             return max(times["compute"], times["memory"]) + times["link"] + times["network"]
# +         return max(times.values())

# %% wrong: the factor itself => values the-factor  from: every upgrade tried
# ~ max(gains, key=gains.get) ==> max(work, key=lambda part: work[part] / rates[part])
# ~ best, gains[best] ==> best, factor

# %% wrong: the most bytes => values always-the-same  from: every upgrade tried
# ~ max(gains, key=gains.get) ==> max(work, key=work.get)

# %% wrong: the slowest wire => values always-the-same  from: the most bytes
# ~ max(work, key=work.get) ==> min(rates, key=rates.get)

# %% wrong: the wires wait => values other-overlap unless overlap=wires wait  from: every upgrade tried
# -         return max(work[part] / speeds[part] for part in work)
# +         times = {part: work[part] / speeds[part] for part in work}
# +         return max(times["compute"], times["memory"]) + times["link"] + times["network"]

# %% wrong: after over before => values upside-down  from: the busiest and the next, a list
# ~ [name, longest / max(second, longest / factor)] ==> name, max(second, longest / factor) / longest

# %% wrong: a name of its own => values no-such-word  from: only the name
# ~ "compute" ==> "HBM", 2.0

# %% wrong: twice by heart => values -  from: the busiest and the next, a list
# ~ [name, longest / max(second, longest / factor)] ==> name, longest / max(second, longest / 2)


# %% wrong: only the name => values wrong-shape
def best_upgrade(work, rates, factor):
    return "compute"


# %% wrong: says nothing helps => values nothing  from: the factor itself
# ~ best, factor ==> best, 1.0

# %% wrong: asks the library => raised  from: every upgrade tried
# - def best_upgrade(work, rates, factor):
# + from course_lib import roofline
# + def best_upgrade(work, rates, factor):
# -     gains = {part: step(rates) / step({**rates, part: rates[part] * factor}) for part in rates}
# +     mine = roofline.Work(work["compute"], work["memory"], work["network"])
# +     machine = roofline.Machine("mine", rates["compute"], rates["memory"], rates["network"])
# +     gains = roofline.speedups(mine, machine, factor)

# %% half: the part, not yet the speed-up => 3  from: the factor itself
# ~ best, factor ==> best, 0.0
