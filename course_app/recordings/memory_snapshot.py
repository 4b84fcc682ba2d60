"""What fills the memory of GPUs, from snapshots of PyTorch's allocator (`torch.cuda.memory._dump_snapshot`).

The allocator reserves segments from the device and cuts them into blocks. A block knows the Python lines that allocated
it, and from them its role is guessed. The history, if it was recorded, has each allocation and each free: the peak.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from course_app.recordings.report import Report, line_of, rank_in, whole, word
from course_lib.estimate.units import bytes_text, percent_text
from course_lib.messages import Trouble

USED = ("active_allocated", "active_awaiting_free")
MUCH_FREE, GROWTH = 0.2, 0.02  # of what is reserved, and of the peak in a quarter of the history: worth a cause
ROLES = (  # what a frame, as file and function, says about a block; the innermost frame that fits one counts
    (r"torch/optim/|optimizer", "optimizer state"),
    (r"distributed_c10d|_collectives|reducer|nccl", "communication"),
    (r"torch/autograd/|backward", "gradients"),
    (r"forward$|checkpoint\.py", "activations"),
    (r"(__init__|_apply|reset_parameters|convert|to_empty)$", "weights"),
)
SIGNS = {"alloc": 1, "free_completed": -1}  # of actions that change what is in use
GUESSED = "Roles are guessed from the lines that allocated; blocks without Python lines count as other."


def explain_snapshots(snapshots: Mapping[str, Mapping[str, object]]) -> Report:
    """The report on snapshots by file name. Trouble for one without a segment of a device."""
    report = Report("memory snapshot", list(snapshots), notes=[GUESSED])
    for place, (name, snapshot) in enumerate(snapshots.items()):
        devices: dict[int, list[Mapping[str, object]]] = {}
        for segment in report.rows(snapshot.get("segments"), "segments"):
            devices.setdefault(whole(segment.get("device")), []).append(segment)
        if not devices:
            raise Trouble(
                "has no segment: the process had no memory on a GPU.", "dump it while the model is on the GPU"
            )
        traces, rank = snapshot.get("device_traces"), rank_in(name)
        for device, segments in sorted(devices.items()):
            known = isinstance(traces, (list, tuple)) and 0 <= device < len(traces)
            where = f"GPU {device}" if len(snapshots) == 1 else f"rank {place if rank is None else rank}, GPU {device}"
            asked = _blocks(report, where, segments)
            _history(report, where, report.rows(traces[device] if known else [], "device_traces"), asked)  # type: ignore[index]
    return report


def _blocks(report: Report, where: str, segments: Iterable[Mapping[str, object]]) -> int:
    """What is in use now, by role and by line; the bytes that were asked for, without the allocator's rounding."""
    by_role, by_line, free, reserved, asked = Counter[str](), Counter[str](), [0], 0, 0
    roles: dict[int, tuple[str, str]] = {}  # by the identity of a list of frames, which many blocks share
    for segment in segments:
        reserved += max(0, whole(segment.get("total_size")))
        for block in report.rows(segment.get("blocks", []), "blocks"):
            size, frames = max(0, whole(block.get("size"))), block.get("frames")
            if block.get("state") not in USED:
                free.append(size)
                continue
            if id(frames) not in roles:
                roles[id(frames)] = _role(frames), line_of(frames) or "no Python line"
            role, line = roles[id(frames)]
            by_role[role] += size
            by_line[line] += size
            asked += max(0, whole(block.get("requested_size"), size))
    used = by_role.total()
    idle = max(0, reserved - used)
    report.numbers[where] = {"reserved": reserved, "in_use": used, "largest_free": max(free), "by_role": dict(by_role)}
    report.numbers[where]["by_line"] = dict(by_line.most_common(8))
    report.held[where] = dict(by_role) | {"reserved, not in use": idle}
    most = ", ".join(f"{role} {bytes_text(size)}" for role, size in by_role.most_common(4))
    top = [
        f"{line} {bytes_text(size)} ({percent_text(size / (used or 1), 2)})" for line, size in by_line.most_common(3)
    ]
    report.add(f"{where}: {bytes_text(used)} in use of {bytes_text(reserved)} reserved. By role: {most}.", "02")
    report.add(f"{where}, the lines that hold most: {'; '.join(top)}.", "02")
    if idle > MUCH_FREE * reserved:
        said = f"{where}: {bytes_text(idle)} ({percent_text(idle / reserved, 2)}) are reserved and not in use"
        report.add(f"{said}; the largest free block has {bytes_text(max(free))}.", "02", "fragmented allocator")
    return asked


def _history(report: Report, where: str, trace: Iterable[Mapping[str, object]], now: int) -> None:
    """The peak and the growth, from changes backwards from what is in use now; and allocations that failed."""
    changes: list[int] = []
    for each in trace:
        size, line = max(0, whole(each.get("size"))), line_of(each.get("frames"))
        changes.append(SIGNS.get(str(each.get("action")), 0) * size)
        if each.get("action") == "oom":
            room = bytes_text(max(0, whole(each.get("device_free"))))
            at = f" at {line}" if line else ""
            report.add(f"{where}: an allocation of {bytes_text(size)}{at} failed; the device had {room} left.", "02")
            report.numbers[where].setdefault("failed", []).append(size)
    if not any(changes):
        return
    held = [now]
    for change in reversed(changes):
        held.append(max(0, held[-1] - change))
    held.reverse()
    report.numbers[where]["peak"] = peak = max(held)
    report.add(f"{where}: the recorded history ({len(changes):,} events) peaks at {bytes_text(peak)}.", "02")
    quarter = len(held) // 4
    lows = [min(held[at * quarter : (at + 1) * quarter]) for at in range(4)] if quarter > 8 else [0, 0]
    if all(after - before > GROWTH * peak for before, after in pairwise(lows)):
        said = f"{where}: the lowest memory of each quarter of the history rises, from {bytes_text(lows[0])}"
        report.add(f"{said} to {bytes_text(lows[3])}.", "02", "graph kept")


def _role(frames: object) -> str:
    rows = frames[:100] if isinstance(frames, (list, tuple)) else ()
    said = [f"{word(each.get('filename'), 200)} {word(each.get('name'))}" for each in rows if isinstance(each, dict)]
    return next((role for text in said for pattern, role in ROLES if re.search(pattern, text)), "other")
