"""Chapter 14's tables and plots: published rates, jitter against size, what each item left out does, and the recorded
run."""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from IPython.display import Markdown
from torch import nn

from course_chapters.ch14.exercises.numbers import PLAN_COPY, PLAN_STORAGE, RESTART
from course_chapters.running_example import EXACT, GPUS, MFU
from course_chapters.table import table
from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE
from course_lib.draw.style import Picture
from course_lib.estimate import compute, facts, memory, running_plan
from course_lib.estimate.running_plan import CHECKPOINT_BYTES
from course_lib.estimate.units import DAY, HOUR, MINUTE, bytes_text, duration_text, number_text, percent_text
from course_lib.model import checkpoint
from course_lib.operate import faults
from course_runs.reading import recorded

LLAMA = facts.failure_log("Llama 3.1 405B")

warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # said of every single process's checkpoint


def rates_table(sizes: Sequence[int] = (64, 1024, 16_384)) -> Markdown:
    """Published failure rates, and the time between failures that each gives jobs of other sizes."""
    rows = []
    for log in facts.failure_logs().values():
        if not (log.get("node_day_rate") or log.get("failures")):
            continue
        row = {"log": log.name, "failures per million GPU-hours": number_text(1e6 * log.rate, 2)}
        row |= {f"{size:,} GPUs": duration_text(faults.mtbf(size, log.rate / HOUR)) for size in sizes}
        rows.append(row)
    return table(rows)


def three_cases(hours: float = 40.0, gpus: int = 64, slow: int = 20, large: int = 1000) -> Markdown:
    """Three ways to lose a job, at one price: GPU-hours that bring nothing in the first hours."""
    efficiency, dense = slow / gpus, facts.device("H100 SXM").memory
    state = memory.state_bytes(EXACT, running_plan.CONVENTION)
    few, many = (1 - faults.survival(hours * HOUR, each, LLAMA.rate / HOUR) for each in (gpus, large))
    rows = [
        (
            "it runs, slowly",
            f"{gpus} GPUs at the throughput of {slow}",
            percent_text(efficiency),
            gpus * hours * (1 - efficiency),
        ),
        (
            "it never runs",
            f"{bytes_text(state)} of state, {running_plan.STATE_BYTES:g} bytes per parameter, copied to GPUs of "
            f"{bytes_text(dense)}: step zero",
            "0 %",
            gpus * hours,
        ),
        (
            "it stops",
            f"a GPU fails, and nothing was saved: {percent_text(few, 2)} on {gpus}, {percent_text(many, 2)} on "
            f"{large:,} GPUs",
            "until then 100 %",
            few * gpus * hours / 2,
        ),
    ]
    lost = "GPU-hours lost, expected"
    names = ("case", f"within {hours:g} hours", "efficiency")
    return table([dict(zip(names, row, strict=False)) | {lost: f"{row[3]:,.0f}"} for row in rows])


VALIDATION = 10_000_000  # tokens that are held out, a choice
UNNOTICED = 10 * DAY  # between two faults that only a validation shows, as Gemini's report of wrong bits suggests


def validation_seconds(tokens: float = VALIDATION) -> float:
    """Seconds of a validation on the plan's GPUs: forward passes only, a third of a training step's work on as many
    tokens."""
    return compute.train_flops(EXACT, tokens) / 3 / (GPUS * float(facts.device("H100 SXM").dense_flops) * MFU)


def validation_table(between: float = UNNOTICED) -> Markdown:
    """How often to validate: what it costs, how late it notices, and both together; the best interval is Young's."""
    cost, rows = validation_seconds(), []
    best = faults.young_interval(cost, between)
    for interval in (10 * MINUTE, HOUR, best, DAY, 7 * DAY):
        lost = interval / 2 / between
        rows.append(
            {
                f"{number_text(VALIDATION)} tokens every": duration_text(interval)
                + (" (best)" if interval == best else ""),
                f"its cost, {duration_text(cost)} each": percent_text(cost / interval, 2),
                "noticed after, on average": duration_text(interval / 2),
                f"thrown away, a fault in {duration_text(between)}": percent_text(lost, 2),
                "both": percent_text(cost / interval + lost, 2),
            }
        )
    return table(rows)


