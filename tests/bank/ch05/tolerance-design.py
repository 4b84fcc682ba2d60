import math


# %% right: between one and two bounds
def is_close(got, want, magnitude, terms, roundoff):
    return abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude


# %% right: the compounded bound
def is_close(got, want, magnitude, terms, roundoff):
    growth = (1 + roundoff) ** (terms - 1) - 1
    bound = min(growth, 1.9 * (terms - 1) * roundoff) * magnitude
    return bool(want - bound <= got <= want + bound)


# %% wrong: relative to the sum => values relative-to-the-sum  from: between one and two bounds
# ~ * magnitude ==> * abs(want)

# %% wrong: no length => values -  from: between one and two bounds
# ~ 1.5 * (terms - 1) ==> 2

# %% wrong: the root of the length => values -  from: between one and two bounds
# ~ (terms - 1) ==> math.sqrt(terms)

# %% wrong: one percent => values -  from: between one and two bounds
# ~ 1.5 * (terms - 1) * roundoff * magnitude ==> 0.01 * max(1.0, abs(want))

# %% wrong: without the magnitude => values -  from: between one and two bounds
# ~ roundoff * magnitude ==> roundoff

# %% wrong: far too small passes => values one-sided  from: between one and two bounds
# ~ abs(got - want) ==> math.isfinite(got) and got - want

# %% wrong: NaN passes => generality passes-nan  from: between one and two bounds
# ~ abs(got - want) <= 1 ==> not abs(got - want) > 1

# %% wrong: one number may be off => generality one-term  from: between one and two bounds
# ~ 5 * (terms - 1) ==> 2 * terms

# %% wrong: everything passes => values always  from: between one and two bounds
# ~ abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude ==> True

# %% wrong: only equal numbers pass => values never  from: between one and two bounds
# ~ abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude ==> got == want

# %% wrong: four bounds => values too-loose  from: between one and two bounds
# ~ 1.5 ==> 4

# %% wrong: with the denominator => values -  from: between one and two bounds
# ~ abs(got - want) <= 1.5 * (terms - 1) * roundoff * magnitude ==> math.isfinite(got) and abs(got - want) * (1 - (terms - 1) * roundoff) <= (terms - 1) * roundoff * magnitude

# %% wrong: the logarithm of the length => values -  from: between one and two bounds
# ~ 1.5 * (terms - 1) ==> math.ceil(math.log2(terms))

# %% wrong: the bound itself is excluded => generality one-term  from: between one and two bounds
# ~ <= ==> <
