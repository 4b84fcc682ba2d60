"""Chapter 17's widgets: messages against wires, plans under a changed task, a network that gets slower, and the Pareto
front of all plans."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from course_lib.draw import style
from course_lib.draw.explore import Explorer, buttons, explore, menu, play, slider
from course_lib.draw.palette import BEYOND, BLUE, GREEN, GREY, INK, ORANGE, PAPER, PURPLE, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate import running_plan
from course_lib.estimate.memory.shapes import count_params
from course_lib.estimate.scaling_laws import chinchilla_law
from course_lib.estimate.units import (
    DAY,
    GB,
    bytes_text,
    count_text,
    duration_text,
    money_text,
    number_text,
    percent_text,
)
from course_lib.operate import capstone
from course_lib.operate.capstone import CHANGES, COURSE, assess, changed
from course_lib.parallel import planner

# --- messages against wires ------------------------------------------------------------------------

SEQS = (2048, 8192, 32_768)


def draw_sentence(gpus: int = 8, seq: int = 8192) -> Picture:
    """For every way to divide a step: seconds of its messages on two wires, as a share of the seconds of computing."""
    rows = sorted(capstone.parallelisms(gpus, seq), key=lambda row: -row.sent / row.computing)
    figure, axes = style.new(3.6, left=0.75, right=1.75, bottom=0.6)
    for place, row in enumerate(rows):
        near, far = row.inside / row.computing, row.across / row.computing
        axes.plot([near, far], [place, place], color=GREY, linewidth=1.6, zorder=1)
        axes.plot([near], [place], "o", color=GREEN, markersize=7)
        axes.plot([far], [place], "s", color=ORANGE, markersize=7)
        said = "nothing hides it" if row.name == "TP" else f"behind {row.hidden.removeprefix('partly ')}"
        axes.text(1.02, place, said, transform=axes.get_yaxis_transform(), va="center", **style.font(7.0, SOFT))
    axes.axvspan(1.0, 30.0, color=BEYOND, zorder=0)
    axes.set_xscale("log")
    axes.set(xlim=(1e-4, 30), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    title = f"{gpus} GPUs, one sequence of {seq:,} tokens each: who needs the fast wire?"
    style.dress(axes, title, "messages / computing, in seconds (circle: NVLink, square: network)", grid="x")
    figure.alt = f"{title} " + "; ".join(
        f"{row.name} {percent_text(row.inside / row.computing, 2)} inside a server, "
        f"{percent_text(row.across / row.computing, 2)} across"
        for row in rows
    )
    return figure


def sentence(gpus: int = 8) -> Explorer:
    """The hierarchy of communication against the hierarchy of bandwidth."""
    return explore(
        draw_sentence,
        gpus=slider((2, 4, 8), gpus, label="GPUs", text=str),
        seq=slider(SEQS, 8192, label="sequence", text=lambda tokens: f"{tokens:,} tokens"),
    )


# --- plans under a changed task --------------------------------------------------------------------

PLANS: Mapping[str, Mapping[str, object]] = {
    "tp 8 × pp 4": running_plan.PLAN,
    "tp 2 × cp 4 × pp 8": {"tp": 2, "cp": 4, "pp": 8, "microbatches": 512},
    "FSDP, recomputed": running_plan.SHARDED,
    "FSDP × cp 8": {"cp": 8, "dp": 8, "zero": 3, "microbatches": 64},
}
PLAN_INKS = dict(zip(PLANS, (BLUE, GREEN, ORANGE, PURPLE), strict=True))
NO_CHANGE, AGAIN = "as planned", "searched again"


def draw_change(change: str = NO_CHANGE) -> Picture:
    """Memory, days and dollars of the plans, each as a share of its bound, before and after a change; and of a plan
    made anew."""
    task = COURSE if change == NO_CHANGE else changed(COURSE, change)
    figure, axes = style.new(4.0, left=1.45, right=0.3, bottom=1.05)
    said, bounds = [], assess(_again(change), task)
    plans = {name: _adapted(plan, task) for name, plan in PLANS.items()} | {AGAIN: _again(change)}
    high = 0.86 / len(plans)
    for number, (name, plan) in enumerate(plans.items()):
        found = assess(plan, task)
        shares = (found.memory / found.room, found.days / task.days, found.usd / task.usd)
        ink = PLAN_INKS.get(name, GREY)
        if found.reasons:
            said.append(f"{name} cannot run: {found.reasons[0]}")
            shares = (0.0, 0.0, 0.0)
        else:
            said.append(
                f"{name}: memory {percent_text(shares[0])}, days {percent_text(shares[1])}, dollars "
                f"{percent_text(shares[2])}"
            )
        places = [row + number * high - 0.43 for row in range(3)]
        axes.barh(places, np.minimum(shares, 2.0), height=0.9 * high, align="edge", color=ink, linewidth=0, label=name)
        for place, share in zip(places, shares, strict=True):
            text = percent_text(share, 2) if share else "cannot run on the GPUs that are left"
            axes.text(
                min(share, 2.0) + 0.02,
                place + high / 2,
                text,
                va="center",
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.4},  # the red line stays off the digits
                **style.font(6.5, INK if share else VERMILION),
            )
    axes.axvline(1.0, color=VERMILION, linewidth=1.5)
    axes.set(xlim=(0, 2.25), ylim=(2.5, -0.5))
    axes.set_yticks(
        range(3),
        [
            f"{bytes_text(bounds.room)} a GPU",
            f"{number_text(task.days)} days",
            money_text(task.usd).replace("$", r"\$"),
        ],
    )
    fewer = bounds.tokens / COURSE.tokens
    title = f"{change[0].upper()}{change[1:]}: each plan against the bounds (red)"
    style.dress(axes, title, "share of the bound")
    axes.set_xticks((0, 0.5, 1, 1.5, 2), ("0", "50 %", "100 %", "150 %", "200 % or more"))
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.17), ncol=3, frameon=False, fontsize=8, labelcolor=INK)
    note = f"The new plan trains {percent_text(fewer)} of the tokens." if fewer < 1 else "All plans train all tokens."
    figure.text(0.1 / style.WIDTH, 0.06 / figure.get_figheight(), note, **style.font(style.SMALL, SOFT))
    figure.alt = f"{title}. " + "; ".join(said) + f". {note}"
    return figure


@lru_cache(maxsize=8)
def _again(change: str) -> dict[str, object]:
    """The plan that the search finds for the changed task, with the tokens that time and money allow."""
    task = COURSE if change == NO_CHANGE else changed(COURSE, change)
    found = capstone.best(task)
    tokens = capstone.affordable(found, task)
    return found if tokens == task.tokens else {**found, "tokens": tokens}


def _adapted(plan: Mapping[str, object], task: capstone.Task) -> dict[str, object]:
    """The same degrees on a changed task: only the micro-batches follow the batch, one sequence each."""
    return {**plan, "microbatches": max(task.sequences // int(capstone.layout_of(plan).dp), 1)}


def change(name: str = NO_CHANGE) -> Explorer:
    """Which plan survives which change?"""
    return explore(draw_change, change=buttons((NO_CHANGE, *CHANGES), name, label="change"))


# --- a network that gets slower --------------------------------------------------------------------

SLOWER = tuple(float(f"{2 ** (step / 2):.2g}") for step in range(11))


@lru_cache(maxsize=64)
def days_of(name: str, slower: float) -> float:
    """Days of the course's run by one of `PLANS` on a network that is so many times slower."""
    return assess(PLANS[name], replace(COURSE, across_share=1 / slower)).days


