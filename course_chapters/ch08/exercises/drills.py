"""One-line questions of chapter 08, with new numbers every time."""

from course_grader.exercises import Params, Random, asking, pick
from course_lib.estimate.units import GB, TFLOP

RANKS, SIZES = (8, 16, 32, 64, 128, 256), (1e9, 3e9, 7e9, 13e9, 30e9, 70e9)
_drill = asking("08")


def _groups(draw: Random) -> Params:
    group = draw.choice((8, 16, 32))
    return {"params": draw.choice(SIZES[2:]), "group": group, "ranks": group * draw.choice((2, 4, 16, 64))}


RATES, LINKS = (400 * TFLOP, 300 * TFLOP, 500 * TFLOP), (50 * GB, 25 * GB, 100 * GB, 450 * GB)

DRILLS = (
    _drill("zero-3-gigabytes", "GB", {"params": 70e9, "ranks": 64}, pick(params=SIZES, ranks=RANKS))(
        "A model has {{params:count}} parameters with 16 bytes of state each. How much state does each of "
        "{{ranks}} GPUs hold in ZeRO stage 3?"
    ),
    _drill("zero-1-gigabytes", "GB", {"params": 7e9, "ranks": 8}, pick(params=SIZES[:4], ranks=RANKS))(
        "{{params:count}} parameters have 16-bit weights and gradients and 12 bytes of optimizer state each. How "
        "much state does each of {{ranks}} GPUs hold in ZeRO stage 1?"
    ),
    _drill("zero-2-per-param", "bytes", {"ranks": 8}, pick(ranks=(2, 4, 8, 16, 32)))(
        "With 16-bit weights and gradients and 12 bytes of optimizer state, how many bytes per parameter does each "
        "of {{ranks}} GPUs hold in ZeRO stage 2?"
    ),
    _drill("zero-1-optimizer-shard", "GB", {"ranks": 1024}, pick(ranks=(256, 512, 1024, 4096)))(
        "405 billion parameters have a master copy and moments in 32 bits. How much optimizer state does each of "
        "{{ranks:int}} GPUs hold in ZeRO stage 1?"
    ),
    _drill("fsdp-gigabytes-sent", "GB", {"params": 7e9, "ranks": 64}, pick(params=SIZES, ranks=RANKS))(
        "FSDP trains {{params:count}} parameters in 16 bits on {{ranks}} GPUs and gathers them forward and "
        "backward. How much does each GPU send in a step?"
    ),
    _drill("fsdp-over-ddp", "a plain factor", {"weights": 16, "grads": 16}, pick(weights=(8, 16, 32), grads=(16, 32)))(
        "FSDP gathers {{weights}}-bit weights twice and reduces {{grads}}-bit gradients. How many times as much "
        "does it send as an all-reduce of the gradients?"
    ),
    _drill("hsdp-across", "GB", {"params": 70e9, "ranks": 64, "group": 8}, _groups)(
        "HSDP trains {{params:count}} parameters on {{ranks}} GPUs in groups of {{group}}, with 16-bit gradients. "
        "How much does a GPU send across groups in a step?"
    ),
    _drill("hsdp-least-group", "GPUs", params=(405e9, 13e9, 30e9, 70e9, 180e9), memory=(80 * GB, 24 * GB, 141 * GB))(
        "{{params:count}} parameters have 16 bytes of state each, and a GPU has {{memory:gb}}. What is the "
        "smallest power of two of GPUs in an HSDP group?"
    ),
    _drill("gathered-unit", "GB", params=(405e9, 7e9, 70e9), layers=(126, 32, 80))(
        "{{params:count}} parameters in {{layers}} equal layers, in 16 bits. Two layers are gathered at a time. "
        "How much memory is that?"
    ),
    _drill("pad-elements", "numbers", elements=(1000003, 50257, 4097, 123457), ranks=(64, 6, 8, 24))(
        "A row of {{elements:int}} numbers is cut into equal parts for {{ranks}} ranks. How many numbers of "
        "padding does it need?"
    ),
    _drill("fsdp-crossover", "tokens", rate=RATES, bandwidth=LINKS)(
        "A GPU computes at {{rate:tflops}} and sends at {{bandwidth:gbps}}. With FSDP in 16 bits on many GPUs, at "
        "how many tokens per GPU do both take the same time?"
    ),
    _drill("gathers-a-step", "all-gathers", {"units": 80, "micro": 4}, pick(units=(24, 32, 80, 126), micro=(4, 6, 8)))(
        "FSDP has {{units}} units and {{micro}} micro-batches per step, and frees weights after each forward pass. "
        "How many all-gathers does a step have?"
    ),
    _drill("replica-norm", "a plain factor", {"copies": 4}, pick(copies=(4, 9, 16, 64)))(
        "HSDP has {{copies}} groups, and the squares of gradients are added up over **all** ranks. By which factor "
        "is the norm too large?"
    ),
)
