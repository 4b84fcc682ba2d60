"""Chapter 05's tables and plots: formats side by side, sums against their bounds, and the recorded trainings."""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from IPython.display import Markdown

from course_chapters.ch05 import training
from course_chapters.ch05.exercises import numbers
from course_chapters.ch05.number_line import power_text
from course_chapters.ch05.recipes import recipes, recorded
from course_chapters.running_example import GPUS, MFU, PARAMS, TOKENS
from course_chapters.table import table
from course_lib.draw import curves, style
from course_lib.draw.palette import BLUE, GREEN, ORANGE, SKY, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate import compute
from course_lib.estimate.units import DAY, bytes_text, number_text, percent_text
from course_lib.model import precision, text, transformer
from course_lib.model.precision import formats, number_format, round_to

FLOATS = ("fp32", "tf32", "fp16", "bf16", "fp8_e5m2", "fp8_e4m3", "fp4_e2m1")
LENGTHS = tuple(2**power for power in range(3, 14))


def format_table(names: Sequence[str] = FLOATS) -> Markdown:
    """One row for each format: its bits, and the limits that follow from them."""
    rows = []
    for form in (number_format(name) for name in names):
        rows.append(
            {
                "format": form.name,
                "exponent + fraction bits": f"{form.exponent_bits} + {form.mantissa_bits}",
                "largest": number_text(form.max),
                "smallest normal": number_text(form.min_normal),
                "smallest": number_text(form.min_subnormal),
                "spacing above 1": number_text(form.eps),
            }
        )
    return table(rows)


def recipes_table() -> Markdown:
    """Published recipes for 8 and 4 bits: the formats of a matmul's inputs, and who shares a scale."""
    rows, short = [], {"fp8_e4m3": "E4M3", "fp8_e5m2": "E5M2", "fp4_e2m1": "E2M1"}
    for one in recipes().values():
        form = number_format(one.forward)
        element = 1 + form.exponent_bits + form.mantissa_bits
        second = ", and one in fp32 per tensor" if one.tensor_scale_bits and one.block else ""
        rows.append(
            {
                "recipe": f"{one.name} ({one.year})",
                "forward": short[one.forward],
                "gradients": short[one.backward],
                "one scale for": one.block and f"{one.block}; weights {one.weight_block}" or "the tensor",
                "scale": short.get(one.scale, one.scale) + second,
                "bits per element": f"{one.bits(element):g}",
                "rounding and transforms": f"rounding {one.rounding}"
                + (", Hadamard transform" if one.hadamard else ""),
            }
        )
    return table(rows)


def rounding_table(value: float, names: Sequence[str] = FLOATS) -> Markdown:
    """What a number becomes in each format, and the relative error."""
    exact = torch.tensor(value, dtype=torch.float64)
    held = {name: round_to(exact, name).item() for name in names}
    rows = []
    for name, got in held.items():
        rows.append({"format": name, "holds": f"{got:.10g}", "relative error": percent_text(abs(got / value - 1), 2)})
    return table(rows)


def ranges(names: Sequence[str] = FLOATS) -> Picture:
    """From the smallest to the largest positive value of each format, in powers of two: subnormals pale."""
    figure, axes = style.new(0.95 + 0.36 * len(names), left=1.0, bottom=0.6, right=0.9)
    for row, form in enumerate(formats()[name] for name in names):
        low, normal, high = (math.log2(x) for x in (form.min_subnormal, form.min_normal, form.max))
        axes.barh(row, normal - low, left=low, height=0.55, color=SKY, linewidth=0)
        axes.barh(row, high - normal, left=normal, height=0.55, color=BLUE, linewidth=0)
        axes.text(high + 2, row, f"1 + {number_text(form.eps)}", va="center", fontsize=style.SMALL, color=SOFT)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(-155, 132), ylim=(len(names) - 0.4, -0.6))
    axes.set_xticks(range(-150, 131, 50), [power_text(power) for power in range(-150, 131, 50)])
    style.dress(
        axes,
        "Range is exponent bits (at the end: the next value after 1)",
        "positive values (pale: subnormal)",
        grid="x",
    )
    said = ", ".join(
        f"{name} {number_text(formats()[name].min_subnormal)} to {number_text(formats()[name].max)}" for name in names
    )
    figure.alt = f"The range of positive values of seven formats: {said}."
    return figure


@cache
def sum_errors(form: str = "bf16") -> Mapping[str, Sequence[float]]:
    """The relative error of four sums of uniform random numbers in a format, by their length in `LENGTHS`, and the
    bound of the first."""
    terms = round_to(torch.rand(8, LENGTHS[-1], generator=torch.Generator().manual_seed(0)), form)
    ways = {
        "one after the other": lambda x: precision.running_sum(x, form),
        "in pairs": lambda x: precision.pairwise_sum(x, form),
        "Kahan": lambda x: precision.kahan_sum(x, form),
        "runs of 64, then fp32": lambda x: precision.chunked_sum(x, form, 64),
    }
    errors: dict[str, list[float]] = {name: [] for name in (*ways, "bound")}
    for length in LENGTHS:
        part = terms[:, :length]
        exact = part.double().sum(-1)
        for name, add in ways.items():
            errors[name].append(((add(part) - exact).abs() / exact).max().item())
        errors["bound"].append((precision.sum_bound(part, form, "running") / exact).max().item())
    return errors


