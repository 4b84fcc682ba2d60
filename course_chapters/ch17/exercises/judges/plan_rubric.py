"""Judge of plan-rubric: a rubric that grades any plan."""

import random
from collections.abc import Mapping
from typing import Any

from course_chapters.ch17.exercises.plan_rubric import LINES
from course_grader.judging import Fault, Judging, Params, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.records import Case, Outcome
from course_lib.estimate.units import DAY, GB, HOUR, TFLOP

Table = Mapping[str, Any]
FULL, NEAR = 0.95, 0.05


def numbers(billed: str, plan: Table, task: Table, slip: str = "") -> tuple[float, float, float]:
    """Days, dollars and MFU of a plan; `slip` names a mistake to make."""
    sequences = plan["dp"] * plan["micro"] * plan["micro_batches"] if slip == "own-batch" else task["sequences"]
    tokens = sequences * task["seq"]
    days = task["tokens"] / tokens * plan["seconds"] / DAY
    if slip != "no-goodput":
        days = days * plan["goodput"] if slip == "times-goodput" else days / plan["goodput"]
    gpus = {"used": plan["gpus"], "all": task["gpus"]}[billed]
    if slip == "other-bill":
        gpus = {"used": task["gpus"], "all": plan["gpus"]}[billed]
    paid = plan["days"] if slip == "claimed-days" else days
    usd = paid * DAY / HOUR * gpus * task["usd_per_hour"]
    wide = task["gpus"] if slip == "mfu-of-all" else plan["gpus"]
    mfu = 6 * task["parameters"] * tokens / (wide * task["peak"] * plan["seconds"])
    return days, usd, mfu / 3 if slip == "two-flops" else mfu


def failing(billed: str, plan: Table, task: Table, slip: str = "") -> list[str]:
    """The lines that a plan fails."""
    days, usd, mfu = numbers(billed, plan, task, slip)
    gpus = plan["gpus"]
    degrees = plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"] == gpus
    if slip != "half-servers":
        degrees = degrees and gpus % task["per_server"] == 0
    if slip != "too-many":
        degrees = degrees and gpus <= task["gpus"]
    batch = plan["dp"] * plan["micro"] * plan["micro_batches"] * (plan["cp"] if slip == "cp-counted" else 1)
    limit = task["memory"] * (1 if slip == "no-reserve" else FULL)
    claims = [abs(plan["days"] / days - 1) <= NEAR, abs(plan["usd"] / usd - 1) <= NEAR]
    lines = {
        "degrees": degrees,
        "batch": batch <= task["sequences"] if slip == "batch-at-most" else batch == task["sequences"],
        "memory": plan["memory"] < limit if slip == "full-fails" else plan["memory"] <= limit,
        "deadline": (plan["days"] if slip == "claimed-days" else days) <= task["days"],
        "budget": usd <= task["usd"],
        "claims": {"days-alone": claims[0], "either-claim": any(claims)}.get(slip, all(claims)),
        "waste": mfu >= task["least_mfu"],
    }
    found = [line for line in LINES if not lines[line]]
    return found[:1] if slip == "first-alone" else found


SLIPS = {
    "no-goodput": "the run takes longer than its steps: failures cost time.",
    "times-goodput": "a lower goodput makes the run longer.",
    "claimed-days": "claimed days are what you check; compute the days from the steps.",
    "other-bill": "whose GPU-hours are paid?",
    "own-batch": "the steps of the run follow from the task's batch.",
    "no-reserve": "5 % of the memory stays in reserve.",
    "full-fails": "memory at the bound holds.",
    "cp-counted": "the ranks of a cp group share sequences.",
    "batch-at-most": "a smaller batch is another training; it must be exactly the task's.",
    "half-servers": "the GPUs are whole servers.",
    "too-many": "the cluster has only so many GPUs.",
    "days-alone": "the claimed dollars must be near as well.",
    "either-claim": "both claims must be near.",
    "mfu-of-all": "the MFU counts the GPUs that the plan uses.",
    "two-flops": "forward and backward are 6 FLOPs for each parameter and token.",
    "first-alone": "a plan may fail several lines.",
}


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    billed, rows = params["billed"], case.args[1]
    got = [[word.strip().lower() for word in each] for each in outcome.value]
    wants = [failing(billed, *row) for row in rows]
    for at, (said, want) in enumerate(zip(got, wants, strict=True)):
        if said == want:
            continue
        lead = f"{case.name}, plan {at + 1}: "
        if sorted(said) == sorted(want):
            return "other-order", f"{lead}these are the right lines; return them in the order of the list."
        for name, message in SLIPS.items():
            if all(each == failing(billed, plan, task, name) for each, (plan, task) in zip(got, rows, strict=True)):
                return name, lead + message
        if len(rows) > 1 and all(each == got[0] for each in got):
            return "always-the-same", f"{case.name}: every plan fails the same lines here."
        for name, message in SLIPS.items():
            if said == failing(billed, rows[at][0], rows[at][1], name):
                return name, lead + message
        odd = sorted(set(said) ^ set(want), key=LINES.index)
        return "", f"{lead}check the line {odd[0]!r}." if odd else f"{lead}return each line once."
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
}


