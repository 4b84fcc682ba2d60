"""What the variables of NCCL, Gloo and torch in this environment do to a run: what holds it back, and names that this
machine does not have.

NCCL reads a list of interfaces or adapters as beginnings of names: `eth` is every eth0, eth1, …; `=eth0` is that name
alone, and `^docker` is everything but those.
"""

from collections.abc import Mapping, Sequence

CONTAINERS = ("docker", "veth", "br-", "virbr", "cni", "flannel")  # networks that end inside the machine
TUNED = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS", "NCCL_BUFFSIZE")


def held_back(environment: Mapping[str, str], infiniband: bool) -> list[str]:
    """Variables that switch a path off which this machine has."""
    off = [name for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE") if environment.get(name, "0") != "0"]
    off += ["NCCL_P2P_LEVEL"] if environment.get("NCCL_P2P_LEVEL", "").upper() in ("LOC", "0") else []
    return off + (["NCCL_IB_DISABLE"] if infiniband and environment.get("NCCL_IB_DISABLE", "0") != "0" else [])


def left_over(environment: Mapping[str, str]) -> list[str]:
    """What a search for an error left behind, as NAME=value: it prints much, makes calls wait, or replaces NCCL's own
    choice."""
    found = []
    if environment.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE", "ABORT"):
        found.append("NCCL_DEBUG")
    if environment.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL":
        found.append("TORCH_DISTRIBUTED_DEBUG")
    found += [
        name
        for name in ("CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_BLOCKING_WAIT")
        if environment.get(name, "0") not in ("0", "")
    ]
    found += [name for name in TUNED if environment.get(name)]
    return [f"{name}={environment[name]}" for name in found]


def own(interfaces: Sequence[str]) -> list[str]:
    """The interfaces that lead out of this machine."""
    return [name for name in interfaces if name != "lo" and not name.startswith(CONTAINERS)]


def chosen(text: str, names: Sequence[str]) -> list[str]:
    """Which of `names` a list such as `eth,ib`, `=eth0` or `^docker` selects, as NCCL reads it."""
    negated, rest = text.startswith("^"), text.lstrip("^")
    exact, rest = rest.startswith("="), rest.lstrip("=")
    parts = [part.strip().partition(":")[0] for part in rest.split(",") if part.strip()]
    return [
        name for name in names if negated != any(name == part if exact else name.startswith(part) for part in parts)
    ]


def missing(environment: Mapping[str, str], interfaces: Sequence[str], adapters: Mapping[str, bool]) -> tuple[str, str]:
    """A variable that selects nothing of this machine, or nothing that leads out of it: what is wrong and the way out;
    "", "" for none.

    `adapters`: InfiniBand or RoCE adapters, and whether a port of theirs is active.
    """
    out = own(interfaces)
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        text = environment.get(name, "")
        picked = chosen(text if name.startswith("NCCL") or text.startswith(("^", "=")) else f"={text}", interfaces)
        if text and not picked:
            return (
                f"{name}={text} is no network of this machine ({', '.join(interfaces) or 'it has none'})",
                f"export {name}={out[0]}" if out else f"unset {name}",
            )
        if text and not set(picked) & set(out):
            return (
                f"{name}={text} selects {', '.join(picked)}, which ends inside this machine",
                f"export {name}={out[0]} for runs on several machines" if out else f"unset {name}",
            )
    text = environment.get("NCCL_IB_HCA", "")
    picked = chosen(text, list(adapters)) if text else list(adapters)
    active = [name for name, up in adapters.items() if up]
    if text and not picked:
        return (
            f"NCCL_IB_HCA={text} is no adapter of this machine ({', '.join(adapters) or 'it has none'})",
            f"export NCCL_IB_HCA={','.join(active)}" if active else "unset NCCL_IB_HCA",
        )
    down = [name for name in picked if not adapters[name]]
    if down and active:
        return (
            f"no port of {', '.join(down)} is active, and NCCL may choose it",
            f"export NCCL_IB_HCA={','.join(active)}",
        )
    return "", ""
