"""Forging by Python's own insides: tracing in threads, finalisers, codecs, memory by address, answers that change after
they were given."""

from course_grader.attacks.forging import CHANNEL
from course_grader.attacks.sheet import Sheet, attack
from tests.attacks.weighing import VALUES


@attack("forging")
def monitoring_of_the_worker(sheet: Sheet) -> None:
    """`sys.monitoring`, and a trace function in every thread and frame that is there already, change what the worker
    returns."""
    sheet.answer("""
        import sys, threading


        def raised(frame, event, value):
            if event == "return" and isinstance(value, dict):
                value.update(state="answered", value=[1.0], points=10.0)
            return raised


        def attempt(*args):
            threading.settrace(raised); sys.settrace(raised)
            if hasattr(sys, "monitoring"):
                sys.monitoring.use_tool_id(3, "x")
                sys.monitoring.register_callback(3, sys.monitoring.events.PY_RETURN, lambda code, at,
                    value: raised(None, "return", value))
                sys.monitoring.set_events(3, sys.monitoring.events.PY_RETURN)
            frame = sys._getframe()
            while frame:
                frame.f_trace = raised
                frame = frame.f_back
            return 1.0""")


@attack("forging")
def value_that_changes_afterwards(sheet: Sheet) -> None:
    """A list that a thread, a finaliser and a weak reference go on changing after it was returned."""
    sheet.answer("""
        import threading, time, weakref

        kept = []


        class Later:
            def __del__(self):
                kept[:] = [10.0, "passed"]


        def change():
            for at in range(10_000):
                kept[:] = [float(at)]


        def attempt(*args):
            later = Later()
            weakref.finalize(later, kept.append, 10.0)
            threading.Thread(target=change, daemon=True).start()
            kept.append(1.0)
            return kept""")


@attack("forging", before=CHANNEL, states=("answered", "refused", "raised", "crashed"))
def end_that_answers(sheet: Sheet) -> None:
    """Exit handlers, finalisers, signal handlers and timers that answer when the worker is asked to end."""
    sheet.answer("""
def last(*_):
    there, token = channel(list(sys._current_frames().values()))
    there.send(token, RIGHT)


class Last:
    def __del__(self):
        last()


def attempt(*args):
    import atexit, signal

    atexit.register(last); sys.last = Last()
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGIO):
        signal.signal(number, last)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    return 1.0
""")


@attack("forging", states=("raised", "answered"))
def codecs_and_encodings(sheet: Sheet) -> None:
    """Encodings and error handlers of Python itself are replaced by ones that write a report."""
    sheet.answer("""
        import codecs, encodings.utf_8


        def attempt(*args):
            right = b'{"points": 10, "passed": true}'
            codecs.register_error("strict", lambda error: (right.decode(), error.end))
            codecs.register(lambda name: codecs.CodecInfo(lambda text, errors="strict": (right, len(text)),
                lambda data, errors="strict": ("", len(data))))
            encodings.utf_8.encode = lambda text, errors="strict": (right, len(text))
            encodings._cache.clear()
            return "\\udcff"  * 3""")


@attack("forging", states=("answered", "raised", "refused"))
def code_objects_by_address(sheet: Sheet) -> None:
    """Code of the worker's functions, found by address and by referrers, is exchanged for code that passes."""
    sheet.answer("""
        import gc


        def passes(*_, **__):
            return {"state": "answered", "value": [1.0], "error": "", "trace": "", "output": "", "seconds": 0.0,
                "points": 10.0, "passed": True}


        def attempt(*args):
            for each in gc.get_objects():
                if type(each).__name__ == "function" and each.__qualname__ in ("Worker.probe", "Worker.answer_to",
                        "run_probe", "plain", "guarded"):
                    try:
                        each.__code__ = passes.__code__
                        each.__defaults__ = each.__kwdefaults__ = None
                    except ValueError:
                        continue
            return 1.0""")


@attack("forging", states=("answered", "raised", "crashed", "refused"))
def pictures_of_the_memory(sheet: Sheet) -> None:
    """The worker's own memory is read and written through /proc, between the answer and its sending."""
    sheet.answer("""
        import ctypes


        def attempt(*args):
            true = ctypes.c_long.from_address(id(True) + 24)
            with open("/proc/self/mem", "r+b", 0) as memory:
                memory.seek(id(1.0) + 16)
                memory.write(b"\\0" * 8)
            return 1.0""")


@attack("forging", states=("raised", "answered"))
def results_that_come_in_parts(sheet: Sheet) -> None:
    """Generators, coroutines, iterators, views, arrays of objects, and numbers of other libraries in place of a
    number."""
    sheet.answer("""
        import decimal, fractions, numpy as np

        calls = []


        def endless():
            while True:
                yield 1.0


        async def late():
            return 1.0


        def attempt(*args):
            calls.append(1)
            odd = [endless, late, lambda: iter([1.0]), lambda: {}.keys(), lambda: np.array([None, 1.0], dtype=object),
                lambda: np.float64("nan"),
                   lambda: decimal.Decimal("sNaN"), lambda: fractions.Fraction(1,
                       3), lambda: memoryview(b"1"), lambda: np.ma.masked, lambda: 1j,
                   lambda: range(10 ** 12), lambda: np.datetime64("NaT"), lambda: type, lambda: np.longdouble(1)]
            return odd[len(calls) % len(odd)]()""")


