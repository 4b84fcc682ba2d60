"""Where the course lies, and how its command is called there. Loads the standard library only."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent  # the course's own folder
PACKAGED = ROOT / "course_chapters" / "released"  # where a wheel has the chapters, which a clone has in its own folder


def installed() -> bool:
    """Whether the course is an installed package, beside others in one folder."""
    return PACKAGED.is_dir() and not (ROOT / "notebooks").is_dir()


def called_here(text: str) -> str:
    """The text with the command as it is typed here: a clone and a bundle have `./course`, an installed package has
    `course`."""
    return text.replace("./course", "course") if installed() else text
