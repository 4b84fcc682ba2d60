"""Changing what is not a learner's: grades, files of others, the grader itself; and staying after the end."""

from course_grader.attacks.sheet import Sheet, attack
from course_grader.attacks.tampering import PLANT, plants


@attack("tampering", within=plants)
def triggers_in_the_database(sheet: Sheet) -> None:
    """A trigger that changes every later grade."""
    sheet.answer("""
    import sqlite3

    book = sqlite3.connect(AT["class"] + "/gradebook.db", timeout=0.2)
    with book:
        book.execute("create trigger more after update on grade begin update grade set manual_score = 100; end")""")


@attack("tampering", within=plants)
def statements_in_texts(sheet: Sheet) -> None:
    """SQL, formulas of spreadsheets, templates and formats in errors, prints, names and results."""
    sheet.answer("""
    words = "'); drop table grade; create trigger t after insert on grade begin "
    words += "update grade set manual_score=100; end; -- "
    words += '=HYPERLINK("http://127.0.0.1/"); +cmd|calc ${7*7} {{7*7}} %(x)s %n {0.__class__} $(touch x) `touch x`'
    print(words)
    raise type(words[:60], (Exception,), {})(words)""")


@attack("tampering", within=plants)
def new_files_in_the_class(sheet: Sheet) -> None:
    """A submission for a friend, a report with full points, a new judging module in the class folder."""
    sheet.answer("""
    for name in ("submitted/friend.ipynb", "reports/me.json", "exercises/judging/mine.py", "class.toml",
            "nbgrader_config.py"):
        try:
            pathlib.Path(AT["class"], name).write_text("{}")
        except OSError:
            continue""")


@attack("tampering", within=plants)
def descriptor_of_the_judge(sheet: Sheet) -> None:
    """What a descriptor that was handed down by mistake points to, overwritten."""
    sheet.answer("""
    for fd in {AT["fd"], *range(3, 32)}:
        try:
            if "/open.txt" in os.readlink(f"/proc/self/fd/{fd}"):
                os.pwrite(fd, b"changed", 0)
        except OSError:
            continue
    try:
        pathlib.Path(AT["root"], "open.txt").write_text("changed")
    except OSError:
        pass""")


@attack("tampering", within=plants)
def shared_memory_overwritten(sheet: Sheet) -> None:
    """Shared memory of the host, changed in place."""
    sheet.answer("""
    try:
        pathlib.Path("/dev/shm", AT["shm"]).write_text("changed")
    except OSError:
        pass
    plant("/dev/shm")""")


@attack("tampering", within=plants)
def startup_files(sheet: Sheet) -> None:
    """Files that start with the next Python, shell or notebook: sitecustomize, .pth, IPython's startup, profiles."""
    sheet.answer("""
    homes = {AT["home"], os.path.expanduser("~"), "/root"}
    for home in homes:
        plant(home, f"{home}/.ipython/profile_default/startup", f"{home}/.config", f"{home}/.local", name=NAME + ".py")
    plant(AT["site"], name=NAME + ".pth")
    plant(AT["site"], AT["course"], name=NAME + ".py")
    plant("/etc/profile.d", "/etc/cron.d", "/var/spool/cron", "/var/spool/cron/crontabs")
    shell = get_ipython()
    plant(shell.ipython_dir, shell.profile_dir.startup_dir, name=NAME + ".py")
    writable("/etc/crontab", "/etc/passwd", "/etc/ld.so.preload", AT["site"] + "/sitecustomize.py",
        AT["site"] + "/distutils-precedence.pth")""")


@attack("tampering", within=plants)
def folders_for_everybody(sheet: Sheet) -> None:
    """Files left in folders that the next submission or the judge uses too."""
    sheet.answer("""
    plant(AT["tmp"], "/tmp", "/var/tmp", "/dev/shm", AT["course"], AT["course"] + "/notebooks", "/run", "/var/lock")""")


@attack("tampering", within=plants)
def code_of_the_course(sheet: Sheet) -> None:
    """The course's own code, its compiled form and the interpreter's, opened for writing."""
    sheet.answer("""
    import course_lib, json

    library = pathlib.Path(course_lib.__file__).parent
    writable(*map(str, [course_lib.__file__, library / "estimate/compute.py",
        library.parent / "course_grader/judge/decision.py", json.__file__, sys.executable,
        os.path.realpath(sys.executable)]))
    writable(*map(str, [*library.glob("__pycache__/*.pyc")][:5]),
        *map(str, pathlib.Path(json.__file__).parent.glob("__pycache__/*.pyc")))
    plant(library, library / "__pycache__", library.parent / "course_grader", library.parent / "course_chapters")""")


@attack("tampering")
def process_that_outlives_a_cell(sheet: Sheet) -> None:
    """Processes started by a cell of the learner's own, not by an answer."""
    sheet.own(f"""{PLANT}
for _ in range(3):
    subprocess.Popen(["sh", "-c", "sleep 60", f"stray-{{AT['run']}}"], start_new_session=True, close_fds=False)""")


