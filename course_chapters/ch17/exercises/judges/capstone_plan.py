"""Judge of capstone-plan: capstone: plan the run, defend it, survive a change."""

from typing import Any

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.judging import Fault, Judging, Params, describe, is_number, near, verdict
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import BILLION, GB
from course_lib.operate.capstone.plans import PROBLEMS, Assessed, assess
from course_lib.operate.capstone.task import Task, changed
from course_lib.parallel.planner.advice import CAUSES

CLOSE = 0.05  # relative: of a defended number
DEGREES = ("tp", "cp", "pp", "dp", "microbatches", "virtual")
WORDS = ("none", "selective", "full")
MOST = 100_000  # of a degree; nothing larger can run
FAILS = {
    "devices": "wrong-devices",
    "layout": "does-not-divide",
    "batch": "other-batch",
    "tokens": "too-few-tokens",
    "memory": "does-not-fit",
    "deadline": "too-late",
    "budget": "too-dear",
}


def task_of(params: Params, after: bool) -> Task:
    """The task of a variant, or what the change leaves of it."""
    names = ("model", "cluster", "seq", "sequences", "days", "usd")
    plain = Task(tokens=params["billions"] * BILLION, **{name: params[name] for name in names})
    return changed(plain, params["change"]) if after else plain


def _plan_fault(plan: Any, lead: str) -> Fault | None:
    """What keeps a value from being a plan."""
    if type(plan) is not dict or not plan:
        return "not-a-plan", f"{lead}a plan is a dictionary such as {{'tp': 2, 'dp': 4}}; got {describe(plan)}."
    known = (*DEGREES, "zero", "recompute", "sequences", "tokens")
    if odd := [name for name in plan if name not in known]:
        return "not-a-plan", f"{lead}a plan has no {describe(odd[0])}; it has {', '.join(known)}."
    for name in (*DEGREES, "sequences"):
        if name in plan and not (type(plan[name]) is int and 1 <= plan[name] <= MOST):
            return "not-a-plan", f"{lead}{name} is a whole number from 1; got {describe(plan[name])}."
    if type(plan.get("zero", 1)) is not int or plan.get("zero", 1) not in (0, 1, 2, 3):
        return "not-a-plan", f"{lead}zero is a stage from 0 to 3; got {describe(plan['zero'])}."
    if type(plan.get("recompute", "none")) is not str or plan.get("recompute", "none") not in WORDS:
        return "not-a-plan", f"{lead}recompute is one of {', '.join(WORDS)}; got {describe(plan['recompute'])}."
    if "tokens" in plan and not (is_number(plan["tokens"]) and 0 < plan["tokens"] < 1e18):
        return "not-a-plan", f"{lead}tokens is a number of tokens; got {describe(plan['tokens'])}."
    return None


def _bounds_fault(found: Assessed, task: Task, lead: str) -> Fault | None:
    """The first bound that a plan breaks, in numbers."""
    if found.ok:
        return None
    first = next((name for name in FAILS if name in found.problems), found.problems[0])
    more = {
        "memory": f"{found.memory / GB:.3g} GB of {found.room / GB:.3g}",
        "deadline": f"{found.days:.3g} days of {task.days:.3g}",
        "budget": f"${found.usd:,.0f} of ${task.usd:,.0f}",
        "tokens": f"{found.tokens / BILLION:.4g} billion, at least {task.required / BILLION:.4g}",
        "layout": "; ".join(found.reasons)[:300],
    }.get(first, f"{found.gpus} GPUs of {task.gpus}" if first == "devices" else "")
    return FAILS.get(first, ""), f"{lead}{PROBLEMS[first]}{f': {more}' if more else ''}."


