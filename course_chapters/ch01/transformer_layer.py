"""One layer of a transformer: its weight matrices, and the shapes of the activations between them."""

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from course_lib.draw import palette, panels, style
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.units import number_text


def layer_weights(shape: facts.ModelShape) -> dict[str, tuple[int, int]]:
    """The weight matrices of one layer with their (input width, output width)."""
    kv, wide = shape.kv_heads * shape.head_dim, shape.heads * shape.head_dim
    return {
        "Q": (shape.hidden, wide),
        "K": (shape.hidden, kv),
        "V": (shape.hidden, kv),
        "output": (wide, shape.hidden),
        "gate": (shape.hidden, shape.ffn),
        "up": (shape.hidden, shape.ffn),
        "down": (shape.ffn, shape.hidden),
    }


def transformer_layer(shape: facts.ModelShape) -> Picture:
    """One transformer layer from left to right: its weight matrices, and the shapes of the activations between them."""
    weights = layer_weights(shape)
    figure, axes = panels.sheet(2.8)
    text = style.font(style.SMALL)
    rows = {"Q": 2.05, "K": 1.45, "V": 0.85, "output": 1.45, "gate": 1.75, "up": 1.15, "down": 1.45}
    columns = {"Q": 1.15, "K": 1.15, "V": 1.15, "output": 3.6, "gate": 4.92, "up": 4.92, "down": 6.2}
    for name, size in weights.items():
        _box(axes, columns[name], rows[name], f"{name}\n{size[0]:,} × {size[1]:,}", palette.color("weights"))
    _box(axes, 2.42, 1.45, "attention:\n$QK^T$, softmax,\nsum of V", palette.color("activations"), height=1.0)
    for start, end, y, to in (
        (0.3, 0.65, 1.45, 2.05),
        (0.3, 0.65, 1.45, 1.45),
        (0.3, 0.65, 1.45, 0.85),
        (1.65, 1.92, 2.05, 1.75),
        (1.65, 1.92, 1.45, 1.45),
        (1.65, 1.92, 0.85, 1.15),
        (2.92, 3.1, 1.45, 1.45),
        (4.1, 4.42, 1.45, 1.75),
        (4.1, 4.42, 1.45, 1.15),
        (5.42, 5.7, 1.75, 1.45),
        (5.42, 5.7, 1.15, 1.45),
        (6.7, 7.05, 1.45, 1.45),
    ):
        axes.annotate("", (end, to), (start, y), arrowprops={"arrowstyle": "-|>", "color": palette.SOFT, "lw": 0.9})
    kv = weights["K"][1]
    for x, words in (
        (0.42, f"s × {shape.hidden:,}"),
        (1.78, f"Q: s × {shape.hidden:,}\nK, V: s × {kv:,}"),
        (3.01, f"s × {weights['output'][0]:,}"),
        (4.26, f"s × {shape.hidden:,}"),
        (5.56, f"s × {shape.ffn:,}"),
        (6.88, f"s × {shape.hidden:,}"),
    ):
        axes.plot((x, x), (0.6, 1.4), color=palette.GRID, lw=0.9, ls=":", zorder=0)
        axes.text(x, 0.56, words, ha="center", va="top", **text)
    scores = f"scores: {shape.heads} × s × s"
    axes.text(2.42, 2.0, scores, ha="center", va="bottom", **text)
    each = sum(a * b for a, b in weights.values())
    title = f"One of {shape.layers} layers: {number_text(each / 1e6, 3)} million parameters in seven matrices"
    axes.text(0.1, 2.6, title, va="center", **style.font(style.LARGE, bold=True))
    foot = (
        "Below: shapes of the activations for s tokens. Blue: weights, counted by 6ΨD. Pink: no weights, not counted."
    )
    axes.text(0.1, 0.1, foot, va="center", **style.font(style.SMALL, palette.SOFT))
    said = ", ".join(f"{name} {a:,} by {b:,}" for name, (a, b) in weights.items())
    figure.alt = f"{title}: {said}. Between Q, K, V and the output, attention multiplies activations; {scores}."
    return figure


def _box(axes: Axes, x: float, y: float, words: str, fill: str, height: float = 0.42) -> None:
    """A box around a place, in inches, with words in it."""
    shape = FancyBboxPatch((x - 0.48, y - height / 2), 0.96, height, "round,pad=0,rounding_size=0.05", fc=fill, lw=0)
    axes.add_patch(shape)
    axes.text(x, y, words, ha="center", va="center", **style.font(7.0, palette.ink_on(fill)))
