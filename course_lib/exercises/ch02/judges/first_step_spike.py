"""Judge of first-step-spike: the second step is not the first."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from course_lib.exercises.ch02.first_step_spike import PHASES
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, near, verdict
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, Series, table
from course_lib.judging.draws import draw_rows, one_apart, rounded, unseen
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, bytes_text

Job = Mapping[str, float]


def phases(
    between: str, job: Job, *, from_the_start: bool = False, backward: Callable[[float, float], float] = max
) -> list[float]:
    """Bytes at the worst moment of each phase; `from_the_start`: as if the optimizer's state existed before its first step.

    `backward`: the bytes that activations and gradients need in a backward pass that finds no gradients.
    """
    weights, grads, moments = job["weights"], job["grads"], job["moments"]
    found = [weights + (moments if from_the_start else 0)]
    for step in (1, 2, 3):
        kept = weights + (moments if step > 1 or from_the_start else 0)
        stay = grads if between == "zeroed" and step > 1 else 0
        found += [
            kept + stay + job["activations"],
            kept + (stay + job["activations"] if stay else backward(job["activations"], grads)),
            weights + moments + grads + job["work"],
        ]
    return found


def death(between: str, job: Job, room: float, *, from_the_start: bool = False) -> str | None:
    """The first phase that does not fit."""
    levels = zip(PHASES, phases(between, job, from_the_start=from_the_start), strict=True)
    return next((name for name, level in levels if level > room), None)


CREATED = "the first step creates the optimizer's state."


def _timeline(between: str) -> Series:
    other, other_name, other_message = (
        ("set to None", "public-form", "this solves the public form; here, zeroed gradients keep their memory.")
        if between == "zeroed"
        else ("zeroed", "other-form", "this keeps the gradients' memory between the steps, but here it is freed.")
    )

    def want(job: Job) -> list[float]:
        return phases(between, job)

    def repeated(job: Job) -> list[float]:
        return [want(job)[0], *want(job)[1:4] * 3]

    def activations_in_steps(job: Job) -> list[float]:
        more = [0.0, *(0.0, 0.0, job["activations"]) * 3]
        return [level + extra for level, extra in zip(want(job), more, strict=True)]

    def backward(needs: Callable[[float, float], float]) -> Callable[[Job], list[float]]:
        return lambda job: phases("set to None", job, backward=needs)

    def apart(got: Sequence[float], want: Sequence[float]) -> Fault:
        wrong = ((name, g, w) for name, g, w in zip(PHASES, got, want, strict=True) if not near(g, w, CLOSE))
        phase, one, right = next(wrong)
        amount = bytes_text(one) if one >= 0 else describe(one)
        return "", f"{phase}: {amount} is {one / right:.3g} times the bytes alive at its worst moment."

    return Series(
        part="timeline", want=want, words=lambda job: f"{bytes_text(job['weights'])} of weights", apart=apart
    ).knowing(
        Mistake("state-from-the-start", lambda job: phases(between, job, from_the_start=True), CREATED),
        Mistake(other_name, lambda job: phases(other, job), other_message),
        Mistake("no-work", lambda job: want({**job, "work": 0.0}), "the optimizer's work space is missing."),
        Mistake("everything-always", lambda job: [sum(job.values())] * 10, "not everything is alive at once."),
        Mistake("all-together", backward(lambda a, g: a + g), "activations are freed while gradients appear."),
        Mistake("end-of-phase", backward(lambda a, g: g), "this is the end of each phase, not its worst moment."),
        Mistake("activations-in-step", activations_in_steps, "the backward pass has freed the activations."),
        Mistake("first-step-for-ever", repeated, "the second step starts with the optimizer's state in memory."),
        Mistake("gigabytes", lambda job: [level / GB for level in want(job)], "these are GB; return bytes."),
        Mistake("one-phase-early", lambda job: [*want(job)[1:], want(job)[-1]], "the list begins with loading."),
    )


def _death_fault(between: str, row: tuple[Job, float], value: str | None) -> Fault | None:
    job, room = row
    want, where = death(between, job, room), f"{bytes_text(room)} of memory"
    value = value if value is None else value.strip().lower()
    if value == want:
        return None
    if value == death(between, job, room, from_the_start=True):
        return "state-from-the-start", f"{where}: the optimizer creates its state in its first step, not before."
    if value is None:
        return "fits", f"{where}: you return None, but one phase needs more."
    if want is None:
        return "dies-for-nothing", f"{where}: you return {value!r}, but every phase fits."
    levels = dict(zip(PHASES, phases(between, job), strict=True))
    if levels[value] == max(levels.values()):
        return "worst-not-first", f"{where}: {value!r} needs the most, but an earlier phase already does not fit."
    return "", f"{where}: {value!r} is not the first phase that does not fit."


def _deaths_fault(between: str, case: Case, values: Sequence[str | None]) -> Fault | None:
    if len(values) > 2 and all(value is None for value in values):
        return "returned-none", "The function returns None for every device: is a `return` missing?"
    if len(values) > 2 and len(set(values)) == 1:
        return "only-the-example", f"{case.name}: the function returns the same phase for every device."
    return first(*(_death_fault(between, *given) for given in zip(case.args[1], values, strict=True)))


def _spike_verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    between = params["grads_between"]
    if case.args[0] == 0:
        return table(_timeline(between))(params, case, outcome)
    return [verdict(case.kind, "dies", case, _deaths_fault(between, case, outcome.value))]


def _spike_cases(params: Params, rng: random.Random) -> list[Case]:
    between = params["grads_between"]
    example = dict(params["job"])

    ranges = {"weights": (1, 9), "grads": (1, 20), "moments": (1, 40), "activations": (0.5, 40), "work": (0.1, 6)}
    drawn = draw_rows(rng, 16, *(rounded(*ends, 2) for ends in ranges.values()))
    jobs = [{name: value * GB for name, value in zip(ranges, row, strict=True)} for row in drawn]
    others = [(job,) for job in jobs]
    others += one_apart(others, partial(phases, between))
    rooms: list[tuple[Job, float]] = []
    for job in (*jobs, example):
        level = sorted(set(phases(between, job)))
        rooms += [(job, rng.choice(level) * (1 + shift)) for shift in (-0.002, 0.002)]
        rooms.append((job, rng.uniform(0.5, 1.1) * level[-1]))
    rooms += one_apart(rooms, partial(death, between))
    bare = {"weights": 2e9, "grads": 4e9, "moments": 0.0, "activations": 0.0, "work": 1e9}
    exact = {"weights": 2e9, "grads": 4e9, "moments": 8e9, "activations": 16e9, "work": 1e9}
    return [
        shown("the job shown", "values:timeline", 0, [(example,)]),
        shown(bytes_text(params["memory"]), "values:dies", 1, [(example, params["memory"])]),
        unseen(rng, "timeline", 0, "other jobs", [*others, (bare,), (exact,)]),
        unseen(
            rng, "dies", 1, "other devices", [*rooms, *((exact, max(phases(between, exact)) - less) for less in (0, 1))]
        ),
    ]


JUDGING = Judging(
    shares={"values:timeline": 0.25, "values:dies": 0.1, "generality:timeline": 0.4, "generality:dies": 0.25},
    cases=_spike_cases,
    verdicts=_spike_verdicts,
    why="The first step is misleading. Its forward and backward passes run without the optimizer's state, which is created at its end and "
    "stays. So a job can survive one step and run out of memory in the second forward pass. Gradients that are zeroed instead of set "
    "to None occupy memory during the forward pass for no benefit. Test a setup with two steps, not one.",
    pytorch="`optimizer.zero_grad(set_to_none=True)` is the default since PyTorch 2.0. Adam creates its state in its first `step()`, and "
    "`foreach=True` needs work space of about the parameters' size.",
)

ANSWERS = r"""# %% right: phase by phase
def timeline(job):
    weights, grads, moments = job["weights"], job["grads"], job["moments"]
    levels = [weights]
    for step in (1, 2, 3):
        kept = weights + (moments if step > 1 else 0)
        levels += [
            kept + job["activations"],
            kept + max(job["activations"], grads),
            weights + moments + grads + job["work"],
        ]
    return levels


