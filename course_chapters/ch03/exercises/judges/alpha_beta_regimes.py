from collections.abc import Sequence
from functools import partial

from course_chapters.ch03.exercises.alpha_beta_regimes import points
from course_grader.judging import Case, Column, Judging, Params, Random, Worked, one_verdict, shares, shown, table
from course_grader.judging.random_inputs import generality, log_uniform, one_apart, unseen
from course_lib.estimate.units import GB, bytes_text, duration_text, number_text

Way = Sequence[float]  # α in seconds, β in bytes/s

right = Worked("alpha-beta-regimes")


def _way(pair: Way) -> str:
    return f"({duration_text(pair[0])}, {number_text(pair[1] / GB)} GB/s)"


def _ways(rng: Random) -> tuple[list[float], list[float]]:
    slow = [log_uniform(rng, 1e-6, 1e-5), log_uniform(rng, 2e9, 2e10)]
    return slow, [log_uniform(rng, 1.2e-5, 1e-4), log_uniform(rng, 2.5e10, 4e11)]


def _cases(params: Params, rng: Random) -> list[Case]:
    small, large = params["small"], params["large"]
    drawn = [(log_uniform(rng, 1e-6, 5e-5), log_uniform(rng, 5e9, 4e11)) for _ in range(8)]
    logs = [points(rng, *pair, count) for pair, count in zip(drawn, (12, 60, *[24] * 6), strict=True)]
    sizes, seconds = logs[2]
    logs += [([2 * each for each in sizes], seconds), (sizes, [2 * each for each in seconds])]
    pairs = [_ways(rng) for _ in range(10)]
    always = [([large[0], small[1]], [small[0], large[1]]), ([1e-5, 1e10], [1e-5, 2e10])]
    never = [(large, small), ([1e-6, 4e10], [1e-5, 1e10])]
    four = [(float(f"{right[1](small, large) * factor:.4g}"), small, large) for factor in (0.01, 0.5, 2, 100)]
    more = [(log_uniform(rng, 8, 1e9), *_ways(rng)) for _ in range(20)]
    more += one_apart(more, right[2])
    more += [(n, *ways) for ways in (*always, never[1]) for n in (64.0, 1e9)]
    pairs += one_apart(pairs, right[1])
    return [
        shown("the measured messages", "values:line", 0, [(params["sizes"], params["seconds"])]),
        shown("the two ways", "values:switch", 1, [(small, large)]),
        shown("four sizes", "values:best", 2, four),
        generality("line", 0, "other logs", logs),
        unseen(rng, "switch", 1, "other ways", [*pairs, *always, *never]),
        unseen(rng, "best", 2, "other messages", more),
    ]


_line = partial(Column, "line", words=lambda sizes, seconds: f"{len(sizes)} messages", rel=0.08)

JUDGING = Judging(
    shares=shares(line=(0.15, 0.2), switch=(0.1, 0.2), best=(0.15, 0.2)),
    cases=_cases,
    verdicts=one_verdict(
        table(
            (
                _line("seconds", hint="α: what does the smallest message cost?"),
                _line("bytes/s", hint="β: what does the largest message get?"),
            ),
            Column(
                "switch",
                "bytes",
                words=lambda small, large: f"{_way(small)} against {_way(large)}",
                hint="Where do the two lines meet, and which method is faster above that size?",
            ),
            Column(
                "best", "bytes/s", words=lambda n, small, large: f"{bytes_text(n)} by {_way(small)} or {_way(large)}"
            ),
            right=right,
        )
    ),
    within=0.05,
    why="Sizes span eight decades and every time has a relative error, so divide each equation by its own time. "
    "Otherwise the noise of one large message exceeds all of α. A second method with a higher α and more "
    "bandwidth pays above the size at which the two lines meet; a library that measures its links switches there. "
    "Below α·β a message gets less than half of β.",
    pytorch="`torch.distributed` leaves the choice to NCCL, which keeps such tables; `NCCL_PROTO` and `NCCL_ALGO` "
    "override it.",
)

