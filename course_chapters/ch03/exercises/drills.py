"""One-line questions of chapter 03, with different numbers every time."""

from course_chapters.ch03.exercises.shared import DEVICES, Rates, rates
from course_grader.exercises import Random, Vary, asking, pick
from course_grader.exercises.snippets import memory_of
from course_lib.estimate import facts

LINKED = ("A100 SXM 80GB", "H100 SXM", "B200 SXM", "P100 SXM2", "V100 SXM2 32GB")
H100 = rates("H100 SXM")


def _device(draw: Random) -> Rates:
    return rates(draw.choice(DEVICES))


def _memory(**others: tuple[object, ...]) -> Vary:
    """A variant that draws each parameter from its choices, and the bandwidth of a device's memory."""
    return lambda draw: {**pick(**others)(draw), "bandwidth": _device(draw)["bandwidth"]}


def _chip(name: str) -> dict[str, object]:
    one = facts.chip(name)
    counts = {"sms": int(one.sms), "cores": int(one.cores_per_sm)}
    tensor = {"tensor": int(one.tensor_cores_per_sm), "flop": int(one.tensor_flop_per_clock)}
    clocks = {"core_ghz": one.core_hertz / 1e9, "tensor_ghz": one.tensor_hertz / 1e9}
    return {"device": name, **counts, **tensor, **clocks}


def _any_chip(draw: Random) -> dict[str, object]:
    return _chip(draw.choice(tuple(facts.chips())))


def _linked(name: str) -> dict[str, object]:
    return {"device": name, "both": float(facts.device(name).link_both_ways)}


def _best(name: str) -> dict[str, object]:
    one = facts.ceiling(name)
    return {"device": name, "measured": float(one.measured), "peak": float(one.peak)}


def _tiles(draw: Random) -> dict[str, object]:
    """Tiles that end in a wave with few of them."""
    sms = draw.choice((80, 108, 132))
    return {"sms": sms, "tiles": sms * draw.choice((1, 2, 3)) + draw.randint(2, sms // 2)}


def _cluster(draw: Random) -> dict[str, object]:
    """A cluster of other sizes, of another device."""
    device = draw.choice(DEVICES)
    sizes = pick(gpus=(4, 8), servers=(2, 4, 9), racks=(32, 64, 192), pods=(2, 4, 8))(draw)
    return {**sizes, "memory": memory_of(device), "flops": rates(device)["flops"]}


_drill = asking("03")

_FAST = {"bandwidth": H100["bandwidth"]}
_SIDES = (1024, 2048, 3072, 6144, 8192)
_BUILT = "{{gpus:int}} GPUs make a server, {{servers:int}} servers a rack, {{racks:int}} racks a pod"
_PODS = f"{_BUILT}, and {{{{pods:int}}}} pods a cluster"
_LLAMA = {"gpus": 8, "servers": 2, "racks": 192, "pods": 8, "memory": memory_of("H100 SXM"), "flops": H100["flops"]}

DRILLS = (
    _drill("ridge-of", "FLOP per byte", H100, _device)(
        "{{device}}: {{flops:tflops}} dense, {{bandwidth:gbps}}. What is its ridge?"
    ),
    _drill("square-matmul", "FLOP per byte", {"side": 4096, "size": 2}, pick(side=(*_SIDES, 12288), size=(1, 2, 4)))(
        "A product of two {{side:int}} × {{side:int}} matrices, {{size:int}} bytes an element, all three matrices "
        "counted. What is its intensity?"
    ),
    _drill("one-way", "GB/s", _linked("H100 SXM"), lambda draw: _linked(draw.choice(LINKED)))(
        "{{device}}: the brochure prints {{both:gbps}} for its links. How much is one direction?"
    ),
    _drill("adapters", "GB/s", count=(8, 2, 4), gbit=(400, 100, 200, 800))(
        "How much can a server with {{count:int}} adapters of {{gbit:int}} Gb/s send in one direction?"
    ),
    _drill("core-peak", "TFLOP/s", _chip("H100 SXM"), _any_chip)(
        "{{device}}: {{sms:int}} SMs of {{cores:int}} FP32 cores at {{core_ghz:plain}} GHz, a fused multiply-add per "
        "clock each. What is the FP32 peak?"
    ),
    _drill("tensor-peak", "TFLOP/s", _chip("H100 SXM"), _any_chip)(
        "{{device}}: {{sms:int}} SMs of {{tensor:int}} tensor cores, {{flop:int}} FLOP per clock each, at "
        "{{tensor_ghz:plain}} GHz. What is the dense peak?"
    ),
    _drill("read-weights", "ms", {"params": 8e9, **_FAST}, _memory(params=(1e9, 3e9, 7e9, 13e9, 30e9)))(
        "How long does it take to read {{params:count}} weights of 2 bytes once from a memory of {{bandwidth:gbps}}?"
    ),
    _drill("add-time", "µs", {"million": 100, "size": 2, **_FAST}, _memory(million=(10, 50, 100, 400), size=(2, 4)))(
        "How long does z = x + y on {{million:int}} million elements of {{size:int}} bytes take at least, with a "
        "memory of {{bandwidth:gbps}}?"
    ),
    _drill("half-message", "kB", alpha=(10, 2, 5, 20, 40), beta=(50, 10, 25, 45, 400))(
        "α is {{alpha:int}} µs and β is {{beta:int}} GB/s. At what size does a message reach half of β?"
    ),
    _drill("last-wave", "percent", {"tiles": 136, "sms": 132}, _tiles)(
        "{{tiles:int}} tiles run on {{sms:int}} processors, one tile each at a time. What share of the processor "
        "time is used?"
    ),
    _drill("thin-top", "GB/s", rate=(50, 25, 100), over=(7, 2, 3, 4))(
        "Each device has {{rate:int}} GB/s in one direction; between pods the network is {{over:int}} : 1 "
        "oversubscribed. How much does each device get when all send across?"
    ),
    _drill("network-ridge", "FLOP per byte", H100, _device)(
        "{{device}}: {{flops:tflops}} dense and {{network:gbps}} of network in one direction. At how many FLOP per "
        "network byte are both equally busy?"
    ),
    _drill("reads-only", "FLOP per byte", {"side": 4096, "size": 2}, pick(side=_SIDES, size=(1, 2, 4)))(
        "A product of two {{side:int}} × {{side:int}} matrices, {{size:int}} bytes an element, only the reads "
        "counted. What is its intensity?"
    ),
    _drill("cluster-devices", "GPUs", _LLAMA, _cluster)(f"{_PODS}. How many GPUs does the cluster have?"),
    _drill("pod-memory", "TB", _LLAMA, _cluster)(f"{_BUILT}. A GPU has {{{{memory:gb}}}}. How much memory has a pod?"),
    _drill("cluster-peak", "EFLOP/s", _LLAMA, _cluster)(
        f"{_PODS}. A GPU has a dense peak of {{{{flops:tflops}}}}. What is the peak of the cluster?"
    ),
    _drill("best-matmul", "percent", _best("H100 SXM"), lambda draw: _best(draw.choice(tuple(facts.ceilings()))))(
        "{{device}}: the best measured matmul ran at {{measured:tflops}}; the dense peak is {{peak:tflops}}. What "
        "share of the peak is that?"
    ),
)
