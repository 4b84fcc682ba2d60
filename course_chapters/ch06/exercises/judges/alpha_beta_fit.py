from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, hidden, judged, shown
from course_grader.judging.cases import Maker

right = Worked("alpha-beta-fit")


def _model(params: Params, size: float) -> float:
    lines = zip(params["alphas"], params["bandwidths"], strict=True)
    return min(alpha + size / bandwidth for alpha, bandwidth in lines)


def crossing(params: Params) -> float:
    """Bytes at which both protocols take the same time."""
    (first, second), (slow, fast) = params["alphas"], params["bandwidths"]
    return (second - first) / (1 / slow - 1 / fast)


def _fit_cases(params: Params, rng: Random) -> list[Case]:
    doubled, others = [float(2**power) for power in range(10, 31)], [1000 * 1.4**power for power in range(42)]

    def case(name: str, share: str, values: Params, sizes: list[float] = doubled, make: Maker = hidden) -> Case:
        for _ in range(100):
            seconds = [_model(values, size) * (1 + rng.uniform(-0.01, 0.01)) for size in sizes]
            made = make(name, share, sizes, seconds, secret=dict(values))
            # with lucky noise, a fit of raw seconds gives the right latencies
            if not made.visible or _fit_fault(made, right.wrong("least squares on raw seconds", sizes, seconds)):
                break
        return made

    cases = [case("one link, measured", "values:lines", params, make=shown)]
    links = ((3e-6, 25e-6), (2e9, 25e9)), ((8e-6, 90e-6), (6e9, 180e9)), ((2e-6, 14e-6), (1.5e9, 45e9))
    early, late = ((2e-6, 11e-6), (1e9, 45e9)), ((5e-6, 500e-6), (20e9, 200e9))
    slow, fast = ((2e-3, 9e-3), (1e8, 1e9)), ((3e-7, 4e-6), (4e9, 100e9))
    further = [(others, each) for each in (early, late, slow, fast)]
    for sizes, (alphas, bandwidths) in [*((doubled, link) for link in links), *further]:
        values = {"alphas": alphas, "bandwidths": bandwidths}
        cases.append(case("another link", "generality:links", values, sizes))
    sizes, seconds = cases[1].args
    faster = {**cases[1].secret, "bandwidths": [2 * each for each in cases[1].secret["bandwidths"]]}
    cases.append(replace(cases[1], args=([2 * size for size in sizes], seconds), secret=faster))
    return cases


def _far_from_the_ends(params: Params) -> bool:
    """Whether at least five of the measured sizes lie on each of the two lines."""
    return 2.0**14 < crossing(params) < 2.0**26


Line = tuple[float, float]  # latency in seconds, bandwidth in bytes a second


def _off(line: Sequence[float], true: Sequence[float], region: np.ndarray) -> float:
    """The largest relative error of a line over a region of sizes."""
    return float(np.max(np.abs((line[0] + region / line[1]) / (true[0] + region / true[1]) - 1)))


def _fit_fault(case: Case, got: tuple[float, Sequence[float], Sequence[float]]) -> Fault | None:
    switch, first, second = float(got[0]), *(tuple(map(float, each)) for each in got[1:])
    if min(first[1], second[1]) <= 0:
        slowest = min(first[1], second[1])
        return "no-bandwidth", f"{case.name}: the bandwidth is {slowest:.3g} bytes/s."
    truth, edge = case.secret, crossing(case.secret)
    small, large = zip(truth["alphas"], truth["bandwidths"], strict=True)
    low, high = np.geomspace(1e3, edge / 1.5, 9), np.geomspace(edge * 1.5, 1e9, 9)
    if _off(first, small, low) <= 0.06 and _off(second, large, high) <= 0.06:
        if edge / 2.5 <= switch <= edge * 2.5:
            return None
        ratio = switch / edge
        return "wrong-switch", f"{case.name}: both lines are right; the switch is {ratio:.3g} times their crossing."
    off_small, off_large = _off(first, small, low), _off(second, large, high)
    which, error = ("small", off_small) if off_small > 0.06 else ("large", off_large)
    told = f"the line for {which} messages is off by {100 * error:.3g} % in its own range."
    return Wrong("bad-line", f"{case.name}: {told}", f"{case.name}: ")


