from collections.abc import Mapping

from course_chapters.ch03.exercises.which_upgrade import PARTS
from course_grader.exercises import pick
from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, generality, log_uniform, one_apart
from course_grader.judging.per_row import Column, Word, table
from course_lib.estimate.units import duration_text

Amounts = Mapping[str, float]

right = Worked("which-upgrade")


def _words(work: Amounts, rates: Amounts, factor: float) -> str:
    times = {part: work[part] / rates[part] for part in PARTS}
    return ", ".join(f"{part} {duration_text(each) if each else 'nothing'}" for part, each in times.items())


_RATES = {
    "compute": (312e12, 989e12, 2250e12),
    "memory": (0.3e12, 2.039e12, 3.35e12, 8e12),
    "link": (31e9, 300e9, 450e9, 4e12),
    "network": (12.5e9, 50e9, 900e9),
}


def _step(rng: Random) -> tuple[object, ...]:
    rates = pick(**_RATES)(rng)
    work = {part: float(f"{log_uniform(rng, 1e-3, 1e-1) * rates[part]:.4g}") for part in PARTS}
    if rng.random() < 0.3:
        work[rng.choice(PARTS)] = 0.0
    return work, rates, rng.choice((1.1, 1.5, 2.0, 4.0, 30.0))


def clear(work: Amounts, rates: Amounts, factor: float) -> bool:
    """Whether one upgrade is clearly the best: it stays so where all other parts take a fiftieth longer."""
    best = right(work, rates, factor)[0]
    more = {part: amount * (1 if part == best else 1.02) for part, amount in work.items()}
    return right(more, rates, factor)[0] == best


def _cases(params: Params, rng: Random) -> list[Case]:
    shown = [(case["work"], params["rates"], params["factor"]) for case in params["cases"]]
    others = [step for (step,) in draw_rows(rng, 60, _step, keep=lambda row: clear(*row[0]))]
    others += one_apart(others, right, clear)
    return [Case(name="the five steps", args=(0, shown)), generality("", 0, "other steps", others)]


JUDGING = Judging(
    shares={"values:part": 0.2, "values:speed-up": 0.2, "generality:part": 0.3, "generality:speed-up": 0.3},
    cases=_cases,
    verdicts=table(
        (
            Word("part", PARTS, words=_words),
            Column(
                "speed-up", "times", words=_words, hint="Divide the time before by the time after, with the new rates."
            ),
        ),
        right=right,
    ),
    why="If everything overlaps, only the busiest part can help, and only until the next one is the busiest: a factor "
    "of two gains at most two. If the wires do not overlap, every part on the critical path helps a little "
    "(Amdahl), and the best is the one with the most exposed seconds. Neither the largest amount nor the slowest "
    "wire decides.",
    pytorch="A trace of `torch.profiler` gives the four busy times of a real step.",
)

ANSWERS = r'''# %% right: worked
overlap = params("which-upgrade").overlap  # leave as is: "everything" or "wires wait" in your variant


def best_upgrade(work: dict[str, float], rates: dict[str, float], factor: float) -> tuple[str, float]:
    """The part that shortens the step most when it is `factor` times as fast, and the speed-up."""

    def step(speed: dict[str, float]) -> float:
        busy = {part: work[part] / speed[part] for part in work}
        if overlap == "everything":
            return max(busy.values())
        return max(busy["compute"], busy["memory"]) + busy["link"] + busy["network"]

    gains = {part: step(rates) / step({**rates, part: rates[part] * factor}) for part in rates}
    best = max(gains, key=gains.get)
    return best, gains[best]
# %% right: the least time after an upgrade, a list, capitals
# -     gains = {part: step(rates) / step({**rates, part: rates[part] * factor}) for part in rates}
# -     best = max(gains, key=gains.get)
# -     return best, gains[best]
# +     after = {part: step({**rates, part: factor * rates[part]}) for part in rates}
# +     best = min(after, key=after.get)
# +     return [best.upper(), step(rates) / after[best]]
# %% wrong: most bytes => values
# > this is the largest amount, not time.
# ~ max(gains, key=gains.get) ==> max(work, key=work.get)
# %% wrong: slowest rate => values
# > this is the slowest rate.
# ~ max(gains, key=gains.get) ==> min(rates, key=rates.get)
# %% wrong: busiest part => generality unless overlap=everything
# > upgrading the busiest part does not always shorten the step most.
# ~ max(gains, key=gains.get) ==> max(work, key=lambda part: work[part] / rates[part])
# %% wrong: other overlap => values
# > this overlaps the wrong parts. {{overlap_words}}.
# ~ overlap == "everything" ==> overlap != "everything"
# %% wrong: nothing overlaps => values
# > this adds times of parts that overlap. {{overlap_words}}.
# ~ max(busy.values()) ==> sum(busy.values())
# ~ max(busy["compute"], busy["memory"]) ==> busy["compute"] + busy["memory"]
# %% wrong: the factor => values
# > only one part becomes that much faster.
# ~ return best, gains[best] ==> return best, factor
# %% wrong: upside down => values
# > this is after over before.
# ~ return best, gains[best] ==> return best, 1 / gains[best]
# %% wrong: nothing => values
# > this means that no upgrade helps, but one does.
# ~ return best, gains[best] ==> return best, 1.0
# %% wrong: percent => values
# > this is a percentage; give a ratio.
# ~ return best, gains[best] ==> return best, 100 * (gains[best] - 1)
# %% wrong: saved share => values
# > this is the time saved; give a ratio.
# ~ return best, gains[best] ==> return best, 1 - 1 / gains[best]
# %% wrong: twice => values
# > the part becomes `factor` times as fast, which is not always 2.
# ~ rates[part] * factor ==> rates[part] * 2
# %% wrong: a name of its own => values no-such-word
# ~ return best, gains[best] ==> return "HBM", gains[best]
# %% wrong: only the name => values wrong-shape
# ~ return best, gains[best] ==> return best
# %% half: the part, not yet the speed-up => 3
# ~ return best, gains[best] ==> return best, 0.0
'''
