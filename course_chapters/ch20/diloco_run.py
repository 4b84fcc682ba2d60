"""`course run diloco`: workers on real processes train apart, and are compared with the same run on metered ranks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import fmean

from course_chapters.ch20 import diloco
from course_chapters.ch20.diloco import CONFIG, WAYS, Plan
from course_lib.cluster import simulate
from course_lib.cluster.collectives import ring_cost
from course_lib.cluster.errors import Unfinished
from course_lib.estimate.units import bytes_text, duration_text
from course_lib.messages import Trouble, count_text
from course_lib.model import transformer
from course_runs import evidence
from course_runs.real_ranks import launch

TOLERANCE = 1e-4  # of a loss: processes add in another order than metered ranks
LIMIT = 900.0  # s for all processes together
EXAMPLES = """\
examples:
  course run diloco                                  four workers, an exchange every five steps
  course run diloco --way "streaming DiLoCo" --compare    the same on metered ranks
  course run diloco --workers 2 --inner 20 --steps 200
  course run diloco --dry                            what it would do
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says: 0 where it went well, 1 where the runs disagree, 2 where it was refused, 124
    where it took too long."""
    given = _arguments(argv)
    try:
        fields = {
            name: value for name in Plan.__dataclass_fields__ if (value := getattr(given, name, None)) is not None
        }
        plan = replace(WAYS[given.way], **fields)
        print(f"{given.way}: {_said(plan)}", flush=True)
        if given.dry:
            return 0
        content = measured(given.way, plan, given.compare)
    except Unfinished:
        print(f"diloco: stopped after {duration_text(LIMIT)}; there is no evidence.", file=sys.stderr)
        return 124
    except (Trouble, ValueError) as trouble:
        print(f"diloco: {trouble}", file=sys.stderr)
        return 2
    found = content["measured"]
    print(
        f"Loss {found['first_loss']:.3f} to {found['last_loss']:.3f}, held out {found['held_out']:.3f}, in "
        f"{duration_text(found['seconds'])}; each worker sent {bytes_text(found['sent_bytes'])}."
    )
    if given.compare:
        print(f"Losses on metered ranks differ by at most {found['largest_difference']:.2g}.")
    if given.out:
        print(evidence.write(content, given.out, f"diloco-{evidence.stamp()}"))
    return int(given.compare and found["largest_difference"] > TOLERANCE)


def exchanged(plan: Plan) -> int:
    """Numbers that a run gives to all-reduces: all parameters once a step, or once in every `inner` steps."""
    numbers = sum(each.numel() for each in transformer.build(CONFIG).parameters())
    return numbers * (plan.steps // plan.inner if plan.inner else plan.steps)


def ring_bytes(numbers: int, workers: int) -> float:
    """What a worker sends for all-reduces of so many fp32 numbers by a ring."""
    return float(ring_cost(4 * numbers, workers, 0.0, 1.0).nbytes)


def measured(way: str, plan: Plan, compare: bool = False) -> evidence.Evidence:
    """The evidence of a run on processes, and with `compare` of the same on metered ranks."""
    run = launch(diloco.train, plan.workers, (plan,), timeout=LIMIT)
    losses = [each.losses for each in run.results]
    apart = 0.0
    if compare:
        metered = simulate(diloco.train, plan.workers, (plan,)).results
        apart = max(
            abs(a - b) for one, two in zip(losses, metered, strict=True) for a, b in zip(one, two.losses, strict=True)
        )
    return evidence.evidence(
        "diloco",
        setup={**asdict(plan), "way": way, "compared": compare},
        predicted={"sent_numbers": exchanged(plan), "sent_bytes": ring_bytes(exchanged(plan), plan.workers)},
        measured={
            "first_loss": fmean(each[0] for each in losses),
            "last_loss": fmean(each[-1] for each in losses),
            "held_out": run.results[0].held_out,
            "sent_numbers": run.results[0].sent,
            "sent_bytes": ring_bytes(run.results[0].sent, plan.workers),
            **({"largest_difference": apart} if compare else {}),
            "seconds": run.seconds,
        },
        raw={"losses": losses, "held_out": [each.held_out for each in run.results]},
        notes=("sent_bytes are those of a ring all-reduce for the numbers that the run gave to it.",),
    )


def _said(plan: Plan) -> str:
    apart = f"an exchange every {count_text(plan.inner, 'step')}" if plan.inner else "an exchange in every step"
    sent = bytes_text(ring_bytes(exchanged(plan), plan.workers))
    return f"{count_text(plan.workers, 'worker')}, {count_text(plan.steps, 'step')}, {apart}: each sends {sent}."


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="course run diloco",
        description="Train the course's transformer on workers that exchange weights seldom.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--way", choices=tuple(WAYS), default="DiLoCo", help="how weights are exchanged (default: DiLoCo)")
    add("--workers", type=int, help="processes")
    add("--inner", type=int, help="steps between two exchanges")
    add("--steps", type=int, help="steps of each worker")
    add("--batch", type=int, help="sequences of a worker in a step")
    add("--outer-rate", type=float, help="learning rate of the outer optimizer")
    add("--momentum", type=float, help="momentum of the outer optimizer")
    add("--seed", type=int, help="of the weights and the data")
    add("--compare", action="store_true", help="run on metered ranks as well, and compare the losses")
    add("--dry", action="store_true", help="say what would run, and stop")
    add("--out", default="", help="folder for the evidence")
    return parser.parse_args(argv)
