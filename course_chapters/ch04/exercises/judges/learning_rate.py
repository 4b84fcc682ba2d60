from course_grader.judging import FINE, Case, Column, Judging, Params, Random, Worked, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, logarithmic, plain

right = Worked("learning-rate")
_words = right.words(0, "update {step:,}, warm-up {warmup:,}, total {total:,}")
RATE = Column("", "as a learning rate", rel=FINE, words=_words)


def _cases(params: Params, rng: Random) -> list[Case]:
    ends = tuple(params[name] for name in ("peak", "floor", "warmup", "total"))
    warmup, total = params["warmup"], params["total"]
    steps = (1, warmup // 2, warmup, (warmup + total) // 2, round(0.9 * total), total)

    def schedule() -> tuple[float, float, int, int]:
        fields = logarithmic(1e-5, 1e-2), (0.01, 0.1, 0.2), (10, 400, 2000), (5, 10, 30)
        ((peak, part, warmup, times),) = draw_rows(rng, 1, *fields)
        return peak, peak * part, warmup, warmup * times

    def at(part: float) -> tuple[int, float, float, int, int]:
        """A row of a fresh schedule, at a fraction of the warm-up (negative) or of what follows it."""
        peak, floor, warmup, total = schedule()
        step = round(-part * warmup) if part < 0 else round(warmup + part * (total - warmup))
        return step, peak, floor, warmup, total

    bare = [(step, 3e-4, 3e-5, 0, total) for step, total in ((0, 50), (1, 50), (25, 50), (46, 50), (50, 50), (49, 50))]
    bare += [(0, 3e-4, 3e-5, 1, 50), (45, 3e-4, 0.0, 1, 50), (10_000, 3e-4, 0.0, 1, 50)]
    alike = each_changed((45, 1e-3, 1e-4, 10, 50), (47, 2e-3, 2e-4, 20, 90))
    other = schedule()
    edges = [(end + by, *other) for end in other[2:] for by in (-1, 0, 1)]
    return [
        shown("the shown schedule", "values:rate", 0, [(step, *ends) for step in steps]),
        plain("rate", 0, "other schedules", [*map(at, (-0.3, -0.7, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95))]),
        generality("edges", 0, "around the ends of the phases", [*edges, (other[2] // 2, *other), (0, *schedule())]),
        generality("edges", 0, "after the end", [*map(at, (1.01, 1.4, 2.0, 3.7))]),
        generality("edges", 0, "no warm-up, or one update of it", bare),
        generality("edges", 0, "the same update of other schedules", alike),
    ]


JUDGING = Judging(
    shares="values:rate 0.5, generality:edges 0.5",
    cases=_cases,
    verdicts=table(RATE, right=right),
    why="The schedule is a pure function of the update's number, so nothing has to be saved besides that number. "
    "Written as a chain of calls that each multiply the rate, it would drift or jump after a resume. The formula "
    "must not be continued past its end: half a cosine later the rate is back at its peak, and a run that is "
    "extended by accident diverges.",
    pytorch="`torch.optim.lr_scheduler.LambdaLR` takes such a function (as a factor of the base rate), and counts its "
    "first update as 0; `SequentialLR` joins phases.",
)

ANSWERS = r'''# %% right: worked
shape = params("learning-rate").shape  # leave as is: "cosine", or "wsd": warm-up, plateau, line


def learning_rate(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
    """The learning rate of update number `step`; the first update is number 1."""
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    if shape == "cosine":
        s = (step - warmup) / (total - warmup)
        return floor + (peak - floor) * (1 + math.cos(math.pi * s)) / 2
    s = max((step - 0.8 * total) / (0.2 * total), 0.0)
    return peak + (floor - peak) * s
# %% right: the fall goes on to 1 at most
# -     if step >= total:
# -         return floor
# ~ s = (step - warmup) / (total - warmup) ==> s = min((step - warmup) / (total - warmup), 1)
# ~ s = max((step - 0.8 * total) / (0.2 * total), 0.0) ==> s = min(max((step - 0.8 * total) / (0.2 * total), 0), 1)
# ~ peak + (floor - peak) * s ==> peak * (1 - s) + floor * s
# %% wrong: the first update is number 0 => values one-late
# > this is the rate of the update before; the first update is number 1.
#   def learning_rate(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
# +     step = max(step - 1, 0)
# %% wrong: one update ahead => values one-early
# > this is the rate of the update after; the first update is number 1.
#   def learning_rate(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
# +     step = step + 1
# %% wrong: the warm-up is one update ahead => values warm-up-early
# > in the warm-up, this is the rate of the update after; the first update is number 1.
# ~ peak * step / warmup ==> peak * (step + 1) / warmup
# %% wrong: no warm-up => values no-warm-up
# > this is the peak; in the warm-up the rate still rises.
# ~ peak * step / warmup ==> peak
# %% wrong: rises from the floor => values from-the-floor
# > the warm-up rises from 0, not from the floor.
# ~ peak * step / warmup ==> floor + (peak - floor) * step / warmup
# %% wrong: rises for one update more => values long-rise
# > the rise takes `warmup` + 1 updates; the peak comes at update `warmup`.
# ~ step < warmup ==> step <= warmup
# ~ step / warmup ==> step / (warmup + 1)
# %% wrong: a rate of 0 at update 0 in any case => generality zero-at-0
# > update 0 has a rate of 0; without a warm-up the formula gives the peak.
#   def learning_rate(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
# +     if step == 0:
# +         return 0.0
# %% wrong: divides by a warm-up of 0 => generality raised
# ~ step < warmup ==> step / warmup < 1
# %% wrong: the cosine starts at update 0 => values from-zero unless shape=wsd
# > the fall starts at update 0 here; it must start at update `warmup`.
# ~ (step - warmup) / (total - warmup) ==> step / total
# %% wrong: falls to 0 => values to-zero
# > the rate falls to 0; it must fall to the floor.
#   def learning_rate(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
# +     floor = 0.0
# %% wrong: the floor on top => values added-floor
# > the floor is added to a fall from the peak to 0.
# ~ (peak - floor) ==> peak
# ~ peak + (floor - peak) * s ==> floor + peak - peak * s
# %% wrong: ends a warm-up late => values warm-up-added
# > the fall ends `warmup` updates late; it ends at update `total`.
#           return peak * step / warmup
# +     total += warmup
# %% wrong: the fall goes on => generality not-held
# > after `total` the rate stays at the floor.
# -     if step >= total:
# -         return floor
# %% wrong: a straight line => values straight-line
# > the rate falls along one straight line from `warmup` to `total`.
# ~ floor + (peak - floor) * (1 + math.cos(math.pi * s)) / 2 ==> peak + (floor - peak) * s
# ~ max((step - 0.8 * total) / (0.2 * total), 0.0) ==> (step - warmup) / (total - warmup)
# %% wrong: flat, then a line => values other-shape unless shape=wsd
# > this is no cosine.
# ~ shape == "cosine" ==> not shape
# %% wrong: the public form => values public-form unless shape=cosine
# > this solves the public form.
# ~ shape == "cosine" ==> shape
# %% wrong: the shown peak and floor => values -
#   def learning_rate(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
# +     peak, floor = 8e-5, 8e-7
# %% wrong: a floor of zero is replaced => generality -
# -         return floor
# +         return floor or peak / 100
'''
