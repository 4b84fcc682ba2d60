"""Judges of chapter 14's failure rates: hours between failures, the interval between checkpoints, spare servers."""

import math
import random
from functools import cache

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, plain, unseen
from course_lib.judging.mistakes import shifted
from course_lib.judging.prediction import prediction
from course_lib.records import Case
from course_lib.units import DAY, HOUR, MINUTE, count_text

HOURS_A_DAY = DAY / HOUR

# --- from a log to another size


def hours_between(failures: float, days: float, gpus: float, size: float) -> float:
    """Mean hours between failures of a job on `size` GPUs, from the log of one on `gpus`."""
    return days * HOURS_A_DAY * gpus / failures / size


def chance(hours: float, between: float) -> float:
    """The probability of at least one failure in a run of so many hours."""
    return -math.expm1(-hours / between)


BETWEEN = Column(
    part="between",
    unit="hours",
    want=hours_between,
    words=lambda f, d, n, s: (
        f"{count_text(f, 'failure')} in {count_text(d, 'day')} on {count_text(n, 'GPU')}, scaled to {s:,}"
    ),
    rel=FINE,
    mistakes=(
        Mistake("same-size", lambda f, d, n, s: d * HOURS_A_DAY / f, "this is for as many GPUs as in the log."),
        Mistake(
            "upside-down",
            lambda f, d, n, s: d * HOURS_A_DAY * s / (f * n),
            "a job on more GPUs fails more often, not less.",
        ),
        Mistake("one-gpu", lambda f, d, n, s: d * HOURS_A_DAY * n / f, "this is for one GPU."),
        Mistake("days", lambda f, d, n, s: d * n / (f * s), "these are days; hours are asked for."),
        Mistake("rate", lambda f, d, n, s: f * s / (d * HOURS_A_DAY * n), "these are failures an hour; invert them."),
    ),
)
CHANCE = Column(
    part="chance",
    unit="probability",
    want=chance,
    words=lambda h, m: f"{count_text(h, 'hour')} with a failure every {count_text(m, 'hour')}",
    rel=FINE,
    mistakes=(
        Mistake("expected-number", lambda h, m: h / m, "this is the expected number of failures; it can exceed 1."),
        Mistake("capped", lambda h, m: min(1.0, h / m), "this is the expected number of failures, cut at 1."),
        Mistake("survives", lambda h, m: math.exp(-h / m), "this is the probability that nothing fails."),
        Mistake(
            "power-of-two", lambda h, m: 1 - 2 ** (-h / m), "the time between failures is a mean, not a half-life."
        ),
        Mistake(
            "hour-by-hour",
            lambda h, m: 1 - max(0.0, 1 - 1 / m) ** h if m > 1 else None,
            "this lets failures strike on the hour only; let the steps become short.",
        ),
    ),
)


def _log_cases(params: Params, rng: random.Random) -> list[Case]:
    failures, days, gpus, size, hours = (params[name] for name in ("failures", "days", "gpus", "size", "hours"))
    logs = draw_rows(rng, 6, (3, 40, 112, 700), (7, 30.5, 54, 90), (384, 992, 2048, 16384), (1, 100, 3000, 100_000))
    logs += each_changed((40, 31.5, 992, 3000), (44, 54, 1024, 2000))
    runs = draw_rows(rng, 5, logarithmic(0.5, 300.0), logarithmic(5.0, 200.0)) + each_changed(
        (30.0, 90.0), (50.0, 70.0)
    )
    runs += draw_rows(rng, 1, logarithmic(100.0, 300.0), logarithmic(20.0, 80.0))  # more than one failure is expected
    return [
        shown("the log", "values:between", 0, [(failures, days, gpus, size)]),
        shown(f"a run of {count_text(hours, 'hour')}", "values:chance", 1, [(hours, 50.0)]),
        plain("between", 0, "other logs", logs),
        plain("chance", 1, "other runs", runs),
        unseen(rng, "between", 0, "one GPU, and very many", [(5, 12.5, 64, 1), (1, 1, 1, 1), (8, 365, 8, 200_000)]),
        unseen(
            rng, "chance", 1, "no time, a short run, and a long one", [(0.0, 3.0), (1e-6, 10.0), (900.0, 3.0), (4, 4.0)]
        ),
    ]


