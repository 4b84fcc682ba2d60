from collections.abc import Mapping, Sequence

from course_grader.judging import Fault, Judging, Params, Random, Worked, Wrong, describe, first, lost, verdict
from course_grader.judging.random_inputs import log_uniform, one_apart, plain, unseen
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate import facts
from course_lib.estimate.units import DAY, number_text

Job = Mapping[str, float]

_LIMITS = ("gpu_memory", "gpu_bandwidth", "deadline_s", "replica_qps")
_SCALED = ("params", "tokens", "qps", "mfu")
_PURPOSE = {"memory": "training", "deadline": "training", "latency": "serving", "traffic": "serving"}


right = Worked("triage-six")


def triage_walls(job: Job) -> list[str]:
    return right(job)[1]


def _settled(job: Job) -> bool:
    """Whether no rounding noise can change the walls: they stay if every limit moves by a millionth."""
    moved = ({**job, **{name: job[name] * factor for name in _LIMITS}} for factor in (1 + 1e-6, 1 - 1e-6))
    return all(triage_walls(each) == triage_walls(job) for each in moved)


def _project(params: float, card: facts.Device, mfu: float, **more: float) -> dict[str, float]:
    return {
        "params": params,
        "tokens": 0,
        "deadline_s": 30 * DAY,
        "gpu_memory": float(card.memory),
        "gpu_flops": float(card.dense_flops),
        "gpu_bandwidth": float(card.bandwidth),
        "mfu": mfu,
        "qps": 0,
        "replica_qps": 4.0,
        "user_tokens_s": 10.0,
        **more,
    }


def six_projects(params: Params) -> list[tuple[str, dict[str, float]]]:
    """Six projects in words and numbers, built so that each hits the walls that its name suggests."""
    card, mfu, small = facts.device(params["device"]), params["mfu"], params["params"]
    month = float(card.dense_flops) * mfu * 30 * DAY / 6  # parameters × tokens of one GPU in 30 days
    weekend = {"tokens": 0.02 * month / small, "deadline_s": 2 * DAY}
    return [
        ("tuning a small model over a weekend", _project(small, card, mfu, **weekend)),
        ("a state larger than the card", _project(13e9, card, mfu, tokens=0.5 * month / 13e9)),
        ("a small model on very many tokens", _project(small, card, mfu, tokens=20 * month / small)),
        ("a large model from scratch", _project(70e9, card, mfu, tokens=900 * month / 70e9)),
        ("a large model for a few users", _project(70e9, card, mfu, qps=0.5)),
        ("a small model for many users", _project(small, card, mfu, qps=90.0)),
    ]


def _likewise(params: Params, rng: Random) -> list[tuple[dict[str, float]]]:
    """The six projects with slightly smaller numbers, which hit the same walls."""
    shown = [job for _, job in six_projects(params)]

    def smaller(job: Job) -> dict[str, float]:
        return {**job, **{name: job[name] * round(rng.uniform(0.85, 0.99), 3) for name in _SCALED}}

    while True:
        jobs = list(map(smaller, shown))
        if [triage_walls(job) for job in jobs] == [triage_walls(job) for job in shown] and all(map(_settled, jobs)):
            return [(job,) for job in jobs]


