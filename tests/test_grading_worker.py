"""The worker: what answers do to it, what it says of them, and that nothing of it is left."""

import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_grader.clean_text import clean
from course_grader.records import Case
from course_grader.remote_ranks import trusted_pickle
from course_grader.remote_ranks.codec import BadFrame
from course_grader.remote_ranks.wire import Wire
from course_grader.sandbox.memory_gauge import Gauge
from course_grader.sandbox.usage import exact_bytes, quick_bytes
from course_grader.worker import fork_server_process
from course_grader.worker.in_worker import InWorker, Lost, names_there, run_cell
from course_grader.worker.protocol import Channel, Garbled, WorkerChannel
from course_grader.worker.worker_pool import WorkerPool, end_in_words
from course_lib.folders import ROOT
from course_runs.processes import descendants, ended
from tests.grading_kit import ANYTHING, alive, left_of, mine, own, small_course
from tests.patience import patience
from tests.tables import each_of

LINUX = sys.platform == "linux"


@pytest.fixture(scope="module")
def workers():
    with WorkerPool() as made:
        yield made


@pytest.fixture(
    scope="module",
    params=[True, pytest.param(False, marks=pytest.mark.slower)] if LINUX else [False],
    ids=lambda fork: "forked" if fork else "fresh",
)
def either(request):
    with WorkerPool(fork=request.param) as made:
        yield made


def probe(workers, folder, source, *, args=(3,), seconds=20.0, card=ANYTHING, times=1):
    """The last outcome of an answer on a case, and what the exercise was lost for, if it was."""
    with workers.worker(folder) as worker:
        cell = run_cell(worker, source)
        assert cell.state == "answered", cell
        with InWorker(worker) as place:
            for _ in range(times):
                outcome = place.run(card, Case(name="three", args=args, seconds=seconds))
            place.settle()
        return outcome, place.lost


