"""Small trainings with one fault each, which ship as a file that this module writes.

The text is drawn from a Markov chain of 16 tokens with a known entropy: the least loss that a model can reach.
"""

import json
import math
import sys
from functools import cache
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor

from course_grader.arithmetic import same_everywhere
from course_lib.model.transformer import Config, Transformer, build, loss
from course_runs.learning_rate import rate_at

FILE = Path(__file__).with_suffix(".json")
TOKENS = LENGTH = 16
STEPS, WARM_UP = 40, 6
RESUMED, BAD = (18, 15, 23), (24, 29, 20)  # the step of the resume, and that of the bad batch, by seed
BATCH, FRESH = 8, 8
PEAK, LIMIT, PACE = 0.2, 1.0, 0.9  # rate, norm of clipping, momentum
SEEDS = (0, 1, 2)
_SMOKE = {  # the faults for each word
    "sound": ("sound",),
    "explodes": ("explodes", "not finite"),
    "not repeatable": ("order of sums", "unseeded"),
    "frozen": ("frozen block", "nothing handed over"),
    "leak": ("leak",),
    "memorizes": ("one batch",),
    "learns nothing": ("tiny rate",),
}
_TRACES = {
    "sound": ("sound", "resumed well"),
    "one step off": ("one step back", "one step ahead"),
    "stepped too often": ("twice a step", "four times a step"),
    **{one: (one,) for one in ("bad batch", "explodes", "vanishes", "always clipped", "not zeroed", "warm-up again")},
}
SMOKE, TRACES = ({fault: word for word, faults in kind.items() for fault in faults} for kind in (_SMOKE, _TRACES))


class Curves(TypedDict):
    """Loss of each step, and norm of its gradient before clipping."""

    losses: list[float]
    norms: list[float]


class Training(TypedDict):
    """What the smoke test is shown of a training: losses of each step and of fresh text, and how far weights moved."""

    losses: list[float]
    before: list[float]
    after: list[float]
    moved: dict[str, float]


class Shipped(TypedDict):
    """The content of the file: the smoke test's trainings, twice where the second differs, and traces."""

    floors: list[float]
    smoke: dict[str, list[Training]]
    traces: dict[str, Curves]


def planned(fault: str = "sound") -> list[float]:
    """The planned learning rate of each step: a line up, half a cosine down to a tenth. The plan itself may be
    wrong."""
    peak = PEAK * {"explodes": 12.0, "not finite": 1e30, "always clipped": 4.0, "tiny rate": 1e-4}.get(fault, 1.0)
    return [rate_at(step, peak, WARM_UP, STEPS) for step in range(STEPS)]


def rate_of(fault: str, seed: int, step: int) -> float:
    place = {"twice a step": 2 * step, "four times a step": 4 * step}.get(fault, step)
    if step >= RESUMED[seed]:
        place += {"warm-up again": -RESUMED[seed], "one step back": -1, "one step ahead": 1}.get(fault, 0)
    return planned(fault)[min(place, STEPS - 1)]


def limit_of(fault: str) -> float:
    return {"always clipped": 0.02, "explodes": 1e4, "not finite": 1e4}.get(fault, LIMIT)


def chain(seed: int) -> Tensor:
    return (2.0 * torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1000 + seed))).softmax(1)


def floor(seed: int) -> float:
    """The entropy of the chain in nats per token: no model can predict it better."""
    follows, often = chain(seed), torch.full((TOKENS,), 1 / TOKENS)
    for _ in range(200):
        often = often @ follows
    return float(-(often[:, None] * follows * follows.log()).sum())


def draw(follows: Tensor, coin: torch.Generator, size: int = BATCH) -> Tensor:
    """Sequences of the chain, one token longer than the model reads."""
    rows = torch.randint(0, TOKENS, (size, 1), generator=coin)
    for _ in range(LENGTH):
        rows = torch.cat([rows, torch.multinomial(follows[rows[:, -1]], 1, generator=coin)], 1)
    return rows


