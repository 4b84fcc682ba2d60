"""What evidence of several servers may say at most: data leaves a server's GPUs through their PCIe ports, whatever network cards wait there.

A port is the bound, and not the network cards of the usual server: rented servers differ in these, and a file could name any. NCCL sends
directly from a GPU's memory to a card, or through the processor's; both ways pass the port of a GPU of that server. Where NVLink itself joins
servers (GB200), the facts have no port, and there is no bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from course_lib.facts import devices, gpu
from course_lib.runs.evidence import Evidence
from course_lib.runs.gate import ERROR, Gate
from course_lib.runs.ring_bytes import ring_sent


def ranks_of_servers(content: Evidence, ranks: int, device: str) -> list[int]:
    """How many ranks each server has; empty where the file and the facts leave it open.

    A file from before servers were recorded has at least as many as its GPUs need.
    """
    known = content["setup"].get("servers")
    if known:
        return list(known)
    most = gpu(device).in_server if device in devices() else None
    if most is None or ranks <= most:
        return []
    full, rest = divmod(ranks, int(most))
    return [int(most)] * full + ([rest] if rest else [])


def server_gates(
    content: Evidence, ranks: int, device: str, calls: Sequence[tuple[str, float, float]]
) -> Iterator[Gate]:
    """Whether the servers hold the ranks, and carry these calls: kind, bytes of the whole tensor, seconds."""
    servers, known = ranks_of_servers(content, ranks, device), gpu(device) if device in devices() else None
    if not servers:
        return
    fits = sum(servers) == ranks and min(servers) > 0
    held = known is None or known.in_server is None or max(servers) <= known.in_server
    yield Gate("the servers hold the ranks", fits and held, f"{ranks} ranks on {len(servers)}: {servers}")
    port = known.port_one_way if known is not None else None
    if not fits or len(servers) == 1 or port is None or not calls:
        return
    sent, name = max(
        (crossing(kind, nbytes, ranks, here) / here / seconds, kind)
        for kind, nbytes, seconds in calls
        for here in servers
    )
    yield Gate(
        "no more between servers than their ports carry",
        sent <= ERROR * port,
        f"{name} {sent / 1e9:,.2f} of at most {port / 1e9:,g} GB/s for each GPU",
    )


def crossing(kind: str, nbytes: float, ranks: int, here: int) -> float:
    """Bytes that must cross the border of a server with `here` of the ranks, in the direction that has more of them.

    By any algorithm, also where switches add up: a sum needs each server's own part of it, a gather what the others have.
    """
    there = (ranks - here) / ranks
    return {
        "all_reduce": nbytes,
        "all_gather": there * nbytes,
        "reduce_scatter": there * nbytes,
        "all_to_all": here * there * nbytes,
        "send": nbytes,  # from each rank to the next one: at least one of a server's has its next elsewhere
    }.get(kind, 0.0)


def calls_of_a_step(content: Evidence, seconds: float) -> list[tuple[str, float, float]]:
    """A training step's calls, where all ranks share one axis of parallelism and so every call is among all of them."""
    layout, sent = content["setup"]["layout"], content["measured"].get("wire", {})
    ranks = layout["ranks"]
    if ranks == 1 or ranks not in [layout.get(axis) for axis in ("ddp", "fsdp", "cp", "tp")]:
        return []
    return [(kind, nbytes / ring_sent(kind, 1.0, ranks), seconds) for kind, nbytes in sent.items()]
