"""One-line questions of chapter 03, with other numbers every time."""

import random
from typing import Any

from course_lib import facts
from course_lib.exercises.ch03.cards.core import DEVICES, rates
from course_lib.exercises.drilling import of_chapter, pick

CHIPS = tuple(facts.chips())
LINKED = ("A100 SXM 80GB", "H100 SXM", "B200 SXM", "P100 SXM2", "V100 SXM2 32GB")


def _device(draw: random.Random) -> dict[str, Any]:
    return rates(draw.choice(DEVICES))


def _chip(name: str) -> dict[str, Any]:
    one = facts.chip(name)
    return {
        "device": name,
        "sms": int(one.sms),
        "cores": int(one.cores_per_sm),
        "tensor": int(one.tensor_cores_per_sm),
        "flop": int(one.tensor_flop_per_clock),
        "core_ghz": one.core_hertz / 1e9,
        "tensor_ghz": one.tensor_hertz / 1e9,
    }


def _linked(name: str) -> dict[str, Any]:
    return {"device": name, "both": float(facts.device(name).link_both_ways)}


def _best(name: str) -> dict[str, Any]:
    one = facts.ceiling(name)
    return {"device": name, "measured": float(one.measured), "peak": float(one.peak)}


_drill = of_chapter("03")

H100 = rates("H100 SXM")
DRILLS = (
    _drill(
        "ridge-of", "{{device}}: {{flops:tflops}} dense, {{bandwidth:gbps}}. Its ridge?", "FLOP per byte", H100, _device
    ),
    _drill(
        "square-matmul",
        "A product of two {{side:int}} × {{side:int}} matrices, {{size:int}} bytes an element, all three "
        "matrices counted. Intensity?",
        "FLOP per byte",
        {"side": 4096, "size": 2},
        pick(side=(1024, 2048, 3072, 6144, 8192, 12288), size=(1, 2, 4)),
    ),
    _drill(
        "one-way",
        "{{device}}: the brochure prints {{both:gbps}} for its links. How much in one direction?",
        "GB/s",
        _linked("H100 SXM"),
        lambda draw: _linked(draw.choice(LINKED)),
    ),
    _drill(
        "adapters",
        "A server with {{count:int}} adapters of {{gbit:int}} Gb/s: what can it send in one direction?",
        "GB/s",
        {"count": 8, "gbit": 400},
        pick(count=(2, 4, 8), gbit=(100, 200, 400, 800)),
    ),
    _drill(
        "core-peak",
        "{{device}}: {{sms:int}} SMs of {{cores:int}} FP32 cores at {{core_ghz:plain}} GHz, a fused multiply-add "
        "per clock each. FP32 peak?",
        "TFLOP/s",
        _chip("H100 SXM"),
        lambda draw: _chip(draw.choice(CHIPS)),
    ),
    _drill(
        "tensor-peak",
        "{{device}}: {{sms:int}} SMs of {{tensor:int}} tensor cores, {{flop:int}} FLOP per clock each, at "
        "{{tensor_ghz:plain}} GHz. Dense peak?",
        "TFLOP/s",
        _chip("H100 SXM"),
        lambda draw: _chip(draw.choice(CHIPS)),
    ),
    _drill(
        "read-weights",
        "{{params:count}} weights of 2 bytes, a memory of {{bandwidth:gbps}}. How long to read them once?",
        "ms",
        {"params": 8e9, "bandwidth": H100["bandwidth"]},
        lambda draw: {"params": draw.choice((1e9, 3e9, 7e9, 13e9, 30e9)), "bandwidth": _device(draw)["bandwidth"]},
    ),
    _drill(
        "add-time",
        "z = x + y on {{million:int}} million elements of {{size:int}} bytes, a memory of {{bandwidth:gbps}}. "
        "At least how long?",
        "µs",
        {"million": 100, "size": 2, "bandwidth": H100["bandwidth"]},
        lambda draw: {
            "million": draw.choice((10, 50, 100, 400)),
            "size": draw.choice((2, 4)),
            "bandwidth": _device(draw)["bandwidth"],
        },
    ),
    _drill(
        "half-message",
        "α is {{alpha:int}} µs, β is {{beta:int}} GB/s. At which size does a message get half of β?",
        "kB",
        {"alpha": 10, "beta": 50},
        pick(alpha=(2, 5, 10, 20, 40), beta=(10, 25, 45, 50, 400)),
    ),
    _drill(
        "last-wave",
        "{{tiles:int}} tiles on {{sms:int}} processors, one tile each at a time. Which share of the paid time is used?",
        "percent",
        {"tiles": 136, "sms": 132},
        lambda draw: _tiles_case(draw),
    ),
    _drill(
        "thin-top",
        "Each device has {{rate:int}} GB/s in one direction; between pods {{over:int}} : 1 is oversubscribed. What "
        "does each get when all send across?",
        "GB/s",
        {"rate": 50, "over": 7},
        pick(rate=(25, 50, 100), over=(2, 3, 4, 7)),
    ),
    _drill(
        "network-ridge",
        "{{device}}: {{flops:tflops}} dense and {{network:gbps}} of network in one direction. FLOP per "
        "network byte at which both are equally busy?",
        "FLOP per byte",
        H100,
        _device,
    ),
    _drill(
        "best-matmul",
        "{{device}}: the best matmul anybody measured ran at {{measured:tflops}}; the dense peak is "
        "{{peak:tflops}}. Share of the peak?",
        "percent",
        _best("H100 SXM"),
        lambda draw: _best(draw.choice(tuple(facts.ceilings()))),
    ),
)


def _tiles_case(draw: random.Random) -> dict[str, Any]:
    """Tiles that end in a wave with few of them."""
    sms = draw.choice((80, 108, 132))
    return {"sms": sms, "tiles": sms * draw.choice((1, 2, 3)) + draw.randint(2, sms // 2)}
