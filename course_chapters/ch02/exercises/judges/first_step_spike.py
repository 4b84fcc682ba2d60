from collections.abc import Mapping, Sequence

from course_chapters.ch02.exercises.first_step_spike import PHASES
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, near, shown
from course_grader.judging.per_row import CLOSE, Series, Word, shares, table
from course_grader.judging.random_inputs import draw_rows, one_apart, rounded, unseen
from course_lib.estimate.units import GB, bytes_text

Job = Mapping[str, float]
right = Worked("first-step-spike")


def _apart(got: Sequence[float], want: Sequence[float]) -> Fault:
    wrong = ((name, g, w) for name, g, w in zip(PHASES, got, want, strict=True) if not near(g, w, CLOSE))
    phase, one, level = next(wrong)
    amount = bytes_text(one) if one >= 0 else describe(one)
    return "", f"{phase}: {amount} is {one / level:.3g} times the bytes alive at its worst moment."


def _spike_cases(params: Params, rng: Random) -> list[Case]:
    example = dict(params["job"])
    ranges = {"weights": (1, 9), "grads": (1, 20), "moments": (1, 40), "activations": (0.5, 40), "work": (0.1, 6)}
    drawn = draw_rows(rng, 16, *(rounded(*ends, 2) for ends in ranges.values()))
    jobs = [{name: value * GB for name, value in zip(ranges, row, strict=True)} for row in drawn]
    others = [(job,) for job in jobs]
    others += one_apart(others, right[0])
    rooms: list[tuple[Job, float]] = []
    for job in (*jobs, example):
        level = sorted(set(right[0](job)))
        rooms += [(job, rng.choice(level) * (1 + shift)) for shift in (-0.002, 0.002)]
        rooms.append((job, rng.uniform(0.5, 1.1) * level[-1]))
    rooms += one_apart(rooms, right[1])
    bare = {"weights": 2e9, "grads": 4e9, "moments": 0.0, "activations": 0.0, "work": 1e9}
    exact = {"weights": 2e9, "grads": 4e9, "moments": 8e9, "activations": 16e9, "work": 1e9}
    return [
        shown("the job shown", "values:timeline", 0, [(example,)]),
        shown(bytes_text(params["memory"]), "values:dies", 1, [(example, params["memory"])]),
        unseen(rng, "timeline", 0, "other jobs", [*others, (bare,), (exact,)]),
        unseen(rng, "dies", 1, "other devices", [*rooms, *((exact, max(right[0](exact)) - less) for less in (0, 1))]),
    ]


JUDGING = Judging(
    shares=shares(timeline=(0.25, 0.4), dies=(0.1, 0.25)),
    cases=_spike_cases,
    verdicts=table(
        Series("timeline", words=right.words(0), apart=_apart),
        Word("dies", (*PHASES, None), words=right.words(1)),
        right=right,
    ),
    why="The first step is misleading. Its forward and backward passes run without the optimizer's state, which is "
    "created at its end and stays. So a job can survive one step and run out of memory in the second forward "
    "pass. Gradients that are zeroed instead of set to None occupy memory during the forward pass for no benefit. "
    "Test a setup with two steps, not one.",
    pytorch="`optimizer.zero_grad(set_to_none=True)` is the default since PyTorch 2.0. Adam creates its state in its "
    "first `step()`, and `foreach=True` needs work space of about the parameters' size.",
)

