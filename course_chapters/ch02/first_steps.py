"""The memory of the first two training steps of one model, phase by phase, against the memory of one GPU.

`python -m course_chapters.ch02.first_steps` writes chapter 02's copy again.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from course_lib.draw import style
from course_lib.draw.palette import INK, PAPER, SOFT, VERMILION, color, label
from course_lib.draw.style import Picture
from course_lib.estimate import facts, memory
from course_lib.estimate.units import GB, bytes_text

CHAPTER = Path(__file__).resolve().parents[2] / "solutions" / "02_memory"
CHAPTER_COPY = CHAPTER / "figures" / "first_steps.svg"
MODEL, DEVICE, TOKENS = "llama3-8b", "H200 SXM", 8192
PHASES = ("load", "optimizer created", "forward 1", "backward 1", "step 1", "forward 2", "backward 2", "step 2")
_STAYS = {"weights": 0, "master": 1, "moments": 4}  # the phase in which a bucket is allocated; it is never freed


def levels(model: str = MODEL, tokens: int = TOKENS) -> dict[str, np.ndarray]:
    """Bytes by bucket at the start of each phase and at the end of the last.

    Recipe B, no checkpointing, fused attention; gradients are freed after a step. Left out: logits and temporary
    tensors inside one operator.
    """
    state = memory.state_by_bucket(facts.model(model).params)
    kept = memory.shape(model).layers * memory.layer_bytes(model, 1, tokens, kernels="torch-flash", dropout=False)
    ends = np.arange(len(PHASES) + 1)
    found = {name: np.where(ends > since, state[name], 0.0) for name, since in _STAYS.items()}
    after = {name: {PHASES.index(f"{name} {step}") + 1 for step in (1, 2)} for name in ("forward", "backward")}
    found["grads"] = np.array([state["grads"] if end in after["backward"] else 0.0 for end in ends])
    found["activations"] = np.array([kept if end in after["forward"] else 0.0 for end in ends])
    return found


def peak(found: Mapping[str, np.ndarray]) -> tuple[str, float]:
    """The phase that ends at the highest level, and that level in bytes."""
    totals = np.sum(list(found.values()), axis=0)
    place = int(np.argmax(totals))
    return PHASES[max(place - 1, 0)], float(totals[place])


def first_steps(model: str = MODEL, device: str = DEVICE, tokens: int = TOKENS) -> Picture:
    """Stacked areas of bytes over the phases of two steps; the part above the GPU's memory is framed in red."""
    found, card = levels(model, tokens), float(facts.device(device).memory)
    order = [name for name in ("weights", "master", "moments", "grads", "activations") if name in found]
    fine = np.linspace(0, len(PHASES), 40 * len(PHASES) + 1)
    figure, axes = style.new(3.7, left=0.75, right=1.75, bottom=0.72, top=0.45)
    floor = np.zeros_like(fine)
    for name in order:
        up = floor + _between(name, found[name], fine) / GB
        axes.fill_between(fine, floor, up, color=color(name), linewidth=0, label=label(name))
        floor = up
    axes.plot(fine, np.where(floor > card / GB, floor, np.nan), color=VERMILION, linewidth=3)
    axes.axhline(card / GB, color=INK, linewidth=1.4, linestyle=(0, (5, 3)))
    axes.text(
        0.08,
        card / GB + 2,
        f"one {device.split()[0]}: {facts.device(device).memory.text}",
        fontsize=style.SMALL,
        color=INK,
    )
    for end in range(1, len(PHASES)):
        axes.axvline(end, color=PAPER, linewidth=1.0)
    axes.set(xlim=(0, len(PHASES)), ylim=(0, 1.1 * max(floor.max(), card / GB)))
    axes.set_xticks(
        np.arange(len(PHASES)) + 0.5, [phase.replace(" ", "\n", 1) for phase in PHASES], fontsize=style.SMALL
    )
    axes.tick_params(axis="x", length=0)
    where, most = peak(found)
    title = (
        "It fits in the first step and runs out of memory in the second"
        if where.endswith("2") and most > card
        else "The memory of two steps"
    )
    style.dress(axes, title, y="bytes alive (GB)", grid="y")
    for place, name in enumerate(reversed(order)):
        height, size = 0.95 - 0.16 * place, float(found[name].max())
        axes.text(1.03, height, "■", transform=axes.transAxes, color=color(name), fontsize=style.LARGE, va="center")
        axes.text(
            1.085,
            height,
            f"{label(name).split(' (')[0]}\n{bytes_text(size)}",
            transform=axes.transAxes,
            fontsize=style.SMALL,
            color=INK,
            va="center",
        )
    at = PHASES.index(where) + 1
    axes.annotate(
        f"{bytes_text(most)} at the end of {where}",
        (at, most / GB),
        xytext=(-8, 4),
        textcoords="offset points",
        ha="right",
        fontsize=style.SMALL,
        color=VERMILION if most > card else SOFT,
        fontweight="bold",
    )
    said = ", ".join(f"{label(name)} {bytes_text(float(found[name].max()))}" for name in order)
    figure.alt = (
        f"Bytes alive through two training steps of {model} on {tokens:,} tokens, at most: {said}. The peak, "
        f"{bytes_text(most)}, is at the end of {where}; one {device} has {bytes_text(card)}."
    )
    return figure


def _between(name: str, ends: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Bytes inside the phases: activations and gradients grow and shrink evenly, state appears at once, gradients are
    freed at the end of a step."""
    if name in _STAYS:
        return np.where(fine >= _STAYS[name] + 0.06, ends[-1], 0.0)
    slope = np.interp(fine, np.arange(len(ends)), ends)
    if name == "activations":
        return slope
    made = {PHASES.index(f"step {step}") for step in (1, 2)}
    return np.where(
        [int(x) in made and x - int(x) < 0.94 and x < len(PHASES) for x in fine],
        ends.max(),
        np.where([int(x) in made or int(x) >= len(PHASES) for x in fine], 0.0, slope),
    )


if __name__ == "__main__":
    picture = first_steps()
    print(style.save_svg(picture, CHAPTER_COPY, picture.alt))
