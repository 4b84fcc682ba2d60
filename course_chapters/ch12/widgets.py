"""Chapter 12's widgets: the journey of tokens, buffers of fixed capacity, loads over a training, drops, and the wire
against the matmul."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from course_chapters.ch12.moe_film import journey
from course_chapters.ch12.published_experts import recorded
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PAPER, PURPLE, SOFT, VERMILION, ink_on
from course_lib.draw.sheets import Box, Sheet
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.units import count_text, number_text, percent_text
from course_lib.parallel.expert import costs, keep, route

__all__ = ["buffers", "drops", "journey", "loads", "whole_or_split", "wire"]

# --- buffers of fixed capacity -------------------------------------------------------------------

TOKENS, EXPERTS, SIDE = 16, 4, 0.2  # inches of a place
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, math.inf)  # infinite: nothing is dropped
SKEWS = {"even logits": 0.0, "expert 0 is popular": 1.0, "expert 0 takes almost all": 4.0}


class Buffers(NamedTuple):
    """Copies by expert, as numbers of tokens: those that fit, and those that are dropped."""

    room: int | None  # copies that an expert takes; None: all
    kept: list[list[int]]
    dropped: list[list[int]]


@lru_cache(maxsize=128)
def assigned(factor: float, skew: str, top_k: int, by: str = "position") -> Buffers:
    """Sixteen tokens, routed to four experts by random logits; `skew` prefers expert 0."""
    logits = torch.randn(TOKENS, EXPERTS, generator=torch.Generator().manual_seed(4))
    logits[:, 0] += SKEWS[skew]
    routing = route(logits, top_k, "softmax")
    room = None if math.isinf(factor) else costs.capacity(TOKENS, EXPERTS, top_k, factor)
    fits = torch.ones_like(routing.experts, dtype=torch.bool) if room is None else keep(routing, room, by)
    kept, dropped = (
        [((routing.experts == expert) & chosen).any(-1).nonzero().flatten().tolist() for expert in range(EXPERTS)]
        for chosen in (fits, ~fits)
    )
    return Buffers(room, kept, dropped)


def draw_buffers(
    factor: float = 1.25, skew: str = "expert 0 is popular", top_k: int = 1, by: str = "position"
) -> Sheet:
    """Each expert's buffer: the tokens in it, its padding, and beside it the tokens that are dropped."""
    room, kept, dropped = assigned(factor, skew, top_k, by)
    copies, lost = TOKENS * top_k, sum(map(len, dropped))
    places = EXPERTS * room if room else copies
    loads = ", ".join(str(len(tokens)) for tokens in kept)
    sheet = Sheet(2.95, 6.2)
    title = f"Dropped: {lost} of {count_text(copies, 'copy', 'copies')} ({percent_text(lost / copies, 2)})"
    more = f"Padding: {places - copies + lost} of {places} places; loads of the experts: {loads}"
    sheet.head(title, more)
    left = 0.95
    for expert in range(EXPERTS):
        low = 1.95 - 0.4 * expert
        sheet.text(0.15, low + SIDE / 2, f"expert {expert}", va="center")
        slots = room or len(kept[expert])
        edges = _places(left, low, slots)
        beyond = _places(left + slots * SIDE + 0.12, low, len(dropped[expert]))
        sheet.boxes(edges[: len(kept[expert])], BLUE)
        sheet.boxes(edges[len(kept[expert]) :], EMPTY, edge=SOFT)
        sheet.boxes(beyond, PAPER, edge=VERMILION, thick=1.2)
        for (x, right, y, _), token in zip(edges, kept[expert], strict=False):
            sheet.text((x + right) / 2, y + 0.09, str(token), size=7.0, ink=ink_on(BLUE), ha="center", va="center")
        for (x, right, y, _), token in zip(beyond, dropped[expert], strict=False):
            sheet.text((x + right) / 2, y + 0.09, str(token), size=7.0, ha="center", va="center")
    sheet.keys(0.2, 0.3, {"a token's copy": BLUE}, gap=0.35)
    for x, fill, edge, words in (
        (1.75, EMPTY, SOFT, "padding, computed all the same"),
        (4.3, PAPER, VERMILION, "dropped"),
    ):
        sheet.boxes([(x, x + 0.11, 0.24, 0.35)], fill, edge=edge, thick=1.0)
        sheet.text(x + 0.17, 0.3, words, va="center")
    gone = [f"by expert {expert}: {', '.join(map(str, lost))}" for expert, lost in enumerate(dropped) if lost]
    which = f" Tokens dropped {'; '.join(gone)}." if gone else ""
    sheet.alt = f"{TOKENS} tokens and {EXPERTS} experts. {title}. {more}.{which}"
    return sheet


def _places(left: float, low: float, count: int) -> list[Box]:
    """So many places of a buffer, one beside the other."""
    return [(left + slot * SIDE, left + (slot + 1) * SIDE - 0.02, low, low + SIDE) for slot in range(count)]


