"""The parts of a device that evidence names, against each other: its name, software, driver, numbers, and the clock
that stamped its times."""

import re
import struct
from collections.abc import Iterable, Iterator

from course_lib.estimate.facts import device
from course_lib.messages import count_text
from course_runs.evidence import Evidence
from course_runs.evidence_fields import Environment, Raw
from course_runs.gate import Gate
from course_runs.gpus import gpu
from course_runs.preflight import fact_name

STAMPED = ("train", "matmul", "collectives")  # kinds whose times a GPU stamps


def on_gpu(content: Evidence) -> bool:
    """Whether the run itself was on a GPU, whatever else the machine has."""
    return content["setup"].get("device") == "cuda" or content["setup"].get("backend") == "nccl"


def device_gates(content: Evidence) -> Iterator[Gate]:
    """The device against its software: a GPU has a driver's numbers, and NCCL; a CPU has neither."""
    seen, setup = content["environment"], content["setup"]
    named, counted = seen["device"] != "CPU", bool(seen["gpus"])
    wants: tuple[str, ...] = ("cuda", "capability", "device_memory") if named or counted else ()
    wants += tuple(name for name in ("nccl",) if name == setup.get("backend"))
    lacks = [name for name in wants if not seen.get(name)]
    build = _build(seen)
    yield Gate(
        "the device fits its software",
        named == counted and not lacks and not build and (not on_gpu(content) or named),
        f"{seen['device']}, {count_text(seen['gpus'], 'GPU')}, torch {seen['torch']}"
        + (f", without {', '.join(lacks)}" if lacks else "")
        + build,
    )
    backend, kind = setup.get("backend"), setup.get("device")
    if backend and kind:
        fits = kind == "cuda" or backend != "nccl"
        yield Gate("the backend fits the device", fits, f"{backend} on {kind}")
    if named and counted and seen.get("capability") and seen.get("device_memory"):
        yield from _numbers(seen)


def _build(seen: Environment) -> str:
    """What contradicts the build of torch, in words: one for CPUs on a GPU, or one for another CUDA than the file
    names."""
    suffix = seen["torch"].partition("+")[2]
    if suffix == "cpu" and seen["device"] != "CPU":
        return ", which is built for CPUs"
    found = re.fullmatch(r"cu(\d+)(\d)", suffix)
    if found and seen.get("cuda") and seen["cuda"] != f"{found[1]}.{found[2]}":
        return f", which is not built for CUDA {seen['cuda']}"
    return ""


def _numbers(seen: Environment) -> Iterator[Gate]:
    """Memory, capability, driver and multiprocessors against the name, where the facts have the device."""
    name = fact_name(seen["device"])
    if name is None:
        return
    share, known = seen["device_memory"] / float(device(name).memory), gpu(name)
    yield Gate(
        "the device's numbers are those of its name",
        0.85 <= share <= 1.1 and (known.capability is None or seen["capability"] == str(known.capability)),
        f"{seen['device_memory'] / 1e9:,.1f} GB, capability {seen['capability']}",
    )
    driver, oldest = re.match(r"\d+", seen.get("driver") or ""), known.driver
    if driver and oldest:
        yield Gate(
            "the driver knows the device", int(driver[0]) >= oldest, f"{seen['driver']}, and at least {oldest:.0f}"
        )
    count, want = seen.get("multiprocessors"), known.multiprocessors
    if count and want:
        yield Gate("the multiprocessors are those of its name", count == want, f"{count}, and {name} has {want:.0f}")


def clock_gates(content: Evidence) -> Iterator[Gate]:
    """On a GPU, torch reads times as 32-bit milliseconds of the GPU's own events: other numbers are from another
    clock."""
    times = list(stamped(content["raw"])) if content["kind"] in STAMPED and on_gpu(content) else []
    if times:
        odd = [each for each in times if not from_an_event(each)]
        yield Gate("times are those of a GPU's clock", not odd, f"{len(times) - len(odd)} of {len(times)}")


def stamped(raw: Raw) -> Iterator[float]:
    """The times in the raw numbers that a GPU stamps itself."""
    for row in raw.get("steps", ()):
        yield row["seconds"]
    yield from _of_rows(raw.get("rows"))


def _of_rows(rows: object) -> Iterable[float]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("seconds"), list):
            yield from row["seconds"]


def from_an_event(seconds: float) -> bool:
    """Whether seconds are a thousandth of a 32-bit number."""
    try:
        (milliseconds,) = struct.unpack("f", struct.pack("f", seconds * 1e3))
    except OverflowError:
        return False
    return bool(milliseconds * 1e-3 == seconds)
