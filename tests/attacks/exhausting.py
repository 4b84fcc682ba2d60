"""Using everything up: time, memory, processes, disk, output, descriptors, the patience of the judge."""

from course_grader.attacks.exhausting import _told
from course_grader.attacks.forging import CHANNEL
from course_grader.attacks.sheet import Sheet, as_json, attack, code


@attack("exhaustion", brief=True, states=("timed out",))
def hang_in_native_code(sheet: Sheet) -> None:
    """A call into C that does not come back and holds the interpreter's lock."""
    sheet.answer("""
        import ctypes


        def attempt(*args):
            ctypes.PyDLL(None).sleep(600)""")


@attack("exhaustion", brief=True, states=("timed out",))
def hang_in_arithmetic(sheet: Sheet) -> None:
    """Powers, regular expressions and sorts that never end."""
    sheet.answer("""
        import re


        def attempt(*args):
            re.match(r"(a+)+$", "a" * 64 + "b")
            return 9 ** 9 ** 9 ** 9""")


@attack("exhaustion", brief=True)
def hang_in_a_cell(sheet: Sheet) -> None:
    """A cell of the learner's own that never ends."""
    sheet.own("while True:\n    pass")


@attack("exhaustion", brief=True, states=("timed out",))
def stopped_by_itself(sheet: Sheet) -> None:
    """A process that stops itself and can neither answer nor end."""
    sheet.answer("""
        import os, signal


        def attempt(*args):
            os.kill(os.getpid(), signal.SIGSTOP)""")


@attack("exhaustion", brief=True, states=("timed out", "crashed"))
def end_that_takes_for_ever(sheet: Sheet) -> None:
    """Exit handlers, finalisers and threads that do not let the process end."""
    sheet.answer("""
        import atexit, os, sys, threading, time

        forever = lambda: time.sleep(600)
        atexit.register(forever)
        threading.Thread(target=forever).start()
        os.register_at_fork(after_in_child=lambda: None)


        class Sticky:
            def __del__(self):
                time.sleep(600)


        def attempt(*args):
            Sticky()""")


@attack("exhaustion", brief=True)
def many_slow_cells(sheet: Sheet) -> None:
    """Many cells, each slow but under its limit, behind the answers."""
    for at in range(12):
        sheet.notebook["cells"].append(code("import time; time.sleep(2)", f"slow-{at}"))


@attack("exhaustion")
def two_thousand_cells(sheet: Sheet) -> None:
    """A notebook of almost as many cells as are allowed."""
    sheet.notebook["cells"] += [code("1", f"cell-{at}") for at in range(1900)]


@attack("exhaustion")
def too_many_cells(sheet: Sheet) -> None:
    """More cells than are allowed."""
    sheet.notebook["cells"] += [code("1", f"cell-{at}") for at in range(2100)]
    sheet.refused = "at most 2,000 are graded"


@attack("exhaustion", states=("answered", "raised", "crashed", "timed out"))
def many_threads(sheet: Sheet) -> None:
    """Threads without end, 2,000 at most."""
    sheet.answer("""
        import threading, time


        def attempt(*args):
            for _ in range(2000 if threading.active_count() < 3 else 0):
                try:
                    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                except RuntimeError:
                    break
            return 0.0""")


@attack("exhaustion", walled=True, states=("crashed", "raised", "timed out"))
def memory_bomb_of_many(sheet: Sheet) -> None:
    """Memory without end, spread over processes that each stay small, and over shared memory."""
    sheet.answer(f"""
        import mmap, os, time


        def attempt(*args):
            for _ in range(24):
                if os.fork() == 0:
                    kept = bytearray(b"x") * (AT["memory"] // 10)
                    time.sleep(20)
                    os._exit(0)
            time.sleep(8)
            {_told("24 processes could use more than twice the memory together")}""")


