import random
from collections.abc import Sequence

from course_grader.judging import Fault, Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, Series, shares, table
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case

right = Worked("bounded-staleness")
Row = tuple[object, ...]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def drawn(count: int, bounds: Sequence[int]) -> list[Row]:
        rows: list[Row] = []
        for _ in range(count):
            version, bound = rng.randint(4, 30), rng.choice(bounds)
            firsts = [rng.randint(max(0, version - bound - 2), version) for _ in range(rng.randint(3, 9))]
            finished = [(first, rng.randint(first, version)) for first in firsts]
            rows.append((finished, rng.randint(1, 4), version, bound))
        return rows

    starts = [
        (s, b, v, k)
        for b, v, k in ((8, 3, 2), (5, 0, 0), (7, 11, 1))
        for s in ((v + k + 1) * b - 1, (v + k + 1) * b, (v + k + 1) * b + 1, (v + k) * b)
    ]
    exact = [([(4, 4), (3, 6), (5, 7), (2, 3)], 2, 7, 3), ([(4, 4), (3, 6), (5, 7), (2, 3)], 2, 7, 4)]
    ties = [([(3, 3), (2, 3), (3, 3), (2, 2), (3, 3)], 3, 3, 2), ([(5, 5)] * 4, 2, 5, 0), ([(5, 5)] * 4, 4, 5, 0)]
    few = [([], 1, 3, 2), ([(1, 1), (2, 2)], 2, 5, 3), ([(1, 1), (2, 2)], 2, 5, 4), ([(0, 9)], 1, 9, 0)]
    return [
        shown("20 rollouts have started", "values:start", 0, [(20, 8, 2, 1)]),
        shown("five have finished", "values:batch", 1, [([(6, 7), (5, 7), (7, 7), (4, 6), (5, 5)], 2, 7, 2)]),
        plain("start", 0, "other counts", [(0, 16, 0, 0), (90, 16, 4, 3), (63, 32, 1, 0)]),
        plain(
            "batch", 1, "other rollouts", [([(9, 9), (8, 8), (5, 5)], 2, 9, 1), ([(1, 3)], 2, 3, 2), *drawn(4, (1, 3))]
        ),
        unseen(rng, "start", 0, "both sides of the bound", starts),
        generality("start", 0, "one number changes", each_changed((10, 6, 2, 1), (12, 9, 5, 3))),
        generality("batch", 1, "both sides of the bound", exact),
        generality("batch", 1, "equal versions, and too few", ties + few),
        unseen(rng, "batch", 1, "drawn rollouts", drawn(12, (0, 1, 2, 4))),
    ]


def _apart(got: Sequence[float], want: Sequence[float]) -> Fault:
    if len(got) != len(want):
        return "", f"{len(got)} rollouts come back; it should be {len(want)}."
    return "", f"the rollouts {list(got)} are not the ones to train on."


JUDGING = Judging(
    shares=shares(start=(0.2, 0.25), batch=(0.25, 0.3)),
    cases=_cases,
    verdicts=table(
        Column(part="start", unit="rollouts", want=right[0], words=right.words(0), rel=EXACT),
        Series(part="batch", want=right[1], words=right.words(1), apart=_apart, rel=EXACT),
    ),
    why="""The rule for starts bounds the age of a rollout only if batches are made in the order of starts: then the
trainer waits for the longest rollout. If batches are made of whatever has finished, a long rollout can be older than
the bound when its turn comes, and the second rule must leave it out or train on it knowingly.""",
    pytorch="AReaL's `max_head_offpolicyness`, prime-rl's `max_off_policy_steps` and NeMo-RL's "
    "`max_trajectory_age_steps` are this bound.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
counts = params("bounded-staleness").counts  # leave as is: the age of a rollout is that of its "first" or "last" token


def may_start(started: int, batch: int, version: int, bound: int) -> int:
    """How many more rollouts may start now."""
    ### BEGIN SOLUTION
    return max(0, (version + bound + 1) * batch - started)
    ### END SOLUTION


def next_batch(finished: list, batch: int, version: int, bound: int) -> list[int]:
    """Places in `finished` of the rollouts that are trained on now."""
    ### BEGIN SOLUTION
    made = [first if counts == "first" else last for first, last in finished]
    young = [place for place, each in enumerate(made) if version - each <= bound]
    young.sort(key=lambda place: made[place])
    return sorted(young[:batch]) if len(young) >= batch else []
    ### END SOLUTION

# %% right: counted one by one
# ~ max(0, (version + bound + 1) * batch - started) ==> len(range(started, (version + bound + 1) * batch))
# ~ young.sort(key=lambda place: made[place]) ==> young = sorted(young, key=made.__getitem__)
# %% wrong: the bound's batch may not start => values
# > the batch that is exactly at the bound may start, too.
# ~ (version + bound + 1) ==> (version + bound)
# %% wrong: a batch too many => values
# > these include rollouts that will be one version too old.
# ~ (version + bound + 1) ==> (version + bound + 2)
# %% wrong: never ahead => values
# > rollouts for later versions may start as well, up to the bound.
# ~ (version + bound + 1) ==> (version + 1)
# %% wrong: negative => generality
# > none may start then; the result is 0.
# ~ max(0, (version + bound + 1) * batch - started) ==> ((version + bound + 1) * batch - started)
# %% wrong: only to the end of a batch => values
# > whole batches ahead may start, not only the rest of the batch that has begun.
# ~ * batch - started) ==> * batch - started) and batch - started % batch
# %% wrong: exactly at the bound is too old => values
# > a rollout that is exactly as old as the bound may be trained on.
# ~ version - each <= bound ==> version - each < bound
# %% wrong: one older than the bound => values
# > this includes a rollout that is one version too old.
# ~ version - each <= bound ==> version - each <= bound + 1
# %% wrong: nothing is too old => values
# > this trains on rollouts that are older than the bound.
# ~ if version - each <= bound] ==> ]
# %% wrong: the other token => values other-token
# > this counts the age of a rollout from the other one of its two tokens.
# ~ counts == "first" ==> counts != "first"
# %% wrong: newest first => values
# > these are the newest rollouts; take the oldest that are allowed.
# ~ made[place]) ==> -made[place])
# %% wrong: as they finished => values
# > these are the first in the list; take the oldest versions first.
# ~ young.sort(key=lambda place: made[place]) ==> pass
# %% wrong: a smaller batch => values
# > with fewer rollouts than a batch needs, nothing is trained on: return an empty list.
# ~ if len(young) >= batch else [] ==> if young else []
# %% wrong: in the order of versions => values
# > the rollouts are right; return their places in increasing order.
# ~ sorted(young[:batch]) ==> young[:batch]
'''
