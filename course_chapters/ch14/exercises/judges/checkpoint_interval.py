from course_grader.judging import FINE, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, logarithmic, plain

right = Worked("checkpoint-interval")
GOODPUT = Column(
    "goodput",
    "of the time",
    words=lambda t, s, r, m: f"{t:,g} s of work, {s:,g} s of saving, {r:,g} s of restart, a failure every {m:,g} s",
    rel=FINE,
)
INTERVAL = Column("interval", "seconds", words=lambda s, m: f"{s:,g} s of saving, a failure every {m:,g} s", rel=5e-3)


def _interval_cases(params: Params, rng: Random) -> list[Case]:
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


JUDGING = Judging(
    shares=shares(goodput=(0.25, 0.25), interval=(0.25, 0.25)),
    cases=_interval_cases,
    verdicts=table(GOODPUT, INTERVAL, right=right),
    why="""A segment of t seconds succeeds with probability e^(−t/M), so it fails e^(t/M) − 1 times on average. The
tries take M · (e^(t/M) − 1) seconds in all, and each failure costs a restart on top. Goodput divides by both, and the
restart is a factor that does not depend on the interval. For short saves the best interval is √(2 · save · M), Young's
rule.""",
    pytorch="`torch.distributed.checkpoint.async_save` makes `save` short: only the copy out of GPU memory "
    "stops the job.",
)

ANSWERS = r'''# %% right: worked
restarts = params("checkpoint-interval").restarts  # leave as is: "safe" from failures, or "exposed" to them


def goodput(interval: float, save: float, restart: float, mtbf: float) -> float:
    """The work of a segment over the expected time that it takes."""
    failures = math.exp((interval + save) / mtbf) - 1  # on average, until the segment has run once without one
    if restarts == "exposed":
        restart = mtbf * (math.exp(restart / mtbf) - 1)
    return interval / (failures * (mtbf + restart))


def best_interval(save: float, mtbf: float) -> float:
    """The interval with the highest goodput, in seconds."""
    low, high = 0.0, 1.0  # x = interval / mtbf
    for _ in range(60):
        x = (low + high) / 2
        low, high = (x, high) if (1 - x) * math.exp(x) > math.exp(-save / mtbf) else (low, x)
    return low * mtbf
# %% right: by search  from: worked
def best_interval(save, mtbf):
    low, high = 1e-4 * mtbf, 2.0 * mtbf
    for _ in range(120):
        a, b = (2 * low + high) / 3, (low + 2 * high) / 3
        low, high = (low, b) if goodput(a, save, 1, mtbf) > goodput(b, save, 1, mtbf) else (a, high)
    return (low + high) / 2
# %% wrong: other restart => values
# > failures during a restart count differently here. {{means}}
# ~ restarts == "exposed" ==> restarts != "exposed"
# %% wrong: no failures => values
# > this leaves the failures out.
# ~ failures * (mtbf + restart) ==> interval + save
# %% wrong: saves count => values
# > time spent saving is not work.
# ~ interval / (failures * (mtbf + restart)) ==> (interval + save) / (failures * (mtbf + restart))
# %% wrong: no restart => values
# > this leaves the restarts out.
# ~ (mtbf + restart) ==> mtbf
# %% wrong: save is safe => values
# > a failure can strike during a save too.
# ~ (interval + save) ==> interval
# ~ (failures * (mtbf + restart)) ==> (failures * (mtbf + restart) + save)
# %% wrong: first order => values
# > this adds up the losses to first order, which is wrong when they are large.
# ~ interval / (failures * (mtbf + restart)) ==> 1 - save / interval - interval / 2 / mtbf - restart / mtbf
# %% wrong: half lost => values
# > this counts half a segment for each failure and leaves out that a segment can fail again.
# ~ failures * (mtbf + restart) ==> (interval + save) * (1 + ((interval + save) / 2 + restart) / mtbf)
# %% wrong: young => values
# > this is √(2 · save · mtbf), which holds for short saves only.
# ~ low * mtbf ==> math.sqrt(2 * save * mtbf)
# %% wrong: series => generality
# > these are the first terms of a series in save / mtbf; here they are not enough.
# -     return low * mtbf
# +     half = save / mtbf / 2
# +     return math.sqrt(2 * save * mtbf) * (1 + math.sqrt(half) / 3 + half / 9) - save
# %% wrong: whole segment => values
# > this is the interval plus the save; return the interval alone.
# ~ * mtbf ==> * mtbf + save
# %% wrong: no two => values
# > a failure loses half an interval on average: a 2 is missing.
# ~ low * mtbf ==> math.sqrt(save * mtbf)
# %% wrong: young minus save => values
# > this is √(2 · save · mtbf) − save, still a rule for short saves.
# ~ low * mtbf ==> math.sqrt(2 * save * mtbf) - save
# %% wrong: one hour => values
# > this is always one hour, whatever the save costs.
# ~ low * mtbf ==> 3600.0
'''
