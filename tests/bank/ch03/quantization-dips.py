import math

from course_lib import roofline


# %% right: tiles, waves, paid
def efficiency(m, n, tile, sms):
    tiles = math.ceil(m / tile) * math.ceil(n / tile)
    waves = math.ceil(tiles / sms)
    return m * n / (waves * sms * tile**2)


def dips(m, sizes, tile, sms):
    share = [efficiency(m, n, tile, sms) for n in sizes]
    return [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]]


# %% right: numpy, whole numbers
import numpy as np


def efficiency(m, n, tile, sms):
    tiles = -(-m // tile) * -(-n // tile)
    return np.float64(m) * n / (np.ceil(tiles / sms) * sms * tile * tile)


def dips(m, sizes, tile, sms):
    n = np.array(sizes)
    paid = -(-(-(-m // tile) * -(-n // tile)) // sms)
    return n[1:][n[1:] * paid[:-1] < n[:-1] * paid[1:]]


# %% right: any variant  from: tiles, waves, paid
# - def efficiency(m, n, tile, sms):
# + from course_lib import params
# + SLOTS = params("quantization-dips").slots
# + def efficiency(m, n, tile, sms):
# +     sms *= SLOTS

# %% wrong: tiles only => values no-waves  from: tiles, waves, paid
# ~ waves * sms * tile ==> tiles * tile

# %% wrong: no tiles, only waves => values no-tiles  from: tiles, waves, paid
# ~ math.ceil(m / tile) * math.ceil(n / tile) ==> m * n / tile**2

# %% wrong: a smooth curve => values smooth  from: tiles, waves, paid
# ~ [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]] ==> []

# %% wrong: the sizes before => values one-early  from: tiles, waves, paid
# ~ [sizes[i] for ==> [sizes[i - 1] for

# %% wrong: positions => values positions  from: tiles, waves, paid
# ~ [sizes[i] for ==> [i for

# %% wrong: two tiles at a time => values other-slots unless slots=2  from: tiles, waves, paid
# ~ tiles / sms ==> tiles / (2 * sms)
# ~ (waves * sms ==> (waves * 2 * sms

# %% wrong: in per cent => values percent  from: tiles, waves, paid
# ~ return m * n ==> return 100 * m * n

# %% wrong: the area over the area => generality no-tiles  from: tiles, waves, paid
# ~ math.ceil(m / tile) * math.ceil(n / tile) ==> math.ceil(m * n / tile**2)
# ~ efficiency(m, n, tile, sms) for ==> m * n / math.ceil(math.ceil(m / tile) * math.ceil(n / tile) / sms) for

# %% wrong: 132 by heart => values -  from: tiles, waves, paid
# ~ tiles / sms ==> tiles / 132
# ~ waves * sms ==> waves * 132

# %% wrong: asks the library => raised  from: tiles, waves, paid
# ~ m * n / (waves * sms * tile**2) ==> roofline.quantization(m, n, tile, tile, sms)
# ~ [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]] ==> roofline.dips(sizes, share)

# %% half: the dips are not there yet => 3.75  from: tiles, waves, paid
# ~ return [sizes[i] for i in range(1, len(sizes)) if share[i] < share[i - 1]] ==> raise NotImplementedError

# %% wrong: never looks at the second size => generality -  from: tiles, waves, paid
# ~ range(1, len(sizes)) ==> range(2, len(sizes))

# %% wrong: a small fall is none => generality -  from: tiles, waves, paid
# ~ share[i] < share[i - 1]] ==> share[i] < share[i - 1] * (1 - 1e-4)]

# %% wrong: remembers a sweep by its ends => generality -  from: tiles, waves, paid
# - def dips(m, sizes, tile, sms):
# + SHARES = {}
# + def dips(m, sizes, tile, sms):
#       share = [efficiency(m, n, tile, sms) for n in sizes]
# +     share = SHARES.setdefault((m, len(sizes), sizes[-1], tile, sms), share)
