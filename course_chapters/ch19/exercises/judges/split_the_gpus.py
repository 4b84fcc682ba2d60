"""Judge of split-the-gpus: how many generate, how many train?"""

import random
from typing import Any

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, Word, shares, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, plain, unseen
from course_grader.judging.worked import judged_variant
from course_grader.records import Case

right = Worked("split-the-gpus")
Row = tuple[Any, ...]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def clear(row: Row) -> bool:
        """Whether the best split is the only one within rounding, in both loops."""
        forms = []
        for loop in ("one step off", "synchronous"):
            with judged_variant("split-the-gpus", {"loop": loop}):
                forms.append(sorted(right[0](g, row[0] - g, *row[1:]) for g in range(1, row[0])))
        return all(len(each) == 1 or each[1] > each[0] * (1 + 1e-6) for each in forms)

    work, sync = range(200, 9000), (0.0, 1.0, 2.5, 8.0)
    steps = draw_rows(rng, 6, range(1, 30), range(1, 30), work, work, sync)
    splits = draw_rows(rng, 6, range(4, 40), work, work, sync, keep=clear)
    far = draw_rows(rng, 4, range(70, 130), range(9000, 20_000), range(200, 900), sync, keep=clear)
    far += draw_rows(rng, 4, range(16, 33), range(200, 900), range(9000, 20_000), sync, keep=clear)
    ties = [(2, 64.0, 32.0, 1.0), (4, 0.0, 0.0, 1.0), (3, 0.0, 0.0, 0.0)]
    both = []  # at, just under and just over the switch at which both ways take equally long
    for gpus, generate, train, late in ((8, 128.0, 128.0, 2.0), (16, 512.0, 512.0, 0.5), (4, 96.0, 96.0, 1.0)):
        split = right[1](gpus, generate, train, late)
        even = right[0](split, gpus - split, generate, train, late) - (generate + train) / gpus
        both += [(gpus, generate, train, late, even + off) for off in (0.0, 0.001, -0.001, 3.0) if even + off >= 0]
    words = [(gpus, *some, sync, rng.choice((0.0, 5.0, 60.0))) for gpus, *some, sync in splits]
    return [
        shown("12 generators, 4 trainers", "values:step", 0, [(12, 4, 960.0, 300.0, 2.0)]),
        shown("16 GPUs", "values:split", 1, [(16, 960.0, 300.0, 2.0)]),
        shown(
            "16 GPUs, apart or together", "values:way", 2, [(16, 960.0, 300.0, 2.0, 0.5), (16, 960.0, 300.0, 2.0, 60.0)]
        ),
        plain("step", 0, "other sides", steps),
        plain("split", 1, "other numbers of GPUs", splits),
        plain("way", 2, "other jobs", words),
        generality("step", 0, "one number changes", each_changed((8, 4, 640.0, 320.0, 3.0), (5, 3, 900.0, 100.0, 0.0))),
        generality("step", 0, "the trainer is slower", [(30, 2, 640.0, 900.0, 3.0), (9, 1, 90.0, 400.0, 8.0)]),
        unseen(rng, "split", 1, "many GPUs, two, equals", [*far, *ties]),
        generality("way", 2, "both sides of equal times", both),
    ]


