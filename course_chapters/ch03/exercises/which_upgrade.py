from typing import TypedDict

from course_chapters.ch03.exercises.shared import OTHERS, rates
from course_grader.exercises import Anything, Card, Maybe, Number, Rows, TupleOf, Worth
from course_grader.exercises.snippets import CLOSE, markdown_table
from course_lib.estimate import facts
from course_lib.estimate.units import GB, bytes_text, flops_text

PARTS = ("compute", "memory", "link", "network")
_OVERLAP = {
    "everything": "Everything overlaps: a step takes as long as its busiest part",
    "wires wait": "Arithmetic and memory overlap, the wires do not: a step takes the longer of compute and memory, "
    "plus the time of the link, plus the time of the network",
}


class Step(TypedDict):
    """A step, and how much of each part it needs."""

    name: str
    work: dict[str, float]


def workloads(device: str) -> list[Step]:
    """Five kinds of work of one device, as the amounts that each of its parts has to do."""
    shape = facts.model("llama3-8b")
    weights, layers, hidden = float(shape.params), shape.layers, shape.hidden
    split = 2 * weights * 1_024 / 8, 2.4 * weights / 8, 14.0 * 1_024 * hidden * layers
    rows = [
        ("training, 16,384 tokens", 6 * weights * 16_384, 48 * weights, 0.0, 4 * weights),
        ("training, 4,096 tokens", 6 * weights * 4_096, 40 * weights, 0.0, 4 * weights),
        ("generating, one user", 2 * weights, 2 * weights, 0.0, 0.0),
        ("layers split over the server, 1,024 tokens, sums in fp32", *split, 0.0),
        ("reading prompts, 32,768 tokens", 2 * weights * 32_768, 6 * weights, 0.0, 0.0),
    ]
    return [{"name": name, "work": dict(zip(PARTS, map(float, need), strict=True))} for name, *need in rows]


def _upgrade(overlap: str, device: str, factor: float) -> dict[str, object]:
    own = rates(device)
    link = float(facts.device(device).link_one_way)
    speeds = {"compute": own["flops"], "memory": own["bandwidth"], "link": link, "network": own["network"]}
    cases = workloads(device)
    lines = [
        (name, flops_text(flop), *(bytes_text(nbytes) if nbytes else "—" for nbytes in moved))
        for name, (flop, *moved) in ((case["name"], case["work"].values()) for case in cases)
    ]
    wires = [f"{speeds[part] / GB:,.5g} GB/s" for part in PARTS[1:]]
    lines.append((f"*rates of one {device}*", f"{flops_text(speeds['compute'])}/s", *wires))
    table = markdown_table("a step of | compute | memory | link | network", lines)
    asked = {"device": device, "factor": factor, "rates": speeds, "cases": cases, "table": table}
    return {"overlap": overlap, "overlap_words": _OVERLAP[overlap], **asked}


CARD = Card(
    title="Which upgrade helps?",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("best_upgrade",),
    text=f"""Find the upgrade that shortens a step the most. You can make **one** part {{{{factor}}}} times as fast: the
arithmetic, the memory, the links inside the server, or the network. Each step needs this much of each part:

{{{{table}}}}

{{{{overlap_words}}}}.

`best_upgrade(work, rates, factor)` gets two dictionaries with the keys `"compute"`, `"memory"`, `"link"`, `"network"`:
FLOP and bytes, FLOP/s and bytes/s in one direction; an amount may be 0. Return the pair `(part, speed-up)`: the part
that, made `factor` times as fast, shortens the step most, and the step's time before divided by its time after. Rates
vary, so the part with the most bytes is not always the slowest. {CLOSE}""",
    hints=(
        "If the busiest part becomes twice as fast, does the step become twice as fast?",
        "Write the time of a step as a function of the four rates. Then try the four upgrades one by one and compare.",
        "`step = lambda r: …`; `gains = {p: step(rates) / step({**rates, p: rates[p] * factor}) for p in rates}`; "
        "`best = max(gains, key=gains.get)`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.roofs:speedups, seconds, part_seconds",),
    params=_upgrade("everything", "H100 SXM", 2.0),
    vary=lambda draw: _upgrade("wires wait", draw.choice(OTHERS), draw.choice((1.5, 3.0))),
    structural="overlap",
    returns=Rows(TupleOf({"part": Maybe(Anything()), "speed-up": Maybe(Number())})),
)
