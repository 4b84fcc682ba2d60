"""One-line questions of chapter 02, with new numbers every time."""

from course_chapters.ch02.exercises.shared import shape_of
from course_grader.exercises import Vary, asking, pick
from course_lib.estimate import facts

SIZES = (3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9)
DEVICES = ("A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H200 SXM", "B200 SXM")


def _device(name: str) -> dict[str, object]:
    return {"device": name, "memory": float(facts.device(name).memory)}


def _model(name: str) -> dict[str, object]:
    return {"model": name, **shape_of(name)}


def _models(*names: str, **others: tuple[object, ...]) -> Vary:
    """A variant that draws one of these models, and each other parameter from its choices."""
    return lambda draw: {**_model(draw.choice(names)), **pick(**others)(draw)}


_drill = asking("02")

WIDTHS, DEPTHS = (2048, 5120, 8192, 12_288), (24, 32, 48, 96, 120)
OTHERS = ("llama3-70b", "mistral-7b")
GATED = ("llama3-8b", "llama3-70b", "mistral-7b", "llama2-7b")

DRILLS = (
    _drill("sixteen-bytes", "GB", {"params": 70e9}, pick(params=SIZES))(
        "{{params:count}} parameters, Adam, mixed precision with an fp32 master copy: how much training state?"
    ),
    _drill("no-master", "GB", {"params": 405e9}, pick(params=SIZES))(
        "{{params:count}} parameters, Adam with fp32 moments, 16-bit weights and gradients, no master copy: "
        "how much state?"
    ),
    _drill("main-grads", "GB", {"params": 7e9}, pick(params=SIZES))(
        "{{params:count}} parameters, bf16 weights, gradients in fp32, fp32 master copy, Adam: how much training state?"
    ),
    _drill("moments-alone", "GB", {"params": 7e9}, pick(params=SIZES))(
        "{{params:count}} parameters: how large are Adam's two fp32 moments alone?"
    ),
    _drill("eight-bit", "GB saved", {"params": 13e9}, pick(params=SIZES))(
        "{{params:count}} parameters: how much smaller are Adam's moments at 1 byte each instead of 4?"
    ),
    _drill("fits-one", "billion parameters", _device("H100 SXM"), lambda draw: _device(draw.choice(DEVICES)))(
        "One {{device}} with {{memory:gb}} holds only state, at 16 bytes per parameter. How large a model fits?"
    ),
    _drill(
        "cards-for-state",
        "devices",
        {"params": 70e9, **_device("H100 SXM")},
        lambda draw: {"params": draw.choice(SIZES), **_device(draw.choice(DEVICES))},
    )("{{params:count}} parameters at 16 bytes each, spread over devices of {{memory:gb}}: how many devices at least?"),
    _drill("layer-inputs", "GB", {**_model("llama3-70b"), "seq": 8192}, _models(*GATED, seq=(2048, 4096, 16_384)))(
        "{{layers:int}} layers, hidden size {{hidden:int}}, one sequence of {{seq:int}} tokens, 2 bytes per number: "
        "how large are the inputs of all layers together?"
    ),
    _drill("thirty-four", "MB", {"hidden": 4096, "seq": 4096}, pick(hidden=WIDTHS, seq=(1024, 2048, 8192)))(
        "A layer keeps 34 bytes per token and hidden unit. How large are the activations of {{seq:int}} tokens with "
        "hidden size {{hidden:int}}?"
    ),
    _drill("scores", "GB", {"heads": 32, "seq": 8192}, pick(heads=(12, 32, 64, 96), seq=(2048, 4096, 16_384, 32_768)))(
        "{{heads:int}} heads, {{seq:int}} tokens, 2 bytes per number: how large are one layer's attention scores?"
    ),
    _drill(
        "logits", "GB", {"seq": 8192, **_model("llama3-8b")}, _models(*GATED, "qwen2.5-7b", seq=(2048, 4096, 16_384))
    )("{{seq:int}} tokens, a vocabulary of {{vocab:int}}, fp32: how large are the logits?"),
    _drill("full-recompute", "s", {"seconds": 6}, pick(seconds=(3, 4.5, 9, 12, 30)))(
        "A step takes {{seconds:plain}} s. Now every layer is recomputed once; a backward pass is the work of two "
        "forward passes. How long does the step take?"
    ),
    _drill("root-segments", "segments", {"layers": 80, "inner": 20}, pick(layers=DEPTHS, inner=(12, 16, 20, 34)))(
        "{{layers:int}} equal layers, each keeping {{inner:int}} times its input inside. With how many segments is "
        "the peak lowest if all inputs stay alive (√(L·inner), rounded)?"
    ),
    _drill("gated-mlp", "million parameters", _model("llama3-8b"), _models(*OTHERS, "llama3.2-1b", "qwen2.5-7b"))(
        "A gated MLP with hidden size {{hidden:int}} and inner width {{ffn:int}}: how many parameters in one layer?"
    ),
    _drill("shared-keys", "million parameters", _model("llama3-8b"), _models(*OTHERS, "llama3.2-3b"))(
        "Hidden size {{hidden:int}}, {{heads:int}} query heads of {{head_dim:int}} and {{kv_heads:int}} heads each "
        "for keys and values: how many parameters do one layer's key and value matrices have together?"
    ),
)
