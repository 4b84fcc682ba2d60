"""The machine before money is spent on it: GPUs, links, clocks, bandwidth, limits. A line each: healthy, degraded or
missing.

`./course doctor` shows it, so torch is loaded only where there is a GPU to measure.
"""

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from statistics import median

from course_lib.estimate.facts import devices
from course_lib.installation import called_here
from course_lib.messages import Trouble
from course_runs import evidence, launcher, min_torch, nccl_variables, torch_choice, torchrun
from course_runs.machine import output_of

DEGRADED = 0.7  # of what the facts say; below it something is wrong with the machine, not with the measurement
COPY, LINK = 0.75, 0.70  # of the printed memory bandwidth, of the one-way link: what a sound machine reaches
COPIED = 256_000_000  # bytes
PATIENCE = 90.0  # s that the all-reduce may take, torch's own start included
_NAMES = {  # what torch calls a device -> what the facts call it
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA B200": "B200 SXM",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA H800": "H800 SXM",
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB",
    "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU, as nvidia-smi tells it."""

    name: str
    driver: str = ""
    clock: float = 0.0  # MHz now
    most: float = 0.0  # MHz at most
    throttled: str = ""
    errors: int = 0  # uncorrected ECC errors since the driver loaded


def fact_name(torch_name: str) -> str | None:
    """The facts' name of a device that torch names, None where the facts do not have it."""
    name = _NAMES.get(torch_name)
    return name if name in devices() else None


@dataclass(frozen=True)
class Line:
    """One thing looked at; `state` as in `./course doctor`."""

    what: str
    state: str  # ok, warn, fail
    found: str
    way_out: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "way_out", called_here(self.way_out))


_FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "clocks_event_reasons.active",
    "ecc.errors.uncorrected.volatile.total",
)


def gpus(ask: Callable[..., str] = output_of) -> list[Gpu]:
    """The GPUs that this process may use, as torch and CUDA_VISIBLE_DEVICES have it; none without a driver."""
    if not _driver(ask):
        return []
    places = visible([*zip(_column("index", ask), _column("uuid", ask), strict=False)], os.environ)
    seen = [each for place, each in enumerate(_listed(ask)) if place in places]
    names = torch_sees()[0]
    return seen if len(seen) == len(names) or not names else [Gpu(name) for name in names]


