"""One-line questions of chapter 02, with other numbers every time."""

from typing import Any

from course_lib import facts
from course_lib.exercises.ch02.cards.core import shape_of
from course_lib.exercises.drilling import of_chapter, pick

SIZES = (3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9)
CARDS = ("A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H200 SXM", "B200 SXM")


def _card(name: str) -> dict[str, Any]:
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
        "{{params:count}} parameters, Adam, mixed precision with an fp32 master copy. State?",
        "GB",
        {"params": 70e9},
        pick(params=SIZES),
    ),
    _drill(
        "no-master",
        "{{params:count}} parameters, Adam with fp32 moments, 16-bit weights and gradients, no master copy. State?",
        "GB",
        {"params": 405e9},
        pick(params=SIZES),
    ),
    _drill(
        "main-grads",
        "{{params:count}} parameters, bf16 weights, gradients kept in fp32, fp32 master copy, Adam. State?",
        "GB",
        {"params": 7e9},
        pick(params=SIZES),
    ),
    _drill(
        "moments-alone",
        "{{params:count}} parameters: Adam's two moments in fp32, nothing else?",
        "GB",
        {"params": 7e9},
        pick(params=SIZES),
    ),
    _drill(
        "eight-bit",
        "{{params:count}} parameters: how much do Adam's moments shrink if each has 1 byte instead of 4?",
        "GB saved",
        {"params": 13e9},
        pick(params=SIZES),
    ),
    _drill(
        "fits-one",
        "One {{device}} with {{memory:gb}}, 16 bytes a parameter, nothing else. The largest model?",
        "billion parameters",
        _card("H100 SXM"),
        lambda draw: _card(draw.choice(CARDS)),
    ),
    _drill(
        "cards-for-state",
        "{{params:count}} parameters at 16 bytes, spread over devices of {{memory:gb}}. At least how many?",
        "devices",
        {"params": 70e9, **_card("H100 SXM")},
        lambda draw: {"params": draw.choice(SIZES), **_card(draw.choice(CARDS))},
    ),
    _drill(
        "layer-inputs",
        "{{layers:int}} layers, hidden size {{hidden:int}}, one sequence of {{seq:int}} tokens, 2 bytes: the inputs of all "
        "layers?",
        "GB",
        {**_model("llama3-70b"), "seq": 8192},
        lambda draw: {**_model(draw.choice(GATED)), "seq": draw.choice((2048, 4096, 16_384))},
    ),
    _drill(
        "thirty-four",
        "One layer, hidden size {{hidden:int}}, {{seq:int}} tokens, attention fused: 34 bytes per token and hidden unit. "
        "How much?",
        "MB",
        {"hidden": 4096, "seq": 4096},
        pick(hidden=(2048, 5120, 8192, 12_288), seq=(1024, 2048, 8192)),
    ),
    _drill(
        "scores",
        "{{heads:int}} heads, one sequence of {{seq:int}} tokens, 2 bytes: the attention matrix of one layer?",
        "GB",
        {"heads": 32, "seq": 8192},
        pick(heads=(12, 32, 64, 96), seq=(2048, 4096, 16_384, 32_768)),
    ),
    _drill(
        "logits",
        "{{seq:int}} tokens, {{vocab:int}} words, fp32: the logits?",
        "GB",
        {"seq": 8192, **_model("llama3-8b")},
        lambda draw: {**_model(draw.choice((*GATED, "qwen2.5-7b"))), "seq": draw.choice((2048, 4096, 16_384))},
    ),
    _drill(
        "full-recompute",
        "A plain step takes {{seconds:plain}} s. Everything is computed again once; a backward pass is two forwards' work. "
        "How long is a step then?",
        "s",
        {"seconds": 6},
        pick(seconds=(3, 4.5, 9, 12, 30)),
    ),
    _drill(
        "root-segments",
        "{{layers:int}} equal layers, each keeps {{inner:int}} times its input inside. In how many segments is the "
        "peak lowest, all inputs alive (√(L·inner), rounded)?",
        "segments",
        {"layers": 80, "inner": 20},
        pick(layers=(24, 32, 48, 96, 120), inner=(12, 16, 20, 34)),
    ),
    _drill(
        "gated-mlp",
        "A gated MLP, hidden {{hidden:int}}, inner width {{ffn:int}}: parameters of one layer's?",
        "million parameters",
        _model("llama3-8b"),
        lambda draw: _model(draw.choice(("llama3-70b", "mistral-7b", "llama3.2-1b", "qwen2.5-7b"))),
    ),
    _drill(
        "shared-keys",
        "Hidden {{hidden:int}}, {{heads:int}} heads of {{head_dim:int}}, {{kv_heads:int}} of them for keys and for values. "
        "Parameters of the key and value matrices of one layer, together?",
        "million parameters",
        _model("llama3-8b"),
        lambda draw: _model(draw.choice(("llama3-70b", "mistral-7b", "llama3.2-3b"))),
    ),
)