def _triage_cases(params: Params, rng: Random) -> list[Case]:
    six = [(job,) for _, job in six_projects(params)]
    cards = [card for card in facts.devices().values() if card.get("dense_flops")]
    others: list[tuple[dict[str, float]]] = []
    while len(others) < 60:
        job = _project(
            log_uniform(rng, 1e8, 1e11),
            rng.choice(cards),
            rng.choice((0.05, 0.3, 0.5)),
            tokens=rng.choice((0, log_uniform(rng, 1e8, 1e13))),
            deadline_s=rng.choice((1, 7, 30, 90)) * DAY,
            qps=rng.choice((0, log_uniform(rng, 0.1, 300))),
            replica_qps=log_uniform(rng, 0.5, 100),
            user_tokens_s=log_uniform(rng, 1, 300),
        )
        if _settled(job):
            others.append((job,))
    others += one_apart(others, triage_walls, _settled)
    h100 = facts.device("H100 SXM")
    fits = float(h100.memory) / 16
    edges = [
        _project(fits, h100, 0.4, tokens=1e8),
        _project(fits + 1, h100, 0.4, tokens=1e8),
        _project(fits + 1, h100, 0.4, tokens=1),
        _project(float(h100.memory) / 2, h100, 0.4, qps=4.0, replica_qps=4.0, user_tokens_s=1.0),
        _project(fits * 100, h100, 0.4),  # neither trains nor serves
        _project(1e9, h100, 0.4, tokens=1e8, qps=5.0),
        # Powers of two: a deadline kept and a reader served to the last digit, in whatever order one multiplies.
        _project(2.0**30, h100, 0.5, tokens=2.0**35, gpu_flops=6 * 2.0**46, deadline_s=2.0**20),
        _project(2.0**33, h100, 0.4, qps=1.0, gpu_bandwidth=2.0**41, user_tokens_s=128.0),
        _project(2.0**33, h100, 0.4, qps=1.0, gpu_bandwidth=2.0**41, user_tokens_s=130.0),  # fits, and reads too slowly
    ]
    return [
        Case(name="six projects", args=(0, six)),
        plain("", 0, "six more of the same kinds", _likewise(params, rng)),
        unseen(rng, "walls", 0, "other projects", [*others, *((job,) for job in edges)]),
    ]


def _project_words(job: Job) -> str:
    uses = {
        "tokens": f"{number_text(job['tokens'])} tokens in {number_text(job['deadline_s'] / DAY)} days",
        "qps": f"{job['qps']:g} requests/s",
    }
    use = " and ".join(text for name, text in uses.items() if job[name])
    return f"{number_text(job['params'])} parameters, {use or 'neither trained nor served'}"


def _quoted(response: object) -> str:
    return repr(response) if type(response) is str and len(response) < 60 else describe(response)


def _fault(job: Job, answer: tuple[object, Sequence[str]]) -> Fault | None:
    response, walls = answer[0], [wall.strip().lower() for wall in answer[1]]
    (wanted, hit), lead = right(job), f"{_project_words(job)}: "
    if len(set(walls)) < len(walls):
        return "named-twice", f"{lead}a wall is listed twice; list each at most once."
    if walls == hit:
        if type(response) is str and response.strip().lower() == wanted.lower():
            return None
        return (
            "wrong-response",
            f"{lead}the walls are right, but {_quoted(response)} is not the response to the first.",
        )
    if sorted(walls) == sorted(hit):
        return "wrong-order", f"{lead}the walls are right, but not in the order of the questions."
    if not hit:
        return Wrong("needless", f"{lead}one GPU is enough; no wall is hit.", lead)
    if extra := [wall for wall in walls if wall not in hit]:
        asked = f"Is there any {_PURPOSE[extra[0]]}, and what is the limit?"
        return Wrong(f"not-{extra[0]}", f"{lead}the {extra[0]} wall is not hit. {asked}", lead)
    missing = next(wall for wall in hit if wall not in walls)
    return Wrong(f"missed-{missing}", f"{lead}a wall is missing. Check all four conditions for this project.", lead)


