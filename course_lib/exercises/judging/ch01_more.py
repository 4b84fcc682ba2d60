"""Judges of chapter 01's further exercises: imperfect scaling, the bug in an MFU, triage, a point of MFU."""

import math
import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts
from course_lib.exercises.ch01_more import RESPONSES, STAY
from course_lib.exercises.judging import Judging, Params, describe
from course_lib.exercises.judging.ch01_core import days_alone, log_uniform, unseen
from course_lib.exercises.judging.ch01_rows import EXACT, Column, Slip, columns, judge_column, pairs, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, HOUR, WEEK, money_text, number_text

# --- years-to-weeks ----------------------------------------------------------------------------------


def slowdown(law: str, keep: float, gpus: float) -> float:
    """The time on `gpus` GPUs as a fraction of the time on one."""
    if law == "doubling":
        return 1 / (gpus * keep ** math.log2(gpus))
    return (1 - keep) + keep / gpus


def _alone(p: float, d: float, f: float, m: float) -> float:
    """Weeks on one GPU."""
    return days_alone(p, d, f, m) * DAY / WEEK


def fewest_for(law: str, alone: float, keep: float, weeks: float) -> int | None:
    """The least number of GPUs that finish in time, by bisection on whole numbers; None if none does."""
    if law == "serial" and alone * (1 - keep) >= weeks:
        return None
    high = 1
    while alone * slowdown(law, keep, high) > weeks:
        high *= 2
    low = high // 2  # too few, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if alone * slowdown(law, keep, middle) <= weeks else (middle, high)
    return high


def _ideal(alone: float, weeks: float) -> int:
    return max(1, math.ceil(alone / weeks))


