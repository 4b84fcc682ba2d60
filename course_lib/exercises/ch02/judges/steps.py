"""Judges of three training steps, phase by phase, and of a prediction of what one forward pass keeps."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib import memory
from course_lib.exercises.ch02.cards.training import PHASES
from course_lib.judging import Judging, Params, describe, first, is_number, near, prediction, verdict
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, rows_fault
from course_lib.judging.draws import unseen
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, bytes_text, number_text


def phases(between: str, job: Mapping[str, float], *, from_the_start: bool = False) -> list[float]:
    """Bytes at the worst moment of each phase; `from_the_start`: with the optimizer's bytes there before its first step."""
    weights, grads, moments = job["weights"], job["grads"], job["moments"]
    found = [weights + (moments if from_the_start else 0)]
    for step in (1, 2, 3):
        kept = weights + (moments if step > 1 or from_the_start else 0)
        stay = grads if between == "zeroed" and step > 1 else 0
        found += [
            kept + stay + job["activations"],
            kept + (stay + job["activations"] if stay else max(job["activations"], grads)),
            weights + moments + grads + job["work"],
        ]
    return found


def death(between: str, job: Mapping[str, float], room: float) -> str | None:
    """The first phase that does not fit."""
    return next((name for name, level in zip(PHASES, phases(between, job), strict=True) if level > room), None)


def _timeline_slips(between: str, job: Mapping[str, float]) -> list[tuple[str, list[float], str]]:
    w, g, m, a, work = (job[name] for name in ("weights", "grads", "moments", "activations", "work"))
    other = "set to None" if between == "zeroed" else "zeroed"
    told = (
        "this solves the public form of the exercise; here the gradients are filled with zeros and stay."
        if between == "zeroed"
        else "here the gradients' memory is free between the steps."
    )
    right = phases(between, job)

    def each(forward: float, backward: float, step: float, later_forward: float, later_backward: float) -> list[float]:
        return [w, forward, backward, step, *[later_forward, later_backward, step] * 2]

    return [
        (
            "state-from-the-start",
            phases(between, job, from_the_start=True),
            "the optimizer makes what it keeps in its first step, not before.",
        ),
        ("public-form" if between == "zeroed" else "other-form", phases(other, job), told),
        ("no-work", phases(between, {**job, "work": 0.0}), "the optimizer's work space is missing."),
        ("everything-always", [w + g + m + a + work] * 10, "not everything is alive at the same time."),
        (
            "all-together",
            each(w + a, w + a + g, w + g + m + work, w + m + a, w + m + a + g),
            "activations go while gradients come: the two are not there in full together.",
        ),
        (
            "end-of-phase",
            each(w + a, w + g, w + g + m + work, w + m + a, w + m + g),
            "this is the end of each phase; its worst moment is asked for.",
        ),
        (
            "activations-in-step",
            [level + (a if index and index % 3 == 0 else 0) for index, level in enumerate(right)],
            "no activation is left when the optimizer steps.",
        ),
        (
            "first-step-for-ever",
            [*right[:4], *right[1:4], *right[1:4]],
            "the second step starts with what the first one left behind.",
        ),
        ("gigabytes", [level / GB for level in right], "these seem to be GB; bytes are asked for."),
        ("one-phase-early", [*right[1:], right[-1]], "the list begins with loading."),
    ]


def _same(got: Sequence[Any], want: Sequence[float]) -> bool:
    return len(got) == len(want) and all(near(value, right, CLOSE) for value, right in zip(got, want, strict=True))


def _timeline_fault(between: str, row: tuple[Any, ...], value: Any) -> tuple[str, str] | None:
    (job,) = row
    want = phases(between, job)
    if value is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if type(value) not in (list, tuple) or not all(map(is_number, value)):
        return "not-a-list", f"Return a list of ten numbers of bytes; got {describe(value)}."
    if len(value) != len(PHASES):
        return "another-length", f"Return one number for each of the ten phases; got {len(value)}."
    if _same(value, want):
        return None
    for name, wrong, message in _timeline_slips(between, job):
        if _same(value, wrong) and not _same(wrong, want):
            return name, message
    phase, got, right = next(
        each for each in zip(PHASES, value, want, strict=True) if not near(each[1], each[2], CLOSE)
    )
    return (
        "",
        f"{phase}: {bytes_text(got) if got >= 0 else describe(got)} is {got / right:.3g} times what is alive at its worst moment.",
    )