# --- the interval between checkpoints


def best_interval(save: float, mtbf: float) -> float:
    """The interval with the highest goodput, by bisection of (1 − x)·eˣ = e^(−save/mtbf) with x = interval / mtbf."""
    low, high, want = 0.0, 1.0, math.exp(-save / mtbf)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - middle) * math.exp(middle) > want else (low, middle)
    return low * mtbf


def goodput(restarts: str, interval: float, save: float, restart: float, mtbf: float) -> float:
    """Work over expected time of a segment, with restarts that are "safe" from failures or "exposed" to them."""
    failures = math.expm1((interval + save) / mtbf)
    again = restart if restarts == "safe" else mtbf * math.expm1(restart / mtbf)
    return interval / (failures * (mtbf + again))


def _young(save: float, mtbf: float) -> float:
    return math.sqrt(2 * save * mtbf)


def _daly(save: float, mtbf: float) -> float:
    part = save / (2 * mtbf)
    return _young(save, mtbf) * (1 + math.sqrt(part) / 3 + part / 9) - save


def _goodput_columns(restarts: str) -> Column:
    other = "exposed" if restarts == "safe" else "safe"
    message = "a failure can strike during a restart here." if restarts == "exposed" else "restarts cannot fail here."
    return Column(
        part="goodput",
        unit="of the time",
        want=lambda *row: goodput(restarts, *row),
        words=lambda t, s, r, m: f"{t:,g} s of work, {s:,g} s of saving, {r:,g} s of restart, a failure every {m:,g} s",
        rel=FINE,
        mistakes=(
            Mistake(
                "public-form" if restarts == "exposed" else "exposed-restart",
                lambda *row: goodput(other, *row),
                message,
            ),
            Mistake("no-failures", lambda t, s, r, m: t / (t + s), "this leaves the failures out."),
            Mistake(
                "saves-count", lambda t, s, r, m: goodput(restarts, t, s, r, m) * (t + s) / t, "saving is no work."
            ),
            Mistake("no-restart", lambda t, s, r, m: t / (m * math.expm1((t + s) / m)), "the restarts are left out."),
            Mistake(
                "save-is-safe",
                lambda t, s, r, m: t / (math.expm1(t / m) * (m + r) + s),
                "a failure can strike during a save too.",
            ),
            Mistake(
                "first-order",
                lambda t, s, r, m: 1 - s / t - t / (2 * m) - r / m,
                "this adds up small losses; where they are not small, it is off.",
            ),
            Mistake(
                "half-lost",
                lambda t, s, r, m: t / ((t + s) * (1 + ((t + s) / 2 + r) / m)),
                "this loses half a segment a failure, and lets no try fail twice.",
            ),
        ),
    )


INTERVAL = Column(
    part="interval",
    unit="seconds",
    want=best_interval,
    words=lambda s, m: f"{s:,g} s of saving, a failure every {m:,g} s",
    rel=5e-3,
    mistakes=(
        Mistake("young", _young, "this is √(2 · save · mtbf), which holds for short saves only."),
        Mistake(
            "young-minus-save",
            lambda s, m: _young(s, m) - s,
            "this is √(2 · save · mtbf) − save, still a rule for short saves.",
        ),
        Mistake("series", _daly, "this is the first terms of a series in save / mtbf; here they are not enough."),
        Mistake("whole-segment", lambda s, m: best_interval(s, m) + s, "this is work and save together."),
        Mistake(
            "no-two", lambda s, m: math.sqrt(s * m), "a failure loses half an interval on average: a 2 is missing."
        ),
        Mistake("one-hour", lambda s, m: 3600.0, "an hour, whatever the save costs."),
    ),
)


