"""The roofs of this machine: matmuls of several sizes, an elementwise kernel and a copy, each timed with waiting.

Every kernel is warmed up, every repeat waits for the device before its clock starts and before it stops, and the median
repeat counts. Bytes are those that a kernel must read and write; a CPU that fetches a line before overwriting it moves
up to half as much again, which shows as a lower roof. A machine that is busy with other work is measured once more.
"""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from course_lib.estimate import roofline
from course_lib.estimate.roofline import Machine, Roofs, Run
from course_lib.estimate.units import MiB, bytes_text, duration_text, number_text, rate_text, require

REPEATS = 15
WARM_UP = 3
LEAST_REPEAT = 300e-6  # s: a shorter kernel is called several times between two looks at the clock
CPU_SIZES = (32, 64, 128, 256, 512, 1024, 1536)
GPU_SIZES = (256, 512, 1024, 2048, 4096, 8192)
STREAM_LIMIT = 512 * MiB  # bytes of all tensors of one streaming kernel
QUICK_LIMIT = 32 * MiB
BUSY = 0.25  # quartiles of a run that sets a roof, this far apart over its median: other work disturbs it
ABOVE = 1.1  # a rate this many times its roof shows that the roof is too low


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, on what device, and the two roofs that follow."""

    device: str  # a description
    dtype: str
    threads: int
    cache: float  # bytes of the last cache before memory, as the system reports them; 0: unknown
    runs: tuple[Run, ...]
    roofs: Roofs
    again: bool = False  # measured a second time, because the machine was busy

    @property
    def ridge(self) -> float:
        """This machine's own ridge in FLOP per byte."""
        return self.roofs.ridge

    @property
    def busy(self) -> float:
        """How far apart the quartiles of the runs that set the roofs are, over their medians: the wider one."""
        deciding = (run for run in self.runs if run.name in self.roofs.by)
        return max((run.quartiles[1] - run.quartiles[0]) / run.median for run in deciding)

    def machine(self) -> Machine:
        """The measured roofs as a machine without a wire, for `roofline.place`."""
        return Machine(self.device, self.roofs.flops, self.roofs.bandwidth)


# --- the clock ---------------------------------------------------------------------------------


def timed(
    work: Callable[[], object],
    synchronize: Callable[[], object] = lambda: None,
    repeats: int = REPEATS,
    warm_up: int = WARM_UP,
    limit: float = math.inf,
) -> tuple[float, ...]:
    """Seconds of each repeat of `work`, per call; at least three repeats, and no new one after `limit` seconds.

    `synchronize` waits until the device has finished its queue; without it, the clock measures only how fast an
    asynchronous device accepts work.
    """
    until = time.perf_counter() + limit
    for count in range(warm_up):
        if count and time.perf_counter() > until:
            break
        work()
    synchronize()
    start = time.perf_counter()
    work()
    synchronize()
    calls = max(1, math.ceil(LEAST_REPEAT / max(time.perf_counter() - start, 1e-9)))
    found: list[float] = []
    until = time.perf_counter() + limit
    while len(found) < 3 or (len(found) < repeats and time.perf_counter() < until):
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        synchronize()
        found.append((time.perf_counter() - start) / calls)
    return tuple(found)


def without_waiting(device: str | None = None, size: int = 1024, repeats: int = REPEATS) -> tuple[Run, Run]:
    """The same matmul timed twice: (with waiting, without). The second looks like a measurement but is not one.

    On a GPU the launches themselves return early. On a CPU the matmul goes into a queue that another thread works
    through, as a GPU's stream does.
    """
    place = _device(device)
    a = torch.randn(size, size, device=place)
    flop, nbytes = _need(size, a.element_size())
    if place.type == "cuda":
        honest = timed(lambda: a @ a, torch.cuda.synchronize, repeats)
        hasty = _launches(lambda: a @ a, torch.cuda.synchronize, repeats)
    else:
        with ThreadPoolExecutor(1) as stream:
            honest = timed(lambda: stream.submit(torch.mm, a, a).result(), repeats=repeats)
            hasty = _launches(lambda: stream.submit(torch.mm, a, a), lambda: stream.submit(int).result(), repeats)
    return Run(f"matmul {size}, waited for", flop, nbytes, honest), Run(
        f"matmul {size}, not waited for", flop, nbytes, hasty
    )


def _launches(launch: Callable[[], object], drain: Callable[[], object], repeats: int) -> tuple[float, ...]:
    """Seconds that each launch takes to return; the queue is emptied in between, outside the timing."""
    found = []
    for _ in range(repeats):
        drain()
        start = time.perf_counter()
        launch()
        found.append(time.perf_counter() - start)
    drain()
    return tuple(found)


# --- the kernels -------------------------------------------------------------------------------


