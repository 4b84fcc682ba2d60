"""Chapter 18's tables: a layer's kernels before and after fusion, what can be captured, the planner's terms, traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import torch
from IPython.display import Markdown

from course_chapters.ch18.capture import refused
from course_chapters.ch18.compiled import Compared
from course_chapters.ch18.fusion import fuse
from course_chapters.ch18.kernels import by_kind, limit
from course_chapters.ch18.launch_film import eager_launch, h100, layer
from course_chapters.ch18.published import LIMITS, measured, speedup
from course_chapters.ch18.trace import Anatomy
from course_chapters.table import columns
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.running_plan import DEVICE, GPUS, MODEL, PLAN, SEQ, SEQUENCES
from course_lib.estimate.units import bytes_text, duration_text, flops_text, number_text, percent_text
from course_lib.parallel import planner


def layer_table(tokens: int = 2048, hidden: int = 4096) -> Markdown:
    """The kernels of one layer by kind, and which limit they meet."""
    kernels = layer(tokens, hidden)
    rows = []
    for kind, (count, flop, moved) in by_kind(kernels).items():
        met = Counter(limit(each, h100(), eager_launch()) for each in kernels if each.kind == kind)
        words = ", ".join(f"{met[each]} × {each}" for each in LIMITS if met[each])
        rows.append((kind, count, flops_text(flop), bytes_text(moved), words))
    total = by_kind(replace(each, kind="matmul") for each in kernels)["matmul"]
    rows.append(("all", total[0], flops_text(total[1]), bytes_text(total[2]), ""))
    return columns(
        "kind | launches | FLOP | bytes | limited by",
        rows,
        f"One layer of width {hidden:,}, {tokens:,} tokens in bf16, forward and backward, attention written out; H100, "
        f"{duration_text(eager_launch())} for a launch.",
    )


def fused_table(hidden: int = 4096) -> Markdown:
    """Launches and bytes of a layer before and after fusion."""
    rows = []
    for tokens in (256, 2048, 8192):
        before = layer(tokens, hidden)
        after = fuse(before)
        moved = [sum(each.nbytes for each in kernels) for kernels in (before, after)]
        plain = [sum(each.nbytes for each in kernels if each.kind != "matmul") for kernels in (before, after)]
        saved = percent_text(1 - moved[1] / moved[0], 2)
        rest = " → ".join(map(bytes_text, plain))
        rows.append((f"{tokens:,}", f"{len(before)} → {len(after)}", " → ".join(map(bytes_text, moved)), saved, rest))
    return columns(
        "tokens | kernels | bytes | saved | without matmuls", rows, f"One layer of width {hidden:,} in bf16."
    )


CAPTURED: Mapping[str, Callable[[torch.Tensor], object]] = {
    "`x * 2 + 1`": lambda x: x * 2 + 1,
    "`x.clamp(max=1)`": lambda x: x.clamp(max=1),
    "`torch.where(x > 0, x, 0)`": lambda x: torch.where(x > 0, x, 0),
    "`x.sum().item()`": lambda x: x.sum().item(),
    "`if x.sum() > 0: …`": lambda x: bool(x.sum() > 0),
    "`x[x > 0]`": lambda x: x[x > 0],
    "`x.nonzero()`": torch.Tensor.nonzero,
}


def capture_table() -> Markdown:
    """Small steps, and whether a graph can hold them."""
    x = torch.linspace(-1.0, 1.0, 8)
    rows = [(words, refused(partial(step, x)) or "captured") for words, step in CAPTURED.items()]
    return columns("step | what the capture says", rows)


def compared_table(found: Compared) -> Markdown:
    """Eager mode against the compiled function on this machine."""
    rows = [
        ("eager", 9, duration_text(found.eager), "1"),
        (found.backend, found.kernels, duration_text(found.compiled), number_text(found.eager / found.compiled, 2)),
    ]
    return columns(
        "backend | kernels | median time | times as fast",
        rows,
        f"This machine, one thread, fp32; compiling took {duration_text(found.compiling, 2)}.",
    )


def anatomy_table(found: Mapping[str, Anatomy]) -> Markdown:
    """Traces side by side: where the time went."""
    rows = []
    for name, each in found.items():
        busiest = sorted(each.busy, key=lambda kind: each.busy[kind], reverse=True)[:3]
        kinds = ", ".join(f"{kind} {percent_text(each.busy[kind] / each.seconds, 2)}" for kind in busiest)
        idle, exposed = (percent_text(part / each.seconds, 2) for part in (each.idle, each.exposed))
        count = sum(each.kernels.values())
        rows.append(
            (name, duration_text(each.seconds), f"{count:,}", kinds, idle, exposed, duration_text(each.shortest_half))
        )
    return columns("trace | time | kernels | busiest classes | idle | exposed | median kernel", rows)


@cache
def mfu(kernels: str, launch: float) -> float:
    """The planner's MFU of the course's plan, with kernels "eager" or "fused" and these seconds of launches."""
    software = replace(planner.TAUGHT, kernels=kernels, launch=launch)
    job = planner.Job(model=MODEL, seq=SEQ, sequences=SEQUENCES, software=software)
    return float(planner.estimate(job, planner.cluster(DEVICE, GPUS), Layout(**PLAN)).mfu)


EAGER_LAUNCH, FUSED_LAUNCH = planner.SOFTWARE["nanotron"].launch, planner.TAUGHT.launch  # s for a layer's forward pass


def plan_table() -> Markdown:
    """The plan's MFU with and without fusion and graphs, as the planner charges them."""
    ways = {
        "eager kernels": ("eager", EAGER_LAUNCH),
        "fused kernels": ("fused", FUSED_LAUNCH),
        "fused, in a graph": ("fused", 0.0),
    }
    rows = [
        (name, duration_text(launch), percent_text(mfu(kernels, launch), 3)) for name, (kernels, launch) in ways.items()
    ]
    return columns("the plan's layers run as | launches of a layer, forward | MFU", rows)


