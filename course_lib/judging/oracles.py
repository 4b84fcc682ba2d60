"""Oracles made of functions that look for one fault each."""

from collections.abc import Callable, Mapping
from typing import cast

from course_lib.judging.contract import Oracle, Params
from course_lib.judging.mistakes import Fault, judged
from course_lib.records import Case, Outcome, Verdict, VerdictKind

Finder = Callable[[Params, Case, Outcome], Fault | None]


def oracle(own: Finder, others: Mapping[str, Finder] | None = None, named: bool = False) -> Oracle:
    """An oracle: `own` finds the fault that a case asks about.

    Where it finds none in a plain run, `others` ("cost:memory" -> finder) are asked too. `named` puts the name of the case
    before each message.
    """

    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        fault = own(params, case, outcome)
        asked = {} if fault or case.adversary is not None else others or {}
        parts = [(*key.split(":", 1), finder(params, case, outcome)) for key, finder in asked.items()]
        return judged(
            case, fault, *((cast(VerdictKind, kind), part, other) for kind, part, other in parts), named=named
        )

    return verdicts
