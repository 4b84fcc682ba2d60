"""The sandbox: what a submission can read, write, reach, signal and use up, and what is left of it."""

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from course_grader import exercises
from course_grader.bank.kill_matrix import bank
from course_grader.intake import MAX_BYTES, MAX_CELLS
from course_grader.judge import grade
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.notebooks import parse, render
from course_grader.records import Case
from course_grader.sandbox import LEVELS, Availability, Wall, availabilities, best_level, filters, sandbox_lines, usage
from course_grader.sandbox.policy import course_files, trees
from course_grader.submission import Step, Submission
from course_grader.worker.imports import TRAINING, imports_of
from course_grader.worker.in_worker import InWorker, Lost, run_cell
from course_grader.worker.rank_processes import RankProcesses
from course_grader.worker.worker_pool import WorkerPool
from course_lib.folders import PACKAGES, ROOT
from course_lib.messages import Trouble
from course_runs.processes import descendants
from tests.grading_kit import ANYTHING, REPOSITORY, alive, cell_of, full, left_of, marked, own, points, small_source
from tests.patience import patience
from tests.tables import each_alone, each_of

KEPT = LEVELS[:2]
SMALL = {"memory_bytes": 300_000_000, "processes": 24, "folder_bytes": 20_000_000, "file_bytes": 10_000_000}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    """A folder like a class's, with what nobody inside may read."""
    folder = tmp_path_factory.mktemp("class")
    (folder / ".secret").write_text("canary-5eed")
    (folder / "submitted").mkdir()
    (folder / "submitted/other.ipynb").write_text("canary-other")
    return folder


@pytest.fixture(scope="module", params=KEPT)
def kept(request, secrets):
    with WorkerPool(
        torch=True, chapters=["00"], wall=Wall(level=request.param, hidden=(str(secrets),), **SMALL)
    ) as made:
        yield made


def probe(workers, folder, source, *args, seconds=20.0):
    """The outcome of `f(*args)` of an answer, and a second one of a plain answer on the same worker afterwards."""
    with workers.worker(folder) as worker:
        cell = run_cell(worker, source + "\ndef g(): return 'still here'")
        assert cell.state == "answered", cell
        with InWorker(worker) as place:
            outcome = place.run(ANYTHING, Case(name="one", args=args, seconds=seconds))
        with InWorker(worker) as place:
            after = place.run(dataclasses.replace(ANYTHING, answers=("g",)), Case(name="after"))
    assert after.value == "still here", after  # whatever it was, it cost its own exercise only
    return outcome


def value(workers, folder, source, *args):
    outcome = probe(workers, folder, source, *args)
    assert outcome.state == "answered", outcome
    return outcome.value


# ---------------------------------------------------------------------------- reading


READS = """
import os
def f(paths):
    found = []
    for path in paths:
        try:
            found.append([path, len(open(path, "rb").read(200))] if not os.path.isdir(path) else [path,
                len(os.listdir(path))])
        except OSError:
            pass
    return [path for path, length in found if length]
"""


def test_nothing_of_the_judge_the_class_or_the_system_can_be_read(kept, tmp_path, secrets):
    grader = ROOT / "course_grader"
    paths = [
        secrets,
        secrets / ".secret",
        secrets / "submitted/other.ipynb",
        ROOT / "solutions",
        ROOT / "tests",
        ROOT / "notebooks",
        *grader.glob("judging/*.py"),
        *ROOT.glob("course_chapters/ch*/exercises/judges/*.py"),
        *ROOT.glob("course_chapters/ch*/exercises/judges/__pycache__/*.pyc"),
        *grader.glob("judge/*.py"),
        *grader.glob("bank/*.py"),
        *ROOT.glob("course_app/check/*.py"),
        *(
            grader / "worker" / f"{name}.py"
            for name in ("worker_pool", "fork_server", "fork_server_process", "preload", "process_cleanup", "in_worker")
        ),
        *Path.home().glob(".[bp]*rc"),
        *grader.glob("judge/__pycache__/*.pyc"),
        *grader.glob("sandbox/*.py"),
        Path(__file__),
        *map(
            Path,
            (
                "/etc/shadow",
                "/etc/hostname",
                "/var/log",
                "/boot",
                "/sys/class/net",
                "/run",
                "/proc/1/environ",
                "/dev/vda",
            ),
        ),
    ]
    there = [str(path) for path in paths if path.exists()]
    assert len(there) > 30
    # in its own space that is itself
    seen = [path for path in value(kept, tmp_path, READS, there) if path != "/proc/1/environ"]
    assert seen == []


