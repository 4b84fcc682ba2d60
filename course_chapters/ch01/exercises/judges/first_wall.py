import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, Wrong, gpus_text, verdict
from course_grader.judging.random_inputs import log_uniform, one_apart, plain, unseen
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, number_text

Job = Mapping[str, Any]
Read = tuple[str | float, ...]  # wall, fix, GPUs
MOST = 2_000  # GPUs that a drawn job may need at most, so that counting them one by one stays quick


right = Worked("first-wall")


def job_words(job: Job) -> str:
    return (
        f"{number_text(job['params'])} parameters on {gpus_text(job['gpus'])} of {bytes_text(job['gpu_memory'])}"
        f"{', sharded' if job['sharded'] else ''}, {number_text(job['tokens'])} tokens"
    )


def _job(
    params: float, tokens: float, gpus: int, device: str, need: Mapping[str, float], **more: float
) -> dict[str, object]:
    """A job whose step and deadline are `need` times what the run takes: 2 is slack, 0.5 a wall with load 2."""
    card = facts.device(device)
    job: dict[str, float] = {
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
        "sharded": False,
        **more,
    }
    per_token = 6 * params / (gpus * job["dense_flops"] * job["mfu"])
    for limit, count in (("step", job["step_tokens"]), ("deadline", tokens), ("latest", tokens)):
        if limit in need:
            job[f"{limit}_s"] = float(f"{per_token * count * need[limit]:.4g}")
    return {"latest_s": None, **job}


def shown_jobs(params: Params) -> list[Job]:
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


def _settled(job: Job) -> bool:
    """Whether rounding noise can change nothing: not when any limit moves by a millionth."""
    limits = [name for name in ("gpu_memory", "step_s", "deadline_s", "latest_s") if job[name]]
    moved = ({**job, name: job[name] * factor} for name in limits for factor in (1 + 1e-6, 1 - 1e-6))
    needed = right({**job, "gpus": 1, "sharded": True, "latest_s": None})[2]
    return needed <= MOST and all(right(each) == right(job) for each in moved)


def random_job(rng: random.Random) -> dict[str, object]:
    """One job with walls here and there, drawn until rounding noise cannot change its answer.

    Three kinds, so that each fix comes up often: anything goes; only memory is short; only the deadline is.
    """
    devices = [name for name, card in facts.devices().items() if card.get("dense_flops") and card.memory >= 40e9]
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
        if _settled(job):
            return job


def exact_jobs(bytes_each: int) -> list[dict[str, object]]:
    """Jobs whose state fits to the last byte, on the GPUs that they have or on twice as many, and a little larger
    ones."""
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
    shown = shown_jobs(params)
    wanted = [right(job)[:2] for job in shown]
    while True:
        jobs: list[Job] = [{**job, "params": float(f"{job['params'] * rng.uniform(0.95, 1.05):.4g}")} for job in shown]
        if [right(job)[:2] for job in jobs] == wanted and all(map(_settled, jobs)):
            return jobs


def _cases(params: Params, rng: random.Random) -> list[Case]:
    edges = exact_jobs(params["bytes_per_param"])
    edges.append(
        _job(2e10, 1e11, 64, "H100 SXM", {"step": 2, "deadline": 0.6, "latest": 1.5})
    )  # two fixes at once would do
    mixed = [(random_job(rng),) for _ in range(185 - len(edges))]
    mixed += one_apart(mixed[:12], right, _settled)
    mixed += [(job,) for job in edges]
    mixed += [(random_job(rng),) for _ in range(200 - len(mixed))]
    rng.shuffle(mixed)
    return [
        Case(name="five jobs", args=(0, [(job,) for job in shown_jobs(params)])),
        plain("", 0, "five more of the same kinds", [(job,) for job in _likewise(params, rng)]),
        unseen(rng, "", 0, "100 unseen jobs", mixed[:100]),
        unseen(rng, "", 0, "100 more", mixed[100:]),
    ]


