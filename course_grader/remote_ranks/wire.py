"""Frames over a socket: four bytes of length and a value.

The judge writes with `trusted_pickle`. It reads `codec`, within limits of size and time.
"""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from course_grader.remote_ranks import codec, trusted_pickle

LENGTH = struct.Struct("<I")
ROOM = 64 * 2**10  # bytes that a first read takes
PIECE = 256 * 2**10  # bytes handed over in one call, in which the system waits anew for each part of them


class Gone(Exception):
    """The other end closed the socket."""


def send(sock: socket.socket, value: object) -> None:
    """Send one frame to the judge."""
    _send(sock, codec.pieces(value))


def tell(sock: socket.socket, value: object, deadline: float | None = None) -> None:
    """Send one frame to a worker; TimeoutError if the worker has not read it by the deadline."""
    _send(sock, [trusted_pickle.pack(value)], deadline)


def _send(sock: socket.socket, parts: Sequence[bytes | memoryview], deadline: float | None = None) -> None:
    size = sum(map(len, parts))
    try:
        if size <= ROOM:
            _all(sock, b"".join((LENGTH.pack(size), *parts)), deadline)
            return
        small: list[bytes | memoryview] = [LENGTH.pack(size)]
        for part in parts:  # a large one goes from where it is
            if len(part) > ROOM:
                _all(sock, b"".join(small), deadline)
                _all(sock, part, deadline)
                small.clear()
            else:
                small.append(part)
        if small:
            _all(sock, b"".join(small), deadline)
    except (BlockingIOError, TimeoutError):
        raise TimeoutError from None
    except OSError as error:
        raise Gone(str(error)) from None


def _all(sock: socket.socket, data: bytes | memoryview, deadline: float | None) -> None:
    if deadline is None:
        sock.sendall(data)
        return
    view = memoryview(data)
    while view:
        if time.monotonic() > deadline:
            raise TimeoutError
        view = view[sock.send(view[:PIECE]) :]


def _exactly(sock: socket.socket, count: int, deadline: float | None) -> bytearray:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        got += _some(sock, view[got:], deadline)
    return data


def _some(sock: socket.socket, view: memoryview, deadline: float | None) -> int:
    if deadline is not None and time.monotonic() > deadline:
        raise TimeoutError
    try:
        read = sock.recv_into(view)
    except (BlockingIOError, TimeoutError):
        raise TimeoutError from None
    except OSError as error:
        raise Gone(str(error)) from None
    if not read:
        raise Gone("closed")
    return read


def hear(sock: socket.socket) -> Any:
    """The judge's next message. Reads no byte beyond it, because the socket may be used for others afterwards."""
    size = LENGTH.unpack(_exactly(sock, 4, None))[0]
    return trusted_pickle.unpack(_exactly(sock, size, None))


def limit(sock: socket.socket, seconds: float) -> None:
    """Limit the time of each wait on the socket. The system's own limit costs no extra call per read."""
    if os.name == "posix":
        sock.settimeout(None)
        value = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) or int(seconds < 1))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, value)
    else:
        sock.settimeout(seconds)


def unlimit(sock: socket.socket) -> None:
    """Remove the limit on waits."""
    with contextlib.suppress(OSError):
        sock.settimeout(None)
        if os.name == "posix":
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, 0))


class Wire:
    """The judge's end of a socket: reads whole frames, in turns, within limits."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._room = memoryview(bytearray(ROOM))

    def receive(self, most: int, deadline: float) -> tuple[object, int]:
        """A frame's value, and its size in bytes. Nothing is allocated for a length above `most`."""
        got = _some(self.sock, self._room, deadline)
        while got < 4:
            got += _some(self.sock, self._room[got:], deadline)
        size = LENGTH.unpack(self._room[:4])[0]
        if size > most:
            raise codec.BadFrame(f"a frame of {size} bytes; {most} are left to it")
        if got > size + 4:
            raise codec.BadFrame("more than one frame came where one was asked for")
        data = bytearray(size)
        view = memoryview(data)
        view[: got - 4] = self._room[4:got]
        got -= 4
        while got < size:
            got += _some(self.sock, view[got:], deadline)
        return codec.decode(data, codec.Limits(nbytes=most)), size
