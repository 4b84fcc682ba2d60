from collections.abc import Sequence

from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, Worked, generality, shown
from course_grader.judging.per_row import Breakdown, shares, table

Log = Sequence[tuple[float, str, int | None]]


right = Worked("goodput-ledger")


def _log(rng: Random, steps: int, every: int, *fail: tuple[int, int | None, int]) -> Log:
    """A log of so many steps; each of `fail` is (step after which it fails, step to resume from or None for the newest,
    failed restarts)."""
    second, at, newest, todo = 100.0 * rng.randrange(9), 0, 0, list(fail)
    log: list[tuple[float, str, int | None]] = [(second, "start", 0)]

    def tell(event: str, step: int | None, least: int, most: int) -> None:
        nonlocal second
        second += rng.randrange(8 * least, 8 * most) / 8
        log.append((second, event, step))

    while at < steps:
        at += 1
        tell("step", at, 20, 60)
        if at % every == 0:
            tell("saved", at, 3, 9)
            newest = at
        if todo and at == todo[0][0]:
            _, resume, failed = todo.pop(0)
            tell("failure", None, 1, 20)
            for _ in range(failed):
                tell("failure", None, 5, 30)
            at = newest = newest if resume is None else resume
            tell("restart", at, 50, 90)
    tell("end", None, 1, 5)
    return log


def _read(text: str) -> Log:
    parts = [part.split() for part in text.split(", ")]
    return [(float(second), event, int(step[0]) if step else None) for second, event, *step in parts]


