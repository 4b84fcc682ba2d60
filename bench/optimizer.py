"""Chapter 04's small trainings: batches and rates, warm-up, decay, critical batch, repeated text, sizes; recorded for
the chapter.

`course bench optimizer` runs one experiment, or all, and prints the losses beside the recorded ones; `--write` records
them anew. All train the course's transformer of 30,880 parameters on the course's text, on one CPU thread; losses
follow from seeds, up to rounding, and only tokens per second depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from statistics import fmean

import torch

from course_lib.estimate.facts.optimization import RECORDED, TARGET, recorded_runs
from course_lib.model import optimizer as rules
from course_lib.model import text, transformer
from course_lib.model.training import SMALL, Training, held_out_loss, sample_gradients, train

POINTS = 50  # of a recorded curve
SAMPLES = 6400  # sequences of an experiment that compares batches on the same text
GRID = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)


def run(
    size: int,
    steps: int,
    rate: float,
    warmup: int | None = None,
    rule: str = "adamw",
    decay: float = 0.1,
    config: transformer.Config = SMALL,
    samples: int | None = None,
) -> Mapping[str, object]:
    """One training from seed 0 with a cosine to a tenth of the rate, and what is recorded of it."""
    model = transformer.build(config)
    schedule = partial(
        rules.cosine, steps=steps, warmup=steps // 10 if warmup is None else warmup, peak=rate, floor=rate / 10
    )
    made = rules.build(rule, rules.decay_groups(model, decay), lr=rate)
    trained = train(model, made, steps, size, schedule, samples=samples)
    return {
        "batch": size,
        "steps": steps,
        "rate": rate,
        "losses": curve(trained.losses),
        "final": round(trained.final, 4),
        "held_out": round(held_out_loss(model), 4),
        "norm": round(rules.global_norm([each for each in model.parameters() if each.ndim == 2]), 2),
    }


def curve(losses: Sequence[float]) -> list[float]:
    """At most POINTS means of equal stretches of the run."""
    count = min(POINTS, len(losses))
    ends = [len(losses) * place // count for place in range(count + 1)]
    return [round(fmean(losses[low:high]), 4) for low, high in zip(ends, ends[1:], strict=False)]


def batches() -> Mapping[str, object]:
    """The same text in batches of 16, 32, 64 and 256, with the rate of 16, times √(B/16), and times B/16."""
    found = {"16": run(16, SAMPLES // 16, 4e-3)}
    for size in (32, 64, 256):
        for name, power in (("unscaled", 0.0), ("square root", 0.5), ("linear", 1.0)):
            found[f"{size}, {name}"] = run(size, SAMPLES // size, 4e-3 * (size / 16) ** power)
    return found


def warmups() -> Mapping[str, object]:
    """A moderate and a high rate, with and without a warm-up of a quarter of the run."""
    return {
        f"rate {rate:g}, warm-up {warmup}": run(16, 200, rate, warmup) for rate in (2e-2, 1e-1) for warmup in (0, 50)
    }


def decays() -> Mapping[str, object]:
    """Weight decay through Adam's ratio (L2) and outside it (AdamW)."""
    return {
        f"{rule}, {decay:g}": run(16, 300, 8e-3, rule=rule, decay=decay)
        for rule in ("adamw", "adam")
        for decay in (0.0, 0.01, 0.1)
    }


def repeats() -> Mapping[str, object]:
    """One run on fresh text, and the same on 16, 64 or 256 sequences again and again."""
    return {str(samples or "fresh"): run(16, 600, 8e-3, samples=samples) for samples in (16, 64, 256, None)}


def sizes() -> Mapping[str, object]:
    """Models of several widths on the same text, and one model on more and more of it."""
    found: dict[str, Mapping[str, object]] = {}
    for hidden in (8, 16, 32, 64):
        config = replace(SMALL, hidden=hidden, ffn=None, kv_heads=None)
        count = sum(each.numel() for each in transformer.build(config).parameters())
        found[f"width {hidden}"] = {**run(16, 400, 8e-3, config=config), "params": count}
    for steps in (50, 100, 200, 400, 800):
        found[f"steps {steps}"] = run(16, steps, 8e-3)
    return found


