import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.values import is_row
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, describe, is_number, near, verdict
from course_lib.estimate.units import BILLION, GB, duration_text
from course_lib.operate.capstone.failure_log import weak_part
from course_lib.operate.capstone.plans import PROBLEMS, Assessed, assess
from course_lib.operate.capstone.reasons import AXES, Reason, reason
from course_lib.operate.capstone.task import Task, changed, job
from course_lib.parallel.planner.advice import CAUSES

CLOSE = 0.02  # relative: of a defended number
DEGREES = ("tp", "cp", "pp", "dp", "microbatches", "virtual")
WORDS = ("none", "selective", "full")
MOST = 100_000  # of a degree, or of minutes; nothing larger can run
FAILS = {
    "servers": "no-such-server",
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
    plain = job(SimpleNamespace(**params))
    return changed(plain, params["change"]) if after else plain


def _plan_fault(plan: object, lead: str) -> Fault | None:
    if type(plan) is not dict or not plan:
        return "not-a-plan", f"{lead}a plan is a dictionary such as {{'tp': 2, 'dp': 4}}; got {describe(plan)}."
    known = (*DEGREES, "zero", "recompute", "sequences", "tokens", "without", "checkpoint_minutes")
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
    minutes, without = plan.get("checkpoint_minutes", 1), plan.get("without", [])
    if not (is_number(minutes) and 0 < minutes <= MOST):
        return "not-a-plan", f"{lead}checkpoint_minutes is a number of minutes; got {describe(minutes)}."
    if type(without) not in (list, tuple, set) or any(type(each) is not int for each in without):
        return "not-a-plan", f"{lead}without is a list of the log's server numbers; got {describe(without)}."
    return None


def _bounds_fault(plan: Mapping[str, object], found: Assessed, task: Task, lead: str) -> Fault | None:
    """The first bound that a plan breaks, in numbers."""
    if found.ok:
        return None
    undisturbed = {name: value for name, value in plan.items() if name != "checkpoint_minutes"}
    if assess(undisturbed, replace(task, log=None)).ok:
        return "does-not-survive", (
            f"{lead}the job fails every {duration_text(found.between)} on these servers, and {found.goodput:.1%} of "
            f"its time is useful: {found.days:.3g} days of {task.days:.3g}, ${found.usd:,.0f} of ${task.usd:,.0f}. "
            "With as few failures as in published runs, and checkpoints at their best interval, the plan would hold."
        )
    first = next((name for name in FAILS if name in found.problems), found.problems[0])
    more = {
        "memory": f"{found.memory / GB:.3g} GB of {found.room / GB:.3g}",
        "deadline": f"{found.days:.3g} days of {task.days:.3g}",
        "budget": f"${found.usd:,.0f} of ${task.usd:,.0f}",
        "tokens": f"{found.tokens / BILLION:.4g} billion, at least {task.required / BILLION:.4g}",
        **dict.fromkeys(("servers", "layout"), "; ".join(found.reasons)[:300]),
    }.get(first, f"{found.gpus} GPUs of {task.gpus}" if first == "devices" else "")
    return FAILS.get(first, ""), f"{lead}{PROBLEMS[first]}{f': {more}' if more else ''}."


def _defense_fault(defense: object, found: Assessed, lead: str) -> Fault | None:
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
        return f"other-{name}", f"{lead}the planner does not confirm your {name} within {CLOSE:.0%}."
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


def _faults(params: Params, pair: object, after: bool) -> tuple[Fault | None, Fault | None]:
    """What is wrong with a plan and with its defense; a plan that breaks a bound defends nothing."""
    lead = f"After the change ({params['change']}): " if after else "Your plan: "
    fault: Fault | None
    if type(pair) is str and pair == NOT_ANSWERED:
        fault = "not-answered", f"{lead}this function is not answered yet."
    elif not is_row(pair) or len(pair) != 2:
        fault = "not-a-pair", f"{lead}return a pair (plan, defense); got {describe(pair)}."
    elif not (fault := _plan_fault(pair[0], lead)) and type(pair[0]) is dict:
        task = task_of(params, after)
        found = assess(pair[0], task)
        if not (fault := _bounds_fault(pair[0], found, task, lead)):
            return None, _defense_fault(pair[1], found, lead)
    return fault, fault


def _weak_fault(params: Params, pair: object) -> Fault | None:
    """What is wrong with the named part of the cluster; no plan is needed for it."""
    defense = pair[1] if is_row(pair) and len(pair) == 2 else None
    said = defense.get("weak") if type(defense) is dict else None
    if type(said) is not str:
        return "no-weak-part", f'weak is a word such as "server 3", "switch 1" or "none"; got {describe(said)}.'
    if said.strip().lower() == weak_part(task_of(params, False).log)[0]:
        return None
    return "other-part", f"{describe(said)} does not have more than half of the log's failures, or a part has them."


def _reasons_fault(params: Params, pair: tuple[Mapping[str, object], object]) -> Fault | None:
    """The first axis whose reason the numbers do not confirm. The plan meets its bounds."""
    said = pair[1].get("reasons") if type(pair[1]) is dict else None
    if type(said) is not dict:
        return (
            "no-reasons",
            f"reasons is a dictionary from axis to (breaks, number, stops, lines); got {describe(said)}.",
        )
    if missing := [axis for axis in AXES if axis not in said]:
        return "no-reasons", f"{missing[0]} has no reason; each of {', '.join(AXES)} has one, used or not."
    task = task_of(params, False)
    rights = {axis: reason(pair[0], axis, task) for axis in AXES}
    for axis, right in rights.items():
        if not right.earned:
            without = f"without {axis} the plan breaks no bound and takes no longer"
            return "needless-axis", f"{without}: {right.number:.3g} days."
    for axis, right in rights.items():
        if fault := _axis_fault(axis, said[axis], right):
            return fault
    return None


def _axis_fault(axis: str, said: object, right: Reason) -> Fault | None:
    if not is_row(said) or len(said) != 4:
        return "no-reasons", f"a reason is (breaks, number, stops, lines); {axis} has {describe(said)}."
    if said[0] != right.breaks:
        return "other-bound", f"{describe(said[0])} is not the first that the neighbor of {axis} breaks."
    if math.isfinite(right.number) and not (is_number(said[1]) and near(said[1], right.number, CLOSE)):
        return (
            "other-number",
            f"the number for {axis} and {right.breaks} is not {describe(said[1])}, within {CLOSE:.0%}.",
        )
    if said[2] != right.stops:
        return "other-stops", f"with the neighbor of {axis}, a lost server does not stop {describe(said[2])} GPUs."
    if not (is_number(said[3]) and near(said[3], right.lines, CLOSE)):
        return "other-lines", f"the course's code for {axis} has not {describe(said[3])} lines."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (plan, defense), (again, defended) = (_faults(params, pair, bool(at)) for at, pair in enumerate(outcome.value))
    faults = {
        "weak": _weak_fault(params, outcome.value[0]),
        "plan": plan,
        "defense": defense,
        "reasons": plan or _reasons_fault(params, outcome.value[0]),
        "changed": again,
        "changed-defense": defended,
    }
    return [verdict("values", part, case, fault) for part, fault in faults.items()]


JUDGING = Judging(
    shares="values:weak 0.1, values:plan 0.25, values:defense 0.1, values:reasons 0.2, values:changed 0.25, "
    "values:changed-defense 0.1",
    many_right=True,
    cases=lambda params, rng: [Case(name="your plans")],
    verdicts=_verdicts,
    why="There is no one right plan. A plan is defended when every bound has a number, when you know which cause takes "
    "the time that is lost, and when you have seen what the next change would break first. A weak server costs more "
    "than its share: the whole job stops with it. A slower network moves traffic to the links inside servers, or into "
    "recomputation; longer sequences need an axis that cuts the sequence; a lost rack leaves degrees that divide an "
    "odd number.",
    pytorch="`./course plan` prints the same numbers and the command lines of Megatron-LM and torchtitan for a plan.",
)

ANSWERS = r'''from course_lib.operate import capstone
# %% right: worked
from collections import Counter

from course_lib.operate import faults

task = capstone.job(params("capstone-plan"))  # leave as is
after = capstone.changed(task, params("capstone-plan").change)  # leave as is


def my_plan() -> tuple[dict, dict]:
    """The plan for `task`, and its defense."""
    ### BEGIN SOLUTION
    plan, defense = defended(task)
    defense["weak"], defense["reasons"] = weak(task.log)[0], {}
    for axis in ("tp", "cp", "pp", "dp"):
        other = capstone.neighbor(plan, axis, task)
        found = capstone.assess(other, task)
        breaks = found.problems[0] if found.problems else "nothing"
        number = {"memory": found.memory / 1e9, "budget": found.usd, "devices": found.gpus}.get(breaks, found.days)
        stops = max(8, other["tp"] * other["cp"]) * other["pp"]
        defense["reasons"][axis] = breaks, number, stops, capstone.code_of(axis)
    return plan, defense
    ### END SOLUTION


def after_the_change() -> tuple[dict, dict]:
    """The plan for `after`, and its defense."""
    ### BEGIN SOLUTION
    return defended(after)


def weak(log):
    """The part with more than half of the failures, and its servers."""
    for part, size in (("server", 1), ("switch", 4)):
        [(number, count)] = Counter(getattr(failure, part) for failure in log.failures).most_common(1)
        if count > len(log.failures) / 2:
            return f"{part} {number}", list(range(size * number, size * number + size))
    return "none", []


def defended(task):
    """The quickest of the plans that were tried, without the weak part."""
    without, best = weak(task.log)[1], None
    gpus = task.gpus - 8 * len(without)
    odd = gpus // (gpus & -gpus)
    batches = range(task.sequences, int(0.95 * task.sequences), -1)
    for sequences in {task.sequences, max(batches, key=lambda s: (s % odd == 0, s & -s))}:
        for tp, cp, pp, recompute in itertools.product((1, 2, 4), (1, 2, 4, 8, 16), (1, 2, 5), ("none", "full")):
            dp = gpus // (tp * cp * pp)
            if dp * tp * cp * pp != gpus or sequences % dp:
                continue
            plan = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "zero": 3, "recompute": recompute, "without": without}
            plan |= {"microbatches": sequences // dp, "sequences": sequences}
            found = capstone.assess(plan, task)
            if found.reasons:
                continue
            plan["checkpoint_minutes"] = faults.best_interval(found.saving, found.between) / 60
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
PLAN = {"tp": 2, "cp": 8, "pp": 1, "dp": 6, "zero": 3, "microbatches": 16, "without": [7]}
PLAN["checkpoint_minutes"] = 130
AGAIN = {"cp": 2, "dp": 48, "zero": 3, "recompute": "full", "microbatches": 2, "without": (7,), "tokens": 103e9}
REASONS = {
    "tp": ("memory", 132.6, 8, capstone.code_of("tp")),
    "cp": ("memory", 467, 8, capstone.code_of("cp")),
    "pp": ("nothing", 20, 32, capstone.code_of("pp")),
    "dp": ("memory", 141, 16, capstone.code_of("dp")),
}


def my_plan():
    return PLAN, {"memory": 74.9, "days": 19.2, "usd": 88_300, "binding": "tp", "weak": "server 7", "reasons": REASONS}


def after_the_change():
    return AGAIN, {"memory": 60.4, "days": 19.7, "usd": 90_800, "binding": "recompute"}
# %% wrong: data parallelism alone => values does-not-fit  from: by hand
# ~ {"tp": 2, "cp": 8, "pp": 1, "dp": 6, "zero": 3, "microbatches": 16 ==> {"dp": 96, "zero": 1, "microbatches": 1
# %% wrong: half of the GPUs => values does-not-fit  from: by hand
# ~ "pp": 1, "dp": 6, "zero": 3, "microbatches": 16 ==> "pp": 1, "dp": 3, "zero": 1, "microbatches": 32
# %% wrong: degrees of another cluster => values wrong-devices  from: by hand
# ~ "pp": 1, "dp": 6, "zero": 3, "microbatches": 16 ==> "pp": 1, "dp": 12, "zero": 3, "microbatches": 8
# %% wrong: a server that the log does not have instead => values does-not-survive  from: by hand
# ~ "microbatches": 16, "without": [7] ==> "microbatches": 16, "without": [6]
# %% wrong: no server left out => values does-not-survive  from: by hand
# ~ "microbatches": 16, "without": [7] ==> "microbatches": 16
# %% wrong: a checkpoint every two minutes => values does-not-survive  from: by hand
# ~ = 130 ==> = 2
# %% wrong: a checkpoint every two days => values does-not-survive  from: by hand
# ~ = 130 ==> = 2880
# %% wrong: a checkpoint every no minutes => values not-a-plan  from: by hand
# ~ = 130 ==> = 0
# %% wrong: servers by name => values not-a-plan  from: by hand
# ~ "microbatches": 16, "without": [7] ==> "microbatches": 16, "without": ["server 7"]
# %% wrong: layers that do not divide => values does-not-divide  from: by hand
# ~ "pp": 1, "dp": 6, "zero": 3, "microbatches": 16 ==> "pp": 6, "dp": 1, "zero": 1, "microbatches": 96
# %% wrong: fewer tokens => values too-few-tokens  from: by hand
# ~ "microbatches": 16, "without" ==> "tokens": 60e9, "microbatches": 16, "without"
# %% wrong: a smaller batch => values other-batch  from: by hand
# ~ "microbatches": 16, "without" ==> "sequences": 48, "microbatches": 8, "without"
# %% wrong: full recomputation costs too much => values too-late  from: by hand
# ~ "microbatches": 16, "without" ==> "recompute": "full", "microbatches": 16, "without"
# %% wrong: the first plan is kept => values too-late  from: by hand
# ~ return AGAIN ==> return PLAN
# %% wrong: the first plan with fewer tokens => values too-late  from: by hand
# ~ return AGAIN ==> return PLAN | {"tokens": 102e9}
# %% wrong: fewer tokens than the change allows => values too-few-tokens  from: by hand
# ~ 103e9 ==> 101e9
# %% wrong: days without failures => values no-failures  from: by hand
# ~ "days": 19.2 ==> "days": 18.7
# %% wrong: another month => values other-days  from: by hand
# ~ "days": 19.2 ==> "days": 30
# %% wrong: another bill => values other-usd  from: by hand
# ~ 88_300 ==> 80_000
# %% wrong: bytes for gigabytes => values other-unit  from: by hand
# ~ 74.9, ==> 74.9e9,
# %% wrong: another cause => values other-cause  from: by hand
# ~ "binding": "recompute" ==> "binding": "dp"
# %% wrong: useful work => values useful-work  from: by hand
# ~ "binding": "tp" ==> "binding": "matmul"
# %% wrong: a cause that is none => values no-such-cause  from: by hand
# ~ "binding": "tp" ==> "binding": "luck"
# %% wrong: another server named => values other-part  from: by hand
# ~ "weak": "server 7" ==> "weak": "server 3"
# %% wrong: the weak server's switch => values other-part  from: by hand
# ~ "weak": "server 7" ==> "weak": "switch 1"
# %% wrong: nothing named => values no-weak-part  from: by hand
# ~ "weak": "server 7" ==> "strong": "server 7"
# %% wrong: a reason for used axes only => values no-reasons  from: by hand
# -     "pp": ("nothing", 20, 32, capstone.code_of("pp")),
# %% wrong: reasons in words => values no-reasons  from: by hand
# ~ ("memory", 467, 8, capstone.code_of("cp")) ==> "it must fit"
# %% wrong: an axis for speed => values other-bound  from: by hand
# ~ ("memory", 132.6 ==> ("deadline", 132.6
# %% wrong: the plan's own memory as the reason => values other-number  from: by hand
# ~ ("memory", 467 ==> ("memory", 74.9
# %% wrong: a lost server stops a server => values other-stops  from: by hand
# ~ 20, 32 ==> 20, 8
# %% wrong: axes need no code => values other-lines  from: by hand
# ~ 8, capstone.code_of("tp") ==> 8, 0
# %% wrong: a needless axis => values needless-axis  from: by hand
# ~ 1, "dp": 6, "zero": 3, "microbatches": 16 ==> 2, "dp": 3, "zero": 3, "microbatches": 32
# ~ 74.9, "days": 19.2, "usd": 88_300, "binding": "tp" ==> 73.3, "days": 20, "usd": 91_928, "binding": "bubble"
# %% wrong: a plan without a defense => values not-a-pair  from: by hand
# ~ return PLAN, {"memory" ==> return {"memory"
# %% half: no plan after the change => 13  from: by hand
def after_the_change():
    raise NotImplementedError
'''