def _defense_fault(defense: Any, found: Assessed, lead: str) -> Fault | None:
    """The first number of a defense that the planner does not confirm."""
    if type(defense) is not dict:
        asked = "a defense is a dictionary with memory, days, usd and binding"
        return "no-defense", f"{lead}{asked}; got {describe(defense)}."
    rights = (("memory", found.memory / GB, "GB"), ("days", found.days, "days"), ("usd", found.usd, "dollars"))
    for name, right, unit in rights:
        got = defense.get(name)
        if not is_number(got):
            return "no-number", f"{lead}{name} is a number of {unit}; got {describe(got)}."
        if near(got, right, CLOSE):
            continue
        if name == "memory" and near(got, right * GB, CLOSE):
            return "other-unit", f"{lead}give memory in GB."
        if name == "days" and near(got, right * found.goodput, min(CLOSE, 0.5 * (1 - found.goodput))):
            return "no-failures", f"{lead}these days leave failures out."
        return f"other-{name}", f"{lead}the planner does not confirm your {name} within 5 %."
    said = defense.get("binding")
    said = said.strip().lower() if type(said) is str else said
    if type(said) is not str or said not in CAUSES:
        return "no-such-cause", f"{lead}binding is one of {', '.join(CAUSES)}; got {describe(said)}."
    if said in ("matmul", "attention"):
        return "useful-work", f"{lead}{said} is the model's own work; name the largest cause next to it."
    most = max(found.parts[each] for each in CAUSES if each not in ("matmul", "attention"))
    if found.parts[said] < most * (1 - 1e-6):
        return "other-cause", f"{lead}another cause takes more seconds than {said}."
    return None


def _faults(params: Params, pair: Any, after: bool) -> tuple[Fault | None, Fault | None]:
    """What is wrong with a plan and with its defense; a plan that breaks a bound defends nothing."""
    lead = f"After the change ({params['change']}): " if after else "Your plan: "
    fault: Fault | None = None
    found = None
    if type(pair) is str and pair == NOT_ANSWERED:
        fault = "not-answered", f"{lead}this function is not answered yet."
    elif type(pair) not in (tuple, list) or len(pair) != 2:
        fault = "not-a-pair", f"{lead}return a pair (plan, defense); got {describe(pair)}."
    elif not (fault := _plan_fault(pair[0], lead)):
        task = task_of(params, after)
        found = assess(pair[0], task)
        fault = _bounds_fault(found, task, lead)
    return (fault, fault) if fault or not found else (None, _defense_fault(pair[1], found, lead))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    before, after = (_faults(params, pair, bool(at)) for at, pair in enumerate(outcome.value))
    parts = zip(("plan", "defense", "changed", "changed-defense"), (*before, *after), strict=True)
    return [verdict("values", part, case, fault) for part, fault in parts]


JUDGING = Judging(
    shares="values:plan 0.35, values:defense 0.15, values:changed 0.35, values:changed-defense 0.15",
    many_right=True,
    cases=lambda params, rng: [Case(name="your plans")],
    verdicts=_verdicts,
    why="There is no one right plan. A plan is defended when every bound has a number, when you know which cause takes "
    "the time that is lost, and when you have seen what the next change would break first. A slower network moves "
    "traffic to the links inside servers; half the budget or half the time is paid in tokens; longer sequences need an "
    "axis that cuts the sequence; a lost server leaves degrees that divide an odd number.",
    pytorch="`./course plan` prints the same numbers and the command lines of Megatron-LM and torchtitan for a plan.",
)

