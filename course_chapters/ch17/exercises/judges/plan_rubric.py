import random
from typing import Any

from course_chapters.ch17.exercises.plan_rubric import LINES
from course_grader.judging import WHOLE, Case, Fault, Judging, Outcome, Params, Worked, Wrong, hidden, oracle, shown
from course_grader.judging.shipped import answers
from course_lib.estimate.units import DAY, GB, HOUR, TFLOP

right = Worked("plan-rubric")
Table = dict[str, Any]
Row = tuple[Table, Table]  # a plan and its task
NEAR = 0.05  # of claims
AXES = ("tp", "cp", "pp", "dp")


def numbers(plan: Table, task: Table) -> tuple[float, float, float]:
    tokens = task["sequences"] * task["seq"]
    days = task["tokens"] / tokens * plan["seconds"] / plan["goodput"] / DAY
    paid = plan if right.params["billed"] == "used" else task
    mfu = 6 * task["parameters"] * tokens / (plan["gpus"] * task["peak"] * plan["seconds"])
    return days, days * DAY / HOUR * paid["gpus"] * task["usd_per_hour"], mfu


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    rows = case.args[1]
    got = [[word.strip().lower() for word in each] for each in outcome.value]
    for at, (said, row) in enumerate(zip(got, rows, strict=True), 1):
        want, lead = right(*row), f"{case.name}, plan {at}: "
        if said == want:
            continue
        if sorted(said) == sorted(want):
            return "other-order", f"{lead}these are the right lines; return them in the order of the list."
        if len(rows) > 1 and all(each == got[0] for each in got):
            return "always-the-same", f"{case.name}: every plan fails the same lines here."
        odd = sorted(set(said) ^ set(want), key=LINES.index)
        return Wrong("", lead + (f"check the line {odd[0]!r}." if odd else "return each line once."), lead, WHOLE)
    return None


# --- plans

TASK = {
    "gpus": 64,
    "per_server": 8,
    "sequences": 512,
    "seq": 8192,
    "tokens": 120e9,
    "memory": 80 * GB,
    "days": 30.0,
    "usd": 90_000.0,
    "usd_per_hour": 2.0,
    "parameters": 70e9,
    "peak": 989 * TFLOP,
    "least_mfu": 0.3,
}
PLAN = {
    "gpus": 64,
    "tp": 8,
    "cp": 1,
    "pp": 2,
    "dp": 4,
    "micro": 1,
    "micro_batches": 128,
    "memory": 70 * GB,
    "seconds": 78.0,
    "goodput": 0.99,
    "reasons": {
        "tp": "a layer's activations do not fit on one GPU",
        "pp": "the state does not fit in one server",
        "dp": "the deadline",
    },
}


def _claimed(plan: Table, task: Table, days: float = 1.0, usd: float = 1.0) -> Row:
    """The plan with claims that are so many times the right ones."""
    found = numbers(plan, task)
    return {**plan, "days": found[0] * days, "usd": found[1] * usd}, dict(task)


