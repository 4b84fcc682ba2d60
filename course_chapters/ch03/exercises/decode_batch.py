from course_chapters.ch03.exercises.shared import rates
from course_grader.exercises import Card, Maybe, Number, Params, Random, Rows, Worth
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text

_KEPT = {
    "each": "**each sequence** of the batch reads its own `kv_bytes`: the keys and values kept from its earlier tokens",
    "shared": "all sequences of the batch continue **the same** prompt, whose `kv_bytes` of keys and values are read "
    "once per step for the whole batch; leave out everything else that a sequence keeps",
}


def _batch(kept: str, model: str, context: int, device: str) -> dict[str, object]:
    shape = facts.model(model)
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * 2  # keys and values, 2 bytes an element
    own = {"model": model, "params": float(shape.params), "weight_size": 2, "context": context}
    cache = {"kv_bytes": float(each * context), "kv_text": bytes_text(each * context)}
    return {"kept": kept, "kept_words": _KEPT[kept], **own, **cache, **rates(device)}


def _batch_variant(draw: Random) -> Params:
    model, context = draw.choice(("llama3-70b", "qwen2.5-72b")), draw.choice((16_384, 32_768, 65_536))
    return _batch("shared", model, context, draw.choice(("H100 SXM", "H200 SXM", "A100 SXM 80GB")))


CARD = Card(
    title="The smallest batch that keeps the arithmetic busy",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    answers=("smallest_batch",),
    text="""Find the smallest batch with which decoding stops waiting for memory. One step generates a token for each of
`batch` sequences: it reads all weights **once** (`weight_size` bytes per parameter) and computes 2 FLOP per parameter
for **every** sequence. In addition, {{kept_words}}. Ignore the FLOP of attention.

`smallest_batch(flops, bandwidth, params, weight_size, kv_bytes)` returns the least whole batch (1 or more) whose step
computes at least as long as it reads, or `None` if no batch does. Rates are FLOP/s and bytes/s.

The visible cases have {{params:count}} parameters in {{weight_size:int}} bytes on one {{device}} ({{flops:tflops}},
{{bandwidth:gbps}}), first with nothing kept, then with {{context:int}} tokens of context, which is {{kv_text}}. Counts
must be exact.""",
    hints=(
        "Which parts of the two times of a step grow with the batch?",
        "Write both times for a batch b and set them equal. What if the reads that each further "
        "sequence adds take as long as its arithmetic?",
        "`compute = 2 * params / flops` a sequence; `extra = kv_bytes / bandwidth` a sequence where each has its own; "
        "`b = (weights / bandwidth) / (compute - extra)`, rounded up; `None` if `compute <= extra`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.operators:smallest_batch, decode, tokens_to_ridge",),
    params=_batch("each", "llama3-70b", 1024, "H100 SXM"),
    vary=_batch_variant,
    structural="kept",
    returns=Rows(Maybe(Number("sequences"))),
)
