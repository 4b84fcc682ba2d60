"""Judge of first-wall: the first wall, and the cheapest way past it."""

import itertools
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from course_lib import facts
from course_lib.exercises.ch01.first_wall import FIXES, WALLS
from course_lib.judging import Fault, Judging, Mistake, Params, verdict
from course_lib.judging.columns import gpus_text
from course_lib.judging.draws import log_uniform, one_apart, plain, unseen
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import bytes_text, number_text

Job = Mapping[str, Any]
Loads = dict[str, Fraction]
Answer = tuple[str, str, int]
MOST = 2_000  # GPUs that a drawn job may need at most, so that counting them one by one stays quick


def alone(job: Job, bytes_each: int, *, flops: str = "dense_flops", reserve: bool = True, mfu: bool = True) -> Loads:
    """The three loads of one GPU by itself, exactly. The keywords are mistakes: another peak, no reserve, no MFU."""
    usable = Fraction(job["gpu_memory"]) * ((1 - Fraction(job["reserve"])) if reserve else 1)
    rate = Fraction(job[flops]) * (Fraction(job["mfu"]) if mfu else 1)
    seconds_per_token = 6 * Fraction(job["params"]) / rate
    return {
        "memory": Fraction(job["params"]) * bytes_each / usable,
        "compute": seconds_per_token * job["step_tokens"] / Fraction(job["step_s"]),
        "deadline": seconds_per_token * Fraction(job["tokens"]) / Fraction(job["deadline_s"]),
    }


def spread(one: Loads, gpus: int, sharded: bool) -> Loads:
    """The loads on `gpus` GPUs: time is always shared, the state only if it is sharded."""
    shared = {wall: load / gpus for wall, load in one.items()}
    return shared if sharded else {**shared, "memory": one["memory"]}


def solve(
    job: Job,
    bytes_each: int,
    *,
    only_first: bool = False,
    order: Sequence[str] = FIXES,
    added: bool = False,
    sharded: bool = False,
    **mistaken: Any,
) -> Answer:
    """(wall, fix, GPUs) by trying each fix and counting GPUs one by one. The keywords are mistakes."""
    one, gpus = alone(job, bytes_each, **mistaken), job["gpus"]
    before = spread(one, gpus, job["sharded"] or sharded)
    heaviest = max(WALLS, key=lambda wall: before[wall])
    wall = heaviest if before[heaviest] > 1 else "none"
    asked = (wall,) if only_first and wall != "none" else WALLS
    after = {"nothing": before, "shard state": spread(one, gpus, True)}
    if job["latest_s"] is not None:
        later = before["deadline"] * Fraction(job["deadline_s"]) / Fraction(job["latest_s"])
        after["longer deadline"] = {**before, "deadline": later}
    for fix in order:
        if fix in after and all(after[fix][each] <= 1 for each in asked):
            return wall, fix, gpus
    needs = [(one[each].numerator, one[each].denominator) for each in asked]
    enough = next(n for n in itertools.count(gpus) if all(top <= n * below for top, below in needs))
    return wall, "more GPUs", enough - gpus if added else enough


_MONEY_FIRST, _NO_SHARDING = ("nothing", "shard state", "more GPUs"), ("nothing", "longer deadline", "more GPUs")
MISTAKES = (
    Mistake("sparse-peak", partial(solve, flops="sparse_flops"), "This uses the sparse peak; training is dense."),
    Mistake("no-reserve", partial(solve, reserve=False), "The reserve was not subtracted from the memory."),
    Mistake("always-sharded", partial(solve, sharded=True), "This assumes a sharded state; each GPU holds a copy."),
    Mistake("full-speed", partial(solve, mfu=False), "This assumes 100 % of the peak; the job reaches `mfu`."),
    Mistake("only-the-first-wall", partial(solve, only_first=True), "This removes the first wall; another remains."),
    Mistake("gpus-added", partial(solve, added=True), "Return all GPUs in use after the fix, not only the added ones."),
    Mistake("money-first", partial(solve, order=_MONEY_FIRST), "A later deadline is cheaper than more GPUs."),
    Mistake("never-shards", partial(solve, order=_NO_SHARDING), "Sharding alone is cheaper and was not tried."),
)


