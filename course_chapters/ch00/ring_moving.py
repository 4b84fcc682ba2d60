"""A ring that moves on a page without a kernel: an animated SVG of ranks that pass numbers to their neighbors.

`python -m course_chapters.ch00.ring_moving` writes chapter 00's copy again.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from course_lib.draw.palette import (
    BLUE,
    EMPTY,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    SOFT,
    VERMILION,
    YELLOW,
    ink_on,
)
from course_lib.draw.style import THEMES

CHAPTER = Path(__file__).resolve().parents[2] / "solutions" / "00_start_here"
CHAPTER_COPY = CHAPTER / "figures" / "ring_moving.svg"

RANKS = 8
HUES = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, GREY)
WIDTH, HEIGHT, RADIUS = 690, 340, 118
CENTER = (170, 172)
REST = 0.55  # share of a step in which everything stands still
ALT = (
    "Eight ranks stand on a circle. Each holds a colored number; at every step all eight numbers move one rank "
    "clockwise at once. After seven steps rank 0 has seen all eight."
)


def ring_moving() -> str:
    """The SVG as text: eight ranks, one turn in eight seconds, still where the reader asks for no motion."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'role="img" font-family="DejaVu Sans, Verdana, sans-serif">',
            f"<title>{ALT}</title>",
            THEMES,
            _style(),
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{PAPER}"/>',
            *_arrows(),
            *_ranks(),
            '<g class="turn">',
            *_numbers(),
            "</g>",
            *_caption(),
            "</svg>\n",
        ]
    )


def _at(rank: int, radius: float = RADIUS) -> tuple[float, float]:
    angle = 2 * math.pi * rank / RANKS
    return CENTER[0] + radius * math.sin(angle), CENTER[1] - radius * math.cos(angle)


def _style() -> str:
    stops = [(100 * (step + part) / RANKS, 360 * step / RANKS) for step in range(RANKS) for part in (0, REST)]
    turn = "".join(f"{percent:.4g}%{{transform:rotate({angle:g}deg)}}" for percent, angle in [*stops, (100, 360)])
    back = turn.replace("rotate(", "rotate(-")  # the numbers stay upright while the ring turns
    seen = "".join(_appear(step) for step in range(RANKS))
    return (
        f"<style>.turn{{transform-origin:{CENTER[0]}px {CENTER[1]}px;animation:turn 8s linear infinite}}"
        ".up{animation:up 8s linear infinite;transform-box:fill-box;transform-origin:center}"
        f"@keyframes turn{{{turn}}}@keyframes up{{{back}}}{seen}"
        "@media (prefers-reduced-motion:reduce){.turn,.up,[class^=seen]{animation:none}}</style>"
    )


def _appear(step: int) -> str:
    first = 1 if step == 0 else 0.16
    rise = f"{100 * (step - 0.2) / RANKS:.4g}%{{opacity:0.16}}{100 * step / RANKS:.4g}%{{opacity:1}}" if step else ""
    return (
        f".seen{step}{{animation:seen{step} 8s linear infinite}}@keyframes seen{step}"
        f"{{0%{{opacity:{first}}}{rise}97%{{opacity:1}}100%{{opacity:{first}}}}}"
    )


def _arrows() -> Iterator[str]:
    for rank in range(RANKS):
        (x0, y0), (x1, y1) = _at(rank), _at((rank + 1) % RANKS)
        length = math.dist((x0, y0), (x1, y1))
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        tip = (x1 - ux * 33, y1 - uy * 33)
        yield (
            f'<path d="M{x0 + ux * 31:.1f} {y0 + uy * 31:.1f}L{tip[0]:.1f} {tip[1]:.1f}" '
            f'stroke="{SOFT}" stroke-width="2"/>'
        )
        yield (
            f'<path d="M{tip[0] + ux * 6:.1f} {tip[1] + uy * 6:.1f}L{tip[0] - uy * 4:.1f} {tip[1] + ux * 4:.1f}'
            f'L{tip[0] + uy * 4:.1f} {tip[1] - ux * 4:.1f}Z" fill="{SOFT}"/>'
        )


def _ranks() -> Iterator[str]:
    for rank in range(RANKS):
        (x, y), (lx, ly) = _at(rank), _at(rank, RADIUS + 42)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="29" fill="{EMPTY}" stroke="{INK}" stroke-width="1.2"/>'
        yield f'<text x="{lx:.1f}" y="{ly + 4:.1f}" font-size="11" fill="{SOFT}" text-anchor="middle">{rank}</text>'


def _numbers() -> Iterator[str]:
    for rank, hue in enumerate(HUES):
        x, y = _at(rank)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="19" fill="{hue}"/>'
        yield (
            f'<text class="up" x="{x:.1f}" y="{y + 4.5:.1f}" font-size="13" font-weight="bold" '
            f'fill="{ink_on(hue)}" text-anchor="middle">{2**rank}</text>'
        )


def _caption() -> Iterator[str]:
    left = 372
    yield _line(left, 84, "Eight ranks, one function", 14, ' font-weight="bold"')
    yield _line(left, 108, "Each sends the number it holds to the next")
    yield _line(left, 127, "rank and receives one from the rank before.")
    yield _line(left, 146, "Rank 0 (top) has seen, by now:")
    for step in range(RANKS):
        source = -step % RANKS  # whose number reaches rank 0 at this step
        x, hue = left + 14 + 31 * step, HUES[source]
        yield (
            f'<g class="seen{step}"><circle cx="{x}" cy="176" r="13" fill="{hue}"/><text x="{x}" y="180" '
            f'font-size="10" font-weight="bold" fill="{ink_on(hue)}" text-anchor="middle">{2**source}</text></g>'
        )
    yield _line(left, 222, "After seven steps every rank knows all eight")
    yield _line(left, 241, f"numbers, and their sum: {sum(2**rank for rank in range(RANKS))}.")


def _line(x: float, y: float, text: str, size: int = 12, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{INK}"{more}>{text}</text>'


if __name__ == "__main__":
    CHAPTER_COPY.write_text(ring_moving(), encoding="utf-8")
    print(CHAPTER_COPY)
