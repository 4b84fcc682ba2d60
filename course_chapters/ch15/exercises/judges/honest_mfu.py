import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from course_chapters.ch15.exercises.honest_mfu import LEAST, REASONS, ROOF
from course_chapters.ch15.exercises.work import as_run, peaks_of, trained
from course_grader.exercises.placeholders import fill_text
from course_grader.exercises.values import describe, is_number, is_row, near, times
from course_grader.judging import FINE, Case, Fault, Judging, Outcome, Params, Verdict, Worked, generality, shown
from course_grader.judging.diagnoses import plain_word
from course_grader.judging.mistakes import WHOLE, Wrong, first, verdict

Run = dict[str, object]
right = Worked("honest-mfu")


def log(
    seed: object,
    device: str = "H100 SXM",
    ranks: int = 8,
    *,
    narrow: bool = False,
    used: float | None = None,
    warm_up: int | None = None,
    steps: int | None = None,
    seen: float = 1.0,
    uneven: float = 1.0,
) -> Run:
    """A run that used this share of the device: warm-up, steps, one rank slower than the others; the same steps for a
    seed.

    The clock of the log saw a share of each step, and every third timed step took `uneven` times as long.
    """
    rng, peaks = random.Random(str(seed)), peaks_of(device)
    dtype = "float8" if narrow and "float8" in peaks["dense_flops"] else "bfloat16"
    base, per_rank, share = rng.uniform(0.3, 3), rng.choice((8192, 16_384, 32_768)), rng.uniform(0.25, 0.45)
    drawn = rng.choice((2, 3, 5)), rng.choice((11, 16, 20, 50))
    first, count = (made if wish is None else wish for made, wish in zip(drawn, (warm_up, steps), strict=True))
    late = rng.randrange(1, ranks) if ranks > 1 else 0  # never the first rank, whose log is easiest to read
    rows, slowest = [], list[float]()
    for step in range(first + count):
        compiling, usual = rng.uniform(2, 6), rng.choice((1, 1, 1, 1, 1.3)) * rng.uniform(0.98, 1.02)
        pace = base * (compiling if step < first else uneven * usual if step % 3 == 0 else usual)
        slowest.append(pace * rng.uniform(1.06, 1.12))
        paces = [slowest[-1] if rank == late else pace * rng.uniform(0.9, 0.97) for rank in range(ranks)]
        rows += [{"step": step, "rank": rank, "seconds": seen * seconds} for rank, seconds in enumerate(paces)]
    rng.shuffle(rows)
    flops = (used or share) * peaks["dense_flops"][dtype] * seen * statistics.median(slowest[first:]) / per_rank
    run = {"rows": rows, "warm_up": first, "tokens_per_step": per_rank * ranks, "ranks": ranks, "dtype": dtype}
    run |= {"wall_seconds": 1.01 * sum(slowest[first:])}
    return run | {"model_flops_per_token": flops, "hardware_flops_per_token": flops * 4 / 3} | peaks


def _at_a_limit(seconds: Sequence[float], wall: float, share: float = 0.4) -> Run:
    """One warm-up step, then steps of these seconds, the median a power of two, in numbers that no product rounds."""
    rows = [{"step": step, "rank": 0, "seconds": each} for step, each in enumerate([64.0, *seconds])]
    run = log(0, ranks=4) | {"rows": rows, "warm_up": 1, "wall_seconds": wall, "tokens_per_step": 2**16}
    run |= {"dense_flops": {"bfloat16": 1e15}, "sparse_flops": {"bfloat16": 2e15}}
    return run | {"model_flops_per_token": share * 1e15 * statistics.median(seconds) * 4 / 2**16}


def close(rng: random.Random) -> list[Run]:
    """Runs at the limit of a question, and some that fail two questions."""
    hasty, uneven = rng.uniform(0.5, 0.8), rng.uniform(5, 9)
    return [
        log(rng.random(), used=1.01),
        log(rng.random(), steps=LEAST),
        log(rng.random(), warm_up=0, steps=3),
        log(rng.random(), seen=hasty, uneven=uneven),
        log(rng.random(), seen=hasty, steps=3),
        log(rng.random(), seen=hasty, used=9.0),
        _at_a_limit([1.0] * 9, 10.0),  # nine tenths of the wall clock's seconds
        _at_a_limit([2.0, 0.5, *[1.0] * 7, 3.0], 12.5),  # three times as long; the fastest step is not the fast end
        _at_a_limit([1.0, *[1.25] * 7, 3.25], 13.0),  # of nine steps, the fastest and the slowest are the ends
        _at_a_limit([1.0, *[1.25] * 7, 1.5], 11.25),
        _at_a_limit([1.0] * 9, 9.0, ROOF),
        _at_a_limit([1.0] * 9, 9.0, ROOF + 1e-3),
    ]


