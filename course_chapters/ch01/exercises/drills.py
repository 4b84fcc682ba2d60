"""One-line questions of chapter 01, with different numbers every time."""

from course_chapters.ch01.exercises.shared import DEVICES
from course_grader.exercises import Params, Random, asking, pick
from course_grader.exercises.snippets import dense_flops, memory_of
from course_lib.estimate import facts
from course_lib.estimate.units import GB

SIZES = (1e9, 3e9, 7e9, 8e9, 13e9, 30e9, 32e9, 70e9, 110e9)
TOKENS = (0.3e12, 1e12, 2e12, 6e12, 15e12)
PRICE = float(facts.price("H100 hour"))
H100 = dense_flops("H100 SXM")


def _card(draw: Random) -> dict[str, object]:
    device = draw.choice(DEVICES)
    return {"device": device, "memory": memory_of(device), "flops": dense_flops(device)}


def _shape(model: str, seq: int) -> dict[str, object]:
    shape = facts.model(model)
    return {"params": float(shape.params), "layers": shape.layers, "hidden": shape.hidden, "seq": seq}


_drill = asking("01")

DRILLS = (
    _drill("state-gb", "GB", {"params": 13e9}, pick(params=SIZES))(
        "How large is the training state of {{params:count}} parameters at 16 bytes each?"
    ),
    _drill(
        "fewest-cards",
        "GPUs",
        {"params": 70e9, "device": "H100 SXM", "memory": memory_of("H100 SXM")},
        lambda draw: {**_card(draw), "params": draw.choice((13e9, 30e9, 32e9, 65e9, 70e9, 110e9, 405e9))},
    )(
        "How many {{device}} ({{memory:gb}}) does the training state of {{params:count}} parameters need, at "
        "16 bytes each?"
    ),
    _drill("largest-model", "billion parameters", {"device": "H100 SXM", "memory": memory_of("H100 SXM")}, _card)(
        "What is the largest model whose training state, 16 bytes per parameter, fits on one {{device}} of "
        "{{memory:gb}}?"
    ),
    _drill("gib", "GB", gib=(80, 16, 24, 32, 40, 48, 96, 192))("How many GB are {{gib:int}} GiB of GPU memory?"),
    _drill("train-flops", "× 10²¹ FLOP", {"params": 70e9, "tokens": 15e12}, pick(params=SIZES, tokens=TOKENS))(
        "How many FLOP does it take to train {{params:count}} parameters on {{tokens:count}} tokens, without attention?"
    ),
    _drill(
        "step-time",
        "seconds",
        {"params": 70e9, "tokens": 8192, "flops": H100, "mfu": 0.4},
        lambda draw: {
            "flops": _card(draw)["flops"],
            "params": draw.choice(SIZES),
            "tokens": draw.choice((4096, 8192, 16384, 32768)),
            "mfu": draw.choice((0.3, 0.4, 0.45, 0.5)),
        },
    )(
        "One step: {{params:count}} parameters, {{tokens:int}} tokens, one GPU of {{flops:tflops}} at "
        "{{mfu:percent}} MFU. How long?"
    ),
    _drill(
        "run-days",
        "days",
        {"params": 70e9, "tokens": 15e12, "gpus": 1024, "flops": H100, "mfu": 0.4},
        lambda draw: {
            "flops": _card(draw)["flops"],
            "params": draw.choice((30e9, 70e9, 110e9)),
            "tokens": draw.choice(TOKENS),
            "gpus": draw.choice((64, 256, 1024, 4096)),
            "mfu": draw.choice((0.3, 0.35, 0.4, 0.45)),
        },
    )(
        "{{params:count}} parameters, {{tokens:count}} tokens, {{gpus:int}} GPUs of {{flops:tflops}} at "
        "{{mfu:percent}} MFU, perfect scaling. How long?"
    ),
    _drill(
        "run-cost",
        "million USD",
        {"gpus": 1024, "days": 30, "usd_per_hour": PRICE},
        pick(gpus=(64, 256, 512, 1024, 2048), days=(10, 30, 45, 90), usd_per_hour=(1.5, 2.0, 2.5, 3.0)),
    )("What do {{gpus:int}} GPUs cost for {{days:int}} days at {{usd_per_hour:usd}} per GPU-hour?"),
    _drill(
        "mfu-percent",
        "percent",
        {"gpus": 64, "flops": H100, "params": 8e9, "tokens_s": 500_000},
        lambda draw: _mfu_case(draw),
    )(
        "{{gpus:int}} GPUs of {{flops:tflops}} train {{params:count}} parameters at "
        "{{tokens_s:int}} tokens a second, all together. What is the MFU?"
    ),
    _drill("waste", "million USD", mfu=(0.35, 0.25, 0.3, 0.4), baseline=(0.5, 0.45, 0.55), usd=(10e6, 2e6, 5e6, 40e6))(
        "A run at {{mfu:percent}} MFU cost {{usd:musd}}; {{baseline:percent}} MFU is achievable. How much of the money "
        "was wasted?"
    ),
    _drill(
        "tokens-for-money",
        "billion tokens",
        {"usd": 1e6, "params": 8e9, "usd_per_hour": PRICE, "flops": H100, "mfu": 0.4},
        lambda draw: {
            "usd": draw.choice((0.5e6, 1e6, 2e6, 5e6)),
            "params": draw.choice((3e9, 7e9, 8e9, 13e9)),
            "usd_per_hour": draw.choice((1.5, 2.0, 2.5)),
            "mfu": draw.choice((0.35, 0.4, 0.5)),
        },
    )(
        "How many tokens can {{usd:musd}} train {{params:count}} parameters on, at {{usd_per_hour:usd}} per "
        "GPU-hour and {{mfu:percent}} MFU of {{flops:tflops}}?"
    ),
    _drill(
        "headroom-gb",
        "GB",
        {"params": 13e9, "gpus": 4, "memory": 80 * GB},
        lambda draw: {
            "params": draw.choice((7e9, 8e9, 13e9, 20e9)),
            "gpus": draw.choice((8, 16, 32)),
            "memory": _card(draw)["memory"],
        },
    )(
        "{{params:count}} parameters at 16 bytes each, spread over {{gpus:int}} GPUs of {{memory:gb}}. "
        "How much memory is left on each?"
    ),
    _drill(
        "attention-share",
        "percent",
        _shape("llama3-70b", 8192),
        lambda draw: _shape(
            draw.choice(("llama3-8b", "llama3-70b", "llama3-405b")), draw.choice((4096, 8192, 32768, 131072))
        ),
    )(
        "{{params:count}} parameters in {{layers:int}} layers of width {{hidden:int}}, context {{seq:int}}, with "
        "every token attending to all of it. How much does attention add to 6 FLOP per parameter and token?"
    ),
    _drill("overlap", "seconds", compute=(8.6, 0.9, 2.1), comm=(2.8, 0.5, 9.5), data=(0.4, 0.1, 1.7))(
        "A step: {{compute:plain}} s of compute, {{comm:plain}} s of communication, {{data:plain}} s of loading, "
        "with perfect overlap. How long does it take?"
    ),
)


def _mfu_case(draw: Random) -> Params:
    """A throughput that gives a believable utilization."""
    flops, gpus, params = dense_flops(draw.choice(DEVICES)), draw.choice((8, 64, 256)), draw.choice((1e9, 8e9, 70e9))
    rate = draw.uniform(0.25, 0.5) * gpus * flops / (6 * params)
    return {"gpus": gpus, "flops": flops, "params": params, "tokens_s": float(f"{rate:.2g}")}
