"""Using everything up: time, memory, processes, disk, output, descriptors, the patience of the judge."""

from course_grader.attacks.sheet import Sheet, attack


@attack("exhaustion", brief=True, states=("timed out",))
def hang_that_ignores_signals(sheet: Sheet) -> None:
    """An endless loop that catches everything and ignores every signal."""
    sheet.answer("""
        import signal


        def attempt(*args):
            for number in range(1, 32):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass""")


@attack("exhaustion", walled=True, states=("answered", "raised", "crashed", "timed out"))
def fork_bomb(sheet: Sheet) -> None:
    """Processes that start processes, 300 at most."""
    sheet.answer(f"""
        import os, time


        def attempt(*args):
            for _ in range(300):
                try:
                    if os.fork() == 0:
                        time.sleep(20)
                        os._exit(0)
                except OSError:
                    return 0.0
            {_told("300 processes could be started")}""")


def _told(words: str) -> str:
    return f'raise RuntimeError("LEAK" + "ED {words}")'


@attack("exhaustion", walled=True, states=("crashed", "raised"))
def memory_bomb(sheet: Sheet) -> None:
    """Memory without end, in pieces that are written to."""
    sheet.answer(f"""
        kept = []


        def attempt(*args):
            for _ in range(AT["memory"] // 16_000_000 * 2):
                kept.append(bytearray(b"x") * 16_000_000)
            {_told("twice the memory could be used")}""")


@attack("exhaustion", walled=True, states=("answered", "raised", "crashed", "timed out"))
def full_disk(sheet: Sheet) -> None:
    """Files until the disk is full: in the folder, in /tmp, in shared memory."""
    sheet.answer(f"""
        import os


        def attempt(*args):
            written = 0
            for folder in (".", "/tmp", "/dev/shm", "/var/tmp"):
                for at in range(40):
                    try:
                        with open(f"{{folder}}/planted-{{AT['run']}}-{{at}}", "wb") as file:
                            for _ in range(20):
                                written += file.write(b"x" * 1_000_000)
                    except OSError:
                        break
            if written > 3.5 * AT["folder"]:
                {_told("the disk has no limit")}""")


@attack("exhaustion")
def gigabyte_of_output(sheet: Sheet) -> None:
    """A gigabyte of prints, from a cell and from an answer, and past Python to descriptors 1 and 2."""
    sheet.own("line = 'x' * 999_999\nfor _ in range(500):\n    print(line)")
    sheet.answer("""
        import os

        line = "y" * 999_999
        done = []


        def attempt(*args):
            for _ in range(0 if done else 500):
                print(line)
                os.write(1, b"z" * 1000); os.write(2, b"z" * 1000)
            done.append(1)
            return 0.0""")
