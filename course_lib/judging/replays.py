"""Answers that follow a script, judged against a reference that can make each known mistake.

The reference of a judge solves the exercise, and solves it wrongly in one way if it is given the name of a known mistake. What an answer
gave for a script is compared with the right reference, with that of each other form of the exercise, and with each mistake in turn.
"""

from ast import literal_eval
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from course_lib.judging.mistakes import Fault


def same(got: Any, want: Any) -> bool:
    """Whether nested lists and dictionaries are equal, the types of their numbers included."""
    if type(want) is dict:
        return type(got) is dict and got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    if type(want) is list:
        return type(got) is list and len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and got == want


def first_apart(got: list[Any], want: list[Any]) -> int:
    """The first index at which two lists differ; the length of the shorter one if the longer one begins with it."""
    pairs = zip(got, want, strict=False)
    return next((at for at, pair in enumerate(pairs) if not same(*pair)), min(len(got), len(want)))


class Replay:
    """The references of one exercise.

    `run(args, form, mistake)` gives what the probe reports of a case's arguments; `mistake` is "" in the right reference. `mistakes` has
    the message of each known mistake, and `forms` what to tell an answer that solves another form than the one asked for.
    """

    def __init__(
        self,
        run: Callable[[tuple[Any, ...], str, str], Any],
        mistakes: Mapping[str, str],
        forms: Mapping[str, Fault] | None = None,
    ) -> None:
        @lru_cache(maxsize=512)
        def made(written: str, form: str, mistake: str) -> Any:
            try:
                return run(literal_eval(written), form, mistake)
            except (
                KeyError,
                IndexError,
                ValueError,
            ):  # a wrong reference may be unable to follow the script to its end
                if not mistake:
                    raise
                return None

        self._made, self.mistakes, self.forms = made, mistakes, forms or {}

    def of(self, args: tuple[Any, ...], form: str = "", mistake: str = "") -> Any:
        """What the reference gives for a case's arguments; None where a mistake keeps it from following the script.

        Arguments are kept as text, because one report asks for the same script once for each mistake.
        """
        return self._made(repr(args), form, mistake)

    def known(self, args: tuple[Any, ...], form: str, got: Any) -> Fault | None:
        """The other form or the known mistake that leads to exactly what came back, if there is one."""
        want = self.of(args, form)
        others = [(fault, self.of(args, other)) for other, fault in self.forms.items() if other != form]
        others += [((name, said), self.of(args, form, name)) for name, said in self.mistakes.items()]
        return next((fault for fault, other in others if not same(other, want) and same(got, other)), None)