# --- jobs --------------------------------------------------------------------------------------------


def job_words(job: Job) -> str:
    """A job in a few words, enough to identify it."""
    return (
        f"{number_text(job['params'])} parameters on {gpus_text(job['gpus'])} of {bytes_text(job['gpu_memory'])}"
        f"{', sharded' if job['sharded'] else ''}, {number_text(job['tokens'])} tokens"
    )


def _job(
    params: float, tokens: float, gpus: int, device: str, need: Mapping[str, float], **more: Any
) -> dict[str, Any]:
    """A job whose step and deadline are `need` times what the run takes: 2 is slack, 0.5 a wall with load 2."""
    card = facts.device(device)
    job = {
        "params": params,
        "tokens": tokens,
        "step_tokens": 1_000_000,
        "gpus": gpus,
        "gpu_memory": float(card.memory),
        "reserve": 0.2,
        "dense_flops": float(card.dense_flops),
        "sparse_flops": 2 * float(card.dense_flops),
        "mfu": 0.4,
        "step_s": 1.0,
        "deadline_s": 1.0,
        "latest_s": None,
        "sharded": False,
        **more,
    }
    taken = spread(alone(job, 1), gpus, False)
    for limit, load in (("step", "compute"), ("deadline", "deadline"), ("latest", "deadline")):
        if limit in need:
            job[f"{limit}_s"] = float(f"{float(taken[load]) * need[limit]:.4g}")
    return job


def shown_jobs(params: Params) -> list[dict[str, Any]]:
    """Five jobs of one variant: each fix once, and one whose second wall outlives the fix of its first."""
    size, device = params["params"], params["device"]
    slack = {"step": 1.7, "deadline": 1.6}
    return [
        _job(1e9, 1e11, 8, device, slack),
        _job(size, 1e11, 8, device, slack),
        _job(size, 3e11, 8, device, {**slack, "deadline": 0.7, "latest": 1.3}, sharded=True),
        _job(size, 3e11, 8, device, {**slack, "step": 0.17}),
        _job(size, 3e11, 8, device, {**slack, "deadline": 0.63, "latest": 0.9}),
    ]


def _settled(job: Job, bytes_each: int) -> bool:
    """Whether rounding noise can change nothing: no load near 1 under any fix, no two heaviest loads alike."""
    one = alone(job, bytes_each)
    found = [spread(one, job["gpus"], job["sharded"]), spread(one, job["gpus"], True)]
    if job["latest_s"] is not None:
        found.append({"deadline": found[0]["deadline"] * Fraction(job["deadline_s"]) / Fraction(job["latest_s"])})
    first, second = sorted(map(float, found[0].values()))[-1:-3:-1]
    near_one = any(abs(float(load) - 1) < 1e-6 for each in found for load in each.values())
    near_whole = any(abs(load - round(load)) < 1e-6 * load for load in map(float, one.values()))
    return first - second > 1e-6 * first and not near_one and not near_whole and max(one.values()) < MOST


def random_job(rng: random.Random, bytes_each: int) -> dict[str, Any]:
    """One job with walls here and there, drawn until rounding noise cannot change its answer.

    Three kinds, so that each fix comes up often: anything goes; only memory is short; only the deadline is.
    """
    devices = [name for name, card in facts.devices().items() if card.dense_flops and card.memory >= 40e9]
    kind = rng.choice(("any", "any", "memory", "deadline"))
    low, high = {"any": (0.15, 8), "memory": (1.05, 8), "deadline": (0.3, 0.95)}[kind]
    while True:
        need = {"step": log_uniform(rng, 0.15 if kind == "any" else 1.05, 8), "deadline": log_uniform(rng, low, high)}
        if kind == "deadline" or rng.random() < 0.5:
            need["latest"] = need["deadline"] * rng.uniform(1.1, 5)
        job = _job(
            log_uniform(rng, 3e8, 2e11),
            log_uniform(rng, 1e10, 2e13),
            rng.choice((1, 2, 4, 8, 16, 64)),
            rng.choice(devices),
            need,
            step_tokens=rng.choice((131_072, 1_000_000, 4_194_304)),
            reserve=rng.choice((0.0, 0.1, 0.2, 0.3, 0.45)),
            mfu=rng.choice((0.3, 0.35, 0.4, 0.5)),
            sharded=rng.random() < (0.7 if kind == "deadline" else 0.3),
        )
        if _settled(job, bytes_each):
            return job


