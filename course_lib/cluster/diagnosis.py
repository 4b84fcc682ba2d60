"""Why a run ended: what each rank waits for in a deadlock, and what was never received. The learner's own lines come
first."""

from collections.abc import Iterable

from course_lib.cluster.errors import ClusterError, Deadlock, Mismatch, Wait
from course_lib.cluster.message_exchange import Exchange, Operation, Posted, RunState
from course_lib.cluster.source_lines import line_text


def unfinished(state: RunState, exchange: Exchange) -> ClusterError | None:
    """The error of a run in which no rank can move, though some have not returned or messages are left."""
    if not all(state.done):
        return Deadlock(tuple(_wait(state, exchange, op) for op in state.blocked if op is not None))
    return left_over(exchange.posted)


def near_matches(posted: Posted, op: Operation) -> Iterable[str]:
    """The operations of the other rank that almost match this one, in words."""
    for (send, group, src, dst, tag), queue in posted.items():
        if queue and send != op.send and (src, dst) == (op.peer, op.rank):
            other = queue[0]
            if group == op.group and tag != op.tag:
                yield f"rank {src} offers {other.what()} at {line_text(other.line)}: the tags differ"
            elif group != op.group:
                yield f"rank {src} offers {other.what()} in another group"


def _wait(state: RunState, exchange: Exchange, op: Operation) -> Wait:
    group = state.groups[op.group] if op.group else ()
    kind, missing = op.missing(state)
    notes = [f"posted at {line_text(op.line)}"] if op.at and op.at != op.line else []
    notes += [*exchange.notes(op), *near_matches(exchange.posted, op)]
    if op.name.startswith("is_completed"):
        kind = "poll"
    notes += [f"rank {r} has finished after {state.calls[r]} calls" for r in missing[:4] if state.done[r]]
    line = line_text(op.at or op.line)
    return Wait(op.rank, missing, op.call, op.what(), line, group, "; ".join(notes), kind)


def left_over(posted: Posted) -> Mismatch | None:
    """The error of a message that was never received, or of a receive that was never filled."""
    for (send, _, src, dst, _), queue in sorted(posted.items(), key=lambda item: item[0][1:]):
        for op in queue:
            what = f"rank {src}, call {op.call}, {op.what()}, at {line_text(op.line)}."
            if send:
                return Mismatch(
                    f"A message was never received: {what} Rank {dst} has finished; give it a matching recv, or "
                    f"do not send."
                )
            return Mismatch(f"A receive was never filled: {what} Nobody sent it; and its wait() is missing.")
    return None
