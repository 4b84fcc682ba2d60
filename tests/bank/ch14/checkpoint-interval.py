import math


# %% right: as written
def goodput(interval, save, restart, mtbf):
    failures = math.exp((interval + save) / mtbf) - 1
    return interval / (failures * (mtbf + restart))


def best_interval(save, mtbf):
    low, high = 0.0, 1.0
    for _ in range(100):
        x = (low + high) / 2
        if (1 - x) * math.exp(x) > math.exp(-save / mtbf):
            low = x
        else:
            high = x
    return low * mtbf


# %% right: by search  from: as written
def best_interval(save, mtbf):
    low, high = 1e-4 * mtbf, 2.0 * mtbf
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - golden * (high - low), low + golden * (high - low)
        if goodput(a, save, 1, mtbf) > goodput(b, save, 1, mtbf):
            high = b
        else:
            low = a
    return (low + high) / 2


# %% right: any variant  from: as written
# - def goodput(interval, save, restart, mtbf):
# + from course_lib import params
# + RESTARTS = params("checkpoint-interval").restarts
# + def goodput(interval, save, restart, mtbf):
#       failures = math.exp((interval + save) / mtbf) - 1
# +     if RESTARTS == "exposed":
# +         restart = mtbf * (math.exp(restart / mtbf) - 1)

# %% wrong: restarts that can fail => values exposed-restart unless restarts=exposed  from: as written
# ~ (mtbf + restart) ==> mtbf * math.exp(restart / mtbf)

# %% wrong: without failures => values no-failures  from: as written
# ~ failures * (mtbf + restart) ==> interval + save

# %% wrong: saving counts as work => values saves-count  from: as written
# ~ return interval / (failures * (mtbf + restart)) ==> return (interval + save) / (failures * (mtbf + restart))

# %% wrong: without restarts => values no-restart  from: as written
# ~ (mtbf + restart) ==> mtbf

# %% wrong: saves cannot fail => values save-is-safe  from: as written
# ~ (interval + save) ==> interval
# ~ (failures * (mtbf + restart)) ==> (failures * (mtbf + restart) + save)

# %% wrong: small losses added up => values first-order  from: as written
# ~ interval / (failures * (mtbf + restart)) ==> 1 - save / interval - interval / 2 / mtbf - restart / mtbf

# %% wrong: half a segment a failure => values half-lost  from: as written
# -     return interval / (failures * (mtbf + restart))
# +     length = interval + save
# +     return interval / (length + length / mtbf * (length / 2 + restart))

# %% wrong: Young's rule => values young  from: as written
# ~ low * mtbf ==> math.sqrt(2 * save * mtbf)

# %% wrong: the series => generality series  from: as written
# -     return low * mtbf
# +     half = save / mtbf / 2
# +     return math.sqrt(2 * save * mtbf) * (1 + math.sqrt(half) / 3 + half / 9) - save

# %% wrong: work and save => values whole-segment  from: as written
# ~ * mtbf ==> * mtbf + save

# %% wrong: without the 2 => values no-two  from: as written
# ~ low * mtbf ==> math.sqrt(save * mtbf)

# %% wrong: Young's rule less the save => values young-minus-save  from: as written
# ~ low * mtbf ==> math.sqrt(2 * save * mtbf) - save

# %% wrong: every hour => values one-hour  from: as written
# ~ low * mtbf ==> 3600

# %% wrong: remembers an interval by its save => values -  from: as written
# ~ best_interval(save, mtbf): ==> best_interval(save, mtbf, kept={}):
# ~ low * mtbf ==> low * kept.setdefault(save, mtbf)
