"""What a judge's message says in a class of an answer's value and traffic: rounded numbers, and only words that are
known.

Judges quote what came back, to help the learner. In a class an answer could encode hidden inputs or details of the
grading computer in it. A long number is therefore rounded, a word that only the answer said is left out, and a long
list is cut. Numbers and words of the case, of the learner's variant and of the chapter's exercises stay as they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice

from course_grader.exercises.values import is_number
from course_grader.judging import Params
from course_grader.records import Case, Outcome, Verdict
from course_lib.folders import ROOT

DOTS = "…"
_DIGITS = 2  # of a number that is rounded
_SMALL = 1_000  # a whole number below it is told
_HUGE, _TINY, _LONG = 1e27, 1e-15, 26  # numbers beyond these, or of so many characters, are not told
_LEAVES = 1_000  # numbers and texts of a case that are read
_RUN = 6  # items of a list that are told
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"\w+")
_ITEM = rf"""(?:≈?[-+]?{_NUMBER.pattern}|…|True|False|None|'[^'\n]*'|"[^"\n]*")"""
_LIST = re.compile(rf"{_ITEM}(?:[\s,;:|→(){{}}\[\]]+{_ITEM}){{{_RUN},}}")


def closed_messages(
    verdicts: Sequence[Verdict], chapter: str, params: Params, case: Case, outcome: Outcome
) -> list[Verdict]:
    """The verdicts, with messages that hold nothing that an answer could have written into its value or its traffic."""
    known, said = _Known(chapter, params, case), _Said(outcome.value)
    return [replace(v, message=_closed(v.message, known, said)) if v.message else v for v in verdicts]


def _closed(message: str, known: "_Known", said: "_Said") -> str:
    for text in sorted((each for each in said.texts if each in message), key=len, reverse=True):
        message = message if known.has_text(text) else message.replace(text, DOTS)
    if said.text:
        message = _WORD.sub(
            lambda word: DOTS if word[0].lower() in said.text and not known.has_word(word[0]) else word[0], message
        )
    message = _NUMBER.sub(lambda found: _number(found, known), message)
    return _LIST.sub(lambda found: _first_items(found[0], known, said), message)


def _number(found: re.Match[str], known: "_Known") -> str:
    """A number as it may be told; one inside a known word, such as float32, is no number."""
    text = found[0].rstrip(",")
    rest = found[0][len(text) :]
    value = float(text.replace(",", ""))
    short = len(_mantissa(text)) <= _DIGITS or (value < _SMALL and text.isdigit())
    usual = (not value or _TINY < value < _HUGE) and not re.match(r"0\d", text) and len(text) < _LONG
    if (usual and (short or known.has_number(text))) or _is_in_known_word(found, known):
        return found[0]
    if not value or not _TINY < value < _HUGE:
        return DOTS + rest
    rounded = float(f"{value:.{_DIGITS - 1}e}")
    return f"≈{rounded:,.0f}{rest}" if 10 <= rounded < 1e7 else f"≈{rounded:.{_DIGITS}g}{rest}"


def _is_in_known_word(found: re.Match[str], known: "_Known") -> bool:
    whole = next((word for word in _WORD.finditer(found.string) if word.start() <= found.start() < word.end()), found)
    return not whole[0].isdigit() and known.has_word(whole[0])


def _first_items(text: str, known: "_Known", said: "_Said") -> str:
    """The first items of a list, and dots; all of a list of the case, or of words that the answer did not say."""
    items = list(re.finditer(_ITEM, text))
    words = [each[0][1:-1] for each in items if each[0][0] in "'\""]
    if text.rstrip("… ,") in known.text or (len(words) == len(items) and not said.texts.issuperset(words)):
        return text
    return f"{text[: items[_RUN - 1].end()].rstrip(',')}, {DOTS}"


