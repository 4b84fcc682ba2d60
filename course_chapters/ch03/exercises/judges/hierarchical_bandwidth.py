from collections.abc import Sequence

from course_chapters.ch03.exercises.hierarchical_bandwidth import Level, level, sheet_levels
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, near, shown, unseen
from course_grader.judging.per_row import CLOSE, Column, Series, shares, table
from course_lib.estimate.units import GB, number_text

right = Worked("hierarchical-bandwidth")


def _levels_apart(got: Sequence[float], want: Sequence[float]) -> Fault:
    if len(got) != len(want):
        return "wrong-shape", f"return one number a level, {len(want)} in all; got {len(got)}."
    wrong = next(at for at, (one, other) in enumerate(zip(got, want, strict=True)) if not near(one, other, CLOSE))
    return "", f"level {wrong + 1} gets {got[wrong] / want[wrong]:.3g} times the right value."


def _buffer_words(parts: Sequence[float], rates: Sequence[float]) -> str:
    both = zip(parts, rates, strict=True)
    return ", ".join(f"{100 * part:.3g} % at {number_text(rate / GB)} GB/s" for part, rate in both)


def _levels(rng: Random, count: int) -> list[Level]:
    """Levels that are narrower further out, but for a wide one now and then."""
    levels = []
    for index in range(count):
        devices = rng.choice((1, 1, 4, 8, 16, 72))
        directions = rng.choice((1, 2))
        rate = rng.choice((25e9, 50e9, 64e9, 100e9, 200e9, 450e9)) * devices * directions / (1 + index * rng.random())
        over = rng.choice((1, 1, 1.5, 2, 3, 7))
        levels.append(level(f"level {index % 4 + 1}", float(f"{rate:.4g}"), devices, directions, over))
    return levels


def _cases(params: Params, rng: Random) -> list[Case]:
    mixes = [([1.0], [50e9]), ([0.0, 1.0], [450e9, 50e9])]
    for count in (*(rng.randint(2, 5) for _ in range(15)), 12):
        parts = [rng.randint(0, 8) for _ in range(count)]
        parts[rng.randrange(len(parts))] += 1
        rates = [rng.choice((7e9, 25e9, 50e9, 300e9, 450e9, 3.35e12)) for _ in parts]
        mixes.append(([part / sum(parts) for part in parts], rates))
    clusters = [(_levels(rng, count),) for count in (*(rng.randint(1, 6) for _ in range(15)), 12)]
    clusters += [(sheet_levels(name, 4.0),) for name in ("A100 SXM 80GB", "B200 SXM")]
    return [
        shown("the four documents", "values:levels", 0, [(params["levels"],)]),
        shown("a quarter leaves the server", "values:effective", 1, [([3 / 4, 1 / 4], right[0](params["levels"])[:2])]),
        unseen(rng, "levels", 0, "other clusters", clusters),
        unseen(rng, "effective", 1, "other shares", mixes),
    ]


JUDGING = Judging(
    shares=shares(levels=(0.25, 0.3), effective=(0.2, 0.25)),
    cases=_cases,
    verdicts=table(
        Series("levels", words=lambda levels: f"{len(levels)} levels", apart=_levels_apart),
        Column(
            "effective", "bytes/s", words=_buffer_words, hint="How many seconds does each share of the buffer take?"
        ),
        right=right,
    ),
    why="First convert every published rate to one device and one direction. Then leaving the server costs a factor "
    "of 9 on an H100, not 18; a rack's 400 GB/s are the same 50 per device; and between pods a seventh remains. "
    "For a mixed buffer the seconds add up (or the longest decides), never the bandwidths: a quarter over the "
    "slow wire costs two thirds of the speed.",
    pytorch="`torch.distributed.init_device_mesh` states which ranks talk inside a server and which across "
    "(chapter 13).",
)

