"""`./course bench precision`: train chapter 05's small model once for every recipe, and write the curves that the
chapter shows.

Without `--write` it trains a few steps of each and prints how far they are from the recorded ones.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import torch

from course_chapters.ch05 import training
from course_chapters.ch05.recipes import FILE, recorded

EXPONENTS = range(-60, 20)  # of the gradients' histogram: floor(log2 |g|)


class Recorded(TypedDict):
    """One recipe's training as plain data."""

    losses: list[float | None]
    lost: list[float]
    zeros: float
    skipped: int
    bytes_per_parameter: float


def curve(name: str, steps: int = training.STEPS) -> Recorded:
    """One recipe's training as plain data; a loss that is not a number is None."""
    made = training.train(training.RECIPES[name], steps)
    return {
        "losses": [round(loss, 4) if math.isfinite(loss) else None for loss in made.losses],
        "lost": [round(share, 3) for share in made.lost] if any(made.lost) else [],
        "zeros": round(sum(made.zeros) / steps, 4),
        "skipped": made.skipped,
        "bytes_per_parameter": made.bytes_per_parameter,
    }


def histogram() -> dict[str, int]:
    """How many gradient elements of one micro-batch lie in [2^k, 2^(k+1)), by k; zeros are counted under "zero"."""
    whole = torch.cat([grad.flatten() for grad in training.gradients()])
    power = torch.frexp(whole[whole != 0])[1] - 1
    counts = {str(k): int((power == k).sum()) for k in EXPONENTS}
    return {"zero": int((whole == 0).sum()), **{k: count for k, count in counts.items() if count}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare a few steps with the recorded curves, or record everything anew."""
    parser = argparse.ArgumentParser(prog="course bench precision", description=__doc__)
    parser.add_argument("--write", action="store_true", help="train in full and replace the recorded curves")
    parser.add_argument("--steps", type=int, default=10, help="steps of a comparison")
    given = parser.parse_args(arguments)
    if not given.write:
        for name in training.RECIPES:
            now, then = curve(name, given.steps)["losses"], recorded(name).losses
            apart = max(abs(a - b) for a, b in zip(now, then, strict=False) if a is not None and b is not None)
            print(f"{name:28} {given.steps} steps, at most {apart:.4f} from the recorded loss")
        return 0
    curves: dict[str, Recorded] = {}
    made = {
        "made_by": "./course bench precision --write",
        "torch": torch.__version__,
        "steps": training.STEPS,
        "parameters": sum(p.numel() for p in training.transformer.build(training.SHAPE).parameters()),
        "gradients": histogram(),
        "curves": curves,
    }
    for name in training.RECIPES:
        curves[name] = curve(name)
        print(f"{name:28} {training_text(curves[name]['losses'])}", flush=True)
    Path(str(FILE)).write_text(compact(made), encoding="utf-8")
    print(f"written: {FILE}")
    return 0


def training_text(losses: Sequence[float | None]) -> str:
    """The last loss in words."""
    return "broke" if losses[-1] is None else f"{losses[-1]:.4f} nats per character at the end"


def compact(made: dict) -> str:
    """JSON with a line for each key and for each list of numbers."""
    curves = ",\n".join(
        f'  "{name}": {{\n' + ",\n".join(f'   "{key}": {json.dumps(value)}' for key, value in one.items()) + "\n  }"
        for name, one in made["curves"].items()
    )
    rest = "".join(f' "{key}": {json.dumps(value)},\n' for key, value in made.items() if key != "curves")
    return f'{{\n{rest} "curves": {{\n{curves}\n }}\n}}\n'
