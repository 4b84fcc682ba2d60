"""One-line questions of chapter 02, with new numbers every time."""

from typing import Any

from course_lib import facts
from course_lib.exercises.ch02.cards.core import shape_of
from course_lib.exercises.drilling import of_chapter, pick

SIZES = (3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9)
DEVICES = ("A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H200 SXM", "B200 SXM")


def _device(name: str) -> dict[str, Any]:
    return {"device": name, "memory": float(facts.device(name).memory)}


def _model(name: str) -> dict[str, Any]:
    shape = shape_of(name)
    return {
        "model": name,
        **{key: shape[key] for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")},
    }


_drill = of_chapter("02")

GATED = ("llama3-8b", "llama3-70b", "mistral-7b", "llama2-7b")

DRILLS = (
    _drill(
        "sixteen-bytes",
        "{{params:count}} parameters, Adam, mixed precision with an fp32 master copy: how much training state?",
        "GB",
        {"params": 70e9},
        pick(params=SIZES),
    ),
    _drill(
        "no-master",
        "{{params:count}} parameters, Adam with fp32 moments, 16-bit weights and gradients, no master copy: how much training state?",
        "GB",
        {"params": 405e9},
        pick(params=SIZES),
    ),
    _drill(
        "main-grads",
        "{{params:count}} parameters, bf16 weights, gradients in fp32, fp32 master copy, Adam: how much training state?",
        "GB",
        {"params": 7e9},
        pick(params=SIZES),
    ),
    _drill(
        "moments-alone",
        "{{params:count}} parameters: how large are Adam's two fp32 moments alone?",
        "GB",
        {"params": 7e9},
        pick(params=SIZES),
    ),
    _drill(
        "eight-bit",
        "{{params:count}} parameters: how much smaller are Adam's moments at 1 byte each instead of 4?",
        "GB saved",
        {"params": 13e9},
        pick(params=SIZES),
    ),
    _drill(
        "fits-one",
        "One {{device}} with {{memory:gb}} holds only state, at 16 bytes per parameter. How large a model fits?",
        "billion parameters",
        _device("H100 SXM"),
        lambda draw: _device(draw.choice(DEVICES)),
    ),
    _drill(
        "cards-for-state",
        "{{params:count}} parameters at 16 bytes each, spread over devices of {{memory:gb}}: how many devices at least?",
        "devices",
        {"params": 70e9, **_device("H100 SXM")},
        lambda draw: {"params": draw.choice(SIZES), **_device(draw.choice(DEVICES))},
    ),
    _drill(
        "layer-inputs",
        "{{layers:int}} layers, hidden size {{hidden:int}}, one sequence of {{seq:int}} tokens, 2 bytes per number: how large "
        "are the inputs of all layers together?",
        "GB",
        {**_model("llama3-70b"), "seq": 8192},
        lambda draw: {**_model(draw.choice(GATED)), "seq": draw.choice((2048, 4096, 16_384))},
    ),
    _drill(
        "thirty-four",
        "One layer, hidden size {{hidden:int}}, {{seq:int}} tokens, fused attention, 34 bytes per token and hidden unit: "
        "how large are its activations?",
        "MB",
        {"hidden": 4096, "seq": 4096},
        pick(hidden=(2048, 5120, 8192, 12_288), seq=(1024, 2048, 8192)),
    ),
    _drill(
        "scores",
        "{{heads:int}} heads, one sequence of {{seq:int}} tokens, 2 bytes per number: how large are the attention scores of one layer?",
        "GB",
        {"heads": 32, "seq": 8192},
        pick(heads=(12, 32, 64, 96), seq=(2048, 4096, 16_384, 32_768)),
    ),
    _drill(
        "logits",
        "{{seq:int}} tokens, a vocabulary of {{vocab:int}}, fp32: how large are the logits?",
        "GB",
        {"seq": 8192, **_model("llama3-8b")},
        lambda draw: {**_model(draw.choice((*GATED, "qwen2.5-7b"))), "seq": draw.choice((2048, 4096, 16_384))},
    ),
    _drill(
        "full-recompute",
        "A step takes {{seconds:plain}} s. Now every layer is recomputed once; a backward pass is the work of two forward "
        "passes. How long does the step take?",
        "s",
        {"seconds": 6},
        pick(seconds=(3, 4.5, 9, 12, 30)),
    ),
    _drill(
        "root-segments",
        "{{layers:int}} equal layers, each keeping {{inner:int}} times its input inside. With how many segments is the "
        "peak lowest if all inputs stay alive (√(L·inner), rounded)?",
        "segments",
        {"layers": 80, "inner": 20},
        pick(layers=(24, 32, 48, 96, 120), inner=(12, 16, 20, 34)),
    ),
    _drill(
        "gated-mlp",
        "A gated MLP with hidden size {{hidden:int}} and inner width {{ffn:int}}: how many parameters in one layer?",
        "million parameters",
        _model("llama3-8b"),
        lambda draw: _model(draw.choice(("llama3-70b", "mistral-7b", "llama3.2-1b", "qwen2.5-7b"))),
    ),
    _drill(
        "shared-keys",
        "Hidden size {{hidden:int}}, {{heads:int}} query heads of {{head_dim:int}} and {{kv_heads:int}} heads each for keys and "
        "values: how many parameters do one layer's key and value matrices have together?",
        "million parameters",
        _model("llama3-8b"),
        lambda draw: _model(draw.choice(("llama3-70b", "mistral-7b", "llama3.2-3b"))),
    ),
)