def good(rng: random.Random) -> Row:
    """A plan that fails no line, and its task."""
    tp, cp, pp, dp = rng.choice(((8, 1, 2, 4), (4, 2, 1, 8), (2, 4, 2, 2), (8, 2, 3, 2), (4, 1, 6, 3), (8, 4, 8, 4)))
    gpus, micro, count = tp * cp * pp * dp, rng.choice((1, 2, 3)), rng.choice((8, 12, 32))
    plan: Table = {"gpus": gpus, "tp": tp, "cp": cp, "pp": pp, "dp": dp, "micro": micro, "micro_batches": count}
    plan |= {"seconds": rng.uniform(5, 90), "goodput": rng.choice((0.75, 0.875))}
    used = [axis for axis in AXES if plan[axis] > 1 or rng.random() < 0.3]  # a reason too many does no harm
    plan["reasons"] = {axis: rng.choice(("memory", "the deadline", "the slow wire")) for axis in used}
    per = rng.choice((4, 8)) if gpus % 8 == 0 else 4
    task = TASK | {
        "gpus": gpus + per * rng.choice((0, 4, 8)),
        "per_server": per,
        "sequences": dp * micro * count,
        "seq": rng.choice((4096, 8192)),
        "tokens": rng.randint(20, 300) * 1e9,
        "memory": rng.choice((80, 141, 192)) * GB,
        "usd_per_hour": rng.choice((1.5, 2.0, 3.25)),
        "parameters": 10**9 * rng.randint(5, 90),
    }
    days, usd, mfu = numbers(plan, task)
    plan["memory"] = task["memory"] * rng.uniform(0.5, 0.9)
    task |= {"days": days * rng.uniform(1.1, 1.3), "usd": usd * rng.uniform(1.1, 1.3)}
    task["peak"] *= mfu / rng.uniform(0.36, 0.5)
    return _claimed(plan, task, rng.uniform(0.97, 1.03), rng.uniform(0.97, 1.03))


def broken(rng: random.Random, *lines: str) -> Row:
    """A plan that fails these lines and no other."""
    while True:
        plan, task = good(rng)
        days, usd, mfu = numbers(plan, task)
        axis = rng.choice([each for each in AXES if plan[each] > 1])
        others = {each: reason for each, reason in plan["reasons"].items() if each != axis}
        fewer = {"gpus": plan["gpus"] - task["per_server"]}
        changes: dict[str, list[tuple[Table, Table]]] = {  # of the plan, of the task
            "degrees": [({"tp": 2 * plan["tp"]}, {}), ({}, {"per_server": 5}), ({}, fewer)],
            "batch": [({"micro_batches": plan["micro_batches"] + by}, {}) for by in (-1, 1, 4)],
            "memory": [({"memory": task["memory"] * rng.uniform(0.955, 0.995)}, {})],
            "deadline": [({}, {"days": days * rng.uniform(0.8, 0.98)})],
            "budget": [({}, {"usd": usd * rng.uniform(0.8, 0.98)})],
            "claims": [({name: plan[name] * by}, {}) for name in ("days", "usd") for by in (0.85, 1.15)],
            "waste": [({}, {"least_mfu": mfu * rng.uniform(1.05, 1.3)})],
            "reasons": [({"reasons": others | blank}, {}) for blank in ({}, {axis: ""}, {axis: "  "})],
        }
        for of_plan, of_task in (rng.choice(changes[line]) for line in lines):
            plan, task = {**plan, **of_plan}, {**task, **of_task}
        if right(plan, task) == [line for line in LINES if line in lines]:
            return plan, task


def telling(rng: random.Random, slip: str) -> Row:
    """A plan on which a shipped mistake gives other lines."""
    while True:
        plan, task = broken(rng, *rng.sample(LINES, rng.choice((0, 1, 1, 2, 3))))
        if slip in ("claimed days", "times goodput", "no goodput"):
            days = numbers(plan, task)[0]
            plan["days"], task["days"] = 0.93 * days, days * (0.9 if slip == "no goodput" else 0.97)
        if right.wrong(slip, plan, task) != right(plan, task):
            return plan, task


