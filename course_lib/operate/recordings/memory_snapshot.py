"""What fills the memory of a GPU, from a snapshot of PyTorch's allocator (`torch.cuda.memory._dump_snapshot`).

The allocator reserves segments from the device and cuts them into blocks. A block knows the Python lines that allocated
it, and from them its role is guessed. The history, if it was recorded, has each allocation and each free: the peak.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.estimate.units import bytes_text, percent_text
from course_lib.messages import Trouble
from course_lib.operate.recordings.report import Items, Report, line_of, whole, word

USED, FREE = ("active_allocated", "active_awaiting_free"), "inactive"
MUCH_FREE, GROWTH = 0.2, 0.02  # shares of what is reserved, and of the peak in a quarter of the history
ROLES = (  # what a frame of the stack says about a block, the first that fits; as pairs of file or function, and role
    (r"torch/optim/|optimizer", "optimizer state"),
    (r"distributed_c10d|_collectives|reducer|nccl", "communication"),
    (r"torch/autograd/|backward", "gradients"),
    (r"forward$|checkpoint\.py", "activations"),
    (r"(__init__|_apply|reset_parameters|convert|to_empty)$", "weights"),
)


def explain_snapshot(snapshot: Mapping[str, Any], name: str) -> Report:
    """The report on one snapshot. Trouble if no segment of a device is in it."""
    report, items = Report("memory snapshot", [name]), Items()
    devices: dict[int, list[Mapping[str, Any]]] = {}
    for segment in items.rows(snapshot.get("segments"), "segments"):
        devices.setdefault(whole(segment.get("device")), []).append(segment)
    if not devices:
        raise Trouble("has no segment: the process had no memory on a GPU.", "dump it while the model is on the GPU")
    traces = snapshot.get("device_traces")
    roles: dict[int, str] = {}  # by the identity of a list of frames, which many blocks share
    report.drawn = {}
    for device, segments in sorted(devices.items()):
        trace = traces[device] if isinstance(traces, (list, tuple)) and device < len(traces) else []
        _device(report, device, segments, trace, items, roles)
    report.notes.append("Roles are guessed from the lines that allocated; blocks without Python lines count as other.")
    return report


def _device(
    report: Report, device: int, segments: Sequence[Any], trace: object, items: Items, roles: dict[int, str]
) -> None:
    by_role, by_line, free = Counter[str](), Counter[str](), [0]
    reserved = sum(max(0, whole(each.get("total_size"))) for each in segments)
    asked = 0  # bytes that the program asked for, without rounding, as the history counts them
    for block in (each for segment in segments for each in items.rows(segment.get("blocks", []), "blocks")):
        size = max(0, whole(block.get("size")))
        if block.get("state") in USED:
            by_role[_role(block.get("frames"), roles)] += size
            by_line[line_of(block.get("frames")) or "no Python line"] += size
            asked += max(0, whole(block.get("requested_size"), size))
        elif block.get("state") == FREE:
            free.append(size)
    used = sum(by_role.values())
    numbers = {"reserved": reserved, "in_use": used, "largest_free": max(free)}
    numbers |= {"by_role": dict(by_role.most_common()), "by_line": dict(by_line.most_common(8))}
    report.drawn[device] = dict(by_role) | {"reserved, not in use": reserved - used}
    report.numbers[f"device {device}"] = numbers
    most = ", ".join(f"{role} {bytes_text(size)}" for role, size in by_role.most_common(4))
    report.add(f"GPU {device}: {bytes_text(used)} in use of {bytes_text(reserved)} reserved. By role: {most}.", "02")
    top = "; ".join(f"{line} {bytes_text(size)} ({percent_text(size / used, 2)})" for line, size in by_line.most_common(3) if used)
    report.add(f"The lines that hold most on GPU {device}: {top}.", "02")
    if reserved - used > MUCH_FREE * reserved:
        share = percent_text((reserved - used) / reserved, 2)
        said = f"{bytes_text(reserved - used)} ({share}) are reserved and not in use; the largest free block has {bytes_text(max(free))}"
        report.add(f"GPU {device}: {said}.", "02", "fragmented allocator")
    _history(report, device, items.rows(trace, "device_traces"), asked, numbers)


def _history(report: Report, device: int, trace: Any, now: int, numbers: dict[str, Any]) -> None:
    """The peak and the growth, from changes backwards from what is in use now; and allocations that failed."""
    changes: list[int] = []
    for each in trace:
        size = max(0, whole(each.get("size")))
        sign = {"alloc": 1, "free_completed": -1}.get(str(each.get("action")), 0)
        changes.append(sign * size)
        if each.get("action") == "oom":
            room = bytes_text(max(0, whole(each.get("device_free"))))
            where = line_of(each.get("frames"))
            report.add(
                f"GPU {device}: an allocation of {bytes_text(size)}{f' at {where}' if where else ''} failed; the device had "
                f"{room} left.",
                "02",
            )
            numbers.setdefault("failed", []).append(size)
    if not any(changes):
        return
    held = [now]
    for change in reversed(changes):
        held.append(max(0, held[-1] - change))
    held.reverse()
    numbers["peak"] = peak = max(held)
    report.add(f"GPU {device}: the recorded history ({len(changes):,} events) peaks at {bytes_text(peak)}.", "02")
    quarter = len(held) // 4
    lows = [min(held[place * quarter : (place + 1) * quarter]) for place in range(4)] if quarter > 8 else []
    if lows and all(after - before > GROWTH * peak for before, after in zip(lows, lows[1:], strict=False)):
        grown = f"from {bytes_text(lows[0])} to {bytes_text(lows[3])}"
        report.add(f"GPU {device}: the lowest memory of each quarter of the history rises, {grown}.", "02", "graph kept")


def _role(frames: object, known: dict[int, str]) -> str:
    """The role that the innermost telling frame of a stack gives a block."""
    if not isinstance(frames, (list, tuple)):
        return "other"
    if id(frames) not in known:
        said = [f"{word(each.get('filename'), 200)} {word(each.get('name'))}" for each in frames[:100] if isinstance(each, dict)]
        telling = (role for text in said for pattern, role in ROLES if re.search(pattern, text))
        known[id(frames)] = next(telling, "other")
    return known[id(frames)]
