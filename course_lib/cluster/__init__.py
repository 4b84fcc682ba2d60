"""The metered cluster: an ordinary function of a communicator, run on any number of ranks in one process.

    def token(comm):
        ...comm.rank, comm.size, comm.send, comm.recv, comm.isend, comm.irecv...

    run = simulate(token, ranks=8)
    run.results[3], run.meter.bytes_sent[3], run.seconds, run.show()

Names are loaded when they are first used, so that the codec can be had without torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "comm": ("AVG", "MAX", "MIN", "PRODUCT", "SUM", "Comm", "P2POp", "Work"),
    "errors": ("ClusterError", "Deadlock", "Mismatch", "RankError", "Refused", "Unfinished", "Wait"),
    "interleave": ("Case", "adversaries", "interleavings"),
    "kernel": ("Adversary",),
    "launcher": ("launch",),
    "meter": ("Meter",),
    "simulation": ("Run", "attempt", "simulate"),
    "topology": ("Level", "Topology"),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_WHERE)  # noqa: PLE0605 - one list of names, above


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"course_lib.cluster has no {name!r}; it has {', '.join(__all__)}.")
    value = globals()[name] = getattr(import_module(f"course_lib.cluster.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
