"""One socket between the judge and a worker: whole frames of plain data, with limits on size and time.

A frame is a marker, a 16-byte token that the judge draws for each request, the length, and the payload. The judge
writes `course_grader.remote_ranks.trusted_pickle`; a worker writes `course_grader.remote_ranks.codec`. Anything else is
an error, and no memory is allocated for a length that has not been checked.
"""

import secrets
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, TypedDict

from course_grader.remote_ranks import trusted_pickle
from course_grader.remote_ranks.codec import Limits, decode, encode

if TYPE_CHECKING:
    from torch import Tensor

MAX_FRAME = 64 * 2**20  # bytes of one message
PATIENCE = 5.0  # s for requests that run no learner code
_HEAD = struct.Struct(">4s16sQ")
_MARK = b"TaS1"


class Request(TypedDict, total=False):
    """What the judge asks of a notebook's worker; `do` says which of the others it has."""

    do: str
    source: str  # of a cell
    names: list[str]
    probe: str  # the exercise whose probe is used; "" for a plain call
    hides: list[str]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    twice: bool
    answer: "Tensor | None"  # by value, as bytes
    bytes: int  # how many follow
    name: str


class Gone(Exception):
    """The other side closed the socket, or died."""


class Late(Exception):
    """The message did not arrive, or not completely, in time."""


class Garbled(Exception):
    """What arrived is not a frame, or replies to something that was not asked."""


class Unreadable(Garbled):
    """A reply whose content is too large or cannot be decoded."""


class Channel:
    """Frames over one socket, at the judge's end. The judge is trusted; the worker is not."""

    def __init__(self, sock: socket.socket, limit: int = MAX_FRAME) -> None:
        self.sock = sock
        self.limit = limit

    def send(self, token: bytes, message: object, seconds: float | None = None) -> None:
        """Send one message; Late if the other side does not read it in time, Gone if it has closed.

        ValueError for a message that the other side would refuse as too large.
        """
        self.send_written(token, self.written(message), seconds)

    def send_written(self, token: bytes, data: bytes, seconds: float | None = None) -> None:
        """Send what `written` returned."""
        if len(data) > self.limit:
            raise ValueError(f"A message of {len(data):,} bytes; at most {self.limit:,} cross.")
        try:
            self.sock.settimeout(seconds)
            self.sock.sendall(_HEAD.pack(_MARK, token, len(data)) + data)
        except TimeoutError as error:
            raise Late("it did not read what it was sent") from error
        except OSError as error:
            raise Gone(str(error)) from error

    def receive(self, seconds: float | None = None) -> tuple[bytes, Any]:
        """The next message and its token. Waits at most `seconds` for all of it."""
        until = None if seconds is None else time.monotonic() + seconds
        mark, token, length = _HEAD.unpack(bytes(self._exactly(_HEAD.size, until)))
        if mark != _MARK:
            raise Garbled("bytes that are no message")
        if length > self.limit:
            raise Unreadable(f"a message of more than {self.limit:,} bytes")
        try:
            return token, self._read(self._exactly(length, until))
        except (Gone, Late):
            raise
        except Exception as error:
            raise Unreadable(f"{type(error).__name__} while decoding it") from error

    def ask(self, message: object, seconds: float) -> Any:
        """The reply to one request; Garbled if anything else arrived before or instead."""
        if self.pending():
            raise Garbled("a message that nobody asked for")
        token = secrets.token_bytes(16)
        until = time.monotonic() + seconds
        self.send(token, message, seconds)
        back, answer = self.receive(max(until - time.monotonic(), 0.0))
        if back != token:
            raise Garbled("a message that answers nothing that was asked")
        return answer

    def send_raw(self, data: bytes, seconds: float) -> None:
        """Send raw bytes, after a request that gave their number."""
        try:
            self.sock.settimeout(seconds)
            self.sock.sendall(data)
        except TimeoutError as error:
            raise Late("it did not read what it was sent") from error
        except OSError as error:
            raise Gone(str(error)) from error

    def receive_raw(self, count: int) -> bytes:
        """Receive this many raw bytes."""
        return bytes(self._exactly(count, None))

    def pending(self) -> bool:
        """Whether bytes have arrived that no request asked for."""
        try:
            self.sock.settimeout(0)
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return False

    def close(self) -> None:
        """Close this end; the other side gets Gone."""
        self.sock.close()

    def written(self, message: object) -> bytes:
        """A message as bytes; TypeError or ValueError if it cannot be sent."""
        return trusted_pickle.pack(message)

    def _read(self, data: bytearray) -> object:
        return decode(data, Limits(nbytes=self.limit))

    def _exactly(self, count: int, until: float | None) -> bytearray:
        data = bytearray(count)
        view, got = memoryview(data), 0
        while got < count:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise Late("it did not answer in time")
            try:
                self.sock.settimeout(left)
                read = self.sock.recv_into(view[got:])
            except TimeoutError as error:
                raise Late("it did not answer in time") from error
            except OSError as error:
                raise Gone(str(error)) from error
            if not read:
                raise Gone("it closed its end")
            got += read
        return data


class WorkerChannel(Channel):
    """The same at the worker's end."""

    def written(self, message: object) -> bytes:
        """A message as bytes; TypeError or ValueError if it cannot be sent."""
        return encode(message)

    def _read(self, data: bytearray) -> object:
        return trusted_pickle.unpack(data)
