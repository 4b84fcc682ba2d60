"""What a judge found wrong with an answer, and the verdicts that report it."""

from collections.abc import Iterable
from typing import NamedTuple, cast

from course_grader.records import Case, Verdict, VerdictKind


class Wrong(NamedTuple):
    """What is wrong with an answer, and what a mistake that is found to do the same needs: the words before its
    sentence, and the part."""

    mistake: str  # "" where it has no name
    message: str  # for the learner
    lead: str = ""
    where: tuple[object, ...] = ()


WHOLE = ("whole",)
"""As the part: only a mistake that explains all of what came back is named, as where the numbers of a list mean nothing
one by one."""

Fault = Wrong | tuple[str, str]
"""What is wrong with an answer: the mistake's name ("" where it has none) and the message for the learner."""


def first(*faults: Fault | None) -> Fault | None:
    """The first of several findings that is one."""
    return first_of(faults)


def first_of(faults: Iterable[Fault | None]) -> Fault | None:
    """The first of some findings that is one; those after it are not looked for."""
    return next((fault for fault in faults if fault is not None), None)


def verdict(kind: str, part: str, case: Case, fault: Fault | None) -> Verdict:
    """A verdict that holds without a fault, and otherwise fails with the fault's name and message."""
    found = Wrong(*(fault or ("", "")))
    return Verdict(
        kind=cast(VerdictKind, kind),
        part=part,
        ok=fault is None,
        mistake=found.mistake,
        message=found.message,
        case=case.name,
        lead=found.lead,
        where=found.where,
    )


def placed(fault: Fault | None, *where: object) -> Wrong | None:
    """The fault, and the part of what came back that it is in: there a shipped mistake may have done the same."""
    return fault and Wrong(*fault)._replace(where=where)


def led(words: str, fault: Fault) -> Wrong:
    """The fault with these words before its message, and before the sentence of a mistake."""
    found = Wrong(*fault)
    return found._replace(message=f"{words}: {found.message}", lead=f"{words}: {found.lead}")


def judged(
    case: Case, fault: Fault | None, *others: tuple[str, str, Fault | None], named: bool = False
) -> list[Verdict]:
    """The verdict on a case's own question and, where that holds, those on `others`, each a (kind, part, fault).

    `named` puts the name of the case before each message.
    """
    asked = [(case.kind, case.part, fault), *([] if fault else others)]
    return [verdict(kind, part, case, led(case.name, each) if named and each else each) for kind, part, each in asked]