@attack("tampering", within=plants)
def end_of_another_process(sheet: Sheet) -> None:
    """A process of the host killed, stopped, and starved by its limits."""
    sheet.answer("""
    import resource, signal

    for change in (lambda: resource.prlimit(AT["victim"], resource.RLIMIT_NOFILE, (3, 3)),
        lambda: os.setpriority(os.PRIO_PROCESS, AT["victim"], 19),
                   lambda: os.kill(AT["victim"], signal.SIGSTOP), lambda: os.kill(AT["victim"], signal.SIGKILL),
                   lambda: os.killpg(AT["victim"], signal.SIGKILL)):
        try:
            change()
        except OSError:
            continue""")


@attack("tampering", walled=True, states=("crashed", "answered", "raised"))
def end_of_everything(sheet: Sheet) -> None:
    """Every process that can be signalled is killed at once."""
    sheet.answer("""
        import os


        def attempt(*args):
            visible = [name for name in os.listdir("/proc") if name.isdigit()]
            if os.getuid() == 0 or str(AT["judge"]) in visible and str(AT["victim"]) in visible:
                loot("processes of the host can be seen", whole=True)  # then the shot is not fired
            os.kill(-1, 9)
            return 0.0""")


@attack("tampering")
def end_of_the_warm_process(sheet: Sheet) -> None:
    """The process that all workers of a marker come from, killed."""
    sheet.own("""
        import os

        if os.getppid() > 1:
            os.kill(os.getppid(), 9)
            __import__("time").sleep(5)""")


@attack("tampering", walled=True, states=("answered", "timed out", "crashed"))
def warm_process_stopped(sheet: Sheet) -> None:
    """The process that all workers come from, stopped, its memory and its limits opened for writing."""
    sheet.answer(f"""{PLANT}
import resource, signal


def attempt(*args):
    for pid in {{os.getppid(), 1}}:
        writable(f"/proc/{{pid}}/mem") if pid != os.getpid() and pid > 1 else None
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            pass
    return 0.0""")


@attack("tampering")
def configuration_beside_the_notebook(sheet: Sheet) -> None:
    """Configuration of the instructor's tools beside the notebook: it would run at the next command."""
    planted = f"open('/var/tmp/planted-{sheet.about['run']}', 'w').write('ran')\n".encode()
    sheet.files |= dict.fromkeys(
        (
            "nbgrader_config.py", "jupyter_config.py", "jupyter_notebook_config.py", "ipython_config.py", "conftest.py",
            "sitecustomize.py", "usercustomize.py", "setup.py", "startup/00.py",
            ".ipython/profile_default/startup/00.py", "config.py",
        ),
        planted,
    )  # fmt: skip


@attack("tampering")
def modules_written_by_a_cell(sheet: Sheet) -> None:
    """The same, written by a cell while it runs, and put first on the path."""
    sheet.own(f"""{PLANT}
for name in ("course_grader/worker/ranks_in_process.py", "course_lib/cluster/remote.py", "dataclasses.py",
        "course_grader/judge/decision.py"):
    pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(name).write_text("check = grade = serve_ranks = rank_program = lambda *a, **k: 100.0")
sys.path.insert(0, os.getcwd())
os.environ["PYTHONPATH"] = os.getcwd()
os.environ["PYTHONSTARTUP"] = "dataclasses.py"
""")
    sheet.stub()


@attack("tampering", within=plants)
def folder_that_becomes_a_link(sheet: Sheet) -> None:
    """The notebook's folder is replaced by a link to the class folder before it is swept."""
    sheet.answer("""
    here = os.getcwd()
    for change in (lambda: os.rename(here, here + ".old"), lambda: os.symlink(AT["class"], here),
        lambda: os.symlink(AT["class"], "inner"),
                   lambda: os.link(AT["class"] + "/.secret", "hard")):
        try:
            change()
        except OSError:
            continue""")


@attack("tampering", within=plants, states=("answered", "raised"))
def folder_that_cannot_be_swept(sheet: Sheet) -> None:
    """Deep, unreadable and oddly named folders, pipes and sockets are left behind."""
    sheet.answer("""
    import socket

    for _ in range(60):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)
    pathlib.Path("line\\nbreak \\x1b[31m \\u202e'\\"; rm -rf x").write_text("odd")
    os.mkfifo("pipe")
    socket.socket(socket.AF_UNIX).bind("s")
    os.mkdir("closed")
    os.chmod("closed", 0)
    os.chmod(".", 0)""")


@attack("tampering")
def generators_and_locale(sheet: Sheet) -> None:
    """Seeds, locale, warnings, limits and the working folder are changed: nothing of it may reach the next
    submission."""
    sheet.own("""
        import gc, locale, os, random, resource, signal, sys, warnings

        random.seed(7); sys.setrecursionlimit(60); gc.disable(); gc.set_threshold(1)
        warnings.simplefilter("error")
        locale.setlocale(locale.LC_ALL, "C")
        os.umask(0o777); os.chdir("/")
        os.environ.clear()
        sys.path.clear(); sys.modules.pop("random")
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        for number in range(1, 32):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass""")
    for exercise in sheet.points:
        sheet.expect(exercise, None)


@attack("tampering")
def time_that_is_forged(sheet: Sheet) -> None:
    """A time stamp far in the past, in a file, in metadata, and set on the files themselves."""
    sheet.files["timestamp.txt"] = b"1970-01-01 00:00:00 UTC"
    sheet.notebook["metadata"] |= {"submitted": "1970-01-01T00:00:00Z", "timestamp": 0}
    sheet.own("""
        import os, pathlib

        for path in pathlib.Path(".").iterdir():
            os.utime(path, (0, 0))""")
