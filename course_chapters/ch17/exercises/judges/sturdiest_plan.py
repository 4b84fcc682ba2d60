import random
from collections.abc import Mapping, Sequence

from course_grader.judging import Case, Checked, Fault, Judging, Params, Worked, Wrong, describe, hidden, shown, table
from course_lib.estimate.units import GB

Takes = Mapping[str, tuple[float, ...] | None]  # condition -> memory, days, dollars
Plans = Mapping[str, Takes]
Limits = Mapping[str, tuple[float, ...]]
Row = tuple[Plans, Limits]
NOW = "as planned"
right = Worked("sturdiest-plan")


def best(plans: Plans, limits: Limits) -> list[str]:
    """The plans that may be chosen; none where none survives as planned."""
    one = right(plans, limits)
    pairs = ({name: plans[name], one: plans[one]} for name in plans if one)
    return [next(iter(pair)) for pair in pairs if right(pair, limits) == next(iter(pair))]  # the first of equal ones


def _fault(row: Row, got: object, wants: Sequence[str]) -> Fault | None:
    if got in wants or (got is None and not wants):
        return None
    if got is None:
        return "gave-up", "there is a plan that meets the limits as planned."
    if type(got) is not str or got not in row[0]:
        return "no-such-plan", f"return the name of a plan, or None; got {describe(got)}."
    if not wants:
        return "dead-chosen", "no plan meets the limits as planned; return None."
    lead = f"{got!r} is not the plan to choose; "
    return Wrong("", f"{lead}count what each plan survives, and take its worst ratio.", lead)


DAYS, DOLLARS = (0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25), (0.5, 0.75, 0.9375, 1.0625)  # of the limits
CHANGES = ("slower wire", "half the budget", "longer context", "lost server", "dearer hours")
NAMES = ["flat", "deep", "wide", "tall", "lean", "broad", "thin", "steep"]


def _row(rng: random.Random, count: int) -> Row:
    conditions = [NOW, *rng.sample(CHANGES, rng.choice((2, 3, 4)))]
    rng.shuffle(conditions)
    draws = (64.0 * GB, 128.0 * GB), (16.0, 32.0, 64.0), (2.0**16, 2.0**17)
    limits = {name: tuple(map(rng.choice, draws)) for name in conditions}

    def takes(condition: str) -> tuple[float, ...] | None:
        if condition != NOW and rng.random() < 0.12:
            return None
        return tuple(y * rng.choice(shares) for y, shares in zip(limits[condition], (DAYS, DAYS, DOLLARS), strict=True))

    return {name: {each: takes(each) for each in conditions} for name in rng.sample(NAMES, count)}, limits


def telling(rng: random.Random, slip: str, count: int = 5) -> Row:
    """Plans among which the first that a mistake would choose is a wrong one."""
    while True:
        row = _row(rng, count)
        wants = best(*row)
        if wants and len(wants) < len(row[0]) and (not slip or right.wrong(slip, *row) not in (*wants, None)):
            return row