def _exact(by: float) -> list[Row]:
    """Plans that meet one bound exactly, or miss it by a little (`by` > 0).

    Days, dollars and MFU are exact in floating point, in the usual orders of evaluation; claims are not.
    """
    noise = 0.0 if by else 1e-9
    base = {**PLAN, "seconds": 64.0, "goodput": 0.5, "memory": 64 * GB}  # 128 s of the clock for a step
    task = TASK | {"tokens": 12_825 * 8192.0 * 512, "days": 40.0, "usd": 1e9, "least_mfu": 0.0}
    task |= {"parameters": 2.0**36, "peak": 2.0**50}
    days, usd, mfu = numbers(base, task)  # 19 days
    rows = [
        ({**base, "memory": 76 * GB + (by and 1)}, task),
        (base, {**task, "days": days * (1 - by)}),
        (base, {**task, "usd": usd * (1 - by)}),
        (base, {**task, "least_mfu": mfu * (1 + by)}),
    ]
    far = NEAR * (1 + by - noise)
    claims = [(1 + far, 1.0), (1 - far, 1.0), (1.0, 1 + far), (1.0, 1 - far), (1 + far, 1 - far)]
    return [_claimed(*row) for row in rows] + [_claimed(base, task, *each) for each in claims]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    plan, task = _claimed(PLAN, TASK)
    plausible = plan | {"memory": 78 * GB, "micro_batches": 120, "days": 0.8 * plan["days"]}, task
    slow = PLAN | {"tp": 16, "dp": 2, "micro_batches": 256, "seconds": 133.0, "memory": 45 * GB}
    wasteful = _claimed(slow, TASK | {"days": 60.0, "usd": 160_000.0})
    singles = [good(rng), *(broken(rng, line) for line in LINES)]
    several = [broken(rng, one, two) for at, one in enumerate(LINES) for two in LINES[at + 1 :]]
    slips = [each.name for each in answers("plan-rubric") if each.says and each.expected == "values"]
    traps = [telling(rng, slip) for slip in slips]
    for rows in (singles, several, traps):
        rng.shuffle(rows)
    return [
        shown("a good plan, a broken one, a wasteful one", "values:lines", 0, [(plan, task), plausible, wasteful]),
        hidden("plans that fail one line", "values:lines", 0, singles),
        hidden("what looks right", "values:traps", 0, traps),
        hidden("plans that fail several lines", "generality:several", 0, [*several, broken(rng, *LINES[1:])]),
        hidden("bounds that are met exactly", "generality:bounds", 0, _exact(0.0)),
        hidden("bounds that are missed by a little", "generality:bounds", 0, _exact(1e-6)),
    ]


JUDGING = Judging(
    shares="values:lines 0.25, values:traps 0.35, generality:several 0.25, generality:bounds 0.15",
    cases=_cases,
    verdicts=oracle(_fault),
    why="The plausible plan fails where plans usually fail: its memory leaves no reserve, its batch is not the task's, "
    "and its claims are a fifth too good. The wasteful plan breaks no bound of the others, and only its utilization "
    "gives it away. A rubric that you wrote before you chose a plan cannot be bent to fit it.",
    pytorch="torchtitan checks degrees and batch when a job starts; memory, deadline and budget are yours to check "
    "before it does.",
)

