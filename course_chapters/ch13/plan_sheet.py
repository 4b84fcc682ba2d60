"""One plan on one sheet: the memory of the fullest GPU, the seconds of a step, what each axis sends over which wire,
utilization."""

from collections.abc import Mapping

from course_chapters.ch13.placing import INKS, NAMES
from course_lib.draw.palette import EMPTY, GREY, INK, SKY, SOFT, VERMILION, VIOLET, YELLOW, color
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import bytes_text, duration_text, percent_text
from course_lib.parallel.mesh.plans import Plan
from course_lib.parallel.planner import Cluster

HEIGHT, LEFT, WIDE = 4.65, 0.2, 6.95
PARTS = {"compute": SKY, "kernels": YELLOW, "recompute": VIOLET, **INKS, "ep": VERMILION, "bubble": GREY}
MEMORY = {
    "weights": color("weights"),
    "gradients": color("grads"),
    "optimizer": color("moments"),
    "gathered": color("master"),
    "activations": color("activations"),
    "other": color("temporary"),
    "buffers": GREY,
}
WORDS = {**NAMES, "kernels": "other kernels", "recompute": "recomputation", "ep": "expert"}
WIRES = {"server": "NVLink", "network": "the network", "rack": "NVLink"}


def plan_sheet(plan: Plan, title: str) -> Sheet:
    """The four things that decide about a layout, each in a row of its own."""
    sheet = Sheet(HEIGHT)
    room = f"fits: {bytes_text(plan.memory)} of {bytes_text(plan.capacity)}" if plan.fits else (
        f"does not fit: {bytes_text(plan.memory)}, and a GPU has {bytes_text(plan.capacity)}"
    )  # fmt: skip
    replicas = plan.mesh.sizes["dp"]
    copies = (
        f"{replicas:,} replica{'s' if replicas > 1 else ''} of {plan.gpus // replicas:,} "
        f"GPU{'s' if plan.gpus > replicas else ''}"
    )
    sheet.head(
        title, f"{room}; {copies}, {plan.microbatches:,} micro-batch{'es' if plan.microbatches > 1 else ''} each"
    )
    _memory(sheet, plan)
    _time(sheet, plan)
    _links(sheet, plan)
    _utilization(sheet, plan)
    sent = ", ".join(
        f"{axis} {bytes_text(count)} over {WIRES[plan.wires[axis]]}" for axis, count in plan.sent.items() if count
    )
    parts = ", ".join(f"{name} {duration_text(count)}" for name, count in plan.parts.items() if count)
    held = ", ".join(f"{name} {bytes_text(count)}" for name, count in plan.held.items() if count)
    sheet.alt = (
        f"{title}: {room}; {copies}. Memory: {held}. A step takes {duration_text(plan.seconds)}: {parts}; "
        f"{wires_text(plan.cluster)}. "
        f"Each rank sends {sent or 'nothing'}. Utilization {percent_text(plan.mfu)}."
    )
    return sheet


def _stack(sheet: Sheet, low: float, parts: Mapping[str, float], fills: Mapping[str, str], whole: float) -> None:
    """A bar of parts side by side; `whole` is as long as the sheet allows."""
    sheet.boxes([(LEFT, LEFT + WIDE, low, low + 0.26)], EMPTY, order=0)
    at = LEFT
    for name, count in parts.items():
        step = WIDE * count / whole
        if step > 0.004:
            sheet.boxes([(at, at + step, low, low + 0.26)], fills[name])
        at += step


def _keys(sheet: Sheet, y: float, words: Mapping[str, str]) -> None:
    x = LEFT + 0.05
    for text, fill in words.items():
        step = 0.25 + 0.063 * len(text)
        if x + step - 0.1 > LEFT + WIDE:
            break  # the smallest come last; the text alternative has them all
        sheet.key(x, y, fill, text)
        x += step


def _memory(sheet: Sheet, plan: Plan) -> None:
    low, parts = HEIGHT - 1.25, plan.held
    whole = max(1.25 * plan.capacity, 1.02 * plan.memory)
    sheet.text(LEFT, low + 0.34, "Memory of the fullest GPU", bold=True)
    _stack(sheet, low, parts, MEMORY, whole)
    limit = LEFT + WIDE * plan.capacity / whole
    sheet.lines([((limit, low - 0.05), (limit, low + 0.31))], INK if plan.fits else VERMILION, 2.0, order=5)
    if limit > LEFT + 2.4:
        sheet.text(limit, low + 0.36, bytes_text(plan.capacity), ink=SOFT, ha="center")
    else:  # the heading is there
        sheet.text(LEFT + WIDE, low + 0.36, f"the mark: {bytes_text(plan.capacity)}", ink=SOFT, ha="right")
    _keys(
        sheet,
        low - 0.14,
        {f"{name} {bytes_text(count)}": MEMORY[name] for name, count in parts.items() if count > 0.005 * plan.memory},
    )


def _time(sheet: Sheet, plan: Plan) -> None:
    low = HEIGHT - 2.15
    sheet.text(LEFT, low + 0.34, f"Seconds of a step: {duration_text(plan.seconds)}", bold=True)
    sheet.text(LEFT + WIDE, low + 0.34, wires_text(plan.cluster), ink=SOFT, ha="right")
    _stack(sheet, low, plan.parts, PARTS, plan.seconds)
    words = {
        f"{WORDS.get(name, name)} {duration_text(count)}": PARTS[name]
        for name, count in plan.parts.items()
        if count > 0.002 * plan.seconds
    }
    _keys(sheet, low - 0.14, words)


def wires_text(cluster: Cluster) -> str:
    """The rates that the planner assumes, one way. A ring leaves a server over the adapters of all its GPUs."""
    far = f", {bytes_text(cluster.across.bandwidth)}/s on its adapter" if cluster.gpus > cluster.per_node else ""
    return f"a GPU sustains {bytes_text(cluster.inside.bandwidth)}/s on NVLink{far}"


def _links(sheet: Sheet, plan: Plan) -> None:
    top = HEIGHT - 2.73
    sheet.text(LEFT, top, "Bytes that a GPU sends in a step, and over which wire", bold=True)
    largest = max(plan.sent.values()) or 1.0
    for row, axis in enumerate(("tp", "cp", "pp", "dp", *(["ep"] if plan.sent["ep"] else []))):
        y, count = top - 0.27 - 0.22 * row, plan.sent[axis]
        sheet.text(LEFT, y + 0.02, WORDS[axis], ink=INK if count else SOFT)
        sheet.boxes([(LEFT + 0.8, LEFT + 0.8 + max(0.01, 3.4 * count / largest), y, y + 0.13)], PARTS[axis])
        words = f"{bytes_text(count)} over {WIRES[plan.wires[axis]]}" if count else "one rank: nothing"
        sheet.text(LEFT + 0.88 + 3.4 * count / largest, y + 0.02, words, ink=SOFT)


def _utilization(sheet: Sheet, plan: Plan) -> None:
    low = 0.2
    sheet.text(LEFT, low + 0.34, f"Utilization (MFU): {percent_text(plan.mfu)}", bold=True)
    _stack(sheet, low, {"compute": plan.mfu}, PARTS, 1.0)
