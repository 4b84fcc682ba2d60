"""`python -m course_lib`: the command line, or the set-up where its libraries are not installed yet."""

import sys

from course_app.install.streams import show_every_character


def main() -> int:
    """Exit code of the command line. Without the libraries: sets up `.venv` first (Windows begins here)."""
    show_every_character()
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        version = ".".join(str(part) for part in sys.version_info[:2])
        print(f"course: the course needs Python 3.11, 3.12 or 3.13; this is {version} ({sys.executable}).")
        print("  Way out: install one from https://www.python.org/downloads/ and start it by name, as in")
        print("           python3.13 -m course_lib learn      (Windows: py -3.13 -m course_lib learn)")
        return 1
    try:
        import typer  # noqa: F401
    except ImportError:
        if sys.argv[1:2] == ["doctor"]:  # it must also work where setting up fails
            from course_app.learner import environment

            try:
                from course_grader.sandbox import availabilities, sandbox_lines
            except ModuleNotFoundError:  # a student's bundle, which does not grade
                return environment.main(sys.argv[2:])
            return environment.main(sys.argv[2:], sandbox_lines(availabilities()))
        from course_app import install

        return install.begin(sys.argv[1:])
    from course_app.cli import run

    return run()


def entry() -> None:
    """The console script `course`."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
