"""Upper bounds on evidence from several servers: all data between servers passes the PCIe ports of their GPUs.

We bound by the ports and not by the network cards, because rented servers have different cards and a file could name
any. NCCL sends to a network card either directly from GPU memory or through CPU memory; both paths pass the PCIe port
of a GPU in that server. Where NVLink itself connects servers (GB200), the facts have no port, so there is no bound.
"""

from collections.abc import Iterator, Sequence

from course_lib.estimate.facts import devices
from course_lib.messages import count_text
from course_runs.device_bounds import on_gpu
from course_runs.evidence import Evidence
from course_runs.gate import ERROR, Gate
from course_runs.gpus import gpu
from course_runs.ring_bytes import ring_sent


def ranks_of_servers(content: Evidence, ranks: int, device: str) -> list[int]:
    """How many ranks each server has; empty if neither the file nor the facts determine it.

    Older files do not record their servers. For these we assume the fewest servers that can hold the ranks.
    """
    known = content["setup"].get("servers")
    if known:
        return list(known) if isinstance(known, list) else [known]
    most = gpu(device).in_server if device in devices() else None
    if most is None or ranks <= most:
        return []
    full, rest = divmod(ranks, int(most))
    return [int(most)] * full + ([rest] if rest else [])


def server_gates(
    content: Evidence, ranks: int, device: str, calls: Sequence[tuple[str, float, float]]
) -> Iterator[Gate]:
    """Whether the servers can hold the ranks and carry these calls: kind, bytes of the whole tensor, seconds."""
    servers, known = ranks_of_servers(content, ranks, device), gpu(device) if device in devices() else None
    if not servers:
        if on_gpu(content):
            yield _each_has_one(content, ranks)
        return
    fits = all(type(here) is int and here > 0 for here in servers) and sum(servers) == ranks
    held = not fits or known is None or known.in_server is None or max(servers) <= known.in_server
    yield Gate(
        "the servers hold the ranks",
        fits and held,
        f"{count_text(ranks, 'rank')} on {count_text(len(servers), 'server')}: {servers}",
    )
    if fits and held and on_gpu(content):
        yield _each_has_one(content, max(servers))
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


def _each_has_one(content: Evidence, ranks: int) -> Gate:
    """Whether the server with most ranks has a GPU for each."""
    gpus = content["environment"]["gpus"]
    return Gate("each rank has a GPU", ranks <= gpus, f"{count_text(ranks, 'rank')}, {count_text(gpus, 'GPU')}")


def crossing(kind: str, nbytes: float, ranks: int, here: int) -> float:
    """Bytes that any algorithm must send into or out of a server with `here` of the ranks, whichever is more.

    The bound also holds where switches do the adding: a sum needs each server's own contribution, and a gather needs
    what the others hold.
    """
    there = (ranks - here) / ranks
    return {
        "all_reduce": nbytes,
        "all_gather": there * nbytes,
        "reduce_scatter": there * nbytes,
        "all_to_all": here * there * nbytes,
        "send": nbytes,  # from each rank to the next: at least one rank of a server sends to another server
    }.get(kind, 0.0)


def calls_of_a_step(content: Evidence, seconds: float) -> list[tuple[str, float, float]]:
    """A training step's calls, if all ranks form one axis of parallelism, so that every call involves all of them."""
    layout, sent = content["setup"]["layout"], content["measured"].get("wire", {})
    ranks = layout["ranks"]
    if ranks == 1 or ranks not in [layout.get(axis) for axis in ("ddp", "fsdp", "cp", "tp")]:
        return []
    return [(kind, nbytes / ring_sent(kind, 1.0, ranks), seconds) for kind, nbytes in sent.items()]