def causes(most: int = 8) -> Picture:
    """Llama 3's unplanned interruptions by cause; the rarer causes together."""
    counted = list(facts.interruption_causes().items())
    shown = [*counted[:most], (f"{len(counted) - most} others", sum(float(count) for _, count in counted[most:]))]
    figure, axes = style.new(3.1, left=2.2, right=0.8)
    for row, (_, count) in enumerate(shown):
        axes.barh(row, count, height=0.66, color=ORANGE if "GPU" in shown[row][0] else BLUE, linewidth=0)
        words = f"{count:.0f} · {percent_text(count / LLAMA.failures)}"
        axes.text(count + 2, row, words, va="center", fontsize=style.SMALL, color=INK)
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.set(ylim=(len(shown) - 0.4, -0.6), xlim=(0, 180))
    title = f"{LLAMA.failures:.0f} unplanned interruptions in {LLAMA.days:.0f} days (orange: GPUs)"
    style.dress(axes, title, "interruptions", grid="x")
    figure.alt = f"{title}: " + ", ".join(f"{name} {count:.0f}" for name, count in shown) + "."
    return figure


def interval_table(costs: Sequence[float] = (3.0, 60.0, 600.0, 3 * HOUR), restart: float = RESTART) -> Markdown:
    """Young's interval, the exact one, and the goodput of both, for dearer and dearer checkpoints of Llama 3's job."""
    between, rows = faults.mtbf(LLAMA.devices, LLAMA.rate / HOUR), []
    for cost in costs:
        young, best = faults.young_interval(cost, between), faults.best_interval(cost, between)
        rows.append(
            {
                "a save costs": duration_text(cost),
                "Young": duration_text(young),
                "exact": duration_text(best),
                "goodput, Young": percent_text(faults.expected_goodput(young, cost, between, restart)),
                "goodput, exact": percent_text(faults.expected_goodput(best, cost, between, restart)),
            }
        )
    return table(rows)


def against_published(restarts: Sequence[float] = (5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 20 * MINUTE)) -> Markdown:
    """Goodput of Llama 3's job by formula and by simulation, for several restart times, beside what was published."""
    between = faults.mtbf(LLAMA.devices, LLAMA.rate / HOUR)
    cost, rows = faults.checkpoint_seconds(405e9 * CHECKPOINT_BYTES, LLAMA.storage), []
    for restart in restarts:
        plan = faults.Plan(mtbf=between, interval=faults.best_interval(cost, between), cost=cost, restart=restart)
        seen = [faults.simulate_goodput(plan, LLAMA.days * DAY, seed).goodput for seed in range(6)]
        rows.append(
            {
                "restart": duration_text(restart),
                "formula": percent_text(plan.expected),
                f"{len(seen)} simulated runs of {LLAMA.days:.0f} days": f"{percent_text(min(seen))} to "
                f"{percent_text(max(seen))}",
                "published": f"more than {percent_text(LLAMA.goodput)}",
            }
        )
    return table(rows)


def jitter(deviation: float = 0.03) -> Picture:
    """The expected time of a step over the number of ranks, where each rank's time varies by itself."""
    sizes = [2**power for power in range(15)]
    found = [100 * (faults.expected_max(size, 1.0, deviation) - 1) for size in sizes]
    bound = [100 * deviation * math.sqrt(2 * math.log(size)) for size in sizes]
    figure, axes = style.new(2.8)
    axes.semilogx(sizes, found, "o-", color=BLUE, linewidth=2, markersize=4, label="expected maximum")
    axes.semilogx(sizes, bound, "--", color=GREEN, linewidth=1.2, label="σ √(2 ln N)")
    marks = (1, 16, 256, 4096, 16_384)
    axes.set_xticks(marks, [f"{each:,}" for each in marks])
    axes.set_xticks([], minor=True)
    title = f"Times that vary by {percent_text(deviation)} cost {found[-1]:.0f} % on {sizes[-1]:,} ranks"
    style.dress(axes, title, "ranks", "step longer than the mean by, %", grid="y")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    figure.alt = f"{title}; {found[6]:.1f} % on {sizes[6]}. The bound σ √(2 ln N) lies above."
    return figure


