"""Clusters by name: devices and wires from the facts, and the share of each that long runs sustain.

The shares are in `facts/data/clusters.csv` with their conditions. They belong to a device or a machine, never to a run.
"""

import difflib
import math
import re
from dataclasses import replace
from functools import cache

from course_lib.estimate import facts
from course_lib.estimate.facts.fact import rows
from course_lib.estimate.units import GB, US, GiB, require_whole
from course_lib.parallel.planner.cluster import Cluster, Wire

UNMEASURED = 0.78  # of the peak: the best measured product of a device that nobody measured, as of its neighbors
USABLE = 0.9875  # of the printed capacity, whose "GB" are GiB: CUDA reports 39.5 GiB on an A100 40 GB, 79.25 on 80 GB
FP4_RATE = {  # times the 8-bit rate, of tensor cores that have 4-bit products
    "B200 SXM": 2.0,  # NVIDIA, B200 and GB200 data sheets
    "GB200": 2.0,
    "B300 SXM": 3.0,  # 15 of 5 PFLOP/s: NVIDIA, "Inside NVIDIA Blackwell Ultra" (2025)
    "GB300": 3.0,
}
SAME_CHIP = {
    "A100 SXM 40GB": "A100 SXM 80GB",
    "H200 SXM": "H100 SXM",
    "GB300": "GB200",
}  # with other memory: products run alike
MOST = 1_000_000  # devices
# in a device's name
NOISE = r"nvidia|amd|tesla|geforce|rtx|instinct|radeon|sxm\d*|nvlink|hbm\w*|gpus?|dgx|hgx|nvl\d+|tensor|core|x"
PROCESSORS = {"A100": 108, "H100": 132, "H200": 132, "B200": 148, "B300": 148, "V100": 80}
RACKS, TRAY = ("GB200", "GB300"), 4  # devices of a server in a rack, whose servers share one NVLink domain
PRICES = {"H100": "H100 hour", "A100": "A100 hour, specialty low", "H200": "H200 hour, specialty low"}


@cache
def _rows() -> dict[str, dict[str, str]]:
    return {row["cluster"]: row for row in rows("clusters.csv")}


def names() -> tuple[str, ...]:
    """Clusters that are described."""
    return tuple(_rows())


def cluster(of: str, gpus: int | None = None) -> Cluster:
    """A cluster of `gpus` devices: `cluster("64xH100")`, `cluster("A100-40GB:8")`, `cluster("gb200-nvl72")`,
    `cluster("Jean Zay A100", 384)`.

    ValueError that names the nearest cluster with known rates, or if a server would be partly filled.
    """
    count, name = _parsed(of)
    count = gpus if count is None else count
    row = _row(name, count)
    if count is None:
        raise ValueError(f"{of!r} does not say how many devices of which kind; write it as {_example(row, 64)}.")
    gpus = require_whole("gpus", count, "devices")
    if gpus > MOST:
        raise ValueError(f"{gpus:,} devices are more than {MOST:,}, the most that is planned.")
    row = {**row, "per_node": str(per_node := _domain(row, gpus))}
    if gpus > per_node and gpus % per_node:
        lower = gpus // per_node * per_node
        raise ValueError(f"{gpus} devices do not fill servers of {per_node}; choose {lower} or {lower + per_node}.")
    return _built(row, gpus)


def _domain(row: dict[str, str], gpus: int) -> int:
    """Devices that the inside wire joins. Of a rack all, or so many whole servers that they divide the devices: 256 run
    as 4 x 64."""
    most = int(row["per_node"])
    if gpus <= most or row["device"] not in RACKS:
        return most
    return next((size for size in range(most, TRAY, -TRAY) if gpus % size == 0), most)