def buffers(factor: float = 1.25) -> Explorer:
    """Change capacity and routing, and see what is padded and what is dropped."""
    return explore(
        draw_buffers,
        factor=play(
            FACTORS,
            factor,
            label="capacity factor",
            text=lambda f: "none, keep all" if math.isinf(f) else f"{f:g}",
            interval=1100,
        ),
        skew=menu(tuple(SKEWS), "expert 0 is popular", label="routing"),
        top_k=slider((1, 2), 1, label="experts per token", text=str),
        by=menu(("position", "weight"), "position", label="keep by", when=lambda now: not math.isinf(now["factor"])),
    )


# --- loads over a training -----------------------------------------------------------------------

TRAININGS = {"no balancing": VERMILION, "balance loss": BLUE, "bias": GREEN}
MARKS = range(0, 300, 10)


def draw_loads(step: int = 100) -> Picture:
    """The last layer's load of each expert at one step of three recorded trainings, and the imbalance up to there."""
    figure, axes = style.new(4.6, left=0.7, bottom=0.6, top=2.5)
    words = []
    for place, (name, ink) in enumerate(TRAININGS.items()):
        run = recorded(name)
        at = step // run.every
        panel = figure.add_axes((0.095 + 0.31 * place, 0.55, 0.265, 0.3))
        loads = np.array(run.last_layer[at])
        panel.bar(range(len(loads)), loads / loads.mean(), color=ink, width=0.8, linewidth=0)
        panel.axhline(1, color=INK, linewidth=1)
        panel.set(ylim=(0, 4.2), xticks=range(len(loads)))
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.tick_params(labelsize=style.SMALL, colors=SOFT, labelcolor=INK, length=0)
        panel.set_title(name, loc="left", fontsize=style.NORMAL, color=INK, fontweight="bold")
        x = np.arange(at + 1) * run.every
        axes.plot(x, run.imbalance[: at + 1], color=ink, linewidth=1.7, label=name)
        words.append(f"{name} {number_text(run.imbalance[at], 3)}")
    axes.set(xlim=(0, 300), ylim=(1, 4.2))
    axes.legend(frameon=False, fontsize=style.SMALL, ncol=3, loc="upper right")
    style.dress(axes, "", "step", "busiest / mean", grid="y")
    title = f"Step {step}: load of each expert in the last layer, as a multiple of the mean"
    figure.text(0.012, 0.955, title, fontweight="bold", fontsize=style.LARGE, color=INK)
    figure.alt = f"Step {step}, busiest expert over mean, averaged over layers: {', '.join(words)}."
    return figure


def loads(step: int = 0) -> Explorer:
    """Play three trainings: without balancing, with a balance loss, and with a bias."""
    return explore(draw_loads, step=play(MARKS, step, label="step", interval=350))


# --- drops ---------------------------------------------------------------------------------------

_FACTORS = np.round(np.arange(1, 2.01, 0.05), 2)
_TOKENS = {64: VERMILION, 512: ORANGE, 4096: BLUE}


@lru_cache(maxsize=16)
def drop_curve(tokens: int, experts: int, top_k: int) -> tuple[float, ...]:
    """The expected share of dropped copies by capacity factor, for evenly random routing."""
    return tuple(costs.drop_share(tokens, experts, top_k, float(factor)) for factor in _FACTORS)


def draw_drops(experts: int = 64, top_k: int = 2) -> Picture:
    """The share of dropped copies against the capacity factor, for three numbers of tokens whose capacity is counted
    together."""
    figure, axes = style.new(3.1, bottom=0.6, left=0.75)
    said = []
    for tokens, ink in _TOKENS.items():
        shares = np.array(drop_curve(tokens, experts, top_k))
        axes.plot(
            _FACTORS, 100 * shares, color=ink, linewidth=1.9, label=f"{tokens:,} tokens", marker="o", markersize=2.5
        )
        said.append(
            f"{tokens:,} tokens {percent_text(shares[0], 2)} at factor 1 and {percent_text(shares[5], 2)} at 1.25"
        )
    axes.set(xlim=(1, 2), ylim=(0, max(5, 105 * drop_curve(64, experts, top_k)[0])))
    axes.legend(frameon=False, fontsize=style.SMALL)
    title = f"{experts} experts, {top_k} per token, routed evenly at random"
    style.dress(axes, title, "capacity factor", "copies dropped, %", grid="y")
    figure.alt = f"{title}. Dropped: {'; '.join(said)}."
    return figure


def drops(experts: int = 64, top_k: int = 2) -> Explorer:
    """Which capacity factor is enough depends on how many tokens share one capacity."""
    return explore(
        draw_drops,
        experts=slider((8, 16, 64, 256), experts, label="experts"),
        top_k=slider((1, 2, 4, 8), top_k, label="experts per token"),
    )


# --- the wire against the matmul -----------------------------------------------------------------

WIDTHS = tuple(512 * 2**n for n in range(7))
LINKS = {"NVLink, inside a server": "link_one_way", "network adapter, between servers": "network_one_way"}
MFUS = (0.3, 0.4, 0.5, 0.7, 1.0)


