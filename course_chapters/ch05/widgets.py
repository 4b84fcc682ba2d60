"""Chapter 05's widgets: bits to click, a weight whose update is lost, gradients against the loss scale, and one
outlier."""

from functools import lru_cache

import numpy as np
import torch

from course_chapters.ch05.number_line import bit_rows, number_line, power_text
from course_chapters.ch05.recipes import gradient_counts
from course_lib.draw import style
from course_lib.draw.explore import Explorer, bits, explore, menu, play, slider
from course_lib.draw.palette import BLUE, GREEN, GREY, INK, ORANGE, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import count_text, number_text, percent_text
from course_lib.model import precision
from course_lib.model.precision import number_format, round_to

# --- bits to click -------------------------------------------------------------------------------

READ_AS = {"fp16": "fp16", "bf16": "bf16", "E5M2": "fp8_e5m2", "E4M3": "fp8_e4m3"}
ONE = "0011110000000000"  # 1 in fp16


def draw_bits(pattern: str = ONE) -> Picture:
    """Sixteen bits as fp16 and as bf16, and the first eight of them as E5M2 and as E4M3."""
    if len(pattern) != 16 or set(pattern) - {"0", "1"}:
        raise ValueError(f"{pattern!r} is not a text of sixteen 0s and 1s.")
    forms = {name: number_format(long) for name, long in READ_AS.items()}
    values = {name: form.decode(torch.tensor(int(pattern[: form.bits], 2))).item() for name, form in forms.items()}
    return bit_rows(pattern, forms, values, "One pattern, four formats")


def bit_explorer(pattern: str = ONE) -> Explorer:
    """Click bits and see which number each format reads in them."""
    return explore(draw_bits, pattern=bits(pattern, label="bits"))


# --- a weight whose update is lost ---------------------------------------------------------------

WEIGHT, STEPS = 1.0, 12
SHARES = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0)  # of the spacing above the weight
FORMATS = ("bf16", "fp16", "fp8_e4m3")


@lru_cache(maxsize=64)
def weight_paths(form: str, share: float, steps: int = STEPS, seed: int = 3) -> dict[str, tuple[float, ...]]:
    """Positions of a weight of 1 after 0 to `steps` equal updates: exact, and held in a format in three ways."""
    update = share * number_format(form).eps
    coin = torch.Generator().manual_seed(seed)
    nearest = stochastic = torch.tensor(WEIGHT, dtype=torch.float64)
    paths = {"exact": [WEIGHT], "nearest": [WEIGHT], "stochastic": [WEIGHT], "master copy": [WEIGHT]}
    for step in range(1, steps + 1):
        nearest = round_to(nearest + update, form)
        stochastic = round_to(stochastic + update, form, "stochastic", generator=coin)
        exact = torch.tensor(WEIGHT + step * update, dtype=torch.float64)
        moved = {"exact": exact, "nearest": nearest, "stochastic": stochastic, "master copy": round_to(exact, form)}
        for name, place in moved.items():
            paths[name].append(place.item())
    return {name: tuple(path) for name, path in paths.items()}


def draw_lost_update(step: int = 8, share: float = 0.25, form: str = "bf16") -> Picture:
    """A weight of 1 after some equal updates, in a format's values: rounded to nearest, stochastically, and copied from
    a master."""
    paths = {name: path[: step + 1] for name, path in weight_paths(form, share).items()}
    exact = paths.pop("exact")
    shape = number_format(form)
    values = [WEIGHT - shape.eps / 2, WEIGHT]
    while values[-1] < WEIGHT + max(3, STEPS * share) * shape.eps:
        values.append(values[-1] + shape.spacing(values[-1]))
    lost = sum(a == b for a, b in zip(paths["nearest"], paths["nearest"][1:], strict=False))
    more = (
        f"Ticks: values of {form}, {number_text(shape.eps)} apart above 1. Ring: the exact sum. Nearest lost "
        f"{lost} of {count_text(step, 'update')}."
    )
    title = f"{count_text(step, 'update')} of {count_text(share, 'spacing')} each"
    return number_line(values, paths, exact, title, more, (values[0], values[-1] + 0.3 * shape.eps))


def lost_update(step: int = 8, share: float = 0.25) -> Explorer:
    """Play the updates of one weight; change how large an update is in spacings, and the format."""
    return explore(
        draw_lost_update,
        step=play(range(STEPS + 1), step, label="updates", interval=700),
        share=slider(SHARES, share, label="an update", text=lambda part: count_text(part, "spacing")),
        form=menu(FORMATS, "bf16", label="format"),
    )


# --- gradients against the loss scale --------------------------------------------------------------

SCALES = tuple(range(0, 33))  # powers of two
MICROBATCHES = (1, 64, 1024, 4096)


def scaled_shares(power: int, microbatches: int, form: str) -> tuple[float, float]:
    """The shares of the recorded nonzero gradients that round to zero, and that overflow, with the loss times 2^power.

    Exact where microbatches is a power of two: a bin of the histogram then lies wholly on one side of either limit.
    """
    _, counts = gradient_counts()
    shift, (lowest, _, highest) = power - int(np.log2(microbatches)), limits(form)
    whole = sum(counts.values())
    zero = sum(count for k, count in counts.items() if k + shift < lowest)
    return zero / whole, sum(count for k, count in counts.items() if k + shift >= highest) / whole


