"""`./course bench experts`: train small mixtures of experts on the course's text, and write the curves that chapter 12
shows.

Without `--write` it trains a few steps of each and prints how far they are from the recorded ones.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import torch

from course_chapters.ch12.published_experts import FILE, recorded
from course_lib.cluster import simulate
from course_lib.model.transformer import Config
from course_lib.parallel.expert import Mixture, costs, train
from course_lib.parallel.expert.model import build, split_parameters

SHAPE = Config(hidden=32, layers=2, heads=4, seq_len=32)
STEPS, SIZE, EVERY = 300, 16, 5
RUNS: Mapping[str, Mixture] = {
    "dense, same FLOPs": Mixture(experts=1, top_k=1, ffn=64),
    "dense, same parameters": Mixture(experts=1, top_k=1, ffn=256),
    "no balancing": Mixture(experts=8, top_k=2, ffn=32, score="sigmoid"),
    "balance loss": Mixture(experts=8, top_k=2, ffn=32, score="sigmoid", balance="loss", balance_weight=0.02),
    "bias": Mixture(experts=8, top_k=2, ffn=32, score="sigmoid", balance="bias", bias_rate=0.005),
    "capacity 1, no balancing": Mixture(experts=8, top_k=2, ffn=32, score="sigmoid", capacity_factor=1.0),
    "capacity 1, balance loss": Mixture(
        experts=8, top_k=2, ffn=32, score="sigmoid", capacity_factor=1.0, balance="loss", balance_weight=0.02
    ),
}


class Curves(TypedDict):
    """One training as plain data."""

    losses: list[float]
    every: int
    imbalance: list[float]
    last_layer: list[list[int]]
    dropped: float
    parameters: int
    active: int


def run(mixture: Mixture, steps: int = STEPS) -> Curves:
    """One training as plain data."""
    trace = simulate(train, 1, args=(SHAPE, mixture, steps, SIZE)).results[0]
    model = build(SHAPE, mixture)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    idle = (mixture.experts - mixture.top_k) / mixture.experts
    return {
        "losses": [round(loss, 4) for loss in trace.losses],
        "every": EVERY,
        "imbalance": [round(sum(map(costs.imbalance, step)) / len(step), 3) for step in trace.counts[::EVERY]],
        "last_layer": [step[-1] for step in trace.counts[::EVERY]],
        "dropped": round(sum(trace.dropped) / steps, 4),
        "parameters": parameters,
        "active": parameters - round(idle * sum(parameter.numel() for parameter in split_parameters(model)[1])),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare a few steps with the recorded curves, or record everything anew."""
    parser = argparse.ArgumentParser(prog="course bench experts", description=__doc__)
    parser.add_argument("--write", action="store_true", help="train in full and replace the recorded curves")
    parser.add_argument("--steps", type=int, default=10, help="steps of a comparison")
    given = parser.parse_args(arguments)
    if not given.write:
        for name, mixture in RUNS.items():
            pairs = zip(run(mixture, given.steps)["losses"], recorded(name).losses, strict=False)
            apart = max(abs(now - then) for now, then in pairs)
            print(f"{name:26} {given.steps} steps, at most {apart:.4f} from the recorded loss")
        return 0
    made = {name: run(mixture) for name, mixture in RUNS.items()}
    for name, one in made.items():
        print(f"{name:26} {sum(one['losses'][-30:]) / 30:.4f} nats per character at the end")
    rows = ",\n".join(
        f'  "{name}": {{\n' + ",\n".join(f'   "{key}": {json.dumps(value)}' for key, value in one.items()) + "\n  }"
        for name, one in made.items()
    )
    head = f' "made_by": "./course bench experts --write",\n "torch": "{torch.__version__}",\n "steps": {STEPS},\n'
    Path(str(FILE)).write_text(f'{{\n{head} "runs": {{\n{rows}\n }}\n}}\n', encoding="utf-8")
    print(f"written: {FILE}")
    return 0
