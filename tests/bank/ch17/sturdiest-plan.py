import math


# %% right: a key of two numbers
def sturdiest(plans, limits):
    def holds(takes, condition):
        return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition]))

    def worst(takes):
        return max(
            math.inf if mine is None else max(x / y for x, y in zip(mine, limits[condition]))
            for condition, mine in takes.items()
        )

    alive = {name: takes for name, takes in plans.items() if holds(takes, "as planned")}
    changes = [condition for condition in limits if condition != "as planned"]
    return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])), default=None)


# %% right: any variant  from: a key of two numbers
# - def sturdiest(plans, limits):
# + from course_lib import params
# + STEP = 1 if params("sturdiest-plan").ranking == "changes" else -1
# + def sturdiest(plans, limits):
# ~ (-sum(holds(alive[n], c) for c in changes), worst(alive[n])) ==> (-sum(holds(alive[n], c) for c in changes), worst(alive[n]))[::STEP]


# %% wrong: the first plan => values -
def sturdiest(plans, limits):
    return next(iter(plans))


# %% wrong: plans that fail today too => values dead-chosen  from: a key of two numbers
# ~ {name: takes for name, takes in plans.items() if holds(takes, "as planned")} ==> plans

# %% wrong: the ratio comes first => values other-ranking unless ranking=worst  from: a key of two numbers
# ~ return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])), default=None) ==> return min(alive, key=lambda n: (worst(alive[n]), -sum(holds(alive[n], c) for c in changes)), default=None)

# %% wrong: equal exceeds => values -  from: a key of two numbers
# ~ return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition])) ==> return takes[condition] is not None and all(x < y for x, y in zip(takes[condition], limits[condition]))

# %% wrong: today's limits for all => values old-limits  from: a key of two numbers
# ~ return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition])) ==> return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits["as planned"]))
# ~ (x / y for x, y in zip(mine, limits[condition])) ==> (x / y for x, y in zip(mine, limits["as planned"]))

# %% wrong: what cannot run survives => values none-survives  from: a key of two numbers
# ~ return takes[condition] is not None and all(x <= y for x, y in zip(takes[condition], limits[condition])) ==> return takes[condition] is None or all(x <= y for x, y in zip(takes[condition], limits[condition]))

# %% wrong: what cannot run has no ratio => values none-skipped  from: a key of two numbers
# ~ math.inf ==> 0.0

# %% wrong: the ratio of changes alone => generality changes-alone  from: a key of two numbers
# ~ for condition, mine in takes.items() ==> for condition, mine in takes.items() if condition != "as planned" or len(takes) == 1

# %% wrong: the number of changes alone => values count-alone  from: a key of two numbers
# ~ (-sum(holds(alive[n], c) for c in changes), worst(alive[n])) ==> -sum(holds(alive[n], c) for c in changes)

# %% wrong: the least ratio of a condition => values least-ratio  from: a key of two numbers
# ~ max(x / y for ==> min(x / y for

# %% wrong: numbers for ratios => values no-limit  from: a key of two numbers
# ~ (x / y for x, y in ==> (x for x, _ in

# %% wrong: no plan is an error => generality raised  from: a key of two numbers
# ~ return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])), default=None) ==> return min(alive, key=lambda n: (-sum(holds(alive[n], c) for c in changes), worst(alive[n])))

# %% wrong: what cannot run as planned is chosen => generality -  from: a key of two numbers
# ~ alive = {name: takes for name, takes in plans.items() if holds(takes, "as planned")} ==> alive = {name: takes for name, takes in plans.items() if not takes["as planned"] or holds(takes, "as planned")}
