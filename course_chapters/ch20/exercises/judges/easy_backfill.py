import random
from collections.abc import Sequence

from course_chapters.ch20.exercises.judges.shared import rows_fault_of
from course_grader.exercises.values import describe, is_row
from course_grader.judging import Judging, Params, Worked, judged
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case, Outcome, Verdict

right = Worked("easy-backfill")
Row = tuple[int, list[tuple[int, int]], list[tuple[int, int]], int]


def _drawn(rng: random.Random) -> Row:
    now = rng.randrange(0, 50)
    running = [(rng.choice((4, 8, 8, 16)), now + rng.randrange(1, 12)) for _ in range(rng.randrange(1, 6))]
    free, total = rng.randrange(4, 21), sum(gpus for gpus, _ in running)
    waiting = [(rng.choice((1, 2, 4, 8)), rng.randrange(1, 16)) for _ in range(rng.randrange(3, 9))]
    waiting.insert(rng.randrange(0, 2), (rng.randrange(free + 1, free + total + 1), rng.randrange(1, 20)))
    return free, running, waiting, now


def _cases(params: Params, rng: random.Random) -> list[Case]:
    gpus = params["gpus"]
    half, most = gpus // 2, gpus * 3 // 4
    first = (half, [(half, 10)], [(most, 5), (half // 2, 10), (half, 11), (4, 30)], 0)
    some = [
        (16, [(8, 30), (8, 12)], [(8, 5), (24, 9), (4, 2), (4, 8), (8, 1)], 10),
        (8, [(8, 20), (16, 25)], [(16, 5), (4, 16), (8, 15), (4, 15)], 5),
        (10, [(20, 9)], [(4, 3), (6, 3), (4, 3)], 0),
        (8, [(8, 14), (8, 20)], [(12, 5), (3, 50), (2, 60), (1, 9)], 4),
        (20, [(8, 16), (8, 22), (24, 40)], [(6, 4), (30, 9), (6, 3), (6, 10), (8, 2), (4, 9)], 10),
        (6, [(10, 47), (16, 52)], [(12, 5), (2, 6), (2, 7), (4, 90)], 40),
    ]
    ends = [(8, [(8, 14)], [(16, 5), (8, limit)], 4) for limit in (9, 10, 11)]  # on both sides of the reservation
    fits = [(8, [(8, 14)], [(16, 5), (size, 3)], 4) for size in (7, 8, 9)]
    fits += [(free, [(4, 3)], [(8, 5), (1, 1)], 0) for free in (7, 8, 9)]
    spare = [(8, [(8, 14), (8, 20)], [(12, 5), (size, 50), (1, 50)], 4) for size in (3, 4, 5)]
    spare += [(8, [(8, 14)], [(12, 5), (2, 50), (2, 50), (2, 50)], 4)]  # used up by the second
    spare += [(8, [(8, 14)], [(12, 5), (4, 10), (4, 50)], 4)]  # a short job leaves them
    spare += [(4, [(4, 9), (8, 9), (4, 20)], [(8, 5), (4, 50)], 2)]  # two end at the reservation
    spare += [(4, [(4, 9), (6, 9)], [(8, 5), (4, 50)], 2), (4, [(6, 9), (4, 9)], [(8, 5), (4, 50)], 2)]
    started = [(12, [(4, 30)], [(8, 6), (10, 5), (4, 7), (2, 6), (2, 40)], 1)]  # the head waits for a job just started
    started += [(8, [], [(8, 6), (8, 2), (4, 1)], 0), (8, [(8, 30)], [(4, 6), (4, 3), (12, 1), (1, 1)], 1)]
    unsorted = [(4, [(8, 40), (4, 10), (4, 20)], [(10, 5), (4, 11), (2, 30), (2, 6)], 5)]
    little = [(8, [], [], 0), (0, [(8, 5)], [(4, 1), (2, 1)], 2), (8, [], [(8, 4)], 3), (9, [(1, 2)], [(10, 4)], 1)]
    little += [(0, [(8, 5)], [], 2), (4, [(8, 5), (1, 9)], [], 2), (4, [(8, 5), (1, 9)], [(6, 1)], 2)]
    apart = each_changed((8, [(8, 14), (8, 20)], [(12, 5), (4, 50)], 4), (9, [(4, 14)], [(12, 5), (4, 90)], 50))
    never = [(4, [(4, 9)], [(2, 1), (9, 1)], 0), (0, [], [(1, 1)], 0), (8, [(8, 3)], [(16, 1), (4, 1), (17, 2)], 0)]
    never += [(4, [(4, 9)], [(8, 1), (2, 1)], 0), (8, [], [(4, 1), (4, 1), (4, 1), (12, 1)], 0)]
    return [
        Case(name=f"{gpus} GPUs", args=(0, [first]), part="starts"),
        plain("starts", 0, "other queues", some),
        generality("edges", 0, "on both sides of the reservation and of the free GPUs", [*ends, *fits]),
        generality("edges", 0, "spare GPUs", spare),
        generality("edges", 0, "jobs just started, ends in any order, few jobs", [*started, *unsorted, *little]),
        generality("edges", 0, "one argument changes", apart),
        unseen(rng, "edges", 0, "drawn queues", [_drawn(rng) for _ in range(60)]),
        generality("never", 0, "jobs that can never start", never),
    ]


def _named(free: int, running: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int]], now: int) -> list[str]:
    most = free + sum(gpus for gpus, _ in running)
    return [str(next(place for place, (gpus, _) in enumerate(waiting) if gpus > most))]


def _apart(got: object, want: list[int]) -> str:
    if not is_row(got) or not all(type(each) is int for each in got):
        return f"return a list of places; got {describe(got)}."
    return "" if list(got) == want else f"here the places {describe(list(got))} start; they should be {want}."


def _words(free: int, running: object, waiting: object, now: int) -> str:
    return f"{free} free, running {running}, waiting {waiting}, now {now}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, rows_fault_of(case, outcome.value, right, _words, _apart, _named))


JUDGING = Judging(
    shares="values:starts 0.4, generality:edges 0.45, generality:never 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="""The head loses nothing: at its reservation, its GPUs are free whatever was started in between. That is true
only because limits are never exceeded, so a scheduler ends a job at its limit. A user who asks for less time starts
earlier; one who asks for too little loses the job. Jobs behind the head have no reservation in EASY and may be
delayed.""",
    pytorch="Slurm: `SchedulerType=sched/backfill` reserves for many jobs, up to `bf_max_job_test`; `#SBATCH --time` "
    "is the limit.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
backfill = params("easy-backfill").backfill  # leave as is: "spare" or "short"


def start_now(free: int, running: list[tuple], waiting: list[tuple], now: float) -> list[int]:
    """Places in `waiting` of the jobs that start now, in the order of starts."""
    ### BEGIN SOLUTION
    ends, found = list(running), []
    total = free + sum(gpus for gpus, _ in running)
    for place, (gpus, _) in enumerate(waiting):
        if gpus > total:
            raise ValueError(f"job {place} asks for {gpus} GPUs; there are {total}")
    for place, (gpus, limit) in enumerate(waiting):
        if gpus > free:
            break
        free -= gpus
        ends.append((gpus, now + limit))
        found.append(place)
    else:
        return found
    times = sorted(end for _, end in ends)
    room = {time: free + sum(size for size, end in ends if end <= time) for time in times}
    reserved = next(time for time in times if room[time] >= gpus)
    spare = room[reserved] - gpus
    for later, (size, limit) in enumerate(waiting[place + 1 :], place + 1):
        short = now + limit <= reserved
        if size <= free and (short or (backfill == "spare" and size <= spare)):
            found.append(later)
            free -= size
            spare -= 0 if short else size
    return found
    ### END SOLUTION

# %% right: the least of the times
# ~ times = sorted(end for _, end in ends) ==> times = {end for _, end in ends}
# ~ reserved = next(time for time ==> reserved = min(time for time
# %% wrong: first come, first served => values
# > no job behind the head starts.
# ~ if size <= free and (short or (backfill == "spare" and size <= spare)): ==> if False:
# %% wrong: whatever fits => values
# > this starts jobs that delay the head.
# ~ if size <= free and (short or (backfill == "spare" and size <= spare)): ==> if size <= free:
# %% wrong: spare GPUs are not used => values unless backfill=short
# > a long job may start, too, if it fits into the spare GPUs.
# ~ (short or (backfill == "spare" and size <= spare)) ==> short
# %% wrong: spare GPUs for every long job => values unless backfill=short
# > the spare GPUs are given away more than once.
# -             spare -= 0 if short else size
# %% wrong: short jobs take spare GPUs => values unless backfill=short
# > a job that ends by the reservation takes none of the spare GPUs.
# ~ spare -= 0 if short else size ==> spare -= size
# %% wrong: not all that end then => generality unless backfill=short
# > further jobs end exactly at the reservation; their GPUs are spare, too.
# ~ spare = room[reserved] - gpus
# ~~ ==> spare = max(0, room[reserved] - sum(sorted(size for size, end in ends if end == reserved)[:-1]) - gpus)
# %% wrong: at the reservation is too late => values
# > a job that ends exactly at the reservation does not delay the head.
# ~ short = now + limit <= reserved ==> short = now + limit < reserved
# %% wrong: limits are times => values
# > a limit is a duration; the job ends at `now` plus the limit.
# ~ short = now + limit <= reserved ==> short = limit <= reserved
# %% wrong: ends are durations => values
# > the ends of running jobs are times; they are not counted from `now`.
# ~ short = now + limit <= reserved ==> short = limit <= reserved + now
# %% wrong: jobs in the order given => values
# > the running jobs are not in the order of their ends.
# ~ times = sorted(end for _, end in ends) ==> times = [end for _, end in ends]
# %% wrong: the first end => values
# > the head does not fit yet when the first job ends.
# ~ if room[time] >= gpus) ==> if room[time] >= 0)
# %% wrong: the last end => values
# > the head fits before the last job ends.
# ~ reserved = next(time for time in times if room[time] >= gpus) ==> reserved = times[-1]
# %% wrong: a full fit is no fit => values
# > a job that needs exactly the GPUs that are free fits.
# ~         if gpus > free: ==>         if gpus >= free:
# %% wrong: jobs just started are forgotten => values
# > jobs that start now end, too, and the head can have their GPUs then.
# -         ends.append((gpus, now + limit))
# %% wrong: a job too large waits => generality
# > a job that asks for more GPUs than there are waits in silence, forever.
# ~ if gpus > total: ==> if False:
# ~ next(time for time in times if room[time] >= gpus)
# ~~ ==> next((time for time in times if room[time] >= gpus), float("inf"))
# ~ spare = room[reserved] - gpus ==> spare = room.get(reserved, 0) - gpus
# %% wrong: returns a refusal instead of raising it => generality
# ~ raise ValueError(f"job {place} asks for {gpus} GPUs; there are {total}")
# ~~ ==> return {"refused": f"job {place} asks for {gpus} GPUs; there are {total}"}
# %% wrong: which job is not said => generality
# > the error must name the place of the job.
# ~ raise ValueError(f"job {place} asks for {gpus} GPUs; there are {total}") ==> raise ValueError("too many GPUs")
# %% wrong: left as it is => not-answered
# ~ ends, found = ==> raise NotImplementedError; ends, found =
'''