def _death_fault(between: str, row: tuple[Any, ...], value: Any) -> tuple[str, str] | None:
    job, room = row
    want = death(between, job, room)
    if type(value) is str:
        value = value.strip().lower()
    if value == want and type(value) is type(want):
        return None
    where = f"{bytes_text(room)} of memory"
    if value is not None and (type(value) is not str or value not in PHASES):
        return "no-such-phase", f"{where}: a phase by its name, such as {PHASES[2]!r}, or None; got {describe(value)}."
    early = next(
        (name for name, level in zip(PHASES, phases(between, job, from_the_start=True), strict=True) if level > room),
        None,
    )
    worst = max(zip(PHASES, phases(between, job), strict=True), key=lambda each: each[1])[0]
    if value == early:
        return "state-from-the-start", f"{where}: the optimizer makes what it keeps in its first step, not before."
    if value is None:
        return "fits", f"{where}: one of the phases needs more."
    if want is None:
        return "dies-for-nothing", f"{where}: every phase fits."
    if value == worst:
        return "worst-not-first", f"{where}: this phase needs most, but an earlier one does not fit either."
    return "", f"{where}: it is not {value!r}."


def _spike_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    part = ("timeline", "dies")[case.args[0]]
    got = outcome.value
    if fault := rows_fault(case, got):
        return [verdict(case.kind, part, case, fault)]
    judge = (_timeline_fault, _death_fault)[case.args[0]]
    if case.args[0] == 1 and len(got) > 2 and all(value is None for value in got):
        fault = ("returned-none", "The function returns None for every device: is a `return` missing?")
    elif case.args[0] == 1 and len(got) > 2 and len(set(map(str, got))) == 1:
        fault = ("only-the-example", f"{case.name}: the same phase comes back whatever the device is.")
    else:
        fault = first(*(judge(params["grads_between"], *given) for given in zip(case.args[1], got, strict=True)))
    return [verdict(case.kind, part, case, fault)]


def _spike_cases(params: Params, rng: random.Random) -> list[Case]:
    between = params["grads_between"]
    example = dict(params["job"])

    def some() -> dict[str, float]:
        own = {
            "weights": rng.uniform(1, 9),
            "grads": rng.uniform(1, 20),
            "moments": rng.uniform(1, 40),
            "activations": rng.uniform(0.5, 40),
            "work": rng.uniform(0.1, 6),
        }
        return {name: round(value, 2) * GB for name, value in own.items()}

    jobs = [some() for _ in range(16)]
    rooms = []
    for job in (*jobs, example):
        level = sorted(set(phases(between, job)))
        rooms += [(job, rng.choice(level) * (1 + shift)) for shift in (-0.002, 0.002)]
        rooms.append((job, rng.uniform(0.5, 1.1) * level[-1]))
    exact = {"weights": 2e9, "grads": 4e9, "moments": 8e9, "activations": 16e9, "work": 1e9}
    return [
        shown("the job shown", "values:timeline", 0, [(example,)]),
        shown(bytes_text(params["memory"]), "values:dies", 1, [(example, params["memory"])]),
        unseen(rng, "timeline", 0, "other jobs", [(job,) for job in (*jobs, exact)]),
        unseen(rng, "dies", 1, "other devices", [*rooms, (exact, max(phases(between, exact)))]),
    ]


FIRST_STEP_SPIKE = Judging(
    shares={"values:timeline": 0.25, "values:dies": 0.1, "generality:timeline": 0.4, "generality:dies": 0.25},
    cases=_spike_cases,
    verdicts=_spike_verdicts,
    why="The first step lies: its forward and backward pass run without the optimizer's bytes, which appear in its first step and "
    "never leave. So a job can survive one step and die in the second forward pass, with nothing changed in between. Gradients that "
    "are zeroed instead of set to None sit beside the activations for nothing. A trial of one step proves little; try two.",
    pytorch="`optimizer.zero_grad(set_to_none=True)` is the default since PyTorch 2.0; Adam's state is made in its first `step()`, "
    "and `foreach=True` needs work space of about the parameters' size.",
)


# --- a prediction


def kept_by_layers(params: Params) -> float:
    """GB that all layers keep of one sequence: fused attention, 16 bits, no dropout."""
    each = memory.layer_bytes(
        memory.shape(params["model"]), 1, params["seq"], kernels="flash", dtype="bf16", dropout=False
    )
    return params["layers"] * each / GB


def _reveal(params: Params) -> str:
    kept, token = kept_by_layers(params), params["seq"] * params["layers"] * params["hidden"] * 2 / GB
    return (
        f"{number_text(kept)} GB, {number_text(kept / token)} tensors of (tokens, hidden) in each layer; the weights are "
        f"{number_text(2 * params['params'] / GB)} GB in 16 bits. One tensor a layer, which is what checkpointing every layer keeps, "
        f"would be {number_text(token)} GB."
    )


PREDICT_ACTIVATIONS = prediction(
    unit="GB",
    reveal=_reveal,
    truth=kept_by_layers,
    why="Everything that a matrix multiplies has to be kept for its gradient, and so has what each norm, each activation function and "
    "the attention got: some twenty tensors a layer, of which the MLP's are the wide ones. That grows with tokens and layers, and "
    "nothing that shards the state makes it smaller.",
)