ANSWERS = r'''# %% right: worked
between = params("first-step-spike").grads_between  # leave as is: "set to None" or "zeroed": your variant


def timeline(job: dict) -> list[float]:
    """Bytes alive at the worst moment of each of the ten phases."""
    weights, grads, moments, activations = (job[name] for name in ("weights", "grads", "moments", "activations"))
    levels = [weights]
    for step in (1, 2, 3):
        kept = weights + (moments if step > 1 else 0)
        there = grads if between == "zeroed" and step > 1 else 0
        levels.append(kept + there + activations)
        levels.append(kept + (there + activations if there else max(activations, grads)))
        levels.append(weights + moments + grads + job["work"])
    return levels


def dies_at(job: dict, memory: float) -> str | None:
    """The first phase that needs more than `memory` bytes, or None if all fit."""
    names = ["load", *(f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step"))]
    return next((name for name, level in zip(names, timeline(job), strict=True) if level > memory), None)
# %% right: the levels of one step after another, and a loop
# ~ levels.append(kept + there + activations)
# ~~ ==> levels += [weights + activations + (step > 1) * (moments + (between == "zeroed") * grads)]
# -     return next((name for name, level in zip(names, timeline(job), strict=True) if level > memory), None)
# +     for name, level in zip(names, timeline(job)):
# +         if level > memory:
# +             return name
# %% wrong: another form's gradients => values other-form unless grads_between=zeroed
# > this keeps the gradients' memory between the steps, but here it is freed.
# ~ grads if between == "zeroed" and step > 1 else 0 ==> grads if step > 1 else 0
# %% wrong: the public form's gradients => values public-form unless grads_between=set to None
# > this solves the public form; here, zeroed gradients keep their memory.
# ~ grads if between == "zeroed" and step > 1 else 0 ==> grads if False else 0
# %% wrong: state from the start => values
# > the optimizer creates its state in its first step, not before.
# ~ levels = [weights] ==> levels = [weights + moments]
# ~ (moments if step > 1 else 0) ==> moments
# %% wrong: all together => values
# > activations are freed while gradients appear.
# ~ max(activations, grads) ==> activations + grads
# %% wrong: no work => values
# > the optimizer's work space is missing.
# ~ grads + job["work"] ==> grads
# %% wrong: end of phase => values
# > this is the end of a backward pass, not its worst moment.
# ~ max(activations, grads) ==> grads
# %% wrong: half of both in a backward pass => values
# > this is the middle of a backward pass, not its worst moment.
# ~ max(activations, grads) ==> (activations + grads) / 2
# %% wrong: state after the first step only => values
# > the first step creates the optimizer's state, so it is alive in that step too.
# ~ levels.append(weights + moments + grads ==> levels.append(kept + grads
# %% wrong: activations alone => generality
# > a backward pass ends with all gradients, which may be more than the activations that it began with.
# ~ max(activations, grads) ==> activations
# %% wrong: activations in step => values
# > the backward pass has freed the activations before the optimizer steps.
# ~ grads + job["work"] ==> grads + job["work"] + activations
# %% wrong: first step for ever => values
# > the second step starts with the optimizer's state in memory.
# ~ (moments if step > 1 else 0) ==> 0
# ~ grads if between == "zeroed" and step > 1 ==> 0 if True
# %% wrong: everything always => values
# > not everything is alive at once.
# ~ levels = [weights] ==> return [sum(job.values())] * 10
# %% wrong: one phase early => values
# > the list begins with loading.
# ~ return levels ==> return [*levels[1:], levels[-1]]
# %% wrong: dies in the optimizer's construction => values state-from-the-start
# ~ params("first-step-spike").grads_between ==> "set to None"
# ~ if level > memory ==> if level + (job["moments"] if name in ("load", "forward 1", "backward 1") else 0) > memory
# %% wrong: the number of the phase => values no-such-word
# ~ (name for name, level in zip(names ==> (index for index, level in zip(range(10)
# %% wrong: what fits exactly dies => generality dies-for-nothing
# > what fits exactly does not die.
# ~ if level > memory ==> if level >= memory
# %% wrong: nobody ever survives => values dies-for-nothing
# > return None where every phase fits.
# ~ params("first-step-spike").grads_between ==> "set to None"
# ~ if level > memory), None ==> if level > memory), "step 3"
# %% wrong: worst not first => generality
# > this is the phase that needs the most; an earlier one already does not fit.
# ~ return next( ==> return names[timeline(job).index(max(timeline(job)))] if max(timeline(job)) > memory else next(
# %% half: the timeline alone => 3.75
# ~ return next( ==> raise NotImplementedError; next(
# %% wrong: a byte too much fits => generality fits
# > a phase that needs a byte more than there is does not fit.
# ~ if level > memory ==> if level > memory + 1
'''
