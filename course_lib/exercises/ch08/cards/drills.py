"""One-line questions of chapter 08, with new numbers every time."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises.drilling import of_chapter, pick
from course_lib.units import GB, TFLOP

RANKS, SIZES = (8, 16, 32, 64, 128, 256), (1e9, 3e9, 7e9, 13e9, 30e9, 70e9)
RATE = 400 * TFLOP
_drill = of_chapter("08")


def _groups(draw: random.Random) -> Mapping[str, Any]:
    group = draw.choice((8, 16, 32))
    return {"params": draw.choice(SIZES[2:]), "group": group, "ranks": group * draw.choice((2, 4, 16, 64))}


DRILLS = (
    _drill(
        "zero-3-gigabytes",
        "A model has {{params:count}} parameters with 16 bytes of state each. How much state does each of {{ranks}} "
        "GPUs hold in ZeRO stage 3?",
        "GB",
        {"params": 70e9, "ranks": 64},
        pick(params=SIZES, ranks=RANKS),
    ),
    _drill(
        "zero-1-gigabytes",
        "{{params:count}} parameters have 16-bit weights and gradients and 12 bytes of optimizer state each. How much "
        "state does each of {{ranks}} GPUs hold in ZeRO stage 1?",
        "GB",
        {"params": 7e9, "ranks": 8},
        pick(params=SIZES[:4], ranks=RANKS),
    ),
    _drill(
        "zero-2-per-param",
        "With 16-bit weights and gradients and 12 bytes of optimizer state, how many bytes per parameter does each of "
        "{{ranks}} GPUs hold in ZeRO stage 2?",
        "bytes",
        {"ranks": 8},
        pick(ranks=(2, 4, 8, 16, 32)),
    ),
    _drill(
        "zero-1-optimizer-shard",
        "405 billion parameters have a master copy and moments in 32 bits. How much optimizer state does each of "
        "{{ranks:int}} GPUs hold in ZeRO stage 1?",
        "GB",
        {"ranks": 1024},
        pick(ranks=(256, 512, 1024, 4096)),
    ),
    _drill(
        "fsdp-gigabytes-sent",
        "FSDP trains {{params:count}} parameters in 16 bits on {{ranks}} GPUs and gathers them forward and backward. "
        "How much does each GPU send in a step?",
        "GB",
        {"params": 7e9, "ranks": 64},
        pick(params=SIZES, ranks=RANKS),
    ),
    _drill(
        "fsdp-over-ddp",
        "FSDP gathers {{weights}}-bit weights twice and reduces {{grads}}-bit gradients. How many times as much does "
        "it send as an all-reduce of the gradients?",
        "a plain factor",
        {"weights": 16, "grads": 16},
        pick(weights=(8, 16, 32), grads=(16, 32)),
    ),
    _drill(
        "hsdp-across",
        "HSDP trains {{params:count}} parameters on {{ranks}} GPUs in groups of {{group}}, with 16-bit gradients. How "
        "much does a GPU send across groups in a step?",
        "GB",
        {"params": 70e9, "ranks": 64, "group": 8},
        _groups,
    ),
    _drill(
        "hsdp-least-group",
        "{{params:count}} parameters have 16 bytes of state each, and a GPU has {{memory:gb}}. What is the smallest "
        "power of two of GPUs in an HSDP group?",
        "GPUs",
        {"params": 405e9, "memory": 80 * GB},
        pick(params=(13e9, 30e9, 70e9, 180e9, 405e9), memory=(24 * GB, 80 * GB, 141 * GB)),
    ),
    _drill(
        "gathered-unit",
        "{{params:count}} parameters in {{layers}} equal layers, in 16 bits. Two layers are gathered at a time. How "
        "much memory is that?",
        "GB",
        {"params": 405e9, "layers": 126},
        pick(params=(7e9, 70e9, 405e9), layers=(32, 80, 126)),
    ),
    _drill(
        "pad-elements",
        "A row of {{elements:int}} numbers is cut into equal parts for {{ranks}} ranks. How many numbers of padding "
        "does it need?",
        "numbers",
        {"elements": 1000003, "ranks": 64},
        pick(elements=(1000003, 50257, 4097, 123457), ranks=(6, 8, 24, 64)),
    ),
    _drill(
        "fsdp-crossover",
        "A GPU computes at {{rate:tflops}} and sends at {{bandwidth:gbps}}. With FSDP in 16 bits on many GPUs, at how "
        "many tokens per GPU do both take the same time?",
        "tokens",
        {"rate": RATE, "bandwidth": 50 * GB},
        pick(rate=(300 * TFLOP, RATE, 500 * TFLOP), bandwidth=(25 * GB, 50 * GB, 100 * GB, 450 * GB)),
    ),
    _drill(
        "gathers-a-step",
        "FSDP has {{units}} units and {{micro}} micro-batches per step, and frees weights after each forward pass. "
        "How many all-gathers does a step have?",
        "all-gathers",
        {"units": 80, "micro": 4},
        pick(units=(24, 32, 80, 126), micro=(4, 6, 8)),
    ),
    _drill(
        "replica-norm",
        "HSDP has {{copies}} groups, and the squares of gradients are added up over **all** ranks. By which factor is "
        "the norm too large?",
        "a plain factor",
        {"copies": 4},
        pick(copies=(4, 9, 16, 64)),
    ),
)
