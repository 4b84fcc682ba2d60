"""The answers to drills, with the known mistakes."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from course_grader import exercises
from course_grader.exercises.values import near
from course_grader.judging.contract import Params

Leads = float | Callable[[Params], float | None] | None
Slip = tuple["Leads | Times", str]
"""A known mistake in a drill: the value it leads to, and what to tell a learner who gives that. The value is a number,
or a function of the drill's parameters that returns None where the mistake does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillKey:
    """The answer to a drill as a function of its parameters, with the known mistakes."""

    answer: Callable[[Params], float]
    how: str  # one sentence with placeholders, shown after the answer
    rel: float = 0.01
    mistakes: Sequence[tuple[Leads, str]] = ()

    def mistakes_on(self, params: Params) -> list[tuple[float, str]]:
        """Wrong values with their messages; without those that, on these numbers, are right or equal an earlier one."""
        right, kept = self.answer(params), list[tuple[float, str]]()
        for leads_to, message in self.mistakes:
            value = leads_to(params) if callable(leads_to) else leads_to
            if (
                value is None
                or near(value, right, 2 * self.rel)
                or any(near(value, other, self.rel) for other, _ in kept)
            ):
                continue
            kept.append((value, message))
        return kept


@dataclass(frozen=True, slots=True)
class Times:
    """The value of a mistake that leads to this many times the right answer; the factor may depend on the
    parameters."""

    factor: float | Callable[[Params], float]


def drill_key(answer: Callable[[Params], float], how: str, *mistakes: Slip, rel: float = 0.01) -> DrillKey:
    """A drill's key in one call: the answer as a function of its parameters, how to get there, the known mistakes."""

    def resolved(value: Leads | Times) -> Leads:
        if not isinstance(value, Times):
            return value
        factor = value.factor
        return lambda p: answer(p) * (factor(p) if callable(factor) else factor)

    slips = [(resolved(value), message) for value, message in mistakes]
    return DrillKey(answer=answer, how=how, rel=rel, mistakes=slips)


def keys_of(chapter: str) -> Mapping[str, DrillKey]:
    """The keys of a chapter's drills, by their ids."""
    keys: Mapping[str, DrillKey] = importlib.import_module(f"{exercises.package_of(chapter)}.judges.drills").DRILLS
    return keys


def key_of(drill: exercises.Drill) -> DrillKey:
    """The key of a drill."""
    return keys_of(drill.chapter)[drill.id]


def drill_verdict(drill: exercises.Drill, number: float) -> tuple[bool, str]:
    """Whether `number` answers the drill within its tolerance, and one sentence for the learner."""
    key = key_of(drill)
    want = key.answer(drill.params)
    how = exercises.fill_text(key.how, {**drill.params, "answer": want}).replace("\\$", "$")
    if near(number, want, key.rel):
        return True, how
    told = next((message for value, message in key.mistakes_on(drill.params) if near(number, value, key.rel)), "")
    return False, f"{told} {how}".strip()
