import random
from collections.abc import Sequence

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Series, shares, table
from course_grader.judging.random_inputs import generality, plain
from course_grader.records import Case

right = Worked("group-advantages")


def _words(rewards: Sequence[float], questions: Sequence[int]) -> str:
    return f"{len(rewards)} answers to {len(set(questions))} questions"


def _mixed(rng: random.Random, sizes: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[int]]:
    """Answers in a random order, with numbers of questions that do not count from 0."""
    names = rng.sample(range(3, 90), len(sizes))
    owners = [name for name, size in zip(names, sizes, strict=True) for _ in range(size)]
    rng.shuffle(owners)
    return [rng.choice(values) for _ in owners], owners


def _cases(params: Params, rng: random.Random) -> list[Case]:
    first = [(params["first"], 0, 1, params["first"]), (7, 7, 3, 7)]
    example = (list(map(float, first[0])), list(first[1]))
    equal = ([1.0, 1.0, 1.0, 0.0, 0.5, 0.0], [5, 5, 5, 2, 2, 2])
    tenths = ([0.1] * 3 + [0.7] * 6 + [0.2, 0.4], [4] * 3 + [9] * 6 + [1, 1])
    alone = ([2.0, 0.5, 1.0, 3.0], [8, 1, 1, 6])
    mixed = [_mixed(rng, (4, 4, 4), (0.0, 1.0)), _mixed(rng, (3, 5, 2, 4), (0.0, 0.25, 1.0, -1.0))]
    ties = ([1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 2.0, 5.0], [3, 3, 3, 3, 0, 0, 0, 0])
    near = ([1e6, 1e6 + 1, 1e6 + 2, 0.0, 1e-6], [1, 1, 1, 2, 2])
    canceling = ([-1.0, 0.0, 1.0, -2.0, 2.0, 0.0], [6, 6, 6, 4, 4, 4])  # rewards of mean 0 among the others
    wide = _mixed(rng, [rng.randrange(1, 12) for _ in range(30)], (0.0, 0.0, 1.0))
    mixed += [([1.0 - reward for reward in mixed[0][0]], mixed[0][1]), (mixed[0][0], sorted(mixed[0][1]))]
    mixed += [([0.0] * 12, mixed[0][1])]
    cases = [shown("the example", "values:advantages", 0, [example]), shown("it", "values:useful", 1, [example])]
    for part, index in (("advantages", 0), ("useful", 1)):
        cases += [
            plain(part, index, "mixed answers", [*mixed, ties, canceling]),
            generality(part, index, "equal rewards", [equal, tenths]),
            generality(part, index, "single answers, and none", [alone, ([], []), ([4.0], [0])]),
            generality(part, index, "large and small rewards, many questions", [near, wide]),
        ]
    return cases