def dies_at(job, memory):
    names = ["load"] + [f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step")]
    for name, level in zip(names, timeline(job)):
        if level > memory:
            return name
    return None


# %% right: any variant  from: phase by phase
#   def timeline(job):
# +     from course_lib import params
# +     zeroed = params("first-step-spike").grads_between == "zeroed"
#       for step in (1, 2, 3):
# +         stay = grads if zeroed and step > 1 else 0
# -             kept + job["activations"],
# -             kept + max(job["activations"], grads),
# +             kept + stay + job["activations"],
# +             kept + (stay + job["activations"] if stay else max(job["activations"], grads)),

# %% wrong: the optimizer's bytes from the start => values state-from-the-start  from: phase by phase
# ~ [weights] ==> [weights + moments]
# ~ (moments if step > 1 else 0) ==> moments

# %% wrong: gradients stay => values other-form unless grads_between=zeroed  from: phase by phase
# ~ kept = weights + (moments if step > 1 else 0) ==> kept = weights + (moments + grads if step > 1 else 0)
# -             kept + max(job["activations"], grads),
# +             (kept + job["activations"] if step > 1 else kept + max(job["activations"], grads)),

# %% wrong: activations and gradients together => values all-together  from: phase by phase
# ~ max(job["activations"], grads) ==> job["activations"] + grads

# %% wrong: no work space => values no-work  from: phase by phase
# ~ grads + job["work"] ==> grads

# %% wrong: the end of each phase => values end-of-phase  from: phase by phase
# ~ max(job["activations"], grads) ==> grads

# %% wrong: activations while the optimizer steps => values activations-in-step  from: phase by phase
# ~ ["work"], ==> ["work"] + job["activations"],

# %% wrong: every step like the first => values first-step-for-ever  from: phase by phase
# ~ (moments if step > 1 else 0) ==> 0


# %% wrong: everything always => values everything-always  from: phase by phase
def timeline(job):
    return [sum(job.values())] * 10


# %% wrong: gigabytes => values gigabytes  from: phase by phase
# ~ return levels ==> return [level / 1e9 for level in levels]

# %% wrong: loading is left out => values wrong-shape  from: phase by phase
# ~ [weights] ==> []

# %% wrong: dies in the optimizer's construction => values state-from-the-start  from: phase by phase
# ~ level > memory ==> level + (job["moments"] if name in ("load", "forward 1", "backward 1") else 0) > memory


# %% wrong: the number of the phase => values no-such-word  from: phase by phase
def dies_at(job, memory):
    return next((index for index, level in enumerate(timeline(job)) if level > memory), None)


# %% wrong: what fits exactly dies => generality dies-for-nothing  from: phase by phase
# ~ if level > memory: ==> if level >= memory:


# %% wrong: nobody ever survives => values dies-for-nothing  from: phase by phase
def dies_at(job, memory):
    names = ["load"] + [f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step")]
    return next((name for name, level in zip(names, timeline(job)) if level > memory), "step 3")


# %% wrong: the phase that needs most => generality worst-not-first  from: nobody ever survives
# -     return next((name for name, level in zip(names, timeline(job)) if level > memory), "step 3")
# +     levels = timeline(job)
# +     return names[levels.index(max(levels))] if max(levels) > memory else None


# %% half: the timeline alone => 3.75  from: phase by phase
def dies_at(job, memory):
    raise NotImplementedError


# %% wrong: a byte too much fits => generality fits  from: phase by phase
# ~ if level > memory: ==> if level > memory + 1:
"""
