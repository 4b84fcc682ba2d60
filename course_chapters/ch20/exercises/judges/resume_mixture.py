import random
from collections.abc import Callable, Sequence

from course_chapters.ch20.exercises.judges.shared import rows_fault_of
from course_grader.exercises.values import is_row, same_lists
from course_grader.judging import Judging, Params, Worked, describe, judged
from course_grader.judging.cases import shown
from course_grader.judging.random_inputs import each_changed, generality, plain, unseen
from course_grader.records import Case, Outcome, Verdict
from course_lib.messages import count_text

right = Worked("resume-mixture")
Row = tuple[object, ...]
Stream = tuple[list[int], list[float]]  # samples and weights of each dataset


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def stream(count: int, most: int = 60) -> Stream:
        """Samples and weights of some datasets; sixty-fourths, so that every lag is exact."""
        cuts = sorted(rng.sample(range(1, 64), count - 1))
        parts = [b - a for a, b in zip([0, *cuts], [*cuts, 64], strict=True)]
        return [rng.randint(5, most) for _ in range(count)], [part / 64 for part in parts]

    def later(samples: Sequence[int], weights: object, count: int) -> object:
        return right[0]([0] * len(samples), samples, weights, count)[1]

    def resume(samples: Sequence[int], weights: object, steps: int, ahead: int, batch: int, ranks: int) -> Row:
        return later(samples, weights, (steps + ahead) * batch), ahead, samples, weights, batch, ranks

    first: Stream = [40, 90, 30, 25, 70][: params["datasets"]], [0.25, 0.75 - 0.125 * (params["datasets"] - 2)]
    first[1].extend([0.125] * (params["datasets"] - 2))
    others = [stream(count) for count in (2, 3, 4, 5)]
    begun = [(later(*each, at), *each, 9) for each, at in zip(others, (11, 50, 33, 5), strict=True)]
    small = [stream(count, 6) for count in (2, 3, 4)]
    ties: list[Stream] = [([9] * count, [1 / count] * count) for count in (2, 4, 8)]
    again: list[Row] = [(later(*small[0], 70), *small[0], 12), ([0] * 4, *ties[1], 13)]
    lone: Stream = ([4], [1.0])
    bad = [([0.5, 0.25], "sum"), ([0.75, 0.5], "sum"), ([1.25, -0.25], "sign"), ([1.0, 0.0], "zero")]
    return [
        shown("the first ten samples", "values:order", 0, [([0] * params["datasets"], *first, 10)]),
        shown("a resume on three ranks", "values:share", 1, [resume(*first, 2, 0, 12, 3)]),
        plain("order", 0, "later in other streams, in several epochs and with equal lags", begun + again),
        plain("share", 1, "batches read ahead", [resume(*each, 3, 2, 12, 4) for each in others]),
        unseen(rng, "order", 0, "several epochs", [(later(*each, 70), *each, 12) for each in small]),
        generality("order", 0, "equal lags", [([0] * len(each[0]), *each, 13) for each in (*ties, lone)]),
        generality(
            "order", 0, "no sample, one sample", [(row[0], *row[1:3], count) for row in begun for count in (0, 1)]
        ),
        generality(
            "order",
            0,
            "one argument changes",
            each_changed(([3, 1], [7, 9], [0.75, 0.25], 5), ([1, 3], [5, 4], [0.25, 0.75], 6)),
        ),
        generality(
            "share", 1, "parts that are not equal", [resume(*others[1], 4, 1, 10, ranks) for ranks in (1, 3, 4, 7)]
        ),
        generality("share", 1, "a resume before the first step", [resume(*each, 0, 3, 8, 4) for each in small]),
        generality(
            "share", 1, "more ranks than samples", [resume(*others[0], 2, 1, 3, 5), resume(*others[2], 1, 0, 2, 3)]
        ),
        generality(
            "share",
            1,
            "one argument changes",
            each_changed(([9, 3], 1, [7, 9], [0.75, 0.25], 4, 2), ([5, 7], 2, [5, 4], [0.25, 0.75], 3, 4)),
        ),
        generality("bad", 0, "weights that do not add up", [([2, 1], [9, 9], weights, 3) for weights, _ in bad]),
    ]


def _lists(value: object, depth: int = 4) -> object:
    """The value with lists in place of its tuples: both are right. What lies deeper than a sample stays."""
    if depth == 0 or not is_row(value):
        return value
    return [_lists(each, depth - 1) for each in value]


def _apart(case: Case) -> Callable[[object, object], str]:
    def apart(got: object, want: object) -> str:
        got, want = _lists(got), _lists(want)
        if case.args[0] == 0 and is_row(want) and is_row(got) and len(got) == 2:
            if not same_lists(got[0], want[0]):
                return (
                    f"the samples are {describe(got[0])}; the first that differs is not the one with the largest lag."
                )
            return "" if same_lists(got[1], want[1]) else f"`taken` after these samples is not {describe(got[1])}."
        return "" if same_lists(got, want) else f"{describe(got)} is not what is read then."

    return apart


def _order_words(taken: object, samples: object, weights: object, count: int) -> str:
    return f"taken {taken} of {samples}, weights {weights}, {count} samples"


def _share_words(taken: object, ahead: int, samples: object, weights: object, batch: int, ranks: int) -> str:
    read = f"{count_text(ahead, 'batch', 'batches')} of {batch} read ahead"
    return f"taken {taken} of {samples}, weights {weights}, {read}, {count_text(ranks, 'rank')}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index = case.args[0]
    words = (_order_words, _share_words)[index]
    return judged(case, rows_fault_of(case, outcome.value, right[index], words, _apart(case), lambda *row: ["weights"]))