def limits(form: str) -> tuple[float, float, float]:
    """The powers of two below which a number becomes zero, below which it is subnormal, and from which on it
    overflows."""
    shape = number_format(form)
    lowest, normal = float(np.log2(shape.min_subnormal)) - 1, float(np.log2(shape.min_normal))
    return lowest, normal, float(np.floor(np.log2(shape.max))) + 1


def draw_loss_scale(power: int = 0, microbatches: int = 4096, form: str = "fp16") -> Picture:
    """The recorded gradients by magnitude, moved by the loss scale, over the range of a format: normal, subnormal,
    zero, infinite."""
    _, counts = gradient_counts()
    shift, (lowest, normal, highest) = power - int(np.log2(microbatches)), limits(form)
    figure, axes = style.new(3.0, bottom=0.6, left=0.75, top=0.45)
    whole = sum(counts.values())
    for k, count in counts.items():
        at = k + shift
        ink = VERMILION if at < lowest or at >= highest else ORANGE if at < normal else BLUE
        axes.bar(at + 0.5, 100 * count / whole, width=0.94, color=ink, linewidth=0)
    for limit in (lowest, normal, highest):
        axes.axvline(limit, color=SOFT, linewidth=1, linestyle=":")
    axes.set_xlim(-50, 26)
    axes.set_xticks(range(-45, 26, 15), [power_text(k) for k in range(-45, 26, 15)])
    zero, infinite = scaled_shares(power, microbatches, form)
    title = (
        f"Loss × {power_text(power)}: {percent_text(zero)} of nonzero gradients become zero, "
        f"{percent_text(infinite)} overflow"
    )
    style.dress(
        axes,
        title,
        f"magnitude of a gradient in {form} (dotted: zero, smallest normal, infinity)",
        "share of elements, %",
        grid="y",
    )
    figure.alt = f"{title}. One of {count_text(microbatches, 'micro-batch', 'micro-batches')}, in {form}."
    return figure


def loss_scale(power: int = 0, microbatches: int = 4096) -> Explorer:
    """Move the loss scale, and watch gradients come out of the underflow until the largest overflow."""
    return explore(
        draw_loss_scale,
        power=play(SCALES, power, label="loss scale", text=power_text, interval=400),
        microbatches=slider(MICROBATCHES, microbatches, label="micro-batches", text=lambda count: f"{count:,} a step"),
        form=menu(("fp16", "bf16", "fp8_e5m2"), "fp16", label="format"),
    )


# --- one outlier -----------------------------------------------------------------------------------

OUTLIERS = tuple(4.0**power for power in range(13))
BLOCKS = {
    "one scale per tensor": None,
    "one scale per 128 elements": 128,
    "one scale per 32 elements": 32,
    "one scale per 16 elements": 16,
}


@lru_cache(maxsize=128)
def outlier_errors(outlier: float, form: str) -> dict[str, float]:
    """The relative error (root mean square) of all elements but the outlier, by how many elements share a scale."""
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(0))
    x[7, 300] = outlier
    rest = torch.ones_like(x, dtype=torch.bool)
    rest[7, 300] = False
    errors = {}
    for name, block in BLOCKS.items():
        back = precision.quantize(x, form, block).dequantize()
        errors[name] = ((back - x)[rest].norm() / x[rest].norm()).item()
    return errors


def draw_outlier(outlier: float = 4.0**9, form: str = "fp8_e4m3") -> Picture:
    """How far a tensor of normal numbers with one outlier is off after quantization, for four sizes of a block."""
    errors = outlier_errors(outlier, form)
    figure, axes = style.new(2.6, left=2.1, right=0.7)
    for row, error in enumerate(errors.values()):
        axes.barh(row, 100 * error, height=0.6, color=(GREY, BLUE, GREEN, GREEN)[row], linewidth=0)
        axes.text(100 * error + 1.5, row, percent_text(error), va="center", fontsize=style.NORMAL, color=INK)
    axes.set_yticks(range(len(errors)), list(errors))
    axes.set(xlim=(0, 110), ylim=(len(errors) - 0.5, -0.5))
    title = f"{form} with one element at {count_text(outlier, 'standard deviation')}"
    style.dress(axes, title, "error of all the other elements, % of their size", grid="x")
    figure.alt = f"{title}: " + ", ".join(f"{name} {percent_text(error)}" for name, error in errors.items()) + "."
    return figure


def outlier(largest: float = 4.0**9) -> Explorer:
    """Let one element grow, and see which scales it spoils."""
    return explore(
        draw_outlier,
        outlier=play(OUTLIERS, largest, label="largest element", text=lambda size: f"{size:,.0f} σ", interval=700),
        form=menu(("fp8_e4m3", "fp8_e5m2", "fp4_e2m1"), "fp8_e4m3", label="format"),
    )
