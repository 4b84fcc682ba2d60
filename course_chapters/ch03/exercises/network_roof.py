from typing import TypedDict

from course_chapters.ch03.exercises.shared import rates
from course_grader.exercises import Anything, Card, Maybe, Number, Rows, TupleOf, Worth
from course_grader.exercises.snippets import CLOSE, folded, markdown_table
from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import facts
from course_lib.estimate.units import GB, bytes_text, flops_text

_KIND = {
    "one way": "in the one direction that the bytes travel",
    "both ways": "as brochures print it: **both directions added**; the bytes of a case travel one way",
}


class Work(TypedDict):
    """A piece of work, and the rate of the wire that it uses."""

    name: str
    flop: float
    memory_bytes: float
    network_bytes: float
    network: float


def twelve(device: str) -> list[Work]:
    """Twelve pieces of work of one device in training or serving a 70B-like layer, with the wire each of them uses."""
    shape, one = facts.model("llama3-70b"), facts.device(device)
    link, network = float(one.link_one_way), rates(device)["network"]
    hidden, ffn = shape.hidden, shape.ffn
    weights = 3.0 * hidden * ffn  # a gated MLP

    def layer(tokens: int, passes: int, sent: float) -> tuple[float, float, float]:
        """FLOP, bytes through memory and bytes sent of the MLP: a forward pass is one pass, a training step three."""
        flop = passes * 2.0 * weights * tokens
        moved = passes * 2.0 * (weights + tokens * (2 * hidden + 3 * ffn))
        return flop, moved, sent

    def cut(tokens: int, parts: int) -> tuple[float, float, float]:
        """The same forward pass with the weights split in `parts`, and the sums of the parts' outputs sent around."""
        flop, moved, _ = layer(tokens, 1, 0)
        return flop / parts, moved / parts, ring_cost(2.0 * tokens * hidden, parts, 0.0, 1.0).nbytes

    elements = 8192.0 * hidden
    rows = [
        ("MLP, forward, 8,192 tokens", layer(8192, 1, 0), link),
        ("MLP, one token a sequence, batch 8", layer(8, 1, 0), link),
        ("MLP, one token a sequence, batch 1,024", layer(1024, 1, 0), link),
        ("ReLU on 8,192 tokens", (elements, 4 * elements, 0.0), link),
        ("layer norm on 8,192 tokens", (8 * elements, 4 * elements, 0.0), link),
        ("Adam's update of the MLP", (12 * weights, 28 * weights, 0.0), link),
        ("data parallel: MLP, a step of 2,048 tokens per GPU, gradients summed", layer(2048, 3, 4 * weights), network),
        ("the same with 65,536 tokens per GPU", layer(65536, 3, 4 * weights), network),
        ("weights gathered for every use, 8,192 tokens each, over the network", layer(8192, 3, 6 * weights), network),
        ("the same inside the server", layer(8192, 3, 6 * weights), link),
        ("MLP split over 8 GPUs of a server, 8,192 tokens", cut(8192, 8), link),
        ("the same over 8 GPUs of eight servers", cut(8192, 8), network),
    ]
    return [
        Work(name=name, flop=flop, memory_bytes=moved, network_bytes=sent, network=wire)
        for name, (flop, moved, sent), wire in rows
    ]


def _roof_params(kind: str, device: str) -> dict[str, object]:
    cases: list[Work] = [
        {**case, "network": case["network"] * (2 if kind == "both ways" else 1)} for case in twelve(device)
    ]
    lines = [
        (
            case["name"],
            flops_text(case["flop"]),
            bytes_text(case["memory_bytes"]),
            bytes_text(case["network_bytes"]) if case["network_bytes"] else "—",
            f"{case['network'] / GB:,.4g} GB/s",
        )
        for case in cases
    ]
    table = markdown_table("work of one device | FLOP | through memory | sent | rate of the wire", lines)
    return {"network_kind": kind, "kind_words": _KIND[kind], "table": table, "cases": cases, **rates(device)}


CARD = Card(
    title="The third roof",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    answers=("three_roofs",),
    text=f"""Write `three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network)`, which finds the roof
that limits a piece of work. The bytes sent over a wire are not the bytes that pass through memory, so each piece of
work has **two** intensities.

- It returns the pair `(attainable, bound)`: the FLOP/s that this work can reach at most with perfect overlap, and the
  roof that binds: `"compute"`, `"memory"` or `"network"`.
- `network` is the wire's rate in bytes per second, {{{{kind_words}}}}. `network_bytes` may be 0.
- The visible cases are twelve pieces of work on one {{{{device}}}} with {{{{flops:tflops}}}} and
  {{{{bandwidth:gbps}}}}, each with a wire of its own. Grading adds unseen cases.

{folded('The twelve cases, also in `params("network-roof").cases`', "{{table}}")}

{CLOSE}""",
    hints=(
        "For one case: how long is each of the three resources busy on its own?",
        "There are three times: FLOP over FLOP/s, memory bytes over bandwidth, network bytes over the wire's rate in "
        "one direction. The longest binds, and the work takes that time.",
        "`times = {'compute': …, 'memory': …, 'network': …}`; `bound = max(times, key=times.get)`; `flop / "
        "times[bound]`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.roofs:extended_roofline, place, seconds, part_seconds, attainable",),
    params=_roof_params("one way", "H100 SXM"),
    vary=lambda draw: _roof_params("both ways", draw.choice(("H100 SXM", "H200 SXM", "A100 SXM 80GB", "B200 SXM"))),
    structural="network_kind",
    returns=Rows(TupleOf({"FLOP/s": Maybe(Number("FLOP/s")), "name of the roof": Maybe(Anything())})),
)