def _parsed(of: str) -> tuple[int | None, str]:
    """How many of what: the count before or behind the name; a rack's name, such as NVL72, counts its devices."""
    text = of.strip()
    first = re.fullmatch(r"(-?\d+)\s*(?:[xX×*]\s*|\s|(?=[A-Za-z]))(.+)", text)
    last = re.fullmatch(r"(.*\w)\s*(?::|\s[xX×*]|[×*]|(?<=\d)[xX])\s*(\d+)", text)
    if first:
        inner, name = _parsed(first[2])
        many = int(first[1])
        rack = re.search(r"nvl(\d+)", name, re.IGNORECASE)
        if rack and many % int(rack[1]) == 0:
            return many, name  # devices, not racks
        return many * (inner or 1), name
    if last:
        return int(last[2]), last[1]
    rack = re.search(r"nvl(\d+)$", text, re.IGNORECASE)
    return (int(rack[1]) if rack else None), text


def _words(name: str) -> set[str]:
    """The words of a device's name that tell devices apart: "NVIDIA A100-SXM4-40GB" is A100 and 40GB."""
    plain = re.sub(r"(\d+)\s*(gb?|gib)\b", r"\1gb", name.casefold())
    known = re.findall(r"[a-z]+\d*[a-z]*|\d+[a-z]*", plain)
    return {word for word in known if not re.fullmatch(NOISE, word)}


def _row(name: str, count: int | None) -> dict[str, str]:
    """The cluster that a name means; of several, the plain device with the largest memory."""
    by_name = {key.casefold(): row for key, row in _rows().items()}
    plain = name.strip().casefold()
    for said in (plain, plain.replace("-", " ")):
        if said in by_name:
            return by_name[said]
    asked = _words(name)
    known = [
        one
        for one in facts.devices(announced=True).values()
        if asked and asked <= _words(one.name) | {f"{one.memory / GB:.0f}gb"}
    ]
    fits = [one for one in known if one.name in _rows()]
    if fits:
        return _rows()[max(fits, key=lambda one: float(one.memory)).name]
    if not known:
        close = difflib.get_close_matches(name.casefold(), list(by_name), n=3, cutoff=0.5)
        near = "Near it" if close else "Devices with known rates, the smallest first"
        by_name = dict(sorted(by_name.items(), key=lambda item: float(facts.device(item[1]["device"]).memory)))
        names = ", ".join(by_name[each]["cluster"] for each in close or by_name)
        raise ValueError(f"No cluster called {name!r}: the course has no rates of this device. {near}: {names}.")
    one = known[0]
    nearest = min(_rows().values(), key=lambda row: _distance(one, facts.device(row["device"])))
    raise ValueError(
        f"{one.name} ({one.memory.text}) is known, but no published training run says what clusters of it sustain. "
        f"The nearest with such runs is {nearest['device']} ({facts.device(nearest['device']).memory.text}): "
        f"{_example(nearest, count or 64)}."
    )


def printed_cluster(of: str, gpus: int | None = None) -> Cluster:
    """The same with the memory that a data sheet prints, which the chapters count since 01: an H100's 80 GB, not the 85
    that CUDA reports."""
    found = cluster(of, gpus)
    return replace(found, memory=float(facts.device(found.device).memory))


def _distance(one: facts.Device, other: facts.Device) -> float:
    """How far two devices are apart, in doublings of memory, 16-bit rate and bandwidth."""
    pairs = ((one.get(name), other.get(name)) for name in ("memory", "dense_flops", "bandwidth"))
    return sum(abs(math.log2(left / right)) for left, right in pairs if left and right)


def _example(row: dict[str, str], count: int) -> str:
    name = re.sub(r" SXM\d*", "", row["cluster"])
    return f"{count}x{name.replace(' ', '-')}"


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
    server = float(row["server_gb"] or 0) * GB or float(device.get("server_memory") or 0)
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
        matmul_fp4=FP4_RATE.get(row["device"], 0.0) * float(row["fp8_share"]) * fp8,
        attention=float(row["attention_share"]) * share * best,
        memory_rate=float(row["memory_gb_s"]) * GB,
        memory=USABLE * GiB / GB * float(device.memory),
        server_memory=server / (TRAY if row["device"] in RACKS else int(row["per_node"])),
        processors=PROCESSORS[family],
        usd_per_hour=float(facts.price(price)) if price else 0.0,
        source=row["source"],
    )