def sum_picture(form: str = "bf16") -> Picture:
    """Relative errors of sums over their length, both as powers of two."""
    figure, axes = style.new(3.5, bottom=0.85, left=0.8)
    inks = dict(zip(sum_errors(form), (VERMILION, ORANGE, GREEN, BLUE, SOFT), strict=True))
    for name, errors in sum_errors(form).items():
        shown = [(length, error) for length, error in zip(LENGTHS, errors, strict=True) if 0 < error < 1.01]
        look = {"linestyle": ":"} if name == "bound" else {"marker": "o", "markersize": 3}
        x, y = ([math.log2(pair[place]) for pair in shown] for place in (0, 1))
        axes.plot(x, y, color=inks[name], linewidth=1.8, label=name, **look)
    axes.set_xticks(range(3, 14), [f"{2**power:,}" for power in range(3, 14)])
    axes.set_yticks(range(-12, 1, 2), [power_text(power) for power in range(-12, 1, 2)])
    axes.legend(
        frameon=False, fontsize=style.SMALL, ncol=5, loc="upper center", bbox_to_anchor=(0.5, -0.19), columnspacing=1.2
    )
    style.dress(axes, f"Sums of uniform random numbers in {form}", "terms", "relative error, worst of 8", grid="y")
    last = ", ".join(
        f"{name} {percent_text(errors[-1], 2)}" for name, errors in sum_errors(form).items() if name != "bound"
    )
    figure.alt = f"Relative error of sums in {form} against their length. At {LENGTHS[-1]:,} terms: {last}."
    return figure


@training.one_thread()
def accumulation_table(counts: Sequence[int] = (4, 16, 64), form: str = "bf16") -> Markdown:
    """The gradient of a step, added up over micro-batches of one sequence in fp32 and in a format: how far apart they
    are."""
    model = transformer.build(training.SHAPE)
    exact, narrow, rows = None, None, []
    for count in range(1, counts[-1] + 1):
        tokens, targets = text.batch(count, 1, training.SHAPE.seq_len)
        grads = torch.autograd.grad(transformer.loss(model(tokens), targets), list(model.parameters()))
        whole = torch.cat([grad.flatten() for grad in grads])
        exact = whole if exact is None else exact + whole
        narrow = round_to(whole, form) if narrow is None else round_to(narrow + round_to(whole, form), form)
        if count in counts:
            error = ((narrow - exact).norm() / exact.norm()).item()
            rows.append({"micro-batches": count, f"error of the sum in {form}": percent_text(error, 2)})
    return table(rows)


def recorded_table(*names: str) -> Markdown:
    """Recorded trainings side by side."""
    rows = []
    for name in names:
        curve = recorded(name)
        loss = "broke (NaN)" if math.isnan(curve.final) else f"{curve.final:.3f}"
        rows.append(
            {
                "training": name,
                "loss at the end": loss,
                "gradients that are zero": percent_text(curve.zeros, 2),
                "steps skipped": curve.skipped,
            }
        )
    return table(rows)


def plan_table() -> Markdown:
    """Bytes and days of the course's plan for choices of precision, state sharded evenly and the same share of the peak
    reached."""
    rows = []
    for choice, nbytes, rate in numbers.PLAN_CHOICES:
        days = compute.train_seconds(PARAMS, TOKENS, rate, MFU, GPUS) / DAY
        each = bytes_text(nbytes * PARAMS / GPUS)
        rows.append(
            {
                "chapter": "05",
                "choice": choice,
                "bytes per parameter": nbytes,
                "state on each GPU": each,
                "days": f"{days:,.0f}",
            }
        )
    return table(rows)


def recorded_weights(names: Sequence[str] = ("nearest", "stochastic", "master")) -> Picture:
    """Losses of recorded trainings over their steps, and beside them the share of updates that rounding discarded."""
    losses = {name: recorded(name).losses for name in names}
    lost = {name: [100 * share for share in recorded(name).lost] for name in names}
    ends = ", ".join(f"{name} {recorded(name).final:.3f}" for name in names)
    shares = ", ".join(f"{name} {percent_text(recorded(name).lost_share)}" for name in names)
    panels: dict[str, curves.Panel] = {
        "Loss": ("nats per token", losses),
        "Updates that changed no bit": ("share, %", lost),
    }
    alt = (
        f"Over {len(losses[names[0]])} steps. Loss at the end, in nats per token: {ends}. Updates that left "
        f"their weight as it was: {shares}."
    )
    return curves.drawn(panels, alt)
