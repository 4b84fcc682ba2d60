"""Judge of an experiment that tells four kinds of weight decay apart."""

import random
from collections.abc import Sequence
from typing import Any

from course_lib.exercises.ch04.cards.training import DECAYS
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case


def box(rng: random.Random, kind: str, **more: Any) -> dict[str, Any]:
    """One optimizer of a kind."""
    betas = (rng.choice((0.8, 0.9, 0.95)), rng.choice((0.95, 0.99, 0.999)))
    return {"kind": kind, "betas": betas, "eps": 1e-8, "skips": False, "late": False, **more}


def _boxes(rng: random.Random, count: int, **more: Any) -> list[dict[str, Any]]:
    kinds = [*DECAYS, *(rng.choice(tuple(DECAYS)) for _ in range(count - len(DECAYS)))]
    rng.shuffle(kinds)
    return [box(rng, kind, **more) for kind in kinds]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    return [
        shown(f"{params['boxes']} optimizers", "values:kinds", _boxes(rng, params["boxes"])),
        hidden("other optimizers", "values:kinds", _boxes(rng, 8)),
        hidden("a large ε", "generality:eps", _boxes(rng, 6, eps=rng.choice((1e-2, 3e-3)))),
        hidden("zero gradients are skipped", "generality:skips", _boxes(rng, 6, skips=True)),
        hidden("the decay after the update", "generality:late", _boxes(rng, 6, late=True)),
        hidden("all of these together", "generality:late", _boxes(rng, 6, late=True, skips=True, eps=1e-2)),
    ]


def _fault(specs: Sequence[Any], words: Sequence[str]) -> Fault | None:
    got, want = [word.strip().lower() for word in words], [spec["kind"] for spec in specs]
    if got == want:
        return None
    if len(got) != len(want):
        return "wrong-shape", f"{len(got)} words came back for {len(want)} optimizers."
    if len(set(got)) == 1:
        return "always-the-same", f"every optimizer is called {got[0]!r}; there are several kinds here."
    told, right = next((one, two) for one, two in zip(got, want, strict=True) if one != two)
    return f"{right}-as-{told}", f"an optimizer was called {told!r}, but in it {DECAYS[right]}."


WHICH_DECAY = Judging(
    shares="values:kinds 0.4, generality:eps 0.2, generality:skips 0.2, generality:late 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case.args[0], outcome.value), named=True),
    why="Compare two runs that differ in the decay alone: everything else cancels. In the first step, decoupled decay moves the parameter by "
    "lr · decay of itself, unscaled decay by decay of itself. L2 passes through the ratio of the moments, which removes its size, so its effect "
    "is neither, and it grows when the gradients are small. A test on one number, such as “did the weight shrink?”, cannot tell them apart.",
    pytorch="`torch.optim.Adam(weight_decay=…)` is L2; `AdamW` is decoupled, scaled by the learning rate, and decays before the update. The AdamW "
    "paper's own form is scaled by the schedule only, not by the base learning rate.",
)
