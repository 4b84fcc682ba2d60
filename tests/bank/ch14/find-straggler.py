from statistics import mean, median


# %% right: as written
FACTOR = 1.25


def straggler(compute, data, wait):
    own = [[a + b for a, b in zip(c, d)] for c, d in zip(compute, data)]
    ranks = range(len(own[0])) if own else []
    found = []
    for rank in ranks:
        late = sum(step[rank] > FACTOR * median(step) for step in own)
        if late > len(own) / 2:
            found.append((-sum(step[rank] for step in own), rank))
    if not found:
        return None
    rank = min(found)[1]
    extra = [sum(step[rank] - median(step) for step in table) for table in (compute, data)]
    return rank, "compute" if extra[0] >= extra[1] else "data"


# %% right: any variant  from: as written
# - FACTOR = 1.25
# + from course_lib import params
# + FACTOR = params("find-straggler").factor

# %% wrong: the one that waits longest => values blames-the-waiting  from: as written
# -     own = [[a + b for a, b in zip(c, d)] for c, d in zip(compute, data)]
# +     total = [sum(column) for column in zip(*wait)]
# +     return total.index(max(total)), "compute"
# +     own = []

# %% wrong: the mean of the ranks => generality mean-of-ranks  from: as written
# ~ * median(step) ==> * mean(step)

# %% wrong: the mean over the steps => values one-long-step  from: as written
#       ranks = range(len(own[0])) if own else []
# +     own = [[mean(step[rank] for step in own) for rank in ranks]] if own else []

# %% wrong: half of the steps are enough => values half-is-enough  from: as written
# ~ if late > len(own) / 2: ==> if late >= len(own) / 2:

# %% wrong: in all steps => values -  from: as written
# ~ if late > len(own) / 2: ==> if late == len(own):

# %% wrong: late at the limit => generality at-the-limit  from: as written
# ~ [rank] > FACTOR * median ==> [rank] >= FACTOR * median

# %% wrong: always compute => values other-kind  from: as written
# ~ "compute" if extra[0] >= extra[1] else "data" ==> "compute"

# %% wrong: the larger time is the kind => values other-kind  from: as written
# ~ sum(step[rank] - median(step) for step in table) ==> sum(step[rank] for step in table)

# %% wrong: the lowest rank of several => generality -  from: as written
# ~ (found)[1] ==> (each[1] for each in found)

# %% wrong: the highest rank of equals => generality -  from: as written
# ~ (found)[1] ==> ((each[0], -each[1]) for each in found)[1] * -1

# %% wrong: computation alone => values -  from: as written
# ~ [[a + b for a, b in zip(c, d)] for c, d in zip(compute, data)] ==> compute

# %% wrong: never anybody => values -  from: as written
# ~ if not found: ==> if found or not found:

# %% wrong: the lower of the two in the middle => generality one-of-the-middle  from: as written
#   def straggler(compute, data, wait):
# +     from statistics import median_low as median

# %% wrong: the rank that is late most often => generality -  from: as written
# ~ -sum ==> -late, -sum
# ~ (found)[1] ==> (found)[2]

# %% wrong: the kind of the last step => generality other-kind  from: as written
# -     extra = [sum(step[rank] - median(step) for step in table) for table in (compute, data)]
# +     extra = [table[-1][rank] - median(table[-1]) for table in (compute, data)]

# %% wrong: two ranks have no straggler => generality ~  from: as written
# -     found = []
# +     if len(ranks) < 3:
# +         return None
# +     found = []

# %% wrong: a median of zero makes nobody late => generality ~  from: as written
# ~ step[rank] > FACTOR * median(step) for ==> step[rank] > FACTOR * median(step) > 0 for
