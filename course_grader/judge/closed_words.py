"""What the report of a class says about text that an answer controls: only what is in a fixed list.

An answer sees hidden inputs and the computer that grades it. It can put both, encoded in any way, into the text of an
exception, a returned string or the name of a class, and the judge would quote it on the student's page. In a class,
therefore, an exception is told by its type, line and one of a few known sentences, a returned value by its type, and a
call by its rank and line. The check in the student's own notebook tells everything.
"""

import builtins
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from course_grader.exercises import values

REST = "Run the check in your notebook to see the whole message."
OWN_KIND = "An exception of another kind"
_OF_TORCH = ("OutOfMemoryError", "LinAlgError", "DistBackendError", "DistStoreError")
KINDS = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
) | {*_OF_TORCH, "SwitchedOff"}
IN_GENERAL = {  # what a call changed, without its name
    "arguments": "your own check says which",
    "settings": "a setting of the process",
    "generators": "all code",
    "memory": "a variable",
    "results": "a result",
}
# Words of Python's, torch's and the course's messages, and what is told of them.
SENTENCES = {
    "switched off during the check": "the function that this exercise asks you to write is switched off "
    "during the check",
    "index out of range": "index out of range",
    "out of bounds": "index out of range",
    "division by zero": "division by zero",
    "division or modulo by zero": "division by zero",
    "math domain error": "math domain error",
    "recursion depth exceeded": "maximum recursion depth exceeded",
    "unsupported operand type": "unsupported types for an operator",
    "has no attribute": "an object has no such attribute",
    "is not defined": "a name is not defined",
    "not subscriptable": "an object is not subscriptable",
    "not iterable": "an object is not iterable",
    "not callable": "an object is not callable",
    "required positional argument": "a required argument is missing",
    "positional argument": "a call has too many arguments",
    "unexpected keyword argument": "a call has an unexpected keyword argument",
    "must match the size of tensor": "the sizes of two tensors do not match",
    "shapes cannot be multiplied": "the shapes of two matrices do not fit",
    "is invalid for input of size": "a shape does not fit the number of elements",
    "same dtype": "two tensors differ in dtype",
    "leaf Variable": "a leaf tensor that requires gradients is changed in place",
    "backward through the graph a second time": "a graph is used for a second backward pass",
    "does not require grad": "a tensor does not require gradients",
    "does not exist among": "a call names a rank that does not exist",
    "size differs between the two ends": "size differs between the two ends of a message",
    "cannot be handed to the judge": "what the function returned cannot be handed to the judge",
    "state that nothing runs in": "the code left its process in a state that nothing runs in",
    "invalid syntax": "invalid syntax",
    "was never closed": "a bracket was never closed",
    "indent": "the indentation does not fit",
    "dtype differs between the two ends": "dtype differs between the two ends of a message",
}
_MOST = 2  # ranks of a deadlock that are told
_LINES = 300  # a line beyond is not told
_KIND = re.compile(r"(?:^|: rank (\d{1,2}) raised )(\w+): ")
_LINE = re.compile(r"\bline (\d{1,4})\b")
_CALLS = (
    "i?send|i?recv|batch_isend_irecv|barrier|broadcast|all_reduce|reduce|gather|scatter|all_gather|"
    "all_gather_into_tensor|reduce_scatter_tensor|all_to_all_single|new_group"
)
_WAITS = re.compile(
    rf"^ *rank (\d{{1,2}}) waits for (rank \d{{1,2}}(?:, rank \d{{1,2}})*): call \d{{1,2}}, (?:{_CALLS})\b|"
    r"^They wait for each other in a cycle: \d{1,2}(?: → \d{1,2})+\.",
    re.MULTILINE,
)
_HAZARD = re.compile(r"rank (\d{1,2}) (wrote to|read|never waited for)\b")


@contextmanager
def types_only() -> Iterator[None]:
    """While it is on, messages describe returned values by their types, and numbers by two digits."""
    token = values.types_only.set(True)
    try:
        yield
    finally:
        values.types_only.reset(token)


def closed(source: str) -> Callable[..., str]:
    """A function from what a worker says went wrong to what is told of it; `source` is the answer's code.

    Who waits for whom is told of the first few of so many `ranks`, where the judge itself ran them.
    """
    most = min(source.count("\n") + 1, _LINES)

    def told(text: str, ranks: int = 0) -> str:
        if text.startswith("No rank can move."):
            return "\n  ".join(["No rank can move.", *_waits(text, ranks), REST])
        if found := _HAZARD.match(text):
            return (
                f"{found[0]} a tensor in flight{_where(text, most)}."
                if found[2] != "never waited for"
                else (f"{found[0]} one of its calls{_where(text, most)}.")
            )
        found = _KIND.search(text)
        kind = found[2] if found and found[2] in KINDS else OWN_KIND
        rank = f"rank {found[1]} raised " if found and found[1] else ""
        said = next((f": {sentence}" for words, sentence in SENTENCES.items() if words in text), "")
        if not found and said:
            return f"{said[2].upper()}{said[3:]}. {REST}"
        return f"{rank}{kind}{said}{_where(text, most)}. {REST}"

    return told


def _waits(text: str, ranks: int) -> list[str]:
    """The first ranks that wait, and the cycle in which they do; each rank at most once."""
    found = []
    for each in _WAITS.finditer(text):
        told = each[0].strip()
        named = [int(number) for number in re.findall(r"\d+", (each[2] or told).removesuffix("."))]
        if len(named) <= ranks + 1 and all(number < ranks for number in (*named, int(each[1] or 0))):
            found.append(told)
    return [
        *[each for each in found if each.startswith("rank")][:_MOST],
        *[each for each in found if each.startswith("They")][:1],
    ]


def _where(text: str, most: int) -> str:
    """The line that the text names, if an answer has as many."""
    number = next((int(found[1]) for found in _LINE.finditer(text)), 0)
    return f", line {number} of the cell" if 0 < number <= most else ""
