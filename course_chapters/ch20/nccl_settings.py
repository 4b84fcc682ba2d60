"""The settings of NCCL and of torch's process group that matter in practice, and what `course doctor` knows of them."""

from __future__ import annotations

from IPython.display import Markdown

from course_chapters.table import columns

READ = "NCCL user guide, Environment Variables; ProcessGroupNCCL.hpp and FlightRecorder.hpp of torch 2.13"
SETTINGS: tuple[tuple[str, str, str], ...] = (  # name, what it does, when to set it
    ("NCCL_SOCKET_IFNAME", "IP interfaces, by beginnings of their names; `=` for a whole name, `^` excludes", "keep"),
    ("NCCL_IB_HCA", "InfiniBand or RoCE adapters, by the same rules", "keep"),
    ("NCCL_ALGO", "which algorithms may run, such as Ring or Tree", "search"),
    ("NCCL_PROTO", "which protocols may run; LL128 where it is not supported can corrupt data", "search"),
    ("NCCL_IB_DISABLE", "1: no InfiniBand or RoCE, but another transport, such as sockets", "search"),
    ("NCCL_P2P_DISABLE", "1: no direct access between GPUs over NVLink or PCIe", "search"),
    ("NCCL_DEBUG", "WARN prints errors; INFO also what was chosen", "WARN may stay"),
    ("TORCH_FR_BUFFER_SIZE", "calls that each rank's flight recorder keeps; 0 turns it off", "keep"),
    ("TORCH_NCCL_DUMP_ON_TIMEOUT", "1: write the flight recorder when a collective times out", "keep"),
    ("TORCH_NCCL_ENABLE_TIMING", "1: record when each collective begins", "search"),
    ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "seconds after which a process whose watchdog is stuck is ended", "keep"),
)


def settings_table() -> Markdown:
    """Each setting, what it does, and whether it may stay in a job script."""
    rows: list[tuple[object, ...]] = [(f"`{name}`", does, when) for name, does, when in SETTINGS]
    return columns("variable | what it does | keep it, or only in a search", rows, f"Sources: {READ}.")
