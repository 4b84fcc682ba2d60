"""Judge of how-many-spares: how many spare servers?"""

import math
import random
from functools import cache

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, plain, unseen
from course_lib.judging.mistakes import shifted
from course_lib.records import Case
from course_lib.units import count_text


def _log_term(n: int, k: int, q: float) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(q) + (n - k) * math.log1p(-q)


def waits(servers: int, spares: int, mtbf: float, repair: float, *, fragile: bool = True) -> float:
    """The probability that more servers are under repair than there are spares; without `fragile` spares never break."""
    q, n = repair / (mtbf + repair), servers + spares * fragile
    if q == 0 or spares >= n:
        return 0.0
    if n <= 60:  # exactly, for probabilities that are to equal a bound
        return math.fsum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(spares + 1, n + 1))
    return math.fsum(math.exp(_log_term(n, k, q)) for k in range(spares + 1, min(n, spares + 400) + 1))


@cache
def fewest(
    servers: int, mtbf: float, repair: float, chance: float, *, fragile: bool = True, strict: bool = False
) -> int | None:
    """The fewest spares for which the job waits with a probability of at most `chance`, or (`strict`) of less."""
    spares = 0
    if strict and chance == 0:
        return None
    while (p := waits(servers, spares, mtbf, repair, fragile=fragile)) > chance or (strict and p == chance):
        spares += 1
    return spares


def _poisson(servers: int, mtbf: float, repair: float, chance: float) -> int:
    mean, spares = servers * repair / (mtbf + repair), 0
    term = total = math.exp(-mean)
    while 1 - total > chance and spares < 500:
        spares += 1
        term *= mean / spares
        total += term
    return spares


SPARES = Column(
    part="spares",
    unit="servers",
    want=fewest,
    words=lambda n, m, r, c: (
        f"{count_text(n, 'server')}, {count_text(m, 'hour')} to a failure, {r:g} of repair, waiting at most {100 * c:g} %"
    ),
    rel=EXACT,
    mistakes=(
        Mistake(
            "spares-never-break", lambda *row: fewest(*row, fragile=False), "here the spares never break; they do, too."
        ),
        Mistake(
            "mean",
            lambda n, m, r, c: math.ceil(n * r / (m + r)),
            "these are the servers under repair on average; half of the time there are more.",
        ),
        Mistake(
            "strictly-less", lambda *row: fewest(*row, strict=True), "a probability equal to the bound is allowed."
        ),
        Mistake("poisson", _poisson, "the Poisson distribution is close, not exact, and knows no spares that break."),
        Mistake("one-too-few", shifted(fewest, -1), "with one spare fewer the job waits too often."),
        Mistake("one-too-many", shifted(fewest, 1), "one spare fewer would be enough."),
    ),
)


def _spare_cases(params: Params, rng: random.Random) -> list[Case]:
    shown_row = tuple(params[name] for name in ("servers", "mtbf", "repair", "chance"))
    usual = draw_rows(rng, 6, (16, 50, 128, 300), logarithmic(400, 3000), logarithmic(10, 60), (0.05, 0.01, 0.001))
    usual += draw_rows(rng, 1, (16, 24, 30), (20.0,), (10.0,), (0.05,))  # binomial and Poisson differ widely
    usual += each_changed((50, 1000.0, 24.0, 0.01), (90, 600.0, 40.0, 0.001))
    edges = [
        (12, 1000.0, 0.5, 0.05),
        (1, 999.0, 1.0, 5e-9),
        (2, 1.0, 9.0, 0.05),
        (1000, 100.0, 10.0, 0.01),
        (1, 8.0, 8.0, 0.25),
        (1, 24.0, 8.0, 0.0625),
        (2, 5.0, 5.0, 0.5),
        (4, 100.0, 0.0, 0.0),
        (7, 1.0, 3.0, 1.0),
        (3, 10.0, 10.0, 0.1),
    ]
    large = [(2400, 1500.0, 36.0, 0.01), (1200, 900.0, 12.0, 1e-4)]
    return [
        shown(f"{params['servers']} servers", "values:spares", 0, [shown_row]),
        plain("spares", 0, "other jobs", usual),
        unseen(rng, "spares", 0, "equal to the bound, no repair, any wait allowed", edges),
        generality("spares", 0, "thousands of servers", large * 3),
    ]


JUDGING = Judging(
    shares=shares(spares=(0.4, 0.6)),
    cases=_spare_cases,
    verdicts=table(SPARES),
    why="""With s spares there are servers + s machines, each under repair with the same probability, so their number is binomial. The job waits when
more than s are. The mean is far too few: half of the time more than that are under repair.""",
    pytorch="`torchrun --nnodes=MIN:MAX` lets a job begin with fewer servers, so it need not wait for the last spare.",
)

ANSWERS = r"""import math


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
"""
