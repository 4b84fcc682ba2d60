"""Pipelines, four ways: `./course bench pipeline [speed] [torch] [rates] [real]`, all without a name.

speed: how long a schedule takes to generate and to play, and how that grows. torch: the orders against those that torch
generates. rates: bubbles against published ones. real: two processes on gloo against the whole model on one, and the
bubble that the timeline predicts from the median times of the operations against the one measured. The measured one is
larger: an operation that happens to take longer is waited for by the other rank, one that takes less time gives nothing
back.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench import torch_schedules
from course_chapters.ch10 import bubble_rates
from course_lib.cluster.records import Span
from course_lib.parallel.schedules import KINDS, Schedule, gpipe, interleaved, naive, one_f_one_b, zb_h1
from course_lib.parallel.timeline import Durations, play

if TYPE_CHECKING:  # loads torch
    from course_lib.model.transformer import Sizes

STAGES = 64
MICROBATCHES = (1024, 2048, 4096, 8192)
LIMITS = {1024: 0.3, 8192: 2.0}  # s to play 1F1B
REAL = {"naive": naive, "GPipe": gpipe, "1F1B": one_f_one_b, "interleaved 1F1B": interleaved, "ZB-H1": zb_h1}
REPEATS = 7


# --- the timeline's own speed


@dataclass(frozen=True, slots=True)
class Speed:
    """Generating and playing one schedule, once warm; the best of a few."""

    schedule: str
    stages: int
    microbatches: int
    operations: int
    generate_seconds: float
    play_seconds: float
    limit: float | None  # s to play it in, where one is set

    @property
    def ok(self) -> bool | None:
        """Whether it plays within its limit; None without one."""
        return None if self.limit is None else self.play_seconds <= self.limit


def speed(make: Callable[[int, int], Schedule], microbatches: int, stages: int = STAGES, repeats: int = 3) -> Speed:
    """The best of a few, of generating and of playing."""
    generate, played = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        schedule = make(stages, microbatches)
        between = time.perf_counter()
        play(schedule)
        generate.append(between - start)
        played.append(time.perf_counter() - between)
    limit = LIMITS.get(microbatches) if make is one_f_one_b and stages == STAGES else None
    count = sum(map(len, schedule.rows))
    return Speed(schedule.name, stages, microbatches, count, min(generate), min(played), limit)


# --- processes


@dataclass(frozen=True, slots=True)
class Real:
    """One schedule on two processes: medians over repeats, seconds of one step."""

    schedule: str
    serial_seconds: float  # the whole model on one process, micro-batch by micro-batch
    seconds: float  # from the first operation's start to the last one's end
    predicted_seconds: float  # the timeline, from the median times of the operations
    bubble: float  # measured idle time over all time
    predicted_bubble: float

    @property
    def speedup(self) -> float:
        """How many times as fast as the whole model on one process."""
        return self.serial_seconds / self.seconds


def steps_here(comm: Any, schedules: Sequence[Schedule], shape: "Sizes", size: int, repeats: int) -> dict[str, list]:
    """On one rank: for every schedule the spans of each repeat's step. Schedules take turns, so that noise falls on
    all."""
    import torch

    from course_lib.model.text import batch
    from course_lib.model.transformer import Config, build, loss
    from course_lib.parallel.pipeline import parameters_of, run, transformer_stages

    torch.set_num_threads(1)
    config = Config(**shape)
    tokens, targets = batch(0, size, config.seq_len)
    found: dict[str, list] = {schedule.name: [] for schedule in schedules}
    held = {}
    for schedule in schedules:
        stages = transformer_stages(build(config), schedule.stages)
        held[schedule.name] = {stage: stages[stage] for stage in schedule.stages_of(comm.rank)}
    for _ in range(repeats + 1):
        for schedule in schedules:
            mine = held[schedule.name]
            comm.barrier()
            done = run(comm, schedule, mine, loss, tokens, targets, (config.seq_len, config.hidden))
            found[schedule.name].append(
                [tuple(getattr(s, f) for f in ("rank", "start", "end", "kind", "label")) for s in done.spans]
            )
            for parameter in parameters_of(mine):
                parameter.grad = None
    return {name: steps[1:] for name, steps in found.items()}


def serial_here(comm: object, shape: "Sizes", size: int, microbatches: int, repeats: int) -> float:
    """Median seconds of forward and backward of the whole model here, one micro-batch after the other."""
    import torch

    from course_lib.model.text import batch
    from course_lib.model.transformer import Config, build, loss

    torch.set_num_threads(1)
    config = Config(**shape)
    model = build(config)
    tokens, targets = (each.tensor_split(microbatches) for each in batch(0, size, config.seq_len))
    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        for some, wanted in zip(tokens, targets, strict=True):
            (loss(model(some), wanted) / microbatches).backward()
        found.append(time.perf_counter() - start)
        model.zero_grad()
    return statistics.median(found[1:])


def message_here(comm: Any, numbers: int, repeats: int = 50) -> float:
    """Median seconds from one rank to the other for a message of so many numbers: half a round trip."""
    import torch

    x, found = torch.zeros(numbers), []
    for _ in range(repeats):
        start = time.perf_counter()
        for way in (comm.send, comm.recv) if comm.rank == 0 else (comm.recv, comm.send):
            way(x, 1 - comm.rank)
        found.append((time.perf_counter() - start) / 2)
    return statistics.median(found)


def real(
    shape: "Sizes", size: int, microbatches: int, repeats: int = REPEATS, names: Sequence[str] = tuple(REAL)
) -> list[Real]:
    """All schedules on two processes, against one process and against the timeline."""
    from course_runs.real_ranks import launch

    schedules = [REAL[name](2, microbatches) for name in names]
    serial = launch(serial_here, 1, args=(shape, size, microbatches, repeats), timeout=600.0).results[0]
    numbers = size // microbatches * shape["seq_len"] * shape["hidden"]
    message = launch(message_here, 2, args=(numbers,)).results[0]
    by_rank = launch(steps_here, 2, args=(schedules, shape, size, repeats), timeout=600.0).results
    return [
        _against_timeline(schedule, serial, message, [rank[schedule.name] for rank in by_rank])
        for schedule in schedules
    ]


def _against_timeline(schedule: Schedule, serial: float, message: float, by_rank: list[list[list[tuple]]]) -> Real:
    steps = [[Span(*span) for rank in by_rank for span in rank[repeat]] for repeat in range(len(by_rank[0]))]
    walls = [max(s.end for s in step) - min(s.start for s in step) for step in steps]
    idle = [1 - sum(s.end - s.start for s in step) / (2 * wall) for step, wall in zip(steps, walls, strict=True)]
    kinds = {word: kind for kind, word in KINDS.items()}
    took: dict[tuple[str, int], list[float]] = {}
    for rank, row in enumerate(schedule.rows):
        for repeat in by_rank[rank]:
            for op, (_, start, end, word, _) in zip(row, repeat, strict=True):
                took.setdefault((kinds[word], op.stage), []).append(end - start)
    median = {key: statistics.median(values) for key, values in took.items()}

    def of(kind: str) -> list[float]:
        return [median[kind, stage] for stage in range(schedule.stages)]

    if schedule.splits:
        halves = {"input_gradient": of("I"), "weight_gradient": of("W")}
        times = Durations(
            forward=of("F"),
            backward=[a + b for a, b in zip(*halves.values(), strict=True)],
            input_gradient=halves["input_gradient"],
            weight_gradient=halves["weight_gradient"],
            communication=message,
        )
    else:
        times = Durations(forward=of("F"), backward=of("B"), communication=message)
    played = play(schedule, times)
    return Real(
        schedule.name,
        serial,
        statistics.median(walls),
        played.makespan,
        statistics.median(idle),
        played.bubble_fraction,
    )


# --- the tables

PARTS = ("speed", "torch", "rates", "real")


def main(arguments: Sequence[str]) -> int:
    """Print the tables, or JSON with `--json`; 1 where a limit is missed or an order differs without a known reason."""
    parser = argparse.ArgumentParser(prog="course bench pipeline", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all without a name")
    parser.add_argument("--microbatches", type=int, nargs="+", default=MICROBATCHES, help="sizes of the speed part")
    parser.add_argument("--models", nargs="+", help="models of the rates part, such as 1.5B; all without this")
    parser.add_argument("--hidden", type=int, default=128, help="width of the real part's model, of 8 layers")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; choose of {', '.join(PARTS)}")
    wanted = given.parts or PARTS
    found: dict[str, list[dict[str, Any]]] = {}
    bad = False
    if "speed" in wanted:
        rows = [speed(one_f_one_b, count) for count in given.microbatches]
        rows += [speed(make, given.microbatches[0]) for make in (zb_h1, interleaved)]
        found["speed"] = [{**asdict(row), "ok": row.ok} for row in rows]
        bad |= any(row.ok is False for row in rows)
    if "torch" in wanted:
        compared = torch_schedules.table()
        found["torch"] = [asdict(row) for row in compared]
        bad |= any(row.different and not row.why for row in compared)
    if "rates" in wanted:
        found["rates"] = [asdict(row) for row in bubble_rates.table(given.models)]
    if "real" in wanted:
        shape: Sizes = {"layers": 8, "hidden": given.hidden, "heads": 4, "seq_len": 64}
        found["real"] = [{**asdict(row), "speedup": row.speedup} for row in real(shape, 32, 8, given.repeats)]
    print(json.dumps(found, indent=1)) if given.json else _show(found)
    return int(bad)


def _show(found: dict[str, list[dict[str, Any]]]) -> None:
    for part, rows in found.items():
        print(
            {
                "speed": "Generating and playing schedules",
                "torch": "Orders against torch.distributed.pipelining",
                "rates": "Bubble rates: printed, from printed times, fitted on 1F1B alone",
                "real": "Two processes on gloo, one step",
            }[part]
        )
        _table([_TEXT[part](row) for row in (_by_pair(rows) if part == "torch" else rows)])
        notes: Collection[str] = {row["why"] for row in rows if row.get("why")} if part == "torch" else ()
        if part == "rates":
            there = {row["schedule"] for row in rows}
            known = [f"{name}: {why}" for name, why in bubble_rates.WHY.items() if name in there]
            notes = [*known, f"fitted: {bubble_rates.why_fitted()}"]
        for note in notes:
            print(f"  {note}.")
        print()


def _by_pair(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each schedule and chunk count, over all sizes."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        total = merged.setdefault(
            (row["torch_name"], row["chunks"]), {**row, "operations": 0, "different": 0, "sizes": 0}
        )
        for name in ("operations", "different"):
            total[name] += row[name]
        total["sizes"] += 1
        total["first"] = total["first"] or row["first"]
    return list(merged.values())


def _ratio(value: float | None, printed: float) -> str:
    return "" if value is None else f"{value:.4f} ({100 * (value / printed - 1):+.1f} %)"


_TEXT: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
    "speed": lambda r: {
        "schedule": r["schedule"],
        "stages × micro-batches": f"{r['stages']} × {r['microbatches']:,}",
        "operations": f"{r['operations']:,}",
        "generate s": f"{r['generate_seconds']:.3f}",
        "play s": f"{r['play_seconds']:.3f}",
        "µs per operation": f"{1e6 * r['play_seconds'] / r['operations']:.2f}",
        "held to": "" if r["limit"] is None else f"{r['limit']:g} s: {'yes' if r['ok'] else 'NO'}",
    },
    "torch": lambda r: {
        "torch": r["torch_name"],
        "here": r["ours"],
        "chunks": str(r["chunks"]),
        "sizes": str(r["sizes"]),
        "operations": f"{r['operations']:,}",
        "different": str(r["different"]),
        "first": r["first"],
    },
    "rates": lambda r: {
        "model": r["model"],
        "ranks × micro-batches": f"{r['ranks']} × {r['microbatches']}",
        "schedule": r["schedule"],
        "printed": f"{r['printed']:.4f}",
        "from printed times": _ratio(r["profiled"], r["printed"]),
        "fitted": _ratio(r["fitted"], r["printed"]) + (" seen" if r["seen"] else ""),
    },
    "real": lambda r: {
        "schedule": r["schedule"],
        "serial s": f"{r['serial_seconds']:.3f}",
        "step s": f"{r['seconds']:.3f}",
        "predicted s": f"{r['predicted_seconds']:.3f}",
        "speed-up": f"{r['speedup']:.2f}",
        "bubble": f"{100 * r['bubble']:.1f} %",
        "predicted": f"{100 * r['predicted_bubble']:.1f} %",
    },
}


def _table(rows: list[dict[str, str]]) -> None:
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for row in ({name: name for name in widths}, *rows):
        print("  ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