def _listed(ask: Callable[..., str]) -> list[Gpu]:
    """All GPUs of this machine. nvidia-smi answers nothing at all to a question with a field that it does not know, so
    each field is then asked for by itself."""
    text = ask("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
    if not text:
        columns = [_column(field, ask) for field in _FIELDS]
        text = "\n".join(", ".join(row) for row in zip_longest(*columns, fillvalue=""))
    return [parsed(line) for line in text.splitlines() if line.count(",") >= 5]


def _column(field: str, ask: Callable[..., str]) -> list[str]:
    return ask("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits").splitlines()


def visible(known: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> list[int]:
    """Positions of the GPUs, of (index, uuid) each, that CUDA_VISIBLE_DEVICES leaves; CUDA stops at a name that it does
    not know."""
    said = environment.get("CUDA_VISIBLE_DEVICES")
    if said is None:
        return list(range(len(known)))
    found: list[int] = []
    for word in (each.strip() for each in said.split(",")):
        fits = [
            place
            for place, (index, uuid) in enumerate(known)
            if word == index or (word.startswith("GPU-") and uuid.startswith(word))
        ]
        if len(fits) != 1:
            break
        found += fits
    return found


def torch_sees() -> tuple[list[str], str]:
    """Names of the GPUs that torch can use, and torch's version."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.get_device_name(place) for place in range(count)], torch.__version__


def _driver(ask: Callable[..., str]) -> bool:
    """Whether there is anything to ask: a driver of NVIDIA's, or AMD's device file."""
    return bool(ask("nvidia-smi", "-L")) or any(Path(each).exists() for each in ("/dev/nvidiactl", "/dev/kfd"))


def require_gpus(ask: Callable[..., str] = output_of) -> None:
    """Trouble where a run on GPUs would find none: no driver, a torch that cannot use it, or all of them hidden."""
    at_home = "at home, --dry does the same on the CPU"
    if not _driver(ask):
        raise Trouble("No GPU is to be seen here: nvidia-smi lists none.", f"rent a machine with GPUs; {at_home}")
    names, version = torch_sees()
    min_torch.require(version)
    if names:
        return
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and not gpus(ask):
        raise Trouble(f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU.", "unset CUDA_VISIBLE_DEVICES")
    machine = torch_choice.this_machine()
    choice = torch_choice.torch_choice(machine)
    cuda = f", whose driver supports CUDA {machine.cuda[0]}.{machine.cuda[1]}" if machine.cuda else ""
    words = " ".join(torch_choice.pip_words(choice))
    raise Trouble(
        f"torch {version} does not see the GPUs of this machine{cuda}. {choice.warning}".rstrip(),
        f"python3 -m pip install --force-reinstall {words}" if not choice.warning else f"rent another image; {at_home}",
    )


def parsed(line: str) -> Gpu:
    """One line of nvidia-smi's answer."""
    name, driver, clock, most, reasons, errors = (part.strip() for part in line.rsplit(",", 5))
    active = int(reasons, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", reasons) else 0
    return Gpu(
        name=name,
        driver=driver,
        clock=_number(clock),
        most=_number(most),
        throttled=_reasons(active),
        errors=int(_number(errors)),
    )


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0


def _reasons(bits: int) -> str:
    """Why clocks are held down, for the reasons that are no one's wish (NVML's bits)."""
    known = {
        0x8: "slowdown by hardware",
        0x20: "slowdown by heat (driver)",
        0x40: "slowdown by heat (hardware)",
        0x80: "power brake",
    }
    return ", ".join(words for bit, words in known.items() if bits & bit)


def topology() -> str:
    """How the GPUs are joined, in NVIDIA's letters: "NV18" (18 NVLinks), "SYS" (across sockets), …"""
    text = output_of("nvidia-smi", "topo", "-m")
    found = re.findall(
        r"\b(NV\d+|PIX|PXB|PHB|NODE|SYS)\b", "\n".join(line for line in text.splitlines() if line.startswith("GPU"))
    )
    return ", ".join(dict.fromkeys(found))


def lines(measure: bool = True) -> list[Line]:
    """Everything there is to say about this machine's GPUs and limits, in the order in which it would be mended."""
    seen = gpus()
    name = socket.gethostname()
    found = [shared_memory_line(_shared_memory(), len(seen)), files_line(_open_files())]
    found += [name_line(name, launcher.unknown_name(name)), launcher_line(launcher.left_over(os.environ))]
    if not seen:
        return found
    found += [clock_line(seen), errors_line(seen), links_line(topology(), len(seen))]
    found.append(torch_line(metadata.version("torch")))
    found.append(nccl_line(os.environ, _interfaces(), Path("/dev/infiniband").exists(), _adapters()))
    found.append(debugging_line(os.environ))
    return found + (_measured(seen) if measure else [])


def clock_line(seen: list[Gpu]) -> Line:
    """Whether a GPU is held down by heat or power."""
    held = [f"GPU {place}: {gpu.throttled}" for place, gpu in enumerate(seen) if gpu.throttled]
    if held:
        return Line(
            "clocks",
            "warn",
            "degraded: " + "; ".join(held),
            "rent another machine: this one is too warm or starved of power",
        )
    return Line("clocks", "ok", f"healthy: up to {max(gpu.most for gpu in seen):,.0f} MHz, nothing holds them down")


def errors_line(seen: list[Gpu]) -> Line:
    """Whether a GPU's memory has failed since the driver loaded."""
    bad = [f"GPU {place}: {gpu.errors}" for place, gpu in enumerate(seen) if gpu.errors]
    if bad:
        return Line(
            "GPU memory",
            "fail",
            "degraded: uncorrected errors, " + "; ".join(bad),
            "rent another machine, and tell the provider",
        )
    return Line("GPU memory", "ok", "healthy: no uncorrected errors")


def links_line(letters: str, count: int) -> Line:
    """Whether several GPUs are joined by NVLink."""
    if count == 1:
        return Line("links", "ok", "one GPU")
    if not letters:
        return Line(
            "links",
            "warn",
            "nvidia-smi does not say how the GPUs are joined",
            "run the collectives stage and look at its bandwidth",
        )
    if "NV" in letters:
        return Line("links", "ok", f"healthy: {letters}")
    return Line(
        "links",
        "warn",
        f"degraded for tensor parallel: {letters}, no NVLink",
        "data and pipeline parallel will do; for tensor parallel rent an SXM machine",
    )


def torch_line(version: str) -> Line:
    """Whether the installed torch is new enough for the runs; nothing is loaded for it."""
    try:
        min_torch.require(version)
    except Trouble as trouble:
        return Line("torch of the runs", "warn", str(trouble).splitlines()[0], trouble.way_out)
    return Line("torch of the runs", "ok", version)


def nccl_line(
    environment: Mapping[str, str],
    interfaces: Sequence[str],
    infiniband: bool,
    adapters: Mapping[str, bool] | None = None,
) -> Line:
    """Whether variables hold NCCL back or name what this machine lacks, and which network it would take between
    machines."""
    if off := nccl_variables.held_back(environment, infiniband):
        return Line("NCCL", "warn", f"degraded: {', '.join(off)} is set", f"unset {' '.join(off)}")
    wrong, way_out = nccl_variables.missing(environment, interfaces, adapters or {})
    if wrong:
        return Line("NCCL", "warn", f"between machines: {wrong}", way_out)
    own = nccl_variables.own(interfaces)
    chosen = environment.get("NCCL_SOCKET_IFNAME", "")
    wire = "InfiniBand or RoCE" if infiniband else "TCP only"
    if not chosen and len(own) > 1:
        advice = f"export NCCL_SOCKET_IFNAME={own[0]} (of {', '.join(own)}) for runs on several machines"
        return Line("NCCL", "ok", f"between machines {wire}, over any of {len(own)} networks: {advice}")
    return Line("NCCL", "ok", f"between machines {wire}, over {chosen or ', '.join(own) or 'no network'}")


def debugging_line(environment: Mapping[str, str]) -> Line:
    """Whether settings of a search for an error are still on."""
    left = nccl_variables.left_over(environment)
    if not left:
        return Line("debug settings", "ok", "none slows a run down")
    names = " ".join(each.partition("=")[0] for each in left)
    return Line(
        "debug settings",
        "warn",
        f"{', '.join(left)}: slower runs or very long logs",
        f"unset {names} before you measure",
    )


def shared_memory_line(nbytes: float, count: int) -> Line:
    """Whether /dev/shm is large enough for NCCL and data loaders: a container's default is 64 MB."""
    found = f"{nbytes / 1e6:,.0f} MB in /dev/shm" if nbytes else "this system has no /dev/shm"
    if nbytes >= 1e9 or not count:
        return Line("shared memory", "ok", f"{nbytes / 1e9:,.1f} GB" if nbytes else found)
    return Line("shared memory", "warn", found, "start the container with --shm-size=16g or --ipc=host")


def files_line(count: int) -> Line:
    """Whether enough files may be open at once."""
    if not count or count >= 4096:
        return Line("open files", "ok", f"{count:,} at once" if count else "this system does not say")
    return Line("open files", "warn", f"{count:,} at once", "ulimit -n 65536 before a run with many ranks")


def name_line(name: str, unknown: bool) -> Line:
    """Whether the machine's own name has an address, which torchrun and gloo look up."""
    if not unknown:
        return Line("host name", "ok", name)
    return Line(
        "host name",
        "warn",
        f"{name} has no address",
        "./course run works without one. For a torchrun of your own, on one machine: add --local-addr 127.0.0.1 and "
        f"export GLOO_SOCKET_IFNAME=lo; or for all programs: echo 127.0.0.1 {name} | sudo tee -a /etc/hosts",
    )


def launcher_line(left: Sequence[str]) -> Line:
    """Whether another launcher has told this process that it is one rank of many."""
    if not left:
        return Line("launcher", "ok", "no variables of another one")
    return Line(
        "launcher",
        "warn",
        f"{', '.join(left)} set by another launcher",
        f"./course run ignores them; for programs of your own: unset {' '.join(left)}",
    )


def rate_line(what: str, measured: float, printed: float, share: float, source: str) -> Line:
    """A measured rate against what a sound machine reaches of the printed one."""
    found = f"{measured / 1e9:,.0f} GB/s, {measured / printed:.0%} of the printed {printed / 1e9:,.0f} ({source})"
    if measured >= DEGRADED * share * printed:
        return Line(what, "ok", f"healthy: {found}")
    return Line(
        what,
        "warn",
        f"degraded: {found}; a sound machine reaches about {share:.0%}",
        "look who else uses the machine (nvidia-smi); rent another one",
    )


def _measured(seen: list[Gpu]) -> list[Line]:
    """The bandwidth of a copy inside the first GPU, and of an all-reduce over all of them, against the data sheet."""

    name = fact_name(seen[0].name)
    if name is None:
        return [
            Line(
                "copy",
                "warn",
                f"not measured: the facts have no data sheet of {seen[0].name}",
                "compare with the maker's own",
            )
        ]
    return [_copy_line(name), *([all_reduce_line(name, len(seen))] if len(seen) > 1 else [])]


def _copy_line(name: str) -> Line:
    """The first GPU's memory bandwidth, by a copy."""
    import torch

    from course_lib.estimate.facts import device

    if not torch.cuda.is_available():
        return Line("copy", "warn", "not measured: torch does not see the GPU", "the line on torch says why")
    x = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    y, times = torch.empty_like(x), []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        y.copy_(x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    fact = device(name).bandwidth
    return rate_line("copy", 2 * x.nbytes / median(times[5:]), float(fact), COPY, fact.source)


def all_reduce_line(name: str, count: int, starter: Callable[..., torchrun.Ended] = torchrun.run) -> Line:
    """Bus bandwidth of an all-reduce over all GPUs of this machine, by processes of their own, against the link one
    way."""
    from course_lib.estimate.facts import device

    fact = device(name).link_one_way
    if fact is None:
        return Line("all-reduce", "ok", f"not compared: the facts have no link of {name}")
    with tempfile.TemporaryDirectory(prefix="course-doctor-") as folder:
        flags = [
            "--kinds",
            "all_reduce",
            "--smallest",
            "6.4e7",
            "--largest",
            "2.6e8",
            "--seconds",
            "0.3",
            "--device",
            "cuda",
            "--out",
            folder,
            "--name",
            "links",
        ]
        ended = starter("collectives", flags, count, timeout=PATIENCE, say=None)
        if not ended.ok:
            why = (
                f"did not end in {PATIENCE:.0f} s"
                if ended.timed_out
                else f"failed: {(ended.lines or ('it said nothing',))[-1][:200]}"
            )
            return Line(
                "all-reduce",
                "fail",
                f"over {count} GPUs: {why}",
                "./course run collectives --nproc 2 shows all of it; rent another machine if it stays",
            )
        best = evidence.read(Path(folder) / "links.json")["measured"]["best_bus"]["all_reduce"]
    return rate_line("all-reduce", best, float(fact), LINK, fact.source)


def _shared_memory() -> float:
    try:
        return float(shutil.disk_usage("/dev/shm").total)
    except OSError:
        return 0.0


def _interfaces() -> list[str]:
    try:
        return [name for _, name in socket.if_nameindex()]
    except (AttributeError, OSError):
        return []


def _adapters(folder: Path = Path("/sys/class/infiniband")) -> dict[str, bool]:
    """InfiniBand and RoCE adapters, and whether a port of theirs is active."""
    try:
        return {
            adapter.name: any("ACTIVE" in port.read_text() for port in adapter.glob("ports/*/state"))
            for adapter in sorted(folder.iterdir())
        }
    except OSError:
        return {}


def _open_files() -> int:
    try:
        import resource

        return int(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    except (ImportError, ValueError):
        return 0


def as_evidence() -> evidence.Evidence:
    """The look as an evidence file."""
    seen = lines()
    return evidence.evidence(
        "doctor",
        setup={
            "gpus": [asdict(gpu) for gpu in gpus()],
            "topology": topology(),
            "container": Path("/.dockerenv").exists(),
        },
        raw={"lines": [asdict(line) for line in seen]},
        measured={"ok": all(line.state != "fail" for line in seen)},
    )