def _used_up(rng: random.Random, place: int) -> Row:
    """Plans that survive everything; the one with the most slack under the change has used up one of its three limits
    as planned."""
    limit = (64.0 * GB, float(rng.choice((16, 32))), 2.0**16)
    both = [{NOW: 1.0, "slower wire": 0.5}, {NOW: 0.75, "slower wire": rng.choice((0.5625, 0.625))}]
    rng.shuffle(both)

    def takes(share: float) -> tuple[float, ...]:
        return tuple(y * (share if share < 1 or at == place else 0.5) for at, y in enumerate(limit))

    plans = [{each: takes(share) for each, share in shares.items()} for shares in both]
    return dict(zip(rng.sample(NAMES, 2), plans, strict=True)), dict.fromkeys(both[0], limit)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    limits = {
        NOW: (76 * GB, 30.0, 90e3),
        "slower wire": (76 * GB, 30.0, 90e3),
        "half the budget": (76 * GB, 30.0, 45e3),
    }
    take = {  # memory in GB, then days and dollars under each condition
        "tensor": (70, (25.0, 77e3), (26.0, 80e3), (14.6, 44e3)),
        "sharded": (60, (23.0, 71e3), (66.0, 203e3), (13.4, 41e3)),
        "fast": (78, (20.0, 61e3), (21.0, 64e3), (11.7, 36e3)),
    }
    example = {
        name: {each: (held * GB, *rest) for each, rest in zip(limits, more, strict=True)}
        for name, (held, *more) in take.items()
    }
    slips, gone = (
        ["", "dead chosen", "count alone", "mean ratio", "least ratio", "no limit", "old limits"],
        ["none skipped"],
    )
    if params["ranking"] == "changes":  # where the other ranking is a mistake, and survival is counted first
        slips, gone = [*slips, "other ranking"], ["none survives", *gone]
    roomy = {name: (80 * GB, *rest) for name, (_, *rest) in limits.items()}  # the shown plans, and another one is best
    plain = [(example, roomy), *(telling(rng, slip) for slip in slips)]
    plain += [telling(rng, "") for _ in range(24)]  # a name says little: only many tell mistakes apart
    bounds = [telling(rng, slip) for slip in ("equal exceeds", "no memory", "no dollars")]
    bounds += [_used_up(rng, place) for place in range(3)]
    one = {"lone": {NOW: (GB, 1.0, 1.0)}}
    small = {NOW: (GB, 1.0, 1.0)}
    edges = [
        (one, small),
        ({"lone": {NOW: (GB, 1.5, 1.0), "lost server": (GB, 1.0, 1.0)}}, {**small, "lost server": (GB, 1.0, 1.0)}),
        ({}, {**small, "lost server": (GB, 1.0, 1.0)}),
        ({"over": {NOW: (GB, 1.0001, 0.5)}}, small),
        ({at: {NOW: (GB * 0.5, 0.9 - int(at) * 1e-4, 0.5)} for at in "0123456789"}, small),
        (
            {"b": {**one["lone"], "lost server": None}, "a": {NOW: (2 * GB, 1.0, 1.0), "lost server": (GB, 1.0, 1.0)}},
            {**small, "lost server": (GB, 1.0, 1.0)},
        ),
        ({"x": {NOW: None}, "y": {NOW: (GB, 0.5, 0.5)}}, small),
        ({"x": {NOW: None}}, small),
    ]
    return [
        shown("three plans", "values:choice", 0, [(example, limits)]),
        hidden("other plans", "values:choice", 0, plain),
        hidden("numbers at and around the limits", "generality:limits", 0, bounds),
        hidden("plans that cannot run", "generality:holes", 0, [telling(rng, slip) for slip in gone]),
        hidden("one plan, no plan, none that meets the limits", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:choice 0.4, generality:limits 0.25, generality:holes 0.15, generality:edges 0.2",
    cases=_cases,
    verdicts=table(Checked("", _fault, want=best)),
    why="The quickest plan is often the one that has used up everything: memory to the last gigabyte, or a wire that "
    "is just fast enough. A plan with a little slack in each number costs a few percent today and spares a second "
    "plan in the middle of the run.",
    pytorch="Keep checkpoints that can be loaded on another layout (DCP reshards on load), so that a change of plan "
    "costs minutes.",
)

ANSWERS = r'''# %% right: worked
ranking = params("sturdiest-plan").ranking  # leave as is: first decides the number of "changes", or the "worst" ratio


def sturdiest(plans: dict[str, dict], limits: dict[str, tuple]) -> str | None:
    """The name of the plan to choose before the change is known."""

    def holds(takes, condition):
        return takes[condition] is not None and all(
            x <= y for x, y in zip(takes[condition], limits[condition], strict=True)
        )

    def score(name):
        takes = plans[name]
        survived = sum(holds(takes, condition) for condition in limits if condition != "as planned")
        worst = max(
            math.inf if took is None else max(x / y for x, y in zip(took, limits[condition], strict=True))
            for condition, took in takes.items()
        )
        return (-survived, worst) if ranking == "changes" else (worst, -survived)

    return min((name for name in plans if holds(plans[name], "as planned")), key=score, default=None)
# %% right: the last of equal ones
# ~ in plans if holds ==> in reversed(plans) if holds
# %% wrong: the first plan => values
# ~ min((name for name in plans if holds(plans[name], "as planned")), key=score, default=None) ==> next(iter(plans))
# %% wrong: dead chosen => values
# > this plan does not meet the limits as planned.
# ~ (name for name in plans if holds(plans[name], "as planned")) ==> plans
# %% wrong: other ranking => values other-ranking unless ranking=worst
# > here the worst ratio decides before the number of changes.
# ~ ranking == "changes" ==> False
# %% wrong: equal exceeds => values
# > a number equal to its limit does not exceed it.
# ~ x <= y ==> x < y
# %% wrong: old limits => values
# > each condition has limits of its own.
# ~ zip(takes[condition], limits[condition] ==> zip(takes[condition], limits["as planned"]
# ~ zip(took, limits[condition] ==> zip(took, limits["as planned"]
# %% wrong: no memory => values
# > memory has a limit too.
# ~ zip(takes[condition], limits[condition] ==> zip(takes[condition][1:], limits[condition][1:]
# %% wrong: no dollars => values
# > dollars have a limit too.
# ~ zip(takes[condition], limits[condition] ==> zip(takes[condition][:2], limits[condition][:2]
# %% wrong: dollars survived => values
# > the worst ratio counts dollars, too.
# ~ zip(took, limits[condition] ==> zip(took[:2], limits[condition][:2]
# %% wrong: none survives => values
# > a plan that cannot run under a condition does not survive it.
# ~ params("sturdiest-plan").ranking ==> "changes"
# ~ takes[condition] is not None and ==> takes[condition] is None or
# %% wrong: none skipped => values
# > a plan that cannot run under a condition has an infinite worst ratio.
# ~ math.inf ==> 0.0
# %% wrong: changes alone => generality
# > the worst ratio counts the condition as planned, too.
# ~ items() ==> items() if condition != "as planned" or len(takes) == 1
# %% wrong: a hole leaves a plan out => values
# > such a plan may be chosen where it survives as planned.
# ~ if holds(plans[name], "as planned") ==> if holds(plans[name], "as planned") and None not in plans[name].values()
# %% wrong: mean ratio => values
# > the largest ratio counts, not the mean.
# ~ worst = max( ==> worst = sum(
# %% wrong: no limit => values
# > divide each number by its limit; bytes, days and dollars cannot be compared as they are.
# ~ max(x / y for x, y in ==> max(x for x, _ in
# %% wrong: least ratio => values
# > of a condition's three numbers the one with the largest ratio counts.
# ~ max(x / y ==> min(x / y
# %% wrong: count alone => values
# > of plans that survive equally many changes, the worst ratio decides.
# ~ (-survived, worst) if ranking == "changes" else (worst, -survived) ==> -survived
# %% wrong: no plan is an error => generality raised
# ~ , default=None ==>
# %% wrong: what cannot run as planned is chosen => generality dead-chosen
# ~ if holds(plans[name], "as planned") ==> if not plans[name]["as planned"] or holds(plans[name], "as planned")
'''