def exact_jobs(bytes_each: int) -> list[dict[str, Any]]:
    """Jobs whose state fits to the last byte, on the GPUs that they have or on twice as many, and a little larger ones."""
    card = float(facts.device("H100 SXM").memory)
    size = card / bytes_each
    return [
        _job(
            size * n * times + excess,
            1e11,
            n,
            "H100 SXM",
            {"step": 4.0, "deadline": 4.0},
            reserve=0.0,
            gpu_memory=card,
            sharded=sharded,
        )
        for sharded, excess in ((True, 0), (False, 0), (True, 1024))
        for n in (1, 2, 8, 64)
        for times in (1, 2)
        if (size * n).is_integer()
    ] + [
        # Powers of two: a step and a deadline kept to the last digit, in whatever order one multiplies.
        _job(2.0**30, 2.0**35, 4, "H100 SXM", {}, mfu=0.5, step_tokens=2**20, dense_flops=6 * 2.0**40, **limits)
        for limits in (
            {"step_s": 512.0, "deadline_s": 2.0**24},
            {"step_s": 512.0, "deadline_s": 2.0**23, "latest_s": 2.0**24},
            {"step_s": 256.0, "deadline_s": 2.0**24},
        )
    ]


def _likewise(params: Params, rng: random.Random) -> list[Job]:
    """The five jobs with a few parameters more or fewer, which hit the same walls and want the same fixes."""
    bytes_each, shown = params["bytes_per_param"], shown_jobs(params)
    wanted = [solve(job, bytes_each)[:2] for job in shown]
    while True:
        jobs = [{**job, "params": float(f"{job['params'] * rng.uniform(0.95, 1.05):.4g}")} for job in shown]
        if [solve(job, bytes_each)[:2] for job in jobs] == wanted and all(_settled(job, bytes_each) for job in jobs):
            return jobs


def _cases(params: Params, rng: random.Random) -> list[Case]:
    bytes_each = params["bytes_per_param"]
    edges = exact_jobs(bytes_each)
    edges.append(
        _job(2e10, 1e11, 64, "H100 SXM", {"step": 2, "deadline": 0.6, "latest": 1.5})
    )  # two fixes at once would do
    mixed = [(random_job(rng, bytes_each),) for _ in range(185 - len(edges))]
    mixed += one_apart(mixed[:12], lambda job: solve(job, bytes_each), lambda job: _settled(job, bytes_each))
    mixed += [(job,) for job in edges]
    mixed += [(random_job(rng, bytes_each),) for _ in range(200 - len(mixed))]
    rng.shuffle(mixed)
    return [
        Case(name="five jobs", args=(0, [(job,) for job in shown_jobs(params)])),
        plain("", 0, "five more of the same kinds", [(job,) for job in _likewise(params, rng)]),
        unseen(rng, "", 0, "100 unseen jobs", mixed[:100]),
        unseen(rng, "", 0, "100 more", mixed[100:]),
    ]


# --- verdicts ----------------------------------------------------------------------------------------


def _read(answer: Sequence[Any]) -> tuple[str, str, float]:
    """(wall, fix, GPUs) with the words in lower case; None counts as the wall that is not there."""
    wall, fix, gpus = answer
    return "none" if wall is None else wall.strip().lower(), fix.strip().lower(), gpus


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    jobs, bytes_each = [row[0] for row in case.args[1]], params["bytes_per_param"]
    got, right = list(map(_read, outcome.value)), [_read(solve(job, bytes_each)) for job in jobs]
    known = {each: [_read(each.on(job, bytes_each)) for job in jobs] for each in MISTAKES} if got != right else {}
    places = {"wall": slice(0, 1), "fix": slice(1, 3)}
    return [verdict(case.kind, part, case, _fault(place, jobs, got, right, known)) for part, place in places.items()]


