"""What is inside a chip, and what the best matmul on a device reached: the two ends of a peak."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, fact_of, find, rows
from course_lib.estimate.facts.hardware import devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A GPU as many small processors (SMs). Sizes in bytes, clocks in Hz."""

    device: str  # a name for `facts.device`
    sms: Fact
    cores_per_sm: Fact  # FP32
    tensor_cores_per_sm: Fact
    tensor_flop_per_clock: Fact  # of one tensor core, dense 16-bit
    core_hertz: Fact
    tensor_hertz: Fact
    registers: Fact  # per SM
    shared_memory: Fact  # per SM
    l2: Fact  # of the whole device

    @property
    def tensor_flops(self) -> float:
        """Dense 16-bit peak in FLOP/s: every tensor core busy in every clock."""
        return self.sms * self.tensor_cores_per_sm * self.tensor_flop_per_clock * self.tensor_hertz

    @property
    def fp32_flops(self) -> float:
        """FP32 peak in FLOP/s: a multiplication and an addition per core and clock."""
        return 2 * self.sms * self.cores_per_sm * self.core_hertz


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulCeiling:
    """The best dense matmul anybody measured on a device, in FLOP/s, beside the peak that was printed."""

    device: str
    dtype: str  # "bf16" or "fp8"
    measured: Fact
    peak: Fact

    @property
    def share(self) -> float:
        """Measured over printed peak."""
        return self.measured / self.peak


@cache
def _chips() -> dict[str, Chip]:
    values: dict[str, dict[str, Fact]] = {}
    for row in rows("chips.csv"):
        values.setdefault(row["device"], {})[row["field"]] = fact_of(row)
    return {device: Chip(device=device, **fields) for device, fields in values.items()}


def chip(name: str) -> Chip:
    """The inside of the device called `name`, such as "H100 SXM"."""
    return find("chip", name, _chips())


def chips() -> dict[str, Chip]:
    """All chips by the name of their device."""
    return dict(_chips())


@cache
def _ceilings() -> dict[tuple[str, str], MatmulCeiling]:
    values: dict[tuple[str, str], dict[str, Fact]] = {}
    for row in rows("ceilings.csv"):
        values.setdefault((row["device"], row["dtype"]), {})[row["field"]] = fact_of(row)
    for (name, dtype), fields in values.items():  # a peak stands in one record: that of the device, where there is one
        known = devices().get(name)
        sheet = known and known.get("dense_flops" if dtype == "bf16" else "fp8_flops")
        fields["peak"] = sheet or fields["peak"]
    return {key: MatmulCeiling(device=key[0], dtype=key[1], **fields) for key, fields in values.items()}


def ceiling(device: str, dtype: str = "bf16") -> MatmulCeiling:
    """The best measured matmul on `device` in "bf16" or "fp8"."""
    known = {name: one for (name, kind), one in _ceilings().items() if kind == dtype}
    if not known:
        kinds = sorted({kind for _, kind in _ceilings()})
        raise ValueError(f"dtype is {dtype!r}; matmuls were measured in {' and '.join(kinds)}.")
    return find(f"measured {dtype} matmul on a device", device, known)


def ceilings(dtype: str = "bf16") -> dict[str, MatmulCeiling]:
    """All measured ceilings of one dtype, nearest to their peak first."""
    found = [one for one in _ceilings().values() if one.dtype == dtype]
    return {one.device: one for one in sorted(found, key=lambda one: -one.share)}
