"""What evidence of collectives may say at most: the link, the launch, the GPU's clock, and the file's own rows, lines
and kinds.

A forged file passes only where its rows follow a device's limits, its lines and best bandwidths follow from its rows,
and, on a GPU, its times are numbers that the GPU's clock can give. Passing is not proof: such a file is still only
claimed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles

from course_lib.estimate.facts import devices
from course_lib.estimate.roofline import fit_alpha_beta
from course_lib.messages import count_text
from course_runs.evidence import Evidence
from course_runs.evidence_fields import Sweep, SweepRow
from course_runs.gate import APART, ERROR, Gate
from course_runs.gpus import gpu, quickest_seconds
from course_runs.ring_bytes import ring_sent
from course_runs.server_bounds import server_gates

DIP = 3.0  # times that a GPU may need for a message of what it needs for a larger one: algorithms change between sizes
QUICKER = 2.0  # a small message this many times faster than any published one means a faulty clock
LARGE = 1e7  # bytes from which on the link counts, and not the launch
FOLLOWS = 1e-6  # relative


def links(content: Evidence, device: str, link: float, on_gpu: bool) -> Iterator[Gate]:
    """The bounds on a sweep. `device`: the name that the limits are of; `link`: bytes/s that one device sends at
    most."""
    ranks = content["setup"]["ranks"]
    rows = [row for row in content["raw"]["rows"] if ranks > 1 and {"kind", "nbytes", "median"} <= set(row)]
    if not rows:
        return
    fastest = max(rows, key=lambda row: least_sent(row["kind"], row["nbytes"], ranks, device) / row["median"])
    sent = least_sent(fastest["kind"], fastest["nbytes"], ranks, device) / fastest["median"]
    yield Gate(
        "no faster than the link",
        sent <= ERROR * link,
        f"{fastest['kind']} {sent / 1e9:,.2f} of at most {link / 1e9:,.0f} GB/s",
    )
    least, floor = min(row["median"] for row in rows), quickest_seconds("NCCL" if on_gpu else "process") / QUICKER
    yield Gate("no faster than a launch", least >= floor, f"{least * 1e6:,.2f} µs, and at least {floor * 1e6:,.2f}")
    odd = [row for row in rows if row.get("seconds") and not _medians_follow(row)]
    yield Gate("medians follow from raw times", not odd, f"{len(rows) - len(odd)} of {len(rows)} sizes")
    odd = [row for row in rows if not _rates_follow(row, ranks)]
    yield Gate("bus bandwidth follows", not odd, f"{len(rows) - len(odd)} of {len(rows)} sizes")
    odd = [row for row in rows if row["nbytes"] % (4 * ranks)]
    yield Gate("messages are whole numbers for every rank", not odd, f"{len(rows) - len(odd)} of {len(rows)} sizes")
    yield from _summary(content["measured"], rows, ranks)
    calls = [(row["kind"], row["nbytes"], row["median"]) for row in rows]
    yield from server_gates(content, ranks, device, calls)
    if on_gpu:
        yield from _on_a_gpu(rows, ranks)


def least_sent(kind: str, nbytes: float, ranks: int, device: str) -> float:
    """Bytes that a rank sends at least: those of a ring, or each byte once where the switch adds up for an
    all-reduce."""
    sent = ring_sent(kind, nbytes, ranks)
    return min(sent, nbytes) if kind == "all_reduce" and device in devices() and gpu(device).switch_adds else sent


def by_kind(rows: Sequence[SweepRow]) -> dict[str, list[SweepRow]]:
    """The rows of each kind, the smallest message first."""
    found: dict[str, list[SweepRow]] = {}
    for row in sorted(rows, key=lambda row: row["nbytes"]):
        found.setdefault(row["kind"], []).append(row)
    return found


def _summary(measured: Sweep, rows: Sequence[SweepRow], ranks: int) -> Iterator[Gate]:
    """Lines and best bandwidths, computed again from the rows."""
    kinds = by_kind(rows)
    best = measured.get("best_bus") or {}
    wrong = [
        kind
        for kind, said in best.items()
        if not _close(said, max((_bus(row, ranks) for row in kinds.get(kind, ())), default=math.nan))
    ]
    yield Gate("best bandwidths follow from the sizes", not wrong, ", ".join(wrong) or f"{len(best)} kinds")
    fits = {kind: line for kind, line in (measured.get("fits") or {}).items() if line is not None}
    wrong = [
        kind
        for kind, line in fits.items()
        if kind not in kinds or not _line_follows(line, kinds[kind], ring_sent(kind, 1.0, ranks))
    ]
    yield Gate("lines follow from the sizes", not wrong, ", ".join(wrong) or count_text(len(fits), "line"))


def _line_follows(line: Mapping[str, float], rows: Sequence[SweepRow], factor: float) -> bool:
    try:
        alpha, beta = fit_alpha_beta([row["nbytes"] for row in rows], [row["median"] for row in rows])
    except ValueError:
        return False
    return (
        math.isclose(alpha, line["alpha"], rel_tol=1e-3, abs_tol=1e-9)
        and math.isclose(beta, line["beta"], rel_tol=1e-3)
        and math.isclose(line["bus"], line["beta"] * factor, rel_tol=1e-3)
    )


def _on_a_gpu(rows: Sequence[SweepRow], ranks: int) -> Iterator[Gate]:
    """What holds where ranks do not wait for a core: larger messages are not quicker, and all kinds use one link."""
    kinds = by_kind(rows)
    dips = []
    for kind, mine in kinds.items():
        slowest = 0.0
        for row in mine:
            quickest = min(row.get("seconds") or [row["median"]])
            if slowest > DIP * quickest:
                dips.append(f"{kind} {row['nbytes']:,} B")
            slowest = max(slowest, quickest)
    yield Gate("larger messages are not quicker", not dips, ", ".join(dips[:3]) or f"{len(rows)} sizes")
    large = {
        kind: max(_bus(row, ranks) for row in mine if row["nbytes"] >= LARGE)
        for kind, mine in kinds.items()
        if mine[-1]["nbytes"] >= LARGE
    }
    if len(large) > 1:
        slow, quick = min(large, key=lambda kind: large[kind]), max(large, key=lambda kind: large[kind])
        ratio = large[quick] / large[slow]
        yield Gate("all kinds share one link", ratio <= APART, f"{quick} is {ratio:.1f} times as fast as {slow}")


def _medians_follow(row: SweepRow) -> bool:
    """Whether a median and quartiles are those of their times; the file keeps the first fifty of them."""
    times, ordered = row["seconds"], row.get("q1", row["median"]) <= row["median"] <= row.get("q3", row["median"])
    if row["repeats"] > len(times):
        return ordered and min(times) / APART <= row["median"] <= max(times) * APART
    if not ordered or not _close(median(times), row["median"]):
        return False
    if "q1" not in row or len(times) < 2:
        return True
    low, _, high = quantiles(times, n=4)
    return _close(low, row["q1"]) and _close(high, row["q3"])


def _bus(row: SweepRow, ranks: int) -> float:
    return ring_sent(row["kind"], row["nbytes"], ranks) / row["median"]


def _rates_follow(row: SweepRow, ranks: int) -> bool:
    bus = _bus(row, ranks)
    return _close(row.get("bus", bus), bus) and _close(
        row.get("algorithm", row["nbytes"] / row["median"]), row["nbytes"] / row["median"]
    )


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=FOLLOWS)
