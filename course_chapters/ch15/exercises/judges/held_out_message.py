import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from course_chapters.ch15.exercises.held_out_message import CARD, RATIOS
from course_chapters.ch15.exercises.probes import Timed
from course_grader.exercises.values import describe, is_number, near, times
from course_grader.judging import FINE, Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, first_of, oracle
from course_grader.judging.cases import hidden, shown
from course_lib.estimate.units import bytes_text
from course_runs.reading import recorded

CLOSE = CARD.params["close"]  # relative error allowed for a message that was not measured
SOLVABLE = 0.08  # relative error of our own fit on every sweep in the cases
RECORDED = "cpu4/links"
SMALLEST, STEP, SIZES = 1024, 4, 11
Link = Callable[[float], float]  # seconds of a size
Asked = tuple[list[Timed], float, float]  # a sweep, a size, and the true seconds of that size
right = Worked("held-out-message")

LEFT_OUT = (2, 3, 8)  # numbers of sizes that are never next to the border of two regimes
KINDS = ("one regime", "a quicker way for large messages", "more ceremony from some size on", "slower beyond the cache")


def link_of(kind: str, alpha: float, beta: float, rng: Random) -> Link:
    edge = SMALLEST * STEP ** (rng.choice((5, 6)) - 0.5)
    later, more = 1.0, 0.0  # from the edge on: how many times as fast, and by how much later each message begins
    if kind == "one regime":
        edge = math.inf
    elif kind == "a quicker way for large messages":
        later = rng.uniform(6, 12)
        beta = edge * (1 - 1 / later) / (alpha * rng.uniform(3, 6))
        more = edge / beta * (1 - 1 / later)  # both lines meet at the edge
    elif kind == "more ceremony from some size on":
        beta, more, later = edge / (alpha * rng.uniform(0.5, 1.5)), alpha * rng.uniform(3, 6), rng.uniform(1, 1.3)
    else:
        beta, later = max(beta, edge / (8 * alpha)), 1 / rng.uniform(3, 5)

    def seconds(nbytes: float) -> float:
        return alpha + nbytes / beta if nbytes < edge else alpha + more + nbytes / (beta * later)

    return seconds