HONEST = {
    "a number": ("def f(n): return 2 * n", 6),
    "plain data": (
        "def f(n): return {'a': [1, 2.5, None, True], 'b': ('x', n)}",
        {"a": [1, 2.5, None, True], "b": ("x", 3)},
    ),
    "numpy": (
        "import numpy as np\ndef f(n): return [np.float64(n), np.arange(n), np.bool_(True)]",
        [3.0, [0, 1, 2], True],
    ),
    "a number with its source": (
        "from course_lib.estimate import facts\ndef f(n): return facts.device('H100 SXM').memory",
        80e9,
    ),
    "memory without a value": ("import torch\ndef f(n): return torch.empty(n).isnan().tolist()", [True] * 3),
    "a thread left running": (
        "import threading, time\ndef f(n):\n    threading.Thread(target=time.sleep, args=(60,)).start()\n    return n",
        3,
    ),
    "a gigabyte of output": ("def f(n):\n    for _ in range(1000): print('x' * 1_000_000)\n    return n", 3),
    "output past Python": ("import os\ndef f(n):\n    os.write(1, b'x' * 1000); os.write(2, b'y'); return n", 3),
    "warnings and stderr": (
        "import sys, warnings\ndef f(n):\n    warnings.warn('w'); print('e', file=sys.stderr); return n",
        3,
    ),
    "a changed argument": ("def f(n):\n    n.append(4)\n    return n", None),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_answer_comes_through(either, tmp_path, name):
    source, want = HONEST[name]
    args = ([3],) if want is None else (3,)
    outcome, lost = probe(either, tmp_path, source, args=args, times=2)
    assert lost is None and outcome.state == "answered", (outcome, lost)
    assert outcome.value == ([3, 4] if want is None else want)
    assert len(outcome.output) <= 20_000


ENDS = {
    "exit": ("import os\ndef f(n): os._exit(3)", "crashed", "ended the process: exit(3)"),
    "kill": ("import os\ndef f(n): os.kill(os.getpid(), 9)", "crashed", "signal 9 (SIGKILL)"),
    "native crash": ("import ctypes\ndef f(n): ctypes.string_at(0)", "crashed", "SIGSEGV), a crash in native code"),
    "abort": ("import os\ndef f(n): os.abort()", "crashed", "SIGABRT"),
    "hang": (
        "def f(n):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "timed out",
        "longer than 1 s",
    ),
    "sleep": ("import time\ndef f(n): time.sleep(60)", "timed out", "longer than 1 s on “three”"),
    "closed descriptors": (
        "import os\ndef f(n):\n    os.closerange(3, 1000)\n    return n",
        "crashed",
        "closed its connection",
    ),
    "closed and stays": (
        "import os, time\ndef f(n):\n    os.closerange(3, 1000)\n    time.sleep(60)",
        "crashed",
        "closed its connection",
    ),
    "garbage": (
        "import os\ndef f(n):\n    for fd in range(3, 64):\n        try: os.write(fd, b'points: 100' * 9)\n        "
        "except OSError: pass\n    return n",
        "refused",
        "wrote into the connection",
    ),
    "sys.exit": ("import sys\ndef f(n): sys.exit('bye')", "raised", "SystemExit: bye"),
    "interrupt": ("def f(n): raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
    "recursion": ("def f(n): return f(n)", "raised", "RecursionError"),
    "too large": ("def f(n): return 'x' * 100_000_000", "raised", "cannot be handed to the judge"),
    "too many values": ("def f(n): return list(range(1_000_001))", "raised", "1,000,000 values"),
    "too long a number": ("def f(n): return 10 ** 100_000", "raised", "cannot be handed to the judge"),
    "nested": ("def f(n):\n    x = []\n    for _ in range(1000): x = [x]\n    return x", "raised", "nested"),
    "an object": (
        "class Same:\n    def __eq__(self, other): return True\ndef f(n): return Same()",
        "raised",
        "returned a Same",
    ),
    "an error that cannot be shown": (
        "class E(Exception):\n    def __str__(self): raise SystemExit\ndef f(n): raise E",
        "raised",
        "SystemExit",
    ),
    "not answered": ("def f(n): raise NotImplementedError", "not answered", "Not answered yet"),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_an_answer_ended_is_said_in_words(either, tmp_path, name):
    source, state, words = ENDS[name]
    outcome, _ = probe(either, tmp_path, source, seconds=1.0 if state == "timed out" else 20.0)
    assert outcome.state == state and words in outcome.error, outcome
    assert outcome.value is None


# ---------------------------------------------------------------------------- forging and leaking


FIND_CHANNEL = """
import gc, sys
def channel():
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if type(value).__name__ == "Worker":
                found = value.channel
        if "token" in frame.f_locals:
            return found, frame.f_locals["token"]
        frame = frame.f_back
"""
FORGERIES = {
    "a second answer with the right token": FIND_CHANNEL
    + """
def f(n):
    there, token = channel()
    there.send(token, {"state": "answered", "value": 6, "error": "", "trace": "", "output": "", "seconds": 0.0})
    return 7
""",
    "an answer ahead of the next question": FIND_CHANNEL
    + """
def f(n):
    there, token = channel()
    there.send(b"0" * 16, {"state": "answered", "value": 6, "error": "", "trace": "", "output": "", "seconds": 0.0})
    return 6
""",
    "an answer of the wrong kind": FIND_CHANNEL
    + """
import os
def f(n):
    there, token = channel()
    there.send(token, [6])
    os._exit(0)
""",
    "a state that no answer has": FIND_CHANNEL
    + """
import os
def f(n):
    there, token = channel()
    there.send(token, {"state": "passed", "value": 6, "error": "", "trace": "", "output": "", "seconds": 0.0})
    os._exit(0)
""",
    "a frame of a terabyte": FIND_CHANNEL
    + """
import os, struct
def f(n):
    there, token = channel()
    there.sock.sendall(struct.pack(">4s16sQ", b"TaS1", token, 2 ** 40))
    os._exit(0)
""",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_message_costs_the_exercise(workers, tmp_path, name):
    _, lost = probe(workers, tmp_path, FORGERIES[name], times=2)
    assert lost is not None and lost.state == "refused", lost


PATCHED = """
import builtins, json, struct
import course_grader.remote_ranks.codec as codec, course_grader.worker.protocol as channel
import course_grader.worker.runners as place
class Yes:
    def __eq__(self, other): return True
    def __call__(self, *a, **k): return True
def f(n):
    builtins.isinstance = lambda *a: True
    json.dumps = json.loads = codec.decode = place.plain = lambda *a, **k: 6
    codec._DTYPES = Yes()
    return n
"""


def test_what_an_answer_patches_changes_nothing_outside_its_clone(workers, tmp_path):
    with workers.worker(tmp_path) as worker:
        run_cell(worker, PATCHED + "\ndef g(n): return [n, isinstance(n, str)]")
        with InWorker(worker) as place:
            place.run(ANYTHING, Case(name="one", args=(3,)))
        import dataclasses

        with InWorker(worker) as place:
            outcome = place.run(dataclasses.replace(ANYTHING, answers=("g",)), Case(name="two", args=(3,)))
    assert outcome.value == [3, False]


def test_an_exercise_cannot_reach_into_another(workers, tmp_path):
    with workers.worker(tmp_path) as worker:
        run_cell(worker, "seen = []\ndef f(n):\n    seen.append(n)\n    return len(seen)")
        counts = []
        for _ in range(2):
            with InWorker(worker) as place:
                counts += [place.run(ANYTHING, Case(name="n", args=(n,))).value for n in (1, 2)]
    assert counts == [1, 2, 1, 2]


LEAKS = {
    "import": "def f(n):\n    import course_chapters.ch01.exercises.judges",
    "from": "def f(n):\n    import course_grader.judging",
    "importlib": "import importlib\ndef f(n):\n    importlib.import_module('course_grader.judge.decision')",
    "reload of the package": "import importlib, sys\nfrom course_grader import exercises\ndef f(n):\n    "
    "importlib.reload(exercises)\n    import course_grader.judging",
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_judging_cannot_be_imported(either, tmp_path, name):
    outcome, _ = probe(either, tmp_path, LEAKS[name])
    assert outcome.state == "raised" and "cannot be imported" in outcome.error, outcome


def test_nothing_of_the_judging_is_in_a_workers_memory(workers, tmp_path):
    source = """
import gc, sys
def f(n):
    names = {type(each).__name__ for each in gc.get_objects()} & {"Judging", "DrillKey"}
    return sorted(names) + sorted(name for name in sys.modules if "judg" in name)
"""
    assert probe(workers, tmp_path, source)[0].value == []


def test_a_worker_has_no_secrets_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_SECRET", "s3cret")
    with WorkerPool() as fresh:
        outcome, _ = probe(fresh, tmp_path, "import os\ndef f(n): return dict(os.environ)")
    assert "COURSE_SECRET" not in outcome.value and outcome.value["COURSE_WORKER"] == "1"
    assert outcome.value["OMP_NUM_THREADS"] == "1"


def test_settings_that_a_cell_leaves_behind_do_not_reach_an_answer(workers, tmp_path):
    source = """
import torch
torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")
torch.set_grad_enabled(False)

def f(n):
    x = torch.ones(n, requires_grad=True)
    return [torch.get_num_threads(), str(x.dtype), str(x.device), (2 * x).requires_grad]
"""
    assert probe(workers, tmp_path, source)[0].value == [1, "torch.float32", "cpu", True]


def test_a_worker_leaves_nothing_in_the_home_folder(monkeypatch, tmp_path):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with WorkerPool() as fresh:
        outcome, _ = probe(fresh, tmp_path, "import os\nfrom pathlib import Path\ndef f(n): return os.environ['HOME']")
    assert outcome.value == str(tmp_path / "home") and not list((tmp_path / "home").iterdir())


def test_what_a_cell_prints_is_not_kept(workers, tmp_path):
    source = (
        "for _ in range(400): print('x' * 1_000_000)\ndef f(n): return 4096 * "
        "int(open('/proc/self/statm').read().split()[1])"
    )
    assert probe(workers, tmp_path, source)[0].value < 300e6


def test_generators_start_alike_on_every_case(workers, tmp_path):
    source = "import random\nimport numpy as np\ndef f(n): return [random.random(), float(np.random.rand())]"
    assert probe(workers, tmp_path, source)[0].value == probe(workers, tmp_path, source, times=3)[0].value


def test_the_library_function_that_is_asked_for_is_switched_off(workers, tmp_path):
    import dataclasses

    card = dataclasses.replace(ANYTHING, hides=("course_lib.estimate.compute:train_flops",))
    source = "from course_lib.estimate.compute import train_flops\ndef f(n): return train_flops(1.0, 1.0)"
    outcome, _ = probe(workers, tmp_path, source, card=card)
    assert outcome.state == "raised" and "switched off" in outcome.error


def test_names_know_whose_they_are(workers, tmp_path):
    with workers.worker(tmp_path) as worker:
        run_cell(worker, "from math import sqrt\ndef f(n): return n")
        assert names_there(worker, ["f", "sqrt", "g"]) == ([True, True, False], [True, False, False])


# ---------------------------------------------------------------------------- nothing is left


STRAYS = {
    "a child": "import subprocess\ndef f(n):\n    subprocess.Popen(['sleep', '60'])\n    return n",
    "a session of its own": "import subprocess\ndef f(n):\n    subprocess.Popen(['sleep', '60'], "
    "start_new_session=True)\n    return n",
    "a daemon": "import os, time\ndef f(n):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: "
    "time.sleep(60)\n        os._exit(0)\n    return n",
    "many": "import os, time\ndef f(n):\n    for _ in range(20):\n        if os.fork() == 0: "
    "time.sleep(60)\n    return n",
}


@pytest.mark.skipif(not LINUX, reason="descendants are found through /proc")
@pytest.mark.parametrize("name", STRAYS)
def test_what_an_answer_starts_ends_with_its_exercise(tmp_path, monkeypatch, name):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with WorkerPool() as made:
        with made.worker(tmp_path) as worker:
            run_cell(worker, STRAYS[name])
            with InWorker(worker) as place:
                assert place.run(ANYTHING, Case(name="n", args=(3,))).value == 3
                assert descendants(made._server.process.pid)
            assert descendants(made._server.process.pid) == [worker.pid]
        assert descendants(made._server.process.pid) == []
    assert alive(str(tmp_path)) == []


@pytest.mark.skipif(not LINUX, reason="processes are found through /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM], ids=["Ctrl-C", "killed", "terminated"])
def test_a_check_that_is_stopped_leaves_no_process(tmp_path, how):
    from course_grader.notebooks import parse, render

    where = small_course(tmp_path / "course")
    (tmp_path / "tmp").mkdir()
    notebook = parse(mine(where).read_text())
    notebook["cells"].insert(
        2,
        own("import subprocess, pathlib\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\nwhile True: pass"),
    )
    mine(where).write_text(render(notebook))
    env = {**os.environ, "COURSE_ROOT": str(where.root), "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-c",
        "from course_app.check.command import check_main; raise SystemExit(check_main(['01'], *[False] * 4))",
    ]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    until = time.monotonic() + patience(30)
    # the check, the warm process, the worker, sleep
    while len(alive(str(tmp_path / "tmp"))) < 4 and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, said = process.communicate(timeout=patience(30))
    assert left_of(str(tmp_path / "tmp")) == []
    if how is signal.SIGINT:
        assert process.returncode == 130 and b"stopped" in said and b"Traceback" not in said


@pytest.mark.skipif(not LINUX, reason="processes are found through /proc")
def test_a_fresh_worker_in_an_endless_loop_ends_with_its_judge(tmp_path):
    (tmp_path / "tmp").mkdir()
    program = (
        "from pathlib import Path\nfrom course_grader.worker.in_worker import run_cell\nfrom "
        "course_grader.worker.worker_pool import WorkerPool\n"
        "with WorkerPool(fork=False) as workers, workers.worker(Path('.')) as worker:\n    run_cell(worker, 'while "
        "True: pass')"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", program], env=env, cwd=tmp_path, start_new_session=True)
    until = time.monotonic() + patience(30)
    while len(alive(str(tmp_path / "tmp"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)  # into the loop
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert left_of(str(tmp_path / "tmp")) == []


# ---------------------------------------------------------------------------- small parts


@each_of(
    "code, words",
    (0, "exit(0)"),
    (1, "exit(1)"),
    (-11, "signal 11 (SIGSEGV)"),
    (-9, "out of memory"),
    (0xC0000005, "0xc0000005"),
    (-63, "signal 63"),
)
def test_an_end_in_words(code, words):
    assert words in end_in_words(None, code)


@each_of(
    "text, want",
    ("plain\ttext\n", "plain\ttext\n"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07body", "body"),
    ("a\rb", "a\nb"),
    ("a\x00\x08b", "ab"),
    ("\u202eevil", "evil"),
    ("[bold]kept[/bold]", "[bold]kept[/bold]"),
    ("é → ✓", "é → ✓"),
    ("\x9b31m", "31m"),
)
def test_text_from_a_worker_is_safe_to_show(text, want):
    assert clean(text) == want


def test_floods_of_text_are_cut():
    assert len(clean("x" * 10_000_000, 600)) <= 600
    assert len(max(clean("y" * 5000 + "\n", 9000).split("\n"), key=len)) <= 401


def test_a_channel_refuses_what_is_no_frame():
    import socket

    mine, theirs = socket.socketpair()
    theirs.sendall(b"HTTP/1.1 200 OK" * 9)
    with pytest.raises(Garbled):
        Channel(mine).receive(1.0)
    mine.close(), theirs.close()


@each_of("length", [2**40 + 12_345, 12])
def test_what_is_said_of_such_a_frame_holds_nothing_of_it(length):
    import socket

    mine, theirs = socket.socketpair()
    theirs.sendall(struct.pack(">4s16sQ", b"TaS1", b"0" * 16, length) + b"secret-12345")
    with pytest.raises(Garbled) as found:
        Channel(mine).receive(1.0)
    assert not re.search(r"secret|12,?345|1,?099", str(found.value))
    mine.close(), theirs.close()


def test_a_judge_reads_nothing_in_the_form_in_which_it_speaks(tmp_path):
    import pickle
    import socket

    class Trap:
        def __reduce__(self):
            return (tmp_path / "sprung").touch, ()

    mine, theirs = socket.socketpair()
    WorkerChannel(theirs).send(b"0" * 16, {"state": "answered"})
    assert Channel(mine).receive(1.0)[1] == {"state": "answered"}
    for data in (pickle.dumps(Trap()), trusted_pickle.pack({"state": "answered"})):
        theirs.sendall(struct.pack(">4s16sQ", b"TaS1", b"0" * 16, len(data)) + data)
        with pytest.raises(Garbled):
            Channel(mine).receive(1.0)
        theirs.sendall(struct.pack("<I", len(data)) + data)
        with pytest.raises(BadFrame):
            Wire(mine).receive(10**6, time.monotonic() + 1.0)
    assert not (tmp_path / "sprung").exists()
    mine.close(), theirs.close()


def test_an_oversize_request_is_not_sent():
    import socket

    mine, theirs = socket.socketpair()
    with pytest.raises(ValueError, match="at most"):
        Channel(mine, limit=1000).send(b"0" * 16, "x" * 2000)
    mine.close(), theirs.close()


def test_a_worker_that_cannot_start_says_why(monkeypatch, tmp_path):
    from course_lib.messages import Trouble

    monkeypatch.setitem(fork_server_process._SET, "PYTHONHASHSEED", "not a seed")
    with pytest.raises(Trouble, match="did not start"), WorkerPool() as broken, broken.worker(tmp_path):
        raise AssertionError("a worker was given")


def test_a_lost_place_stays_lost(workers, tmp_path):
    with workers.worker(tmp_path) as worker:
        run_cell(worker, "import os\ndef f(n):\n    if n == 1: os._exit(5)\n    return n")
        with InWorker(worker) as place:
            states = [place.run(ANYTHING, Case(name="n", args=(n,))).state for n in (0, 1, 2)]
            assert isinstance(place.lost, Lost)
        assert run_cell(worker, "1").state == "answered"
    assert states == ["answered", "crashed", "crashed"]


HALF_DEAD = """
import ctypes, os, threading, time

def go():
    kept = bytearray(b"x") * 50_000_000
    print("there", flush=True)
    time.sleep(60)

threading.Thread(target=go).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # the first thread alone
"""


@pytest.mark.skipif(not LINUX, reason="processes are found through /proc")
def test_a_process_whose_first_thread_has_ended_is_seen_weighed_and_not_taken_for_dead():
    gauge = Gauge(lambda: descendants(os.getpid()), 0)
    with subprocess.Popen([sys.executable, "-c", HALF_DEAD], stdout=subprocess.PIPE, text=True) as half:
        assert half.stdout is not None and half.stdout.readline() == "there\n"
        until = time.monotonic() + patience(20)
        while Path(f"/proc/{half.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            assert time.monotonic() < until, "its first thread goes on"
            time.sleep(0.01)
        assert not ended(half.pid) and half.pid in descendants(os.getpid())
        assert min(quick_bytes(half.pid), exact_bytes(half.pid), gauge.grown()) > 50_000_000
        half.kill()
    assert ended(half.pid)