def measure(
    device: str | None = None, seconds: float = 8.0, threads: int | None = None, quick: bool = False
) -> Measured:
    """The roofs of `device` ("cpu", "cuda"; None: a GPU if there is one), in about so many seconds.

    fp32 on a CPU, bf16 on a GPU or fp16 where it has no bf16. `threads` is for a CPU; None keeps torch's setting.
    quick=True uses small tensors only, some 30 MB; if the cache is larger than that, the memory roof is the cache's. A
    busy machine is measured a second time, and each kernel keeps the run with the lower median.
    """
    require("seconds", seconds, "s")
    place = _device(device)
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(int(require("threads", threads, "threads")))
    try:
        with torch.inference_mode():
            first = _measure(place, seconds, quick)
            return first if first.busy < BUSY else _better(first, _measure(place, seconds, quick))
    finally:
        torch.set_num_threads(before)


def _better(first: Measured, second: Measured) -> Measured:
    """Two measurements of one machine as one: each kernel's run with the lower median, and the roofs of those."""
    pairs = zip(first.runs, second.runs, strict=True)
    runs = tuple(min(pair, key=lambda run: run.median) for pair in pairs)
    return replace(first, runs=runs, roofs=_roofs(runs, first.cache), again=True)


def _roofs(runs: Sequence[Run], cache: float) -> Roofs:
    """The roofs of measured runs; if no streaming kernel exceeds the cache, the cache counts as the memory."""
    fits = cache if any(run.working_set > cache for run in runs if not run.name.startswith("matmul")) else 0.0
    return roofline.fit_roofs([run for run in runs if run.flop] + [run for run in runs if not run.flop], fits)


def _measure(place: torch.device, seconds: float, quick: bool) -> Measured:
    from course_runs.peaks import half

    gpu = place.type == "cuda"
    dtype = half(place) if gpu else torch.float32
    synchronize = torch.cuda.synchronize if gpu else (lambda: None)
    cache = _cache(place)
    sizes = (GPU_SIZES if gpu else CPU_SIZES)[: 5 if quick else None]
    streams = _stream_lengths(cache, dtype.itemsize, QUICK_LIMIT if quick else STREAM_LIMIT)
    share = seconds / (len(sizes) + 2 * len(streams))
    runs = [_matmul(place, dtype, size, synchronize, share) for size in sizes]
    for length in streams:
        runs += _streaming(place, dtype, length, synchronize, share)
    name = torch.cuda.get_device_name(place) if gpu else _cpu_name()
    threads = 0 if gpu else torch.get_num_threads()
    return Measured(name, str(dtype).removeprefix("torch."), threads, cache, tuple(runs), _roofs(runs, cache))


def _matmul(place: torch.device, dtype: torch.dtype, size: int, synchronize: Callable[[], None], limit: float) -> Run:
    a, b = (torch.randn(size, size, device=place, dtype=dtype) for _ in range(2))
    out = torch.empty(size, size, device=place, dtype=dtype)
    flop, nbytes = _need(size, dtype.itemsize)
    return Run(f"matmul {size}", flop, nbytes, timed(lambda: torch.mm(a, b, out=out), synchronize, limit=limit), nbytes)


def _streaming(
    place: torch.device, dtype: torch.dtype, length: int, synchronize: Callable[[], None], limit: float
) -> list[Run]:
    x = torch.randn(length, device=place, dtype=dtype)
    out = torch.zeros(
        length, device=place, dtype=dtype
    )  # written once, because untouched memory has no physical pages yet
    scale = roofline.elementwise(length, 1, 1, 1, dtype.itemsize)
    copy = roofline.elementwise(length, 1, 1, 0, dtype.itemsize)
    text = bytes_text(copy.memory_bytes)
    return [
        Run(
            f"scale {text}",
            scale.flop,
            scale.memory_bytes,
            timed(lambda: torch.mul(x, 0.5, out=out), synchronize, limit=limit),
            scale.memory_bytes,
        ),
        Run(
            f"copy {text}",
            copy.flop,
            copy.memory_bytes,
            timed(lambda: out.copy_(x), synchronize, limit=limit),
            copy.memory_bytes,
        ),
    ]


def _need(size: int, element: int) -> tuple[float, float]:
    work = roofline.matmul(size, size, size, element)
    return work.flop, work.memory_bytes


def _stream_lengths(cache: float, element: int, limit: float) -> list[int]:
    """Elements of streaming tensors: from well inside the caches to well beyond them."""
    beyond = min(max(4 * cache, 64 * MiB), limit)
    return [int(nbytes / 2 / element) for nbytes in (beyond / 4096, beyond / 256, beyond / 16, beyond)]


# --- the machine -------------------------------------------------------------------------------


def _device(name: str | None) -> torch.device:
    wanted = name or ("cuda" if torch.cuda.is_available() else "cpu")
    kind = wanted.split(":")[0]
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
        there = "cpu and cuda" if torch.cuda.is_available() else "only cpu: torch sees no GPU"
        raise ValueError(f"device is {name!r}; this machine has {there}.")
    return torch.device(wanted)


