"""What a peak is made of: a GPU of many processors, each with tensor cores, each a block of multipliers."""

import math

from matplotlib.axes import Axes

from course_chapters.ch03.tiling import boxes
from course_lib.draw import style
from course_lib.draw.palette import DARK_WORDS, EMPTY, GREY, INK, ORANGE, SKY, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.facts.chips import Chip
from course_lib.estimate.units import bytes_text, number_text, rate_text

PARTS = ("tensor core", "SM", "GPU")
_FRAMES = {"GPU": (0.15, 1.0, 2.6, 2.35), "SM": (3.05, 1.0, 2.3, 2.35), "tensor core": (5.65, 1.0, 1.6, 2.35)}  # inches


def chip_picture(chip: Chip, part: str = "SM", name: str = "") -> Picture:
    """A GPU, one of its SMs and one tensor core side by side; the chosen part with its counts and rates in words."""
    if part not in PARTS:
        raise ValueError(f"part is {part!r}; choose from {', '.join(PARTS)}.")
    figure, axes = style.new(4.05, left=0, right=0, bottom=0, top=0)
    style.bare(axes)
    axes.set(xlim=(0, style.WIDTH), ylim=(0, 4.05))
    for each, (x, y, wide, high) in _FRAMES.items():
        heavy = each == part
        boxes(axes, [(x, y, wide, high)], EMPTY, VERMILION if heavy else GREY, 2.2 if heavy else 0.8)
        axes.text(
            x,
            y + high + 0.09,
            f"one {each}",
            fontsize=style.NORMAL,
            color=INK,
            fontweight="bold" if heavy else "normal",
        )
    _gpu(axes, chip)
    _sm(axes, chip)
    _core(axes, chip)
    lines = part_words(chip, part)
    axes.text(
        0.15, 3.83, f"{name or 'A GPU'}: {lines[0]}", fontsize=style.LARGE, color=INK, fontweight="bold", va="center"
    )
    for row, line in enumerate(lines[1:]):
        axes.text(0.15, 0.72 - 0.23 * row, line, fontsize=style.NORMAL, color=INK, va="center")
    figure.alt = f"{name or 'A GPU'}, one {part}: {lines[0]}. {' '.join(lines[1:])}"
    return figure


def part_words(chip: Chip, part: str) -> tuple[str, ...]:
    """The contents and rates of a part: a heading and up to three lines of counts and products."""
    tensor = chip.tensor_flop_per_clock * chip.tensor_hertz
    core = 2 * chip.core_hertz
    if part == "tensor core":
        return (
            f"a tensor core does {number_text(chip.tensor_flop_per_clock, 4)} FLOP per clock",
            f"{number_text(chip.tensor_flop_per_clock / 2, 4)} multiply-adds, each of them two FLOP, "
            f"at {number_text(chip.tensor_hertz / 1e9, 4)} GHz: {rate_text(tensor)} in 16 bits, dense.",
            f"A plain core does one multiply-add per clock: {rate_text(core)} in fp32.",
        )
    if part == "SM":
        return (
            f"an SM holds {chip.tensor_cores_per_sm:g} tensor cores and {chip.cores_per_sm:g} plain ones",
            f"{chip.tensor_cores_per_sm:g} × {rate_text(tensor)} = {rate_text(chip.tensor_cores_per_sm * tensor)} in "
            f"16 bits; {chip.cores_per_sm:g} × {rate_text(core)} = {rate_text(chip.cores_per_sm * core)} in fp32.",
            f"Its own storage: {bytes_text(chip.registers)} of registers, {bytes_text(chip.shared_memory)} of shared "
            f"memory and L1.",
        )
    sms, tensors, cores = chip.sms, chip.sms * chip.tensor_cores_per_sm, chip.sms * chip.cores_per_sm
    return (
        f"{sms:g} SMs, {tensors:,.0f} tensor cores, {cores:,.0f} plain cores",
        f"{tensors:,.0f} × {rate_text(tensor)} = {rate_text(tensors * tensor)} in 16 bits, dense: the peak of "
        f"the data sheet.",
        f"{cores:,.0f} × {rate_text(core)} = {rate_text(cores * core)} in fp32.",
        f"{bytes_text(chip.l2)} of L2 cache lie between the SMs and the memory.",
    )


def _gpu(axes: Axes, chip: Chip) -> None:
    """All SMs of the die, one of them marked, with the L2 cache through the middle."""
    x, y, wide, high = _FRAMES["GPU"]
    columns = 12
    rows = -(-int(chip.sms) // columns)
    across, up = (wide - 0.2) / columns, (high - 0.5) / rows
    places = []
    for k in range(int(chip.sms)):
        row, column = divmod(k, columns)
        lift = 0.3 if row >= rows // 2 else 0.0
        places.append((x + 0.1 + column * across, y + 0.1 + row * up + lift, 0.8 * across, 0.78 * up))
    boxes(axes, places, SKY, layer=2)
    boxes(axes, places[columns - 1 : columns], VERMILION, layer=3)
    middle = y + 0.1 + (rows // 2) * up + 0.02
    boxes(axes, [(x + 0.1, middle, wide - 0.2, 0.23)], GREY, layer=2)
    axes.text(
        x + wide / 2, middle + 0.115, "L2 cache", fontsize=7.5, color=DARK_WORDS, ha="center", va="center", zorder=4
    )


def _sm(axes: Axes, chip: Chip) -> None:
    """Four quarters, each with plain cores and a share of the tensor cores, over the shared memory."""
    x, y, wide, high = _FRAMES["SM"]
    half, tall = (wide - 0.3) / 2, (high - 0.65) / 2
    plain, tensors = [], []
    for quarter in range(4):
        left, low = x + 0.1 + (quarter % 2) * (half + 0.1), y + 0.45 + (quarter // 2) * (tall + 0.1)
        boxes(axes, [(left, low, half, tall)], "white", GREY, 0.8, layer=2)
        each = int(chip.cores_per_sm) // 4
        plain += [
            (left + 0.06 + 0.105 * (k % 4), low + 0.07 + (tall - 0.1) * (k // 4) / (each / 4), 0.075, 0.055)
            for k in range(each)
        ]
        count = max(1, int(chip.tensor_cores_per_sm) // 4)
        deep = (tall - 0.12) / count
        tensors += [(left + 0.53, low + 0.06 + k * deep, half - 0.59, deep - 0.05) for k in range(count)]
    boxes(axes, plain, SKY, layer=3)
    boxes(axes, tensors, ORANGE, layer=3)
    boxes(axes, tensors[1:2], VERMILION, layer=4)
    boxes(axes, [(x + 0.1, y + 0.1, wide - 0.2, 0.25)], GREY, layer=2)
    axes.text(
        x + wide / 2, y + 0.225, "shared memory", fontsize=7.5, color=DARK_WORDS, ha="center", va="center", zorder=4
    )


def _core(axes: Axes, chip: Chip) -> None:
    """A block of multipliers: an element of C for each box, fed by four products a clock."""
    x, y, wide, high = _FRAMES["tensor core"]
    elements = int(chip.tensor_flop_per_clock) // 2 // 4
    columns = min(8, math.isqrt(elements))
    rows = elements // columns
    across, up = (wide - 0.2) / columns, (high - 0.5) / rows
    boxes(
        axes,
        [
            (x + 0.1 + c * across, y + 0.4 + r * up, 0.84 * across, 0.76 * up)
            for r in range(rows)
            for c in range(columns)
        ],
        ORANGE,
        layer=2,
    )
    axes.text(x + wide / 2, y + 0.2, "rows of A × columns of B", fontsize=7.5, color=SOFT, ha="center", va="center")
