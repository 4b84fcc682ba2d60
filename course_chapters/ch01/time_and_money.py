"""Chapter 01's widgets on time and money: years into weeks, cost against two baselines, published runs."""

import numpy as np
from matplotlib.axes import Axes

from course_chapters.ch01.choices import COUNTS, GPUS, SIZES, TOKENS, UTILIZATION, params_text, tokens_text
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, GRID, INK, ORANGE, SOFT, VERMILION, color, ink_on
from course_lib.draw.style import Picture
from course_lib.estimate import compute, facts
from course_lib.estimate.units import (
    BILLION,
    DAY,
    TRILLION,
    YEAR,
    count_text,
    duration_text,
    money_text,
    number_text,
    percent_text,
)

# --- years into weeks ----------------------------------------------------------------------------


_GUIDES = ((YEAR, "a year"), (30 * DAY, "30 days"), (7 * DAY, "a week"), (DAY, "a day"))


def draw_years_to_weeks(
    params: float = 70 * BILLION, tokens: float = 15 * TRILLION, gpu: str = "H100 SXM", gpus: int = 64, mfu: float = 0.4
) -> Picture:
    """Time of a run over the number of GPUs, at this utilization and at the peak; both axes logarithmic."""
    device = facts.device(gpu)
    counts = np.array(COUNTS)
    reached = compute.train_seconds(params, tokens, device.dense_flops, mfu, counts)
    seconds = compute.train_seconds(params, tokens, device.dense_flops, mfu, gpus)
    bill = compute.cost_usd(compute.device_hours(seconds, gpus), price := facts.price("H100 hour"))
    figure, axes = style.new(3.5, left=0.85, bottom=0.6)
    across, up = np.log2(counts), np.log10(reached / DAY)  # linear axes in logarithms are quicker to draw
    axes.plot(across, up + np.log10(mfu), color=SOFT, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.plot(across, up, color=BLUE, linewidth=2.2)
    right = across[-1] + 0.2
    axes.text(right, up[-1] + np.log10(mfu), "100 % of peak", va="center", **style.font(style.SMALL, SOFT))
    axes.text(right, up[-1], f"{percent_text(mfu)} MFU", va="center", **style.font(style.SMALL, BLUE))
    low, top = up[-1] + np.log10(mfu) - 0.4, up[0] + 0.8
    for size, words in _GUIDES:
        place = np.log10(size / DAY)
        if low < place < top:
            axes.plot((0, 18), (place, place), color=GRID, linewidth=0.8, zorder=0)
            axes.text(0.1, place, words, va="bottom", **style.font(style.SMALL, SOFT))
    here = (np.log2(gpus), np.log10(seconds / DAY))
    axes.plot(*here, "o", color=VERMILION, markersize=9, zorder=5)
    large = style.font(style.LARGE, bold=True)
    axes.annotate(duration_text(seconds), here, xytext=(9, 7), textcoords="offset points", **large)
    axes.set(xlim=(-0.3, across[-1] + 2.5), ylim=(low, top))
    axes.set_xticks(across[::3], [f"{count:,}" for count in counts[::3]])
    _decades(axes, low, top)
    title = f"{params_text(params)} on {number_text(tokens)} tokens, {gpus:,} × {gpu} at {percent_text(mfu)} MFU"
    style.dress(axes, title, x="GPUs (perfect scaling)", y="time of the run (days)")
    said = f"{money_text(bill)} at {money_text(price)} per GPU-hour,\nfor any number of GPUs"
    style.note(axes, 0.985, 0.95, said, ha="right", va="top")
    figure.alt = (
        f"{title}: {duration_text(seconds)} and {money_text(bill)} at the assumed {money_text(price)} per GPU-hour, "
        "for any number of GPUs. On logarithmic axes the line falls straight; a dashed line shows 100 % of peak."
    )
    return figure


def _decades(axes: Axes, low: float, top: float) -> None:
    """Ticks at whole powers of ten, on an axis that is a logarithm."""
    powers = range(int(np.ceil(low)), int(np.floor(top)) + 1)
    axes.set_yticks(powers, [number_text(10.0**power).removeprefix("1 × ") for power in powers])


def years_to_weeks(params: float = 70 * BILLION, tokens: float = 15 * TRILLION) -> Explorer:
    """More GPUs or a higher utilization turn years into weeks; only utilization changes the bill."""
    return explore(
        draw_years_to_weeks,
        params=slider(SIZES, params, label="parameters", text=params_text),
        tokens=slider(TOKENS, tokens, label="tokens", text=tokens_text),
        gpu=menu(GPUS, "H100 SXM", label="GPU"),
        gpus=play(COUNTS, 1, label="GPUs", text=lambda count: f"{count:,}", interval=500),
        mfu=slider(UTILIZATION, 0.4, label="MFU", text=percent_text),
    )


# --- cost with two baselines ---------------------------------------------------------------------


def draw_cost(
    gpus: int = 1024, days: int = 30, price: float = 2.0, mfu: float = 0.35, achievable: float = 0.5
) -> Picture:
    """The bill of a run, and how much of it was wasted: against the peak, and against an achievable MFU."""
    hours = compute.device_hours(days * DAY, gpus)
    bill = compute.cost_usd(hours, price)
    baselines = {"100 % of peak": 1.0, f"the achievable {percent_text(achievable)}": achievable}
    figure, axes = style.new(2.6, left=1.95, right=0.3, bottom=0.55, top=0.66)
    for place, (name, baseline) in enumerate(baselines.items()):
        wasted = compute.wasted_fraction(mfu, baseline)
        axes.text(-0.012, place, f"against {name}", ha="right", va="center", **style.font())
        _share(axes, place, 0.0, 1 - wasted, "needed", bill, color("weights"))
        _share(axes, place, 1 - wasted, wasted, "wasted", bill, ORANGE)
    axes.set(xlim=(0, 1), ylim=(1.5, -0.5), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_xticks((0, 0.25, 0.5, 0.75, 1), [f"{share} %" for share in (0, 25, 50, 75, 100)])
    title = f"{count_text(gpus, 'GPU')} × {days} days × {money_text(price)} an hour = {money_text(bill)}"
    point = compute.points_of_mfu_usd(bill, mfu)
    style.dress(axes, "", x="share of the bill")
    left, high = 1.95 / style.WIDTH, figure.get_figheight()
    saved = style.plain(f"at {percent_text(mfu)} MFU; one point more saves {money_text(point)}")
    figure.text(left, 1 - 0.28 / high, style.plain(title), **style.font(style.LARGE, bold=True))
    figure.text(left, 1 - 0.5 / high, saved, **style.font(ink=SOFT))
    wastes = {name: percent_text(compute.wasted_fraction(mfu, baseline)) for name, baseline in baselines.items()}
    shares = "; ".join(f"against {name} {waste} is wasted" for name, waste in wastes.items())
    figure.alt = f"{title}. At {percent_text(mfu)} MFU, {shares}. One point of MFU is worth {money_text(point)}."
    return figure


def _share(axes: Axes, place: int, start: float, size: float, words: str, bill: float, fill: str) -> None:
    """A part of the bill, with its money where there is room for it."""
    axes.barh(place, size, left=start, height=0.52, color=fill, linewidth=0)
    said = f"{words} {money_text(size * bill)}" if size > 0.3 else words
    if size > 0.14:
        said = style.plain(f"{said}\n{percent_text(size)}")
        axes.text(start + size / 2, place, said, ha="center", va="center", **style.font(style.SMALL, ink_on(fill)))


def cost() -> Explorer:
    """The bill and its waste under two baselines."""
    listed = facts.prices()
    prices = sorted({float(listed["H100 hour"]), 1.0, 3.0, 4.0, float(listed["H100 hour, hyperscaler high"])})
    return explore(
        draw_cost,
        gpus=slider(COUNTS, 1024, label="GPUs", text=lambda count: f"{count:,}"),
        days=slider((7, 14, 30, 60, 90, 180), 30, label="length of the run", text=lambda days: f"{days} days"),
        price=slider(prices, float(listed["H100 hour"]), label="price of a GPU-hour", text=money_text),
        mfu=slider(UTILIZATION, 0.35, label="MFU reached", text=percent_text),
        achievable=slider((0.4, 0.45, 0.5, 0.55, 0.6), 0.5, label="MFU achievable", text=percent_text),
    )


# --- runs over the years -------------------------------------------------------------------------


_VALUES = {  # field of a run and label of the axis
    "FLOP": ("flops", "FLOP of the whole run"),
    "accelerators": ("devices", "accelerators used"),
    "parameters": ("params", "parameters"),
}


def draw_runs(value: str = "FLOP", name: str = "") -> Picture:
    """Published training runs by date: FLOP of the run, accelerators, or parameters; one may be named."""
    if value not in _VALUES:
        raise ValueError(f"value is {value!r}; choose from {', '.join(_VALUES)}.")
    field, label = _VALUES[value]
    shown = [run for run in facts.runs().values() if _size(run, field) and not run.get("tp")]
    known = {run.name: float(_size(run, field) or 0) for run in shown}
    heights = {name: float(np.log10(size)) for name, size in known.items()}
    figure, axes = style.new(3.7, left=0.95, bottom=0.55)
    axes.plot([run.year for run in shown], list(heights.values()), "o", color=BLUE, markersize=5.5)
    for run in shown:
        if run.name == name or run.name in _NAMED:
            _name_run(axes, run, heights[run.name], run.name == name)
    low, top = np.floor(min(heights.values())), np.ceil(max(heights.values()) + 0.2)
    _decades(axes, low, top)
    axes.set(xlim=(2017, 2026.9), ylim=(low, top))
    axes.set_xticks(range(2017, 2027), [str(year) for year in range(2017, 2027)])
    title = f"Published training runs: {label}"
    style.dress(axes, title, x="date of publication (year)", y=label, grid="y")
    marked = _marked(name, value, known)
    style.note(axes, 0.02, 0.94, marked, style.NORMAL, VERMILION, va="top")
    ends = min(shown, key=lambda run: run.year), max(shown, key=lambda run: known[run.name])
    span = " to ".join(f"{run.name} in {run.published[:4]} ({number_text(known[run.name])})" for run in ends)
    figure.alt = f"{title}, {len(shown)} runs on a logarithmic axis, from {span}. {marked}"
    return figure


def _size(run: facts.PublishedRun, field: str) -> float | None:
    return run.flops if field == "flops" else run.get(field)


def _marked(name: str, value: str, known: dict[str, float]) -> str:
    """What is known of the marked run, in words."""
    if not name:
        return ""
    if name not in known:
        return f"{name}: {value} not published."
    run = facts.run(name)
    counted = f" ({run.flops_condition})" if value == "FLOP" else ""
    return f"{name}, {run.published}: {number_text(known[name])} {value}{counted}"


def _name_run(axes: Axes, run: facts.PublishedRun, height: float, picked: bool) -> None:
    """A run's name beside its point, on the side where there is room."""
    over, side = _NAMED.get(run.name, (4, "left"))
    axes.annotate(
        run.name,
        (run.year, height),
        xytext=(7 if side == "left" else -7, over),
        textcoords="offset points",
        ha=side,
        va="center",
        **style.font(style.SMALL, VERMILION if picked else INK, picked),
    )
    if picked:
        axes.plot([run.year], [height], "o", color=VERMILION, markersize=9, zorder=5)


_NAMED = {  # how far above its point, in points, and on which side the name stands
    "Transformer (big)": (0, "left"),
    "BERT large": (0, "left"),
    "Megatron-LM 8.3B": (0, "left"),
    "GPT-3 175B": (0, "left"),
    "PaLM 540B": (4, "left"),
    "LLaMA 65B": (-9, "left"),
    "Llama 2 70B": (6, "left"),
    "Llama 3.1 405B": (0, "right"),
    "DeepSeek-V3": (-10, "left"),
    "Llama 4 Scout": (8, "left"),
}