def _fault(
    place: slice,
    jobs: Sequence[Job],
    got: Sequence[tuple[Any, ...]],
    right: Sequence[tuple[Any, ...]],
    known: Mapping[Mistake, Sequence[tuple[Any, ...]]],
) -> Fault | None:
    """What is wrong with the wall, or with fix and GPUs; a mistake is named if it explains all jobs of the case."""
    wrong = [at for at, want in enumerate(right) if got[at][place] != want[place]]
    if not wrong:
        return None
    said = " with ".join(repr(each) if type(each) is str else gpus_text(each) for each in got[wrong[0]][place])
    lead = f"wrong for {len(wrong)} of {len(jobs)} jobs, such as {job_words(jobs[wrong[0]])}: got {said}. "
    for mistake, answers in known.items():
        if all(answer[place] == mistaken[place] for answer, mistaken in zip(got, answers, strict=True)):
            return mistake.name, lead + mistake.message
    if len(set(got)) == 1:
        return "one-answer-for-all", lead + "The answer is the same for all jobs."
    if place.start and all(got[at][1] == right[at][1] for at in wrong):
        if all(got[at][2] == right[at][2] + 1 for at in wrong):
            return "one-too-many", lead + "One GPU fewer is enough; an exact fit counts."
        return "other-count", lead + "The fix is right, but the number of GPUs after it is not."
    return "", lead + "Print the three loads of this job before and after each fix."


JUDGING = Judging(
    shares={"values:wall": 0.2, "values:fix": 0.2, "generality:wall": 0.25, "generality:fix": 0.35},
    cases=_cases,
    verdicts=_verdicts,
    why="All three loads are proportional to the number of parameters, so a growing model meets the heaviest load first. Once "
    "the state is sharded every load falls as 1/GPUs, so more GPUs always help in this model, but they cost the most: "
    "sharding costs traffic, a later date costs time, and a GPU costs money every hour. A fix for the first wall alone is no "
    "fix when a second wall remains.",
    pytorch="`fully_shard` is the second fix (chapter 08); a bigger world size in `torchrun` is the fourth. This model omits "
    "what a step can hide and what sharding costs in traffic; chapters 06 to 13 add both.",
)