def _mantissa(text: str) -> str:
    """The digits of a number that count: 1,200 and 0.012 and 1.2e9 all have 12."""
    return re.split("[eE]", text.replace(",", ""))[0].replace(".", "").strip("0")


class _Said:
    """The texts in an answer's value, also as judges may quote them; a text of one character says nothing."""

    def __init__(self, value: object) -> None:
        self.value = value

    @cached_property
    def texts(self) -> frozenset[str]:
        found = set[str]()
        for each in _leaves(self.value):
            text = each.decode("latin-1") if type(each) is bytes else each
            if type(text) is str:
                found |= {text, text.strip(), text.strip().lower(), repr(text)[1:-1]}
        return frozenset(text for text in found if len(text) > 1)

    @cached_property
    def text(self) -> str:
        return "\n".join(self.texts).lower()


class _Known:
    """What a message may say whatever the answer is: the case, the variant, and the words and numbers of the chapter's
    exercises."""

    def __init__(self, chapter: str, params: Params, case: Case) -> None:
        self.chapter, self.case = chapter, case
        self.given = (case.name, case.part, params, case.args, case.kwargs, case.per_rank, case.ranks, case.secret)

    @cached_property
    def leaves(self) -> list[object]:
        return list(islice(_leaves(self.given), _LEAVES))

    @cached_property
    def text(self) -> str:
        texts = [str(each) for each in self.leaves if type(each) in (str, int, float)]
        return "\n".join([self.case.name, ", ".join(texts)])

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(word.lower() for word in _WORD.findall(self.text))

    @cached_property
    def mantissas(self) -> frozenset[str]:
        numbers = [each for each in self.leaves if is_number(each) and abs(each) < 1e300]
        told = {_mantissa(f"{abs(each):.{digits}g}") for each in numbers for digits in (3, 4, 5, 6, 17)}
        return frozenset(told | {_mantissa(each) for each in _NUMBER.findall(self.case.name)})

    def has_number(self, text: str) -> bool:
        """Whether it is a number of the case or the code, up to rounding and powers of ten."""
        return _mantissa(text) in self.mantissas or text.replace(",", "") in _vocabulary(self.chapter)

    def has_word(self, word: str) -> bool:
        """Whether it is a word of the case or the code."""
        return word.lower() in self.words or word.lower() in _vocabulary(self.chapter)

    def has_text(self, text: str) -> bool:
        """Whether all of a text is known; a text without letters and digits is not."""
        words = _WORD.findall(text)
        plain = re.fullmatch(r"[\w .,:;/()'\"+-]*", text) is not None
        return text in self.text or (plain and 0 < len(words) <= _RUN and all(map(self.has_word, words)))


def _leaves(value: object) -> Iterator[object]:
    """The numbers and texts in plain data, in order, and the sizes of tensors."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, Mapping):
            stack += [*reversed([*each.values()]), *reversed([*each])]
        elif isinstance(each, (list, tuple)):
            stack += reversed(each)
        elif isinstance(each, (set, frozenset)):
            stack += each
        elif hasattr(each, "shape") and hasattr(each, "nbytes"):
            stack += [*each.shape, int(each.nbytes)]
        else:
            yield each


@cache
def _vocabulary(chapter: str) -> frozenset[str]:
    """The words and numbers in the code of a chapter's exercises and of what they share; those of the shipped answers
    are not among them."""
    own = [
        *ROOT.glob(f"course_chapters/ch{chapter}/exercises/**/*.py"),
        ROOT / "course_chapters" / "running_example.py",
    ]
    files = [*own, *ROOT.glob("course_grader/exercises/*.py"), *ROOT.glob("course_grader/judging/*.py")]
    text = "\n".join(path.read_text(encoding="utf-8").partition("\nANSWERS = ")[0] for path in files)
    words = {word.lower() for word in _WORD.findall(text)}
    return frozenset(words | {each.replace(",", "").replace("_", "") for each in _NUMBER.findall(text)})
