# %% right: computed
def largest_update():
    sizes = [(1 - 0.9**t) / (1 - 0.999**t) ** 0.5 for t in range(1, 101)]
    return max(sizes) / 1.5, max(sizes) * 1.5


# %% right: narrow, and far from the truth  from: a list
# ~ [1, 4] ==> (0.9, 1.1)


# %% right: a list
def largest_update():
    return [1, 4]


# %% wrong: one number => values not-a-pair  from: narrow, and far from the truth
# ~ (0.9, 1.1) ==> 3.2

# %% wrong: too wide => values too-wide  from: narrow, and far from the truth
# ~ (0.9, 1.1) ==> 1, 10

# %% wrong: upside down => values reversed  from: narrow, and far from the truth
# ~ (0.9, 1.1) ==> 4, 2

# %% wrong: from zero => values not-positive  from: narrow, and far from the truth
# ~ (0.9, 1.1) ==> 0, 1


# %% wrong: left as it is => not-answered
def largest_update():
    raise NotImplementedError
