import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, shares, table
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case

right = Worked("partial-rollouts")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def lengths(count: int) -> list[int]:
        return [round(rng.lognormvariate(6, 1)) + 10 for _ in range(count)]

    shares_of = [(lengths(n), rng.choice((20, 40, 50)), rng.choice((0, 10, 30))) for n in (2, 5, 8, 13)]
    steps = [(some := lengths(n), rng.choice((20, 40)), rng.randint(1, len(some) - 1)) for n in (3, 5, 8, 13)]
    ties = [([400, 300, 300, 300, 100], 50, batch) for batch in (1, 2, 3, 4, 5)]
    lone = [([700], 70, 1), ([90, 90, 90], 30, 1), ([90, 90, 90], 30, 3), ([], 50, 0)]
    return [
        shown("four GPUs wait", "values:idle", 0, [([500, 900, 2000, 600], 50, 20.0)]),
        shown("generation stops after two", "values:time", 1, [([500, 900, 2000, 600], 50, 2)]),
        plain("idle", 0, "other lengths", shares_of),
        plain("time", 1, "other lengths", steps),
        unseen(rng, "idle", 0, "one GPU, equal lengths, none", [([700], 70, 10), ([90] * 3, 30, 0), ([90] * 3, 30, 5)]),
        generality("idle", 0, "no rollout", [([], 50, 10), ([80, 160], 40, 0)]),
        generality("idle", 0, "one number changes", each_changed(([80, 160], 40, 3), ([60, 160], 20, 5))),
        generality("time", 1, "rollouts that end at the same moment, and none", ties + lone),
        generality("time", 1, "one number changes", each_changed(([80, 160, 240], 40, 2), ([60, 160, 200], 20, 1))),
    ]


JUDGING = Judging(
    shares=shares(idle=(0.2, 0.25), time=(0.1, 0.15), old=(0.15, 0.15)),
    cases=_cases,
    verdicts=table(
        Column(part="idle", unit="(a fraction of one)", want=right[0], words=right.words(0)),
        (
            Column(part="time", unit="seconds", want=lambda *row: right[1](*row)[0], words=right.words(1)),
            Column(part="old", unit="tokens", want=lambda *row: right[1](*row)[1], words=right.words(1), rel=EXACT),
        ),
    ),
    why="""With a long tail the mean rollout is far shorter than the longest, so most of a synchronous step is waiting.
Stopping early ends the wait. The price is paid later: the unfinished rollouts carry tokens that older weights
generated, and the loss must know which.""",
    pytorch="Kimi k1.5 calls these partial rollouts; AReaL, prime-rl and verl's fully asynchronous trainer interrupt "
    "rollouts at each weight update.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
trains = params("partial-rollouts").trains  # leave as is: the trainer's GPUs are "elsewhere", or they are "here"


def idle_share(lengths: list, speed: float, train: float) -> float:
    """The idle share of the GPUs' time if all wait for the longest rollout."""
    ### BEGIN SOLUTION
    if not lengths:
        return 0.0
    step = max(lengths) / speed + train
    busy = sum(lengths) / len(lengths) / speed + (train if trains == "here" else 0)
    return 1 - busy / step
    ### END SOLUTION


def partial_step(lengths: list, speed: float, batch: int) -> tuple[float, int]:
    """(seconds, tokens in unfinished rollouts) if generation stops after `batch` rollouts."""
    ### BEGIN SOLUTION
    if not lengths:
        return 0.0, 0
    last = sorted(lengths)[batch - 1]
    return last / speed, last * sum(length > last for length in lengths)
    ### END SOLUTION

# %% right: from the idle seconds
# ~ busy = sum(lengths) / len(lengths) / speed + (train if trains == "here" else 0)
# ~~ ==> idle = sum(max(lengths) - each for each in lengths) / len(lengths) / speed + train * (trains != "here")
# ~ 1 - busy / step ==> idle / step
# ~ last * sum(length > last for length in lengths) ==> sum(min(each, last) for each in lengths if each > last)
# %% wrong: the busy share => values
# > this is the share in which the GPUs are busy.
# ~ return 1 - busy / step ==> return busy / step
# %% wrong: the other GPUs train => values
# > this counts the training time the other way: whether it is idle depends on which GPUs train.
# ~ trains == "here" ==> trains != "here"
# %% wrong: training takes no time => values
# > the step also contains the training.
# ~ / speed + train ==> / speed
# ~ + (train if trains == "here" else 0) ==> + 0 * train
# %% wrong: idle seconds => values
# > these are seconds of a GPU; divide them by the seconds of the step.
# ~ return 1 - busy / step ==> return step - busy
# %% wrong: the median => values
# > this takes the middle rollout for the mean.
# ~ sum(lengths) / len(lengths) / speed ==> sorted(lengths)[len(lengths) // 2] / speed
# %% wrong: no rollout fails => generality raised
# -     if not lengths:
# -         return 0.0
#       step = max(lengths) / speed + train
# %% wrong: the next one => values
# > this waits for one rollout more than `batch`.
# ~ sorted(lengths)[batch - 1] ==> sorted(lengths)[min(batch, len(lengths) - 1)]
# %% wrong: the order in the list => values
# > the first rollouts in the list are not the first to be complete.
# ~ sorted(lengths)[batch - 1] ==> lengths[batch - 1]
# %% wrong: as many as are left => generality
# > more than `batch` rollouts may be complete when generation stops.
# ~ sum(length > last for length in lengths) ==> (len(lengths) - batch)
# %% wrong: what they still lack => values
# > these are the tokens that the unfinished rollouts still lack; count those that they have.
# ~ last * sum(length > last for length in lengths) ==> sum(length - last for length in lengths if length > last)
# %% wrong: of all rollouts => values
# > this counts complete rollouts, too.
# ~ last * sum(length > last for length in lengths) ==> sum(min(length, last) for length in lengths)
# %% wrong: tokens for seconds => values
# > this is the length in tokens; divide it by the speed.
# ~ return last / speed, ==> return last,
'''