JUDGING = Judging(
    shares=shares(advantages=(0.4, 0.2), useful=(0.2, 0.2)),
    cases=_cases,
    verdicts=table(
        Series(part="advantages", want=right[0], words=_words, each="answer", rel=1e-6),
        Series(part="useful", want=right[1], words=_words, each="useful question"),
    ),
    why="""The mean over a group is an estimate of the question's value that needs no critic. An answer is worth what it
has above that mean. If all answers are right or all are wrong, the group says nothing, and a job that wants steps of
one size asks further questions until enough groups are mixed. Division by the standard deviation makes questions weigh
alike; it also makes the rare mixed answers to easy and hard questions weigh more.""",
    pytorch="TRL's `GRPOTrainer` and verl's `compute_grpo_outcome_advantage` call `torch.std`, which divides by n − 1, "
    "and add a small number to it; `scale_rewards=False` and `norm_adv_by_std_in_grpo=False` leave the division out.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
kind = params("group-advantages").kind  # leave as is: "scaled" or "centered"


def advantages(rewards: list[float], questions: list[int]) -> list[float]:
    """The advantage of each answer."""
    ### BEGIN SOLUTION
    groups = {}
    for reward, question in zip(rewards, questions, strict=True):
        groups.setdefault(question, []).append(reward)
    found = []
    for reward, question in zip(rewards, questions, strict=True):
        group = groups[question]
        mean = sum(group) / len(group)
        squares = sum((each - mean) ** 2 for each in group)
        spread = (squares / max(len(group) - 1, 1)) ** 0.5 if kind == "scaled" else 1.0
        found.append(0.0 if max(group) == min(group) else (reward - mean) / spread)
    return found
    ### END SOLUTION


def useful(rewards: list[float], questions: list[int]) -> list[int]:
    """The questions that a step can learn from."""
    ### BEGIN SOLUTION
    pairs = set(zip(questions, rewards, strict=True))
    return sorted({one for one, _ in pairs if sum(question == one for question, _ in pairs) > 1})
    ### END SOLUTION

# %% right: with statistics
# ~ groups = {} ==> from statistics import fmean, stdev
# +     groups = {}
# ~ mean = sum(group) / len(group) ==> mean = fmean(group)
# ~ (squares / max(len(group) - 1, 1)) ** 0.5 if ==> stdev(group) if len(group) > 1 and
# ~ 0.0 if max(group) == min(group) else ==> 0 if len(set(group)) == 1 else
# ~ pairs = set( ==> pairs = list(
# ~ {one for one, _ in pairs if sum(question == one for question, _ in pairs) > 1}
# ~~ ==> {one for one, r in pairs if any(question == one and r != other for question, other in pairs)}
# %% wrong: the mean of all answers => values
# > the baseline is the mean over all answers; it must be the mean over the answers to the same question.
# ~ mean = sum(group) / len(group) ==> mean = sum(rewards) / len(rewards)
# %% wrong: one group of all answers => values unless kind=centered
# > mean and deviation are those of all answers; both must be those of the answers to the same question.
# ~ group = groups[question] ==> group = rewards if kind == "scaled" else groups[question]
# %% wrong: without the answer itself => values
# > this compares an answer with the others; the mean of the question's rewards includes its own.
# ~ mean = sum(group) / len(group) ==> mean = (sum(group) - reward) / max(len(group) - 1, 1)
# %% wrong: no baseline => values
# > the mean of the question's rewards is not subtracted.
# ~ (reward - mean) / spread ==> reward / spread
# %% wrong: over n => values unless kind=centered
# > the squares are divided by n; the statement asks for n − 1.
# ~ max(len(group) - 1, 1) ==> len(group)
# %% wrong: the variance => values unless kind=centered
# > this divides by the variance, not by its root.
# ~ ** 0.5 if ==> ** 1.0 if
# %% wrong: never scaled => values unless kind=centered
# > the difference is not divided by the standard deviation.
# ~ if kind == "scaled" else 1.0 ==> if kind == "none" else 1.0
# %% wrong: always scaled => values unless kind=scaled
# > the difference is divided by the standard deviation, which this variant leaves out.
# ~ if kind == "scaled" else 1.0 ==> or 1.0
# %% wrong: neighbors are a group => values -
# ~ groups.setdefault(question, []).append(reward) ==> groups[question] = rewards[:4]
# %% wrong: a rounded mean divided by its rounding => generality ~ unless kind=centered
# ~ 0.0 if max(group) == min(group) else (reward - mean) / spread ==> (reward - mean) / (spread or 1.0)
# %% wrong: a small number beside the spread => values unless kind=centered
# > the standard deviation has a small number added to it; the statement adds none.
# ~ ** 0.5 if kind ==> ** 0.5 + 1e-4 if kind
# %% wrong: a smaller number beside the spread => values unless kind=centered
# > the standard deviation has a small number added to it, as some libraries do; this statement adds none.
# ~ ** 0.5 if kind ==> ** 0.5 + 1e-6 if kind
# %% wrong: all questions are useful => values
# > a question whose rewards are all equal teaches nothing.
# ~ > 1}) ==> > 0})
# %% wrong: every answer is useful => values wrong-length
# ~ sorted({one for one, _ in pairs if sum(question == one for question, _ in pairs) > 1})
# ~~ ==> sorted([one for one, _ in pairs if sum(question == one for question, _ in pairs) > 1])
# %% wrong: useful if an answer is right => values all-questions-are-useful
# ~ sum(question == one for question, _ in pairs) > 1}) ==> any(q == one and r > 0 for q, r in pairs)})
# %% wrong: in the order of arrival => values
# > return the questions in increasing order.
# ~ sorted({one for one, _ in pairs if sum(question == one for question, _ in pairs) > 1})
# ~~ ==> list({one: 0 for one in questions if sum(question == one for question, _ in pairs) > 1})
'''