JUDGING = Judging(
    alike=_far_from_the_ends,
    shares={"values:lines": 0.6, "generality:links": 0.4},
    cases=_fit_cases,
    verdicts=lambda params, case, outcome: judged(case, _fit_fault(case, outcome.value)),
    why="The times span six orders of magnitude, so the squares of raw errors depend only on the largest messages. "
    "With relative errors every size counts: small messages determine the latency, large ones the bandwidth. The "
    "cut is one more unknown; try them all.",
    pytorch="NCCL's tuner uses such a model to choose between the protocols LL, LL128 and Simple; "
    "`NCCL_PROTO` fixes one.",
)

ANSWERS = r'''import numpy as np
# %% right: worked
def fit(sizes, seconds):
    """(switch in bytes, (latency s, bandwidth bytes/s) below it, the same above it)."""
    n, t = np.array(sizes, dtype=float), np.array(seconds, dtype=float)

    def one(part):  # relative least squares: every row is divided by its time
        rows = np.stack([1 / t[part], n[part] / t[part]], 1)
        (alpha, beta), *_ = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)
        return float(((rows @ [alpha, beta] - 1) ** 2).sum()), (float(alpha), float(1 / beta))

    cuts = {cut: (one(slice(cut)), one(slice(cut, None))) for cut in range(3, len(n) - 2)}
    cut = min(cuts, key=lambda each: cuts[each][0][0] + cuts[each][1][0])
    (_, below), (_, above) = cuts[cut]
    return float(np.sqrt(n[cut - 1] * n[cut])), below, above
# %% right: alternating: assign points to the quicker line, fit again; the switch where the lines cross
# -     cuts = {cut: (one(slice(cut)), one(slice(cut, None))) for cut in range(3, len(n) - 2)}
# -     cut = min(cuts, key=lambda each: cuts[each][0][0] + cuts[each][1][0])
# -     (_, below), (_, above) = cuts[cut]
# +     cut = len(n) // 2
# +     for _ in range(50):
# +         (_, below), (_, above) = one(slice(cut)), one(slice(cut, None))
# +         quicker = below[0] + n / below[1] <= above[0] + n / above[1]
# +         cut = min(max(3, int(quicker.sum())), len(n) - 3)
# -     return float(np.sqrt(n[cut - 1] * n[cut])), below, above
# +     return [float((above[0] - below[0]) / (1 / below[1] - 1 / above[1])), list(below), list(above)]
# %% wrong: least squares on raw seconds => values raw-seconds
# > this is least squares on raw seconds, in which the largest messages determine everything, even the latency. The
# > uncertainty is a percentage of each time.
# ~ [1 / t[part], n[part] / t[part]] ==> [np.ones(len(t[part])), n[part]]
# ~ np.ones(len(rows)) ==> t[part]
# ~ (rows @ [alpha, beta] - 1) ==> (rows @ [alpha, beta] - t[part])
# %% wrong: one line for all => values one-line
# > this is one line for all sizes; each of the two protocols has its own.
# ~ (one(slice(cut)), one(slice(cut, None))) ==> (one(slice(None)), one(slice(None)))
# %% wrong: latency from the smallest, bandwidth from the largest => values ends-only
# > the latency is the time of the smallest message and the bandwidth that of the largest, in both lines; each line has
# > points of its own.
# ~ , below, above ==> , *[(t[0], n[-1] / t[-1])] * 2
# %% wrong: slopes for bandwidths => values slope-for-bandwidth
# > the bandwidth is in seconds per byte; return bytes per second.
# ~ float(1 / beta) ==> float(beta)
# %% wrong: the ways the wrong way round => values lines-swapped
# > the two lines are swapped; the one for small messages comes first.
# ~ , below, above ==> , above, below
# %% wrong: the switch in MB => values wrong-switch
# ~ return float(np ==> return 1e-6 * float(np
# %% wrong: the first link's constants for all => values bad-line
#       n, t = np.array(sizes, dtype=float), np.array(seconds, dtype=float)
# +     (a, b), (c, d) = (shown := params("alpha-beta-fit")).alphas, shown.bandwidths
# +     return (b - a) / (1 / c - 1 / d), (a, c), (b, d)
# %% wrong: four numbers in a row => values wrong-shape
# ~ return float(np.sqrt(n[cut - 1] * n[cut])), below, above ==> return 5e-6, 4e9, 40e-6, 80e9
'''
