"""Small trainings with one fault each, which ship as a file that this module writes.

The text is drawn from a Markov chain of 16 tokens with a known entropy: the least loss that a model can reach.
"""

import json
import math
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.transformer import Config, Transformer, build, loss

FILE = Path(__file__).with_suffix(".json")
TOKENS = LENGTH = 16
STEPS, WARM_UP = 40, 6
RESUMED, BAD = (18, 15, 23), (24, 29, 20)  # the step of the resume, and that of the bad batch, by seed
BATCH, FRESH = 8, 8
PEAK, LIMIT, PACE = 0.2, 1.0, 0.9  # rate, norm of clipping, momentum
SEEDS = (0, 1, 2)
SMOKE = {  # the word for each fault
    "sound": "sound",
    "explodes": "explodes",
    "not finite": "explodes",
    "order of sums": "not repeatable",
    "unseeded": "not repeatable",
    "frozen block": "frozen",
    "nothing handed over": "frozen",
    "leak": "leak",
    "looks ahead": "leak",
    "one batch": "memorizes",
    "tiny rate": "learns nothing",
}
TRACES = {
    "sound": "sound",
    "resumed well": "sound",
    "bad batch": "bad batch",
    "explodes": "explodes",
    "vanishes": "vanishes",
    "always clipped": "always clipped",
    "not zeroed": "not zeroed",
    "warm-up again": "warm-up again",
    "one step back": "one step off",
    "one step ahead": "one step off",
    "twice a step": "stepped too often",
    "four times a step": "stepped too often",
}
Training = dict[str, Any]


def planned(fault: str = "sound") -> list[float]:
    """The planned learning rate of each step: a line up, half a cosine down to a tenth. The plan itself may be wrong."""
    peak = PEAK * {"explodes": 12.0, "not finite": 1e30, "always clipped": 4.0, "tiny rate": 1e-4}.get(fault, 1.0)
    down = [0.55 + 0.45 * math.cos(math.pi * step / (STEPS - WARM_UP)) for step in range(STEPS - WARM_UP)]
    return [peak * share for share in [*((step + 1) / WARM_UP for step in range(WARM_UP)), *down]]


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


class Trainer:
    """A small transformer, stepped with momentum and clipping, and one fault."""

    def __init__(self, fault: str, seed: int, repeat: int = 0) -> None:
        self.fault, self.seed, self.follows = fault, seed, chain(seed)
        own = 7 * repeat if fault == "unseeded" else 0
        self.coin = torch.Generator().manual_seed(100 + seed)
        self.fresh = [draw(self.follows, self.coin) for _ in range(FRESH)]
        self.coin.manual_seed(100 + seed + 50 * (1 + own))
        self.backwards = fault == "order of sums" and bool(repeat)
        config = Config(vocab=TOKENS, layers=1, hidden=16, heads=2, seq_len=LENGTH, attention="manual")
        self.model: Transformer = build(config, seed)
        with torch.no_grad():
            self.model.head.weight *= 0.1  # so that the first loss is ln 16
        self.named = dict(self.model.named_parameters())
        self.first = {name: each.detach().clone() for name, each in self.named.items()}
        self.gradients = {name: torch.zeros_like(each) for name, each in self.named.items()}
        self.pace = {name: torch.zeros_like(each) for name, each in self.named.items()}
        self.limit = limit_of(fault)
        self.only = draw(self.follows, self.coin, 1).expand(BATCH, -1)

    def batch(self, step: int) -> Tensor:
        rows = draw(self.follows, self.coin)
        if self.fault == "bad batch" and step == BAD[self.seed]:
            return torch.full_like(rows, 3)
        return self.only if self.fault == "one batch" else rows

    def loss(self, rows: Tensor) -> Tensor:
        """Mean loss of sequences, as the program computes it."""
        inputs, targets = rows[:, :-1], rows[:, 1:]
        if self.fault == "leak":
            targets = inputs
        if self.fault != "looks ahead":
            return loss(self.model(inputs), targets)
        x = self.model.embedding(inputs)
        x = x + 0.3 * x.roll(-1, 1)  # as a mask does that is off by one
        for block in self.model.blocks:
            x = block(x)
        return loss(self.model.head(self.model.norm(x)), targets)

    def evaluate(self) -> list[float]:
        """The losses of batches that are never trained on."""
        with torch.no_grad():
            return [self.loss(rows).item() for rows in self.fresh]

    def step(self, number: int) -> tuple[float, float]:
        """Train once; loss, and norm of the gradient before clipping."""
        parts = self.batch(number).chunk(4)
        found = [self.loss(rows) for rows in parts]
        scale = 2e-7 if self.fault == "vanishes" else 1.0
        rows = [torch.autograd.grad(each * scale / len(parts), list(self.named.values())) for each in found]
        for place, name in enumerate(self.named):
            total = sum(row[place] for row in (rows[::-1] if self.backwards else rows))
            if self.fault == "vanishes":
                total = total.half().float()
            self.gradients[name] = self.gradients[name] + total if self.fault == "not zeroed" else total
        norm = math.sqrt(sum(each.square().sum().item() for each in self.gradients.values()))
        self._update(rate_of(self.fault, self.seed, number), min(1.0, self.limit / norm) if norm > 0 else 1.0)
        return sum(each.item() for each in found) / len(found), norm

    @torch.no_grad()
    def _update(self, rate: float, scale: float) -> None:
        for name, each in self.named.items():
            if self.fault == "nothing handed over" or (self.fault == "frozen block" and "mlp" in name):
                continue
            self.pace[name].mul_(PACE).add_(self.gradients[name], alpha=scale)
            each.sub_(self.pace[name], alpha=rate)

    def moved(self) -> dict[str, float]:
        """The largest change of any number of each parameter."""
        return {name: (each.detach() - self.first[name]).abs().max().item() for name, each in self.named.items()}


def train(fault: str, seed: int, repeat: int = 0) -> Training:
    """The numbers of a training with this fault; a repeat differs only where the program is not deterministic."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of these sizes come out alike wherever they are run again
    try:
        trainer = Trainer(fault, seed, repeat)
        before = trainer.evaluate()
        rows = [trainer.step(number) for number in range(STEPS)]
        losses, norms = (list(column) for column in zip(*rows, strict=True))
        after, moved = trainer.evaluate(), trainer.moved()
        return {"losses": losses, "norms": norms, "before": before, "after": after, "moved": moved}
    finally:
        torch.set_num_threads(threads)


def everything() -> dict[str, Any]:
    """The content of the file: trainings of the smoke test, twice where the second differs, and traces."""
    smoke = {f"{fault}/{seed}": _twice(fault, seed) for fault in SMOKE for seed in SEEDS}
    traces = {f"{fault}/{seed}": _trace(train(fault, seed)) for fault in TRACES for seed in SEEDS}
    return {"floors": [floor(seed) for seed in SEEDS], "smoke": smoke, "traces": traces}


def _twice(fault: str, seed: int) -> list[Training]:
    one, two = (train(fault, seed, repeat) for repeat in range(2))
    del one["norms"], two["norms"]
    return [one] if repr(one) == repr(two) else [one, two]


def _trace(one: Training) -> Training:
    return {name: [float(f"{each:.5g}") for each in one[name]] for name in ("losses", "norms")}


@cache
def shipped() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{FILE}: {FILE.stat().st_size:,} bytes", file=sys.stderr)