ANSWERS = r'''import itertools

from course_lib import params
from course_lib.operate import capstone


# %% right: worked
mine = params("capstone-plan")
names = ("model", "cluster", "seq", "sequences", "days", "usd")
task = capstone.Task(tokens=1e9 * mine.billions, **{name: getattr(mine, name) for name in names})
after = capstone.changed(task, mine.change)


def my_plan() -> tuple[dict, dict]:
    """The plan for `task`, and its defense."""
    ### BEGIN SOLUTION
    return defended(task)
    ### END SOLUTION


def after_the_change() -> tuple[dict, dict]:
    """The plan for `after`, and its defense."""
    ### BEGIN SOLUTION
    return defended(after)


def defended(task):
    """The quickest of the plans that were tried: ZeRO-3, and degrees of two on the other axes."""
    odd, best = task.gpus // (task.gpus & -task.gpus), None
    batches = range(task.sequences, int(0.95 * task.sequences), -1)
    sequences = max(batches, key=lambda s: (s % odd == 0, s & -s))
    for tp, cp, pp, recompute in itertools.product((1, 2, 4), (1, 2, 4, 8, 16), (1, 2, 4), ("none", "full")):
        dp = task.gpus // (tp * cp * pp)
        if dp * tp * cp * pp != task.gpus or sequences % dp:
            continue
        plan = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "zero": 3, "recompute": recompute}
        plan |= {"microbatches": sequences // dp, "sequences": sequences}
        found = capstone.assess(plan, task)
        share = min(1, 0.999 * task.days / found.days, 0.999 * task.usd / found.usd)
        plan["tokens"] = share * task.tokens
        found = capstone.assess(plan, task)
        if found.ok and (best is None or share / found.seconds > best[0]):
            best = share / found.seconds, plan, found
    _, plan, found = best
    return plan, {"memory": found.memory / 1e9, "days": found.days, "usd": found.usd, "binding": found.binding}
    ### END SOLUTION

# %% right: by hand
PLAN = {"tp": 2, "cp": 4, "pp": 8, "dp": 1, "zero": 3, "microbatches": 512}


def my_plan():
    return PLAN, {"memory": 54.5, "days": 23.7, "usd": 72_800, "binding": "other"}


def after_the_change():
    return PLAN, {"memory": 54.5, "days": 24.1, "usd": 74_200, "binding": "other"}


# %% wrong: data parallelism alone => values does-not-fit  from: by hand
# ~ {"tp": 2, "cp": 4, "pp": 8, "dp": 1, "zero": 3, "microbatches": 512} ==> {"dp": 64, "zero": 1, "microbatches": 8}
# %% wrong: half of the GPUs => values does-not-fit  from: by hand
# ~ "cp": 4 ==> "cp": 2
# %% wrong: degrees of another cluster => values wrong-devices  from: by hand
# ~ "dp": 1, "zero": 3, "microbatches": 512 ==> "dp": 2, "zero": 3, "microbatches": 256
# %% wrong: layers that do not divide => values does-not-divide  from: by hand
# ~ {"tp": 2, "cp": 4, "pp": 8 ==> {"tp": 1, "cp": 1, "pp": 64
# %% wrong: fewer tokens => values too-few-tokens  from: by hand
# ~ "microbatches": 512 ==> "microbatches": 512, "tokens": 60e9
# %% wrong: a smaller batch => values other-batch  from: by hand
# ~ "microbatches": 512 ==> "microbatches": 256, "sequences": 256
# %% wrong: full recomputation costs too much => values too-late  from: by hand
# ~ {"tp": 2, "cp": 4, "pp": 8, "dp": 1, "zero": 3 ==> {"tp": 8, "pp": 8, "dp": 1, "recompute": "full"
# %% wrong: days without failures => values other-days  from: by hand
# ~ "days": 23.7, "usd": 72_800 ==> "days": 20.0, "usd": 61_000
# %% wrong: bytes for gigabytes => values other-unit  from: by hand
# ~ 54.5, "days": 23.7 ==> 54.5e9, "days": 23.7
# %% wrong: another cause => values other-cause  from: by hand
# ~ 74_200, "binding": "other" ==> 74_200, "binding": "bubble"
# %% wrong: useful work => values useful-work  from: by hand
# ~ 72_800, "binding": "other" ==> 72_800, "binding": "matmul"
# %% wrong: a plan without a defense => values not-a-pair  from: by hand
# ~ return PLAN, {"memory": 54.5, "days": 23.7, "usd": 72_800, "binding": "other"} ==> return PLAN
# ~ return PLAN, {"memory": 54.5, "days": 24.1, "usd": 74_200, "binding": "other"} ==> return PLAN
# %% half: no plan after the change => 10  from: by hand
def after_the_change():
    raise NotImplementedError
'''