ANSWERS = r'''# %% right: worked
billed = params("plan-rubric").billed  # leave as is: who is paid: the GPUs "used", or "all" of the cluster's


def failing(plan: dict, task: dict) -> list[str]:
    """The lines that a plan fails, in order."""
    tokens, gpus = task["sequences"] * task["seq"], plan["gpus"]
    days = task["tokens"] / tokens * plan["seconds"] / plan["goodput"] / 86_400
    usd = days * 24 * task["usd_per_hour"] * (gpus if billed == "used" else task["gpus"])
    mfu = 6 * task["parameters"] * tokens / (gpus * task["peak"] * plan["seconds"])
    product = plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"]
    lines = {
        "degrees": product == gpus <= task["gpus"] and gpus % task["per_server"] == 0,
        "batch": plan["dp"] * plan["micro"] * plan["micro_batches"] == task["sequences"],
        "memory": plan["memory"] <= 0.95 * task["memory"],
        "deadline": days <= task["days"],
        "budget": usd <= task["usd"],
        "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd,
        "waste": mfu >= task["least_mfu"],
        "reasons": all(plan["reasons"].get(axis, "").strip() for axis in ("tp", "cp", "pp", "dp") if plan[axis] > 1),
    }
    return [line for line, holds in lines.items() if not holds]
# %% right: claims as ratios
# -         "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd,
# +         "claims": all(abs(plan[name] / own - 1) <= 0.05 for name, own in (("days", days), ("usd", usd))),
# %% wrong: every plan is good => values always-the-same
# ~ return [line for line, holds in lines.items() if not holds] ==> return []
# %% wrong: no goodput => values
# > the run takes longer than its steps: failures cost time.
# ~ / plan["goodput"] / 86_400 ==> / 86_400
# %% wrong: times goodput => values
# > a lower goodput makes the run longer.
# ~ / plan["goodput"] ==> * plan["goodput"]
# %% wrong: claimed days => values
# > claimed days are what you check; compute the days from the steps.
# ~ usd = days * 24 ==> usd = plan["days"] * 24
# ~ "deadline": days ==> "deadline": plan["days"]
# %% wrong: other bill => values
# > whose GPU-hours are paid?
# ~ billed == "used" ==> billed == "all"
# %% wrong: own batch => values
# > the steps of the run follow from the task's batch.
# ~ tokens, gpus = task["sequences"] ==> tokens, gpus = plan["dp"] * plan["micro"] * plan["micro_batches"]
# %% wrong: no reserve => values
# > 5 % of the memory stays in reserve.
# ~ 0.95 * task ==> task
# %% wrong: full fails => generality
# > memory at the bound holds.
# ~ plan["memory"] <= ==> plan["memory"] <
# %% wrong: cp counted => values
# > the ranks of a cp group share sequences.
# ~ "batch": plan["dp"] ==> "batch": plan["dp"] * plan["cp"]
# %% wrong: batch at most => values
# > a smaller batch is another training; it must be exactly the task's.
# ~ plan["micro_batches"] == ==> plan["micro_batches"] <=
# %% wrong: half servers => values
# > the GPUs are whole servers.
# ~ task["gpus"] and gpus % task["per_server"] == 0 ==> task["gpus"]
# %% wrong: too many => values
# > the cluster has only so many GPUs.
# ~ product == gpus <= task["gpus"] ==> product == gpus
# %% wrong: days alone => values
# > the claimed dollars must be near as well.
# ~ 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd ==> 0.05 * days
# %% wrong: either claim => values
# > both claims must be near.
# ~ 0.05 * days and ==> 0.05 * days or
# %% wrong: mfu of all => values
# > the MFU counts the GPUs that the plan uses.
# ~ (gpus * task["peak"] ==> (task["gpus"] * task["peak"]
# %% wrong: two flops => values
# > forward and backward are 6 FLOPs for each parameter and token.
# ~ mfu = 6 ==> mfu = 2
# %% wrong: a blank reason => values
# > a reason of blanks alone is none.
# ~ all(plan["reasons"].get(axis, "").strip() for ==> all(axis in plan["reasons"] for
# %% wrong: a reason for all axes => values
# > an axis that the plan does not use needs no reason.
# ~ ("tp", "cp", "pp", "dp") if plan[axis] > 1) ==> ("tp", "cp", "pp", "dp"))
# %% wrong: one reason is enough => values
# > each axis in use needs a reason of its own.
# ~ all(plan["reasons"] ==> any(plan["reasons"]
# %% wrong: first alone => values
# > a plan may fail several lines.
# ~ if not holds] ==> if not holds][:1]
# %% wrong: one GPU must stay free => values -
# ~ gpus <= task["gpus"] and gpus ==> gpus < task["gpus"] + (gpus == 64) and gpus
# %% wrong: a claim 4 % off is refused => generality -
# ~ 0.05 * days and abs(plan["usd"] - usd) <= 0.05 ==> 0.035 * days and abs(plan["usd"] - usd) <= 0.035
# %% wrong: a claim just beyond the bound holds => generality -
# ~ 0.05 * days and abs(plan["usd"] - usd) <= 0.05 ==> 0.051 * days and abs(plan["usd"] - usd) <= 0.051
'''
