"""Texts of the numbers in chapter 00's prose, each computed from facts: the running example and its three small
cases."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from course_chapters.running_example import (
    DEADLINE,
    GPUS,
    MFU,
    PARAMS,
    TOKENS,
    core_minutes,
    reading_minutes,
    whole_hours,
)
from course_lib.cluster import collectives
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import (
    BILLION,
    DAY,
    GB,
    HOUR,
    TB,
    Quantity,
    bytes_text,
    duration_text,
    money_text,
    number_text,
    percent_text,
)

H100 = facts.device("H100 SXM")
LABELED = (
    "Transformer (big)",
    "BERT large",
    "Megatron-LM 8.3B",
    "PaLM 540B",
    "LLaMA 65B",
    "DeepSeek-V3",
    "Llama 3.1 405B",
)

CHECKPOINT_PARAMS = 35 * BILLION  # first small case: how many bytes does a parameter take when it is loaded?
SEQUENCES, ACCUMULATE, SEQ = 4, 8, 4096  # second: "a batch of four", per what?
STEP_TOKENS = GPUS * SEQ  # third: one sequence per GPU and step


def step_flops_seconds() -> float:
    """Seconds that 64 GPUs compute in one step of the third case."""
    return compute.train_seconds(PARAMS, STEP_TOKENS, H100.dense_flops, MFU, GPUS)


def ring_seconds(wire: float) -> float:
    """Seconds that a ring all-reduce of all 16-bit gradients takes at `wire` bytes/s one way; latency left out."""
    return collectives.ring_cost(memory.weights_bytes(PARAMS, "bf16"), GPUS, 0.0, wire).seconds


def idle_fraction(wire: float) -> float:
    """Share of the step in which no GPU computes, if the all-reduce starts after the backward pass."""
    return ring_seconds(wire) / (ring_seconds(wire) + step_flops_seconds())


# What happened, the chapter to open first, and what to look for there.
ROUTES: Mapping[str, tuple[int, str]] = {
    "A model that fits for inference runs out of memory at its first optimizer step.": (
        2,
        "what the optimizer adds to the weights",
    ),
    "Sixty-four GPUs each hold the same optimizer state, and they run out of memory.": (
        8,
        "which rank needs to hold what, and when",
    ),
    "The loss became NaN when the weights were changed from 32 bits to 16.": (5, "how few bits are enough"),
    "A model is split between its layers, and its stages are idle at the start and end of every step.": (
        10,
        "the idle time of a pipeline while it fills and drains",
    ),
    "All eight ranks hang in their first exchange, without an error.": (6, "ranks that wait for each other in a cycle"),
    "A GPU failed at night, and the run started again from step 0.": (
        14,
        "what survives a failure, and what a checkpoint costs",
    ),
}


class Line(NamedTuple):
    """A line of an estimate: its text, the value of its left side, and the value that it claims."""

    text: str
    comes_to: Callable[[], Quantity | float]  # raises ValueError if the left side adds unlike units
    claims: Quantity

    @property
    def fault(self) -> str:
        """The error in the line; "" if there is none."""
        try:
            right = self.comes_to()
        except ValueError as error:
            return str(error).split(". ")[0]
        assert isinstance(right, Quantity)
        if right.dimension != self.claims.dimension:
            return f"The left side is {right!r}, which is not {self.claims!r}"
        off = (right - self.claims).base
        return "" if abs(off) <= 0.005 * abs(right.base) else f"The left side is {right.to(self.claims.unit)!r}"


def estimate() -> tuple[Line, ...]:
    """Seven lines about the running example; four of them lose a unit."""
    q, rate, wire = Quantity, memory.bytes_per_param("B"), H100.network_one_way * 8 / 1e9
    share, card = memory.zero_bytes(PARAMS, 3, GPUS, "B") / GB, H100.memory / GB
    weights, month = memory.weights_bytes(PARAMS, "bf16") / GB, 30 * DAY / HOUR
    state, price = PARAMS * rate / TB, float(facts.price("H100 hour"))
    per_rank = SEQUENCES * SEQ
    return (
        Line(
            f"{rate:.0f} bytes per parameter × {number_text(PARAMS)} parameters = {state:.3g} TB",
            lambda: q(rate, "bytes", "param") * q(PARAMS, "params"),
            q(state, "TB"),
        ),
        Line(
            f"{weights:.0f} GB through an adapter of {wire:.0f} Gb/s = {weights / wire:.2g} s",
            lambda: q(weights, "GB") / q(wire, "Gbit/s"),
            q(weights / wire, "s"),
        ),
        Line(
            f"{share:.3g} GB of state per rank + {card / 4:.0f} GB of activations per sequence = "
            f"{share + card / 4:.3g} GB",
            lambda: q(share, "GB", "rank") + q(card / 4, "GB", "sequence"),
            q(share + card / 4, "GB"),
        ),
        Line(
            f"{GPUS} ranks × {share:.3g} GB per rank = {GPUS * share / 1e3:.3g} TB",
            lambda: q(GPUS, "ranks") * q(share, "GB", "rank"),
            q(GPUS * share / 1e3, "TB"),
        ),
        Line(
            f"{SEQUENCES} sequences per rank × {SEQ:,} tokens per sequence = {per_rank:,} tokens per step",
            lambda: q(SEQUENCES, "sequences", "rank") * q(SEQ, "tokens", "sequence"),
            q(per_rank, "tokens", "step"),
        ),
        Line(
            f"{card:.0f} GiB, as the tool prints a GPU's memory = {card:.0f} GB", lambda: q(card, "GiB"), q(card, "GB")
        ),
        Line(
            f"{GPUS} GPUs × {money_text(price)} per GPU and hour × {month:.0f} hours = "
            f"{money_text(GPUS * price * month)}",
            lambda: q(GPUS, "GPUs") * q(price, "USD", ("GPU", "hour")) * q(month, "hours"),
            q(GPUS * price * month, "USD"),
        ),
    )


def _cost() -> float:
    hours = compute.train_seconds(PARAMS, TOKENS, H100.dense_flops, MFU) / HOUR
    return compute.cost_usd(hours, facts.price("H100 hour"))


NUMBERS: Mapping[str, Callable[[], str]] = {
    "link_tokens": lambda: f"{SEQ:,} tokens",
    "core_minutes": lambda: core_minutes("00"),
    "reading_minutes": lambda: reading_minutes("00"),
    "whole_hours": lambda: whole_hours("00"),
    "params": lambda: number_text(PARAMS),
    "tokens": lambda: number_text(TOKENS),
    "gpus": lambda: str(GPUS),
    "mfu": lambda: percent_text(MFU),
    "card": lambda: H100.memory.text,
    "state": lambda: bytes_text(memory.state_bytes(PARAMS, "B")),
    "per_param": lambda: f"{memory.bytes_per_param('B'):.0f}",
    "cards": lambda: str(memory.fewest_devices(memory.state_bytes(PARAMS, "B"), H100.memory)),
    "cluster": lambda: bytes_text(GPUS * H100.memory),
    "share": lambda: bytes_text(memory.zero_bytes(PARAMS, 3, GPUS, "B")),
    "alone": lambda: duration_text(compute.train_seconds(PARAMS, TOKENS, H100.dense_flops, MFU)),
    "together": lambda: duration_text(compute.train_seconds(PARAMS, TOKENS, H100.dense_flops, MFU, GPUS)),
    "deadline": lambda: duration_text(DEADLINE),
    "checkpoint": lambda: number_text(CHECKPOINT_PARAMS),
    "checkpoint16": lambda: bytes_text(memory.weights_bytes(CHECKPOINT_PARAMS, "bf16")),
    "checkpoint32": lambda: bytes_text(memory.weights_bytes(CHECKPOINT_PARAMS, "fp32")),
    "batch_factor": lambda: number_text(GPUS * ACCUMULATE),
    "fast_wire": lambda: f"{number_text(H100.link_one_way / 1e9)} GB/s",
    "slow_wire": lambda: f"{number_text(H100.network_one_way / 1e9)} GB/s",
    "wire_factor": lambda: number_text(H100.link_one_way / H100.network_one_way),
    "idle_fast": lambda: percent_text(idle_fraction(H100.link_one_way), 2),
    "idle_slow": lambda: percent_text(idle_fraction(H100.network_one_way), 2),
    "first_gpus": lambda: number_text(facts.run("Transformer (big)").devices),
    "growth": lambda: f"{facts.run('Llama 3.1 405B').devices / facts.run('Transformer (big)').devices:,.0f}",
    "late_gpus": lambda: f"{facts.run('Llama 3.1 405B').devices:,.0f}",
}