JUDGING = Judging(
    shares=shares(step=(0.2, 0.15), split=(0.2, 0.2), way=(0.1, 0.15)),
    cases=_cases,
    verdicts=table(
        Column(
            part="step",
            unit="seconds",
            want=right[0],
            words=lambda generators, trainers, generate, train, sync: (
                f"{generators} + {trainers} GPUs, {generate:g} and {train:g} GPU-seconds, a sync of {sync:g} s"
            ),
        ),
        Column(
            part="split",
            unit="GPUs",
            want=right[1],
            words=lambda gpus, generate, train, sync: (
                f"{gpus} GPUs, {generate:g} and {train:g} GPU-seconds, a sync of {sync:g} s"
            ),
            rel=EXACT,
        ),
        Word(
            part="way",
            choices=("apart", "together"),
            want=right[2],
            words=lambda gpus, generate, train, sync, switch: (
                f"{gpus} GPUs, {generate:g} and {train:g} GPU-seconds, a sync of {sync:g} s or a switch of {switch:g} s"
            ),
        ),
    ),
    why="""If both sides work at the same time, the slower one sets the pace, and the best split makes their times
equal. The GPUs are then as busy as if all did everything in turn. So the choice depends on the sync and the switch, on
the long tail, and on whether old rollouts are acceptable. In a synchronous loop on separate GPUs one side always
waits.""",
    pytorch="verl and NeMo-RL have both placements, colocated and separate, and one asynchronous loop each.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
loop = params("split-the-gpus").loop  # leave as is: the loop is "one step off" or "synchronous"


def step_seconds(generators: int, trainers: int, generate: float, train: float, sync: float) -> float:
    """Seconds of a step in a long run."""
    ### BEGIN SOLUTION
    sides = generate / generators + sync, train / trainers
    return max(sides) if loop == "one step off" else sum(sides)
    ### END SOLUTION


def best_split(gpus: int, generate: float, train: float, sync: float) -> int:
    """The number of generators with the shortest step."""
    ### BEGIN SOLUTION
    return min(range(1, gpus), key=lambda count: step_seconds(count, gpus - count, generate, train, sync))
    ### END SOLUTION


def apart_or_together(gpus: int, generate: float, train: float, sync: float, switch: float) -> str:
    """The quicker way to use the GPUs."""
    ### BEGIN SOLUTION
    count = best_split(gpus, generate, train, sync)
    apart = step_seconds(count, gpus - count, generate, train, sync)
    return "together" if (generate + train) / gpus + switch <= apart else "apart"
    ### END SOLUTION

# %% right: all splits in a list
# -     return min(range(1, gpus), key=lambda count: step_seconds(count, gpus - count, generate, train, sync))
# +     every = [step_seconds(count, gpus - count, generate, train, sync) for count in range(1, gpus)]
# +     return 1 + every.index(min(every))
# ~ "together" if (generate + train) / gpus + switch <= apart else "apart"
# ~~ ==> "apart" if (generate + train) / gpus + switch > apart else "together"
# %% wrong: the other loop => values
# > this is the step of the other loop: one in which the sides wait for each other, or one in which they do not.
# ~ loop == "one step off" ==> loop != "one step off"
# %% wrong: no sync => values
# > the generators also wait for their weights.
# ~ generate / generators + sync, ==> generate / generators + 0 * sync,
# %% wrong: the trainer syncs, too => values
# > only the generators wait for the sync.
# ~ train / trainers ==> train / trainers + sync
# %% wrong: all GPUs on each side => values
# > each side has only its own GPUs.
# ~ generate / generators + sync, train / trainers
# ~~ ==> generate / (generators + trainers) + sync, train / (generators + trainers)
# %% wrong: half and half => values
# > half of the GPUs on each side is not the best split here.
# ~ return min(range(1, gpus), key=lambda count: step_seconds(count, gpus - count, generate, train, sync))
# ~~ ==> return gpus // 2
# %% wrong: trainers => values
# > this is the number of trainers.
# ~ return min(range ==> return gpus - min(range
# %% wrong: the largest of equals => generality
# > fewer generators give an equally short step.
# ~ range(1, gpus), ==> range(gpus - 1, 0, -1),
# %% wrong: 64 generators at most => generality -
# ~ range(1, gpus), ==> range(1, min(gpus, 65)),
# %% wrong: in proportion, rounded => generality
# > this divides the GPUs in proportion to the work and rounds; compare whole numbers of GPUs.
# ~ return min(range(1, gpus), key=lambda count: step_seconds(count, gpus - count, generate, train, sync))
# ~~ ==> return min(gpus - 1, max(1, round(gpus * generate / ((generate + train) or 1))))
# %% wrong: apart if equal => generality
# > both take equally long: together, because its rollouts are never old.
# ~ + switch <= apart ==> + switch < apart
# %% wrong: no switch => values
# > the GPUs also have to switch.
# ~ + switch <= apart ==> <= apart
# %% wrong: always apart => values always-the-same
# ~ "together" if ==> "apart" if
# %% wrong: the sides in turn are the longer one => values
# > together, a step takes the time of both sides, one after the other.
# ~ (generate + train) / gpus ==> max(generate, train) / gpus
# %% wrong: left as it is => not-answered
# ~ sides = generate ==> raise NotImplementedError; sides = generate
'''