def _plan_columns(law: str) -> tuple[Column, Column]:
    def weeks_on(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> float:
        return _alone(p, d, f, m) * slowdown(law, k, n)

    def fewest(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> int:
        return fewest_for(law, _alone(p, d, f, m), k, w) or 0

    def one_pass(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> float:
        ideal = _ideal(_alone(p, d, f, m), w)
        return math.ceil(ideal * (slowdown(law, k, ideal) * ideal))

    def power_of_two(*row: float) -> float | None:
        right = fewest(*row)
        power = 2 ** math.ceil(math.log2(right)) if right else None
        return None if power == right else power

    def words(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> str:
        return f"{number_text(p)} parameters, {number_text(d)} tokens, keep {k:g}, {n} GPUs or {w:g} weeks"

    doubling = law == "doubling"
    return (
        Column(
            part="weeks", unit="weeks", want=weeks_on, words=words,
            slips=(
                Slip("perfect-scaling", lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n, "this is perfect scaling."),
                Slip("keep-once", lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n / k if doubling else None,
                     "the loss comes with every doubling, not once."),
                Slip("keep-per-gpu", lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n / max(k**n, 1e-300)
                     if doubling else None, "the loss comes with every doubling, not with every GPU."),
                Slip("speed-up", lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n * k ** math.log2(n)
                     if doubling else None, "the GPUs got faster; they lose speed with every doubling."),
                Slip("natural-logarithm", lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n / k ** math.log(n)
                     if doubling else None, "doublings are counted by a logarithm to base 2."),
                Slip("days", lambda *row: 7 * weeks_on(*row), "these are days."),
                Slip("one-gpu", lambda p, d, f, m, k, n, w: _alone(p, d, f, m), "this is the time on one GPU."),
            ),
        ),
        Column(
            part="gpus", unit="GPUs", want=fewest, words=words, rel=EXACT,
            slips=(
                Slip("perfect-scaling", lambda p, d, f, m, k, n, w: _ideal(_alone(p, d, f, m), w),
                     "this many suffice only with perfect scaling."),
                Slip("one-pass", one_pass, "these were corrected for the loss of the first guess; the added GPUs lose too."),
                Slip("power-of-two", power_of_two, "that is the next power of two; fewer finish in time."),
                Slip("one-too-many", lambda *row: fewest(*row) + 1, "one GPU fewer is in time too."),
                Slip("one-too-few", lambda *row: fewest(*row) - 1, "so few are late, if only a little."),
            ),
        ),
    )  # fmt: skip


def _plan_rows(law: str, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Runs whose GPU count stays the same when the deadline moves by a millionth."""
    rows: list[tuple[Any, ...]] = []
    while len(rows) < count:
        keep = rng.choice((0.9, 0.94, 0.97, 0.99, 1.0) if law == "doubling" else (0.99, 0.999, 0.9995, 1.0))
        p, d, f = log_uniform(rng, 1e9, 3e11), log_uniform(rng, 5e10, 2e13), rng.choice((312e12, 989e12, 2250e12))
        alone = _alone(p, d, f, 0.4)
        top = 3000 if law == "doubling" else min(3000, 0.8 / (1 - keep) if keep < 1 else 3000)
        weeks = float(f"{alone * slowdown(law, keep, log_uniform(rng, 1.2, top)):.4g}")
        rows.append((p, d, f, 0.4, keep, rng.choice((1, 2, 3, 24, 100, 1000, 4096)), weeks))
        if fewest_for(law, alone, keep, weeks * (1 + 1e-6)) != fewest_for(law, alone, keep, weeks * (1 - 1e-6)):
            rows.pop()
    return rows


def _plan_cases(params: Params, rng: random.Random) -> list[Case]:
    law = params["law"]
    names = ("params", "tokens", "flops", "mfu", "keep", "gpus", "weeks")
    easy = [(1e8, 1e9, 989e12, 0.4, 0.97, 1, 4), (1e9, 1e10, 989e12, 0.5, 0.999, 8, 1)]
    late = [(70e9, 15e12, 989e12, 0.4, 0.99, 1000, 26), (7e9, 2e12, 989e12, 0.5, 0.9, 64, 4)] if law == "serial" else []
    return [
        Case(name="the run", args=(0, [tuple(params[name] for name in names)])),
        unseen(rng, "", 0, "other runs", [*_plan_rows(law, rng, 24), *easy]),
        *([unseen(rng, "gpus", 0, "deadlines out of reach", late)] if late else []),
    ]


def _plan_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    law = params["law"]
    parts = [case.part] if case.part else ["weeks", "gpus"]
    got = table(outcome.value, case, "weeks", case.kind)
    if not isinstance(got, Verdict):
        got = pairs(got, "a pair (weeks, GPUs)", case, "weeks", case.kind)
    if isinstance(got, Verdict):
        return [Verdict(kind=case.kind, part=part, ok=False, case=case.name, mistake=got.mistake, message=got.message)
                for part in parts]  # fmt: skip
    weeks, gpus = _plan_columns(law)
    if case.part:  # no number of GPUs is enough for these
        bad = next((value for _, value in got if value is not None), None)
        return [Verdict(kind=case.kind, part="gpus", ok=bad is None, case=case.name, mistake="" if bad is None else "out-of-reach",
                        message="" if bad is None else f"{case.name}: no number of GPUs gets below the part of the time that "
                        f"never gets shorter, so the second value is None; got {describe(bad)}.")]  # fmt: skip
    return [judge_column(column, case, [row[i] for row in got], case.kind) for i, column in enumerate((weeks, gpus))]


YEARS_TO_WEEKS = Judging(
    shares={"values:weeks": 0.2, "values:gpus": 0.2, "generality:weeks": 0.25, "generality:gpus": 0.35},
    cases=_plan_cases,
    verdicts=_plan_verdicts,
    why="Speed-up is N × efficiency(N), not N. The inverse cannot be read off the one-GPU time, because the GPUs that make "
    "up for the loss lose speed themselves: search for the least N whose own time is short enough, or solve for N. With a "
    "loss per doubling the speed-up is N^(1 + log₂ keep), so more GPUs always help, at a falling rate; with a part that "
    "never gets shorter (Amdahl, 1967) the deadline itself may be out of reach.",
    pytorch="torchtitan logs tokens per second and MFU; plotted over the world size they give `keep` for your own cluster.",
)


# --- mfu-bug -----------------------------------------------------------------------------------------


def true_mfu(scope: str, p: float, seq: int, batch: int, steps: int, seconds: float, gpus: int, flops: float) -> float:
    """Model FLOPs utilisation of the whole run."""
    batches = batch if scope == "all" else batch * gpus
    return 6 * p * seq * batches * steps / seconds / (gpus * flops)


def _bug_column(scope: str) -> Column:
    def mfu(*row: float) -> float:
        return true_mfu(scope, *row)

    def printed(p: float, s: int, b: int, k: int, t: float, n: int, f: float) -> float | None:
        wrong = mfu(p, s, b, k, t, n, f) * (n if scope == "all" else 1 / n)
        return None if n == 1 else wrong

    return Column(
        part="mfu", unit="(a fraction of one)", want=mfu,
        words=lambda p, s, b, k, t, n, f: f"{number_text(p)} parameters, batch {b}, {n} GPUs",
        hint="The FLOPs of which GPUs, over the peak of which GPUs?",
        slips=(
            Slip("as-printed", printed, "this is still the published calculation: its tokens and its peak belong to different "
                 "numbers of GPUs."),
            Slip("twice-by-gpus", lambda *row: mfu(*row) / row[5] if row[5] > 1 and scope == "all" else None,
                 "the GPUs are in the denominator twice."),
            Slip("twice-by-gpus", lambda *row: mfu(*row) * row[5] if row[5] > 1 and scope == "each" else None,
                 "the GPUs are in the tokens twice, or nowhere in the peak."),
            Slip("percent", lambda *row: 100 * mfu(*row), "this is in per cent; give a fraction of one."),
            Slip("recompute-counted", lambda *row: mfu(*row) * 8 / 6,
                 "8 FLOP per parameter and token count the recomputation: that is the hardware utilisation, HFU."),
            Slip("forward-only", lambda *row: mfu(*row) / 3, "the backward pass is missing."),
            Slip("sparse-peak", lambda *row: mfu(*row) / 2, "the peak was right: `gpu_flops` is dense already."),
            Slip("one-step", lambda *row: mfu(*row) / row[3] if row[3] > 1 else None, "the tokens are those of one step."),
            Slip("one-sequence", lambda *row: mfu(*row) / row[2] if row[2] > 1 else None, "the batch is missing."),
        ),
    )  # fmt: skip


def _bug_cases(params: Params, rng: random.Random) -> list[Case]:
    names = ("params", "sequence", "batch", "steps")
    run = (*(params[name] for name in names), params["hours"] * HOUR, params["gpus"], params["flops"])
    others = [
        (log_uniform(rng, 1e8, 5e11), rng.choice((512, 2048, 8192, 131_072)), rng.choice((1, 3, 16, 48, 1024)),
         rng.choice((1, 10, 500, 100_000)), log_uniform(rng, 10, 1e7), rng.choice((2, 3, 8, 16, 512, 16_384)),
         rng.choice((125e12, 312e12, 989e12, 2250e12)))
        for _ in range(20)
    ]  # fmt: skip
    return [
        Case(name="the article's kind of run", args=(0, [run]), part="mfu"),
        unseen(rng, "mfu", 0, "other runs", [*others, (8e9, 8192, 4, 100, 3600.0, 1, 989e12)]),
    ]


def _bug_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return columns(_bug_column(params["scope"]))(params, case, outcome)


MFU_BUG = Judging(
    shares={"values:mfu": 0.4, "generality:mfu": 0.6},
    cases=_bug_cases,
    verdicts=_bug_verdicts,
    why="A utilisation compares what was done with what the same hardware could have done. The published calculation put the "
    "tokens of all GPUs over the peak of one, so its result was too large by the number of GPUs; with tokens of one GPU over "
    "the peak of all it would be too small by as much. The peak itself, often suspected, was right: dense and of one GPU. "
    "Quick test: with one GPU more at the same throughput, the MFU must fall.",
    pytorch="torchtitan divides by the peak of one device and by tokens per second *per device*; read which one a log means.",
)


# --- triage-six --------------------------------------------------------------------------------------

TRIAGE_WALLS = tuple(RESPONSES)


def triage_walls(job: Mapping[str, Any]) -> list[str]:
    """The walls that one GPU hits, in order."""
    weights = 2 * job["params"]
    trains, serves = job["tokens"] > 0, job["qps"] > 0
    hit = {
        "memory": trains and 16 * job["params"] > job["gpu_memory"],
        "deadline": trains and 6 * job["params"] * job["tokens"] > job["gpu_flops"] * job["mfu"] * job["deadline_s"],
        "latency": serves and (weights > job["gpu_memory"] or job["user_tokens_s"] * weights > job["gpu_bandwidth"]),
        "traffic": serves and job["qps"] > job["replica_qps"],
    }
    return [wall for wall in TRIAGE_WALLS if hit[wall]]


def _settled(job: Mapping[str, Any]) -> bool:
    """Whether no rounding noise can change the walls: they stay if every limit moves by a millionth."""
    moved = [
        {**job, **{name: job[name] * (1 + sign * 1e-6) for name in ("gpu_memory", "gpu_bandwidth", "deadline_s", "replica_qps")}}
        for sign in (1, -1)
    ]
    return all(triage_walls(each) == triage_walls(job) for each in moved)


def _project(params: float, card: facts.Device, mfu: float, **more: float) -> dict[str, Any]:
    return {
        "params": params, "tokens": 0, "deadline_s": 30 * DAY, "gpu_memory": float(card.memory),
        "gpu_flops": float(card.dense_flops), "gpu_bandwidth": float(card.bandwidth), "mfu": mfu, "qps": 0,
        "replica_qps": 4.0, "user_tokens_s": 10.0, **more,
    }  # fmt: skip


def six_projects(params: Params) -> list[tuple[str, dict[str, Any]]]:
    """Six projects in words and numbers, built so that each meets the walls it is named for."""
    card, mfu, small = facts.device(params["device"]), params["mfu"], params["params"]
    month = float(card.dense_flops) * mfu * 30 * DAY / 6  # parameters × tokens of one GPU in 30 days
    return [
        ("tuning a small model over a weekend", _project(small, card, mfu, tokens=0.02 * month / small, deadline_s=2 * DAY)),
        ("a state larger than the card", _project(13e9, card, mfu, tokens=0.5 * month / 13e9)),
        ("a small model on very many tokens", _project(small, card, mfu, tokens=20 * month / small)),
        ("a large model from scratch", _project(70e9, card, mfu, tokens=900 * month / 70e9)),
        ("a large model for a few readers", _project(70e9, card, mfu, qps=0.5)),
        ("a small model for a crowd", _project(small, card, mfu, qps=90.0)),
    ]


def _triage_cases(params: Params, rng: random.Random) -> list[Case]:
    six = [(job,) for _, job in six_projects(params)]
    cards = [card for card in facts.devices().values() if card.dense_flops]
    others: list[tuple[dict[str, Any]]] = []
    while len(others) < 60:
        job = _project(
            log_uniform(rng, 1e8, 1e11), rng.choice(cards), rng.choice((0.3, 0.4, 0.5)),
            tokens=rng.choice((0, log_uniform(rng, 1e8, 1e13))), deadline_s=rng.choice((1, 7, 30, 90)) * DAY,
            qps=rng.choice((0, log_uniform(rng, 0.1, 300))), replica_qps=log_uniform(rng, 0.5, 100),
            user_tokens_s=log_uniform(rng, 1, 300),
        )  # fmt: skip
        if _settled(job):
            others.append((job,))
    h100 = facts.device("H100 SXM")
    fits = float(h100.memory) / 16
    edges = [
        _project(fits, h100, 0.4, tokens=1e8),
        _project(fits + 1, h100, 0.4, tokens=1e8),
        _project(float(h100.memory) / 2, h100, 0.4, qps=4.0, replica_qps=4.0, user_tokens_s=1.0),
        _project(fits * 100, h100, 0.4),  # neither trains nor serves
        _project(1e9, h100, 0.4, tokens=1e8, qps=5.0),
    ]
    return [
        Case(name="six projects", args=(0, six)),
        unseen(rng, "walls", 0, "other projects", [*others, *((job,) for job in edges)]),
    ]


def _project_words(job: Mapping[str, Any]) -> str:
    use = [f"{number_text(job['tokens'])} tokens in {number_text(job['deadline_s'] / DAY)} days"] if job["tokens"] else []
    use += [f"{job['qps']:g} requests/s"] if job["qps"] else []
    return f"{number_text(job['params'])} parameters, {' and '.join(use) or 'neither trained nor served'}"


def _triage_fault(job: Mapping[str, Any], got: Any, lone: bool) -> tuple[str, str] | None:
    """(mistake, message) of one answer, None if it is right; `lone`: no answer of this case names two walls."""
    words = _project_words(job)
    if type(got) not in (tuple, list) or len(got) != 2:
        return "wrong-shape", f"{words}: return (response, walls); got {describe(got)}."
    response, walls = got
    if type(walls) not in (list, tuple):
        return "wrong-shape", f"{words}: the walls are a list, empty if there is none; got {describe(walls)}."
    if odd := [wall for wall in walls if type(wall) is not str or wall not in TRIAGE_WALLS]:
        return "no-such-wall", f"The walls are {', '.join(TRIAGE_WALLS)}; got {describe(odd[0])}."
    right = triage_walls(job)
    if list(walls) != right:
        if sorted(walls) == sorted(right):
            return "wrong-order", f"{words}: the right walls, not in the order of the questions."
        if lone and right and list(walls) == right[:1]:
            return "only-the-first", f"{words}: more walls than the first one are hit."
        if not right:
            return "needless", f"{words}: one GPU is enough, nothing here asks for a second."
        missing, extra = [w for w in right if w not in walls], [w for w in walls if w not in right]
        if extra:
            asked = {"memory": "training", "deadline": "training", "latency": "serving", "traffic": "serving"}[extra[0]]
            return f"not-{extra[0]}", f"{words}: the {extra[0]} wall is not hit. Is there any {asked}, and what is the limit?"
        return f"missed-{missing[0]}", f"{words}: a wall was missed. Ask all four questions of this project."
    want = RESPONSES[right[0]] if right else STAY
    if type(response) is not str or response.strip().lower() != want.lower():
        return "wrong-response", f"{words}: right walls; the response {describe(response)} does not answer the first of them."
    return None


def _triage_verdicts(_: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    parts = [case.part] if case.part else ["none", "train", "serve"]

    def verdict(part: str, fault: tuple[str, str] | None) -> Verdict:
        mistake, message = fault or ("", "")
        return Verdict(kind=case.kind, part=part, ok=not fault, mistake=mistake, message=message, case=case.name)

    got = table(outcome.value, case, parts[0], case.kind)
    if isinstance(got, Verdict):
        return [verdict(part, (got.mistake, got.message)) for part in parts]
    if len({repr(each) for each in got}) == 1:
        return [verdict(part, ("one-answer-for-all", "All projects got the same answer.")) for part in parts]
    named = [each[-1] for each in got if type(each) in (tuple, list) and each]
    lone = not any(len(walls) > 1 for walls in named if type(walls) in (tuple, list))
    faults = [_triage_fault(row[0], answer, lone) for row, answer in zip(case.args[1], got, strict=True)]
    if case.part:
        return [verdict(case.part, next(filter(None, faults), None))]
    groups = {"none": faults[:1], "train": faults[1:4], "serve": faults[4:]}
    return [verdict(part, next(filter(None, group), None)) for part, group in groups.items()]


TRIAGE_SIX = Judging(
    shares={"values:none": 0.15, "values:train": 0.2, "values:serve": 0.15, "generality:walls": 0.5},
    cases=_triage_cases,
    verdicts=_triage_verdicts,
    why="Four questions, asked of one GPU, each independent of the others: does the state fit, is it fast enough, does one "
    "replica answer one user fast enough, and all users? Each yes-it-hurts has its own response, and they do not replace one "
    "another: more replicas never make a state fit. Where all four are no, the right number of GPUs is one.",
    pytorch="In the order of the responses: `fully_shard`; `DistributedDataParallel`; tensor parallelism "
    "(`parallelize_module`); and more processes behind a load balancer, which PyTorch has no part in.",
)


# --- cost-sensitivity --------------------------------------------------------------------------------


def run_cost(p: float, d: float, f: float, price: float, u: float) -> float:
    """US dollars of the GPU-hours of a run."""
    return days_alone(p, d, f, u) * 24 * price


def _point_column(asked: str) -> Column:
    def point(p: float, d: float, f: float, c: float, u: float) -> float:
        return run_cost(p, d, f, c, u) - run_cost(p, d, f, c, u + 0.01)

    def slope(p: float, d: float, f: float, c: float, u: float) -> float:
        return run_cost(p, d, f, c, u) / u / 100

    want, other = (point, slope) if asked == "point" else (slope, point)
    told = {
        "point": "this is the slope. A whole point along, the cost has bent; take the difference of two costs.",
        "slope": "this is the difference over a whole point, not the derivative.",
    }
    return Column(
        part="saved", unit="US dollars", want=want,
        words=lambda p, d, f, c, u: f"{number_text(p)} parameters, {number_text(d)} tokens, {money_text(c)}/h, {100 * u:g} % MFU",
        slips=(
            Slip("slope" if asked == "point" else "difference", other, told[asked]),
            Slip("sign", lambda *row: -want(*row), "the sign is turned: a saving is positive."),
            Slip("per-unit", lambda *row: 100 * want(*row), "this is per whole unit of MFU; a point is a hundredth."),
            Slip("per-unit", lambda *row: 100 * slope(*row), "this is per whole unit of MFU; a point is a hundredth."),
            Slip("one-per-cent-of-cost", lambda *row: run_cost(*row) / 100,
                 "one per cent of the cost: that is what one per cent *more* MFU saves, not one percentage point."),
            Slip("point-below", lambda p, d, f, c, u: run_cost(p, d, f, c, u - 0.01) - run_cost(p, d, f, c, u)
                 if u > 0.01 else None, "that is the point below, which is worth more."),
            Slip("the-cost", run_cost, "this is the whole cost of the run."),
            Slip("seconds-as-hours", lambda *row: want(*row) * HOUR, "the price is per hour, the time in seconds."),
            Slip("days-as-hours", lambda *row: want(*row) / 24, "the price is per hour, the time in days."),
            Slip("percent-of-cost", lambda *row: want(*row) / run_cost(*row), "this is a share of the cost; give dollars."),
        ),
    )  # fmt: skip


def _point_cases(params: Params, rng: random.Random) -> list[Case]:
    run = tuple(params[name] for name in ("params", "tokens", "flops", "usd_per_hour", "mfu"))
    others = [
        (log_uniform(rng, 1e8, 1e12), log_uniform(rng, 1e10, 3e13), rng.choice((312e12, 989e12, 2250e12)),
         rng.choice((0.8, 1.99, 2, 3.5, 12.0)), round(rng.uniform(0.05, 0.9), 3))
        for _ in range(20)
    ]  # fmt: skip
    return [
        Case(name="the run", args=(0, [run]), part="saved"),
        unseen(rng, "saved", 0, "other runs", [*others, (1e9, 1e10, 989e12, 2.0, 0.02)]),
    ]


def _point_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return columns(_point_column(params["asked"]))(params, case, outcome)


COST_SENSITIVITY = Judging(
    shares={"values:saved": 0.4, "generality:saved": 0.6},
    cases=_point_cases,
    verdicts=_point_verdicts,
    why="Cost goes as 1/MFU and the number of GPUs cancels: half the GPUs for twice as long are the same GPU-hours. The slope "
    "is cost/MFU per unit, so a point is worth most where the MFU is low; one per cent more MFU is always worth one per cent "
    "of the cost (elasticity −1). A whole point is a little less than the slope says, because the curve bends.",
)

