from fnmatch import fnmatchcase


# %% right: patterns, then shapes
def verify(plan, whole, held, ranks):
    found = [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)]
    for name, (rows, columns) in whole.items():
        want = (rows, columns)
        for pattern, style in plan.items():
            if fnmatchcase(name, pattern):
                want = (rows // ranks, columns) if style == "column" else (rows, columns // ranks)
        here = tuple(held[name])
        if here != want:
            found.append(("whole" if here == (rows, columns) else "wrong side", name))
    return sorted(found)


# %% right: a table of what was planned, then a comparison
def verify(plan, whole, held, ranks):
    styles = {name: plan[p] for p in plan for name in whole if fnmatchcase(name, p)}
    cut = {"column": lambda r, c: (r // ranks, c), "row": lambda r, c: (r, c // ranks), None: lambda r, c: (r, c)}
    unused = {("unused", p) for p in plan if not [name for name in whole if fnmatchcase(name, p)]}
    off = {name for name in whole if list(held[name]) != list(cut[styles.get(name)](*whole[name]))}
    whole_ones = {("whole", name) for name in off if list(held[name]) == list(whole[name])}
    turned = {("wrong side", name) for name in off if list(held[name]) != list(whole[name])}
    return sorted(unused | whole_ones | turned)


# %% wrong: patterns only => values whole-missed
def verify(plan, whole, held, ranks):
    return sorted(("unused", p) for p in plan if not any(fnmatchcase(name, p) for name in whole))


# %% wrong: shapes only => values unused-missed  from: patterns, then shapes
# ~ [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)] ==> []

# %% wrong: counts numbers, not shapes => generality side-missed  from: patterns, then shapes
# ~ if here != want: ==> if here[0] * here[1] != want[0] * want[1]:

# %% wrong: rows and columns taken the textbook's way => values false-alarm  from: patterns, then shapes
# ~ style == "column" ==> style == "row"

# %% wrong: only weights that a pattern matches are looked at => generality side-missed  from: patterns, then shapes
# ~ want = (rows, columns) ==> want = tuple(held[name])

# %% wrong: whole on one rank is a complaint => generality false-alarm  from: patterns, then shapes
# ~ if here != want: ==> if here != want or here == (rows, columns) and any(fnmatchcase(name, p) for p in plan):

# %% wrong: not sorted => values not-sorted  from: patterns, then shapes
# ~ sorted(found) ==> sorted(found, reverse=True)


# %% wrong: names without words => values wrong-shape
def verify(plan, whole, held, ranks):
    return [p for p in plan if not any(fnmatchcase(name, p) for name in whole)]


# %% half: patterns only => 3.2  from: patterns only

# %% wrong: larger than planned is no complaint => generality side-missed  from: patterns, then shapes
# ~ if here != want: ==> if here != want and here[0] <= rows:

# %% wrong: case counts for nothing => values -  from: patterns, then shapes
# -     found = [("unused", pattern) for pattern in plan if not any(fnmatchcase(name, pattern) for name in whole)]
# +     names = [name.lower() for name in whole]
# +     found = [("unused", p) for p in plan if not any(fnmatchcase(name, p.lower()) for name in names)]
# ~ if fnmatchcase(name, pattern): ==> if fnmatchcase(name.lower(), pattern.lower()):
