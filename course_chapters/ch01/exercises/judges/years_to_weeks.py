import math
import random

from course_grader.judging import Case, Judging, Outcome, Params, Verdict, Worked, log_uniform, one_apart, plain, unseen
from course_grader.judging.per_row import EXACT, Column, gpus_text, table
from course_lib.estimate.units import WEEK, number_text

_OUT_OF_REACH = "the part that never gets shorter already takes too long, so no number of GPUs is enough; return None"
FIELDS = ("params", "tokens", "flops", "mfu", "keep", "gpus", "weeks")  # of a row


right = Worked("years-to-weeks")


def _weeks(p: float, d: float, f: float, m: float, keep: float = 1.0, gpus: float = 1.0) -> float:
    """Weeks on some GPUs; on one without any loss by default."""
    return right(p, d, f, m, keep, gpus, math.inf)[0]


def _words(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> str:
    return f"{number_text(p)} parameters, {number_text(d)} tokens, keep {k:g}, {gpus_text(n)} or {w:g} weeks"


def _plan_rows(law: str, rng: random.Random, count: int) -> list[tuple[object, ...]]:
    """Runs whose GPU count stays the same when the deadline moves by a millionth."""
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        keep = rng.choice((0.6, 0.9, 0.94, 0.97, 0.99, 1.0) if law == "doubling" else (0.99, 0.999, 0.9995, 1.0))
        p, d, f = log_uniform(rng, 1e9, 3e11), log_uniform(rng, 5e10, 2e13), rng.choice((312e12, 989e12, 2250e12))
        run = (p, d, f, rng.choice((0.3, 0.4, 0.55)), keep)
        top = 3000 if law == "doubling" else min(3000, 0.8 / (1 - keep) if keep < 1 else 3000)
        weeks = float(f"{_weeks(*run, log_uniform(rng, 1.2, top)):.4g}")
        row = (*run, rng.choice((1, 2, 3, 24, 100, 1000, 4096, 50_000)), weeks)
        rows += [row] if _settled(*row) else []
    return rows


def _settled(*row: float) -> bool:
    few, many = (right(*row[:6], row[6] * factor)[1] for factor in (1 + 1e-6, 1 - 1e-6))
    return few == many


def _plan_cases(params: Params, rng: random.Random) -> list[Case]:
    law = params["law"]
    easy = [(1e8, 1e9, 989e12, 0.4, 0.97, 1, 4), (1e9, 1e10, 989e12, 0.5, 0.999, 8, 1)]
    others = _plan_rows(law, rng, 24)
    others += one_apart(others, right, _settled)
    # Perfect scaling, powers of two and a multiple of a week's seconds: exact in whatever order one multiplies.
    powers = (2.0**30, WEEK * 2**20, 6 * 2.0**44, 0.5)
    exact = [(*powers, 1.0, 4, _weeks(*powers) / n) for n in (1, 2, 8, 64)]
    late: list[tuple[float, ...]] = [(70e9, 15e12, 989e12, 0.4, 0.99, 1000, 26), (7e9, 2e12, 989e12, 0.5, 0.9, 64, 4)]
    late.append((*powers, 0.5, 4, _weeks(*powers) / 2))  # just out of reach
    return [
        Case(name="the run", args=(0, [tuple(params[name] for name in FIELDS)])),
        plain("", 0, "three more runs", _plan_rows(law, rng, 3)),
        unseen(rng, "", 0, "other runs", [*others, *easy, *exact]),
        *([unseen(rng, "gpus", 0, "deadlines out of reach", late)] if law == "serial" else []),
    ]


_COLUMNS = (Column("weeks", "weeks", words=_words), Column("gpus", "GPUs", words=_words, rel=EXACT, none=_OUT_OF_REACH))


def _plan_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """The verdicts on both columns, or on the one that the case is about."""
    return [each for each in table(_COLUMNS, right=right)(params, case, outcome) if case.part in ("", each.part)]


JUDGING = Judging(
    shares={"values:weeks": 0.2, "values:gpus": 0.2, "generality:weeks": 0.25, "generality:gpus": 0.35},
    cases=_plan_cases,
    verdicts=_plan_verdicts,
    why="Speed-up is N × efficiency(N), not N. You cannot derive the inverse from the one-GPU time, because the GPUs "
    "that make up for the loss lose speed themselves: search for the least N whose own time is short enough, or "
    "solve for N. With a loss per doubling the speed-up is N^(1 + log₂ keep), so more GPUs always help, at a "
    "falling rate. With a part that never gets shorter (Amdahl, 1967) the deadline itself may be out of reach.",
    pytorch="torchtitan logs tokens per second and MFU; plotted over the world size they give `keep` for your "
    "own cluster.",
)

ANSWERS = r'''from course_lib.estimate.units import WEEK
# %% right: worked
law = params("years-to-weeks").law  # leave as is: "doubling" or "serial": how scaling falls short in your variant


def plan_run(
    params: float, tokens: float, gpu_flops: float, mfu: float, keep: float, gpus: int, weeks: float
) -> tuple[float, int | None]:
    """Weeks of the run on `gpus` GPUs, and the least number of GPUs that finish within `weeks`."""
    alone = 6 * params * tokens / (gpu_flops * mfu) / WEEK

    def weeks_on(n: int) -> float:
        return alone / n / keep ** math.log2(n) if law == "doubling" else alone * (1 - keep + keep / n)

    if law == "serial" and alone * (1 - keep) >= weeks:
        return weeks_on(gpus), None  # the part that never gets shorter is too long by itself
    enough = 1
    while weeks_on(enough) > weeks:
        enough *= 2
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if weeks_on(middle) <= weeks else (middle, enough)
    return weeks_on(gpus), enough
# %% right: solved for N  from: worked
def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    alone = 6 * params * tokens / (gpu_flops * mfu) / WEEK
    if law == "serial":
        spare = weeks / alone - (1 - keep)
        return alone * (1 - keep + keep / gpus), (max(1, math.ceil(keep / spare)) if spare > 0 else None)
    power = 1 + np.log2(keep)
    return [alone / gpus**power, max(1, np.ceil((alone / weeks) ** (1 / power)))]
# %% wrong: perfect scaling => values
# > this assumes perfect scaling.
# ~ alone / n / keep ** math.log2(n) if law == "doubling" else alone * (1 - keep + keep / n) ==> alone / n
# ~ law == "serial" and ==> False and
# %% wrong: one gpu => values
# > this is the time on one GPU.
# ~ weeks_on(gpus), None ==> alone, None
# ~ weeks_on(gpus), enough ==> alone, enough
# %% wrong: keep once => values unless law=serial
# > the loss comes with every doubling, not once.
# ~ keep ** math.log2(n) ==> keep
# %% wrong: keep per gpu => values unless law=serial
# > the loss is per doubling, not per GPU.
# ~ weeks_on(gpus), enough ==> (alone / gpus / max(keep**gpus, 1e-300) if law == "doubling" else weeks_on(gpus)), enough
# %% wrong: speed up => values unless law=serial
# > the GPUs lose speed with every doubling.
# ~ keep ** math ==> keep ** -math
# %% wrong: natural logarithm => values unless law=serial
# > count doublings with a base-2 logarithm.
# ~ math.log2 ==> math.log
# %% wrong: whole doublings => values unless law=serial
# > this counts whole doublings only; the logarithm of a number between two powers of 2 has a fraction.
# ~ math.log2(n) ==> int(math.log2(n))
# %% wrong: one pass => values
# > this corrects the first guess once; the added GPUs lose speed too.
# -     return weeks_on(gpus), enough
# +     ideal = max(1, math.ceil(alone / weeks))
# +     return weeks_on(gpus), math.ceil(ideal * ideal * weeks_on(ideal) / alone)
# %% wrong: in proportion => values
# > this scales the run on the given GPUs in proportion, but with their number every GPU's speed changes.
# ~ weeks_on(gpus), enough ==> weeks_on(gpus), max(1, math.ceil(gpus * weeks_on(gpus) / weeks))
# %% wrong: the same loss at every doubling => values subtracted unless law=serial
# > every doubling subtracts the same loss here; each keeps a fraction of what was left.
# ~ alone / n / keep ** math.log2(n) if ==> alone / n / max(1e-3, 1 - (1 - keep) * math.log2(n)) if
# %% wrong: power of two => values
# > that is the next power of two; fewer finish in time.
# ~ while enough - few > 1 ==> while False
# %% wrong: one too few => values
# > with this many GPUs the run is late, if only by a little.
# ~ weeks_on(gpus), enough ==> weeks_on(gpus), max(1, enough - 1)
# %% wrong: one too many => values
# > one GPU fewer also finishes in time.
# ~ weeks_on(gpus), enough ==> weeks_on(gpus), enough + 1
# %% wrong: one more where it fits exactly => generality one-too-many
# > one GPU fewer also finishes in time: an exact fit counts.
# ~ weeks_on(enough) > weeks ==> weeks_on(enough) >= weeks
# ~ weeks_on(middle) <= weeks ==> weeks_on(middle) < weeks
# %% wrong: keep by heart => values unless law=serial
# > this takes 0.97, whatever `keep` is.
# ~ keep ** math ==> 0.97 ** math
# %% half: one direction only => 3
# ~ weeks_on(gpus), enough ==> weeks_on(gpus), None
# %% wrong: 4,096 GPUs at most => values -
# ~ weeks_on(gpus), enough ==> weeks_on(min(gpus, 4096)), enough
'''