def _cases(params: Params, rng: Random) -> list[Case]:
    down = [*_log(rng, 4, 2)[:-1], (9000.0, "failure", None), (9020.5, "end", None)]
    rows: dict[str, list[tuple[Log]]] = {
        "older": [(_log(rng, 12, 3, (10, 6, 0)),), (_log(rng, 9, 2, (9, 0, 0), (5, 2, 0)),)],
        "again": [(_log(rng, 8, 3, (7, None, 2)),), (_log(rng, 6, 2, (1, None, 1), (4, None, 3)),)],
        "ends": [
            (down,),
            ([(5.0, "start", 0), (12.0, "end", None)],),
            ([(0.0, "start", 0), (2.0, "step", 1), (2.0, "end", None)],),
        ],
    }
    twice = [(_log(rng, 11, 4, (6, None, 0), (6, None, 0), (10, None, 0)),), (_log(rng, 7, 7, (7, None, 0)),)]
    # steps that are not done again, a failure or the end right after a restart, and logs that are alike in part
    begin, fails = "3 start 0, 10 step 1, 18 step 2, 30 step 3, 31.5 failure, ", "52 failure, 60 restart 0, 71 end"
    ends = [
        "50 restart 2, 59 step 3, 60 failure, 70 restart 1, 71 end",
        f"50 restart 2, {fails}",
        f"50 failure, {fails}",
    ]
    ends += [f"{text}, 71 end" for text in ("50 restart 2", "50 restart 1", "51 restart 2")]
    unfinished = [(_read(begin + text),) for text in ends]
    return [
        shown("one failure", "values:ledger", 0, [(_log(rng, 6, 2, (3, None, 0)),)]),
        Case(name="several failures", args=(0, twice), part="ledger", visible=False),
        generality("ledger", 0, "a restart from an older checkpoint", rows["older"]),
        generality("ledger", 0, "failures during a restart", rows["again"]),
        generality("ledger", 0, "the end of a log", rows["ends"]),
        generality("ledger", 0, "right after a restart, and logs alike in part", unfinished),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    unit = "of the time" if params["unit"] == "shares" else "s"
    column = Breakdown("ledger", unit, want=right, words=lambda log: f"a log of {len(log)} events")
    return list(table(column)(params, case, outcome))


JUDGING = Judging(
    shares=shares(ledger=(0.4, 0.6)),
    cases=_cases,
    verdicts=_verdicts,
    why="""Whether a step's time was well spent is known only later, when no restart has thrown it away. Goodput is work
over the whole time. What it lacks has three causes, with three remedies: lost work asks for shorter intervals, saves
for faster writing, restarts for a faster start.""",
    pytorch="Google's `ml-goodput-measurement` library and torchtitan's fault-tolerance logs split the time of a job "
    "in the same way.",
)

ANSWERS = r'''# %% right: worked
unit = params("goodput-ledger").unit  # leave as is: "seconds" or "shares" of the whole time


def ledger(log: list[tuple[float, str, int | None]]) -> dict[str, float]:
    """Seconds, or shares, of "work", "lost", "save" and "restart"."""
    spent = dict.fromkeys(("work", "lost", "save", "restart"), 0.0)
    steps, down = [], False
    for (before, _, _), (now, event, step) in zip(log, log[1:], strict=False):
        seconds = now - before
        if event == "step":
            steps.append((step, seconds))
        elif event == "saved":
            spent["save"] += seconds
        elif event == "restart":
            spent["restart"] += seconds
            spent["lost"] += sum(each for number, each in steps if number > step)
            steps, down = [each for each in steps if each[0] <= step], False
        else:  # a failure, or the end
            spent["restart" if down else "lost"] += seconds
            down = True
    spent["work"] = sum(each for _, each in steps)
    total = log[-1][0] - log[0][0] if unit == "shares" else 1
    return {cause: seconds / total for cause, seconds in spent.items()}
# %% right: work is the rest
# ~ spent["work"] = sum(each for _, each in steps) ==> spent["work"] = log[-1][0] - log[0][0] - sum(spent.values())
# %% wrong: repeated as work => values
# > steps that a restart throws away are lost.
# ~ spent["lost"] ==> spent["work"]
# ~ spent["work"] = ==> spent["work"] +=
# %% wrong: newest checkpoint => generality
# > the restart says from which step it resumes; it is not always the newest checkpoint.
# ~ steps, down = [], False ==> steps, down, saved = [], False, 0
#               spent["save"] += seconds
# +             saved = step
#               spent["restart"] += seconds
# +             step = saved
# %% wrong: one step too many => values
# > the step of the checkpoint itself is not lost.
# ~ number > step ==> number >= step
# ~ each[0] <= step ==> each[0] < step
# %% wrong: restart is lost => generality
# > a failure during a restart costs restart time, not work.
# ~ "restart" if down else "lost" ==> "lost" if event == "failure" or not down else "restart"
# %% wrong: down is lost => generality
# > a failed job does not run until its restart: time before another failure, or the end, is restart time.
# ~ down = True ==> down = False
# %% wrong: kept is kept => generality
# > steps that one restart keeps can still be lost in a later one.
# ~ steps, down = [each for each in steps if each[0] <= step], False
# ~~ ==> spent["work"] += sum(each for number, each in steps if number <= step)
# +             steps, down = [], False
# ~ spent["work"] = sum ==> spent["work"] += sum
# %% wrong: from second 0 => values
# > time before `start` was counted; a log need not start at second 0.
# ~ zip(log, log[1:], ==> zip([(0.0, "start", 0), *log[1:]], log[1:],
# %% wrong: end is work => values
# > the step that the end interrupts is not done.
# ~ "restart" if down else "lost" ==> "restart" if down else "work" if event == "end" else "lost"
# ~ spent["work"] = ==> spent["work"] +=
# %% wrong: other unit => values
# > return {{means}}.
# ~ unit == "shares" ==> unit != "shares"
# %% wrong: the total => values one-number
# ~ {cause: seconds / total for cause, seconds in spent.items()} ==> sum(spent.values()) / total
# %% wrong: only the failure's own time is lost => values repeated-as-work
# ~ sum(each for number, each in steps if number > step) ==> 0
# %% wrong: saves that were lost are lost => values lost-saves
# > saves whose checkpoint was not used count as lost here; their time is still save.
# ~ spent["save"] += seconds ==> steps.append((step + 0.5, seconds))
# %% wrong: a step is lost when it is done again => generality ~
# ~ if number > step) ==> if number > step and (number, "step") in [(n, kind) for when, kind, n in log if when > now])
'''
