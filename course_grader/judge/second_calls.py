"""The cases on which an answer is called again, and what follows if its calls changed what the caller still needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from course_grader.clean_text import clean
from course_grader.judging.mistakes import verdict
from course_grader.records import Case, Outcome, Verdict
from course_grader.worker.second_call import CALLS

SECOND_CALL = "Called a second time:"
NEVER_WAITED = "never waited for"  # words of the cluster
CHANGED = {  # the name of each mistake, and what to do about it
    "changed-arguments": "The call changes an argument ({}), which the caller still needs. Work on a copy.",
    "changed-results": "The call overwrites {} of an earlier call, which the caller may still need. Return something "
    "new each time.",
    "changed-settings": "The call leaves {} changed for all code that runs afterwards. Put it back before you return.",
    "changed-generators": (
        "The call seeds the generator of {}, so all code that runs afterwards draws the same numbers. Use a generator "
        "of your own."
    ),
    "changed-memory": (
        "Each call with the same arguments leaves more in `{}`, so memory grows with every step. Keep nothing that "
        "the next call does not need."
    ),
    "changed-handles": "{}",
}


def second_calls(
    cases: Sequence[Case], drawn_again: Callable[[Case], Case | None] = lambda case: None
) -> list[tuple[Case, Case]]:
    """Pairs: the simplest case of each part of the values, and that case with the arguments of the calls that come
    first.

    The first calls get the arguments of up to three other cases. Where `drawn_again` gives the same case with other
    tensors, the result for those is judged, right after a call with the case's own tensors.

    Which cases these are depends on the exercise alone, not on how long an answer or a busy computer takes.
    """
    calm = [case for case in cases if case.adversary is None]
    others = {id(case): _others(case, calm) for case in calm}
    by_part: dict[str, list[Case]] = {}

    def order(case: Case) -> tuple[bool, bool, int, bool]:
        other = others[id(case)][-1]
        return other is case, other.part != case.part, case.ranks or 0, not case.visible

    for case in sorted(calm, key=order):
        if case.kind == "values":
            by_part.setdefault(case.part, []).append(case)
    found = []
    for simplest_first in by_part.values():
        drawn = next(((case, again) for case in simplest_first if (again := drawn_again(case))), None)
        case, again = drawn or (simplest_first[0], None)
        first = others[id(case)]
        found.append((case, _after(first, case)) if again is None else (again, _after([*first, case], again)))
    return found


def _others(case: Case, cases: Sequence[Case]) -> list[Case]:
    """Cases that can run before this one in the same run: the first of its part, the last of another and of its own, or
    itself.

    The last one is likely to be large. One of them is likely to have another result, which shows if a later call
    overwrites it, and one to have the same shapes.
    """
    fitting = [
        each
        for each in cases
        if each is not case
        and each.ranks == case.ranks
        and each.buffering == case.buffering
        and each.seconds <= case.seconds
        and dict(each.kwargs) == dict(case.kwargs)
    ]
    alike, unlike = ([each for each in fitting if (each.part == case.part) is same] for same in (True, False))
    return [*alike[:-1][:1], *unlike[-1:], *alike[-1:]] or [case]


def _after(earlier: Sequence[Case], case: Case) -> Case:
    """A case whose arguments are tuples: its own, and those of the earlier ones."""
    every, by_rank = [case, *earlier], None
    if any(each.per_rank is not None for each in every):
        none = ((),) * (case.ranks or 0)
        by_rank = tuple(zip(*(each.per_rank or none for each in every), strict=True))
    args = tuple(each.args for each in every)
    return replace(case, args=args, per_rank=by_rank, twice=True, seconds=CALLS * case.seconds)


def of_the_last_call(case: Case, outcome: Outcome) -> tuple[Outcome, dict[str, str]]:
    """The outcome with the last call's value alone, and what the calls changed on any rank; a worker may send anything
    as these."""
    if outcome.state != "answered":
        return outcome, {}
    pairs = outcome.value if case.ranks is not None else [outcome.value]
    if type(pairs) is not list or any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        return replace(outcome, value=None), {}
    values = [value for value, _ in pairs]
    changed: dict[str, str] = {}
    for _, found in pairs:
        for what, which in found.items() if type(found) is dict else ():
            if f"changed-{what}" in CHANGED and type(which) is str:
                changed.setdefault(what, clean(which, 80))
    for hazard in outcome.meter.get("hazards") or []:
        if NEVER_WAITED in hazard:
            changed.setdefault("handles", hazard)
    return replace(outcome, value=values if case.ranks is not None else values[0]), changed


def changed_verdicts(case: Case, changed: Mapping[str, str]) -> list[Verdict]:
    """A verdict for each thing that the calls changed and should not have."""
    found = []
    for what, which in changed.items():
        name = f"changed-{what}"
        found.append(verdict("values", "left as it was", case, (name, f"{case.name}: {CHANGED[name].format(which)}")))
    return found