def _read(answer: tuple[str | None, str, float]) -> Read:
    """The same with the words in lower case; None counts as the wall that is not there."""
    wall, fix, gpus = answer
    return "none" if wall is None else wall.strip().lower(), fix.strip().lower(), gpus


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    jobs, got = [row[0] for row in case.args[1]], list(map(_read, outcome.value))
    want = [_read(right(job)) for job in jobs]
    places = {"wall": slice(0, 1), "fix": slice(1, 3)}
    return [verdict(case.kind, part, case, _fault(place, jobs, got, want)) for part, place in places.items()]


def _fault(place: slice, jobs: Sequence[Job], got: Sequence[Read], want: Sequence[Read]) -> Fault | None:
    wrong = [at for at, each in enumerate(want) if got[at][place] != each[place]]
    if not wrong:
        return None
    said = " with ".join(repr(each) if isinstance(each, str) else gpus_text(each) for each in got[wrong[0]][place])
    lead = f"wrong for {len(wrong)} of {len(jobs)} jobs, such as {job_words(jobs[wrong[0]])}: got {said}. "
    if len(set(got)) == 1:
        return "one-answer-for-all", lead + "The answer is the same for all jobs."
    if all(got[at][:2] == want[at][:2] for at in wrong):
        return Wrong("other-count", lead + "The fix is right, but the number of GPUs after it is not.", lead, (2,))
    return Wrong("", lead + "Print the three loads of this job before and after each fix.", lead, (place.start,))


JUDGING = Judging(
    shares={"values:wall": 0.2, "values:fix": 0.2, "generality:wall": 0.25, "generality:fix": 0.35},
    cases=_cases,
    verdicts=_verdicts,
    why="All three loads are proportional to the number of parameters, so a growing model meets the heaviest load "
    "first. Once the state is sharded every load falls as 1/GPUs, so more GPUs always help in this model, but "
    "they cost the most: sharding costs traffic, a later date costs time, and a GPU costs money every hour. A fix "
    "for the first wall alone is no fix when a second wall remains.",
    pytorch="`fully_shard` is the second fix (chapter 08); a bigger world size in `torchrun` is the fourth. This "
    "model omits what a step can hide and what sharding costs in traffic; chapters 06 to 13 add both.",
)