def _interval_cases(params: Params, rng: random.Random) -> list[Case]:
    usual = draw_rows(
        rng, 5, logarithmic(600, 5000), logarithmic(10, 120), logarithmic(120, 900), logarithmic(7e3, 5e4)
    )
    hard = draw_rows(rng, 4, logarithmic(300, 3e3), logarithmic(200, 900), logarithmic(900, 3e3), logarithmic(1e3, 2e3))
    usual += each_changed((3e3, 60.0, 300.0, 2e4), (900.0, 20.0, 500.0, 4e4))
    hard.append((5e3, 100.0, 60.0, 1e3))
    saves = draw_rows(rng, 5, logarithmic(1, 100), logarithmic(2e4, 2e5)) + each_changed((60.0, 2e4), (5.0, 9e4))
    long = draw_rows(rng, 4, logarithmic(100, 900), logarithmic(1e3, 2e3))
    long += [(0.05, 1e5), (3e4, 1e7), (999.0, 1000.0), (5.0, 6.0)]
    return [
        shown("ten minutes of work", "values:goodput", 0, [(600.0, 60.0, 300.0, 10_000.0)]),
        shown("a save of a minute", "values:interval", 1, [(60.0, 10_000.0)]),
        plain("goodput", 0, "other segments", usual),
        plain("interval", 1, "short saves", saves),
        generality("goodput", 0, "failures as often as segments", hard),
        generality("interval", 1, "long saves, and a very short one", long),
    ]


# --- spare servers


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


def lost_percent(params: Params) -> float:
    """Percent of the time that is lost at the best interval, restarts safe from failures."""
    mtbf = params["hours"] * HOUR
    return 100 * (
        1 - goodput("safe", best_interval(params["save"], mtbf), params["save"], params["restart"] * MINUTE, mtbf)
    )


RATES = {
    "hours-between-failures": Judging(
        shares=shares(between=(0.25, 0.25), chance=(0.25, 0.25)),
        cases=_log_cases,
        verdicts=table(BETWEEN, CHANCE),
        why="""Rates add up: each GPU fails at the same rate, so twice the GPUs fail twice as often. Nothing fails in t hours with probability
e^(−t/M). The expected number of failures, t/M, is close to the chance of one only while it is small.""",
        pytorch="`torchrun --max-restarts` bounds the restarts of a job. Choose it from the expected number of failures, hours / hours between them.",
    ),
    "checkpoint-interval": Judging(
        shares=shares(goodput=(0.25, 0.25), interval=(0.25, 0.25)),
        cases=_interval_cases,
        verdicts=lambda params, case, outcome: table(_goodput_columns(params["restarts"]), INTERVAL)(
            params, case, outcome
        ),
        why="""A segment of t seconds succeeds with probability e^(−t/M), so it fails e^(t/M) − 1 times on average. The tries take
M · (e^(t/M) − 1) seconds in all, and each failure costs a restart on top. Goodput divides by both, and the restart is a factor that does
not depend on the interval. For short saves the best interval is √(2 · save · M), Young's rule.""",
        pytorch="`torch.distributed.checkpoint.async_save` makes `save` short: only the copy out of GPU memory stops the job.",
    ),
    "predict-goodput": prediction(
        "%",
        truth=lost_percent,
        reveal=lambda params: f"{lost_percent(params):.1f} % of the time is lost.",
        why="""At the best interval, saves and repeated work cost about √(save / 2M) each, and restarts cost restart / M. Shorter
saves and shorter restarts both help; a longer time between failures helps most.""",
    ),
    "how-many-spares": Judging(
        shares=shares(spares=(0.4, 0.6)),
        cases=_spare_cases,
        verdicts=table(SPARES),
        why="""With s spares there are servers + s machines, each under repair with the same probability, so their number is binomial. The job waits when
more than s are. The mean is far too few: half of the time more than that are under repair.""",
        pytorch="`torchrun --nnodes=MIN:MAX` lets a job begin with fewer servers, so it need not wait for the last spare.",
    ),
}
