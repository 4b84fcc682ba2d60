"""Chapter 14's widgets: goodput over the interval, a checkpoint from save to load, a month of a run, an alarm."""

from functools import lru_cache

import numpy as np

from course_chapters.ch14.draw_save import save_and_load as save_and_load
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.units import DAY, HOUR, MINUTE, count_text, duration_text, number_text, percent_text
from course_lib.operate import faults

RATE = facts.failure_log("Llama 3.1 405B").rate / HOUR  # per GPU and second
INKS = {"work": GREEN, "checkpoint": SKY, "lost": VERMILION, "restart": ORANGE, "wait": GREY}
DAYS, CELLS = 30, 360  # cells of a day: four minutes each
SIZES = (1024, 4096, 16_384, 65_536, 131_072)
INTERVALS = tuple(MINUTE * minutes for minutes in (1, 2, 4, 8, 15, 30, 60, 120, 240))
COSTS = (3.0, 10.0, 60.0, 300.0)
RESTART = 10 * MINUTE
RESTARTS = (MINUTE, 2 * MINUTE, RESTART, 30 * MINUTE, 2 * HOUR)
ENOUGH = 10**6
SPARES = (0, 2, 4, 8, 12, 16, 64, ENOUGH)
REPAIR = DAY


def gpus_text(count: int) -> str:
    """A number of GPUs with its unit."""
    return count_text(count, "GPU")


# --- a month as a strip ----------------------------------------------------------------------------


@lru_cache(maxsize=32)
def month_of(gpus: int, interval: float, cost: float, restart: float = RESTART, spares: int = ENOUGH) -> faults.Ledger:
    """A simulated month of a job at Llama 3's failure rate; a node is repaired in a day."""
    between = faults.mtbf(gpus, RATE)
    plan = faults.Plan(mtbf=between, interval=interval, cost=cost, restart=restart, repair=REPAIR, spares=spares)
    return faults.simulate_goodput(plan, DAYS * DAY, seed=1, stretches=True)


