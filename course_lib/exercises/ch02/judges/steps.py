"""Judges of the memory of three training steps, phase by phase, and of a prediction of one forward pass's activations."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from course_lib import memory
from course_lib.exercises.ch02.cards.training import PHASES
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, near, prediction, verdict
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, Series, table
from course_lib.judging.draws import draw_rows, one_apart, rounded, unseen
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, bytes_text, number_text

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


FIRST_STEP_SPIKE = Judging(
    shares={"values:timeline": 0.25, "values:dies": 0.1, "generality:timeline": 0.4, "generality:dies": 0.25},
    cases=_spike_cases,
    verdicts=_spike_verdicts,
    why="The first step is misleading. Its forward and backward passes run without the optimizer's state, which is created at its end and "
    "stays. So a job can survive one step and run out of memory in the second forward pass. Gradients that are zeroed instead of set "
    "to None occupy memory during the forward pass for no benefit. Test a setup with two steps, not one.",
    pytorch="`optimizer.zero_grad(set_to_none=True)` is the default since PyTorch 2.0. Adam creates its state in its first `step()`, and "
    "`foreach=True` needs work space of about the parameters' size.",
)


# --- a prediction


def kept_by_layers(params: Params) -> float:
    """GB that all layers keep for one sequence: fused attention, 16 bits, no dropout."""
    shape = memory.shape(params["model"])
    each = memory.layer_bytes(shape, 1, params["seq"], kernels="flash", dtype="bf16", dropout=False)
    return params["layers"] * each / GB


def _reveal(params: Params) -> str:
    kept, token = kept_by_layers(params), params["seq"] * params["layers"] * params["hidden"] * 2 / GB
    tensors, weights = number_text(kept / token), number_text(2 * params["params"] / GB)
    return (
        f"{number_text(kept)} GB, or {tensors} tensors of shape (tokens, hidden) in each layer. The weights take {weights} GB in "
        f"16 bits. Checkpointing every layer keeps one tensor per layer, {number_text(token)} GB."
    )


PREDICT_ACTIVATIONS = prediction(
    unit="GB",
    reveal=_reveal,
    truth=kept_by_layers,
    why="The backward pass needs every input of a matrix product, and the inputs of each norm, activation function and attention: about "
    "twenty tensors per layer, the MLP's being the widest. They grow with tokens and layers, and sharding the state does not reduce them.",
)
