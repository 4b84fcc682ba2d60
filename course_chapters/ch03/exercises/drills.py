"""One-line questions of chapter 03, with different numbers every time."""

import random
from typing import Any

from course_chapters.ch03.exercises.shared import DEVICES, rates
from course_grader.exercises.drilling import of_chapter, pick
from course_grader.exercises.snippets import memory_of
from course_lib.estimate import facts

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


def _tiles_case(draw: random.Random) -> dict[str, Any]:
    """Tiles that end in a wave with few of them."""
    sms = draw.choice((80, 108, 132))
    return {"sms": sms, "tiles": sms * draw.choice((1, 2, 3)) + draw.randint(2, sms // 2)}


_drill = of_chapter("03")

H100 = rates("H100 SXM")
_BUILT = "{{gpus:int}} GPUs make a server, {{servers:int}} servers a rack, {{racks:int}} racks a pod."
_LLAMA = {"gpus": 8, "servers": 2, "racks": 192, "pods": 8, "memory": memory_of("H100 SXM"), "flops": H100["flops"]}


def _built(draw: random.Random) -> dict[str, Any]:
    """A cluster of other sizes, of another device."""
    device = draw.choice(DEVICES)
    sizes = pick(gpus=(4, 8), servers=(2, 4, 9), racks=(32, 64, 192), pods=(2, 4, 8))(draw)
    return {**sizes, "memory": memory_of(device), "flops": rates(device)["flops"]}


DRILLS = (
    _drill(
        "ridge-of",
        "{{device}}: {{flops:tflops}} dense, {{bandwidth:gbps}}. What is its ridge?",
        "FLOP per byte",
        H100,
        _device,
    ),
    _drill(
        "square-matmul",
        "A product of two {{side:int}} × {{side:int}} matrices, {{size:int}} bytes an element, all three "
        "matrices counted. What is its intensity?",
        "FLOP per byte",
        {"side": 4096, "size": 2},
        pick(side=(1024, 2048, 3072, 6144, 8192, 12288), size=(1, 2, 4)),
    ),
    _drill(
        "one-way",
        "{{device}}: the brochure prints {{both:gbps}} for its links. How much is one direction?",
        "GB/s",
        _linked("H100 SXM"),
        lambda draw: _linked(draw.choice(LINKED)),
    ),
    _drill(
        "adapters",
        "How much can a server with {{count:int}} adapters of {{gbit:int}} Gb/s send in one direction?",
        "GB/s",
        {"count": 8, "gbit": 400},
        pick(count=(2, 4, 8), gbit=(100, 200, 400, 800)),
    ),
    _drill(
        "core-peak",
        "{{device}}: {{sms:int}} SMs of {{cores:int}} FP32 cores at {{core_ghz:plain}} GHz, a fused multiply-add "
        "per clock each. What is the FP32 peak?",
        "TFLOP/s",
        _chip("H100 SXM"),
        lambda draw: _chip(draw.choice(CHIPS)),
    ),
    _drill(
        "tensor-peak",
        "{{device}}: {{sms:int}} SMs of {{tensor:int}} tensor cores, {{flop:int}} FLOP per clock each, at "
        "{{tensor_ghz:plain}} GHz. What is the dense peak?",
        "TFLOP/s",
        _chip("H100 SXM"),
        lambda draw: _chip(draw.choice(CHIPS)),
    ),
    _drill(
        "read-weights",
        "How long does it take to read {{params:count}} weights of 2 bytes once from a memory of {{bandwidth:gbps}}?",
        "ms",
        {"params": 8e9, "bandwidth": H100["bandwidth"]},
        lambda draw: {"params": draw.choice((1e9, 3e9, 7e9, 13e9, 30e9)), "bandwidth": _device(draw)["bandwidth"]},
    ),
    _drill(
        "add-time",
        "How long does z = x + y on {{million:int}} million elements of {{size:int}} bytes take at least, with a memory of "
        "{{bandwidth:gbps}}?",
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
        "α is {{alpha:int}} µs and β is {{beta:int}} GB/s. At what size does a message reach half of β?",
        "kB",
        {"alpha": 10, "beta": 50},
        pick(alpha=(2, 5, 10, 20, 40), beta=(10, 25, 45, 50, 400)),
    ),
    _drill(
        "last-wave",
        "{{tiles:int}} tiles run on {{sms:int}} processors, one tile each at a time. What share of the processor time is used?",
        "percent",
        {"tiles": 136, "sms": 132},
        _tiles_case,
    ),
    _drill(
        "thin-top",
        "Each device has {{rate:int}} GB/s in one direction; between pods the network is {{over:int}} : 1 oversubscribed. How "
        "much does each device get when all send across?",
        "GB/s",
        {"rate": 50, "over": 7},
        pick(rate=(25, 50, 100), over=(2, 3, 4, 7)),
    ),
    _drill(
        "network-ridge",
        "{{device}}: {{flops:tflops}} dense and {{network:gbps}} of network in one direction. At how many FLOP per "
        "network byte are both equally busy?",
        "FLOP per byte",
        H100,
        _device,
    ),
    _drill(
        "reads-only",
        "A product of two {{side:int}} × {{side:int}} matrices, {{size:int}} bytes an element, only the reads counted. What "
        "is its intensity?",
        "FLOP per byte",
        {"side": 4096, "size": 2},
        pick(side=(1024, 2048, 3072, 6144, 8192), size=(1, 2, 4)),
    ),
    _drill(
        "cluster-devices",
        f"{_BUILT} {{{{pods:int}}}} pods make a cluster. How many GPUs does the cluster have?",
        "GPUs",
        _LLAMA,
        _built,
    ),
    _drill("pod-memory", f"{_BUILT} A GPU has {{{{memory:gb}}}}. How much memory has a pod?", "TB", _LLAMA, _built),
    _drill(
        "cluster-peak",
        f"{_BUILT} {{{{pods:int}}}} pods make a cluster. A GPU has a dense peak of {{{{flops:tflops}}}}. What is the peak of "
        "the cluster?",
        "EFLOP/s",
        _LLAMA,
        _built,
    ),
    _drill(
        "best-matmul",
        "{{device}}: the best measured matmul ran at {{measured:tflops}}; the dense peak is "
        "{{peak:tflops}}. What share of the peak is that?",
        "percent",
        _best("H100 SXM"),
        lambda draw: _best(draw.choice(tuple(facts.ceilings()))),
    ),
)
