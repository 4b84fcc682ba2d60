"""The numbers in chapter 13's prose, as text: computed from facts, meshes and plans."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

from course_chapters.ch13.hidden import bounds
from course_chapters.running_example import BATCH, DEADLINE, GPUS, MFU, SEQ, TOKENS, opening, reading
from course_lib.estimate import facts, memory, roofline
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.memory import Layout
from course_lib.estimate.running_plan import LAYOUT, MICROBATCHES, SEQUENCES, SHARDED
from course_lib.estimate.running_plan import MODEL as PLAN
from course_lib.estimate.units import DAY, GB, bytes_text, duration_text, number_text, percent_text, rate_text
from course_lib.messages import count_text
from course_lib.parallel import planner
from course_lib.parallel.mesh import Mesh, axis_seconds, network
from course_lib.parallel.mesh.plans import Plan, plan
from course_lib.parallel.planner.bubbles import idle
from course_lib.parallel.planner.traffic import WIDTH
from course_lib.parallel.sharding.groups import Group, Wires, group_of, knee

H100 = facts.device("H100 SXM")
LLAMA_RUNS = tuple(
    facts.run(f"Llama 3 405B, {name}")
    for name in ("8,192 GPUs, 8,192 tokens", "16,384 GPUs, 8,192 tokens", "16,384 GPUs, 131,072 tokens")
)
LONG = LLAMA_RUNS[-1]
LARGE = facts.model("llama3-405b")
SWAPPED = {"dp": 8, "tp": 8}  # the mesh whose axes are swapped in the placement section
WIDE_TP = 16  # ranks of a tensor-parallel group over two servers
MEASURED = measured.series("H100 nodes")[-1]
GRADIENT = planner.Software().grad_bytes
REGIME_DAYS, REGIME_STEP = 60, 10  # budgets with which the cube opens: days of a run, seconds of a step
SMALL_GPUS, MANY_GPUS = 8, 128  # of the explorer's presets
_PRESETS = ("7b", 7e9, 1), ("7b_fsdp", 7e9, SMALL_GPUS), ("128", LARGE.params, MANY_GPUS)  # parameters, GPUs


@cache
def planned() -> Plan:
    """The plan's row: tensor parallel inside servers, four stages, two replicas."""
    tp, pp, zero = LAYOUT["tp"], LAYOUT["pp"], LAYOUT["zero"]
    return plan(PLAN, GPUS, tp=tp, pp=pp, zero=zero, sequences=SEQUENCES, seq=SEQ)


@cache
def only_sharded() -> Plan:
    """The same GPUs with full sharding alone, everything recomputed so that it fits."""
    return plan(PLAN, GPUS, zero=SHARDED["zero"], recompute=SHARDED["recompute"], sequences=SEQUENCES, seq=SEQ)


def _plan_moving() -> float:
    """Seconds in which the plan's bytes along `tp` pass NVLink at the rate that it sustains."""
    return planned().sent["tp"] / planned().cluster.inside.bandwidth


def regathered() -> float:
    """Bytes that a rank of the plan sends along `tp` in a step if the backward pass gathers its inputs again."""
    job = planned().job
    again = replace(job, software=replace(job.software, regather=True))
    return float(planner.traffic(again, planned().layout)["tp"])


def swapped_bytes() -> dict[str, float]:
    """Bytes that a rank of that mesh sends in a step of the plan's model, by axis, all of them in 16 bits."""
    job = planner.Job(model=PLAN, seq=SEQ, sequences=SEQUENCES, software=planner.TAUGHT)
    sent = planner.traffic(job, Layout(dp=SWAPPED["dp"], tp=SWAPPED["tp"], sp=True), gradient=2)
    return {axis: float(nbytes) for axis, nbytes in sent.items()}


def swapped(order: str) -> dict[str, float]:
    """Seconds by axis of a step of the plan's model on dp 8 × tp 8, the last axis of `order` inside servers."""
    mesh = Mesh({axis: SWAPPED[axis] for axis in order.split()})
    sent = swapped_bytes()
    return {axis: axis_seconds(mesh, axis, sent[axis], network(H100.name)) for axis in SWAPPED}


@cache
def hsdp_groups(model: str = "llama3-405b", gpus: int = 16_384) -> tuple[Group, ...]:
    """Groups of 8 to all GPUs that share one model's state; the batch is Llama 3's."""
    params = float(facts.model(model).params)
    tokens = float(LLAMA_RUNS[1].batch_tokens) / gpus
    wires = Wires(per_node=8, fast=float(H100.link_one_way), slow=float(H100.network_one_way))
    rate = float(H100.matmul_flops)
    sizes = [2**power for power in range(3, 1 + int(math.log2(gpus)), 2)]
    return tuple(group_of(params, gpus, size, tokens, rate, wires) for size in sizes)


