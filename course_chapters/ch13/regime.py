"""What binds a training run: how often its memory, compute and communication budgets are exceeded. No torch.

Each load is a ratio; 1 means that the budget is just used up. The plainest layout is assumed, data parallelism without
sharding, because the loads say which strategy a run needs.
"""

from dataclasses import dataclass

from course_lib.cluster.collectives import ranks_per_server, ring_cost, ring_rate
from course_lib.estimate import compute, memory
from course_lib.estimate.units import require, require_whole

AXES = ("memory", "compute", "bandwidth")
CONVENTION, GRADIENT_BYTES = "B", 2  # of the state; of one gradient as it is sent
ASSUMES = (
    f"{memory.bytes_per_param(CONVENTION):g} bytes of state per parameter; a ring of {8 * GRADIENT_BYTES}-bit "
    "gradients through full servers, over all of their adapters"
)


@dataclass(frozen=True, slots=True)
class Regime:
    """Loads of one run on its three budgets."""

    memory: float  # bytes of training state / memory of one device: how many devices must share the state
    compute: float  # seconds of the run on all devices / deadline
    bandwidth: float  # seconds of one all-reduce of all gradients / target time of a step

    @property
    def loads(self) -> tuple[float, float, float]:
        """In the order of `AXES`."""
        return self.memory, self.compute, self.bandwidth

    @property
    def binding(self) -> str:
        """The axis with the largest load; "none" if no budget is exceeded."""
        largest = max(self.loads)
        return AXES[self.loads.index(largest)] if largest > 1 else "none"


def regime(
    params: float,
    tokens: float,
    *,
    devices: int,
    device_memory: float,
    flops_per_s: float,
    link: float,
    adapter: float,
    deadline_s: float,
    target_step_s: float,
    per_server: int = 8,
    mfu: float = 0.4,
    convention: str = CONVENTION,
) -> Regime:
    """The loads of training `params` parameters on `tokens` tokens with `devices` devices in servers of `per_server`.

    `device_memory` in bytes, `flops_per_s` the dense peak of one device, its `link` and `adapter` in bytes/s one way.
    The ring of gradients leaves a server over all of its adapters (`collectives.ring_rate`), at the data sheet's rate.
    """
    require_whole("devices", devices)
    for name, value, unit in (
        ("device_memory", device_memory, "bytes"),
        ("link", link, "bytes/s"),
        ("adapter", adapter, "bytes/s"),
        ("deadline_s", deadline_s, "s"),
        ("target_step_s", target_step_s, "s"),
    ):
        require(name, value, unit)
    near = devices if devices <= per_server else ranks_per_server(devices, 1, per_server)
    rate = float(ring_rate(devices, near, link, adapter))
    sending = ring_cost(GRADIENT_BYTES * params, devices, 0.0, rate).seconds
    return Regime(
        memory=float(memory.state_bytes(params, convention)) / device_memory,
        compute=compute.train_seconds(params, tokens, flops_per_s, mfu, devices) / deadline_s,
        bandwidth=sending / target_step_s,
    )