DOCTORED: Mapping[str, Callable[[random.Random], Callable[..., Run]]] = {
    "no warm-up": lambda rng: partial(log, warm_up=0),
    "too few steps": lambda rng: partial(log, steps=rng.choice((2, LEAST - 1))),
    "clock did not wait": lambda rng: partial(log, seen=rng.uniform(0.5, 0.8)),  # below the roof
    "not steady": lambda rng: partial(log, uneven=rng.uniform(5, 9)),
    "above the roof": lambda rng: partial(log, used=rng.uniform(1.3, 2)),  # more FLOPs than the device can do
}


@cache
def recorded_runs() -> dict[str, Run]:
    return {name: as_run(run) for name, run in trained().items() if run["measured"].get("model_flops_per_step")}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    device, (name, own), seed = params["device"], next(iter(recorded_runs().items())), rng.random()
    example = {f"recorded, {name}": own, f"eight {device}": log(seed, device), "one of them": log(seed, device, 1)}
    example |= {f"the eight: {reason}": how(rng)(seed, device) for reason, how in DOCTORED.items()}
    unseen = list(recorded_runs().values())
    for how in [rng.choice(list(DOCTORED.values())) for _ in range(12)] + list(DOCTORED.values()):
        made = rng.random(), rng.choice(("H100 SXM", "A100 SXM 80GB", "B200 SXM")), rng.choice((1, 2, 8, 16))
        narrow = rng.random() < 0.4
        unseen += [log(*made, narrow=narrow), how(rng)(*made, narrow=narrow)]
    return [
        shown("shown", "values:", 0, [(run,) for run in example.values()], secret=list(example)),
        generality("", 0, "other runs", [(run,) for run in [*unseen, *close(rng)]]),
    ]


PLACES: dict[str, Sequence[int]] = {"mfu": (0,), "ends": (1, 2), "refusals": ()}  # of (mfu, low, high), by share


def _fault(params: Params, lead: str, got: object, want: str | Sequence[float], places: Sequence[int]) -> Fault | None:
    """What is wrong with an answer in these places; there are none where the log allows no MFU."""
    said = plain_word(got)
    if type(said) is str and said in REASONS:
        if said == want:
            return None
        name = "refuses-sound" if places else "other-reason"
        told = f"you say {got!r}, but this log is sound" if places else f"{got!r} is not the first reason that applies"
        return Wrong(name, f"{lead}{told}.", lead, tuple(places[:1]) or WHOLE)
    if not is_row(got) or len(got) != 3:
        told = f"{lead}return (mfu, low, high) or one of {', '.join(map(repr, REASONS))}; got {describe(got)}."
        return "returned-none" if got is None else "wrong-shape", told
    if isinstance(want, str):
        told = f"{lead}this log has no MFU: {fill_text(REASONS[want], params)}."
        return Wrong(f"accepts-{want.replace(' ', '-')}", told, lead, WHOLE)
    for at in places:
        if not near(found := got[at], want[at], FINE):
            off = times(found, want[at]) if is_number(found) else f"no number: {describe(found)}"
            return Wrong("", f"{lead}your {('MFU', 'low end', 'high end')[at]} is {off}.", lead, (at,))
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    faults: dict[str, list[Fault | None]] = {part: [] for part in PLACES}
    names = case.secret or [case.name] * len(outcome.value)
    for where, (run,), got in zip(names, case.args[1], outcome.value, strict=True):
        want = right(run)
        for part in ("refusals",) if type(want) is str else ("mfu", "ends"):
            faults[part].append(_fault(params, f"{where}: ", got, want, PLACES[part]))
    return [verdict(case.kind, part, case, first(*found)) for part, found in faults.items()]


