"""Judge of hierarchical-bandwidth: from the server to the cluster, in one direction."""

import random
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from course_chapters.ch03.exercises.hierarchical_bandwidth import sheet_levels
from course_grader.judging import Fault, Judging, Mistake, Params, near
from course_grader.judging.cases import shown
from course_grader.judging.per_row import CLOSE, Column, Series, table
from course_grader.judging.random_inputs import unseen
from course_grader.records import Case
from course_lib.estimate.units import GB, number_text

Levels = Sequence[Mapping[str, Any]]


def passes(
    levels: Levels, *, directions: bool = True, share: bool = True, thin: bool = True, narrow: bool = True
) -> list[float]:
    """Bytes a second for one device in one direction, level by level; the keywords leave a step out."""
    own = [
        level["rate"]
        / (level["shared_by"] if share else 1)
        / (level["directions"] if directions else 1)
        / (level["oversubscription"] if thin else 1)
        for level in levels
    ]
    return list(accumulate(own, min)) if narrow else own


def _chained(levels: Levels) -> list[float]:
    """The mistake that divides by the product of all oversubscriptions so far."""
    product = accumulate((level["oversubscription"] for level in levels), lambda one, other: one * other)
    return [rate / over for rate, over in zip(passes(levels, thin=False), product, strict=True)]


def _levels_apart(got: Sequence[float], want: Sequence[float]) -> Fault:
    """The first level that is wrong, or that there are too few or too many."""
    if len(got) != len(want):
        return "wrong-shape", f"return one number a level, {len(want)} in all; got {len(got)}."
    wrong = next(at for at, (one, other) in enumerate(zip(got, want, strict=True)) if not near(one, other, CLOSE))
    return "", f"level {wrong + 1} gets {got[wrong] / want[wrong]:.3g} times the right value."


_LEVELS = Series(
    part="levels",
    want=passes,
    words=lambda levels: f"{len(levels)} levels",
    apart=_levels_apart,
    mistakes=(
        Mistake("both-directions", partial(passes, directions=False), "at least one rate still adds both directions."),
        Mistake("whole-server", partial(passes, share=False), "one rate is shared by several devices; divide it."),
        Mistake("full-bisection", partial(passes, thin=False), "an oversubscribed level passes only a part."),
        Mistake("grows-again", partial(passes, narrow=False), "a wide outer level cannot widen a narrow inner one."),
        Mistake("as-printed", lambda levels: [level["rate"] for level in levels], "these are the printed rates."),
        Mistake("gigabytes", lambda levels: [rate / GB for rate in passes(levels)], "these are in GB/s; give bytes/s."),
        Mistake("chained", _chained, "do not multiply the oversubscriptions; each is relative to its own level."),
        Mistake("turned-round", lambda levels: passes(levels)[::-1], "list the levels from the inside out."),
    ),
)


def _effective(phases: str, shares: Sequence[float], rates: Sequence[float]) -> float:
    times = [share / rate for share, rate in zip(shares, rates, strict=True)]
    return 1 / (sum(times) if phases == "in turn" else max(times))


def _weighted_mean(shares: Sequence[float], rates: Sequence[float]) -> float:
    return sum(share * rate for share, rate in zip(shares, rates, strict=True))


def _buffer_words(shares: Sequence[float], rates: Sequence[float]) -> str:
    parts = zip(shares, rates, strict=True)
    return ", ".join(f"{100 * share:.3g} % at {number_text(rate / GB)} GB/s" for share, rate in parts)


def _effective_column(phases: str) -> Column:
    other, order = {
        "in turn": ("at once", "the levels run one after another here."),
        "at once": ("in turn", "all levels are busy at the same time here."),
    }[phases]
    right = partial(_effective, phases)
    added = "bandwidths do not add up; add seconds, or take the longest."
    return Column(
        part="effective",
        unit="bytes/s",
        want=right,
        words=_buffer_words,
        hint="How many seconds does each share of the buffer take?",
        mistakes=(
            Mistake("sum-of-bandwidths", lambda shares, rates: sum(rates), added),
            Mistake("weighted-mean", _weighted_mean, "this weights the bandwidths; add seconds instead."),
            Mistake("slowest", lambda shares, rates: min(rates), "only some of the bytes use the slowest wire."),
            Mistake("fastest", lambda shares, rates: max(rates), "only some of the bytes use the fastest wire."),
            Mistake("plain-mean", lambda shares, rates: statistics.fmean(rates), "this is the mean of the bandwidths."),
            Mistake("other-order", partial(_effective, other), order),
            Mistake("seconds-per-byte", lambda *row: 1 / right(*row), "these are seconds per byte."),
        ),
    )


