"""Messages between two ranks, from posting through matching and transfer to delivery."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.cluster.buffers import Buffers
from course_lib.cluster.delivery import Delivery
from course_lib.cluster.diagnosis import message_mismatch
from course_lib.cluster.matching import Matcher
from course_lib.cluster.operation import Operation, same_layout
from course_lib.cluster.run_state import RunState
from course_lib.cluster.stream_order import StreamOrder
from course_lib.cluster.traffic import Traffic


class Exchange:
    """Point-to-point communication. `streams` is None if operations need not keep the order of issue."""

    def __init__(
        self,
        state: RunState,
        matcher: Matcher,
        buffers: Buffers,
        streams: StreamOrder | None,
        delivery: Delivery,
        traffic: Traffic,
    ) -> None:
        self._state, self._matcher, self._buffers, self._streams = state, matcher, buffers, streams
        self._delivery, self._traffic = delivery, traffic

    def post(self, ops: Iterable[Operation]) -> None:
        """Add new sends and receives."""
        for op in ops if self._streams is None else self._streams.enter(ops):
            self._offer(op)

    def _offer(self, op: Operation) -> None:
        op.active = True
        mate = self._matcher.take(op)
        if mate is not None:
            send, recv = (op, mate) if op.send else (mate, op)
            self._match(send, recv, max(op.time, mate.time))
            return
        self._matcher.post(op)
        if op.send and self._buffers.depth and self._buffers.take(op):
            self._accept(op, op.time)

    def _accept(self, send: Operation, time: float) -> None:
        """A buffer has accepted the message: the sender continues, and the bytes are transferred."""
        send.accepted = True
        self._traffic.carry(send, time)
        self._delivery.accepted(send, time)

    def _match(self, send: Operation, recv: Operation, time: float) -> None:
        if send.dtype != recv.dtype or not same_layout(send.shape, recv.shape):
            self._state.fault = message_mismatch(send, recv)
            return
        recv.peer = send.rank
        if not send.accepted:
            self._traffic.carry(send, time, recv.known)
        send.matched = recv.matched = True
        recv.step, recv.finish = send.step, max(send.arrival, time)
        self._delivery.matched(send, recv)
        if send.accepted:
            following = self._buffers.free(send)
            if following is not None:
                self._accept(following, max(following.time, time))
        if self._streams is not None:
            self._leave_lanes(self._streams, send, recv, time)

    def _leave_lanes(self, streams: StreamOrder, send: Operation, recv: Operation, time: float) -> None:
        for op in (send, recv):
            if self._state.fault is None:
                for later in streams.leave(op, time):
                    self._offer(later)
