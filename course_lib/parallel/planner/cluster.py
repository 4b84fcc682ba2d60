"""What a plan runs on: the rates of one device, and the wires that groups of ranks cross."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire as one device sees it, in one direction, while all devices that share it send."""

    latency: float  # s, of one doubling of a collective's reach
    bandwidth: float  # bytes/s
    hop: float = 0.0  # s that each rank of a ring through several servers adds to a collective


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Identical devices in servers. The rates are those that long runs sustain, not those of data sheets."""

    name: str
    device: str  # a name for `facts.device`
    gpus: int
    per_node: int  # devices that the inside wire joins
    inside: Wire
    across: Wire
    peak: float  # FLOP/s, dense 16-bit: what utilization divides by
    matmul: float  # FLOP/s of large 16-bit products
    matmul_fp8: float  # FLOP/s of large 8-bit products; 0 if the device has none
    matmul_fp4: float  # the same for 4 bits
    attention: float  # FLOP/s of fused attention's forward pass
    memory_rate: float  # bytes/s of elementwise kernels
    memory: float  # bytes of one device
    server_memory: float  # bytes of the server's own memory for each of its devices; 0 where no source has it
    processors: int  # each computes one tile of a product at a time
    usd_per_hour: float = 0.0  # of one device
    source: str = ""
