import random

import torch

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.judging import Fault, Judging, Params, Worked, Wrong, describe, judged
from course_grader.judging.cases import Maker, hidden, shown
from course_grader.judging.tensors import coin_of, normal, tensor_fault
from course_grader.records import Case

right = Worked("repair-streaming")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, alpha = coin_of(rng), params["alpha"]

    def case(make: Maker, name: str, share: str, index: int, *shapes: tuple[int, ...], mix: float = alpha) -> Case:
        one, local = ([normal(coin, *shape, dtype=torch.float64) for shape in shapes] for _ in range(2))
        return make(name, share, index, one, local, mix)

    return [
        case(shown, "two tensors", "values:gradients", 0, (3, 2), (4,)),
        case(shown, "two tensors are merged", "values:merge", 1, (3, 2), (4,)),
        case(hidden, "other tensors", "values:gradients", 0, (5,), (2, 2), (1,)),
        case(hidden, "other tensors are merged", "values:merge", 1, (5,), (2, 2), (1,)),
        case(hidden, "no share of its own", "generality:alpha", 1, (6,), mix=0.0),
        case(hidden, "only its own", "generality:alpha", 1, (6,), mix=1.0),
        case(hidden, "a small share", "generality:alpha", 1, (6,), (2, 3), mix=0.1),
    ]


def _fault(case: Case, got: object) -> Fault | None:
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    want, name = right.value(case), ("gradient", "shared weights")[case.args[0]]
    fields = got if type(got) is dict else {}
    found = fields.get("x")
    if type(found) is not list or len(found) != len(want["x"]):
        return "wrong-shape", f"a list of {len(want['x'])} tensors is expected; got {describe(found)}."
    for at, (one, other) in enumerate(zip(found, want["x"], strict=True)):
        if fault := tensor_fault(f"α = {case.args[3]:g}, {name} {at}", one, other):
            return Wrong(*fault)
    kept = fields.get("touched") is False
    return None if kept else ("changed", "A tensor was changed that should stay as it is.")


JUDGING = Judging(
    shares="values:gradients 0.35, values:merge 0.4, generality:alpha 0.25",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""Three faults hid behind each other. The sign sent the shared weights away from the workers. `lerp` without an
underscore returns a new tensor, so nothing was merged. And its weight was that of the other side, which only shows when
the merge works. Reviewers asked for a test of the numbers, which would have shown all three.""",
    pytorch="`Tensor.lerp_` changes its tensor, `Tensor.lerp` returns a new one; the same holds for every such pair.",
)

ANSWERS = r'''import torch


# %% right: worked
def outer_gradients(original: list, local: list) -> list:
    """What the outer optimizer gets as gradients."""
    ### BEGIN SOLUTION
    return [old - new for old, new in zip(original, local, strict=True)]
    ### END SOLUTION


def merge(shared: list, local: list, alpha: float) -> None:
    """Mixes a worker's own weights into the model's, in place."""
    ### BEGIN SOLUTION
    for new, own in zip(shared, local, strict=True):
        new.lerp_(own, alpha)
    ### END SOLUTION

# %% right: written out
def outer_gradients(original, local):
    return [-(local[place] - old) for place, old in enumerate(original)]


def merge(shared, local, alpha):
    for place, own in enumerate(local):
        shared[place].copy_(alpha * own + (1 - alpha) * shared[place])


# %% wrong: as given => values
# > this does what the given code does.
def outer_gradients(original, local):
    return [new - old for old, new in zip(original, local)]


def merge(shared, local, alpha):
    for new, own in zip(shared, local):
        new.lerp(own, 1 - alpha)


# %% wrong: the sign alone is left => values
# > this points from the shared weights to the worker's; SGD would go away from the workers.
# ~ [old - new for ==> [new - old for
# %% wrong: the weight of the other side => values
# > α and 1 − α have changed places.
# ~ new.lerp_(own, alpha) ==> new.lerp_(own, 1 - alpha)
# %% wrong: the worker's tensors are changed => values
# > the shared weights are as before; the mixture went elsewhere.
# ~ new.lerp_(own, alpha) ==> own.copy_(torch.lerp(new, own, alpha))
# %% wrong: only shared weights => values
# > the model's tensors hold the shared weights alone; no own weights of the worker were written into them.
# ~ new.lerp_(own, alpha) ==> pass
# %% wrong: a fixed share => values
# > a fixed share was taken, whatever α is.
# ~ new.lerp_(own, alpha) ==> new.lerp_(own, 0.37)
# %% wrong: the first tensor alone => values
# > tensors after the first one were left out.
# ~ for new, own in zip(shared, local, strict=True): ==> for new, own in zip(shared[:1], local[:1], strict=True):
# %% wrong: gradients in place => values changed
# ~ [old - new for ==> [old.sub_(new) for
# %% wrong: left as it is => not-answered
# ~ return [old - new ==> raise NotImplementedError; return [old - new
'''
