"""The job that runs through the whole course, 70B on 64 H100s, and the plan that is made for it: the one record of
both.

Chapters 00 to 08 count a round `PARAMS`, because sums on paper do. From 09 on the plan cuts the matrices of `MODEL`,
and its state is counted from `EXACT`. Before chapter 05, state is that of convention B (16 bytes per parameter); 05
decides for `CONVENTION`, and every later chapter keeps it.
"""

from typing import TypedDict

from course_lib.estimate import facts
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.memory.recipes import convention
from course_lib.estimate.units import BILLION, DAY, TRILLION, US


class Cut(TypedDict):
    """Degrees of a layout."""

    tp: int
    pp: int
    dp: int
    zero: int


class Planned(Cut):
    """And what a replica does in a step."""

    microbatches: int


class Sharded(TypedDict):
    """A plan of data parallelism alone."""

    dp: int
    zero: int
    microbatches: int
    recompute: str


MODEL, DEVICE = "llama3-70b", "H100 SXM"
PARAMS = 70 * BILLION  # the round number of the name
EXACT = int(facts.model(MODEL).params)
TOKENS = 15 * TRILLION  # what a Llama 3 of its size was trained on
GPUS = 64
SEQ = 8192  # tokens of one sequence
BATCH = 4 * 2**20  # tokens of a step over all ranks: a choice, and where runs of this size begin
SEQUENCES = BATCH // SEQ
NETWORK = (10 * US, float(facts.device(DEVICE).network_one_way))  # s a message, and bytes/s of an adapter
RING = float(measured.one("H100 nodes", nodes=GPUS // 8).bus_bandwidth)  # bytes/s of a ring through all GPUs, measured
MFU = 0.4  # published runs of this kind lie about there
DEADLINE = 90 * DAY  # a choice
CONVENTION = "C"  # bf16 weights, gradients summed in fp32, fp32 master copy and moments
STATE_BYTES = convention(CONVENTION).bytes_per_param
GRADIENT_BYTES = convention(CONVENTION).grads  # of a gradient, also while it is reduced
CHECKPOINT_BYTES = convention(
    CONVENTION
).checkpoint  # of a parameter that a checkpoint keeps: master copy and moments (02)
LAYOUT = Cut(tp=8, pp=4, dp=2, zero=1)  # tensor parallel inside a server, four stages, two replicas
LAYOUT_TEXT = f"tp {LAYOUT['tp']} × pp {LAYOUT['pp']} × dp {LAYOUT['dp']}"
MICROBATCHES = SEQUENCES // LAYOUT["dp"]  # of a replica, one sequence each
PLAN: Planned = {**LAYOUT, "microbatches": MICROBATCHES}
SHARDED: Sharded = {  # the plan's rival: the same GPUs with full sharding alone
    "dp": GPUS,
    "zero": 3,
    "microbatches": SEQUENCES // GPUS,
    "recompute": "full",
}
