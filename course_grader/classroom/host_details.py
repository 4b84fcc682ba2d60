"""Details of the grading machine that an answer put into a message: a student's page leaves such lines out.

An answer sees where Python is installed and what is mounted, because it runs there. It can raise or return such text,
and the judge quotes what was raised or returned.
"""

import re
import socket
import sys
from functools import cache
from pathlib import Path

from course_lib.folders import ROOT

LEFT_OUT = "This line is left out because it contains details of the computer that graded the work."
_LEAST = 5  # characters of a host name that are unlikely to be a word of the message

# A line of mountinfo or maps, a path of Python's or of a device, the worker's command line, an environment's variables.
_SHAPES = re.compile(
    r"\b\d+ \d+ \d+:\d+ /|\b[0-9a-f]{8,}-[0-9a-f]{8,} [r-][w-]|(?:site|dist)-packages|/lib/python3|/dev/(?!null|zero)\w"
    r"|/(?:proc|sys|etc|home|root|var|usr|opt|tmp|mnt|srv)/|course_lib[./]grading|environ\(|'PATH'|LD_LIBRARY_PATH"
)


def without(text: str) -> str:
    """The text, in which every line with details of this machine is replaced by a sentence."""
    return "\n".join(LEFT_OUT if _tells(line) else line for line in text.split("\n"))


def _tells(line: str) -> bool:
    return bool(_SHAPES.search(line)) or any(each in line for each in _names())


@cache
def _names() -> tuple[str, ...]:
    """This machine's own paths and name."""
    paths = {str(each) for each in (ROOT, sys.prefix, sys.base_prefix, sys.executable, Path.home())}
    host = socket.gethostname()
    known = host if len(host) >= _LEAST and host != "localhost" else ""
    return tuple(each for each in (*sorted(paths), known) if len(each) > 1)
