"""Oracles made of functions that look for one fault each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from course_grader.judging.contract import Oracle, Params
from course_grader.judging.mistakes import Fault, judged
from course_grader.records import Case, Outcome, Verdict, VerdictKind

Finder = Callable[[Params, Case, Outcome], Fault | None]


def oracle(
    own: Finder, others: Mapping[str, Finder] | None = None, named: bool = False, always: bool = False
) -> Oracle:
    """An oracle: `own` finds the fault that a case asks about.

    `others` ("cost:memory" -> finder) are asked too in plain runs, where `own` finds nothing or, with `always`,
    whatever it finds. `named` puts the name of the case before each message.
    """

    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        fault = own(params, case, outcome)
        asked = {} if case.adversary is not None or (fault and not always) else others or {}
        parts = [(key.partition(":"), finder(params, case, outcome)) for key, finder in asked.items()]
        found = judged(case, fault, named=named)
        for (kind, _, part), other in parts:
            found += judged(replace(case, kind=cast(VerdictKind, kind), part=part), other, named=named)
        return found

    return verdicts
