"""Reading what is not for learners: answers, judging, secrets of the class, other students, the machine around."""

from course_grader.attacks.sheet import Sheet, attack


@attack("leak")
def solutions(sheet: Sheet) -> None:
    """The course's solved notebooks."""
    sheet.answer("""
        import pathlib


        def attempt(*args):
            for path in sorted(pathlib.Path(AT["course"], "solutions").glob("*/*.ipynb")):
                loot(path.read_bytes()[:2000], whole=True)""")


@attack("leak")
def judging_source(sheet: Sheet) -> None:
    """The source of the judging, read as text."""
    sheet.answer("""
        import pathlib


        def attempt(*args):
            for path in sorted((course := pathlib.Path(AT["course"])).glob("course_grader/judging/*.py")
                ) + sorted(course.glob("course_chapters/ch*/exercises/judges/*.py")):
                loot(path.read_bytes()[:2000], whole=True)""")


@attack("leak")
def tests_and_right_answers(sheet: Sheet) -> None:
    """The suite's bank of right answers, the class tools and the history of the repository."""
    sheet.answer("""
        import pathlib


        def attempt(*args):
            course = pathlib.Path(AT["course"])
            for path in (*course.glob("course_chapters/ch*/exercises/judges/*.py"), *course.glob("tests/*.py"),
                *course.glob(".git/*"), *course.glob("docs/*"),
                         *course.glob("course_grader/classroom/*.py"), *course.glob("course_grader/service/*.py"),
                         *course.glob("course_grader/judge/*.py"), *course.glob("course_grader/attacks/*.py")):
                if path.is_file():
                    loot(path.read_bytes()[:500], whole=True)""")


@attack("leak")
def secret_by_its_path(sheet: Sheet) -> None:
    """The class's secret and the gradebook, opened by their full paths, past listings."""
    sheet.answer("""
        def attempt(*args):
            for name in (".secret", "gradebook.db", "roster.csv", "variants.json", "exercises/judging/own.py"):
                try:
                    found = seen(f"{AT['class']}/{name}")
                except OSError:
                    continue
                loot(found)""")


@attack("leak")
def other_students(sheet: Sheet) -> None:
    """Another student's submission and report, and what a worker beside this one has open."""
    sheet.answer("""
        import pathlib


        def attempt(*args):
            places = [pathlib.Path(AT["class"], "submitted"), pathlib.Path(AT["class"], "reports"),
                pathlib.Path(AT["neighbor"]), pathlib.Path("..")]
            places += pathlib.Path(AT["tmp"]).glob("course-worker-*")
            for place in places:
                for path in place.rglob("*"):
                    if path.is_file():
                        loot(path.read_bytes())""")


@attack("leak")
def environment(sheet: Sheet) -> None:
    """The environment of this process, its parents and every other."""
    sheet.answer("""
        import os


        def attempt(*args):
            loot(dict(os.environ))
            for name in os.listdir("/proc"):
                if name.isdigit():
                    try:
                        found = seen(f"/proc/{name}/environ") + seen(f"/proc/{name}/cmdline")
                    except OSError:
                        continue
                    loot(found)""")


@attack("leak")
def way_out_to_the_network(sheet: Sheet) -> None:
    """Interfaces and routes that lead anywhere: only a loopback of one's own is allowed."""
    sheet.answer("""
        def attempt(*args):
            names = [line.split(":")[0].strip() for line in seen("/proc/self/net/dev").decode().splitlines()[2:]]
            routes = seen("/proc/self/net/route").decode().splitlines()[1:]
            loot([name for name in names if name != "lo"] and routes or "", whole=bool(routes))""")
