"""torchrun for processes of one machine, whatever that machine is called: `python -m course_runs.launcher`, with
torchrun's flags.

torchrun takes the machine's own name as the address of rank 0. In containers, and on laptops that changed networks,
that name often has no address, and the ranks wait for minutes. Here they meet on the loopback address. A failure is
told in one line for each process.
"""

import contextlib
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence

WAIT = 3.0  # s in which a name must have an address; a name server that is silent takes longer
_LAUNCHERS: tuple[str, ...] = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "NODE_RANK",
)
_LAUNCHERS += ("MASTER_ADDR", "MASTER_PORT", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")
_FAMILIES = ("TORCHELASTIC_", "PET_")  # what torchrun sets, and the defaults of its flags
FAILED = "torchrun: rank"  # how a line on a failed process begins


def left_over(environment: Mapping[str, str]) -> list[str]:
    """Variables by which another launcher, such as a Kubernetes job, told this process that it is one rank of many."""
    return sorted(name for name in environment if name in _LAUNCHERS or name.startswith(_FAMILIES))


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what another launcher left in it: a run starts ranks of its own."""
    left = set(left_over(environment))
    return {name: value for name, value in environment.items() if name not in left}


def loopback() -> str:
    """The address at which processes of this machine meet: 127.0.0.1, or ::1 where there is only IPv6."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family) as probe:
                probe.bind((address, 0))
            return address
        except OSError:
            continue
    return "127.0.0.1"


def endpoint(port: int = 0) -> str:
    """A rendezvous endpoint on the loopback address; port 0: any that is free."""
    address = loopback()
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def flags(extra: Sequence[str] = ()) -> list[str]:
    """torchrun's flags for ranks of this machine: a rendezvous of their own, unless `extra` flags name one."""
    own = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint(), "--rdzv-id", str(uuid.uuid4())]
    return [*([] if "--rdzv-endpoint" in extra else own), "--local-addr", loopback(), *extra]


def unknown_name(name: str, wait: float = WAIT) -> bool:
    """Whether no address is found for the name of a machine within `wait` seconds. The search for one cannot be broken
    off, only left."""
    found: list[object] = []

    def look() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found.extend(socket.getaddrinfo(name, None))

    search = threading.Thread(target=look, daemon=True)
    search.start()
    search.join(wait)
    return not found


def variables() -> dict[str, str]:
    """Variables with which neither gloo nor a rank looks up the machine's own name."""
    names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
    device = next((name for name in ("lo", "lo0") if name in names), "")
    return {"RES_OPTIONS": "timeout:1 attempts:1", **({"GLOO_SOCKET_IFNAME": device} if device else {})}


def main(argv: Sequence[str]) -> int:
    """Run torchrun; 1 if a process failed or torchrun was ended by a signal, after a line on each."""
    # torchrun notes the full name of the machine with each event; a silent name server would cost seconds each time.
    socket.getfqdn = lambda name="": name or socket.gethostname()
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    try:
        torchrun(list(argv))
    except ChildFailedError as error:
        first, _ = error.get_first_failure()
        for rank, failure in error.failures.items():
            if rank != first and failure.exitcode == -signal.SIGTERM:
                continue  # torchrun itself ended it, because of the first
            ended = f"exitcode: {failure.exitcode} ({failure.signal_name()})".replace(" (<N/A>)", "")
            print(f"{FAILED} {rank} failed, {ended}, pid: {failure.pid}", file=sys.stderr, flush=True)
        return 1
    except SignalException as error:
        print(f"torchrun: got signal: {error.sigval:d} ({error.sigval.name})", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
