"""`course bench`: the figures that the course is held to, measured on this machine."""

import importlib.util
from typing import Annotated

import typer

from course_app.cli.console import HELP, examples, part
from course_lib.messages import Trouble

EXAMPLES = examples(
    "course bench                             what can be measured",
    "course bench start                       what a second `./course learn` adds before JupyterLab's own start",
    "course bench cells 06 12                 how long one waits for each cell of a chapter, and for its checks",
    "course bench widgets                     how fast a slider of chapter 01 answers, in a real browser",
    "course bench cluster                     messages a second through the metered cluster",
    "course bench roofline                    the compute and memory roofs of this machine, and its ridge",
    "course bench memory --data FOLDER        predicted memory against the published tables in a folder",
    "course bench planner --data FOLDER       predicted step times against the published tables in a folder",
    "course bench serving                     predicted throughput and latency against published engines",
    "course bench rings --ranks 2 --sizes 64  the rings of chapter 06 against gloo's all-reduce",
)

BENCHES = {  # name -> (module with main(arguments) -> exit code, what it measures)
    "start": ("course_app.learner.bench_start", "what a second `./course learn` adds before JupyterLab's own start"),
    "cells": ("bench.cells", "how long each cell of each chapter takes in a kernel, and each check"),
    "widgets": ("bench.widgets", "how fast a slider answers, in a real browser"),
    "roofline": (
        "course_chapters.ch03.measured_roofline",
        "the roofs of this machine: matmul, elementwise, copy, and its ridge",
    ),
    "cluster": ("bench.cluster", "messages a second through the metered cluster"),
    "parallel": (
        "bench.parallel",
        "data and tensor parallelism and ZeRO on real processes: bytes against formulas, time against torch's own",
    ),
    "memory": ("bench.memory", "predicted memory against published memory, source by source"),
    "planner": ("bench.planner", "predicted step times against published ones, source by source"),
    "rings": ("bench.rings", "the rings of chapter 06 on real processes, against gloo's all-reduce"),
    "grading": ("bench.grading", "the class grader against nbgrader's own on the same submissions"),
    "architecture": (
        "bench.architecture",
        "lines, modules and imports of each part of the library; draws docs/architecture.svg",
    ),
    "pictures": ("bench.pictures", "the photographs in README and docs, taken anew; --check says which are stale"),
    "reading": (
        "bench.reading",
        "how many lines one reads to understand simulate, a ring, a schedule, FSDP, ring attention",
    ),
    "precision": ("bench.precision", "chapter 05's small trainings in few bits, against the recorded ones"),
    "experts": (
        "bench.experts",
        "chapter 12's small mixtures of experts, against the recorded trainings; --write records",
    ),
    "optimizer": ("bench.optimizer", "chapter 04's small trainings, beside those recorded; --write records"),
    "checkpoints": ("bench.checkpoints", "checkpoints under 200 kills, power failures, damage and a full disk"),
    "serving": (
        "bench.serving",
        "predicted throughput and latency of served models against published ones; the simulator's speed",
    ),
}


def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What to measure; without a name, a list.")] = "",
    asks_for_help: Annotated[bool, typer.Option("--help", "-h", help=HELP)] = False,
) -> None:
    """Measure the course on this machine.

    Further flags go to the measurement itself: course bench memory --help lists them.
    """
    if asks_for_help and not name:
        typer.echo(context.get_help())
        return
    if not name:
        for each, (_, what) in BENCHES.items():
            typer.echo(f"{each:12} {what}{'' if there(each) else '  (not in this copy)'}")
        return
    if name not in BENCHES:
        raise Trouble(f"There is no measurement {name!r}.", f"choose one of {', '.join(BENCHES)}")
    module, what = BENCHES[name]
    raise typer.Exit(int(part(module, what).main([*context.args, *(["--help"] if asks_for_help else [])]) or 0))


def there(name: str) -> bool:
    """Whether this copy of the course has that measurement."""
    try:
        return importlib.util.find_spec(BENCHES[name][0]) is not None
    except ModuleNotFoundError:  # its package is not there
        return False
