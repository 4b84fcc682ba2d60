"""Texts of the numbers in chapter 12's prose, each computed from shapes, routing and recorded trainings."""

from collections.abc import Callable, Mapping

from course_chapters.ch12.published_experts import recorded, steps
from course_chapters.running_example import GPUS, MFU, SEQ, opening
from course_lib.estimate import facts
from course_lib.estimate.running_plan import STATE_BYTES
from course_lib.estimate.units import bytes_text, count_text, number_text, percent_text
from course_lib.parallel.expert import costs
from course_lib.parallel.expert.costs import MoEShape

H100 = facts.device("H100 SXM")
DENSE, MIXTRAL, DEEPSEEK = (facts.model(name) for name in ("llama3-70b", "mixtral-8x7b", "deepseek-v3"))
STATE = STATE_BYTES  # of training state per parameter, as the plan has it since chapter 05
FEW_TOKENS, MANY_TOKENS = 64, 4096  # that share one capacity
NODE_LIMIT, NODES = 4, 8  # of DeepSeek-V3: at most 4 of its 8 nodes of an expert-parallel group
PLAN_CHOICES: Mapping[str, MoEShape | None] = {  # each MLP of the dense model as a mixture with the same FLOPs
    "dense": None,
    "4 experts of half the width, 2 per token": MoEShape(hidden=DENSE.hidden, ffn=DENSE.ffn // 2, experts=4, top_k=2),
    "8 experts of half the width, 2 per token": MoEShape(hidden=DENSE.hidden, ffn=DENSE.ffn // 2, experts=8, top_k=2),
    "64 experts of 1/8 the width, 8 per token": MoEShape(hidden=DENSE.hidden, ffn=DENSE.ffn // 8, experts=64, top_k=8),
}


def _mlp() -> int:
    return 3 * DENSE.hidden * DENSE.ffn


def total_parameters(shape: MoEShape | None) -> int:
    """Parameters of the plan's model with this mixture in every layer."""
    return DENSE.params + (0 if shape is None else DENSE.layers * (shape.total - _mlp()))


def active_parameters(shape: MoEShape | None) -> int:
    """Parameters that a token meets."""
    return DENSE.params + (0 if shape is None else DENSE.layers * (shape.active - _mlp()))


def _state(choice: str) -> str:
    return bytes_text(STATE * total_parameters(PLAN_CHOICES[choice]) / GPUS)


def wire_width(bandwidth: float) -> float:
    """The inner width at which a copy's matmuls take as long as sending it there and back: 4·η·F / (6·β)."""
    return 4 * MFU * float(H100.dense_flops) / (6 * bandwidth)


def _final(name: str) -> str:
    return f"{recorded(name).final:.3f}"


def film_crossed() -> str:
    """Rows that go to other ranks in the recorded dispatch."""
    from course_chapters.ch12.moe_run import record  # loads torch

    return count_text(sum(map(sum, record().rows[0])), "row")


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("12"),
    # published shapes
    "deepseek_total": lambda: number_text(DEEPSEEK.params),
    "deepseek_active": lambda: number_text(DEEPSEEK.active_params),
    "deepseek_experts": lambda: str(DEEPSEEK.experts),
    "deepseek_k": lambda: str(DEEPSEEK.top_k),
    "mixtral_total": lambda: number_text(MIXTRAL.params),
    "mixtral_active": lambda: number_text(MIXTRAL.active_params),
    # capacity
    "few_tokens": lambda: f"{FEW_TOKENS}",
    "many_tokens": lambda: f"{MANY_TOKENS:,}",
    "drop_64": lambda: percent_text(costs.drop_share(FEW_TOKENS, 64, 2, 1.0), 2),
    "drop_4096": lambda: percent_text(costs.drop_share(MANY_TOKENS, 64, 2, 1.0), 2),
    "film_crossed": film_crossed,
    # bytes
    "token_bytes": lambda: bytes_text(2 * DEEPSEEK.hidden * DEEPSEEK.top_k),
    "layer_gb": lambda: bytes_text(4 * costs.even_bytes(SEQ, DEEPSEEK.hidden, DEEPSEEK.top_k, 64)),
    "seq": lambda: f"{SEQ:,}",
    "width_link": lambda: f"{round(wire_width(float(H100.link_one_way)), -1):,.0f}",
    "width_network": lambda: f"{round(wire_width(float(H100.network_one_way)), -2):,.0f}",
    "mfu": lambda: percent_text(MFU),
    "slower": lambda: number_text(float(H100.link_one_way) / float(H100.network_one_way), 2),
    "nodes_mean": lambda: number_text(costs.expected_nodes(DEEPSEEK.top_k, NODES, DEEPSEEK.experts), 3),
    "node_limit": lambda: str(NODE_LIMIT),
    "nodes": lambda: str(NODES),
    # recorded trainings
    "steps": lambda: str(steps()),
    "loss_dense": lambda: _final("dense, same FLOPs"),
    "loss_large": lambda: _final("dense, same parameters"),
    "loss_none": lambda: _final("no balancing"),
    "loss_balance": lambda: _final("balance loss"),
    "loss_bias": lambda: _final("bias"),
    "loss_capacity": lambda: _final("capacity 1, no balancing"),
    "loss_capacity_balance": lambda: _final("capacity 1, balance loss"),
    "dropped_none": lambda: percent_text(recorded("capacity 1, no balancing").dropped, 2),
    "dropped_balance": lambda: percent_text(recorded("capacity 1, balance loss").dropped, 2),
    "busiest_none": lambda: number_text(recorded("no balancing").settled, 2),
    "busiest_balance": lambda: number_text(recorded("balance loss").settled, 2),
    "busiest_bias": lambda: number_text(recorded("bias").settled, 2),
    # the plan
    "plan_dense": lambda: _state("dense"),
    "plan_four": lambda: _state("4 experts of half the width, 2 per token"),
    "plan_eight": lambda: _state("8 experts of half the width, 2 per token"),
    "plan_params": lambda: number_text(total_parameters(PLAN_CHOICES["4 experts of half the width, 2 per token"])),
    "card": lambda: bytes_text(float(H100.memory)),
}