def _levels(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Levels that are narrower further out, but for a wide one now and then."""
    levels = []
    for index in range(count):
        devices = rng.choice((1, 1, 4, 8, 16, 72))
        directions = rng.choice((1, 2))
        rate = rng.choice((25e9, 50e9, 64e9, 100e9, 200e9, 450e9)) * devices * directions / (1 + index * rng.random())
        levels.append(
            {
                "name": f"level {index % 4 + 1}",
                "rate": float(f"{rate:.4g}"),
                "shared_by": devices,
                "directions": directions,
                "oversubscription": rng.choice((1, 1, 1.5, 2, 3, 7)),
            }
        )
    return levels


def _hierarchy_cases(params: Params, rng: random.Random) -> list[Case]:
    example = passes(params["levels"])
    mixes = []
    for count in (*(rng.randint(2, 5) for _ in range(15)), 12):
        parts = [rng.randint(0, 8) for _ in range(count)]
        parts[rng.randrange(len(parts))] += 1
        rates = [rng.choice((7e9, 25e9, 50e9, 300e9, 450e9, 3.35e12)) for _ in parts]
        mixes.append(([part / sum(parts) for part in parts], rates))
    clusters = [(_levels(rng, count),) for count in (*(rng.randint(1, 6) for _ in range(15)), 12)]
    clusters += [(sheet_levels(name, 4.0),) for name in ("A100 SXM 80GB", "B200 SXM")]
    return [
        shown("the four documents", "values:levels", 0, [(params["levels"],)]),
        shown("a quarter leaves the server", "values:effective", 1, [([3 / 4, 1 / 4], example[:2])]),
        unseen(rng, "levels", 0, "other clusters", clusters),
        unseen(rng, "effective", 1, "other shares", [*mixes, ([1.0], [50e9]), ([0.0, 1.0], [450e9, 50e9])]),
    ]


JUDGING = Judging(
    shares={"values:levels": 0.25, "values:effective": 0.2, "generality:levels": 0.3, "generality:effective": 0.25},
    cases=_hierarchy_cases,
    verdicts=lambda params, *given: table(_LEVELS, _effective_column(params["phases"]))(params, *given),
    why="First convert every published rate to one device and one direction. Then leaving the server costs a factor of 9 on an "
    "H100, not 18; a rack's 400 GB/s are the same 50 per device; and between pods a seventh remains. For a mixed buffer the "
    "seconds add up (or the longest decides), never the bandwidths: a quarter over the slow wire costs two thirds of the speed.",
    pytorch="`torch.distributed.init_device_mesh` states which ranks talk inside a server and which across (chapter 13).",
)

ANSWERS = r"""# %% right: level by level
def cross_bandwidth(levels):
    found, passed = [], float("inf")
    for level in levels:
        passed = min(passed, level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"])
        found.append(passed)
    return found


def effective_bandwidth(shares, rates):
    return 1 / sum(share / rate for share, rate in zip(shares, rates))


# %% right: numpy, a running minimum, a tuple
import numpy as np


def cross_bandwidth(levels):
    keys = ("rate", "shared_by", "directions", "oversubscription")
    table = np.array([[level[key] for key in keys] for level in levels], dtype=float)
    return tuple(np.minimum.accumulate(table[:, 0] / table[:, 1:].prod(axis=1)))


def effective_bandwidth(shares, rates):
    return 1 / np.dot(shares, 1 / np.array(rates))


# %% right: any variant  from: level by level
# - def cross_bandwidth(levels):
# + from course_lib import params
# + TOTAL = max if params("hierarchical-bandwidth").phases == "at once" else sum
# + def cross_bandwidth(levels):
# ~ 1 / sum ==> 1 / TOTAL

# %% wrong: both directions => values both-directions  from: level by level
# ~ level["shared_by"] / level["directions"] ==> level["shared_by"]

# %% wrong: a server's adapters for one device => values whole-server  from: level by level
# ~ level["rate"] / level["shared_by"] ==> level["rate"]

# %% wrong: full bisection everywhere => values full-bisection  from: level by level
# ~ level["directions"] / level["oversubscription"] ==> level["directions"]


# %% wrong: as printed => values as-printed  from: level by level
def cross_bandwidth(levels):
    return [level["rate"] for level in levels]


# %% wrong: wide again further out => generality grows-again  from: as printed
# ~ level["rate"] for level ==> l["rate"] / l["shared_by"] / l["directions"] / l["oversubscription"] for l

# %% wrong: thinner and thinner => generality -  from: level by level
# ~ found, passed = [], float("inf") ==> thin, found, passed = 1, [], float("inf")
# -         passed = min(passed, level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"])
# +         thin *= level["oversubscription"]
# +         passed = min(passed, level["rate"] / level["shared_by"] / level["directions"])
# ~ (passed) ==> (passed / thin)

# %% wrong: a sum of bandwidths => values sum-of-bandwidths  from: level by level
# ~ 1 / sum(share / rate for share, rate in zip(shares, rates)) ==> sum(rates)

# %% wrong: a weighted mean => values weighted-mean  from: level by level
# ~ 1 / sum(share / rate ==> sum(share * rate

# %% wrong: the slowest wire => values slowest  from: level by level
# ~ 1 / sum(share / rate for share, rate in zip(shares, rates)) ==> min(rates)

# %% wrong: all at once => values other-order unless phases=at once  from: level by level
# ~ 1 / sum ==> 1 / max

# %% wrong: gigabytes => values gigabytes  from: level by level
# ~ found.append(passed) ==> found.append(passed / 1e9)

# %% wrong: one number for all => values wrong-shape  from: as printed
# ~ [level["rate"] for level in levels] ==> 450e9

# %% half: the buffer is not there yet => 3.75  from: a sum of bandwidths
# ~ return sum(rates) ==> raise NotImplementedError

# %% wrong: six levels at most => generality -  from: level by level
# ~ in levels: ==> in levels[:6]:
"""