def wire_over_matmul(ffn: float, link: str, mfu: float = 0.4, ranks: int = 64, device: str = "H100 SXM") -> float:
    """Seconds on the wire over seconds of matmul for one layer's experts, forward or backward, bf16, even routing.

    Per copy, 6·h·h_E FLOPs against 2·2·h bytes sent (there and back), times 1 − 1/N: the width h, the tokens and k
    cancel.
    """
    chip = facts.device(device)
    seconds_of_bytes = 4 * (1 - 1 / ranks) / float(getattr(chip, LINKS[link]))
    return seconds_of_bytes / (6 * ffn / (mfu * float(chip.dense_flops)))


def draw_wire(ffn: int = 2048, mfu: float = 0.4, ranks: int = 64) -> Picture:
    """Time of the two exchanges over time of the experts' matmuls, against the width of an expert, for two kinds of
    links."""
    figure, axes = style.new(3.2, bottom=0.6, left=0.85)
    widths = np.geomspace(WIDTHS[0], WIDTHS[-1], 60)
    said = []
    for name, ink in zip(LINKS, (BLUE, VERMILION), strict=True):
        axes.plot(
            np.log2(widths),
            [np.log2(wire_over_matmul(w, name, mfu, ranks)) for w in widths],
            color=ink,
            linewidth=2,
            label=name,
        )
        here = wire_over_matmul(ffn, name, mfu, ranks)
        axes.plot(np.log2(ffn), np.log2(here), "o", color=ink, markersize=7, markeredgecolor="white", zorder=5)
        said.append(f"{name} {number_text(here, 2)}")
    axes.axhline(0, color=INK, linewidth=1)
    axes.set_xticks(np.log2(WIDTHS), [f"{width:,}" for width in WIDTHS])
    axes.set_yticks(range(-6, 7, 2), ["1/64", "1/16", "1/4", "1", "4", "16", "64"])
    axes.set(ylim=(-6.5, 6.5))
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper right")
    style.dress(axes, "Seconds on the wire per second of matmul", "inner width of an expert", "", grid="y")
    figure.alt = (
        f"Experts of inner width {ffn:,} on {ranks} ranks, at {percent_text(mfu)} of the peak: seconds on "
        f"the wire per second of matmul: {', '.join(said)}."
    )
    return figure


def wire(ffn: int = 2048) -> Explorer:
    """How narrow may an expert be before its rows take longer than its matmuls?"""
    return explore(
        draw_wire,
        ffn=slider(WIDTHS, ffn, label="inner width of an expert", text=lambda f: f"{f:,}"),
        mfu=slider(MFUS, 0.4, label="share of the peak", text=percent_text),
        ranks=slider((2, 8, 64), 64, label="ranks"),
    )


# --- experts whole or split ----------------------------------------------------------------------

GROUPS = (2, 4, 8, 16, 32, 64)


def draw_whole_or_split(top_k: int = 2, imbalance: float = 1.0) -> Picture:
    """Rows that a rank sends in one exchange per own token, with the experts divided and with each expert split."""
    figure, axes = style.new(3.0, bottom=0.6, left=0.8)
    x = np.arange(len(GROUPS))
    whole = np.array([costs.even_bytes(1, 1, top_k, ranks, 1) for ranks in GROUPS])
    split = np.array([costs.tensor_bytes(1, 1, ranks, 1) for ranks in GROUPS])
    for rows, ink, line, name in (
        (split, ORANGE, "o-", "each expert split"),
        (whole, BLUE, "o-", "experts divided"),
        (whole * imbalance, PURPLE, "o:", "divided, busiest receiver"),
    ):
        axes.plot(x, rows, line, color=ink, linewidth=1.9, markersize=5, label=name)
    axes.set_xticks(x, [str(ranks) for ranks in GROUPS])
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.4, 90)
    axes.set_yticks([0.5, 1, 2, 4, 8, 16, 32, 64], ["1/2", "1", "2", "4", "8", "16", "32", "64"])
    axes.legend(frameon=False, fontsize=style.SMALL, loc="upper left")
    axes.minorticks_off()
    style.dress(
        axes, f"Rows sent per token and exchange, {count_text(top_k, 'expert')} per token", "ranks", "rows", grid="y"
    )
    even = next((ranks for ranks in GROUPS if ranks >= top_k), GROUPS[-1])
    said = "; ".join(
        f"{n} ranks {number_text(a, 2)} and {number_text(b, 2)}" for n, a, b in zip(GROUPS, whole, split, strict=True)
    )
    figure.alt = (
        f"With {count_text(top_k, 'expert')} per token, rows sent per token, divided and split: {said}. They "
        f"are equal at {even} ranks. Busiest receiver {number_text(imbalance, 2)} times the mean."
    )
    return figure


def whole_or_split(top_k: int = 2) -> Explorer:
    """Divide the experts among ranks, or split each of them? The bytes decide, and so does the balance."""
    return explore(
        draw_whole_or_split,
        top_k=slider((1, 2, 4, 8), top_k, label="experts per token"),
        imbalance=slider((1.0, 1.5, 2.0, 4.0), 1.0, label="busiest over mean", text=lambda x: f"{x:g} times"),
    )
