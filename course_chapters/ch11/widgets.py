"""Chapter 11's widgets: ring attention step by step, tiles and work per rank, memory against length, bytes, and hidden
transfers."""

from collections.abc import Mapping
from functools import lru_cache

from course_chapters.ch11.exercises.numbers import whole_tokens_to_hide
from course_chapters.ch11.ring_film import ring_steps
from course_chapters.ch11.ring_run import LAYOUTS
from course_chapters.ch11.score_matrix import MASKS, draw_tiles
from course_lib.draw import panels, style
from course_lib.draw.explore import Explorer, explore, menu, play, slider, toggle
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE, SKY, VERMILION, color
from course_lib.draw.style import Picture
from course_lib.estimate import facts, memory
from course_lib.estimate.memory.activation_terms import TermChoices
from course_lib.estimate.running_plan import CONVENTION, GPUS, SEQ
from course_lib.estimate.units import bytes_text, count_text, duration_text, percent_text
from course_lib.parallel.context.costs import (
    attention_flops,
    gather_traffic,
    ring_traffic,
    ulysses_fits,
    ulysses_traffic,
)

__all__ = ["bytes_by_ranks", "hidden_transfer", "memory_by_length", "ring_steps", "tiles"]

H100 = facts.device("H100 SXM")
LENGTHS = tuple(SEQ * 2**power for power in range(9))  # tokens of a sequence
TP, MODELS = 8, ("llama3-8b", "llama3-70b")
ELEMENT = 2  # bytes of a number in bf16

# --- the score matrix


def tiles(ranks: int = 4, layout: str = "contiguous", mask: str = "causal") -> Explorer:
    """Choose who has which tokens, and see how even the work is under each mask."""
    return explore(
        draw_tiles,
        ranks=play(range(2, 9), ranks, label="ranks", text=str, interval=900),
        layout=menu((*LAYOUTS, "per document"), layout, label="layout"),
        mask=menu(tuple(MASKS), mask, label="mask"),
    )


# --- memory against the length of the sequence -----------------------------------------------------


def remedies(cp: int) -> Mapping[str, tuple[memory.Layout, str]]:
    """What is tried one after the other, each on top of those before: its layout and its checkpointing."""
    plain, split = memory.Layout(tp=TP), memory.Layout(tp=TP, sp=True)
    return {
        f"tensor parallelism, {TP} ranks": (plain, "none"),
        "+ full recomputation": (plain, "full"),
        "+ sequence parallelism": (split, "full"),
        f"+ context parallelism, {cp} ranks": (memory.Layout(tp=TP, sp=True, cp=cp), "full"),
    }


@lru_cache(maxsize=512)
def peak(model: str, tokens: int, remedy: int, cp: int = 8) -> tuple[float, float]:
    """Bytes of state and of activations at the peak on one rank: a micro-batch of one sequence, flash attention, state
    sharded over all GPUs."""
    layout, checkpointing = list(remedies(cp).values())[remedy]
    shape = facts.model(model)
    choices: TermChoices = {"kernels": "flash", "dropout": False, "checkpointing": checkpointing}
    kept = memory.activation_bytes(shape, 1, tokens, layout, loss="fused", **choices)
    again = memory.recomputed_bytes(shape, 1, tokens, layout, **choices)
    return float(memory.state_bytes(shape.params, CONVENTION) / GPUS), float(kept + again)


