"""Reading a file that a stranger may have written: bounded in size, and without running anything in it.

A pickle is a program for a small stack machine, and some of its instructions import a function and call it. Torch's
dumps need none of these. So this module plays the machine itself, admits the instructions that build containers,
numbers and text, and refuses the file at the first one that would do more.
"""

from __future__ import annotations

import gzip
import json
import pickletools
import re
import stat
import zlib
from pathlib import Path
from typing import Any

from course_lib.messages import Trouble
from course_lib.operate.recordings.report import word

MOST_BYTES = 512 * 2**20  # of a file, unpacked
MOST_STEPS = 20_000_000  # instructions of a pickle
MOST_OPEN = 1_000  # containers of a pickle that are open at once

SHORTER = "record a shorter time: a few steps in a trace, max_entries=100000 in a memory history"
AGAIN = "copy it again, or have the job write it again: it must be closed before the job ends"

_MADE: dict[str, Any] = {"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False}
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
_DOES = {
    code.name: form for code in pickletools.opcodes for form, names in _FORMS.items() if re.fullmatch(names, code.name)
}
_KEYS = (str, int, float, bytes, bool, type(None))


def read(path: Path) -> Any:
    """What a file holds: plain containers from a pickle or JSON, else text. Trouble, which says what was found."""
    data = unpacked(path)
    if not data.strip(b"\0 \t\r\n"):
        raise Trouble("is empty.", "look for the file in the job's own folder; " + AGAIN)
    if data[:1] == b"\x80" and data[1:2] <= b"\x05":
        return unpickled(data)
    if data[:4] == b"PK\x03\x04":
        raise Trouble("is a zip archive, such as torch.save writes.", "unpack it, and give the recordings in it")
    text = _text(data)
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
        if not packed:
            return file.read(MOST_BYTES)
        try:
            with gzip.open(file) as inside:
                data = inside.read(MOST_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise Trouble(f"ends early or is damaged: gzip says {error}.", AGAIN) from None
    if len(data) > MOST_BYTES:
        raise Trouble(f"unpacks to more than {MOST_BYTES / 1e9:.1f} GB.", SHORTER)
    return data


def _text(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # a log that PowerShell redirected
        return data.decode("utf-16", errors="replace")
    head = data[:65536]
    if sum(byte < 32 and byte not in (8, 9, 10, 12, 13, 27) for byte in head) > len(head) / 50:
        raise Trouble(
            "is binary, and neither a pickle nor gzip.",
            "give a flight recorder's dump, a trace (.json, .json.gz), a memory snapshot (.pickle) or a log",
        )
    return data.decode("utf-8", errors="replace")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and "\n" in text[: error.pos + 1]:
            return text  # one object a line: a structured log
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
            raise Trouble(f"is JSON that ends in the middle, after {len(text):,} characters.", AGAIN) from None
        raise Trouble(f"is no valid JSON: {error.msg} in line {error.lineno}.", AGAIN) from None
    except RecursionError:
        raise Trouble("is JSON nested too deeply for any recording.", "export the file again with torch") from None
    except ValueError as error:  # a number of more digits than Python converts
        raise Trouble(f"is no valid JSON: {error}.", AGAIN) from None


def unpickled(data: bytes) -> Any:
    """What a pickle holds, if that is dictionaries, lists, tuples, numbers and text. Nothing in it is run or imported.

    Trouble where an instruction would import or call something, where the data end early, or exceed a bound.
    """
    stack: list[Any] = []
    below: list[list[Any]] = []  # the stacks under each open mark
    memo: dict[int, Any] = {}
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
                raise Trouble(_forbidden(code.name, given, stack, at), "ask where it is from; do not load it")
            if step > MOST_STEPS or len(below) > MOST_OPEN:
                raise Trouble("is a pickle that is longer or deeper than a recording of torch's.", SHORTER)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Trouble(f"is a pickle that ends early or is damaged ({word(str(error))}).", AGAIN) from None
    raise Trouble("is a pickle without an end.", AGAIN)


def _close(name: str, items: list[Any], stack: list[Any]) -> None:
    """Put the items behind a mark into the container that they belong to, or that they make."""
    if name in ("LIST", "TUPLE"):
        stack.append(items if name == "LIST" else tuple(items))
        return
    if name == "DICT":
        stack.append({})
    if name == "APPENDS":
        if not isinstance(stack[-1], list):
            raise TypeError("entries for something that is no list")
        stack[-1].extend(items)
        return
    keys = items[::2]
    if not isinstance(stack[-1], dict) or not all(isinstance(key, _KEYS) for key in keys):
        raise TypeError("a key that is a container")
    stack[-1].update(zip(keys, items[1::2], strict=True))


def _forbidden(name: str, given: object, stack: list[Any], at: int) -> str:
    asked = given if isinstance(given, str) else ""
    if name == "STACK_GLOBAL":
        asked = " ".join(map(str, stack[-2:]))
    what = f"imports {word(asked).replace(' ', '.')}" if asked else f"has the instruction {name}"
    return f"is a pickle that {what} (byte {at:,}), so loading it could run code. It was not loaded."


def kind_of(content: Any) -> str:
    """The kind of recording that `read` has returned. Trouble for none."""
    if isinstance(content, str):
        return "log"
    keys = content.keys() if isinstance(content, dict) else set()
    if "traceEvents" in keys or (isinstance(content, list) and any(_is_event(each) for each in content[:100])):
        return "trace"
    if "segments" in keys:
        return "memory snapshot"
    if "entries" in keys or ("pg_config" in keys and "version" in keys):
        return "flight recorder"
    named = ", ".join(word(str(key), 20) for key in list(keys)[:5])
    what = f"keys {named}" if named else f"{type(content).__name__}"
    raise Trouble(
        f"holds data of another kind ({what}).",
        "give a flight recorder's dump (entries), a trace (traceEvents), a memory snapshot (segments) or a log",
    )


def _is_event(value: object) -> bool:
    return isinstance(value, dict) and "ph" in value