@attack("exhaustion", states=("answered", "raised", "crashed"))
def one_endless_file(sheet: Sheet) -> None:
    """A file that says it has a terabyte."""
    sheet.answer("""
        def attempt(*args):
            with open("endless", "wb") as file:
                file.truncate(10 ** 12)
            return 0.0""")


@attack("exhaustion", states=("raised",))
def line_of_a_hundred_megabytes(sheet: Sheet) -> None:
    """One line of 100 MB, printed, as an error and as a name."""
    sheet.answer("""
        def attempt(*args):
            text = "x" * 100_000_000
            print(text, end="")
            raise ValueError(text)""")


@attack("exhaustion", states=("raised", "crashed", "refused"))
def answer_of_a_gigabyte(sheet: Sheet) -> None:
    """An answer of 300 MB of text, then of millions of values."""
    sheet.answer("""
        calls = []


        def attempt(*args):
            calls.append(1)
            return "x" * 300_000_000 if len(calls) < 2 else [0.5] * 5_000_000""")


@attack("exhaustion")
def numbers_too_long_to_print(sheet: Sheet) -> None:
    """Integers that may just cross, and that no message can print."""
    sheet.answer("def attempt(*args):\n    return 10 ** 9000", states=("answered", "raised", "refused"))


@attack("exhaustion", states=("raised", "refused", "timed out"))
def nested_too_deep(sheet: Sheet) -> None:
    """Lists in lists, a thousand deep, and doubled thirty times."""
    sheet.answer("""
        def attempt(*args):
            deep, wide = [], 1.0
            for _ in range(1000):
                deep = [deep]
            for _ in range(30):
                wide = [wide, wide]
            return deep if len(args) == 4 else wide""")


@attack("exhaustion", chapter="00", states=("raised", "answered", "refused", "crashed"))
def tensors_with_lying_shapes(sheet: Sheet) -> None:
    """Tensors of a terabyte that hold four bytes, of no elements in vast shapes, and without data."""
    sheet.answer("""
        calls = []


        def attempt(comm, x):
            odd = [lambda: torch.ones(1).expand(2 ** 40), lambda: torch.empty(0, 2 ** 40),
                lambda: torch.ones(1, device="meta"),
                   lambda: torch.ones(2, 2).to_sparse(), lambda: torch.ones(1).expand(2 ** 27)]
            return odd[(comm.size + comm.rank) % len(odd)]()""")


@attack("exhaustion", before=CHANNEL, states=("refused",))
def frame_of_a_terabyte(sheet: Sheet) -> None:
    """A message that announces a terabyte, and one that never ends."""
    sheet.answer("""
def attempt(*args):
    there, token = channel()
    there.sock.sendall(struct.pack(">4s16sQ", b"TaS1", token, 2 ** 40))
    os._exit(0)
""")


@attack("exhaustion", brief=True, before=CHANNEL, states=("timed out",))
def message_byte_by_byte(sheet: Sheet) -> None:
    """A message that comes a byte at a time and never ends."""
    sheet.answer("""
def attempt(*args):
    import time

    there, token = channel()
    there.sock.sendall(struct.pack(">4s16sQ", b"TaS1", token, 10_000))
    while True:
        there.sock.sendall(b"N")
        time.sleep(0.05)
""")


@attack("exhaustion", brief=True, before=CHANNEL, states=("refused", "timed out"))
def flood_of_messages(sheet: Sheet) -> None:
    """Messages without end on the connection to the judge."""
    sheet.answer("""
def attempt(*args):
    there, token = channel()
    while True:
        there.sock.sendall(b"TaS1" + token + b"\\0" * 8 + b"N" * 60_000)
""")


@attack("exhaustion", chapter="06", states=("timed out", "refused", "raised", "deadlock"))
def flood_of_requests(sheet: Sheet) -> None:
    """Requests to the cluster without end."""
    sheet.answer("""
        def attempt(comm, x):
            while True:
                comm.isend(x[:0], (comm.rank + 1) % comm.size)""")


