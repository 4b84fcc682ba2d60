"""Attacks by what is easily not counted or timed: a process that looks dead, a frame's reader, many short waits, what
all ranks hold together."""

from course_grader.attacks.sheet import Sheet, attack, code
from tests.attacks.weighing import ELSEWHERE, expect

HALF_DEAD = """
    import ctypes, os, threading, time

    LIB = ctypes.CDLL(None)


    def half_dead(work):
        "A child whose first thread ends while another goes on: the system calls it a zombie."
        pid = os.fork()
        if pid == 0:
            name = f"stray-{AT['run']}".encode()[:15]
            LIB.prctl(1, 0, 0, 0, 0)

            def go():
                LIB.prctl(15, name, 0, 0, 0)
                time.sleep(0.05)
                try:
                    work()
                finally:
                    os._exit(0)
            threading.Thread(target=go).start()
            LIB.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
        return pid
"""


WRITTEN = """
    import struct, sys

    HEAD = struct.Struct("<I").pack


    def say(make):
        "Have the next value cross as bytes of one's own."
        from course_grader.remote_ranks.codec import encode

        worker = sys.modules["course_grader.worker.notebook_worker"].Worker
        whole = {"state": "answered", "value": 1234567, "error": "", "trace": "", "output": "", "seconds": 0.0}
        worker._within_limits = lambda self, answer: encode(whole).replace(encode(1234567), make())
"""


SHIFT = """
    direction = params("ring-shift").direction


    def shift(comm, x):
        if comm.size == 1:
            return x
        after, before = (comm.rank + direction) % comm.size, (comm.rank - direction) % comm.size
        got = torch.empty_like(x)
        for work in comm.batch_isend_irecv([P2POp(comm.isend, x, after), P2POp(comm.irecv, got, before)]):
            work.wait()
        return got
"""


@attack("exhaustion", walled=True, before=HALF_DEAD, states=("crashed",))
def memory_of_a_process_that_looks_dead(sheet: Sheet) -> None:
    """Memory above the limit in a child whose first thread has ended."""
    sheet.answer("""

    def attempt(*args):
        mine, theirs = os.pipe()

        def work():
            kept = bytearray(int(1.6 * AT["memory"]))
            for at in range(0, len(kept), 4096):
                kept[at] = 1
            os.write(theirs, b"x")
            time.sleep(1.0)
        half_dead(work)
        os.close(theirs)
        if os.read(mine, 1) == b"x":
            time.sleep(0.7)
        raise RuntimeError("more memory than allowed is held")""")


@attack("tampering", before=HALF_DEAD)
def processes_that_look_dead_go_on(sheet: Sheet) -> None:
    """Children whose first thread has ended, one of them an orphan in a session of its own, are to outlive the
    marking."""
    sheet.own("""

    def work():
        for _ in range(60):
            time.sleep(1.0)
    half_dead(work)
    if os.fork() == 0:
        os.setsid()
        half_dead(work)
        os._exit(0)""")


@attack("forging", chapter="02")
def bytes_of_a_process_that_looks_dead(sheet: Sheet) -> None:
    """All logits at once in a child whose first thread has ended."""
    sheet.answer(HALF_DEAD + "\n\n    start = half_dead\n" + ELSEWHERE)
    expect(sheet)


@attack("exhaustion", before=WRITTEN, states=("refused",))
def keys_with_one_hash(sheet: Sheet) -> None:
    """A dictionary of 20,000 integers that all have the hash 0: every new key is compared with all before."""
    sheet.answer("""

    def make(n=20_000, m=2**61 - 1):
        parts = [b"M" + HEAD(n)]
        for k in range(8, n + 8):
            size = (k * m).bit_length() // 8 + 1
            parts.append(b"J" + HEAD(size) + (k * m).to_bytes(size, "little", signed=True) + b"B\\0")
        return b"".join(parts)


    def attempt(*args):
        say(make)
        return 0.0""")


@attack("exhaustion", before=WRITTEN, states=("refused",))
def tensors_by_the_hundred_thousand(sheet: Sheet) -> None:
    """150,000 tensors without dimensions, four bytes each on the way and two kilobytes each once they are read."""
    sheet.answer("""

    def attempt(*args):
        say(lambda: b"L" + HEAD(150_000) + b"X\\x08\\0\\0" * 150_000)
        return 0.0""")


@attack("accident", states=("answered", "raised"))
def thousands_of_scalar_tensors(sheet: Sheet) -> None:
    """An answer that returns 9,000 tensors of one number, and one that returns 15,000: both are told so in words."""
    sheet.answer("""
        import torch


        def attempt(*args):
            attempt.calls = getattr(attempt, "calls", 0) + 1
            return [torch.zeros(())] * (9_000 if attempt.calls % 2 else 15_000)""")


@attack("exhaustion")
def source_that_grows_as_a_tree(sheet: Sheet) -> None:
    """A cell of 6 MB of short names, and chains of 900 attributes beside a hidden name: what its syntax tree takes
    beside the judge."""
    sheet.notebook["cells"].insert(2, code("if 0:\n  (" + "x,\n" * 2_000_000 + ")", "own-wide"))
    sheet.notebook["cells"].insert(3, code("if 0:  # train_flops\n" + ("  x" + ".b" * 900 + "\n") * 400, "own-deep"))


@attack("exhaustion", chapter="06", walled=True, before=SHIFT, states=("crashed", "timed out"))
def memory_of_all_ranks_together(sheet: Sheet) -> None:
    """Each rank holds 40 % of the memory that the whole submission may use; a busy machine may take longer to write it
    than the answer has."""
    sheet.answer("""

    def attempt(comm, x):
        import time

        if not hasattr(torch, "kept") and comm.size > 2:
            torch.kept = torch.ones(int(AT["memory"] * 0.4 / 4))
            time.sleep(0.5)
        return shift(comm, x)""")


@attack("exhaustion", chapter="06", brief=True, before=SHIFT, states=("timed out", "refused", "crashed"))
def rank_that_listens_slowly(sheet: Sheet) -> None:
    """A rank is sent 9 MB and takes a little of it every 2 seconds: each wait of the judge's is short, all together are
    not."""
    sheet.answer("""

    def attempt(comm, x):
        import sys, time

        if comm.size > 2 and comm.rank == 0:
            comm.isend(torch.ones(2_250_000), 1, tag=7)
        if comm.size > 2 and comm.rank == 1:
            wire = sys.modules["course_grader.remote_ranks.wire"]

            def exactly(sock, count, deadline):
                data = bytearray(count)
                view, got = memoryview(data), 0
                while got < count:
                    if count > 1_000_000:
                        time.sleep(1.9)
                    got += sock.recv_into(view[got : got + 200_000]) or sys.exit()
                return data

            wire._exactly = exactly
            comm.recv(torch.empty(2_250_000), 0, tag=7)
        return shift(comm, x)""")


@attack("exhaustion", chapter="06", brief=True, before=SHIFT)
def ranks_that_end_slowly(sheet: Sheet) -> None:
    """Each rank takes 4 seconds more than the one before to say what it printed, once the run is over."""
    sheet.answer("""

    def attempt(comm, x):
        import time

        import course_grader.remote_ranks.remote_worker as remote

        if comm.size >= 4 and not hasattr(torch, "slow"):
            torch.slow, run, rank = True, remote.ThreadHost.run, comm.rank

            def late(self):
                try:
                    return run(self)
                finally:
                    time.sleep(4.0 * (rank + 1))

            remote.ThreadHost.run = late
        return shift(comm, x)""")
    sheet.expect(sheet.target, None)
