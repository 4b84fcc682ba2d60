"""Three roofs in one picture: which resource binds, over both intensities; and the drawing that gets it wrong.

`python -m course_chapters.ch03.roofline_map` writes chapter 03's copies again.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from course_chapters.ch03.roofline import WORDS, decades
from course_lib.cluster.collectives import ring_cost
from course_lib.draw import style
from course_lib.draw.palette import GREY, INK, PALE, PAPER, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.roofline import Machine, Work, decode, machine, matmul, place
from course_lib.estimate.units import number_text

CHAPTER = Path(__file__).resolve().parents[2] / "solutions" / "03_hardware_and_roofline"
MAP_COPY = CHAPTER / "figures" / "roofline_map.svg"
PRINTED_COPY = CHAPTER / "figures" / "as_printed.svg"


def binding_map(
    works: Sequence[Work],
    machine: Machine,
    *,
    span: tuple[float, float] = (0.3, 3e4),
    up: tuple[float, float] = (10, 3e5),
) -> Picture:
    """Memory intensity across, network intensity up: three regions, named after what binds there, and kernels in
    them."""
    figure, axes = style.new(4.0, left=0.85, bottom=0.6)
    left, right, low, top = (math.log10(edge) for edge in (*span, *up))
    ridge, wire = math.log10(machine.ridge), math.log10(machine.network_ridge)
    meet = math.log10(machine.bandwidth / machine.network)  # left of the ridge: equal time on memory and on the wire
    axes.fill([ridge, right, right, ridge], [wire, wire, top, top], color=PALE["compute"], linewidth=0)
    axes.fill([left, left, ridge, ridge], [left + meet, top, top, wire], color=PALE["memory"], linewidth=0)
    axes.fill(
        [left, ridge, right, right, left], [left + meet, wire, wire, low, low], color=PALE["network"], linewidth=0
    )
    axes.plot([ridge, ridge, right], [top, wire, wire], color=PAPER, linewidth=2)
    axes.plot([left, ridge], [left + meet, wire], color=PAPER, linewidth=2)
    for x, y, name in (
        ((ridge + right) / 2, top - 0.3, "compute"),
        ((left + ridge) / 2, top - 0.3, "memory"),
        ((ridge + right) / 2, low + 0.3, "network"),
    ):
        axes.text(
            x,
            y,
            f"bound by {name}",
            fontsize=style.LARGE,
            color=WORDS[name],
            ha="center",
            va="center",
            fontweight="bold",
        )
    said = []
    for work in works:
        x, y = math.log10(work.memory_intensity), math.log10(work.network_intensity)
        axes.plot(x, y, "o", color=WORDS[str(place(work, machine).bound)], markersize=7, zorder=5)
        axes.annotate(work.name, (x, y), xytext=(7, 4), textcoords="offset points", fontsize=style.SMALL, color=INK)
        said.append(f"{work.name}: {place(work, machine).bound}")
    axes.set(xlim=(left, right), ylim=(low, top))
    decades(axes, "x", left, right)
    decades(axes, "y", low, top)
    title = f"What binds on one {machine.name}"
    style.dress(axes, title, "FLOP per byte of memory", "FLOP per byte sent")
    figure.alt = (
        f"{title}: a map over two intensities. Compute binds beyond {number_text(machine.ridge)} FLOP per byte of "
        f"memory and {number_text(machine.network_ridge)} per byte sent; left of it memory, under it the network. "
        f"{'; '.join(said)}."
    )
    return figure


def layer_step(tokens: int, rows: int, columns: int) -> Work:
    """Forward and both backward products of one weight, and its 16-bit gradient sent round a large ring."""
    products = matmul(tokens, rows, columns) + matmul(tokens, columns, rows) + matmul(rows, tokens, columns)
    return Work(products.flop, products.memory_bytes, 2 * 2 * rows * columns)


def shared_decode(batch: int, model: str, split: int = 8) -> Work:
    """One decode step of a whole model on each of `split` devices, with two sums of activations a layer between
    them."""
    shape = facts.model(model)
    whole = decode(shape.params, batch)
    sums = 2 * shape.layers * ring_cost(2.0 * batch * shape.hidden, split, 0.0, 1.0).nbytes
    return Work(whole.flop / split, whole.memory_bytes / split, sums)


def transformer_map(device: str = "H100 SXM", model: str = "llama3-70b") -> Picture:
    """Decode at two batches and a training step at three sizes, on a device that talks over its server's link."""
    shape = facts.model(model)
    works = [_named(shared_decode(batch, model), f"decode, batch {batch}") for batch in (1, 64)]
    steps = ((16, "training, 16 tokens"), (512, "512 tokens"), (8192, "8,192"))
    works += [_named(layer_step(tokens, shape.hidden, shape.ffn), name) for tokens, name in steps]
    return binding_map(works, machine(device, wire="link"))


def _named(work: Work, name: str) -> Work:
    return Work(work.flop, work.memory_bytes, work.network_bytes, name)


def as_printed() -> Picture:
    """A drawing of three roofs as it is often published, with two errors: flat ceilings, and one axis."""
    figure, axes = style.new(2.9, left=0.85, bottom=0.55)
    for height, name, ink in (
        (3.0, "compute: peak FLOP/s", INK),
        (2.0, "memory: bandwidth × intensity", WORDS["memory"]),
        (1.0, "network: bandwidth × intensity", VERMILION),
    ):
        axes.plot([0.2, 9.8], [height, height], color=ink, linewidth=2.2)
        axes.text(0.3, height + 0.1, name, fontsize=style.NORMAL, color=ink)
    for x, height, name in ((2.2, 0.6, "all-reduce"), (5.0, 1.6, "attention"), (8.0, 2.6, "matmul")):
        axes.plot(x, height, "o", color=GREY, markersize=8)
        axes.text(x + 0.2, height, name, fontsize=style.SMALL, color=SOFT, va="center")
    axes.set(xlim=(0, 10), ylim=(0, 3.6), xticks=[], yticks=[])
    style.dress(axes, "As printed", "arithmetic intensity (FLOP per byte)", "FLOP/s")
    figure.alt = (
        "A printed drawing: three horizontal ceilings, compute above memory above network, over one axis of "
        "arithmetic intensity. The two lower ones are labeled bandwidth times intensity."
    )
    return figure


if __name__ == "__main__":
    for picture, copy in ((transformer_map(), MAP_COPY), (as_printed(), PRINTED_COPY)):
        print(style.save_svg(picture, copy, picture.alt))
