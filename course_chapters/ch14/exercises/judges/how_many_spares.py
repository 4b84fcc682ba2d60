from functools import cache

from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, logarithmic, plain, unseen
from course_lib.estimate.units import count_text

right = Worked("how-many-spares")


@cache
def _fewest(servers: int, mtbf: float, repair: float, chance: float) -> int:
    return right(servers, mtbf, repair, chance)


SPARES = Column(
    "spares",
    "nodes",
    want=_fewest,
    words=lambda n, m, r, c: (
        f"{count_text(n, 'node')}, {count_text(m, 'hour')} to a failure, {r:g} of repair, waiting at most {100 * c:g} %"
    ),
    rel=EXACT,
)


def _spare_cases(params: Params, rng: Random) -> list[Case]:
    shown_row = tuple(params[name] for name in ("servers", "mtbf", "repair", "chance"))
    usual = draw_rows(rng, 6, (16, 50, 128, 300), logarithmic(400, 3000), logarithmic(10, 60), (0.05, 0.01, 0.001))
    usual += draw_rows(rng, 1, (16, 24, 30), (20.0,), (10.0,), (0.05,))  # binomial and Poisson differ widely
    usual += each_changed((50, 1000.0, 24.0, 0.01), (90, 600.0, 40.0, 0.001))
    edges = [(12, 1000.0, 0.5, 0.05), (1, 999.0, 1.0, 5e-9), (2, 1.0, 9.0, 0.05), (1000, 100.0, 10.0, 0.01)]
    edges += [(1, 8.0, 8.0, 0.25), (1, 24.0, 8.0, 0.0625), (2, 5.0, 5.0, 0.5)]
    edges += [(7, 1.0, 3.0, 1.0), (3, 10.0, 10.0, 0.1)]
    large = [(2400, 1500.0, 36.0, 0.01), (1200, 900.0, 12.0, 1e-4)]
    return [
        shown(f"{params['servers']} nodes", "values:spares", 0, [shown_row]),
        plain("spares", 0, "other jobs", usual),
        unseen(rng, "spares", 0, "equal to the bound, any wait allowed", edges),
        unseen(rng, "spares", 0, "no repair", [(4, 100.0, 0.0, 0.0)]),
        generality("spares", 0, "thousands of nodes", large * 3),
    ]


JUDGING = Judging(
    shares=shares(spares=(0.4, 0.6)),
    cases=_spare_cases,
    verdicts=table(SPARES),
    why="""With s spares there are servers + s nodes, each under repair with the same probability, so the number under
repair is binomial. The job waits when it exceeds s. The mean is far too few spares: half of the time more nodes are
under repair.""",
    pytorch="`torchrun --nnodes=MIN:MAX` lets a job begin with fewer nodes, so it need not wait for the last spare.",
)

ANSWERS = r'''# %% right: worked
def spares(servers: int, mtbf: float, repair: float, chance: float) -> int:
    """The fewest spare nodes for which the job waits with a probability of at most `chance`."""
    down = repair / (mtbf + repair)
    extra = 0
    while True:
        n = servers + extra
        runs = math.fsum(math.comb(n, k) * down**k * (1 - down) ** (n - k) for k in range(extra + 1))
        if 1 - runs <= chance + 1e-12:
            return extra
        extra += 1
# %% right: term by term
# ~ comb(n, k) * down**k * (1 - down) ** (n - k) ==> exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k +
# ~~ 1) + k * math.log(down or 1) + (n - k) * math.log1p(-down))
# %% wrong: mean => values
# > these are the nodes under repair on average; half of the time there are more.
# ~ extra = 0 ==> return math.ceil(servers * down)
# %% wrong: spares never break => values
# > this assumes that spares never break; they do.
# ~ servers + extra ==> servers
# %% wrong: poisson => values
# > the Poisson distribution is close but not exact, and this one leaves out spares that break.
# ~ math.comb(n, k) * down**k * (1 - down) ** (n - k)
# ~~ ==> math.exp(-servers * down) * math.prod(servers * down / i for i in range(1, k + 1))
# %% wrong: strictly less => generality
# > a probability equal to the bound is allowed.
# ~ if 1 - runs <= chance + 1e-12: ==> if 1 - runs < chance - 1e-12 or down == 0 or chance == 1:
# %% wrong: one too many => values
# > one spare fewer would be enough.
# ~ return extra ==> return extra + 1
# %% wrong: one too few => values
# > with one spare fewer the job waits too often.
# ~ return extra ==> return max(extra - 1, 0)
# %% wrong: the share of repair over operation => values -
# ~ (mtbf + repair) ==> mtbf / 2
# %% wrong: no repair is not foreseen => generality raised
# ~ down**k * (1 - down) ** (n - k) ==> math.exp(k * math.log(down) + (n - k) * math.log1p(-down))
# %% wrong: at most a hundred => generality ~
# ~ <= chance + 1e-12: ==> <= chance + 1e-12 or extra == 100:
'''
