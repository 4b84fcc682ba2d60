"""Saving while training goes on: copy the state, then write the copy in a thread. Memory and waiting are bounded."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole
from course_lib.model.checkpoint.pieces import Piece, write_pieces
from course_lib.model.checkpoint.store import CheckpointStore


@dataclass(frozen=True)
class Stall:
    """What saving took from the training, in seconds."""

    waited: float  # for an earlier checkpoint, because all buffers were in use
    copied: float


class BackgroundSaver:
    """Writes checkpoints behind the training's back, one after the other, from at most `buffers` copies of the state.

    `save` returns once the state is copied: training may change it at once. If all buffers are in use it first waits
    until the oldest checkpoint is written, so memory stays at `buffers` times the state. What goes wrong in the
    background is raised by the next `save` or `wait`. A checkpoint that was under way when the process ended does not
    exist. Buffers are pinned if the state is on a GPU.
    """

    def __init__(self, store: CheckpointStore, rank: int, ranks: int, buffers: int = 1) -> None:
        self.store, self.rank, self.ranks = store, rank, require_whole("ranks", ranks, "ranks")
        self.free: list[dict[tuple[str, int], Tensor]] = [
            {} for _ in range(require_whole("buffers", buffers, "buffers"))
        ]
        self.last_durable: int | None = None
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._buffers, self._turn, self._next = buffers, 0, 0

    @property
    def bytes_held(self) -> int:
        """Bytes of all buffers that are not in use now."""
        return sum(each.numel() * each.element_size() for one in self.free for each in one.values())

    def save(
        self, step: int, attempt: str, pieces: Sequence[Piece], notes: object = None, patience: float = 120.0
    ) -> Stall:
        """Copy this rank's pieces, then write and (on rank 0) commit them in the background."""
        started = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self.free or self._error)
            self._raise()
            buffer, turn = self.free.pop(), self._next
            self._next += 1
        waited = time.perf_counter() - started
        try:
            copies = [self._copy(buffer, each) for each in pieces]
            if any(each.values.is_cuda for each in pieces):
                torch.cuda.synchronize()
        except BaseException:
            with self._changed:
                self.free.append(buffer)
                self._next -= 1
            raise
        copied = time.perf_counter() - started - waited
        work = (step, attempt, copies, notes, patience, buffer, turn)
        threading.Thread(target=self._write, args=work, daemon=True, name=f"checkpoint-{step}").start()
        return Stall(waited, copied)

    def wait(self) -> None:
        """Return once everything is written; raise what went wrong."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.free) == self._buffers)
            self._raise()

    def _copy(self, buffer: dict[tuple[str, int], Tensor], piece: Piece) -> Piece:
        key, values = (piece.name, piece.start), piece.values.detach()
        held = buffer.get(key)
        if held is None or held.shape != values.shape or held.dtype != values.dtype:
            held = buffer[key] = torch.empty(values.shape, dtype=values.dtype, pin_memory=values.is_cuda)
        held.copy_(values, non_blocking=True)
        return piece._replace(values=held)

    def _write(
        self,
        step: int,
        attempt: str,
        pieces: list[Piece],
        notes: object,
        patience: float,
        buffer: dict[tuple[str, int], Tensor],
        turn: int,
    ) -> None:
        error: BaseException | None = None
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn)
        try:
            folder = self.store.begin(step, attempt)
            write_pieces(self.store, folder, self.rank, pieces, notes)
            if self.rank == 0:
                self.store.commit(folder, self.ranks, patience=patience)
        except BaseException as caught:
            error = caught
        with self._changed:
            if error is None:
                self.last_durable = step
            else:
                self._error = error
            self.free.append(buffer)
            self._turn += 1
            self._changed.notify_all()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
