"""Core exercises of chapter 03: intensities, a prediction, the batch that fills the arithmetic, three roofs at once."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts
from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import CLOSE, folded, functions
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, Maybe, Number, Rows, TupleOf
from course_lib.units import GB, bytes_text, flops_text

DEVICES = ("H100 SXM", "A100 SXM 80GB", "H200 SXM", "B200 SXM", "B300 SXM")
_OUTPUT = {
    "written": "C = A·B: the output is written, never read",
    "accumulated": "C += A·B: the output is read, added to, and written again",
}


def rates(device: str) -> dict[str, Any]:
    """A device's dense peak, memory bandwidth and network in one direction, as plain numbers."""
    one = facts.device(device)
    rate = {"flops": one.dense_flops, "bandwidth": one.bandwidth, "network": one.network_one_way}
    return {"device": device, **{name: float(value) for name, value in rate.items()}}


def _intensity(output: str, side: int, size: int, device: str) -> dict[str, Any]:
    return {"output": output, "output_words": _OUTPUT[output], "side": side, "size": size, **rates(device)}


MATMUL_INTENSITY = Card(
    id="matmul-intensity",
    chapter="03",
    title="FLOP per byte, counted",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    answers=("matmul_intensity", "relu_intensity", "ridge"),
    text=f"""Count the intensity of two operators, with and without the writes, and the ridge of a device: together they say which
resource limits an operator. Count every byte that must pass through memory, once. Elements have `size` bytes; with `reads_only`,
leave out what is written.

- `matmul_intensity(m, k, n, size, reads_only)`: FLOP per byte of a product of A (m, k) and B (k, n), where {{{{output_words}}}}.
- `relu_intensity(size, reads_only)`: FLOP per byte of `max(x, 0)` over a large tensor, one FLOP per element.
- `ridge(flops, bandwidth)`: the FLOP per byte at which a device's arithmetic (FLOP/s) and memory (bytes/s) are equally
  busy.

The visible case is {{{{side:int}}}} × {{{{side:int}}}} × {{{{side:int}}}} at {{{{size:int}}}} bytes, and one {{{{device}}}} with
{{{{flops:tflops}}}} and {{{{bandwidth:gbps}}}}. Matrices need not be square. {CLOSE}""",
    hints=(
        "Which of the three matrices have to be read, and which have to be written?",
        "Each of the m·k·n terms is a multiplication and an addition. Bytes are elements times `size`, with every "
        "matrix counted as often as it moves.",
        "`2 * m * k * n / (size * (m * k + k * n + times * m * n))`; one read and, if it counts, one write per element for ReLU; "
        "`flops / bandwidth`.",
    ),
    allowed="the standard library and numpy.",
    hides=(*functions("roofline.operators", "matmul", "relu", "elementwise"), "roofline.roofs:ridge"),
    params=_intensity("written", 4096, 2, "H100 SXM"),
    vary=lambda draw: _intensity(
        "accumulated", draw.choice((2048, 6144, 8192)), draw.choice((2, 4)), draw.choice(DEVICES)
    ),
    structural="output",
    probe=rows,
    returns=Rows(Number("FLOP per byte"), Number("FLOP per byte"), Number("FLOP per byte")),
)


def _decode_params(model: str, device: str) -> dict[str, Any]:
    return {"model": model, "params": float(facts.model(model).params), **rates(device)}


def _decode_variant(draw: random.Random) -> Mapping[str, Any]:
    models = ("mistral-7b", "qwen2.5-7b", "llama2-13b", "llama3-8b")
    return _decode_params(draw.choice(models), draw.choice(("H100 SXM", "A100 SXM 80GB", "H200 SXM")))


