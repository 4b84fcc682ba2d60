"""Why a run ended: what each rank waits for in a deadlock, and what was never received. The learner's own lines come
first."""

from course_lib.cluster.errors import Mismatch, Wait
from course_lib.cluster.message_exchange import Exchange, Operation, Posted, RunState
from course_lib.cluster.source_lines import line_text


def waits(state: RunState, exchange: Exchange) -> tuple[Wait, ...]:
    """A `Wait` for each waiting rank."""
    return tuple(_wait(state, exchange, op) for op in state.blocked if op is not None)


def _wait(state: RunState, exchange: Exchange, op: Operation) -> Wait:
    group = state.groups[op.group] if op.group else ()
    kind, missing = op.missing(state)
    notes = [f"posted at {line_text(op.line)}"] if op.at and op.at != op.line else []
    notes += exchange.notes(op)
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