ANSWERS = r"""import math


# %% right: tries the fixes in order and counts up
def loads(job):
    state = 16 * job["params"] / (job["gpus"] if job["sharded"] else 1)
    speed = job["gpus"] * job["dense_flops"] * job["mfu"]
    return {
        "memory": state / (job["gpu_memory"] * (1 - job["reserve"])),
        "compute": 6 * job["params"] * job["step_tokens"] / speed / job["step_s"],
        "deadline": 6 * job["params"] * job["tokens"] / speed / job["deadline_s"],
    }


def first_wall(job):
    now = loads(job)
    heaviest = max(now, key=now.get)
    wall = heaviest if now[heaviest] > 1 else "none"
    options = [("nothing", job), ("shard state", {**job, "sharded": True})]
    if job["latest_s"] is not None:
        options.append(("longer deadline", {**job, "deadline_s": job["latest_s"]}))
    for fix, changed in options:
        if max(loads(changed).values()) <= 1:
            return wall, fix, job["gpus"]
    gpus = job["gpus"]
    while max(loads({**job, "sharded": True, "gpus": gpus}).values()) > 1:
        gpus += 1
    return wall, "more GPUs", gpus


# %% right: any variant
from course_lib import params

PER_PARAM = params("first-wall").bytes_per_param


def first_wall(job):
    n, p = job["gpus"], job["params"]
    rate = 6 * p / (job["dense_flops"] * job["mfu"])
    one = {
        "memory": PER_PARAM * p / (job["gpu_memory"] * (1 - job["reserve"])),
        "compute": rate * job["step_tokens"] / job["step_s"],
        "deadline": rate * job["tokens"] / job["deadline_s"],
    }
    now = {name: load / n for name, load in one.items()}
    kept = now if job["sharded"] else {**now, "memory": one["memory"]}
    wall = max(kept, key=kept.get) if max(kept.values()) > 1 else "none"
    later = job["deadline_s"] / job["latest_s"] if job["latest_s"] else 1
    if max(kept.values()) <= 1:
        return wall, "nothing", n
    if max(now.values()) <= 1:
        return wall, "shard state", n
    if max({**kept, "deadline": kept["deadline"] * later}.values()) <= 1:
        return wall, "longer deadline", n
    return wall, "more GPUs", math.ceil(max(one.values()))


# %% right: closed form, a list, the wall that is not there as None
def first_wall(job):
    usable = job["gpu_memory"] - job["reserve"] * job["gpu_memory"]
    n = job["gpus"]
    one_step = 6 * job["params"] * job["step_tokens"] / job["dense_flops"] / job["mfu"]
    one_run = one_step / job["step_tokens"] * job["tokens"]
    memory = job["params"] * 16 / usable
    compute, deadline = one_step / job["step_s"], one_run / job["deadline_s"]
    mine = memory / n if job["sharded"] else memory
    ranked = sorted([(mine, "memory"), (compute / n, "compute"), (deadline / n, "deadline")])
    wall = ranked[-1][1] if ranked[-1][0] > 1 else None
    time_fits = compute / n <= 1 and deadline / n <= 1
    if wall is None:
        return [None, "nothing", n]
    if time_fits and memory / n <= 1:
        return [wall, "shard state", n]
    later = job["latest_s"]
    if later and mine <= 1 and compute / n <= 1 and one_run / later / n <= 1:
        return [wall, "longer deadline", n]
    return [wall, "more GPUs", math.ceil(max(memory, compute, deadline))]


# %% wrong: sparse peak => values sparse-peak  from: tries the fixes in order and counts up
# ~ dense_flops ==> sparse_flops

# %% wrong: forgets the reserve for activations => generality no-reserve  from: tries the fixes in order and counts up
# ~ (job["gpu_memory"] * (1 - job["reserve"])) ==> job["gpu_memory"]

# %% wrong: memory of all GPUs although each holds a copy => values always-sharded  from: tries the fixes in order and counts up
# ~ (job["gpus"] if job["sharded"] else 1) ==> job["gpus"]

# %% wrong: a fix for the first wall only => values only-the-first-wall  from: tries the fixes in order and counts up
# ~ if max(loads(changed).values()) <= 1: ==> if loads(changed)[heaviest] <= 1:
# -     while max(loads({**job, "sharded": True, "gpus": gpus}).values()) > 1:
# +     while loads({**job, "sharded": True, "gpus": gpus})[heaviest] > 1:

# %% wrong: GPUs added, not GPUs in use => values gpus-added  from: tries the fixes in order and counts up
# ~ return wall, "more GPUs", gpus ==> return wall, "more GPUs", gpus - job["gpus"]

# %% wrong: an exact fit does not fit => generality -  from: tries the fixes in order and counts up
# ~ now[heaviest] > 1 ==> now[heaviest] >= 1
# ~ values()) <= 1 ==> values()) < 1
# ~ values()) > 1 ==> values()) >= 1

# %% wrong: memory is always the first wall => values one-answer-for-all  from: tries the fixes in order and counts up
# ~ now = loads(job) ==> return "memory", "more GPUs", 2 * job["gpus"] // job["gpus"] * 8

# %% wrong: words of its own => values no-such-word  from: tries the fixes in order and counts up
# ~ now = loads(job) ==> return "memory", "buy more", 8

# %% wrong: not a triple => values wrong-shape  from: tries the fixes in order and counts up
# ~ now = loads(job) ==> return "memory"

# %% half: the wall but never the fix => 4  from: tries the fixes in order and counts up
# ~ if max(loads(changed).values()) <= 1: ==> if True:

# %% wrong: always one GPU more than the whole part => generality one-too-many  from: tries the fixes in order and counts up
# ~ values()) > 1 ==> values()) >= 1

# %% wrong: a step that is exactly in time is late => generality -  from: tries the fixes in order and counts up
# ~ if max(loads(changed).values()) <= 1: ==> if max(loads(changed).values()) <= 1 and loads(changed)["compute"] < 1:
"""