PREDICT_DECODE = Card(
    id="predict-decode-rate",
    chapter="03",
    title="Predict: one user, one GPU",
    **Worth(points=5, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    answers=("tokens_interval",),
    text="""One {{device}} ({{flops:tflops}} dense, {{bandwidth:gbps}}) generates text for **one** user with a model of
{{params:count}} parameters in 16 bits. Predict the highest possible rate in tokens per
second, without a calculator. Every token needs every weight once, and 2 FLOP per weight.

`tokens_interval()` returns `(low, high)` in tokens a second, with `high` at most four times `low`. You earn the
points for such an interval, whether or not the true rate is in it. You see the true rate once you have committed.""",
    hints=(
        "What must the device do with each weight before it can multiply by it?",
        "There are two times: the bytes of all weights divided by the memory bandwidth, and FLOP divided by FLOP/s. Which is longer?",
        "`seconds = max(2 * params / bandwidth, 2 * params / flops)`; `return 0.5 / seconds, 2 / seconds`.",
    ),
    params=_decode_params("llama3-8b", "H100 SXM"),
    vary=_decode_variant,
)

_KEPT = {
    "each": "**each sequence** of the batch reads its own `kv_bytes`: the keys and values kept from its earlier tokens",
    "shared": "all sequences of the batch continue **the same** prompt, whose `kv_bytes` of keys and values are read once per step "
    "for the whole batch; leave out everything else that a sequence keeps",
}


def _batch(kept: str, model: str, context: int, device: str) -> dict[str, Any]:
    shape = facts.model(model)
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * 2  # keys and values, 2 bytes an element
    return {
        "kept": kept,
        "kept_words": _KEPT[kept],
        "model": model,
        "params": float(shape.params),
        "weight_size": 2,
        "context": context,
        "kv_bytes": float(each * context),
        "kv_text": bytes_text(each * context),
        **rates(device),
    }


def _batch_variant(draw: random.Random) -> Mapping[str, Any]:
    return _batch(
        "shared",
        draw.choice(("llama3-70b", "qwen2.5-72b")),
        draw.choice((16_384, 32_768, 65_536)),
        draw.choice(("H100 SXM", "H200 SXM", "A100 SXM 80GB")),
    )


DECODE_BATCH = Card(
    id="decode-batch",
    chapter="03",
    title="The smallest batch that keeps the arithmetic busy",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    answers=("smallest_batch",),
    text="""Find the smallest batch with which decoding stops waiting for memory. One step generates a token for each of `batch`
sequences: it reads all weights **once** (`weight_size` bytes per parameter) and computes 2 FLOP per parameter for **every**
sequence. In addition, {{kept_words}}. Ignore the FLOP of attention.

`smallest_batch(flops, bandwidth, params, weight_size, kv_bytes)` returns the least whole batch (1 or more) whose step
computes at least as long as it reads, or `None` if no batch does. Rates are FLOP/s and bytes/s.

The visible cases have {{params:count}} parameters in {{weight_size:int}} bytes on one {{device}} ({{flops:tflops}}, {{bandwidth:gbps}}),
first with nothing kept, then with {{context:int}} tokens of context, which is {{kv_text}}. Counts must be exact.""",
    hints=(
        "Which parts of the two times of a step grow with the batch?",
        "Write both times for a batch b and set them equal. What if the reads that each further "
        "sequence adds take as long as its arithmetic?",
        "`compute = 2 * params / flops` a sequence; `extra = kv_bytes / bandwidth` a sequence where each has its own; `b = "
        "(weights / bandwidth) / (compute - extra)`, rounded up; `None` if `compute <= extra`.",
    ),
    allowed="the standard library and numpy.",
    hides=("roofline.operators:smallest_batch", "roofline.operators:decode", "roofline.operators:tokens_to_ridge"),
    params=_batch("each", "llama3-70b", 1024, "H100 SXM"),
    vary=_batch_variant,
    structural="kept",
    probe=rows,
    returns=Rows(Maybe(Number("sequences"))),
)

_KIND = {
    "one way": "in the one direction that the bytes travel",
    "both ways": "as brochures print it: **both directions added**; the bytes of a case travel one way",
}


def twelve(device: str) -> list[dict[str, Any]]:
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
        return flop / parts, moved / parts, 2.0 * 2 * (parts - 1) / parts * tokens * hidden

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
    keys = ("flop", "memory_bytes", "network_bytes")
    return [{"name": name, **dict(zip(keys, work, strict=True)), "network": wire} for name, work, wire in rows]


def _roof_params(kind: str, device: str) -> dict[str, Any]:
    cases = [{**case, "network": case["network"] * (2 if kind == "both ways" else 1)} for case in twelve(device)]
    lines = [
        f"| {case['name']} | {flops_text(case['flop'])} | {bytes_text(case['memory_bytes'])} | "
        f"{bytes_text(case['network_bytes']) if case['network_bytes'] else '—'} | {case['network'] / GB:,.4g} GB/s |"
        for case in cases
    ]
    head = ["| work of one device | FLOP | through memory | sent | rate of the wire |", "|---|---|---|---|---|"]
    table = "\n".join([*head, *lines])
    return {"network_kind": kind, "kind_words": _KIND[kind], "table": table, "cases": cases, **rates(device)}


NETWORK_ROOF = Card(
    id="network-roof",
    chapter="03",
    title="The third roof",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    answers=("three_roofs",),
    text=f"""Find which of three roofs limits a piece of work. The bytes sent over a wire are not the bytes that pass through memory,
so each piece of work has **two** intensities. Write `three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network)`.

- It returns the pair `(attainable, bound)`: the FLOP/s that this work can reach at most with perfect overlap, and the roof that
  binds: `"compute"`, `"memory"` or `"network"`.
- `network` is the wire's rate in bytes per second, {{{{kind_words}}}}. `network_bytes` may be 0.
- The visible cases are twelve pieces of work on one {{{{device}}}} with {{{{flops:tflops}}}} and {{{{bandwidth:gbps}}}}. The wire differs
  from case to case. The next chapters explain the amounts sent. Grading adds unseen cases.

{folded('The twelve cases, also in `params("network-roof").cases`', "{{table}}")}

{CLOSE}""",
    hints=(
        "For one case: how long is each of the three resources busy on its own?",
        "There are three times: FLOP over FLOP/s, memory bytes over bandwidth, network bytes over the wire's rate in one "
        "direction. The longest binds, and the work takes that time.",
        "`times = {'compute': …, 'memory': …, 'network': …}`; `bound = max(times, key=times.get)`; `flop / times[bound]`.",
    ),
    allowed="the standard library and numpy.",
    hides=functions("roofline.roofs", "extended_roofline", "place", "seconds", "part_seconds", "attainable"),
    params=_roof_params("one way", "H100 SXM"),
    vary=lambda draw: _roof_params("both ways", draw.choice(("H100 SXM", "H200 SXM", "A100 SXM 80GB", "B200 SXM"))),
    structural="network_kind",
    probe=rows,
    returns=Rows(TupleOf({"FLOP/s": Maybe(Number("FLOP/s")), "name of the roof": Maybe(Anything())})),
)