def test_a_process_knows_nothing_of_others(kept, tmp_path):
    source = f"""
import os
def f():
    try:
        numbers = [int(each) for each in os.listdir("/proc") if each.isdigit()]
    except PermissionError:
        numbers = []
    texts = []
    for number in [*numbers, {os.getpid()}]:
        try: texts.append(open(f"/proc/{{number}}/environ").read())
        except OSError: pass
    return [len(numbers), "COURSE_CANARY" in str(texts) or "pytest" in str(texts)]
"""
    os.environ["COURSE_CANARY"] = "yes"
    count, leaked = value(kept, tmp_path, source)
    del os.environ["COURSE_CANARY"]
    assert count <= 3 and not leaked


def test_a_worker_has_what_honest_work_needs(kept, tmp_path):
    (tmp_path / "data.txt").write_text("beside")
    source = """
import os, subprocess, sys, tempfile, threading
def f():
    import statistics, course_lib.cluster.collectives, matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.plot([1, 2]); plt.savefig("figure.png")
    import torch
    weight = torch.ones(50, 50, requires_grad=True)
    (weight @ weight).sum().backward()
    with tempfile.NamedTemporaryFile() as file: file.write(b"x" * 1000)
    thread = threading.Thread(target=int); thread.start(); thread.join()
    said = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout
    left, right = os.pipe()
    return [open("data.txt").read(), os.path.getsize("figure.png") > 1000, float(weight.grad.sum()), said.strip(),
        os.path.exists(os.environ["HOME"])]
"""
    assert value(kept, tmp_path, source) == ["beside", True, 5000.0 * 50, "42", True]


GLOO = """
import os, tempfile, multiprocessing as mp
def work(rank, file, queue):
    import torch, torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=4)
    x = torch.ones(3) * rank
    dist.all_reduce(x)
    queue.put(x.tolist())
def f():
    context = mp.get_context("fork")
    queue, file = context.Queue(), os.path.join(tempfile.mkdtemp(), "meet")
    made = [context.Process(target=work, args=(rank, file, queue)) for rank in range(4)]
    for each in made: each.start()
    found = [queue.get(timeout=60) for _ in made]
    for each in made: each.join()
    return found
"""


def test_real_processes_and_gloo_work_behind_namespaces(tmp_path):
    with WorkerPool(torch=True, wall=Wall()) as made:
        assert value(made, tmp_path, GLOO) == [[6.0] * 3] * 4


# ---------------------------------------------------------------------------- writing, reaching, signalling


WRITES = """
import os
def f(folders):
    done = []
    for folder in folders:
        for name in ("planted.py", "planted.pth", "sitecustomize.py"):
            try:
                open(os.path.join(folder, name), "w").write("x")
                done.append(folder)
            except OSError:
                pass
    return done
"""


def test_nothing_can_be_written_but_in_the_own_folder(kept, tmp_path, secrets):
    folders = [
        secrets,
        secrets / "submitted",
        ROOT,
        *(ROOT / package for package in PACKAGES),
        *trees(),
        Path("/etc"),
        Path("/dev"),
        Path("/var/tmp"),
        Path.home(),
        ROOT / "course_lib/__pycache__",
    ]
    folders = [str(path) for path in folders if path.is_dir()]
    assert value(kept, tmp_path, WRITES, folders) == []
    assert not [path for folder in folders for path in Path(folder).glob("planted.p*")]


def shown_in_tmp(*more):
    """What a worker sees in /tmp before it writes there: nothing, unless the course or its Python lies in it."""
    return sorted(
        {path.relative_to("/tmp").parts[0] for path in (*trees(), ROOT, *more) if path.is_relative_to("/tmp")}
    )


def test_what_is_written_goes_with_its_worker(kept, tmp_path):
    source = (
        "import os, tempfile\ndef f():\n    before = sorted(os.listdir('.')), "
        "sorted(os.listdir(tempfile.gettempdir()))\n"
    )
    source += (
        "    open('mine', 'w').write('x'); open(os.path.join(tempfile.gettempdir(), 'mine'), 'w').write('x')\n  "
        "  return list(before)"
    )
    outside = set(os.listdir(tempfile.gettempdir()))
    shown = shown_in_tmp() if kept.wall.level == "namespaces" else []
    assert [value(kept, tmp_path, source) for _ in range(2)] == [[[], shown]] * 2
    assert not (tmp_path / "mine").exists()
    assert not [name for name in set(os.listdir(tempfile.gettempdir())) - outside if name == "mine"]


REACHES = """
import socket
def f(targets):
    met = []
    for family, kind, address in targets:
        try:
            sock = socket.socket(family, kind)
            sock.settimeout(1)
            sock.connect(tuple(address) if type(address) is list else address)
            sock.send(b"canary")
            met.append([family, kind])
        except OSError:
            pass
    return met
"""


