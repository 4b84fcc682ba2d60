"""Reading a file that a stranger may have written: bounded in size, and without running anything in it.

A pickle is a program for a small stack machine, and some of its instructions import a function and call it. Torch's
dumps need none of these. So this module plays the machine itself, admits the instructions that build containers,
numbers and text, and refuses the file at the first one that would do more.
"""

import gzip
import json
import pickletools
import re
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

from course_app.recordings.report import word
from course_lib.messages import Trouble

MOST_BYTES = 512 * 2**20  # of a file, unpacked
MOST_STEPS = 20_000_000  # instructions of a pickle: at most 2 GB of containers
MOST_OPEN = 1_000  # marks of a pickle that are open at once

SHORTER = "record a shorter time: a few steps in a trace, max_entries=100000 in a memory history"
AGAIN = "copy it again, or have the job write it again: it must be closed before the job ends"
WANTED = "give a flight recorder's dump (entries), a trace (traceEvents), a memory snapshot (segments) or a log"

_MADE: dict[str, Callable[..., object]] = {"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False}
_MADE |= {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_FORMS = {  # of instructions by what they do; all others but a few are refused
    "value": r"(SHORT_)?BIN(INT[12]?|FLOAT|UNICODE8?|STRING|BYTES8?)|INT|LONG[14]?|FLOAT|UNICODE|STRING",
    "keep": r"(LONG_)?(BIN)?PUT|MEMOIZE",
    "fetch": r"(LONG_)?(BIN)?GET",
    "make": "|".join(_MADE),
    "close": "APPENDS|SETITEMS|LIST|DICT|TUPLE",
    "tuple": "|".join(_TUPLES),
    "pass": "PROTO|FRAME",
}
_NAMES = [code.name for code in pickletools.opcodes]
_DOES = {name: form for name in _NAMES for form, names in _FORMS.items() if re.fullmatch(names, name)}
_KEYS = (str, int, float, bytes, bool, type(None))


def read(path: Path) -> object:
    """What a file holds: plain containers from a pickle or JSON, else text. Trouble, which says what was found."""
    data = unpacked(path)
    if not data.strip(b"\0 \t\r\n"):
        raise Trouble("is empty.", "look for the file in the job's own folder; " + AGAIN)
    if data[:1] == b"\x80" and data[1:2] <= b"\x05":
        return unpickled(data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # a log that PowerShell redirected
        return data.decode("utf-16", errors="replace")
    if sum(byte < 32 and byte not in b"\b\t\n\f\r\x1b" for byte in data[:65536]) > min(len(data), 65536) / 50:
        what = (
            "a zip archive, such as torch.save writes" if data[:2] == b"PK" else "binary, and neither a pickle nor gzip"
        )
        raise Trouble(f"is {what}.", WANTED)
    text = data.decode("utf-8", errors="replace")
    return _json(text) if re.match(r"\s*(\{|\[\s*[\[{\]])", text) else text


def unpacked(path: Path) -> bytes:
    """The bytes of a file, unpacked if gzip packed them; never more than `MOST_BYTES`."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise Trouble("is not a regular file.", "give a file, or the folder that holds the files")
    if about.st_size > MOST_BYTES:
        raise Trouble(f"has {about.st_size / 1e9:.1f} GB; at most {MOST_BYTES / 1e9:.1f} GB are read.", SHORTER)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(MOST_BYTES + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Trouble(f"ends early or is damaged: gzip says {error}.", AGAIN) from None
    if len(data) > MOST_BYTES:
        raise Trouble(f"unpacks to more than {MOST_BYTES / 1e9:.1f} GB.", SHORTER)
    return data


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise Trouble("is JSON nested too deeply for any recording.", "export the file again with torch") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and "\n" in text[: error.pos + 1]:
            return text  # one object a line: a structured log
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
            raise Trouble(f"is JSON that ends in the middle, after {len(text):,} characters.", AGAIN) from None
        raise Trouble(f"is no valid JSON: {error.msg} in line {error.lineno}.", AGAIN) from None
    except ValueError as error:  # a number of more digits than Python converts
        raise Trouble(f"is no valid JSON: {error}.", AGAIN) from None


def unpickled(data: bytes) -> object:
    """What a pickle holds, if that is dictionaries, lists, tuples, numbers and text. Nothing in it is run or imported.

    Trouble where an instruction would import or call something, where the data end early, or exceed a bound.
    """
    stack: list[object] = []
    below: list[list[object]] = []  # the stacks under each open mark
    memo: dict[object, object] = {}
    try:
        for step, (code, given, at) in enumerate(pickletools.genops(data)):
            does = _DOES.get(code.name, code.name)
            if does == "value":
                stack.append(given)
            elif does == "fetch":
                stack.append(memo[given])
            elif does == "keep":
                memo[len(memo) if given is None else given] = stack[-1]
            elif does == "make":
                stack.append(_MADE[code.name]())
            elif does == "tuple":
                stack[-_TUPLES[code.name] :] = [tuple(stack[-_TUPLES[code.name] :])]
            elif does == "MARK":
                below.append(stack)
                stack = []
            elif does == "close":
                items, stack = stack, below.pop()
                _close(code.name, items, stack)
            elif does == "APPEND":
                _close("APPENDS", [stack.pop()], stack)
            elif does == "SETITEM":
                value = stack.pop()
                _close("SETITEMS", [stack.pop(), value], stack)
            elif does == "STOP":
                return stack.pop()
            elif does != "pass":
                asked = given if isinstance(given, str) else " ".join(map(str, stack[-2:]))
                what = f"imports {word(asked).replace(' ', '.')}" if "GLOBAL" in does else f"has the instruction {does}"
                raise Trouble(
                    f"is a pickle that {what} (byte {at:,}), so loading it could run code. It was not loaded.",
                    "ask where it is from; do not load it",
                )
            if step > MOST_STEPS or len(below) > MOST_OPEN:
                raise Trouble("is a pickle that is longer or deeper than a recording of torch's.", SHORTER)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Trouble(f"is a pickle that ends early or is damaged ({word(error)}).", AGAIN) from None
    raise Trouble("is a pickle without an end.", AGAIN)


def _close(name: str, items: list[object], stack: list[object]) -> None:
    """Put the items behind a mark into the container that they belong to, or that they make."""
    if name in ("LIST", "TUPLE", "DICT"):
        stack.append({} if name == "DICT" else items if name == "LIST" else tuple(items))
    if name == "APPENDS" and isinstance(stack[-1], list):
        stack[-1].extend(items)
    elif name in ("SETITEMS", "DICT") and isinstance(stack[-1], dict):
        if not all(isinstance(key, _KEYS) for key in items[::2]):
            raise TypeError("a key that is a container")
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    elif name in ("APPENDS", "SETITEMS"):
        raise TypeError("entries for something that holds none")


def kind_of(content: object) -> str:
    """The kind of recording that `read` has returned. Trouble for none."""
    keys = content.keys() if isinstance(content, dict) else set()
    events = isinstance(content, list) and any(isinstance(each, dict) and "ph" in each for each in content[:100])
    if isinstance(content, str):
        return "log"
    for key, kind in (("traceEvents", "trace"), ("segments", "memory snapshot"), ("entries", "flight recorder")):
        if key in keys or (events and kind == "trace"):
            return kind
    named = ", ".join(word(key, 20) for key in list(keys)[:5])
    raise Trouble(f"holds data of another kind ({f'keys {named}' if named else type(content).__name__}).", WANTED)
