"""The numbers in chapter 09's prose, as text: computed from facts and from the costs of tensor parallelism."""

from collections.abc import Callable, Mapping
from functools import partial

from course_chapters.running_example import EXACT, PARAMS, SEQ, lab, opening
from course_lib.cluster import collectives
from course_lib.estimate import facts, memory
from course_lib.estimate.running_plan import LAYOUT, MODEL, STATE_BYTES
from course_lib.estimate.units import BILLION, MINUTE, US, bytes_text, duration_text, number_text, percent_text
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer, tp_cost_per_layer

H100 = facts.device("H100 SXM")
SHAPE = facts.model(MODEL)
LLAMA = facts.run("Llama 3 405B, 16,384 GPUs, 8,192 tokens")
TP = LAYOUT["tp"]  # ranks of one server
INSIDE = 2 * US, float(H100.link_one_way)  # a round latency, a real rate
ACROSS = 10 * US, float(H100.network_one_way)
STATE = EXACT * STATE_BYTES  # of the plan's model, in all
WIDE = memory.dtype_bytes("fp32")  # of a logit
LAB_GPUS, LAB_SECONDS = 8, 15 * MINUTE  # what it takes to measure this chapter on one server


def sums_seconds(latency: float, bandwidth: float, ranks: int = TP) -> float:
    """Seconds of all layers' all-reduces for one sequence of the plan's model, forward and backward."""
    return SHAPE.layers * tp_cost_per_layer(SEQ, SHAPE.hidden, ranks, latency, bandwidth).seconds


def ratio(bandwidth: float, ranks: int = TP) -> float:
    """Time of a layer's all-reduces over that of its products, with 12 h² weights, at the dense peak, without
    latency."""
    return float(2 / 9 * (ranks - 1) * H100.dense_flops / (SHAPE.hidden * bandwidth))


def _share(wire: str) -> str:
    from course_chapters.ch09.widgets import layer  # not at import: cards import this module, and it draws

    return percent_text(layer(SHAPE.name, TP, SEQ, H100.name, wire).share, 2)


def _layer_seconds(wire: str, ranks: int) -> str:
    from course_chapters.ch09.widgets import layer

    return duration_text(layer(SHAPE.name, ranks, SEQ, H100.name, wire).seconds)


def _kept(sp: bool, gathered: int = 0) -> str:
    """Bytes of a sequence that one rank keeps of one layer of the plan's model, with so many inputs gathered."""
    own = memory.layer_bytes(SHAPE, 1, SEQ, memory.Layout(tp=TP, sp=sp), kernels="flash", dropout=False)
    others = collectives.ring_half_cost(2 * SEQ * SHAPE.hidden, TP, 0.0, 1.0).nbytes
    return bytes_text(own + gathered * others)


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("09"),
    "card": lambda: H100.memory.text,
    "seq": lambda: f"{SEQ:,} tokens",
    "tp": lambda: str(TP),
    "hidden": lambda: f"{SHAPE.hidden:,}",
    "vocab": lambda: f"{SHAPE.vocab:,}",
    "acts": lambda: bytes_text(memory.activation_bytes(SHAPE, 1, SEQ, kernels="flash", dropout=False)),
    # the run of the opening question
    "l3_gpus": lambda: f"{LLAMA.devices:,.0f} H100s",
    "l3_batch": lambda: f"{LLAMA.batch_tokens.text}",
    "l3_seq": lambda: f"{LLAMA.seq_len:,.0f}",
    "l3_sequences": lambda: f"{LLAMA.batch_tokens / LLAMA.seq_len:,.0f}",
    "l3_per": lambda: number_text(LLAMA.devices * LLAMA.seq_len / LLAMA.batch_tokens),
    "l3_tp": lambda: f"{LLAMA.tp:.0f}",
    # the wires
    "fb_nvlink": lambda: f"{H100.dense_flops / H100.link_one_way:,.0f}",
    "fb_adapter": lambda: f"{H100.dense_flops / H100.network_one_way:,.0f}",
    "ratio_nvlink": lambda: number_text(ratio(INSIDE[1]), 2),
    "ratio_adapter": lambda: number_text(ratio(ACROSS[1]), 2),
    "share_nvlink": lambda: _share("NVLink"),
    **{
        f"{wire.lower()}_{ranks}": partial(_layer_seconds, wire, ranks)
        for wire in ("NVLink", "adapter")
        for ranks in (2, TP)
    },
    # sequence parallelism, and the vocabulary
    "layer_tp": lambda: _kept(False),
    "layer_sp": lambda: _kept(True),
    "layer_gathered": lambda: _kept(True, gathered=2),
    "sent_tp": lambda: bytes_text(tp_bytes_per_layer(SEQ, SHAPE.hidden, TP)),
    "sent_sp": lambda: bytes_text(tp_bytes_per_layer(SEQ, SHAPE.hidden, TP, sequence_parallel=True)),
    "loss_bytes": lambda: bytes_text(collectives.ring_cost(3 * SEQ * WIDE, TP, 0.0, 1.0).nbytes),
    "logit_bytes": lambda: bytes_text(collectives.ring_half_cost(SEQ * SHAPE.vocab * WIDE, TP, 0.0, 1.0).nbytes),
    "exact": lambda: f"{EXACT / BILLION:.2f} billion",
    "round": lambda: f"{PARAMS / BILLION:g} billion",
    "state_tp": lambda: bytes_text(STATE / TP),
    # a lab on rented GPUs
    **lab(LAB_GPUS, LAB_SECONDS),
}