def test_no_service_of_the_machine_is_reached(kept, tmp_path):
    servers = []
    for family, kind, address in [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0course-canary-{os.getpid()}"),
        (socket.AF_UNIX, socket.SOCK_STREAM, str(tmp_path / "s")),
        (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0course-canary-2-{os.getpid()}"),
    ]:
        server = socket.socket(family, kind)
        server.bind(address)
        server.setblocking(False)
        if kind == socket.SOCK_STREAM:
            server.listen()
        servers.append(server)
    targets = [
        [
            int(s.family),
            int(s.type),
            list(n) if isinstance(n := s.getsockname(), tuple) else n.decode() if isinstance(n, bytes) else n,
        ]
        for s in servers
    ]
    targets += [[int(socket.AF_INET), 1, ["8.8.8.8", 53]], [40, 1, [2, 1024]], [16, 3, [0, 0]]]
    met = value(kept, tmp_path, REACHES, targets)
    assert [
        each for each in met if each != [2, 2] and each != [16, 3]
    ] == []  # a datagram into its own empty network is no meeting
    for server in servers:
        with pytest.raises(BlockingIOError):
            server.accept() if server.type == socket.SOCK_STREAM else server.recv(100)
        server.close()


def test_no_process_outside_gets_a_signal(kept, tmp_path):
    victim = subprocess.Popen(["sleep", "60"])
    pids = [victim.pid, kept._server.process.pid]
    source = """
import os, signal
def f(pids):
    hit = []
    for pid in pids:
        for how in (0, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(pid, how)
                hit.append(pid)
            except OSError: pass
    return hit
"""
    hit = value(kept, tmp_path, source, pids)
    assert victim.poll() is None and kept._server.process.poll() is None and hit == []
    victim.kill(), victim.wait()


DENIED = """
import ctypes, errno, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def f(numbers):
    allowed = []
    for name, number, given in numbers:
        if libc.syscall(number, *given) != -1 or ctypes.get_errno() != errno.EPERM:
            allowed.append([name, ctypes.get_errno()])
    try:
        mmap.mmap(-1, 4096)
        allowed.append("shared memory without a name")
    except OSError: pass
    return [allowed, libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0),
        [libc.prctl(23, each, 0, 0, 0) for each in range(38)]]
"""


def test_it_has_no_rights_and_gains_none(kept, tmp_path):
    from course_grader.sandbox.linux import NEWUSER, number

    calls = [[name, number(name), [0, 0, 0, 0, 0]] for name in filters.DENIED if name != "unshare"] + [
        ["unshare", number("unshare"), [NEWUSER]]
    ]
    calls += [["clone", number("clone"), [NEWUSER | signal.SIGCHLD, 0, 0, 0, 0]]]
    allowed, no_new, filtered, bounding = value(kept, tmp_path, DENIED, calls)
    assert allowed == [] and no_new == 1 and filtered == 2 and not any(bounding)


def test_every_worker_is_somebody_else(tmp_path):
    source = "import os\ndef f(): return [os.getuid(), os.getgid(), os.getgroups()]"
    with WorkerPool(wall=Wall()) as made:
        users = [value(made, tmp_path, source) for _ in range(2)]
    assert len({user for user, _, _ in users}) == 2
    assert all(user >= 65534 and user == group and not more for user, group, more in users)


# ---------------------------------------------------------------------------- using up


GREEDY = {
    "memory": (
        "def f():\n    x = []\n    while True: x.append(bytearray(5_000_000))",
        "crashed",
        "used more than 0.3 GB of memory",
    ),
    "memory in many processes": (
        "import os, time\ndef f():\n    for _ in range(8):\n        if os.fork() == 0:\n            x = "
        "[bytearray(5_000_000) for _ in range(16)]; time.sleep(60)\n    time.sleep(60)",
        "crashed",
        "used more than 0.3 GB of memory",
    ),
    "memory at once": (
        "def f(): return len(bytearray(80_000_000_000))",
        "raised",
        "MemoryError: it asked for more memory than there is for it",
    ),
    "tensors at once": ("import torch\ndef f(): return torch.ones(20_000_000_000)", "raised", "can't allocate memory"),
    "processes": (
        "import os, time\ndef f():\n    while True:\n        try:\n            if os.fork() == 0: time.sleep(60)\n    "
        "    except OSError: pass",
        "crashed",
        "started more than 24 processes",
    ),
    "a large file": (
        "def f():\n    with open('big', 'wb') as file:\n        for _ in range(100): file.write(bytes(1_000_000))",
        "raised",
        "File too large",
    ),
    "open files": (
        "import os\ndef f(): return [os.open('/dev/null', os.O_RDONLY) for _ in range(1000)]",
        "raised",
        "Too many open files",
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_what_uses_too_much_ends_and_says_so(kept, tmp_path, name):
    source, state, words = GREEDY[name]
    outcome = probe(kept, tmp_path, source)
    assert outcome.state == state and words in outcome.error, outcome


# On a shared /dev/shm each run needs names of its own: what another user left there cannot be written. It may also be
# small
# or full; only where each of the three folders is limited does the answer end by itself.
FILLS = """
import os, tempfile, uuid
def f():
    run, refused = uuid.uuid4().hex, []
    for folder in (".", tempfile.gettempdir(), "/dev/shm"):
        try:
            for number in range(10):
                with open(os.path.join(folder, f"part-{run}-{number}"), "wb") as file: file.write(bytes(9_000_000))
        except OSError as error:
            refused.append(error)
    if len(refused) == 3: raise refused[0]
    import time; time.sleep(60)
"""


def test_a_full_folder_is_its_own(kept, tmp_path):
    # on a disk that is shared the files stay till the worker ends
    with contextlib.suppress(Lost), kept.worker(tmp_path) as worker:
        run_cell(worker, FILLS)
        with InWorker(worker) as place:
            outcome = place.run(ANYTHING, Case(name="fill"))
    words = {
        "namespaces": ("raised", "No space left on device"),
        "contained": ("crashed", "wrote more than 20 MB of files"),
    }
    state, said = words[kept.wall.level]
    assert outcome.state == state and said in outcome.error, outcome


def test_a_cell_that_uses_too_much_costs_only_what_needs_it(kept):
    release = small_source()
    release["cells"].insert(2, own("x = []\nwhile True: x.append(bytearray(5_000_000))"))
    reports, notes = marked(release, kept)
    assert points(reports) == full() and any("used more than 0.3 GB of memory" in note for note in notes)


def test_marks_are_the_same_behind_a_wall_and_on_every_repeat(kept):
    source = small_source()
    cell_of(source, "state-13b")["source"] = "import os\ndef state_bytes(*_): os._exit(1)"
    first, second = (points(marked(source, kept)[0]) for _ in range(2))
    assert first == second == full("state-13b")


# ---------------------------------------------------------------------------- nothing is left


STRAYS = (
    "import os, subprocess, time\ndef f():\n    for _ in range(5):\n        if os.fork() == 0:\n            "
    "os.setsid()\n"
)
STRAYS += (
    "            if os.fork() == 0: time.sleep(60)\n            os._exit(0)\n    subprocess.Popen(['sleep', "
    "'60'], start_new_session=True)\n    return 1"
)


def test_what_an_answer_starts_ends_with_its_exercise(kept, tmp_path):
    warm = kept._server.process.pid
    with kept.worker(tmp_path) as worker:
        run_cell(worker, STRAYS)
        before = len(descendants(warm))
        with InWorker(worker) as place:
            assert place.run(ANYTHING, Case(name="strays")).value == 1 and len(descendants(warm)) > before + 5
        assert len(descendants(warm)) == before
    assert len(descendants(warm)) == before - 1


ENDINGS = [
    ("namespaces", "the warm process killed"),
    ("namespaces", "the judge killed"),
    ("contained", "the judge killed"),
    ("contained", "the warm process killed"),
    ("contained", "its other half killed"),
]


@pytest.mark.parametrize(("level", "how"), ENDINGS, ids=lambda each: each)
def test_whatever_ends_ends_everything(tmp_path, level, how):
    for name in ("tmp", "notebook"):
        (tmp_path / name).mkdir()
    program = (
        "import os, sys, time\nfrom pathlib import Path\nfrom course_grader.worker.in_worker import "
        "InWorker, run_cell\n"
        "from course_grader.sandbox import Wall\nfrom course_grader.worker.worker_pool import WorkerPool\n"
        "from course_grader.records import Case\nfrom tests.test_grading_sandbox import ANYTHING, STRAYS\n"
        f"with WorkerPool(wall=Wall(level={level!r})) as workers, "
        f"workers.worker(Path({str(tmp_path / 'notebook')!r})) as worker:\n"
        "    run_cell(worker, STRAYS)\n    place = InWorker(worker).__enter__()\n    assert place.run(ANYTHING, "
        "Case(name='n')).value == 1\n"
        # at "contained" the outer one of two
        "    print(workers._server.process.pid, flush=True)\n    sys.stdin.read()\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(REPOSITORY)}
    judge = subprocess.Popen(
        [sys.executable, "-c", program],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    warm = int(judge.stdout.readline())
    assert len(alive(str(tmp_path / "tmp"))) > 8
    if how == "its other half killed":
        [warm] = Path(f"/proc/{warm}/task/{warm}/children").read_text().split()
    os.kill(judge.pid if how == "the judge killed" else int(warm), signal.SIGKILL)
    judge.stdin.close()
    judge.wait(timeout=patience(60))
    assert left_of(str(tmp_path / "tmp")) == []
    judge.stdout.close()


# ---------------------------------------------------------------------------- ranks as processes


SHARES = {
    "the environment": ("os.environ[f'rank{k}'] = repr(v)", "eval(os.environ.get(f'rank{k}', '[]'))"),
    "an attribute of torch": (
        "torch.__dict__.setdefault('box', {})[k] = v",
        "torch.__dict__.get('box', {}).get(k, [])",
    ),
    "a file": (
        "open(f'rank{k}', 'w').write(repr(v))",
        "eval(open(f'rank{k}').read()) if os.path.exists(f'rank{k}') else []",
    ),
    "shared memory": (
        "open(f'/dev/shm/rank{k}', 'w').write(repr(v))",
        "eval(open(f'/dev/shm/rank{k}').read()) if os.path.exists(f'/dev/shm/rank{k}') else []",
    ),
    "a pipe made before": ("os.write(ends[k][1], repr(v).encode())", "eval(os.read(ends[k][0], 10000))"),
}
CHEAT = """
import os, torch
ends = [os.pipe() for _ in range(16)]
for left, right in ends: os.set_blocking(left, False)
def exchange(comm, x):
    mate = comm.rank ^ 1
    k, v = comm.rank, [str(x.dtype).removeprefix('torch.'), list(x.shape), x.reshape(-1).tolist()]
    {put}
    nothing, other = torch.zeros_like(x), torch.empty_like(x)
    work = [comm.isend(nothing, mate), comm.irecv(other, mate)] if comm.rank < mate else [comm.irecv(other, mate),
        comm.isend(nothing, mate)]
    for each in work: each.wait()
    k = mate
    try:
        dtype, shape, numbers = {get}
        return torch.tensor(numbers, dtype=getattr(torch, dtype)).reshape(shape)
    except Exception:
        return other
"""


def exchanged(workers, folder, source, deciding):
    with workers.worker(folder) as worker, contextlib.closing(RankProcesses(worker)) as ranks:
        assert run_cell(worker, source).state == "answered"
        with InWorker(worker, ranks=ranks if deciding else None) as place:
            report = grade(exercises.card("two-ranks-wait"), place)
            place.settle()
    return report


@pytest.fixture(scope="module")
def walled():
    with WorkerPool(torch=True, chapters=["00"], wall=Wall()) as made:
        yield made


@pytest.mark.parametrize("name", SHARES)
def test_ranks_that_share_what_they_were_not_sent_fail_where_it_decides(walled, tmp_path, name):
    put, get = SHARES[name]
    report = exchanged(walled, tmp_path, CHEAT.format(put=put, get=get), deciding=True)
    assert report.points == 0 and not report.by_kind()["values"], report


def test_ranks_that_share_would_pass_as_threads(walled, tmp_path):
    put, get = SHARES["an attribute of torch"]
    assert exchanged(walled, tmp_path, CHEAT.format(put=put, get=get), deciding=False).by_kind()["values"]


def test_an_honest_exchange_is_right_in_processes(walled, tmp_path):
    right = next(answer.source for answer in bank("00", "two-ranks-wait") if answer.sort == "right")
    report = exchanged(walled, tmp_path, right, deciding=True)
    assert report.passed, report


ASIDE = (
    "import os, sys\ndef f(comm):\n    found = [os.path.exists('left'), 'left' in sys.modules]\n    "
    "sys.modules['left'] = os\n    {more}\n    return found"
)


@pytest.mark.parametrize(
    ("more", "stays"), [("pass", True), ("open('left', 'w').close()", False), ("os.utime('.')", False)]
)
def test_a_fresh_process_meets_nothing_of_the_exercise_before_and_a_folder_that_was_touched_goes(
    walled, tmp_path, more, stays
):
    case, seen, shut_in = Case(name="two", ranks=2), [], []
    with walled.worker(tmp_path) as worker, contextlib.closing(RankProcesses(worker)) as ranks:
        assert run_cell(worker, ASIDE.format(more=more)).state == "answered"
        for _ in range(2):
            with InWorker(worker, ranks=ranks) as place:
                place.plan([case])
                seen.append(place.run(ANYTHING, case).value)
                shut_in.append([worker.beside(rank).pid for rank in range(2)])
            ranks.close()
    assert seen == [[[False, False]] * 2] * 2
    assert (shut_in[0] == shut_in[1]) is stays


def test_an_answer_that_cannot_be_made_again_is_an_error_of_each_rank_and_costs_its_process_nothing(walled, tmp_path):
    case, told = Case(name="two", ranks=2), []
    with walled.worker(tmp_path) as worker, contextlib.closing(RankProcesses(worker)) as ranks:
        for answer in (
            "class Odd:\n    def __reduce__(self): return eval, ('1 / 0',)\nodd = Odd()\ndef f(comm): return odd",
            "def f(comm): return comm.rank",
        ):
            assert run_cell(worker, answer).state == "answered"
            with InWorker(worker, ranks=ranks) as place:
                place.plan([case])
                told.append(place.run(ANYTHING, case))
    assert (told[0].state, told[1].value) == ("raised", [0, 1])
    assert "it cannot be made (ZeroDivisionError: division by zero)" in told[0].error


def test_processes_serve_the_next_exercise_and_load_its_answer(walled, tmp_path):
    case, who = Case(name="two", ranks=2), []
    with walled.worker(tmp_path) as worker, contextlib.closing(RankProcesses(worker)) as ranks:
        for word in ("first", "second"):
            assert run_cell(worker, f"import os\ndef f(comm): return ['{word}', os.getpid()]").state == "answered"
            with InWorker(worker, ranks=ranks) as place:
                place.plan([case])
                who.append(place.run(ANYTHING, case).value)
    first, following = who
    assert [word for word, _ in first] == ["first"] * 2 and [word for word, _ in following] == ["second"] * 2
    assert [pid for _, pid in first] == [pid for _, pid in following]


WRAPPED = """{right}
import sys
_right = {name}
def {name}(comm, x):
    {first}
    return _right(comm, x)
"""


@each_alone(
    "first, second, earned",
    ("sys.modules['left'] = sys", "assert 'left' not in sys.modules", (True, True)),
    ("pass", "x = 2 * x", (True, False)),
    ("x = 2 * x", "pass", (False, True)),
)
def test_what_an_exercise_leaves_in_its_ranks_costs_the_next_one_nothing(walled, monkeypatch, first, second, earned):
    cards = [exercises.card(name) for name in ("two-ranks-wait", "token-round-the-ring")]
    steps, places = [], []
    for card, line in zip(cards, (first, second), strict=True):
        right = next(answer.source for answer in bank("00", card.id) if answer.sort == "right")
        source = WRAPPED.format(right=right, name=card.answers[0], first=line)
        steps += [Step(do="run", exercise=card.id, source=source, whose="answer"), Step(do="judge", exercise=card.id)]
    monkeypatch.setattr(
        "course_grader.judge.grade_notebook.InWorker",
        lambda *given, **more: places.append(InWorker(*given, **more)) or places[-1],
    )
    done = grade_notebook(
        Submission(steps=tuple(steps), exercises=tuple(card.id for card in cards)), cards, walled, deciding_ranks=True
    )
    assert tuple(report.passed for report in done.reports) == earned, done
    judged = [place for place in places if place.ranks is not None]
    assert len(judged) == 3  # what passes is judged once, what does not once more in fresh ones


def test_a_rank_reaches_nothing_in_the_process_that_it_is_a_copy_of(walled, tmp_path):
    source = (
        "import os\ndef tried(path, how):\n    try:\n        os.close(os.open(path, how)); return 'opened'\n    "
        "except OSError as error: return type(error).__name__\n"
        "def f(comm): return [tried(f'/proc/{who}/mem', os.O_RDWR) for who in (1, 'self')] + [tried('/proc/loadavg', "
        "os.O_RDONLY)]"
    )
    case = Case(name="two", ranks=2)
    with walled.worker(tmp_path) as worker, contextlib.closing(RankProcesses(worker)) as ranks:
        assert run_cell(worker, source).state == "answered"
        with InWorker(worker, ranks=ranks) as place:
            place.plan([case])
            assert place.run(ANYTHING, case).value == [["PermissionError"] * 3] * 2


def test_workers_of_many_notebooks_are_rehearsed_and_find_nothing_of_it(tmp_path):
    with WorkerPool(torch=True, chapters=["00"], wall=Wall(), many=True) as made, made.worker(tmp_path) as worker:
        assert (
            run_cell(
                worker,
                "import os, random, threading\nat_first = sorted(set(globals()))\n"
                "def f(): return [threading.active_count(), len(os.listdir('/proc/self/task')), random.random(), "
                "'warmed_up' in at_first, 'math' in at_first]",
            ).state
            == "answered"
        )
        with InWorker(worker) as place:
            assert place.run(ANYTHING, Case(name="one")).value == [1, 1, 0.8444218515250481, False, False]


def test_a_rank_that_ends_its_process_is_told_so(walled, tmp_path):
    report = exchanged(
        walled,
        tmp_path,
        "import os\ndef exchange(comm, x):\n    if comm.rank == 1: os._exit(4)\n    return x",
        deciding=True,
    )
    assert report.state == "crashed" and "exit(4)" in report.note, report


# ---------------------------------------------------------------------------- intake


STRANGE = {  # made when asked for: together they are a hundred megabytes
    "deep": (lambda: b"[" * 3_000_000, "not a whole notebook"),
    "a huge number": (lambda: b'{"cells": [], "metadata": ' + b"9" * 1_000_000 + b"}", "not a whole notebook"),
    "millions of lists": (
        lambda: b'{"cells": [], "metadata": {"x": [' + b"[[]]," * 9_000_000 + b"[]]}}",
        "is too large to read",
    ),
    "many cells": (
        lambda: b'{"cells": [' + b'{"cell_type": "raw"},' * MAX_CELLS + b'{"cell_type": "raw"}], "metadata": {}}',
        "cells; at most",
    ),
    "too large": (lambda: b" " * (MAX_BYTES + 1), "a notebook may have"),
    "no text": (lambda: bytes(range(256)), "not UTF-8"),
    "empty": (lambda: b"", "is empty"),
    "no notebook": (lambda: b'{"cells": 3}', "not a notebook"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_notebook_is_refused_in_words(walled, name):
    data, words = STRANGE[name]
    with pytest.raises(Trouble, match=words):
        walled.intake(data())


def test_a_good_notebook_comes_through_intake_as_it_was(walled):
    source = small_source()
    source["cells"][0]["attachments"] = {"a.png": {"image/png": "AAAA"}}
    source["cells"][2]["metadata"]["tags"] = ["on-gpus"]
    got = walled.intake(render(source).encode())
    assert got["cells"] == source["cells"] and got["metadata"]["course"] == source["metadata"]["course"]


def test_what_intake_gives_is_small_plain_and_whole(walled):
    cell = (
        '{"cell_type": "code", "id": "\\ud800", "source": "\\ud800 x", "metadata": {"nbgrader": {"grade_id": "a", '
        '"points": NaN, "grade": [[[]]]}}, "outputs": [{"x": "%s"}]}'
    )
    got = walled.intake(f'{{"cells": [{cell % ("x" * 1000)}], "metadata": {{"widgets": {{}}}}}}'.encode())
    assert got["cells"] == [
        {
            "cell_type": "code",
            "id": "?",
            "source": "\ufffd x",
            "metadata": {"nbgrader": {"grade_id": "a"}},
            "outputs": [],
            "execution_count": None,
        }
    ]
    assert parse(render(got))["cells"]


# ---------------------------------------------------------------------------- which level there is


def test_this_machine_has_every_level_and_the_strongest_is_taken():
    assert [(look.level, look.ok, look.fix) for look in availabilities()] == [(level, True, "") for level in LEVELS], (
        availabilities()
    )
    assert best_level() == LEVELS[0]


def test_a_user_without_rights_has_namespaces_too(tmp_path):
    program = (
        "import ctypes, struct\nfrom course_grader.sandbox import linux, try_level as trial\n"
        "most = struct.pack('IIIIII', 1 << 31, 1 << 31, 0, 0, 0, 0)  # root may show itself in a user namespace with "
        "CAP_SETFCAP only\n"
        "linux.call('capset', struct.pack('Ii', 0x20080522, 0), most)\n"
        "assert not linux.has_rights_over_namespaces()\nraise SystemExit(trial.main(['namespaces', "
        f"{str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


FAILS = [
    (
        {"kernel/apparmor_restrict_unprivileged_userns": "1"},
        "unshare: Operation not permitted",
        False,
        "AppArmor",
        "sysctl kernel.apparmor",
    ),
    (
        {"kernel/unprivileged_userns_clone": "0"},
        "unshare: Operation not permitted",
        False,
        "switched off",
        "userns_clone=1",
    ),
    (
        {"user/max_user_namespaces": "0"},
        "unshare: No space left on device",
        False,
        "switched off",
        "max_user_namespaces",
    ),
    ({}, "mount_setattr: Function not implemented", False, "5.12", "newer kernel"),
    ({}, "unshare: Operation not permitted", True, "this container", "--cap-add SYS_ADMIN"),
    ({}, "the sandbox knows x86_64 and aarch64, not riscv64", False, "riscv64", "x86-64"),
]


@pytest.mark.parametrize(("settings", "problem", "container", "why", "fix"), FAILS, ids=[why for *_, why, _ in FAILS])
def test_a_level_that_is_not_to_be_had_is_explained_with_a_way_out(monkeypatch, settings, problem, container, why, fix):
    monkeypatch.setattr(availability_module(), "_setting", lambda name: settings.get(name, ""))
    monkeypatch.setattr(availability_module(), "_in_container", lambda: container)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = availability_module().explained("namespaces", problem)
    assert why in said[0] and fix in said[1] and "\n" not in "".join(said)


def availability_module():
    return sys.modules[availabilities.__module__]


def test_another_system_is_told_where_to_grade(monkeypatch):
    module = availability_module()
    monkeypatch.setattr(module, "_availability", module._availability.__wrapped__)
    monkeypatch.setattr(module.sys, "platform", "darwin")
    first, second, last = module.availabilities()
    assert not first.ok and not second.ok and "Linux" in first.fix and last.ok and module.best_level() == "none"


def test_doctor_says_which_sandbox_there_is():
    good, bad = (
        Availability(level="namespaces", ok=True, why="all"),
        Availability(level="namespaces", ok=False, why="no", fix="do this"),
    )
    assert [(line.state, line.way_out) for line in sandbox_lines([good])] == [("ok", "")]
    second, missing = sandbox_lines([bad, Availability(level="contained", ok=True, why="some")])
    assert second.found.startswith("contained") and missing.state == "warn" and "do this" in missing.way_out


def test_a_wall_that_cannot_be_built_is_no_wall_in_silence(tmp_path):
    with (
        pytest.raises(Trouble, match="lies in a folder that workers may read"),
        WorkerPool(wall=Wall(level="contained", hidden=("/usr/share",))) as made,
        made.worker(tmp_path),
    ):
        raise AssertionError("a worker was given")
    with pytest.raises(Trouble, match="forked"):
        WorkerPool(fork=False, wall=Wall())
    with pytest.raises(ValueError, match="choose from"):
        Wall(level="glass")
    with pytest.raises(ValueError, match="whole paths"):
        Wall(hidden=("here",))


def test_the_workers_side_of_the_library_holds_no_judging():
    files = list(course_files())
    assert "course_grader/worker/notebook_worker.py" in files
    assert "course_chapters/ch00/exercises/two_ranks_wait.py" in files
    assert not [name for name in files if "judg" in name or "killmatrix" in name or "/mark" in name or "/cli/" in name]


def test_memory_is_counted_once_however_many_share_it():
    block = bytearray(b"x") * 60_000_000
    mine, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(mine, 1)
        os._exit(len(block) and 0)
    both = usage.exact_bytes(os.getpid()) + usage.exact_bytes(pid)
    assert usage.quick_bytes(pid) > 60_000_000 and both < usage.quick_bytes(os.getpid()) + 60_000_000
    os.write(theirs, b"x")
    os.waitpid(pid, 0)
    assert usage.exact_bytes(pid) == usage.quick_bytes(pid) == 0
    os.close(mine), os.close(theirs)


def test_what_our_source_imports_is_known_beforehand():
    found = imports_of(
        {
            "cells": [
                {"cell_type": "code", "source": "import torch, math\nfrom course_lib import draw"},
                {"cell_type": "code", "source": "%magic"},
                {"cell_type": "markdown", "source": "import os"},
            ]
        }
    )
    assert found == ("course_lib", "course_lib.draw", "math", "torch")


def test_a_module_that_comes_out_of_one_of_our_packages_is_loaded_and_a_constant_is_none():
    found = imports_of(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "source": "from course_chapters.ch01 import widgets as pictures\nfrom course_lib.estimate.units "
                    "import GB\nfrom os import path",
                }
            ]
        }
    )
    assert found == ("course_chapters.ch01", "course_chapters.ch01.widgets", "course_lib.estimate.units", "os")


@each_of(
    "kind, line, more",
    [("code", "loss.backward()", TRAINING), ("code", "backward = loss", ()), ("markdown", "loss.backward()", ())],
)
def test_what_torch_imports_to_train_is_loaded_where_a_cell_trains(kind, line, more):
    found = imports_of(
        {"cells": [{"cell_type": "code", "source": "import torch"}, {"cell_type": kind, "source": line}]}
    )
    assert TRAINING and found == tuple(sorted(("torch", *more)))


IN_TMP = """
import sys
from pathlib import Path
from course_grader.worker.in_worker import run_cell
from course_grader.sandbox import Wall
from course_grader.worker.worker_pool import WorkerPool

with WorkerPool(wall=Wall()) as workers, workers.worker(Path(sys.argv[1])) as worker:
    said = run_cell(worker, '''
import os, course_lib.estimate.units
open('/tmp/mine', 'w').write('x')
assert sorted(os.listdir('/tmp')) == SHOWN, os.listdir('/tmp')
assert not os.path.exists(course_lib.__path__[0] + '/judging'), 'the judging'
assert not os.path.exists(course_lib.__path__[0] + '/exercises/ch01/judges'), 'the judges'
try:
    open(course_lib.__path__[0] + '/units.py', 'a')
except OSError:
    pass
else:
    raise AssertionError('the library can be written to')
'''.replace("SHOWN", sys.argv[2]))
print(said.state, said.error)
"""


@pytest.mark.rotates("course_grader/sandbox/", "course_grader/worker/")
def test_a_course_that_lies_in_tmp_is_kept_in_as_well():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="course-in-tmp-") as place:
        course = Path(place) / "course"
        for package in PACKAGES:
            shutil.copytree(ROOT / package, course / package, ignore=shutil.ignore_patterns("__pycache__"))
        (course / "notebook").mkdir()
        (course / "pyproject.toml").write_text("", encoding="utf-8")
        python = [path for path in trees() if not path.is_relative_to(ROOT) or path.is_relative_to(Path(sys.prefix))]
        expected = sorted(
            {
                "mine",
                Path(place).name,
                *(path.relative_to("/tmp").parts[0] for path in python if path.is_relative_to("/tmp")),
            }
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", IN_TMP, str(course / "notebook"), repr(expected)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(course)},
            cwd=course,
            check=False,
        )
        assert done.stdout.strip() == "answered", done.stdout + done.stderr
        assert not Path("/tmp/mine").exists()
