"""Devices and links: what one accelerator can compute, hold and move, each number with its source."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, Number, Sheet, fact_of, find, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Sheet):
    """One accelerator. Rates are per second, sizes in bytes. Some numbers are without a source we trust."""

    vendor: str
    year: int
    kind: str  # "GPU", "TPU chip" or "chip"
    memory_type: str
    link: str  # what joins the devices of a server
    source: str
    announced: bool  # its numbers are those of an announcement, not of a sheet of a shipped part
    memory = Number()  # B, nominal
    bandwidth = Number()  # B/s, its own memory
    dense_flops = Number()  # FLOP/s, 16-bit, dense: the peak every MFU divides by
    sparse_flops = Number()  # FLOP/s, 16-bit, only with 2:4 structured sparsity
    fp8_flops = Number()  # FLOP/s, 8-bit, dense
    fp32_flops = Number()  # FLOP/s, 32-bit
    matmul_flops = Number()  # FLOP/s, the best dense bf16 matmul anybody measured
    link_one_way = Number()  # B/s in one direction, within the server
    link_both_ways = Number()  # B/s, both directions added: what brochures print
    network_one_way = Number()  # B/s in one direction, to other servers, per device
    power = Number()  # W
    server_memory = Number()  # B, of the usual server's own processors, for all its devices together

    @property
    def label(self) -> str:
        """Name and memory, for menus: "H100 SXM (80 GB)"."""
        return self.name if "GB" in self.name.split()[-1] else f"{self.name} ({self.memory.text})"


@dataclass(frozen=True, slots=True)
class Link:
    """A wire between devices: bytes/s in one direction and, where printed so, both added."""

    name: str
    one_way: Fact
    both_ways: Fact | None
    where: str


# Each link is read off the device it is known from, so no bandwidth is written twice.
_LINKS = {
    "NVLink2": ("V100 SXM2 32GB", "link"),
    "NVLink3": ("A100 SXM 80GB", "link"),
    "NVLink4": ("H100 SXM", "link"),
    "NVLink5": ("B200 SXM", "link"),
    "PCIe4 x16": ("A100 PCIe 80GB", "link"),
    "PCIe5 x16": ("H100 PCIe", "link"),
    "200 Gb/s adapter": ("A100 SXM 80GB", "network"),
    "400 Gb/s adapter": ("H100 SXM", "network"),
    "800 Gb/s adapter": ("B300 SXM", "network"),
}


@cache
def _devices() -> dict[str, Device]:
    values: dict[str, dict[str, Fact]] = {}
    for row in rows("devices.csv"):
        values.setdefault(row["device"], {})[row["field"]] = fact_of(row)
    return {
        row["device"]: Device(
            name=row["device"],
            vendor=row["vendor"],
            year=int(row["year"]),
            kind=row["kind"],
            memory_type=row["memory_type"],
            link=row["link"],
            source=row["source"],
            announced=row["announced"] == "1",
            numbers=values[row["device"]],
        )
        for row in rows("device_names.csv")
    }


def device(name: str) -> Device:
    """The accelerator called `name`, such as "H100 SXM"."""
    return find("device", name, _devices())


def devices(announced: bool = False) -> dict[str, Device]:
    """All accelerators by name, oldest first; those that are only announced on request."""
    known = {name: one for name, one in _devices().items() if announced or not one.announced}
    return dict(sorted(known.items(), key=lambda item: (item[1].year, item[0])))


def link(name: str) -> Link:
    """The wire called `name`, such as "NVLink4" or "400 Gb/s adapter"."""
    of, kind = find("link", name, _LINKS)
    known = device(of)
    if kind == "network":
        return Link(name, known.network_one_way, None, f"between servers, as with the {of}")
    return Link(name, known.link_one_way, known.link_both_ways, f"inside a server, as with the {of}")


def links() -> dict[str, Link]:
    """All wires by name."""
    return {name: link(name) for name in _LINKS}
