"""What to say when ranks wait in vain, disagree, or leave something behind: the learner's lines first."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.cluster.errors import Mismatch, Wait
from course_lib.cluster.lines import line_text
from course_lib.cluster.protocol import ANY
from course_lib.cluster.side import Side, size_text

Posted = dict[tuple[bool, int, int, int, int], deque[Side]]  # (sends?, group, rank, peer, tag) -> sides not matched


@dataclass(frozen=True, slots=True)
class Scene:
    """What the kernel knows of ranks that do not move."""

    blocked: list[Side | None]
    groups: list[tuple[int, ...]]
    done: list[bool]
    calls: list[int]
    posted: Posted
    lanes: dict[tuple[int, int, int], deque[list[Side]]]


def waits(scene: Scene) -> tuple[Wait, ...]:
    """Why each rank that waits does so."""
    return tuple(_describe(scene, rank, side) for rank, side in enumerate(scene.blocked) if side is not None)


def _describe(scene: Scene, rank: int, side: Side) -> Wait:
    notes: list[str] = []
    group = scene.groups[side.group] if side.group else ()
    if side.at and side.at != side.line:
        notes.append(f"posted at {line_text(side.line)}")
    if side.collective is not None:
        missing = tuple(r for r in side.collective.group if r not in side.collective.sides)
        kind = "collective"
    elif side.peer == ANY:
        missing = tuple(r for r in scene.groups[side.group] if r != rank and not scene.done[r])
        kind = "recv"
    else:
        missing, kind = (side.peer,), "send" if side.send else "recv"
        notes += _notes(scene, rank, side)
    if side.name.startswith("is_completed"):
        kind = "poll"
    notes += [f"rank {r} has finished after {scene.calls[r]} calls" for r in missing[:4] if scene.done[r]]
    line = line_text(side.at or side.line)
    return Wait(rank, missing, side.call, side.what(), line, group, "; ".join(notes), kind)


def _notes(scene: Scene, rank: int, side: Side) -> Iterable[str]:
    if not side.active and side.lane is not None:
        ahead = scene.lanes[side.lane_of][0][0]
        yield f"behind call {ahead.call}, {ahead.what()}: operations of one pair go in the order of issue unless batched"
    for (send, group, src, dst, tag), queue in scene.posted.items():
        if queue and send != side.send and (src, dst) == (side.peer, rank):
            other = queue[0]
            if group == side.group and tag != side.tag:
                yield f"rank {src} offers {other.what()} at {line_text(other.line)}: the tags differ"
            elif group != side.group:
                yield f"rank {src} offers {other.what()} in another group"


def left_over(posted: Posted) -> Mismatch | None:
    """The error of a message that was never received, or a receive that was never filled."""
    for (send, _, src, dst, _), queue in sorted(posted.items(), key=lambda item: item[0][1:]):
        for side in queue:
            where = line_text(side.line)
            if send:
                return Mismatch(
                    f"A message was never received: rank {src}, call {side.call}, {side.what()}, at {where}. "
                    f"Rank {dst} has finished; give it a matching recv, or do not send."
                )
            return Mismatch(
                f"A receive was never filled: rank {src}, call {side.call}, {side.what()}, at {where}. "
                "Nobody sent it; and its wait() is missing."
            )
    return None


def message_mismatch(send: Side, recv: Side) -> Mismatch:
    """The error of two ends that do not fit."""
    what = (
        "dtype" if send.dtype != recv.dtype else "size" if math.prod(send.shape) != math.prod(recv.shape) else "shape"
    )
    return Mismatch(
        f"{what} differs between the two ends of a message: rank {send.rank} sends {size_text(send)} "
        f"(call {send.call}, {line_text(send.line)}), rank {recv.rank} receives into {size_text(recv)} "
        f"(call {recv.call}, {line_text(recv.line)}). Give the receiving tensor the {what} of what is sent."
    )