def _claimed(billed: str, plan: Table, task: Table, days: float = 1.0, usd: float = 1.0) -> tuple[Table, Table]:
    """The plan with claims that are so many times the right ones."""
    right = numbers(billed, {**plan, "days": 0.0, "usd": 0.0}, task)
    return {**plan, "days": right[0] * days, "usd": right[1] * usd}, task


def good(billed: str, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plan that fails no line, and its task."""
    tp, cp, pp, dp = rng.choice(((8, 1, 2, 4), (4, 2, 1, 8), (2, 4, 2, 2), (8, 2, 3, 2), (4, 1, 6, 3), (8, 4, 8, 4)))
    gpus, micro, count = tp * cp * pp * dp, rng.choice((1, 2, 3)), rng.choice((8, 12, 32))
    plan: dict[str, float] = {
        "gpus": gpus,
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "dp": dp,
        "micro": micro,
        "micro_batches": count,
    }
    plan |= {"seconds": rng.uniform(5, 90), "goodput": rng.choice((0.75, 0.875))}
    per = rng.choice((4, 8)) if gpus % 8 == 0 else 4
    task = {
        **TASK,
        "gpus": gpus + per * rng.choice((0, 4, 8)),
        "per_server": per,
        "sequences": dp * micro * count,
        "seq": rng.choice((4096, 8192)),
    }
    task |= {
        "tokens": rng.randint(20, 300) * 1e9,
        "memory": rng.choice((80, 141, 192)) * GB,
        "usd_per_hour": rng.choice((1.5, 2.0, 3.25)),
    }
    plan["memory"] = task["memory"] * rng.uniform(0.5, 0.9)
    days, usd, _ = numbers(billed, {**plan, "days": 0.0}, task)
    task |= {"days": days * rng.uniform(1.1, 1.3), "usd": usd * rng.uniform(1.1, 1.3)}
    task["parameters"] = 10**9 * rng.randint(5, 90)
    _, _, mfu = numbers(billed, {**plan, "days": 0.0}, task)
    task["peak"] = task["peak"] * mfu / rng.uniform(0.36, 0.5)
    return tuple(map(dict, _claimed(billed, plan, task, rng.uniform(0.97, 1.03), rng.uniform(0.97, 1.03))))  # type: ignore[return-value]


def broken(billed: str, rng: random.Random, *lines: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plan that fails these lines and no other."""
    while True:
        plan, task = good(billed, rng)
        days, usd, mfu = numbers(billed, plan, task)
        for line in lines:
            if line == "degrees":
                way = rng.randrange(3)
                plan["tp"] *= 2 if way == 0 else 1
                task["per_server"] = 5 if way == 1 else task["per_server"]
                if way == 2:
                    task["gpus"] = plan["gpus"] - task["per_server"]
            elif line == "batch":
                plan["micro_batches"] += rng.choice((-1, 1, 4))
            elif line == "memory":
                plan["memory"] = task["memory"] * rng.uniform(0.955, 0.995)
            elif line == "deadline":
                task["days"] = days * rng.uniform(0.8, 0.98)
            elif line == "budget":
                task["usd"] = usd * rng.uniform(0.8, 0.98)
            elif line == "claims":
                name = rng.choice(("days", "usd"))
                plan[name] *= rng.choice((0.85, 1.15))
            elif line == "waste":
                task["least_mfu"] = mfu * rng.uniform(1.05, 1.3)
        if failing(billed, plan, task) == [line for line in LINES if line in lines]:
            return plan, task


def telling(billed: str, rng: random.Random, slip: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plan on which a mistake gives other lines."""
    while True:
        lines = rng.sample(LINES, rng.choice((0, 1, 1, 2, 3)))
        row = broken(billed, rng, *lines)
        if slip in ("claimed-days", "times-goodput", "no-goodput"):
            right = numbers(billed, *row)[0]
            row[1]["days"] = right * (0.9 if slip == "no-goodput" else 0.97)
            row[0]["days"] = 0.93 * right
        if failing(billed, *row, slip) != failing(billed, *row):
            return row


def _exact(billed: str, by: float) -> list[tuple[Any, Any]]:
    """Plans that meet one bound exactly, or miss it by a little (`by` > 0).

    Days, dollars and MFU are exact in floating point, in the usual orders of evaluation; claims are not, since 5 % is rounded.
    """
    noise = 0.0 if by else 1e-9
    base = {**PLAN, "seconds": 64.0, "goodput": 0.5, "memory": 64 * GB}  # 128 s of the clock for a step
    task = {
        **TASK,
        "seq": 8192,
        "sequences": 512,
        "tokens": 12_825 * 8192.0 * 512,
        "days": 40.0,
        "usd": 1e9,
        "least_mfu": 0.0,
        "parameters": 2.0**36,
        "peak": 2.0**50,
    }
    days = 12_825 * 128 / DAY  # 19 days
    usd = days * 24 * 64 * 2.0
    _, _, mfu = numbers(billed, {**base, "days": 0.0}, task)
    rows = [
        ({**base, "memory": 76 * GB + (by and 1)}, task),
        (base, {**task, "days": days * (1 - by)}),
        (base, {**task, "usd": usd * (1 - by)}),
        (base, {**task, "least_mfu": mfu * (1 + by)}),
    ]
    far = NEAR * (1 + by - noise)
    claims = [(1 + far, 1.0), (1 - far, 1.0), (1.0, 1 + far), (1.0, 1 - far)]
    return [_claimed(billed, *row) for row in rows] + [_claimed(billed, base, task, *each) for each in claims]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    billed = params["billed"]
    base = _claimed(billed, PLAN, TASK)
    plausible = ({**base[0], "memory": 78 * GB, "micro_batches": 120, "days": 0.8 * base[0]["days"]}, TASK)
    wasteful = _claimed(
        billed,
        {**PLAN, "tp": 16, "dp": 2, "micro_batches": 256, "seconds": 133.0, "memory": 45 * GB},
        {**TASK, "days": 60.0, "usd": 160_000.0},
    )
    singles = [broken(billed, rng, line) for line in LINES]
    pairs = [broken(billed, rng, one, two) for at, one in enumerate(LINES) for two in LINES[at + 1 :]]
    rng.shuffle(pairs)
    traps = [telling(billed, rng, slip) for slip in SLIPS if slip not in ("first-alone", "full-fails")]
    rng.shuffle(traps)
    order = [good(billed, rng), *singles]
    rng.shuffle(order)
    return [
        shown("a good plan, a broken one, a wasteful one", "values:lines", 0, [base, plausible, wasteful]),
        hidden("plans that fail one line", "values:lines", 0, order),
        hidden("what looks right", "values:traps", 0, traps),
        hidden("plans that fail several lines", "generality:several", 0, [*pairs, broken(billed, rng, *LINES[1:])]),
        hidden("bounds that are met exactly", "generality:bounds", 0, _exact(billed, 0.0)),
        hidden("bounds that are missed by a little", "generality:bounds", 0, _exact(billed, 1e-6)),
    ]


JUDGING = Judging(
    shares="values:lines 0.25, values:traps 0.35, generality:several 0.25, generality:bounds 0.15",
    cases=_cases,
    verdicts=oracle(_fault),
    why="The plausible plan fails where plans usually fail: its memory leaves no reserve, its batch is not the task's, and its claims are a fifth too good. "
    "The wasteful plan breaks no bound of the others, and only its utilization gives it away. A rubric that you wrote before you chose a plan cannot be bent to fit it.",
    pytorch="torchtitan checks degrees and batch when a job starts; memory, deadline and budget are yours to check before it does.",
)

ANSWERS = r"""# %% right: a dictionary of lines
def failing(plan, task):
    tokens = task["sequences"] * task["seq"]
    days = task["tokens"] / tokens * plan["seconds"] / plan["goodput"] / 86_400
    usd = days * 24 * plan["gpus"] * task["usd_per_hour"]
    mfu = 6 * task["parameters"] * tokens / (plan["gpus"] * task["peak"] * plan["seconds"])
    gpus = plan["gpus"]
    product = plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"]
    lines = {
        "degrees": product == gpus <= task["gpus"] and gpus % task["per_server"] == 0,
        "batch": plan["dp"] * plan["micro"] * plan["micro_batches"] == task["sequences"],
        "memory": plan["memory"] <= 0.95 * task["memory"],
        "deadline": days <= task["days"],
        "budget": usd <= task["usd"],
        "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd,
        "waste": mfu >= task["least_mfu"],
    }
    return [line for line, holds in lines.items() if not holds]


# %% right: any variant  from: a dictionary of lines
# - def failing(plan, task):
# + from course_lib import params
# + BILLED = params("plan-rubric").billed
# + def failing(plan, task):
# ~ days * 24 * plan["gpus"] ==> days * 24 * (plan if BILLED == "used" else task)["gpus"]
# ~ abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd ==> abs(plan["days"] / days - 1) <= 0.05 and abs(plan["usd"] / usd - 1) <= 0.05


# %% wrong: every plan is good => values always-the-same
def failing(plan, task):
    return []


# %% wrong: failures cost nothing => values no-goodput  from: a dictionary of lines
# ~ plan["goodput"] / 86_400 ==> 86_400

# %% wrong: goodput multiplied => values times-goodput  from: a dictionary of lines
# ~ "] / plan[" ==> "] * plan["

# %% wrong: claims are believed => values claimed-days  from: a dictionary of lines
# ~ usd = days * 24 ==> usd = plan["days"] * 24
# ~ "deadline": days <= task["days"], ==> "deadline": plan["days"] <= task["days"],

# %% wrong: no reserve => values no-reserve  from: a dictionary of lines
# ~ 0.95 * task ==> task

# %% wrong: full fails => generality full-fails  from: a dictionary of lines
# ~ ["memory"] <= 0.95 * task ==> ["memory"] < 0.95 * task

# %% wrong: a smaller batch is fine => values batch-at-most  from: a dictionary of lines
# ~ plan["micro_batches"] == task["sequences"] ==> plan["micro_batches"] <= task["sequences"]

# %% wrong: cp counts as samples => values cp-counted  from: a dictionary of lines
# ~ "micro" ==> "cp"] * plan["micro"

# %% wrong: half a server is fine => values half-servers  from: a dictionary of lines
# ~ ["gpus"] and gpus % task["per_server"] == 0, ==> ["gpus"],

# %% wrong: one near claim is enough => values either-claim  from: a dictionary of lines
# ~ days and abs ==> days or abs

# %% wrong: the cluster's utilization => values mfu-of-all  from: a dictionary of lines
# ~ mfu = 6 * task["parameters"] * tokens / (plan["gpus"] * task["peak"] * plan["seconds"]) ==> mfu = 6 * task["parameters"] * tokens / (task["gpus"] * task["peak"] * plan["seconds"])

# %% wrong: the first line alone => values first-alone  from: a dictionary of lines
# ~ [line for line, holds in lines.items() if not holds] ==> [line for line, holds in lines.items() if not holds][:1]

# %% wrong: everyone pays for everything => values other-bill unless billed=all  from: a dictionary of lines
# ~ 24 * plan["gpus"] ==> 24 * task["gpus"]

# %% wrong: one GPU must stay free => values -  from: a dictionary of lines
# ~ gpus <= task["gpus"] and gpus ==> gpus < task["gpus"] + (gpus == 64) and gpus

# %% wrong: a claim 4 % off is refused => generality -  from: a dictionary of lines
# ~ "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd, ==> "claims": abs(plan["days"] - days) <= 0.035 * days and abs(plan["usd"] - usd) <= 0.035 * usd,

# %% wrong: a claim just beyond the bound holds => generality -  from: a dictionary of lines
# ~ "claims": abs(plan["days"] - days) <= 0.05 * days and abs(plan["usd"] - usd) <= 0.05 * usd, ==> "claims": abs(plan["days"] - days) <= 0.051 * days and abs(plan["usd"] - usd) <= 0.051 * usd,
"""