def draw_memory(tokens: int = 262144, model: str = "llama3-70b", cp: int = 8) -> Picture:
    """State and activations of a rank after each remedy, against the memory of a GPU."""
    room, names = float(H100.memory), list(remedies(cp))
    peaks = [peak(model, tokens, remedy, cp) for remedy in range(len(names))]
    figure, axes = style.new(2.75, left=2.35, right=1.0, top=0.5)
    end = 2 * room
    for row, (state, kept) in enumerate(peaks):
        axes.barh(row, state, height=0.6, color=BLUE, linewidth=0)
        axes.barh(row, min(kept, end - state), left=state, height=0.6, color=color("activations"), linewidth=0)
        fits = state + kept <= room
        ink = INK if fits else VERMILION
        axes.text(1.015 * end, row, bytes_text(state + kept), va="center", fontsize=style.NORMAL, color=ink)
    axes.axvline(room, color=VERMILION, linewidth=1.4)
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks([0, room / 2, room, 1.5 * room, end], [bytes_text(part * room) for part in (0, 0.5, 1, 1.5, 2)])
    axes.set(xlim=(0, end), ylim=(len(names) - 0.5, -0.5))
    first = next((name for name, (state, kept) in zip(names, peaks, strict=True) if state + kept <= room), None)
    title = f"One sequence of {tokens:,} tokens through {model}"
    style.dress(axes, title, "one rank at its peak: state (blue) and activations; the line is an H100", grid="x")
    said = ", ".join(f"{name} {bytes_text(sum(parts))}" for name, parts in zip(names, peaks, strict=True))
    figure.alt = f"{title}: {said}. " + (f"The first that fits: {first}." if first else "None fits.")
    return figure


def memory_by_length(tokens: int = 262144) -> Explorer:
    """Make the sequence longer until it no longer fits, and read which remedy makes it fit again."""
    return explore(
        draw_memory,
        tokens=play(LENGTHS, tokens, label="sequence", text="{:,} tokens".format, interval=900),
        model=menu(MODELS, "llama3-70b", label="model"),
        cp=slider((2, 4, 8), 8, label="context ranks", text=str),
    )


# --- bytes of the three ways ------------------------------------------------------------------------

RANKS = (1, 2, 4, 8, 16, 32, 64)
WAYS = {"ring": (BLUE, False), "all-gather": (GREEN, True), "Ulysses": (ORANGE, False)}
HEADS, DIM = 64, 128


def sent(way: str, ranks: int, kv_heads: int, tokens: int) -> float | None:
    """Bytes that a rank sends for one layer, both passes; None where Ulysses has too few heads."""
    if way == "Ulysses":
        if ranks not in ulysses_fits(HEADS, kv_heads):
            return None
        return float(ulysses_traffic(tokens, HEADS, kv_heads, DIM, ranks, ELEMENT).nbytes)
    formula = ring_traffic if way == "ring" else gather_traffic
    return float(formula(tokens, kv_heads, DIM, ranks, ELEMENT).nbytes)


def draw_bytes(kv_heads: int = 8, ranks: int = 8, tokens: int = 131072) -> Picture:
    """Bytes per layer and rank against the number of ranks, for the three ways."""
    figure, axes = panels.sheet(3.15)
    curves = {way: [sent(way, count, kv_heads, tokens) for count in RANKS] for way in WAYS}
    top = 1.08 * max(value for curve in curves.values() for value in curve if value is not None)
    panel = panels.Panel(1.0, 0.62, 4.9, 1.85, (0, len(RANKS) - 1), (0, top))
    unit = 1e9 if top > 2e9 else 1e6
    heights = {value * unit: text for value, text in panels.marks(top / unit, 4).items()}
    name = "GB" if unit == 1e9 else "MB"
    panel.frame(axes, {place: str(count) for place, count in enumerate(RANKS)}, heights, "ranks", name)
    now = RANKS.index(ranks)
    ends, said = [], []
    for way, (ink, dashed) in WAYS.items():
        points = [(place, value) for place, value in enumerate(curves[way]) if value is not None]
        panel.line(axes, [x for x, _ in points], [y for _, y in points], ink, 2.2, dashed)
        here = curves[way][now]
        if here is not None:
            panel.dot(axes, now, here, ink)
        said.append(f"{way} {bytes_text(here) if here is not None else 'impossible'}")
        ends.append((points[-1][1] / top, way, ink))
    height = -1.0
    for at, way, ink in sorted(ends):
        height = max(at, height + 0.11)
        axes.text(6.0, 0.62 + 1.85 * height, way, fontsize=style.NORMAL, color=ink, va="center", fontweight="bold")
    title = f"{HEADS} query heads, {kv_heads} KV heads: what a rank sends for one layer"
    panels.head(
        figure, title, f"{tokens:,} tokens, bf16, both passes. On {count_text(ranks, 'rank')}: {', '.join(said)}"
    )
    figure.alt = f"{title}. {tokens:,} tokens on {count_text(ranks, 'rank')}: {', '.join(said)}."
    return figure