def draw_network(slower: float = SLOWER[-1]) -> Picture:
    """Days of each plan's run over the slowdown of the network, up to the chosen one."""
    figure, axes = style.new(3.3, left=0.8, bottom=0.85)
    seen = [each for each in SLOWER if each <= slower]
    for name in PLANS:
        days = [days_of(name, each) for each in seen]
        axes.plot(seen, days, "o-", color=PLAN_INKS[name], linewidth=2, markersize=4, label=name)
    axes.axhline(COURSE.days, color=VERMILION, linewidth=1.2)
    axes.text(SLOWER[-1], COURSE.days * 1.03, "deadline", ha="right", **style.font(style.SMALL, VERMILION))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlim=(0.95, 34), ylim=(18, 1500))
    axes.set_xticks((1, 2, 4, 8, 16, 32), ("1", "2", "4", "8", "16", "32"))
    axes.set_yticks((20, 30, 60, 120, 300, 1000), ("20", "30", "60", "120", "300", "1,000"))
    axes.set_yticks([], minor=True)
    title = (
        f"A network {number_text(slower, 2)} times slower: days of the run"
        if slower > 1
        else "Today's network: days of the run"
    )
    style.dress(axes, title, "times slower between servers", "days", grid="y")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=4, frameon=False, fontsize=8, labelcolor=INK)
    figure.alt = (
        f"{title}. "
        + ", ".join(f"{name} {days_of(name, slower):,.0f}" for name in PLANS)
        + f"; the deadline is {COURSE.days:g}."
    )
    return figure


