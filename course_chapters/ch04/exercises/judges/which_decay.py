from collections.abc import Sequence

from course_chapters.ch04.exercises.which_decay import DECAYS
from course_grader.judging import Case, Fault, Judging, Params, Random, hidden, judged, shown


def box(rng: Random, kind: str, **more: object) -> dict[str, object]:
    betas = (rng.choice((0.8, 0.9, 0.95)), rng.choice((0.95, 0.99, 0.999)))
    return {"kind": kind, "betas": betas, "eps": 1e-8, "skips": False, "late": False, **more}


def _boxes(rng: Random, count: int, **more: object) -> list[dict[str, object]]:
    kinds = [*DECAYS, *(rng.choice(tuple(DECAYS)) for _ in range(count - len(DECAYS)))]
    rng.shuffle(kinds)
    return [box(rng, kind, **more) for kind in kinds]


def _cases(params: Params, rng: Random) -> list[Case]:
    return [
        shown(f"{params['boxes']} optimizers", "values:kinds", _boxes(rng, params["boxes"])),
        hidden("other optimizers", "values:kinds", _boxes(rng, 8)),
        hidden("a large ε", "generality:eps", _boxes(rng, 6, eps=rng.choice((1e-2, 3e-3)))),
        hidden("zero gradients are skipped", "generality:skips", _boxes(rng, 6, skips=True)),
        hidden("the decay after the update", "generality:late", _boxes(rng, 6, late=True)),
        hidden("all of these together", "generality:late", _boxes(rng, 6, late=True, skips=True, eps=1e-2)),
    ]


def _fault(want: Sequence[str], words: Sequence[str]) -> Fault | None:
    got = [word.strip().lower() for word in words]
    if got == want:
        return None
    if len(got) != len(want):
        return "wrong-shape", f"{len(got)} words came back for {len(want)} optimizers."
    if len(set(got)) == 1:
        return "always-the-same", f"every optimizer is called {got[0]!r}; there are several kinds here."
    told, right = next((one, two) for one, two in zip(got, want, strict=True) if one != two)
    return f"{right}-as-{told}", f"an optimizer was called {told!r}, but in it {DECAYS[right]}."


JUDGING = Judging(
    shares="values:kinds 0.4, generality:eps 0.2, generality:skips 0.2, generality:late 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(
        case, _fault([spec["kind"] for spec in case.args[0]], outcome.value), named=True
    ),
    why="Compare two runs that differ in the decay alone: everything else cancels. In the first step, decoupled decay "
    "moves the parameter by lr · decay of itself, unscaled decay by decay of itself. L2 passes through the ratio "
    "of the moments, which removes its size, so its effect is neither, and it grows when the gradients are small. "
    "A test on one number, such as “did the weight shrink?”, cannot tell them apart.",
    pytorch="`torch.optim.Adam(weight_decay=…)` is L2; `AdamW` is decoupled, scaled by the learning rate, and decays "
    "before the update. The AdamW paper's own form is scaled by the schedule only, not by the base "
    "learning rate.",
)

ANSWERS = r'''# %% right: worked
def which(build) -> str:
    """The kind of decay of the optimizers that `build(lr, decay)` makes."""
    lr, decay, size = 0.001, 0.1, 100.0
    parameter, gradient = torch.tensor([size]).double(), torch.tensor([-decay * size / 2]).double()
    without, with_decay = build(lr, 0.0)(parameter, gradient), build(lr, decay)(parameter, gradient)
    moved = (without - with_decay).item()
    if moved == 0:
        return "none"
    if 0.9 < moved / (decay * size) < 1.1:
        return "unscaled"
    return "decoupled" if 0.9 < moved / (lr * decay * size) < 1.1 else "l2"
# %% right: does it grow with the parameter, and with the learning rate?
def one(value):
    return torch.tensor([value], dtype=torch.float64)


def shrinks(build, lr, size):
    gradient = one(1.0)
    return (build(lr, 0.0)(one(size), gradient) - build(lr, 0.5)(one(size), gradient)).item()


def which(build):
    plain = shrinks(build, 0.001, 200.0)
    if abs(plain) < 1e-9:
        steps = [build(0.001, decay) for decay in (0.0, 0.5)]
        p = [one(200.0), one(200.0)]
        for sign in (1, -1, 1, -1, 1, -1):
            p = [step(x, one(sign)) for step, x in zip(steps, p)]
        return "none" if torch.equal(*p) else "l2"
    if shrinks(build, 0.001, 400.0) / plain < 1.5:
        return "l2"
    return "decoupled" if shrinks(build, 0.002, 200.0) / plain > 1.5 else "unscaled"
# %% wrong: a gradient of zero => generality always-the-same
def which(build):
    after = build(0.01, 0.1)(torch.tensor([2.0]).double(), torch.tensor([0.0]).double()).item()
    if after == 2:
        return "none"
    if abs(after - 1.998) < 1e-9:
        return "decoupled"
    return "unscaled" if abs(after - 1.8) < 1e-9 else "l2"
# %% wrong: an exact amount => generality decoupled-as-l2
# ~ 0.9 < moved / (lr * decay * size) < 1.1 ==> abs(moved / (lr * decay * size) - 1) < 1e-9
# %% wrong: L2 moves by exactly two learning rates => generality l2-as-decoupled
# ~ "decoupled" if 0.9 < moved / (lr * decay * size) < 1.1 else "l2"
# ~~ ==> "l2" if abs(moved / (2 * lr) - 1) < 1e-4 else "decoupled"
# %% wrong: the learning rate is not varied => values unscaled-as-decoupled
# ~ return "unscaled" ==> return "decoupled"
# %% wrong: one step of equal sign => values l2-as-none
# ~ -decay * size / 2 ==> 1.0
# ~ moved == 0 ==> abs(moved) < 1e-9
# %% wrong: always AdamW => values always-the-same
# ~ lr, decay, size = ==> return "decoupled"; lr, decay, size =
# %% wrong: another word => values no-such-word
# ~ lr, decay, size = ==> return "adamw"; lr, decay, size =
# %% wrong: a long search => raised
# ~ lr, decay, size = ==> [build(0.1, 0.1) for _ in range(100)]; lr, decay, size =
'''