def _verdicts(_: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """One verdict on all answers of a case that has a part; on the six projects one on each group."""
    if len(set(map(repr, outcome.value))) == 1:
        return lost(case, JUDGING.split, ("one-answer-for-all", "All projects got the same answer."))
    faults = [_fault(row[0], answer) for row, answer in zip(case.args[1], outcome.value, strict=True)]
    six = {"none": faults[:1], "train": faults[1:4], "serve": faults[4:]}
    groups = {case.part: faults} if case.part else six
    return [verdict(case.kind, part, case, first(*group)) for part, group in groups.items()]


JUDGING = Judging(
    alike=lambda params: [triage_walls(job) for _, job in six_projects(params)],
    shares={"values:none": 0.15, "values:train": 0.2, "values:serve": 0.15, "generality:walls": 0.5},
    cases=_triage_cases,
    verdicts=_verdicts,
    why="Ask four independent questions of one GPU: does the state fit, is the training fast enough, does one replica "
    "answer one user fast enough, and all users? Each wall has its own response, and no response replaces "
    "another: more replicas never make a state fit. If no wall is hit, the right number of GPUs is one.",
    pytorch="In the order of the responses: `fully_shard`; `DistributedDataParallel`; tensor parallelism "
    "(`parallelize_module`); and more processes behind a load balancer, outside PyTorch.",
)

ANSWERS = r'''# %% right: worked
def triage(job: dict) -> tuple[str, list[str]]:
    """The first response, and every wall that one GPU hits, in order."""
    weights, trains, serves = 2 * job["params"], job["tokens"] > 0, job["qps"] > 0
    seconds = 6 * job["params"] * job["tokens"] / (job["gpu_flops"] * job["mfu"])
    slow = job["user_tokens_s"] * weights > job["gpu_bandwidth"]  # all weights are read once per token
    questions = {
        "memory": ("shard the state", trains and 16 * job["params"] > job["gpu_memory"]),
        "deadline": ("split the data", trains and seconds > job["deadline_s"]),
        "latency": ("split each replica", serves and (weights > job["gpu_memory"] or slow)),
        "traffic": ("replicate the server", serves and job["qps"] > job["replica_qps"]),
    }
    hit = [wall for wall, (_, is_hit) in questions.items() if is_hit]
    return questions[hit[0]][0] if hit else "stay on one GPU", hit
# %% right: walls as tuples, in capitals
# ~ (job["gpu_flops"] * job["mfu"]) ==> job["gpu_flops"] / job["mfu"]
# ~ job["user_tokens_s"] * weights > job["gpu_bandwidth"] ==> job["gpu_bandwidth"] / weights < job["user_tokens_s"]
# ~ job["qps"] > job["replica_qps"] ==> job["qps"] / job["replica_qps"] > 1
# ~ questions[hit[0]][0] if hit else "stay on one GPU", hit
# ~~ ==> [questions[hit[0]][0] if hit else "Stay on one GPU", tuple(hit)]
# %% wrong: always stay => values one-answer-for-all
# ~ if is_hit ==> if False
# %% wrong: only the first => values
# > more than one wall is hit; list them all.
# ~ is_hit] ==> is_hit][:1]
# %% wrong: state of a model that is only served => values not-memory
# > a model that is only served has no training state.
# ~ trains and 16 ==> 16
# %% wrong: at full speed => generality missed-deadline
# > a wall is missing: training reaches `mfu` of the peak, not all of it.
# ~ (job["gpu_flops"] * job["mfu"]) ==> job["gpu_flops"]
# %% wrong: reading the weights is forgotten => generality missed-latency
# > a wall is missing: weights that fit may still be read too slowly for a user.
# ~ weights > job["gpu_memory"] or slow ==> weights > job["gpu_memory"]
# %% wrong: weights that do not fit are forgotten => values missed-latency
# > a wall is missing: weights that do not fit hit it, even where they could be read fast enough.
# ~ weights > job["gpu_memory"] or slow ==> slow
# %% wrong: all requests share the bandwidth => generality not-latency
# > the latency wall is not hit: it is about one user, however many there are.
# ~ job["user_tokens_s"] * weights ==> job["qps"] * job["user_tokens_s"] * weights
# %% wrong: a deadline that is just kept is missed => generality needless
# > one GPU is enough; an exact fit is no wall.
# ~ seconds > ==> seconds >=
# %% wrong: a reader who is just served waits => generality not-latency
# > the latency wall is not hit; an exact fit is no wall.
# ~ weights > job["gpu_bandwidth"] ==> weights >= job["gpu_bandwidth"]
# %% wrong: every wall twice => values named-twice
# ~ "stay on one GPU", hit ==> "stay on one GPU", hit * 2
# %% wrong: the response to the last wall => values wrong-response
# ~ questions[hit[0]] ==> questions[hit[-1]]
# %% wrong: one word => values wrong-shape
# ~ "stay on one GPU", hit ==> "stay on one GPU"
# %% half: serving is not answered => 3.5
# ~ job["qps"] > 0 ==> False
'''
