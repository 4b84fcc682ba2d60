"""Trainings of chapter 15 with a few numbers moved: two faults at once, and numbers close to the limit of a word."""

import copy
import math
import random
from collections.abc import Callable, Iterator
from statistics import fmean, median, variance
from typing import Any

Training = dict[str, Any]
Runs = list[Training]
Trace = dict[str, Any]


def noise(run: Training) -> float:
    """Three standard errors of the difference of the losses of fresh text, before and after."""
    return 3 * math.sqrt((variance(run["before"]) + variance(run["after"])) / len(run["after"]))


def last_bit(run: Training, name: str, key: Any) -> Runs:
    """Two runs that differ in one number, by its last bit."""
    again = copy.deepcopy(run)
    again[name][key] = math.nextafter(again[name][key], math.inf)
    return [run, again]


def shifted(run: Training, mean: float) -> Training:
    """The run with the losses of fresh text, after it, moved to another mean."""
    by = mean - fmean(run["after"])
    return {**run, "after": [each + by for each in run["after"]]}


def better_by(run: Training, share: float) -> Training:
    """The run with fresh text predicted better than before by this share of the noise."""
    return shifted(run, fmean(run["before"]) - share * noise(run))


def _barely(run: Training) -> Training:
    """The run with a training loss that fell, though not to half."""
    start, count = run["losses"][0], len(run["losses"])
    return {**run, "losses": [start * (1 - 0.4 * step / (count - 1)) for step in range(count)]}


def programs(kept: Callable[[str], Runs], floor: float, rng: random.Random) -> Iterator[tuple[Runs, str]]:
    """(two runs, the word for them) of programs made of shipped ones, `kept` by the name of their fault."""
    faults = ("sound", "leak", "frozen block", "explodes", "one batch")
    sound, leak, frozen, explodes, noted = (kept(fault)[0] for fault in faults)
    some, known = rng.choice(sorted(sound["moved"])), shifted(sound, floor - 3 * noise(sound))
    yield last_bit(sound, "losses", rng.randrange(5, 30)), "not repeatable"
    yield last_bit(sound, "after", rng.randrange(8)), "not repeatable"
    yield last_bit(sound, "moved", some), "not repeatable"
    yield last_bit(frozen, "after", 2), "not repeatable"
    yield last_bit(explodes, "losses", 1), "explodes"
    yield [{**leak, "moved": {**leak["moved"], some: 0.0}}] * 2, "frozen"
    yield [{**noted, "before": known["after"], "after": known["after"]}] * 2, "leak"
    yield [shifted(sound, floor - 0.8 * noise(sound))] * 2, "sound"
    yield [better_by(sound, 1.03)] * 2, "sound"
    yield [_barely(better_by(sound, 0.97))] * 2, "learns nothing"  # sound by the variance of a population
    yield [_barely(better_by(sound, 0.6))] * 2, "learns nothing"


def limits(run: Training) -> Iterator[tuple[Runs, float, str]]:
    """(two runs, floor, the word) of programs exactly at a limit, and just beyond it. Every number is a binary fraction, so no sum is rounded."""
    unit, floor = 2.0**-6, 1.5
    spread = [unit * each for each in (-1.5, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.5)]  # its sample variance is unit ** 2
    noise = 1.5 * unit  # of two such sets
    fresh = {name: [mean + each for each in spread] for name, mean in (("low", floor - noise), ("high", floor))}
    high = [floor + 1 + each for each in spread]
    count = len(run["losses"])
    halved = [4.0] * (count - 1) + [2.0]
    yield [{**run, "losses": [4.0, 8.0, *halved[2:]], "before": high, "after": fresh["low"]}] * 2, floor, "sound"
    same = {**run, "before": fresh["high"], "after": fresh["low"]}
    yield [{**same, "losses": halved}] * 2, floor, "learns nothing"
    yield [{**same, "losses": [4.0, 3.5, *halved[3:], 1.0, 2.0]}] * 2, floor, "learns nothing"
    yield [{**same, "losses": [4.0, 3.5, *halved[2:-1], 1.875]}] * 2, floor, "memorizes"
    yield [{**same, "losses": [4.0, 8.5, *halved[2:]]}] * 2, floor, "explodes"


