"""Error messages for ranks that deadlock, disagree, or leave a message unreceived. The learner's own lines come first."""

from __future__ import annotations

import math
from collections.abc import Iterable

from course_lib.cluster.errors import Mismatch, Wait
from course_lib.cluster.matching import Posted
from course_lib.cluster.operation import Operation
from course_lib.cluster.protocol import ANY
from course_lib.cluster.run_state import RunState
from course_lib.cluster.source_lines import line_text
from course_lib.cluster.stream_order import StreamOrder


def waits(state: RunState, posted: Posted, streams: StreamOrder | None) -> tuple[Wait, ...]:
    """A `Wait` for each waiting rank."""
    return tuple(_wait(state, posted, streams, op) for op in state.blocked if op is not None)


def _wait(state: RunState, posted: Posted, streams: StreamOrder | None, op: Operation) -> Wait:
    notes: list[str] = []
    group = state.groups[op.group] if op.group else ()
    if op.at and op.at != op.line:
        notes.append(f"posted at {line_text(op.line)}")
    if op.collective is not None:
        missing = tuple(r for r in op.collective.group if r not in op.collective.operations)
        kind = "collective"
    elif op.peer == ANY:
        missing = tuple(r for r in state.groups[op.group] if r != op.rank and not state.done[r])
        kind = "recv"
    else:
        missing, kind = (op.peer,), "send" if op.send else "recv"
        ahead = streams and streams.ahead_of(op)
        if ahead:
            notes.append(
                f"behind call {ahead.call}, {ahead.what()}: "
                "operations of one pair go in the order of issue unless batched"
            )
        notes += _near_misses(posted, op)
    if op.name.startswith("is_completed"):
        kind = "poll"
    notes += [f"rank {r} has finished after {state.calls[r]} calls" for r in missing[:4] if state.done[r]]
    line = line_text(op.at or op.line)
    return Wait(op.rank, missing, op.call, op.what(), line, group, "; ".join(notes), kind)


def _near_misses(posted: Posted, op: Operation) -> Iterable[str]:
    """Operations of the other rank that almost match."""
    for (send, group, src, dst, tag), queue in posted.items():
        if queue and send != op.send and (src, dst) == (op.peer, op.rank):
            other = queue[0]
            if group == op.group and tag != op.tag:
                yield f"rank {src} offers {other.what()} at {line_text(other.line)}: the tags differ"
            elif group != op.group:
                yield f"rank {src} offers {other.what()} in another group"


def left_over(posted: Posted) -> Mismatch | None:
    """The error of a message that was never received, or of a receive that was never filled."""
    for (send, _, src, dst, _), queue in sorted(posted.items(), key=lambda item: item[0][1:]):
        for op in queue:
            where = line_text(op.line)
            if send:
                return Mismatch(
                    f"A message was never received: rank {src}, call {op.call}, {op.what()}, at {where}. "
                    f"Rank {dst} has finished; give it a matching recv, or do not send."
                )
            return Mismatch(
                f"A receive was never filled: rank {src}, call {op.call}, {op.what()}, at {where}. "
                "Nobody sent it; and its wait() is missing."
            )
    return None


def message_mismatch(send: Operation, recv: Operation) -> Mismatch:
    """The error of a send and a receive whose dtypes, sizes or shapes differ."""
    what = (
        "dtype" if send.dtype != recv.dtype else "size" if math.prod(send.shape) != math.prod(recv.shape) else "shape"
    )
    return Mismatch(
        f"{what} differs between the two ends of a message: rank {send.rank} sends {send.size_text()} "
        f"(call {send.call}, {line_text(send.line)}), rank {recv.rank} receives into {recv.size_text()} "
        f"(call {recv.call}, {line_text(recv.line)}). Give the receiving tensor the {what} of what is sent."
    )
