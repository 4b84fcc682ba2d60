"""Clusters by name: devices and wires from the facts, and the share of each that long runs sustain.

The shares are in `facts/data/clusters.csv` with their conditions. They belong to a device or a machine, never to a run.
"""

import re
from functools import cache
from typing import Any

from course_lib.estimate import facts
from course_lib.estimate.facts.fact import find, rows
from course_lib.estimate.units import GB, US, require_whole
from course_lib.parallel.planner.cluster import Cluster, Wire

UNMEASURED = 0.78  # of the peak: the best measured product of a device that nobody measured, as of its neighbors
SAME_CHIP = {
    "A100 SXM 40GB": "A100 SXM 80GB",
    "H200 SXM": "H100 SXM",
    "GB300": "GB200",
}  # with other memory: products run alike
PROCESSORS = {"A100": 108, "H100": 132, "H200": 132, "B200": 148, "B300": 148, "V100": 80}
PRICES = {"H100": "H100 hour", "A100": "A100 hour, specialty low", "H200": "H200 hour, specialty low"}


@cache
def _rows() -> dict[str, dict[str, str]]:
    return {row["cluster"]: row for row in rows("clusters.csv")}


def names() -> tuple[str, ...]:
    """Clusters that are described."""
    return tuple(_rows())


def cluster(of: str, gpus: int | None = None) -> Cluster:
    """A cluster of `gpus` devices: `cluster("64xH100")`, `cluster("Jean Zay A100", 384)`.

    ValueError that names the clusters nearest to an unknown name, or if a server would be partly filled.
    """
    count, name = _parsed(of, gpus)
    row = find("cluster", name, _rows())
    gpus = require_whole("gpus", count, "devices")
    per_node = int(row["per_node"])
    if gpus > per_node and gpus % per_node:
        lower = gpus // per_node * per_node
        raise ValueError(f"{gpus} devices do not fill servers of {per_node}; choose {lower} or {lower + per_node}.")
    return _built(row, gpus)


def _parsed(of: str, gpus: int | None) -> tuple[Any, str]:
    found = re.fullmatch(r"\s*(\d+)\s*[xX×*]\s*(.+?)\s*", of)
    count, name = (int(found[1]), found[2]) if found else (gpus, of.strip())
    if count is None:
        example = f"64x{of.strip()}" if re.match(r"\s*[A-Za-z]", of) else "64xH100"
        raise ValueError(f"{of!r} does not say how many devices of which kind; write it as {example}.")
    short = {"A100": "A100 SXM 80GB", "H100": "H100 SXM", "H200": "H200 SXM", "B200": "B200 SXM", "B300": "B300 SXM"}
    return count, short.get(name.upper(), name)


def _built(row: dict[str, str], gpus: int) -> Cluster:
    device = facts.device(row["device"])
    peak = float(device.dense_flops)
    chip = facts.device(SAME_CHIP.get(row["device"], row["device"]))
    best = float(chip.get("matmul_flops") or UNMEASURED * peak)
    share = float(row["matmul_share"])
    family = next((name for name in PROCESSORS if name in row["device"]), "B200")
    measured = facts.ceilings("fp8").get(row["device"]) or facts.ceilings("fp8").get(chip.name)
    fp8 = float(measured.measured) if measured else UNMEASURED * float(device.get("fp8_flops") or 0.0)
    price = PRICES.get(family)
    return Cluster(
        name=row["cluster"],
        device=row["device"],
        gpus=gpus,
        per_node=int(row["per_node"]),
        inside=Wire(float(row["inside_us"]) * US, float(row["inside_share"]) * float(device.link_one_way)),
        across=Wire(
            float(row["across_us"]) * US,
            float(row["across_share"]) * float(row["across_gb_s"]) * GB,
            float(row["hop_us"]) * US,
        ),
        peak=peak,
        matmul=share * best,
        matmul_fp8=float(row["fp8_share"]) * fp8,
        attention=float(row["attention_share"]) * share * best,
        memory_rate=float(row["memory_gb_s"]) * GB,
        memory=float(device.memory),
        processors=PROCESSORS[family],
        usd_per_hour=float(facts.price(price)) if price else 0.0,
        source=row["source"],
    )