def network(slower: float = SLOWER[0]) -> Explorer:
    """Play it: the plans have about equal days today, and differ in what they need from the network."""
    return explore(
        draw_network,
        slower=play(SLOWER, slower, label="slower by", text=lambda times: f"{number_text(times, 2)} ×", interval=500),
    )


# --- the Pareto front ------------------------------------------------------------------------------

METRICS: Mapping[str, str] = {
    "memory": "GB of the fullest GPU",
    "days": "days for all tokens",
    "dollars": "thousand dollars for all tokens",
    "loss": "nats by the scaling law, after the time chosen below",
}
COUNTS = (16, 32, 48, 64)


@lru_cache(maxsize=8)
def points(within: float) -> tuple[np.ndarray, np.ndarray]:
    """(plans, four metrics): memory, days, thousands of dollars, and the loss reached within so many days; and the GPUs
    of each plan.

    Layouts of 1F1B that fit, on four sizes of cluster. The loss is Hoffmann et al.'s law, corrected, for the tokens
    trained in that time.
    """
    law, rows = chinchilla_law(), []
    params = float(count_params(COURSE.job().shape))
    for gpus in COUNTS:
        cluster = COURSE.hardware(gpus)
        for recompute in ("none", "full"):
            job = COURSE.job(recompute)
            try:
                found = planner.estimate(job, cluster, planner.layouts(job, cluster))
            except planner.NoPlan:
                continue
            fits = found.ok
            rate = np.asarray(found.tokens_per_second)[fits]
            days = COURSE.tokens / rate / DAY
            usd = days * 24 * gpus * cluster.usd_per_hour / 1000
            loss = law.floor + law.a * params**-law.alpha + law.b * (rate * within * DAY) ** -law.beta
            rows.append(
                np.stack([np.asarray(found.memory)[fits] / GB, days, usd, loss, np.full(rate.shape, gpus)], axis=1)
            )
    table = np.concatenate(rows)
    table = table[table[:, 1] < 2 * table[:, 1].min() * COUNTS[-1] / table[:, 4]]  # much slower ones are of no interest
    return table[:, :4], table[:, 4]


def draw_pareto(x: str = "memory", y: str = "loss", within: float = 30.0) -> Picture:
    """Every plan that fits, in two of four metrics; those that nothing beats in the two, and in all four."""
    metrics, gpus = points(within)
    names = list(METRICS)
    across, up = metrics[:, names.index(x)], metrics[:, names.index(y)]
    two, four = planner.pareto(across, up), planner.pareto(*metrics.T)
    figure, axes = style.new(3.8, left=0.85, bottom=0.85)
    axes.scatter(across, up, s=9, color=GREY, linewidths=0, label=f"{len(metrics):,} plans that fit")
    axes.scatter(
        across[four], up[four], s=20, color=BLUE, linewidths=0, label=f"{four.sum()} that nothing beats in all four"
    )
    order = np.argsort(across[two])
    axes.plot(
        across[two][order],
        up[two][order],
        "o-",
        color=VERMILION,
        markersize=5,
        linewidth=1.4,
        label=f"{two.sum()} in these two",
    )
    title = f"{len(metrics):,} plans for one job: {x} against {y}"
    style.dress(axes, title, METRICS[x], METRICS[y] if y != "loss" else "nats", grid="both")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=3, frameon=False, fontsize=8, labelcolor=INK)
    best = int(np.argmin(up))
    figure.alt = (
        f"{title}. On the front of the two {'is' if two.sum() == 1 else 'are'} {count_text(two.sum(), 'plan')}, "
        f"{four.sum()} on that of all four. The lowest {y}, {number_text(float(up[best]))}, has "
        f"{number_text(float(across[best]))} {METRICS[x]} on {gpus[best]:.0f} GPUs; the lowest is "
        f"{number_text(float(across.min()))}."
    )
    return figure


def pareto(x: str = "memory", y: str = "loss") -> Explorer:
    """Choose two metrics, and see which plans are left when the other two count as well."""
    names: Sequence[str] = tuple(METRICS)
    return explore(
        draw_pareto,
        x=menu(names, x, label="across"),
        y=menu(names[::-1], y, label="up"),
        within=slider((10.0, 30.0, 60.0), 30.0, label="train for", text=lambda days: duration_text(days * DAY)),
    )