def bytes_by_ranks(kv_heads: int = 8, ranks: int = 8) -> Explorer:
    """Change the number of KV heads, and see which of the three ways sends the least."""
    return explore(
        draw_bytes,
        kv_heads=slider((1, 2, 8, 32, 64), kv_heads, label="KV heads", text=str),
        ranks=play(RANKS, ranks, label="ranks", text=str, interval=900),
        tokens=slider(LENGTHS[::2], 131072, label="sequence", text="{:,} tokens".format),
    )


# --- hide the transfer ---------------------------------------------------------------------------------

WIRES = {"NVLink": float(H100.link_one_way), "adapter": float(H100.network_one_way)}  # bytes/s one way
PER_RANK = tuple(256 * 2**power for power in range(9))  # tokens


def ring_step(tokens: int, kv_heads: int, wire: str, causal: bool) -> tuple[float, float]:
    """Seconds of one forward ring step: attention at the measured rate of matmuls, and the block's transfer."""
    pairs = tokens**2 * (0.5 if causal else 1.0)
    busy = attention_flops(pairs, HEADS, DIM) / H100.matmul_flops
    return float(busy), 2 * tokens * kv_heads * DIM * ELEMENT / WIRES[wire]


def draw_hide(tokens: int = 1024, kv_heads: int = 8, wire: str = "adapter", causal: bool = True) -> Picture:
    """One ring step as two bars: computing with a block, and the next block on its way; the part that nothing hides is
    red."""
    busy, travel = ring_step(tokens, kv_heads, wire, causal)
    longest = max(busy, travel)
    figure, axes = style.new(2.2, left=1.1, right=1.2, top=0.5)
    axes.barh(0, busy, height=0.6, color=SKY, linewidth=0)
    axes.barh(1, min(busy, travel), height=0.6, color=GREEN, linewidth=0)
    axes.barh(1, max(travel - busy, 0.0), left=busy, height=0.6, color=VERMILION, linewidth=0)
    for row, seconds in enumerate((busy, travel)):
        axes.text(seconds + 0.015 * longest, row, duration_text(seconds), va="center", fontsize=style.NORMAL, color=INK)
    axes.set_yticks((0, 1), ("attention", "transfer"))
    axes.set_xticks([0, longest / 2, longest], ["0", duration_text(longest / 2), duration_text(longest)])
    axes.set(xlim=(0, longest), ylim=(1.5, -0.5))
    fewest = whole_tokens_to_hide(kv_heads, WIRES[wire], 0.5 if causal else 1.0)
    exposed = max(travel - busy, 0.0)
    link = "NVLink" if wire == "NVLink" else "the adapter"
    title = f"{tokens:,} tokens per rank over {link}: {percent_text(exposed / travel)} of the transfer is exposed"
    style.dress(axes, title, f"one forward ring step; hidden from {fewest:,} tokens per rank on", grid="x")
    figure.alt = (
        f"{title}. Attention takes {duration_text(busy)}, the transfer {duration_text(travel)}; hidden from "
        f"{fewest:,} tokens per rank on."
    )
    return figure


def hidden_transfer(tokens: int = 1024) -> Explorer:
    """Give each rank more tokens until attention takes longer than the transfer of a block."""
    return explore(
        draw_hide,
        tokens=play(PER_RANK, tokens, label="tokens per rank", text="{:,}".format, interval=900),
        kv_heads=slider((1, 8, 64), 8, label="KV heads", text=str),
        wire=menu(tuple(WIRES), "adapter", label="link"),
        causal=toggle(True, label="causal, zig-zag"),
    )