@same_everywhere()  # sums of these sizes come out alike wherever they are run again
def train(fault: str, seed: int, repeat: int = 0) -> tuple[Training, list[float]]:
    """A small transformer, stepped with momentum and clipping, and one fault, with its gradients' norms; a repeat
    differs only where it is not deterministic."""
    follows, coin = chain(seed), torch.Generator().manual_seed(100 + seed)
    fresh = [draw(follows, coin) for _ in range(FRESH)]  # never trained on
    coin.manual_seed(100 + seed + 50 * (1 + 7 * repeat * (fault == "unseeded")))
    config = Config(vocab=TOKENS, layers=1, hidden=16, heads=2, seq_len=LENGTH, attention="manual")
    model: Transformer = build(config, seed)
    model.head.weight.data *= 0.1  # so that the first loss is ln 16
    named = dict(model.named_parameters())
    first, gradients, pace = ({name: by * each.detach() for name, each in named.items()} for by in (1.0, 0.0, 0.0))
    only, scale = draw(follows, coin, 1).expand(BATCH, -1), 2e-7 if fault == "vanishes" else 1.0

    def mean_loss(rows: Tensor) -> Tensor:
        return loss(model(rows[:, :-1]), rows[:, 0 if fault == "leak" else 1 :][:, :LENGTH])

    def evaluate() -> list[float]:
        return [mean_loss(rows).item() for rows in fresh]

    def step(number: int) -> tuple[float, float]:
        """Train once; loss, and norm of the gradient before clipping."""
        rows = draw(follows, coin)
        if fault == "bad batch" and number == BAD[seed]:
            rows = torch.full_like(rows, 3)
        parts = (only if fault == "one batch" else rows).chunk(4)
        found = [mean_loss(part) for part in parts]
        grads = [torch.autograd.grad(each * scale / len(parts), list(named.values())) for each in found]
        if fault == "order of sums" and repeat:
            grads.reverse()
        for name, *given in zip(named, *grads, strict=True):
            total = sum(given).half().float() if fault == "vanishes" else sum(given)
            gradients[name] = gradients[name] + total if fault == "not zeroed" else total
        norm = math.sqrt(sum(each.square().sum().item() for each in gradients.values()))
        clip = min(1.0, limit_of(fault) / norm) if norm > 0 else 1.0
        for name, each in named.items():
            if fault != "nothing handed over" and not (fault == "frozen block" and "mlp" in name):
                pace[name].mul_(PACE).add_(gradients[name], alpha=clip)
                each.data.sub_(pace[name], alpha=rate_of(fault, seed, number))
        return sum(each.item() for each in found) / len(found), norm

    before = evaluate()
    losses, norms = (list(column) for column in zip(*map(step, range(STEPS)), strict=True))
    moved = {name: (each.detach() - first[name]).abs().max().item() for name, each in named.items()}
    return {"losses": losses, "before": before, "after": evaluate(), "moved": moved}, norms


def everything() -> Shipped:
    """The content of the file, from trainings that run now."""
    smoke = {f"{fault}/{seed}": _twice(fault, seed) for fault in SMOKE for seed in SEEDS}
    traces = {f"{fault}/{seed}": _trace(*train(fault, seed)) for fault in TRACES for seed in SEEDS}
    return {"floors": [floor(seed) for seed in SEEDS], "smoke": smoke, "traces": traces}


def _twice(fault: str, seed: int) -> list[Training]:
    (one, _), (two, _) = (train(fault, seed, repeat) for repeat in range(2))
    return [one] if repr(one) == repr(two) else [one, two]


def _trace(one: Training, norms: list[float]) -> Curves:
    losses, norms = ([float(f"{each:.5g}") for each in curve] for curve in (one["losses"], norms))
    return {"losses": losses, "norms": norms}


@cache
def shipped() -> Shipped:
    kept: Shipped = json.loads(FILE.read_text(encoding="utf-8"))
    return kept


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{FILE}: {FILE.stat().st_size:,} bytes", file=sys.stderr)