def hsdp_rows(model: str, gpus: int) -> list[dict[str, str]]:
    groups = hsdp_groups(model, gpus)
    best = knee(groups, 0.9 * float(H100.memory))
    return [
        {
            "GPUs that share a copy": f"{each.ranks:,}",
            "state of a GPU": bytes_text(each.state),
            "sent between servers": bytes_text(each.far),
            "exposed": duration_text(each.exposed),
            "step": duration_text(each.seconds) + (" (best that fits)" if each is best else ""),
        }
        for each in groups
    ]


def _least_hsdp() -> Group:
    """The smallest group of the table whose state fits."""
    return next(each for each in hsdp_groups() if each.state <= float(H100.memory))


def _state(params: float, convention: str, gpus: int = 1) -> str:
    return bytes_text(memory.zero_bytes(float(params), 3, gpus, convention))


def _smallest_power(convention: str) -> str:
    whole = memory.zero_bytes(float(LARGE.params), 3, 1, convention)
    return str(2 ** math.ceil(math.log2(whole / float(H100.memory))))


def _reach(wire: str) -> float:
    """FLOPs that an H100 computes, at its best measured rate, while one byte crosses its link or its adapter."""
    return float(H100.matmul_flops) / float(H100.link_one_way if wire == "link" else H100.network_one_way)


_BOUND = {
    **dict.fromkeys(("data", "sharded", "context"), lambda bound: f"{math.ceil(bound):,} tokens"),
    "tensor": lambda bound: count_text(math.floor(bound), "rank"),
    "pipeline": lambda bound: count_text(math.floor(bound), "stage"),
    "expert": lambda bound: f"width {math.ceil(bound):,}",
}


def hidden(axis: str, wire: str) -> str:
    """The bound of an axis for the plan's model over "link" or "network", as the table of inequalities prints it."""
    return _BOUND[axis](bounds(facts.model(PLAN), _reach(wire))[axis])


def _gb(nbytes: float) -> str:
    return f"{number_text(nbytes / GB)} GB/s"