JUDGING = Judging(
    shares="values:mfu 0.25, values:ends 0.1, values:refusals 0.2, generality:mfu 0.2, generality:ends 0.05, "
    "generality:refusals 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="""An MFU is a fraction of a peak, so use the right one: dense, of this dtype, of all devices. Ranks work in
step, and the slowest one decides when a step is over. The first steps compile and allocate. A number above the peak, or
steps that do not add up to the wall clock, describe the clock and not the machine: no MFU follows.""",
    pytorch="Call `torch.cuda.synchronize()` before each reading; torchtitan's metrics and "
    "`course_runs.evidence_checks` ask the same questions of a log.",
)

ANSWERS = r'''# %% right: worked
def honest_mfu(run: dict) -> tuple[float, float, float] | str:
    """(MFU, its low end, its high end) as fractions; or why there is none, in one of the words above."""
    steps = {}
    for row in run["rows"]:
        steps[row["step"]] = max(row["seconds"], steps.get(row["step"], 0.0))  # all wait for the slowest rank
    timed = sorted(seconds for step, seconds in steps.items() if step >= run["warm_up"])
    n = len(timed)
    if run["warm_up"] < 1:
        return "no warm-up"
    if n < 5:
        return "too few steps"
    if sum(timed) < 0.9 * run["wall_seconds"]:
        return "clock did not wait"
    if timed[9 * n // 10] > 3 * timed[n // 10]:
        return "not steady"
    work = run["model_flops_per_token"] * run["tokens_per_step"]
    peak = run["ranks"] * run["dense_flops"][run["dtype"]]
    found = tuple(work / seconds / peak for seconds in (statistics.median(timed), timed[9 * n // 10], timed[n // 10]))
    return "above the roof" if found[0] > 1.02 else found
# %% right: clocks in an array
#       timed = sorted(seconds for step, seconds in steps.items() if step >= run["warm_up"])
# +     import numpy as np
# +     clock = np.zeros((1 + max(row["step"] for row in run["rows"]), 1 + max(row["rank"] for row in run["rows"])))
# +     for row in run["rows"]:
# +         clock[row["step"], row["rank"]] = row["seconds"]
# +     timed = np.sort(clock.max(1)[run["warm_up"] :]).tolist()
# ~ else found ==> else list(found)
# %% wrong: the warm-up counts => values warm-up-counted
# > the warm-up is among the steps.
# ~ (statistics.median(timed), timed[9 ==> (statistics.median(steps.values()), timed[9
# %% wrong: the warm-up is timed => values warm-up-counted
# ~ in steps.items() if step >= run["warm_up"]) ==> in steps.items())
# %% wrong: one step too many excluded => values
# > a timed step was excluded with the warm-up, of which there are `warm_up` steps, from step 0 on.
# ~ step >= run["warm_up"]) ==> step > run["warm_up"])
# %% wrong: ranks of the log => generality
# > only the ranks that kept a log were counted.
# ~ peak = run["ranks"] * ==> peak = len({row["rank"] for row in run["rows"]}) *
# %% wrong: fastest and slowest => generality
# > steadiness was judged by the slowest and the fastest step, not by the slow and the fast end.
# ~ timed[9 * n // 10] > 3 * timed[n // 10] ==> timed[-1] > 3 * timed[0]
# %% wrong: mean => values
# > this is the mean step; use the median one.
# ~ (statistics.median(timed), timed[9 ==> (statistics.fmean(timed), timed[9
# %% wrong: low median => values
# > for an even number of steps, the median lies between two.
# ~ (statistics.median(timed), timed[9 ==> (statistics.median_low(timed), timed[9
# %% wrong: high median => values
# > for an even number of steps, the median lies between two.
# ~ (statistics.median(timed), timed[9 ==> (statistics.median_high(timed), timed[9
# %% wrong: fastest => values
# > this is the fastest step.
# ~ (statistics.median(timed), timed[9 ==> (min(timed), timed[9
# %% wrong: all rows => values
# > this is the median of all ranks' rows; first find one number for each step.
# ~ (timed), ==> (row["seconds"] for row in run["rows"] if row["step"] >= run["warm_up"]),
# %% wrong: first rank => values
# > another rank was still working.
# ~ (timed), ==> (row["seconds"] for row in run["rows"] if row["rank"] == 0 and row["step"] >= run["warm_up"]),
# %% wrong: mean rank => values
# > a step lasts until its slowest rank has finished.
#       work = run["model_flops_per_token"] * run["tokens_per_step"]
# +     of = lambda step: statistics.fmean(row["seconds"] for row in run["rows"] if row["step"] == step)
# ~ (timed), ==> (of(step) for step in steps if step >= run["warm_up"]),
# %% wrong: fastest rank => values  from: mean rank
# > this is the first rank to finish; others were still working.
# ~ statistics.fmean(row ==> min(row
# %% wrong: not the slowest => values
# > a step lasts until its slowest rank has finished, whatever another rank's log says.
# ~ max(row["seconds"], steps.get(row["step"], 0.0)) ==> min(row["seconds"], steps.get(row["step"], 1e9))
# %% wrong: sparse peak => values
# > this is relative to the sparse peak.
# ~ run["dense_flops"] ==> run["sparse_flops"]
# %% wrong: recomputed => values
# > recomputed work is not a model FLOP.
# ~ run["model_flops_per_token"] ==> run["hardware_flops_per_token"]
# %% wrong: one device => values
# > the peak is that of one device.
# ~ else found ==> else tuple(run["ranks"] * each for each in found)
# %% wrong: ranks twice => values
# > you divided by the ranks twice.
# ~ else found ==> else tuple(each / run["ranks"] for each in found)
# %% wrong: percent => values
# > return a fraction, not per cent.
# ~ else found ==> else tuple(100 * each for each in found)
# %% wrong: other dtype => generality
# > this is the peak of another dtype.
# ~ run["dense_flops"][run["dtype"]] ==> run["dense_flops"].get("bfloat16", run["dense_flops"][run["dtype"]])
# %% wrong: turned round => values
# > slow steps give the low end.
# ~ timed[9 * n // 10], timed[n // 10])) ==> timed[n // 10], timed[9 * n // 10]))
# %% wrong: extremes => values
# > this is the slowest or the fastest step, not that of a tenth.
# ~ timed[9 * n // 10], timed[n // 10])) ==> timed[-1], timed[0]))
# %% wrong: whatever comes out => values accepts-clock-did-not-wait
# ~ sum(timed) < 0.9 * run["wall_seconds"] ==> False
# %% wrong: shaky runs pass => values accepts-not-steady
# ~ timed[9 * n // 10] > 3 * timed[n // 10] ==> False
# %% wrong: above the roof is fine => values accepts-above-the-roof
# ~ "above the roof" if found[0] > 1.02 else found ==> found
# %% wrong: nothing is refused => values accepts-no-warm-up
# ~ if run["warm_up"] < 1 ==> if False
# ~ if n < 5 ==> if False
# ~ sum(timed) < 0.9 * run["wall_seconds"] ==> False
# ~ timed[9 * n // 10] > 3 * timed[n // 10] ==> False
# ~ "above the roof" if found[0] > 1.02 else found ==> found
# %% wrong: the roof is asked first => generality other-reason
#       n = len(timed)
# +     if run["model_flops_per_token"] * run["tokens_per_step"] / statistics.median(timed) / run["ranks"] /
# ~~ run["dense_flops"][run["dtype"]] > 1.02:
# +         return "above the roof"
# %% wrong: too few steps before the warm-up => generality other-reason
# ~ if run["warm_up"] < 1: ==> if run["warm_up"] < 1 and n >= 5:
# %% wrong: steadiness before the clock => generality other-reason
# ~ 0.9 * run["wall_seconds"] ==> 0.9 * run["wall_seconds"] and timed[9 * n // 10] <= 3 * timed[n // 10]
# %% wrong: the fast end above the roof => generality refuses-sound
# ~ found[0] > 1.02 ==> found[2] > 1.02
# %% wrong: five steps are too few => generality refuses-sound
# ~ if n < 5 ==> if n < 6
# %% wrong: everything is refused => values refuses-sound
# ~ else found ==> else "not steady"
# %% wrong: None for a refusal => values returned-none
# ~ return "not steady" ==> return None
# %% wrong: one number => values wrong-shape
# ~ else found ==> else found[0]
'''