JUDGING = Judging(
    shares="values:order 0.2, values:share 0.2, generality:order 0.25, generality:share 0.25, generality:bad 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""The order of the stream is a property of the data and the weights. Ranks only divide a step of it, so the
position of a checkpoint is the number of samples that were trained on, and not what any loader has read.""",
    pytorch="Megatron-LM saves `consumed_train_samples` and builds the blend from it; torchdata's StatefulDataLoader "
    "counts the batches that were handed out, not those that its workers have prefetched.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
split = params("resume-mixture").split  # leave as is: "contiguous" or "strided" parts of a step


def advance(taken, samples, weights, count):
    """([(dataset, epoch, place), ...], taken): the next samples, and the counts after them."""
    ### BEGIN SOLUTION
    if abs(sum(weights) - 1) > 1e-6 or min(weights) <= 0:
        raise ValueError(f"weights must be positive and add up to 1: {weights}")
    taken, found = list(taken), []
    for _ in range(count):
        n = max(sum(taken), 1)
        lags = [weight * n - each for weight, each in zip(weights, taken, strict=True)]
        number = lags.index(max(lags))
        epoch, place = divmod(taken[number], samples[number])
        found.append((number, epoch, place))
        taken[number] += 1
    return found, taken
    ### END SOLUTION


def resumed(taken, ahead, samples, weights, batch, ranks):
    """The samples of each rank in the first step after a resume."""
    ### BEGIN SOLUTION
    trained = sum(taken) - ahead * batch
    _, start = advance([0] * len(samples), samples, weights, trained)
    step, _ = advance(start, samples, weights, batch)
    if split == "strided":
        return [step[rank::ranks] for rank in range(ranks)]
    return [step[batch * rank // ranks : batch * (rank + 1) // ranks] for rank in range(ranks)]
    ### END SOLUTION

# %% right: one pass, lists
# ~ found.append((number, epoch, place)) ==> found.append([number, epoch, place])
# ~ _, start = advance([0] * len(samples), samples, weights, trained)
# ~~ ==> step, _ = advance([0] * len(samples), samples, weights, trained + batch)
# ~ step, _ = advance(start, samples, weights, batch) ==> step = step[trained:]
# %% right: the largest by key
# ~ number = lags.index(max(lags)) ==> number = max(range(len(lags)), key=lambda at: (lags[at], -at))
# %% wrong: always the first epoch => values
# > a dataset that has been read to its end begins its next epoch.
# ~ found.append((number, epoch, place)) ==> found.append((number, 0, place))
# %% wrong: places go on => values
# > the next epoch begins at place 0 again.
# ~ found.append((number, epoch, place)) ==> found.append((number, epoch, taken[number]))
# %% wrong: no lag before the first sample => values
# > before the first sample every lag is 0 here; the rule takes n = 1 there, so that the largest weight begins.
# ~ n = max(sum(taken), 1) ==> n = sum(taken)
# %% wrong: the sample that comes counts => values
# > this counts the coming sample in n; the lag is that after the n samples so far.
# ~ n = max(sum(taken), 1) ==> n = sum(taken) + 1
# %% wrong: the last of equal lags => values
# > of equal lags, the first dataset comes next.
# ~ number = lags.index(max(lags)) ==> number = max(range(len(lags)), key=lambda at: (lags[at], at))
# %% wrong: the lag as a share => values
# > this compares the lag with the dataset's weight; the lag itself decides.
# ~ weight * n - each for ==> n - each / weight for
# %% wrong: the counts before => values
# > the counts returned are those before these samples.
# ~ return found, taken ==> return found, [each - sum(row[0] == at for row in found) for at, each in enumerate(taken)]
# %% wrong: weights of any sum => generality
# > weights that do not add up to 1 are accepted, so a dataset falls behind in silence.
# ~ if abs(sum(weights) - 1) > 1e-6 or min(weights) <= 0: ==> if min(weights) <= 0:
# %% wrong: negative weights => generality
# > a weight that is not positive is accepted.
# ~ if abs(sum(weights) - 1) > 1e-6 or min(weights) <= 0: ==> if abs(sum(weights) - 1) > 1e-6:
# %% wrong: what was read ahead is lost => values
# > this goes on after the batches that were only read ahead: no rank ever trains on them.
# ~ trained = sum(taken) - ahead * batch ==> trained = sum(taken)
# %% wrong: by weight from each count => values
# > each dataset's count is lowered by its weight of what was read ahead; which samples those were follows from the
# > order of the stream, so count that again from its start.
# ~ _, start = advance([0] * len(samples), samples, weights, trained)
# ~~ ==> start = [round(each - share * ahead * batch) for each, share in zip(taken, weights)]
# %% wrong: samples for batches => values
# > `ahead` counts batches, not samples.
# ~ trained = sum(taken) - ahead * batch ==> trained = sum(taken) - ahead
# %% wrong: the other split => values
# > a step is divided among the ranks in the other way.
# ~ if split == "strided": ==> if split != "strided":
# %% wrong: the remainder is dropped => generality
# > every rank gets equally many samples, and the rest of the step is never read.
# -     if split == "strided":
# -         return [step[rank::ranks] for rank in range(ranks)]
# -     return [step[batch * rank // ranks : batch * (rank + 1) // ranks] for rank in range(ranks)]
# +     each = batch // ranks
# +     if split == "strided":
# +         return [step[rank : each * ranks : ranks] for rank in range(ranks)]
# +     return [step[each * rank : each * (rank + 1)] for rank in range(ranks)]
# %% wrong: every rank reads the step => values
# > every rank reads the whole step, so each sample is trained on by all ranks.
# ~ step[rank::ranks] ==> step
# ~ step[batch * rank // ranks : batch * (rank + 1) // ranks] for ==> step for
# %% wrong: left as it is => not-answered
# ~ taken, found = list(taken), [] ==> raise NotImplementedError
'''
