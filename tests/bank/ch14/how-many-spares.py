import math


# %% right: as written
def spares(servers, mtbf, repair, chance):
    q = repair / (mtbf + repair)
    extra = 0
    while True:
        n = servers + extra
        tail = 1 - math.fsum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(min(extra, n) + 1))
        if tail <= chance + 1e-12:
            return extra
        extra += 1


# %% right: term by term
def spares(servers, mtbf, repair, chance):
    q = repair / (mtbf + repair)
    if q == 0:
        return 0
    for extra in range(servers * 50 + 50):
        n, runs = servers + extra, 0.0
        for k in range(extra + 1):
            runs += math.exp(
                math.lgamma(n + 1)
                - math.lgamma(k + 1)
                - math.lgamma(n - k + 1)
                + k * math.log(q)
                + (n - k) * math.log(1 - q)
            )
        if 1 - runs <= chance + 1e-12:
            return extra


# %% wrong: the mean => values mean  from: as written
#       q = repair / (mtbf + repair)
# +     return math.ceil(servers * q)

# %% wrong: spares never break => values spares-never-break  from: as written
# ~ servers + extra ==> servers

# %% wrong: Poisson => values poisson  from: as written
# ~ math.comb(n, k) * q**k * (1 - q) ** (n - k) ==> math.exp(-servers * q) * math.prod(servers * q / i for i in range(1, k + 1))

# %% wrong: strictly below the bound => generality strictly-less  from: as written
# ~ if tail <= chance + 1e-12: ==> if tail < chance - 1e-12 or q == 0 or chance == 1:

# %% wrong: one too many => values one-too-many  from: as written
# ~ return extra ==> return extra + 1

# %% wrong: one too few => values one-too-few  from: as written
# ~ return extra ==> return max(extra - 1, 0)

# %% wrong: the share of repair over operation => values -  from: as written
# ~ (mtbf + repair) ==> mtbf / 2

# %% wrong: no repair is not foreseen => generality -  from: term by term
# -     if q == 0:
# -         return 0

# %% wrong: at most a hundred => generality ~  from: as written
# ~ <= chance + 1e-12: ==> <= chance + 1e-12 or extra == 100:
