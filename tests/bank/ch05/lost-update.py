import math


# %% right: by the exponent
def threshold(weight, fraction_bits):
    exponent = math.frexp(weight)[1] - 1
    return 2.0 ** (exponent - fraction_bits) / 2


def bits_needed(weight, update):
    bits = 0
    while update <= threshold(weight, bits):
        bits += 1
    return bits


# %% right: by logarithms
def threshold(weight, fraction_bits):
    return 2.0 ** (math.floor(math.log2(weight)) - fraction_bits - 1)


def bits_needed(weight, update):
    return max(0, math.floor(math.log2(threshold(weight, 0) / update)) + 1)


# %% right: any variant  from: by the exponent
# - def threshold(weight, fraction_bits):
# -     exponent = math.frexp(weight)[1] - 1
# -     return 2.0 ** (exponent - fraction_bits) / 2
# + from course_lib import params
# + STEP = params("lost-update").step
# + def threshold(weight, fraction_bits):
# +     half, exponent = math.frexp(weight)
# +     denser = STEP == "shrink" and half == 0.5
# +     return 2.0 ** (exponent - 1 - fraction_bits - denser) / 2

# %% wrong: the whole spacing => values whole-spacing  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits)

# %% wrong: relative to the weight => values relative  from: by the exponent
# ~ 2.0 ** (exponent - fraction_bits) ==> weight * 2.0 ** -fraction_bits

# %% wrong: one spacing for all weights => values of-one  from: by the exponent
# ~ 2.0 ** (exponent - fraction_bits) / 2 ==> 2.0**-fraction_bits / 2

# %% wrong: below the power of two => values other-side unless step=shrink  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits - (math.frexp(weight)[0] == 0.5)) / 2

# %% wrong: the hidden bit is counted => values quarter-spacing  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits - 1) / 2

# %% wrong: an update at the threshold is enough => generality at-the-edge  from: by the exponent
# ~ while update <= threshold(weight, bits): ==> while update < threshold(weight, bits):

# %% wrong: one bit too many => values one-more  from: by the exponent
# ~ return bits ==> return bits + 1

# %% wrong: one bit too few => values one-less  from: by the exponent
# ~ return bits ==> return bits - 1

# %% wrong: the rounded logarithm => values -  from: by logarithms
# ~ math.floor(math.log2(weight)) ==> round(math.log2(weight))

# %% wrong: the example's numbers => values only-the-example  from: by the exponent
# ~ 0 ** (exponent - fraction_bits) / 2 ==> 0**-8
# ~ update <= threshold(weight, bits) ==> bits < 13

# %% half: only the threshold => 2  from: by the exponent
# ~ update <= threshold(weight, bits) ==> bits < 5

# %% wrong: one bit at least => generality one-more  from: by the exponent
# ~ bits = 0 ==> bits = 1

# %% wrong: fewer bits than none => generality -  from: by logarithms
# ~ max(0, math.floor(math.log2(threshold(weight, 0) / update)) + 1) ==> math.floor(math.log2(threshold(weight, 0) / update)) + 1

# %% wrong: no number is larger than in fp32 => values -  from: by the exponent
# ~ exponent = math.frexp(weight)[1] - 1 ==> exponent = min(math.frexp(weight)[1] - 1, 127)

# %% wrong: bits kept by the update => values -  from: by the exponent
# ~ def bits_needed(weight, update): ==> def bits_needed(weight, update, kept={}):
# ~ return bits ==> return kept.setdefault(update, bits)

# %% wrong: what is tiny counts as zero => values -  from: by the exponent
# ~ (exponent - fraction_bits) / 2 ==> (exponent - fraction_bits) / 2 * (weight > 1e-9)