def scaled(trace: Trace, by: float) -> Trace:
    """The same training with its loss multiplied: norms and the limit grow together, and no ratio changes."""
    return {**trace, "norms": [by * each for each in trace["norms"]], "limit": by * trace["limit"]}


def _one_norm(trace: Trace, place: int, norm: float) -> Trace:
    return {**trace, "norms": [norm if step == place else each for step, each in enumerate(trace["norms"])]}


def _sums(trace: Trace) -> Trace:
    """Norms that grow from the first step, and fastest at the end: the last ones are also far above the median."""
    last = len(trace["norms"]) - 1
    return {**trace, "norms": [trace["norms"][0] * (1 + 60 * (step / last) ** 3) for step in range(last + 1)]}


def traces(kept: Callable[[str], Trace], rng: random.Random) -> Iterator[tuple[Trace, str]]:
    """(trace, the word for it) of traces made of shipped ones."""
    sound, bad = kept("sound"), kept("bad batch")
    norms = sound["norms"]
    usual, middle = median(norms), len(norms) // 2
    wrong = kept(rng.choice(("twice a step", "warm-up again")))
    why = "warm-up again" if wrong["resumed"] is not None else "stepped too often"
    yield {**wrong, "norms": bad["norms"]}, why
    yield {**wrong, "norms": [1e-5 * wrong["limit"]] * len(norms)}, why
    yield {**bad, "limit": 0.5 * min(bad["norms"])}, "bad batch"
    yield _one_norm(sound, middle, 5.3 * usual), "bad batch"  # not above five times the mean, of which it is a part
    yield _one_norm(sound, 0, max(norms) / 6), "sound"
    yield {**sound, "limit": sorted(norms)[2]}, "sound"  # the median step is clipped, and not all are
    yield _one_norm(sound, middle, 150 * norms[0]), "explodes"  # and comes back
    yield _one_norm(sound, len(norms) - 1, 1e-4 * sound["limit"]), "sound"  # one norm is small, not every one
    one_below = _one_norm(sound, middle, 0.9 * min(norms))  # all other steps are clipped
    yield {**one_below, "limit": 0.95 * min(norms)}, "sound"
    yield _sums(sound), "not zeroed"
    yield {**_sums(sound), "limit": 0.5 * norms[0]}, "not zeroed"
    yield _one_norm(_sums(sound), middle, 150 * norms[0]), "explodes"
    yield _one_norm(sound, middle, math.nan), "explodes"
    yield {**sound, "limit": min(norms)}, "sound"
    ones, last = {**sound, "norms": [1.0] * len(norms)}, len(norms) // 4
    yield {**ones, "limit": 1000.0}, "sound"  # exactly a thousandth
    yield _one_norm(ones, middle, 100.0), "bad batch"  # exactly a hundred times the first
    yield _one_norm(ones, middle, 5.0), "sound"  # exactly five times the median
    yield {**ones, "norms": [1.0, *[4.0] * (len(norms) - last - 1), *[10.0] * last]}, "sound"  # ten times the first
    above = [10.5, 10.5, 10.5, 4.0, 4.0]  # just above ten times the first, in the median of the last five
    yield {**ones, "norms": [1.0, *[4.0] * (len(norms) - 6), *above]}, "not zeroed"
    yield _one_norm({**ones, "norms": [1.0, *[2.0] * (len(norms) - 1)]}, middle, 100.5), "explodes"
    yield scaled(sound, 512.0), "sound"
    yield scaled(sound, 2.0**-12), "sound"


def rates() -> list[tuple[list[float], list[float]]]:
    """(rates, planned) that differ by little or at an end of the run, among them such small rates as large models have."""
    small, exact = [1e-6 * step for step in range(1, 7)], [float(step) for step in range(1, 6)]
    return [
        (small, small),
        ([*small[:3], small[3] * 1.001, *small[4:]], small),
        ([*small[:4], small[4] * (1 + 4e-6), small[5]], small),
        ([small[0], small[1] * (1 + 2e-7), *small[2:]], small),
        (exact, exact),
        ([*exact[:4], 5.1], exact),
        ([1.1, *exact[1:]], exact),
        ([value * (1 + 1e-9) for value in exact], exact),
        ([1.0, 2.0001, *exact[2:]], exact),
    ]