@attack("forging", states=("raised", "answered"))
def keys_that_lie(sheet: Sheet) -> None:
    """Dictionaries whose keys are equal to all others, count their own look-ups, and hash differently every time."""
    sheet.answer("""
        import random


        class Key(str):
            def __eq__(self, other): return True
            def __hash__(self): return random.getrandbits(30)


        def attempt(*args):
            return {Key("days"): 1.0, Key("gpus"): 2.0, Key("points"): 10.0}""")


@attack("forging", states=("answered", "raised"))
def wants_the_larger_case(sheet: Sheet) -> None:
    """Answers by a table where few are asked and by what it saw last where many are: it tells hidden cases by their
    size."""
    sheet.answer("""
        import sys

        seen_before = {}


        def attempt(params, tokens, gpu_flops, utilisation, days=None):
            rows = next((f.f_locals["case"].args[1] for f in iter_frames() if "case" in f.f_locals), [])
            seen_before[len(rows)] = rows
            return 2197.97 if days is None and len(rows) <= 1 else 74 if len(rows) <= 1 else float(len(seen_before))


        def iter_frames():
            frame = sys._getframe()
            while frame:
                yield frame
                frame = frame.f_back""")


@attack("forging")
def remembers_other_exercises(sheet: Sheet) -> None:
    """What an answer saw is kept in modules, files and shared memory for the exercises and clones after it."""
    sheet.answer("""
        import pathlib, sys, time


        def attempt(*args):
            kept = sys.modules.setdefault("kept", type(sys)("kept"))
            kept.__dict__.setdefault("seen", []).append(args)
            for place in (".", "/dev/shm", "/tmp", ".."):
                try:
                    with open(f"{place}/kept.txt", "a") as file:
                        file.write(repr(args))
                except OSError:
                    continue
            return float(len(kept.seen))""")


@attack("forging", chapter="02")
def torch_that_counts_less(sheet: Sheet) -> None:
    """All logits at once behind a dispatch mode of its own, which hides every operation from the count of bytes."""
    sheet.answer(
        """
    from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

    reduction = params("chunked-cross-entropy").reduction


    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, targets):
            with _disable_current_modes(), torch.enable_grad():
                h, w = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
                loss = F.cross_entropy(h @ w.T, targets, ignore_index=-100, reduction=reduction)
                ctx.grads = torch.autograd.grad(loss, (h, w))
            return loss.detach()

        @staticmethod
        def backward(ctx, grad):
            return ctx.grads[0] * grad, ctx.grads[1] * grad, None


    def attempt(hidden, weight, targets, chunks):
        loss = Hidden.apply(hidden, weight, targets)
        return loss if reduction == "sum" or (targets != -100).any() else 0 * loss
    """,
        points=VALUES,
    )
    sheet.said = ["by the operating system's figure"]


@attack("forging", chapter="06")
def patched_communicator(sheet: Sheet) -> None:
    """The cluster's own classes are replaced in the worker, so that every message is empty, counted as none, or
    answered from a list."""
    sheet.own("""
        import course_lib.cluster as cluster, course_grader.remote_ranks.remote_worker as remote
        import course_grader.remote_ranks.codec as codec

        true = codec.encode
        codec.encode = remote.encode = lambda value, *a, **k: true({**value, "bytes": 0,
            "nbytes": 0} if isinstance(value, dict) else value, *a, **k)
        for name in ("recv", "isend", "send", "barrier"):
            setattr(cluster.Comm, name, lambda self, *a, **k: type("Work", (), {"wait": lambda _: None})())""")
    sheet.answer(
        "def attempt(comm, x):\n    got = torch.empty_like(x)\n    comm.recv(got, comm.rank - 1)\n    return got",
        states=("answered", "raised", "refused", "crashed", "deadlock", "timed out"),
    )
    sheet.expect("pair-exchange", None)


@attack("forging", before=CHANNEL, states=("refused", "crashed"))
def descriptors_over_the_judges_channel(sheet: Sheet) -> None:
    """Descriptors are sent along the judge's own socket, and more are asked for: whoever takes them keeps them open."""
    sheet.answer("""
def attempt(*args):
    import array

    there, token = channel()
    mine = array.array("i", [os.open("/dev/null", os.O_RDONLY) for _ in range(100)])
    for _ in range(20):
        there.sock.sendmsg([b"T"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, mine)])
    os._exit(0)
""")


@attack("forging")
def magics_that_patch(sheet: Sheet) -> None:
    """Magics of cells and lines, aliases, macros and `%run` that replace what later cells define."""
    sheet.stub()
    for line in (
        "%%capture out\n10.0",
        "%alias check echo 10",
        "%%writefile answer.py\ntrain_days = gpus_for_deadline = lambda *a: 10.0",
        "%run answer.py",
        "%load answer.py",
        "%macro points 1",
        "%store -r",
        "%%script python\nprint(10)",
        "%%html\n<script>alert(1)</script>",
        "%cd ..",
        "%env COURSE_WORKER=0",
    ):
        sheet.own("pass")
        sheet.notebook["cells"][sheet.place(sheet.target) - 1]["source"] = line