def _cache(place: torch.device) -> float:
    """Bytes of the last cache before memory; 0 if the system does not report it."""
    if place.type == "cuda":
        return float(getattr(torch.cuda.get_device_properties(place), "L2_cache_size", 0))
    return cpu_cache(Path("/sys/devices/system/cpu/cpu0/cache"))


def cpu_cache(folder: Path) -> float:
    """Bytes of the largest cache that Linux lists in `folder`; 0 where there is none."""
    found = [0.0]
    for file in folder.glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        unit = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30}.get(text[-1:], 1.0)
        digits = text.rstrip("KMG")
        found.append(float(digits) * unit if digits.isdigit() else 0.0)
    return max(found)


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    named = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


# --- reports -----------------------------------------------------------------------------------


def rows(measured: Measured) -> list[dict[str, str]]:
    """The runs as texts for a table: median, quartiles, rate, bandwidth, intensity, share of the lower roof."""
    return [
        {
            "kernel": run.name,
            "median": duration_text(run.median),
            "quartiles": " to ".join(duration_text(each) for each in run.quartiles),
            "FLOP/s": rate_text(run.flops) if run.flop else "—",
            "bytes/s": f"{bytes_text(run.bandwidth)}/s",
            "FLOP/byte": number_text(run.intensity),
            "of its roof": _share_text(run, measured),
        }
        for run in measured.runs
    ]


def share(run: Run, measured: Measured) -> float:
    """The fraction of its lower roof that a run reaches; above one if the caches held its tensors."""
    roof = min(measured.roofs.flops, measured.roofs.bandwidth * run.intensity) if run.flop else 0.0
    return run.flops / roof if run.flop else run.bandwidth / measured.roofs.bandwidth


def _share_text(run: Run, measured: Measured) -> str:
    """The share in percent; above its roof a run used its caches, or the roof was measured while the machine was
    busy."""
    reached = share(run, measured)
    if reached <= ABOVE:
        return f"{100 * reached:.0f} %"
    return "above: in the cache" if (run.working_set or run.nbytes) <= measured.cache else "above: roof too low"


def against_roof(name: str, flop: float, nbytes: float, seconds: float, measured: Measured) -> str:
    """One line on a kernel's rate and its share of the measured roofs; a rate above its roof is explained, not
    quoted."""
    rate, roofs = flop / seconds, measured.roofs
    reached = rate / roofline.attainable(flop / nbytes, roofs.flops, roofs.bandwidth)
    if reached <= ABOVE:
        return f"{name}: {rate_text(rate, 3)}, {100 * reached:.0f} % of its roof here"
    cause = (
        "its tensors fit into the cache" if nbytes <= measured.cache else "the roofs were measured on a busy machine"
    )
    return (
        f"{name}: {rate_text(rate, 3)}, {number_text(reached, 2)} × its roof: {cause}. Measure the roofs "
        f"again to compare."
    )


def summary(measured: Measured) -> str:
    """The roofs in one line, and a warning if the machine was busy."""
    on = f", {measured.threads} thread{'' if measured.threads == 1 else 's'}" if measured.threads else ""
    return (
        f"{measured.device}{on}, {measured.dtype}: {rate_text(measured.roofs.flops)} and "
        f"{bytes_text(measured.roofs.bandwidth)}/s, so the ridge is at {number_text(measured.ridge)} FLOP per byte "
        f"(from {measured.roofs.by[0]} and {measured.roofs.by[1]}){_warning(measured)}"
    )


def _warning(measured: Measured) -> str:
    """A line for a machine that was busy at first, and one that still is."""
    if not measured.again:
        return ""
    if measured.busy < BUSY:
        return "\nThis machine was busy at first; it was measured twice, and the faster run of each kernel counts."
    spread = f"{100 * measured.busy:.0f} % of the median"
    return f"\nThis machine is busy: quartiles are {spread} apart, even the second time. The real roofs may be higher."


def main(arguments: Sequence[str]) -> int:
    """Measure and print; `--device`, `--seconds`, `--threads`, `--quick`, `--json`."""
    import argparse

    parser = argparse.ArgumentParser(prog="course bench roofline", description=__doc__)
    parser.add_argument("--device", help="cpu or cuda; by default a GPU if there is one")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", 0)) or None)
    parser.add_argument("--quick", action="store_true", help="small tensors only")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    try:
        measured = measure(given.device, given.seconds, given.threads, given.quick)
    except ValueError as error:
        parser.error(str(error))
    if given.json:
        print(json.dumps({**asdict(measured), "ridge": measured.ridge}))
        return 0
    table = rows(measured)
    widths = {name: max(len(name), *(len(row[name]) for row in table)) for name in table[0]}
    for row in ({name: name for name in widths}, *table):
        print("  ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())
    print(summary(measured))
    honest, hasty = without_waiting(given.device)
    print(
        f"without waiting, the same matmul seems to run at {rate_text(hasty.flops)}, "
        f"{number_text(hasty.flops / honest.flops)} times its real rate"
    )
    return 0