ANSWERS = r'''# %% right: worked
def fit_line(sizes: list[float], seconds: list[float]) -> tuple[float, float]:
    """(α in seconds, β in bytes/s) of measured messages."""
    n, t = np.array(sizes), np.array(seconds)
    (alpha, per_byte), *_ = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)
    return float(alpha), float(1 / per_byte)


def switch_size(small: tuple[float, float], large: tuple[float, float]) -> float:
    """The smallest size in bytes from which the second is at least as fast; 0.0: always, math.inf: never."""
    wait, gain = large[0] - small[0], 1 / small[1] - 1 / large[1]  # seconds once, seconds for each byte
    if gain <= 0:
        return math.inf  # from some size on it is the slower one
    return max(0.0, wait / gain)


def best_bandwidth(nbytes: float, small: tuple[float, float], large: tuple[float, float]) -> float:
    """Bytes/s of a message sent by the faster method."""
    return nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large))
# %% right: both ends of the log, plain Python  from: worked
def fit_line(sizes, seconds):
    ordered = sorted(zip(sizes, seconds))
    alpha = sum(t for _, t in ordered[:5]) / 5
    rates = [n / (t - alpha) for n, t in ordered[-4:]]
    return [alpha, sum(rates) / 4]
# %% wrong: raw seconds => values
# > this fits raw seconds, so the largest messages dominate.
# ~ (alpha, per_byte), *_ = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)
# ~~ ==> per_byte, alpha = np.polyfit(n, t, 1)
# %% wrong: mean rate => values
# > β: this mean of bytes over seconds includes α.
# ~ float(1 / per_byte) ==> float(np.mean(n / t))
# %% wrong: seconds per byte => values
# > β: these are seconds per byte.
# ~ float(1 / per_byte) ==> float(per_byte)
# %% wrong: microseconds => values
# > α is in microseconds; give seconds.
# ~ float(alpha), ==> 1e6 * float(alpha),
# %% wrong: gigabytes => values
# > β is in GB/s; give bytes/s.
# ~ float(1 / per_byte) ==> float(1e-9 / per_byte)
# %% wrong: turned round => values
# > α comes first, then β.
# ~ float(alpha), float(1 / per_byte) ==> float(1 / per_byte), float(alpha)
# %% wrong: sign => values
# > this size has the wrong sign.
# ~ max(0.0, wait / gain) ==> -wait / gain
# %% wrong: below zero => generality
# > the lines meet below size zero; which method is faster above it?
# ~ max(0.0, wait / gain) ==> wait / gain
# %% wrong: the crossing alone => generality
# > this is where the lines meet, even below size zero or where the second method is the slower one from there on.
# ~ gain <= 0 ==> not gain
# ~ max(0.0, wait / gain) ==> wait / gain
# %% wrong: the crossing from zero on => generality slower-from-there
# > the second method has the smaller β, so for large messages it is the slower one.
# ~ gain <= 0 ==> not gain
# %% wrong: half bandwidth => values
# > this is the size at which the second method reaches half of its β.
# ~ wait / gain) ==> large[0] * large[1])
# %% wrong: alpha forgotten => values
# > the second method is slower for small messages.
# ~ max(0.0, wait / gain) ==> 0.0
# %% wrong: never => values
# > the second method does become faster.
# ~ if gain <= 0: ==> if gain:
# %% wrong: difference of rates => values
# > subtract seconds per byte, not bytes per second.
# ~ wait / gain) ==> wait * (large[1] - small[1]))
# %% wrong: always => generality
# > for large messages the second method is the slower one.
# ~ return math.inf ==> return 0.0
# %% wrong: no alpha => values
# > this is β; a message of this size gets less.
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> max(small[1], large[1])
# %% wrong: β of the faster method => values no-alpha
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large))
# ~~ ==> min(small, large, key=lambda way: way[0] + nbytes / way[1])[1]
# %% wrong: first only => values
# > this is the first method; the second is faster here.
# ~ (small, large)) ==> (small,))
# %% wrong: second only => values
# > this is the second method; the first is faster here.
# ~ (small, large)) ==> (large,))
# %% wrong: seconds => values
# > these are seconds; give bytes a second.
# ~ nbytes / min(alpha ==> min(alpha
# %% wrong: both methods added => values
# > this sends the message by one method and then by the other; it uses the faster one alone.
# ~ min(alpha ==> sum(alpha
# %% wrong: None for never => generality returned-none
# ~ return math.inf ==> return None
# %% half: the line alone => 2.25
# ~ max(0.0, wait / gain) ==> 0.0
# ~ nbytes / min(alpha + nbytes / beta for alpha, beta in (small, large)) ==> 0.0
'''