@attack("exhaustion", states=("answered", "raised", "crashed"))
def many_descriptors(sheet: Sheet) -> None:
    """Files, sockets and pipes without end, 20,000 at most."""
    sheet.answer("""
        import os, socket

        kept = []


        def attempt(*args):
            try:
                while len(kept) < 20_000:
                    kept.append(open("/dev/null"))
                    kept.append(socket.socketpair())
            except OSError:
                pass
            return 0.0""")


@attack("exhaustion")
def crash_in_native_code(sheet: Sheet) -> None:
    """A null pointer, an abort and an exhausted stack."""
    sheet.answer("import ctypes\n\n\ndef attempt(*args):\n    ctypes.string_at(0)", states=("crashed",))
    sheet.own("import os\nos.abort()", before="mfu-waste")


@attack("exhaustion", states=("crashed",))
def connection_closed(sheet: Sheet) -> None:
    """Every descriptor is closed, and the process stays."""
    sheet.answer("""
        import os, time


        def attempt(*args):
            os.closerange(0, 4096)
            time.sleep(30)""")


@attack("exhaustion")
def cell_too_deep_to_parse(sheet: Sheet) -> None:
    """Cells, twice under one id, that a parser cannot take: brackets, operators and names nested 100,000 deep."""
    odd = (
        "(" * 5000 + ")" * 5000, "-" * 200_000 + "1", "a" + ".b" * 200_000, "lambda:" * 50_000 + "1",
        "x=" * 50_000 + "1", "\0", "\ud800x",
    )  # fmt: skip
    cell = sheet.cell(sheet.target)
    for at, text in enumerate(odd):
        sheet.notebook["cells"].append(
            {**cell, "id": f"deep-{at}", "source": f"def train_days(*args):\n    return 1\n{text}\n"}
        )
    sheet.notebook["cells"] += [code(text, f"own-deep-{at}") for at, text in enumerate(odd)]
    sheet.data = as_json({**sheet.notebook})
    sheet.expect(sheet.target, None)


@attack("exhaustion")
def json_too_deep(sheet: Sheet) -> None:
    """A file of 200,000 nested lists."""
    sheet.data = b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    sheet.refused = "not a whole notebook"


@attack("exhaustion")
def json_with_endless_numbers(sheet: Sheet) -> None:
    """Numbers of a million digits, NaN and infinities in metadata."""
    sheet.data = (
        b'{"cells": [], "metadata": {"a": '
        + b"9" * 1_000_000
        + b', "b": NaN, "c": -Infinity, "d": 1e999}, "nbformat": 4}'
    )
    sheet.refused = "not a whole notebook"


@attack("exhaustion")
def notebook_of_sixty_megabytes(sheet: Sheet) -> None:
    """A file that is larger than a notebook may be."""
    sheet.data = b'{"cells": [], "metadata": {"x": "' + b"x" * 60_000_000 + b'"}}'
    sheet.refused = "may have 50 MB"


@attack("exhaustion")
def many_small_objects(sheet: Sheet) -> None:
    """A file of 40 MB whose values take a hundred times as much once they are read."""
    sheet.data = (
        b'{"metadata": {"x": ['
        + b"[]," * 13_000_000
        + b"0]}, "
        + sheet.text()[1:].lstrip().replace(b'"metadata": {', b'"metadata2": {', 1)
    )
    sheet.refused = "perhaps"


@attack("exhaustion", states=("raised", "crashed", "answered", "timed out"))
def killed_by_its_own_limits(sheet: Sheet) -> None:
    """Limits set to nothing: no files, no time, no stack, no memory."""
    sheet.answer("""
        import resource


        def attempt(*args):
            for name in ("RLIMIT_NOFILE", "RLIMIT_STACK", "RLIMIT_DATA", "RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_FSIZE",
                    "RLIMIT_CPU"):
                try:
                    resource.setrlimit(getattr(resource, name), (0, 0))
                except (OSError, ValueError):
                    pass
            return bytearray(100_000_000)""")