def _film_inside() -> str:
    """Bytes across the borders of servers in the recorded step with tp inside them."""
    from course_chapters.ch13.mesh_film import record  # loads torch

    return bytes_text(record().run.meter.levels["network"][0])


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("13"),
    "gpus": lambda: str(GPUS),
    "film_inside": _film_inside,
    "days": lambda: f"{DEADLINE / DAY:g} days",
    "tokens": lambda: f"{TOKENS / 1e12:g} T tokens",
    "batch": lambda: f"{BATCH / 2**20:g} Mi tokens",
    "sequences": lambda: str(SEQUENCES),
    "card": lambda: H100.memory.text,
    "most_gpus": lambda: f"{SEQUENCES} GPUs",
    "gpus_text": lambda: f"{GPUS} GPUs",
    "eight": lambda: f"{SMALL_GPUS} GPUs",
    "many": lambda: f"{MANY_GPUS} GPUs",
    "twelve": lambda: f"{memory.convention('A').bytes_per_param:g} bytes",
    "sixteen": lambda: f"{memory.convention('B').bytes_per_param:g} bytes",
    # wires
    "rack_gpus": lambda: f"{roofline.levels('GB200 NVL72 rack')[-1].devices} GPUs",
    "one_gb": lambda: bytes_text(GB),
    "first_alone": lambda: duration_text(2 * GB / float(H100.network_one_way)),
    "second_alone": lambda: duration_text(GB / float(H100.network_one_way)),
    "swap_mesh": lambda: " × ".join(f"{axis} {size}" for axis, size in SWAPPED.items()),
    "link": lambda: _gb(float(H100.link_one_way)),
    "brochure": lambda: _gb(float(H100.link_both_ways)),
    "adapter": lambda: _gb(float(H100.network_one_way)),
    "drop": lambda: number_text(float(H100.link_one_way) / float(H100.network_one_way)),
    "printed_drop": lambda: number_text(float(H100.link_both_ways) / float(H100.network_one_way)),
    "server_adapters": lambda: _gb(8 * float(H100.network_one_way)),
    # placement
    "right_seconds": lambda: duration_text(sum(swapped("dp tp").values())),
    "wrong_seconds": lambda: duration_text(sum(swapped("tp dp").values())),
    "wrong_times": lambda: number_text(sum(swapped("tp dp").values()) / sum(swapped("dp tp").values()), 2),
    "tp_sent": lambda: bytes_text(swapped_bytes()["tp"]),
    "dp_sent": lambda: bytes_text(swapped_bytes()["dp"]),
    "wide_tp": lambda: duration_text(axis_seconds(Mesh({"tp": WIDE_TP}), "tp", GB, network(H100.name))),
    "thin_tp": lambda: duration_text(axis_seconds(Mesh({"tp": 2, "dp": 8}), "tp", GB, network(H100.name))),
    # Llama 3's recipe
    "llama_gpus": lambda: f"{LONG.devices:,.0f}",
    **{f"llama_{axis}": partial("{:g}".format, getattr(LONG, axis)) for axis in ("dp", "cp", "pp", "tp")},
    "llama_sequences": lambda: f"{LONG.batch_tokens / LONG.seq_len:g}",
    "llama_each": lambda: f"{LONG.batch_tokens / LONG.seq_len / LONG.dp:g}",
    "small_group": lambda: _state(LARGE.params, "B", SMALL_GPUS),
    "small_group_12": lambda: _state(LARGE.params, "A", SMALL_GPUS),
    "least_group": lambda: _smallest_power("B"),
    "least_group_12": lambda: _smallest_power("A"),
    "hsdp_step": lambda: duration_text(_least_hsdp().seconds),
    "hsdp_computing": lambda: duration_text(_least_hsdp().computing),
    "hsdp_rate": lambda: rate_text(float(H100.matmul_flops)),
    "hsdp_tokens": lambda: f"{LLAMA_RUNS[1].batch_tokens / LLAMA_RUNS[1].devices:,.0f} tokens",
    "hsdp_measured": lambda: _gb(float(MEASURED.bus_bandwidth)),
    "hsdp_measured_gpus": lambda: f"{MEASURED.ranks} GPUs",
    "hsdp_measured_seconds": lambda: duration_text(_least_hsdp().inside / float(MEASURED.bus_bandwidth)),
    # presets
    **{
        f"preset_{name}{tail}": partial(_state, params, convention, gpus)
        for name, params, gpus in _PRESETS
        for tail, convention in (("", "A"), ("_16", "B"))
    },
    "regime_days": lambda: f"{REGIME_DAYS} days",
    "regime_mfu": lambda: percent_text(MFU),
    "regime_step": lambda: duration_text(REGIME_STEP),
    **{f"reach_{wire}": partial("{:,.0f} FLOPs".format, _reach(wire)) for wire in ("link", "network")},
    **{f"hide_{axis}_{wire}": partial(hidden, axis, wire) for axis in _BOUND for wire in ("link", "network")},
    # the plan
    "plan_step": lambda: duration_text(planned().seconds),
    "plan_mfu": lambda: percent_text(planned().mfu),
    "plan_attention_mfu": lambda: percent_text(planned().attention_mfu),
    "plan_degrees": lambda: ", ".join(f"{axis} = {getattr(planned().layout, axis)}" for axis in ("tp", "pp", "dp")),
    "plan_layers": lambda: count_text(int(memory.shape(PLAN).layers // planned().layout.pp), "layer"),
    "plan_each": lambda: f"{planned().microbatches} sequences",
    "plan_message": lambda: bytes_text(float(WIDTH * planned().job.seq * memory.shape(PLAN).hidden)),  # one sequence
    "plan_tp_again": lambda: bytes_text(regathered()),
    "plan_tp_sent": lambda: bytes_text(planned().sent["tp"]),
    "plan_tp_rate": lambda: _gb(planned().cluster.inside.bandwidth),
    "plan_tp_moving": lambda: duration_text(_plan_moving()),
    "plan_tp_latency": lambda: duration_text(planned().talking["tp"] - _plan_moving()),
    "plan_tp_seconds": lambda: duration_text(planned().talking["tp"]),
    "plan_dp_sent": lambda: bytes_text(planned().sent["dp"]),
    "plan_gradients": lambda: bytes_text(planned().sent["dp"] * GRADIENT / (WIDTH + GRADIENT)),
    "plan_dp_seconds": lambda: duration_text(planned().talking["dp"]),
    "plan_tp": lambda: percent_text(planned().parts["tp"] / planned().seconds),
    "plan_bubble": lambda: percent_text(planned().parts["bubble"] / planned().seconds),
    "equal_idle": lambda: percent_text(idle(LAYOUT["pp"], MICROBATCHES)),
    "plan_run": lambda: f"{TOKENS / planned().tokens * planned().seconds / DAY:,.0f} days",
    "fsdp_again": lambda: percent_text(only_sharded().parts["recompute"] / only_sharded().seconds),
    "fsdp_step": lambda: duration_text(only_sharded().seconds),
    "reading": lambda: reading("llama3-2024", "megatron-2021", "fsdp-2023", "scaling-book"),
}