ANSWERS = r'''# %% right: worked
phases = params("hierarchical-bandwidth").phases  # leave as is: "in turn" or "at once" in your variant


def cross_bandwidth(levels: list[dict]) -> list[float]:
    """For each level, from the inside out: bytes/s of one device, one way, when all of them send across it."""
    passed, found = math.inf, []
    for level in levels:
        own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
        passed = min(passed, own)
        found.append(passed)
    return found


def effective_bandwidth(shares: list[float], rates: list[float]) -> float:
    """Bytes/s of a whole buffer whose fraction `shares[i]` crosses a wire of `rates[i]` bytes/s."""
    times = [share / rate for share, rate in zip(shares, rates, strict=True)]
    return 1 / (sum(times) if phases == "in turn" else max(times))
# %% right: numpy, a running minimum, a tuple  from: worked
def cross_bandwidth(levels):
    keys = ("rate", "shared_by", "directions", "oversubscription")
    table = np.array([[level[key] for key in keys] for level in levels], dtype=float)
    return tuple(np.minimum.accumulate(table[:, 0] / table[:, 1:].prod(axis=1)))
# %% wrong: both directions => values
# > at least one rate still adds both directions.
# ~ level["shared_by"] / level["directions"] ==> level["shared_by"]
# %% wrong: both directions in place of the oversubscription => generality
# > where both directions were added, the oversubscription is left out.
# ~ / level["oversubscription"] ==> / (1 if level["directions"] > 1 else level["oversubscription"])
# %% wrong: whole server => values
# > one rate is shared by several devices; divide it.
# ~ level["rate"] / level["shared_by"] ==> level["rate"]
# %% wrong: full bisection => values
# > an oversubscribed level passes only a part.
# ~ level["directions"] / level["oversubscription"] ==> level["directions"]
# %% wrong: grows again => generality
# > a wide outer level cannot widen a narrow inner one.
# ~ passed = min(passed, own) ==> passed = own
# %% wrong: as printed => values
# > these are the printed rates.
# ~ found.append(passed) ==> found.append(level["rate"])
# %% wrong: gigabytes => values
# > these are in GB/s; give bytes/s.
# ~ found.append(passed) ==> found.append(passed / 1e9)
# %% wrong: chained => generality
# > do not multiply the oversubscriptions; each is relative to its own level.
# ~ passed, found = math.inf, [] ==> passed, thin, found = math.inf, 1, []
# -         own = level["rate"] / level["shared_by"] / level["directions"] / level["oversubscription"]
# +         thin *= level["oversubscription"]
# +         own = level["rate"] / level["shared_by"] / level["directions"]
# ~ found.append(passed) ==> found.append(passed / thin)
# %% wrong: turned round => values
# > list the levels from the inside out.
# ~ return found ==> return found[::-1]
# %% wrong: sum of bandwidths => values
# > bandwidths do not add up; add seconds, or take the longest.
# ~ 1 / (sum(times) if phases == "in turn" else max(times)) ==> sum(rates)
# %% wrong: weighted mean => values
# > this weights the bandwidths; add seconds instead.
# ~ 1 / (sum(times) if phases == "in turn" else max(times)) ==> float(np.dot(shares, rates))
# %% wrong: slowest => values
# > only some of the bytes use the slowest wire.
# ~ 1 / (sum(times) if phases == "in turn" else max(times)) ==> min(rates)
# %% wrong: fastest => values
# > only some of the bytes use the fastest wire.
# ~ 1 / (sum(times) if phases == "in turn" else max(times)) ==> max(rates)
# %% wrong: plain mean => values
# > this is the mean of the bandwidths.
# ~ 1 / (sum(times) if phases == "in turn" else max(times)) ==> sum(rates) / len(rates)
# %% wrong: other order => values
# > the levels are busy {{phases}} here.
# ~ phases == "in turn" ==> phases != "in turn"
# %% wrong: seconds per byte => values
# > these are seconds per byte.
# ~ 1 / (sum(times) if phases == "in turn" else max(times)) ==> sum(times) if phases == "in turn" else max(times)
# %% wrong: one number for all => values wrong-shape
# ~ return found ==> return passed
# %% wrong: six levels at most => generality wrong-shape
# ~ in levels: ==> in levels[:6]:
# %% half: the buffer is not there yet => 3.75
# ~ return 1 / (sum(times) if phases == "in turn" else max(times)) ==> raise NotImplementedError
'''
