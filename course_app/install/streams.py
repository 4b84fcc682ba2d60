"""Output in an encoding that lacks characters, such as cp1252 of a Windows pipe, shows all of them in some way.
Standard library only."""

import codecs
import json
import sys

_MARKS = str.maketrans("✓✗×█░─━│–—−·•→“”‘’µ", "+xx#.--|---.*>''''u") | {
    ord(mark): plain for mark, plain in {"…": "...", "≤": "<=", "≥": ">=", "≈": "~", "±": "+-"}.items()
}  # no double quotes: what is printed may be JSON


def _shown(error: UnicodeError) -> tuple[str, int]:
    """A mark as a plain character of the same meaning, any other character as JSON writes it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end].translate(_MARKS))[1:-1], error.end


def show_every_character() -> None:
    """From now on no character ends this process because its output cannot encode it."""
    codecs.register_error("course-marks", _shown)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # None under pythonw, something else in a notebook
            stream.reconfigure(errors="course-marks")
