"""A marker: a process that grades one task after another, with a fork server of its own.

`python -m course_grader.service.grade_worker FD`, started by `pool`. It ends with its parent, and everything it started
ends with it.
"""

import json
import signal
import socket
import struct
import sys
from typing import Any

from course_grader.worker.process_state import end_with_parent

LENGTH = struct.Struct(">Q")


def send(sock: socket.socket, message: object) -> None:
    """One message of JSON data."""
    data = json.dumps(message).encode()
    sock.sendall(LENGTH.pack(len(data)) + data)


def receive(sock: socket.socket) -> Any:
    """The next message; EOFError once the other side has closed."""
    (length,) = LENGTH.unpack(_exactly(sock, LENGTH.size))
    return json.loads(_exactly(sock, length).decode())  # whose bytes are gone by then


def _exactly(sock: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        read = sock.recv_into(view[got:])
        if not read:
            raise EOFError("the other side is gone")
        got += read
    return data


def main(argv: list[str]) -> int:
    """Grade tasks until the connection closes."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service decides what Ctrl-C does
    sock = socket.socket(fileno=int(argv[0]))
    from course_grader.service.pool_cache import let_go
    from course_grader.service.task import run_task

    try:
        while True:
            try:
                task = receive(sock)
            except (EOFError, OSError):
                return 0
            try:
                result = run_task(task)
            except Exception as error:  # a bug of ours on one submission must not end the others
                result = {
                    "key": task["key"],
                    "state": "failed",
                    "why": f"the grader itself failed on it ({type(error).__name__}: {error})",
                }
            send(sock, result)
            del task, result
    finally:
        let_go()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