def planner_terms() -> Markdown:
    """Where the planner charges launches and bytes of small kernels."""
    from course_lib.parallel.planner.constants import EAGER, HOST_BACKWARD, KERNEL_SECONDS

    both = f"{duration_text(FUSED_LAUNCH)} to {duration_text(EAGER_LAUNCH)}"
    rows = [
        ("`Software.launch`", "`job`", both, "host seconds for a layer's launches, forward"),
        ("`HOST_BACKWARD`", "`constants`", number_text(HOST_BACKWARD), "times as many launches backward"),
        ("`KERNEL_SECONDS`", "`constants`", duration_text(KERNEL_SECONDS), "between two kernels on the device"),
        ("`Software.kernels`, `EAGER`", "`layers`", f"× {number_text(EAGER)}", "bytes of kernels that are not fused"),
        ("`step._both`", "`step`", "", "a layer takes little more than the longer of device and host"),
    ]  # fmt: skip
    return columns("term | in `planner.…` | value | meaning", rows)


PAIRS = {
    "Llama 3.1 8B, training, 8 H100": ("titan eager", "titan compiled"),
    "the same on 128 H100": ("titan eager 128", "titan compiled 128"),
    "Llama 2 7B, TP 8, fused norms and loss": ("fused norms eager", "fused norms"),
    "rotary positions alone": ("rope eager", "rope compiled"),
    "80 small kernels as a graph": ("stream of 80", "graph of 80"),
    "Llama 2 7B, one user, A100": ("decode eager", "decode compiled"),
}


def published_table() -> Markdown:
    """Published speedups by compilation, fusion and graphs, with their conditions."""
    rows = []
    for name, (before, after) in PAIRS.items():
        first, second = measured(before), measured(after)
        texts = [duration_text(each) if each.unit == "s" else each.text for each in (first, second)]
        about = f"{first.condition}; {first.source}".split(" (20")[0]
        rows.append((name, " → ".join(texts), number_text(speedup(before, after), 3), about))
    return columns("what | before → after | times as fast | conditions and source", rows)
