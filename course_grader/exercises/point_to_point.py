"""A communicator that only sends and receives, for exercises that build their communication from single messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:  # cards are listed where there is no torch
    from course_lib.cluster import Comm, P2POp, Work
    from course_lib.cluster.dtypes import Array

ALLOWED = "`comm.send`, `recv`, `isend`, `irecv`, `batch_isend_irecv` (with `P2POp`)."


class PointToPoint:
    """`Comm` without its collectives: what an exercise that builds one hands to the answer."""

    __slots__ = ("_comm",)

    def __init__(self, comm: Comm) -> None:
        self._comm = comm

    @property
    def rank(self) -> int:
        """This rank's number."""
        return self._comm.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._comm.size

    def send(self, tensor: Array, dst: int, tag: int = 0) -> None:
        """As `Comm.send`."""
        self._comm.send(tensor, dst, tag)

    def recv(self, tensor: Array, src: int | None = None, tag: int = 0) -> int:
        """As `Comm.recv`."""
        return self._comm.recv(tensor, src, tag)

    def isend(self, tensor: Array, dst: int, tag: int = 0) -> Work:
        """As `Comm.isend`."""
        return self._comm.isend(tensor, dst, tag)

    def irecv(self, tensor: Array, src: int | None = None, tag: int = 0) -> Work:
        """As `Comm.irecv`."""
        return self._comm.irecv(tensor, src, tag)

    def batch_isend_irecv(self, p2p_op_list: Sequence[P2POp]) -> list[Work]:
        """As `Comm.batch_isend_irecv`."""
        return self._comm.batch_isend_irecv(p2p_op_list)

    def __repr__(self) -> str:
        return f"Comm(rank={self.rank}, size={self.size})"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ValueError(
            f"comm.{name} is switched off here: build it from send, recv, isend, irecv and batch_isend_irecv."
        )