def critical() -> Mapping[str, object]:
    """The fewest steps to the target at each batch, over a grid of constant rates after 20 steps of warm-up."""
    found = {}
    for size, most in ((2, 700), (4, 400), (8, 250), (16, 180), (32, 150), (64, 130), (128, 110), (256, 100)):
        took = {}
        for rate in GRID:
            model = transformer.build(SMALL)
            made = rules.build("adamw", rules.decay_groups(model, 0.1), lr=rate)
            trained = train(model, made, most, size, partial(_warmed, rate))
            took[f"{rate:g}"] = trained.steps_to(TARGET, window=max(5, 64 // size))
        reached = {rate: steps for rate, steps in took.items() if steps is not None}
        best = min(reached, key=lambda rate: reached[rate])
        found[str(size)] = {"steps": reached[best], "rate": float(best), "by_rate": took}
    return found


def noise() -> Mapping[str, object]:
    """The noise scale in sequences before training and during it, from 256 single gradients and from two batch
    sizes."""
    model, found, before = transformer.build(SMALL), {}, 0
    made = rules.build("adamw", rules.decay_groups(model, 0.1), lr=8e-3)
    for step in (0, 20, 50, 100, 200, 400):
        if step:
            _advance(model, made, before, step)
        grads = sample_gradients(model, *text.batch(0, 256, SMALL.seq_len, seed=1)).double()
        small = grads.view(32, 8, -1).mean(1).square().sum(1).mean().item()
        two = rules.noise_scale_two_batches(8, 256, small, grads.mean(0).square().sum().item())
        alone = rules.noise_scale_of_samples(grads)
        found[str(step)] = {"signal": alone.signal, "noise": alone.noise, "samples": alone.batch, "two": two.batch}
        before = step
    return found


def _advance(model: transformer.Transformer, made: rules.Optimizer, before: int, step: int) -> Training:
    return train(model, made, step - before, 16, lambda now: 8e-3 * rules.linear_warmup(before + now, 20), seed=before)


def speeds() -> Mapping[str, object]:
    """Tokens per second at each batch: the best of five rounds of five steps."""
    found = {}
    for size in (1, 4, 16, 64, 256):
        model = transformer.build(SMALL)
        made = rules.build("adamw", rules.decay_groups(model, 0.1), lr=1e-3)
        found[str(size)] = round(max(train(model, made, 5, size).tokens_per_second for _ in range(5)))
    return found


EXPERIMENTS: Mapping[str, Callable[[], Mapping[str, object]]] = {
    "batches": batches,
    "warmups": warmups,
    "decays": decays,
    "repeats": repeats,
    "sizes": sizes,
    "critical": critical,
    "noise": noise,
    "speeds": speeds,
}


def _warmed(rate: float, step: int) -> float:
    return rate * rules.linear_warmup(step, 20)


def main(arguments: Sequence[str] = ()) -> int:
    """Run experiments, print the final losses beside the recorded ones; with `--write`, record them."""
    parser = argparse.ArgumentParser(prog="course bench optimizer", description=__doc__.split("\n")[0])
    parser.add_argument("experiment", nargs="*", help=f"any of {', '.join(EXPERIMENTS)}; all if none is named")
    parser.add_argument("--write", action="store_true", help="record the results for the chapter")
    given = parser.parse_args(list(arguments))
    if unknown := set(given.experiment) - set(EXPERIMENTS):
        parser.error(f"no experiment {min(unknown)!r}; choose from {', '.join(EXPERIMENTS)}")
    torch.set_num_threads(1)
    recorded = recorded_runs() if RECORDED.is_file() else {}
    for name in given.experiment or EXPERIMENTS:
        began, found = time.perf_counter(), EXPERIMENTS[name]()
        print(f"{name} ({time.perf_counter() - began:.0f} s)")
        for label, result in found.items():
            print(f"  {label:24} {_said(result):32} recorded {_said(recorded.get(name, {}).get(label))}")
        if given.write:
            recorded |= {
                name: found,
                "machine": {"processor": platform.machine(), "threads": 1, "date": f"{date.today():%Y-%m}"},
            }
            Path(str(RECORDED)).write_text(as_text(recorded), encoding="utf-8")
    return 0


def as_text(recorded: Mapping[str, Mapping[str, object]]) -> str:
    """JSON with a line for each run."""
    parts = []
    for name, found in recorded.items():
        lines = ",\n".join(f"  {json.dumps(label)}: {json.dumps(result)}" for label, result in found.items())
        parts.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _said(result: object) -> str:
    """A result in a few words."""
    if not isinstance(result, dict):
        return "nothing" if result is None else f"{result:,}"
    shown = {key: result[key] for key in ("final", "held_out", "steps", "samples", "two") if key in result}
    return ", ".join(f"{key} {value:.4g}" for key, value in shown.items())
