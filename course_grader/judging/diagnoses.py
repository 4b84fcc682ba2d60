"""The judge of answers that are one word for the fault of a run, a trace or a batch: a wrong one is named after the
fault that it misses.

The simulated job with forty faults, which chapter 17 asks learners to diagnose, is `course_chapters.ch17.diagnosis`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from course_grader.judging import Fault, describe, first
from course_grader.judging.mistakes import Wrong
from course_grader.judging.per_row import Word
from course_grader.records import Case


def numbered(make: Callable[..., Case], name: str, share: str, drawn: Iterable[Sequence[object]]) -> list[Case]:
    """A case for each of `drawn`, (arguments, …, the right answer), numbered from 1 where `name` or `share` has
    braces."""
    pairs = enumerate(drawn, 1)
    return [make(name.format(place), share.format(place), *args, secret=word) for place, (*args, word) in pairs]


def plain_word(said: object) -> object:
    """A word without upper case and blanks around it; anything else as it is."""
    return said.strip().lower() if type(said) is str else said


def diagnosis_fault(where: str, said: object, want: str, fine: str, look: Mapping[str, str]) -> Fault | None:
    """The fault of a diagnosis; `look` has a hint for each right word, and `fine` is the word for no fault."""
    said = plain_word(said)
    if said == want:
        return None
    if type(said) is not str or said not in look:
        name = "returned-none" if said is None else "no-such-word"
        return name, f"{where}: return one of {', '.join(map(repr, look))}; got {describe(said)}."
    name = "false-alarm" if want == fine else "unnoticed" if said == fine else f"not-{want.replace(' ', '-')}"
    return Wrong(name, f"{where}: it is not {said!r}. {look[want]}", f"{where}: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Word):
    """A column of diagnoses; the first wrong one is named."""

    fine: str
    look: Mapping[str, str]

    def fault(self, case: Case, values: Sequence[object]) -> Fault | None:
        rows = zip(case.args[1], values, strict=True)
        pairs = [(f"{case.name}, {self.words(*row)}", said, str(self.want(*row))) for row, said in rows]
        return first(*(diagnosis_fault(*pair, self.fine, self.look) for pair in pairs))