# --- what each item left out does --------------------------------------------------------------------


def _training(seed: int) -> checkpoint.Training:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    return checkpoint.Training(model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60))


def _train(run: checkpoint.Training, steps: int) -> list[float]:
    assert isinstance(run.schedule, torch.optim.lr_scheduler.LRScheduler)
    order, losses = checkpoint.SampleOrder(60, 12), []
    data = torch.randn(60, 4, generator=torch.Generator().manual_seed(5))
    for _ in range(steps):
        samples, run.position = order.step(run.position)
        rows = data[samples]
        loss = (run.model(rows).squeeze(1) - rows.sum(1)).square().mean()
        loss.backward()
        run.optimizer.step()
        run.schedule.step()
        run.optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@cache
def left_out(steps: int = 15) -> Mapping[str, tuple[int | None, float]]:
    """For each item left out of a checkpoint: the first step after resuming whose loss differs, and the loss at the
    end."""
    with torch.random.fork_rng():
        run = _training(0)
        _train(run, steps)
        state = checkpoint.capture(run)
        kept = checkpoint.Captured({name: each.clone() for name, each in state.tensors.items()}, state.plain)
        whole, found = _train(run, steps), {}
        for item in ("", "weights", "optimizer", "schedule", "rng", "position"):
            other = _training(1)
            checkpoint.restore(other, kept, item)
            losses = _train(other, steps)
            differs = [step for step, (a, b) in enumerate(zip(whole, losses, strict=True), 1) if a != b]
            found[item] = (differs[0] if differs else None, losses[-1])
    return found


def left_out_table() -> Markdown:
    """Which step shows first that an item was left out."""
    rows = []
    for item, (step, loss) in left_out().items():
        where = "never: the same bits" if step is None else f"step {step}"
        rows.append({"left out": item or "nothing", "first loss that differs": where, "last loss": f"{loss:.4f}"})
    return table(rows)


# --- the recorded run ----------------------------------------------------------------------------------


def survived_table() -> Markdown:
    """What happened to the recorded run, what the logs showed, and what it cost."""
    rows = []
    for each in recorded("cpu2/survive")["raw"]["rows"]:
        rows.append(
            {
                "harm": f"{each['kind']}, rank {each['rank']}, step {each['step']}",
                "found": each["found"],
                "blamed": ", ".join(f"rank {rank}" for rank in each["blamed"]) or "-",
                "went on at step": each["resumed"],
                "steps repeated": each["repeated"],
                "seconds lost": f"{each['seconds']:.0f}",
            }
        )
    return table(rows)


def plan_table(restart: float = RESTART, storage: float = PLAN_STORAGE, copying: float = PLAN_COPY) -> Markdown:
    """My plan: what failures cost the course's job with checkpoints written at once and in the background."""
    between, state = faults.mtbf(GPUS, LLAMA.rate / HOUR), EXACT * CHECKPOINT_BYTES
    write, copy = state / storage, state / GPUS / copying
    rows = []
    for words, cost, persist in (("written at once", write, 0.0), ("copied, written in the background", copy, write)):
        best = max(faults.best_interval(cost, between), write)
        rows.append(
            {
                "checkpoint": f"{bytes_text(state)}, {words}",
                "stops training for": duration_text(cost),
                "best interval": duration_text(best),
                "goodput": percent_text(faults.expected_goodput(best, cost, between, restart, persist), 4),
            }
        )
    return table(rows)