def sweep(seconds: Link, rng: Random, skip: int | None = None) -> list[Timed]:
    """Rows of a link, perhaps without one size: a slow first repeat, some disturbed ones, the rest off by a few per
    cent."""
    rows: list[Timed] = []
    for nbytes in (SMALLEST * STEP**place for place in range(SIZES) if place != skip):
        true = seconds(nbytes) * rng.uniform(0.98, 1.02)
        repeats = [true * rng.uniform(0.97, 1.03) for _ in range(rng.choice((11, 13, 15)))]
        for slow in rng.sample(range(1, len(repeats)), len(repeats) // 4):
            repeats[slow] *= rng.uniform(3, 8)
        repeats[0] *= rng.choice((1, 6, 20))
        rows.append({"nbytes": nbytes, "seconds": repeats})
    rng.shuffle(rows)
    return rows


def recorded_sweep(kind: str) -> list[Timed]:
    rows = [row for row in recorded(RECORDED)["raw"]["rows"] if row["kind"] == kind]
    return [{"nbytes": row["nbytes"], "seconds": list(row["seconds"])} for row in rows]


def _off(value: float, true: float) -> bool:
    return not true / (1 + CLOSE) <= value <= true * (1 + CLOSE)


def asked(kind: str, alpha: float, beta: float, rng: Random, skip: int | None, reach: float) -> Asked:
    """A sweep and a size left out of it, or beyond it, that our own fit can solve.

    The mean of disturbed repeats is wrong there, and for a small message one line through raw seconds too.
    """
    while True:
        seconds = link_of(kind, alpha, beta, rng)
        rows = sweep(seconds, rng, skip)
        nbytes = float(SMALLEST * STEP ** (SIZES - 1) * reach if skip is None else SMALLEST * STEP**skip)
        true = seconds(nbytes)
        slips = ["mean"] if skip is None or nbytes > 1e5 else ["mean", "raw seconds"]
        solved = abs(right[0](rows, nbytes) / true - 1) < SOLVABLE
        if solved and all(_off(right.wrong(slip, rows, nbytes), true) for slip in slips):
            return rows, nbytes, true


def _table(alpha: float, beta: float, rng: Random, reach: float) -> list[Asked]:
    """Rows for each kind of link: with a size left out, and with one far beyond."""
    return [asked(kind, alpha, beta, rng, skip, reach) for kind in KINDS for skip in (*LEFT_OUT, None)]


def _asking(make: Callable[..., Case], name: str, share: str, made: Sequence[Asked]) -> Case:
    return make(name, share, 0, [(rows, nbytes) for rows, nbytes, _ in made], secret=[true for *_, true in made])


def _cases(params: Params, rng: Random) -> list[Case]:
    alpha, beta, reach = params["alpha"], params["beta"], params["reach"]
    made = _table(alpha, beta, rng, reach)
    whole = [(sweep(link_of(kind, alpha, beta, rng), rng),) for kind in KINDS]
    others: list[Asked] = []
    for _ in range(3):
        others += _table(rng.uniform(3e-6, 6e-5), rng.uniform(2e9, 4e10), rng, rng.choice((4, 8, 16)))
    seconds = link_of(KINDS[0], alpha, beta, rng)
    rows = sweep(seconds, rng)
    others += [(rows, nbytes, seconds(nbytes)) for nbytes in (3.0 * SMALLEST, 2.0 * SMALLEST * STEP ** (SIZES - 1))]
    unseen = [(recorded_sweep("send"),), *((rows,) for rows, *_ in others[:4])]
    left_out = [each for place, each in enumerate(made) if place % 4 < 3]
    return [
        _asking(shown, "a size left out", "values:left-out", left_out),
        _asking(shown, "a size beyond the largest", "values:beyond", made[3::4]),
        shown("each size in turn", "protocol:held-out", 1, [*whole, (recorded_sweep("all_reduce"),)]),
        _asking(hidden, "other links", "generality:links", others),
        hidden("each size of other links", "generality:held-out", 1, unseen),
    ]


def _seconds_fault(case: Case, nbytes: float, got: float, true: float) -> Fault | None:
    lead = f"{case.name}, {bytes_text(nbytes)}: "
    if not _off(got, true):
        return None
    for unit, factor in (("milliseconds", 1e3), ("microseconds", 1e6)):
        if near(got, true * factor, CLOSE):
            return unit, f"{lead}these are {unit}; return seconds."
    return Wrong("", f"{lead}you predict {times(got, true)}; at most {CLOSE:.0%} off is allowed.", lead)


def _honest_fault(case: Case, rows: Sequence[Timed], got: Mapping[str, Mapping[int, object]]) -> Fault | None:
    """What is wrong with the held-out ratios of a sweep; `got` is what the probe `sweeps` gives."""
    by_size = {row["nbytes"]: row for row in sorted(rows, key=lambda row: row["nbytes"])}
    if any(set(got[name]) != set(by_size) for name in RATIOS):
        return "wrong-shape", f"{case.name}: return a dictionary with one ratio for each of the {len(rows)} sizes."
    return first_of(_ratio_fault(case, row, *(got[name][size] for name in RATIOS)) for size, row in by_size.items())


def _ratio_fault(case: Case, row: Timed, got: object, want: object, seen: object) -> Fault | None:
    """What is wrong with one ratio: `want` is that of the answer's own fit without this size, `seen` of the one with
    it."""
    where = f"{case.name}, {bytes_text(row['nbytes'])}"
    if not is_number(got):
        return "not-a-number", f"{where}: expected a ratio, got {describe(got)}."
    if not (is_number(want) and is_number(seen)):
        return "not-a-number", f"{where}: without this size your first function does not return a number of seconds."
    if near(got, want, FINE):
        return None
    middle, mean = statistics.median(row["seconds"]), statistics.fmean(row["seconds"])
    for name, value, told in (  # whatever the fit is
        ("seen-before", seen, "your fit saw the size that it was to predict. Leave its row out."),
        ("upside-down", 1 / want if want else math.inf, "this is measured over predicted."),
        ("difference", want - 1, "this is the error; return the ratio of predicted to measured."),
        ("seconds", want * middle, "these are seconds; return the ratio of predicted to measured."),
        ("over-the-mean", want * middle / mean, "divide by the median of the repeats."),
        ("too-good", 1.0, "exactly 1 is no prediction. What does your fit say without this row?"),
    ):
        if near(got, value, FINE):
            return name, f"{where}: {told}"
    return "not-your-own", f"{where}: without this size your own fit gives a ratio of {want:.4g}, not {got:.4g}."


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    index, table = case.args
    if index == 0:
        asked = zip(table, outcome.value, case.secret, strict=True)
        return first_of(_seconds_fault(case, nbytes, got, true) for (_, nbytes), got, true in asked)
    return first_of(_honest_fault(case, rows, got) for (rows,), got in zip(table, outcome.value, strict=True))


JUDGING = Judging(
    shares="values:left-out 0.25, values:beyond 0.15, protocol:held-out 0.2, generality:links 0.3, generality:held-out "
    "0.1",
    cases=_cases,
    verdicts=oracle(_fault),
    within=0.01,
    why="""Test a fit where it can fail: on a size that it has not seen. Errors are relative to each time, so least
squares on raw seconds fits the largest message only, and one line through two regimes describes neither. Medians ignore
disturbed repeats. A ratio that stays far from 1 is a finding: there the line does not describe the link.""",
    pytorch="""`./course run collectives` measures the sweep; nccl-tests prints the same for GPUs. NCCL switches between
protocols at such a border (`NCCL_PROTO`).""",
)

ANSWERS = r'''# %% right: worked
def predict_seconds(rows: list[dict], nbytes: float) -> float:
    """Seconds of a message of a size that is not among `rows`."""
    points = sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows)
    n, t = np.array(points).T

    def line(part):  # α and 1/β of the least relative errors, and the sum of their squares
        table = np.stack([1 / t[part], n[part] / t[part]], 1)
        constants, *_ = np.linalg.lstsq(table, np.ones(len(table)))
        return constants, ((table @ constants - 1) ** 2).sum()

    cut = min(range(3, len(n) - 2), key=lambda i: line(slice(0, i))[1] + line(slice(i, None))[1])
    part = slice(0, cut) if nbytes < (n[cut - 1] * n[cut]) ** 0.5 else slice(cut, None)
    (alpha, per_byte), _ = line(part)
    return alpha + per_byte * nbytes


def held_out(rows: list[dict]) -> dict[int, float]:
    """For every size: seconds predicted from all other sizes, over seconds measured."""
    return {
        row["nbytes"]: predict_seconds([other for other in rows if other is not row], row["nbytes"])
        / statistics.median(row["seconds"])
        for row in rows
    }
# %% right: one line unless two are far better
#       part = slice(0, cut) if nbytes < (n[cut - 1] * n[cut]) ** 0.5 else slice(cut, None)
# +     if line(slice(0, None))[1] < 4 * line(slice(0, cut))[1] + 4 * line(slice(cut, None))[1]:
# +         part = slice(0, None)
# %% right: a line through the two nearest sizes  from: worked
def predict_seconds(rows, nbytes):
    n, t = np.array(sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows)).T
    right = min(max(int(np.searchsorted(n, nbytes)), 1), len(n) - 1)
    share = (nbytes - n[right - 1]) / (n[right] - n[right - 1])
    return float(t[right - 1] + share * (t[right] - t[right - 1]))
# %% wrong: raw seconds => values  from: worked
# > least squares on raw seconds lets the largest messages decide; each time is uncertain by a share of itself.
def predict_seconds(rows, nbytes):
    n, t = np.array(sorted((row["nbytes"], statistics.median(row["seconds"])) for row in rows)).T
    slope, alpha = np.polyfit(n, t, 1)
    return float(alpha + slope * nbytes)
# %% wrong: raw seconds in two regimes => values raw-seconds
# ~ (alpha, per_byte), _ = line(part) ==> per_byte, alpha = np.polyfit(n[part], t[part], 1)
# %% wrong: one regime => values  from: raw seconds
# > one line through all sizes describes neither of two regimes.
# ~ (n, t, 1) ==> (n, t, 1, w=1 / t)
# %% wrong: mean => values
# > the disturbed repeats are in the mean.
# ~ statistics.median(row["seconds"])) for ==> statistics.fmean(row["seconds"])) for
# %% wrong: the mean without the first repeat => values mean
# > the mean leaves out the first repeat, but other repeats are disturbed too.
# ~ statistics.median(row["seconds"])) for ==> statistics.fmean(row["seconds"][1:])) for
# %% wrong: first repeat => values
# > some first repeats were slow.
# ~ statistics.median(row["seconds"])) for ==> row["seconds"][0]) for
# %% wrong: largest two => values  from: raw seconds
# > the two largest sizes say nothing about α.
# ~ (n, t, 1) ==> (n[-2:], t[-2:], 1)
# %% wrong: rate of largest => values  from: raw seconds
# > the rate of the largest message ignores the latency.
# ~ alpha + slope * nbytes ==> nbytes * t[-1] / n[-1]
# %% wrong: held flat => values  from: raw seconds
# > this is a straight line between the neighbors, and flat beyond the largest size.
# ~ alpha + slope * nbytes ==> np.interp(nbytes, n, t)
# %% wrong: in milliseconds => values milliseconds
# ~ return alpha + per_byte * nbytes ==> return 1e3 * (alpha + per_byte * nbytes)
# %% wrong: fitted to what it predicts => protocol seen-before
# ~ [other for other in rows if other is not row] ==> rows
# %% wrong: measured over measured => protocol too-good
# ~ predict_seconds([other for other in rows if other is not row], row["nbytes"]) ==> statistics.median(row["seconds"])
# %% wrong: measured over predicted => protocol upside-down
# ~ row["nbytes"]: predict_seconds ==> row["nbytes"]: 1 / predict_seconds
# ~ / statistics.median(row["seconds"]) ==> * statistics.median(row["seconds"])
# %% wrong: errors for ratios => protocol difference
# ~ / statistics.median(row["seconds"]) ==> / statistics.median(row["seconds"]) - 1
# %% wrong: seconds for ratios => protocol seconds
# ~ / statistics.median(row["seconds"]) ==>
# %% wrong: over the mean => protocol over-the-mean
# ~ / statistics.median(row["seconds"]) ==> / statistics.fmean(row["seconds"])
# %% wrong: only sizes that fit well => protocol wrong-shape
# -         for row in rows
# +         for row in rows[1:]
# %% wrong: the second function is not written => protocol not-answered
#       """For every size: seconds predicted from all other sizes, over seconds measured."""
# +     raise NotImplementedError
'''
