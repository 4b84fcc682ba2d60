"""Judge of the exercise on the first wall: random jobs, and a brute force in whole numbers that shares no library code."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from course_lib import facts
from course_lib.exercises.ch01.cards.walls import FIXES
from course_lib.judging import Judging, Params, describe
from course_lib.judging.draws import log_uniform, plain, unseen
from course_lib.judging.old_columns import gpus_text, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import bytes_text, number_text

Job = Mapping[str, Any]
Loads = dict[str, Fraction]
Answer = tuple[str, str, int]
WALLS = ("memory", "compute", "deadline")
MOST = 2_000  # GPUs that a drawn job may need at most, so that counting them one by one stays quick


def alone(job: Job, bytes_each: int, *, flops: str = "dense_flops", reserve: bool = True, mfu: bool = True) -> Loads:
    """The three loads of one GPU by itself, exactly. The keywords are slips: another peak, no reserve, no MFU."""
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
    **slip: Any,
) -> Answer:
    """(wall, fix, GPUs) by trying each fix and counting GPUs one by one. The keywords are slips."""
    one, gpus = alone(job, bytes_each, **slip), job["gpus"]
    before = spread(one, gpus, job["sharded"])
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


SLIPS: dict[str, tuple[dict[str, Any], str]] = {
    "sparse-peak": ({"flops": "sparse_flops"}, "that is what the sparse peak gives; training is dense."),
    "no-reserve": ({"reserve": False}, "the reserve for activations and buffers is not taken off the memory."),
    "always-sharded": ({}, "the state is counted as spread over the GPUs although each holds a copy."),
    "full-speed": ({"mfu": False}, "that is at 100 % of the peak; the job reaches `mfu` of it."),
    "only-the-first-wall": ({"only_first": True}, "the first wall is gone after this fix, another still stands."),
    "gpus-added": ({"added": True}, "`gpus` is how many are in use after the fix, not how many came on top."),
    "money-first": ({"order": ("nothing", "shard state", "more GPUs")}, "a later deadline is cheaper than more GPUs."),
    "never-shards": (
        {"order": ("nothing", "longer deadline", "more GPUs")},
        "sharding alone is cheaper and was not tried.",
    ),
}


def slipped(job: Job, bytes_each: int, name: str) -> Answer:
    """What a known slip answers for a job."""
    seen = {**job, "sharded": True} if name == "always-sharded" else job
    return solve(seen, bytes_each, **SLIPS[name][0])


# --- jobs --------------------------------------------------------------------------------------------


def job_words(job: Job) -> str:
    """A job in a few words, enough to find it again."""
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
    job["step_s"] = float(f"{float(taken['compute']) * need['step']:.4g}")
    job["deadline_s"] = float(f"{float(taken['deadline']) * need['deadline']:.4g}")
    if "latest" in need:
        job["latest_s"] = float(f"{float(taken['deadline']) * need['latest']:.4g}")
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
    while True:
        need = {"step": log_uniform(rng, 0.15 if kind == "any" else 1.05, 8)}
        need["deadline"] = log_uniform(
            rng, {"any": 0.15, "memory": 1.05, "deadline": 0.3}[kind], 0.95 if kind == "deadline" else 8
        )
        if kind == "deadline" or rng.random() < 0.5:
            need["latest"] = need["deadline"] * rng.uniform(1.1, 5)
        job = _job(
            log_uniform(rng, 3e8, 2e11),
            log_uniform(rng, 1e10, 2e13),
            rng.choice((1, 2, 4, 8, 16, 64)),
            rng.choice(devices),
            need,
            step_tokens=rng.choice((131_072, 1_000_000, 4_194_304)),
            reserve=rng.choice((0.0, 0.1, 0.2, 0.3)),
            mfu=rng.choice((0.3, 0.35, 0.4, 0.5)),
            sharded=rng.random() < (0.7 if kind == "deadline" else 0.3),
        )
        if _settled(job, bytes_each):
            return job


def exact_jobs(bytes_each: int) -> list[dict[str, Any]]:
    """Jobs whose state fits to the last byte, on one GPU, on eight, and one byte per parameter too large."""
    slack = {"step": 4.0, "deadline": 4.0}
    card = float(facts.device("H100 SXM").memory)
    fits = {"reserve": 0.0, "gpu_memory": card, "sharded": True}
    size = card / bytes_each
    whole = [n for n in (1, 2, 8, 64) if (size * n).is_integer()]
    return [
        *(_job(size * n, 1e11, n, "H100 SXM", slack, **fits) for n in whole),
        *(_job(size * n, 1e11, n, "H100 SXM", slack, **{**fits, "sharded": False}) for n in whole),
        *(_job(size * n + 1024, 1e11, n, "H100 SXM", slack, **fits) for n in whole),
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
    jobs = [random_job(rng, bytes_each) for _ in range(200 - len(edges))]
    mixed = [(job,) for job in (*jobs, *edges)]
    rng.shuffle(mixed)
    return [
        Case(name="five jobs", args=(0, [(job,) for job in shown_jobs(params)])),
        plain("", 0, "five more of the same kinds", [(job,) for job in _likewise(params, rng)]),
        unseen(rng, "", 0, "100 unseen jobs", mixed[:100]),
        unseen(rng, "", 0, "100 more", mixed[100:]),
    ]


# --- verdicts ----------------------------------------------------------------------------------------


def _word(value: Any) -> Any:
    """A name as the judge compares it: text in any case; None is accepted for the wall that is not there."""
    return "none" if value is None else value.strip().lower() if type(value) is str else value


def _shape(job: Job, got: Any) -> tuple[str, str] | None:
    """(mistake, message) if this is not (wall, fix, gpus)."""
    if type(got) not in (tuple, list) or len(got) != 3:
        return "wrong-shape", f"{job_words(job)}: return (wall, fix, gpus); got {describe(got)}."
    if _word(got[0]) not in (*WALLS, "none"):
        return "no-such-wall", f"The wall is one of {', '.join((*WALLS, 'none'))}; got {describe(got[0])}."
    if _word(got[1]) not in [fix.lower() for fix in FIXES]:
        return "no-such-fix", f"The fix is one of {', '.join(FIXES)}; got {describe(got[1])}."
    if type(got[2]) not in (int, float) or got[2] != got[2]:
        return "not-a-number", f"{job_words(job)}: the third value is a number of GPUs; got {describe(got[2])}."
    return None


def _same(got: Any, want: Answer, part: str) -> bool:
    if part == "wall":
        return _word(got[0]) == want[0]
    return _word(got[1]) == want[1].lower() and got[2] == want[2]


def _named(jobs: Sequence[Job], got: Sequence[Any], bytes_each: int, part: str) -> str:
    """The slip that gives the same answers for all of these jobs, "" if none does."""
    for name in SLIPS:
        if all(_same(answer, slipped(job, bytes_each, name), part) for job, answer in zip(jobs, got, strict=True)):
            return name
    return ""


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = table(outcome.value, case, "wall", case.kind)
    jobs = [row[0] for row in case.args[1]]
    bytes_each = params["bytes_per_param"]

    def verdict(part: str, mistake: str = "", message: str = "", ok: bool = False) -> Verdict:
        return Verdict(kind=case.kind, part=part, ok=ok, mistake=mistake, message=message, case=case.name)

    if isinstance(got, Verdict):
        return [verdict(part, got.mistake, got.message) for part in ("wall", "fix")]
    for job, answer in zip(jobs, got, strict=True):
        if odd := _shape(job, answer):
            return [verdict(part, *odd) for part in ("wall", "fix")]
    right = [solve(job, bytes_each) for job in jobs]
    return [_part_verdict(verdict, part, jobs, got, right, bytes_each) for part in ("wall", "fix")]


def _part_verdict(
    verdict: Callable[..., Verdict],
    part: str,
    jobs: Sequence[Job],
    got: Sequence[Any],
    right: Sequence[Answer],
    bytes_each: int,
) -> Verdict:
    wrong = [i for i, want in enumerate(right) if not _same(got[i], want, part)]
    if not wrong:
        return verdict(part, ok=True)
    job, answer = jobs[wrong[0]], got[wrong[0]]
    said = describe(answer[0]) if part == "wall" else f"{describe(answer[1])}, {describe(answer[2])} GPUs"
    lead = f"{len(wrong)} of {len(jobs)} jobs are off; one is {job_words(job)}: {said}. "
    name = _named(jobs, got, bytes_each, part)
    if name:
        return verdict(part, name, lead + SLIPS[name][1][0].upper() + SLIPS[name][1][1:])
    if len({repr(each) for each in got}) == 1:
        return verdict(part, "one-answer-for-all", lead + "All jobs got the same answer.")
    gpus_only = part == "fix" and all(_word(got[i][1]) == right[i][1].lower() for i in wrong)
    if gpus_only and all(got[i][2] == right[i][2] + 1 for i in wrong):
        return verdict(part, "one-too-many", lead + "One GPU fewer is enough; what fits exactly, fits.")
    if gpus_only:
        return verdict(part, "other-count", lead + "The fix is right, the number of GPUs after it is not.")
    return verdict(part, "", lead + "Print the three loads of this job before and after each fix.")


FIRST_WALL = Judging(
    shares={"values:wall": 0.2, "values:fix": 0.2, "generality:wall": 0.25, "generality:fix": 0.35},
    cases=_cases,
    verdicts=_verdicts,
    why="All three loads are proportional to the number of parameters, so the heaviest load is the wall that a growing model "
    "meets first. Once the state is sharded every load falls as 1/GPUs, so more GPUs always help in this model, but they "
    "are the dearest way: sharding costs traffic, a later date costs patience, a GPU costs money every hour. A fix for the "
    "first wall alone is no fix when a second one stands behind it.",
    pytorch="`fully_shard` is the second fix (chapter 08); a bigger world size in `torchrun` is the fourth. What a step can "
    "hide and what sharding costs in traffic is left out here and comes back in chapters 06 to 13.",
)