ANSWERS = r'''# %% right: worked
per_param = params("first-wall").bytes_per_param  # leave as is: bytes of state, of your variant


def first_wall(job: dict) -> tuple[str, str, int]:
    """The heaviest wall ("none" without one), the cheapest fix that leaves no wall, and the GPUs after it."""

    def loads(job: dict) -> dict[str, float]:
        state = per_param * job["params"] / (job["gpus"] if job["sharded"] else 1)
        needed = 6 * job["params"] / (job["gpus"] * job["dense_flops"] * job["mfu"])  # seconds per token
        return {
            "memory": state / (job["gpu_memory"] * (1 - job["reserve"])),
            "compute": needed * job["step_tokens"] / job["step_s"],
            "deadline": needed * job["tokens"] / job["deadline_s"],
        }

    now, sharded = loads(job), {**job, "sharded": True}
    wall = max(now, key=now.get) if max(now.values()) > 1 else "none"
    later = {**job, "deadline_s": job["latest_s"] or job["deadline_s"]}
    for fix, changed in (("nothing", job), ("shard state", sharded), ("longer deadline", later)):
        if max(loads(changed).values()) <= 1:
            return wall, fix, job["gpus"]
    alone = max(loads({**sharded, "gpus": 1}).values())  # sharded, every load falls as 1/GPUs
    return wall, "more GPUs", max(job["gpus"], math.ceil(alone * (1 - 1e-12)))
# %% right: counts up
# -     alone = max(loads({**sharded, "gpus": 1}).values())  # sharded, every load falls as 1/GPUs
# -     return wall, "more GPUs", max(job["gpus"], math.ceil(alone * (1 - 1e-12)))
# +     gpus = job["gpus"]
# +     while max(loads({**sharded, "gpus": gpus}).values()) > 1:
# +         gpus += 1
# +     return wall, "more GPUs", gpus
# %% right: in another order, lists, the wall that is not there as None
# ~ per_param * job["params"] / (job["gpus"] if job["sharded"] else 1) ==> job["params"] / (job["gpus"] if
# ~~ job["sharded"] else 1) * per_param
# ~ (job["gpus"] * job["dense_flops"] * job["mfu"]) ==> job["gpus"] / job["dense_flops"] / job["mfu"]
# ~ * (1 - job["reserve"]) ==> - job["reserve"] * job["gpu_memory"]
# ~ else "none" ==> else None
# ~ wall, fix, job["gpus"] ==> [wall, fix, job["gpus"]]
# %% wrong: sparse peak => values
# > This uses the sparse peak; training is dense.
# ~ dense_flops ==> sparse_flops
# %% wrong: full speed => values
# > This assumes 100 % of the peak; the job reaches `mfu`.
# ~ job["dense_flops"] * job["mfu"] ==> job["dense_flops"]
# %% wrong: no reserve => generality
# > The reserve was not subtracted from the memory.
# ~ (job["gpu_memory"] * (1 - job["reserve"])) ==> job["gpu_memory"]
# %% wrong: always sharded => values
# > This assumes a sharded state; each GPU holds a copy.
# ~ (job["gpus"] if job["sharded"] else 1) ==> job["gpus"]
# %% wrong: only the first wall => values
# > This removes the first wall; another remains.
# ~ max(loads(changed).values()) <= 1 ==> loads(changed).get(wall, 0) <= 1
# ~ max(loads({**sharded, "gpus": 1}).values()) ==> loads({**sharded, "gpus": 1})[wall]
# %% wrong: money first => values
# > A later deadline is cheaper than more GPUs.
# ~ ("shard state", sharded), ("longer deadline", later) ==> ("shard state", sharded)
# %% wrong: never shards => values
# > Sharding alone is cheaper and was not tried.
# ~ ("shard state", sharded), ==>
# %% wrong: two fixes at once => values
# > With more GPUs the deadline stays as it was.
# ~ {**sharded, "gpus": 1} ==> {**later, "sharded": True, "gpus": 1}
# %% wrong: shards and waits => generality
# > The longer deadline was tried with a sharded state as well; each fix must leave no wall by itself.
# ~ later = {**job, ==> later = {**sharded,
# %% wrong: the first load above 1 => values
# > This names the first load above 1; name the heaviest one.
# ~ max(now, key=now.get) if max(now.values()) > 1 else "none" ==> next((name for name in now if now[name] > 1), "none")
# %% wrong: gpus added => values
# > Return all GPUs in use after the fix, not only the added ones.
# ~ math.ceil(alone * (1 - 1e-12))) ==> math.ceil(alone * (1 - 1e-12))) - job["gpus"]
# %% wrong: always one GPU more => values one-too-many
# > One GPU fewer is enough.
# ~ math.ceil(alone * (1 - 1e-12)) ==> math.ceil(alone) + 1
# %% wrong: one GPU more than the whole part => generality one-too-many
# > One GPU fewer is enough; an exact fit counts.
# ~ math.ceil(alone * (1 - 1e-12)) ==> int(alone) + 1
# %% wrong: an exact fit does not fit => generality
# > A load of exactly 1 still fits.
# ~ max(now.values()) > 1 ==> max(now.values()) >= 1
# ~ values()) <= 1 ==> values()) < 1
# ~ math.ceil(alone * (1 - 1e-12)) ==> int(alone) + 1
# %% wrong: a step that is exactly in time is late => generality an-exact-fit-does-not-fit
# ~ if max(loads(changed).values()) <= 1: ==> if max(loads(changed).values()) <= 1 and loads(changed)["compute"] < 1:
# %% wrong: memory is always the first wall => values one-answer-for-all
# ~ now, sharded = loads(job), {**job, "sharded": True} ==> return "memory", "more GPUs", 8
# %% wrong: words of its own => values no-such-word
# ~ now, sharded = loads(job), {**job, "sharded": True} ==> return "memory", "buy more", 8
# %% wrong: not a triple => values wrong-shape
# ~ now, sharded = loads(job), {**job, "sharded": True} ==> return "memory"
# %% half: the wall but never the fix => 4
# ~ max(loads(changed).values()) <= 1 ==> True
'''