@lru_cache(maxsize=32)
def month_cells(gpus: int, interval: float, cost: float, restart: float = RESTART, spares: int = ENOUGH) -> np.ndarray:
    """The share of each cell of the month that each of `INKS` took: (days, cells of a day, causes)."""
    names, width = list(INKS), DAY / CELLS
    spent = np.zeros((len(names), DAYS * CELLS))
    for cause, start, stop in month_of(gpus, interval, cost, restart, spares).stretches:
        first, last = int(start // width), min(int(stop // width), DAYS * CELLS - 1)
        row = spent[names.index(cause)]
        if first == last:
            row[first] += stop - start
        else:
            row[first] += (first + 1) * width - start
            row[first + 1 : last] += width
            row[last] += stop - last * width
    return (spent / width).T.reshape(DAYS, CELLS, len(names))


def spares_text(count: int) -> str:
    """A number of spare nodes, or that there are always enough."""
    return "always enough" if count == ENOUGH else count_text(count, "node")


def draw_month(
    day: int = DAYS,
    gpus: int = 16_384,
    interval: float = 15 * MINUTE,
    cost: float = 60.0,
    restart: float = RESTART,
    spares: int = ENOUGH,
) -> Picture:
    """The days of a month up to `day`, one row each, colored by what the time was spent on."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    palette = np.array([to_rgb(ink) for ink in INKS.values()])
    image = np.zeros((DAYS, CELLS, 4))  # transparent where no day was played
    image[:day, :, 3] = 1
    image[:day, :, :3] = (month_cells(gpus, interval, cost, restart, spares)[:day] @ palette).clip(
        0, 1
    )  # colors mixed by their shares
    figure, axes = style.new(4.0, left=0.6, bottom=0.85)
    axes.set_facecolor(EMPTY)
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, 24, DAYS + 0.5, 0.5))
    axes.set_xticks(range(0, 25, 4))
    axes.set_yticks(range(5, DAYS + 1, 5))
    whole = month_of(gpus, interval, cost, restart, spares)
    failures = sum(1 for each in whole.stretches if each.cause == "restart" and each.start < day * DAY)
    spent = dict.fromkeys(INKS, 0.0)
    for each in whole.stretches:
        spent[each.cause] += max(0.0, min(each.stop, day * DAY) - each.start)
    share = spent["work"] / (day * DAY)
    title = f"{gpus_text(gpus)}, day {day}: {failures} failures, {percent_text(share)} useful"
    style.dress(axes, title, "hour of the day", "day")
    handles = [
        Patch(facecolor=ink, label=f"{cause} {percent_text(spent[cause] / (day * DAY), 2)}")
        for cause, ink in INKS.items()
        if cause != "wait" or spares < ENOUGH
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=5, frameon=False, fontsize=8)
    figure.alt = f"{title}. " + ", ".join(str(handle.get_label()) for handle in handles) + "."
    return figure


def month(day: int = DAYS) -> Explorer:
    """Play a month; change the job's size, the interval, what a checkpoint and a restart cost, and the spare nodes."""
    return explore(
        draw_month,
        day=play(range(1, DAYS + 1), day, label="days", interval=250),
        gpus=slider(SIZES, 16_384, label="job", text=gpus_text),
        interval=slider(INTERVALS, 15 * MINUTE, label="save every", text=duration_text),
        cost=slider(COSTS, 60.0, label="a save costs", text=duration_text),
        restart=slider(RESTARTS, RESTART, label="a restart takes", text=duration_text),
        spares=slider(SPARES, ENOUGH, label="spares", text=spares_text),
    )


# --- goodput over the interval ---------------------------------------------------------------------


def draw_interval(interval: float = 60 * MINUTE, cost: float = 60.0, gpus: int = 16_384) -> Picture:
    """Goodput over the interval by the exact form and to first order, the learner's choice, and a simulated month
    there."""
    between = faults.mtbf(gpus, RATE)
    x = np.geomspace(20, 8 * HOUR, 120)
    exact = [100 * faults.expected_goodput(each, cost, between, RESTART) for each in x]
    first = [100 * faults.first_order_goodput(each, cost, between, RESTART) for each in x]
    best, young = faults.best_interval(cost, between), faults.young_interval(cost, between)
    mine = faults.expected_goodput(interval, cost, between, RESTART)
    top = faults.expected_goodput(best, cost, between, RESTART)
    figure, axes = style.new(3.4, left=0.75)
    axes.semilogx(x, exact, color=BLUE, linewidth=2, label="exact")
    axes.semilogx(x, first, color=SOFT, linewidth=1.2, linestyle="--", label="first order")
    axes.axvline(young, color=PURPLE, linewidth=1, linestyle=":", label=f"Young: {duration_text(young)}")
    axes.plot(best, 100 * top, "o", color=GREEN, label=f"best: {duration_text(best)}")
    axes.plot(interval, 100 * mine, "D", color=ORANGE, label="your choice")
    seen = [100 * month_of(gpus, interval, cost).goodput]
    axes.plot([interval], seen, "x", color=VERMILION, markersize=8, label="a simulated month")
    marks = (MINUTE, 10 * MINUTE, HOUR, 4 * HOUR)
    axes.set_xticks(marks, [duration_text(each) for each in marks])
    axes.set_xticks([], minor=True)
    axes.set(ylim=(0, 102), xlim=(20, 8 * HOUR))
    title = f"Every {duration_text(interval)}: {percent_text(mine)} useful; at best {percent_text(top)}"
    style.dress(axes, title, "time between two checkpoints", "goodput, %", grid="y")
    axes.legend(frameon=False, fontsize=8, loc="lower center", ncol=3, labelcolor=INK)
    figure.alt = (
        f"{title}, on {gpus_text(gpus)} with one failure every {duration_text(between)}. Young's interval is "
        f"{duration_text(young)}, the exact best {duration_text(best)}; a simulated month gives {seen[0]:.1f} %."
    )
    return figure


def interval(chosen: float = 60 * MINUTE) -> Explorer:
    """Choose an interval and compare it with the best one."""
    return explore(
        draw_interval,
        interval=slider(INTERVALS, chosen, label="save every", text=duration_text),
        cost=slider(COSTS, 60.0, label="a save costs", text=duration_text),
        gpus=slider(SIZES, 16_384, label="job", text=gpus_text),
    )


# --- a spike and its alarm -------------------------------------------------------------------------

THRESHOLDS = (3.0, 4.0, 5.0, 6.0, 8.0, 12.0)
HEIGHTS = (0.1, 0.2, 0.4, 0.8, 1.6)
PATIENCES = (1, 2, 3, 5)


@lru_cache(maxsize=64)
def spike_score(threshold: float, patience: int, height: float) -> faults.Evaluation:
    """How a detector does on thirty drawn curves, half of them with a spike."""
    curves = [faults.draw_curve(300, seed, spike=200 if seed % 2 else None, height=height) for seed in range(30)]
    return faults.evaluate(curves, threshold=threshold, patience=patience)


def reacted(curve: faults.Curve, threshold: float, patience: int) -> list[int]:
    """The alarms that a run gives: false ones, and the first after the spike began; then it skips or goes back."""
    found = list(faults.alarms(curve.losses, faults.SpikeDetector(threshold=threshold, patience=patience)))
    assert curve.spike is not None
    return [step for place, step in enumerate(found) if place == 0 or found[place - 1] < curve.spike]


def draw_spike(threshold: float = 6.0, patience: int = 1, height: float = 0.8) -> Picture:
    """A drawn loss with a spike at step 200, and where the detector gives an alarm."""
    curve = faults.draw_curve(300, 1, spike=200, height=height)
    found = reacted(curve, threshold, patience)
    score = spike_score(threshold, patience, height)
    figure, axes = style.new(3.0)
    axes.plot(curve.losses, color=BLUE, linewidth=1)
    for step in found:
        false = step < 200
        axes.axvline(step, color=ORANGE if false else VERMILION, linewidth=1.5, linestyle=":" if false else "-")
    axes.set(xlim=(0, 300), ylim=(2.2, 5.0))
    delay = f"{number_text(score.mean_delay, 2)} steps late" if score.found else "never in time"
    title = (
        f"{score.found} of {score.spikes} spikes found, {delay}; {number_text(score.false_per_1000, 2)} false "
        f"alarms in 1,000"
    )
    style.dress(axes, title, "step (spike at 200; lines: alarms)", "loss, nats per token", grid="y")
    figure.alt = f"{title}. Threshold {threshold:g} times the jitter, patience {patience}. Alarms at {found}."
    return figure


def spike(threshold: float = 6.0) -> Explorer:
    """Trade delay against false alarms."""
    return explore(
        draw_spike,
        threshold=slider(THRESHOLDS, threshold, label="threshold", text=lambda times: f"{times:g} × jitter"),
        patience=slider(PATIENCES, 1, label="patience", text=lambda steps: f"{steps} in a row"),
        height=slider(HEIGHTS, 0.8, label="height", text=lambda nats: f"{nats:g} nats"),
    )
