"""One exercise for one learner: card, contract, numbers and cases, resolved once.

A table of the shown numbers would pass the shown cases without solving the exercise. If a judge asks no unseen case of
the plain kind, `resolve` therefore adds the shown cases of two other variants. They have the same structure as the
learner's variant and are drawn from the class's secret. An exercise that a class has added is judged on its own cases
only: its author decides whether answers must work for other numbers.
"""

import hashlib
import json
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from course_grader.arithmetic import same_everywhere
from course_grader.bank.answer_bank import BankAnswer
from course_grader.exercises import Card, class_exercises
from course_grader.exercises.values import is_row
from course_grader.judge.second_calls import second_calls
from course_grader.judging import Judging, Params, judging
from course_grader.judging.shipped import answers
from course_grader.judging.worked import outcome_of
from course_grader.records import Case, Outcome

CONTRACT_VERSION = "1"
"""Part of every hidden-case seed: a new version may draw other cases, the same version never does."""

OTHER_VARIANTS = 2  # variants whose shown cases are asked as unseen ones
_DRAWS = 12  # variants drawn to find some with the right structure
_KEPT_BYTES = 1_000_000  # of tensors; larger cases are not cached
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exercise:
    """What the judge needs to know about one exercise of one learner."""

    card: Card
    contract: Judging
    params: Params  # this learner's numbers
    seed: str  # of the unseen cases
    cases: Sequence[Case]  # for these numbers, visible ones first
    other_numbers: Sequence[tuple[Params, Case]] = ()  # shown cases of other variants, each with its parameters

    @property
    def is_public(self) -> bool:
        """Whether the learner's numbers are those of the public variant."""
        return as_text(self.params) == as_text(self.card.params)

    def _drawn(self, rng: random.Random) -> tuple[Case, ...]:
        return tuple(self.contract.cases(self.params, rng))

    def drawn_again(self, case: Case) -> Case | None:
        """This case with other tensors in its arguments; None if it has no tensors, or if they are the same in every
        draw.

        Shapes and all else stay the same where the judge draws its tensors with `coin_of`. A result that is kept by
        shape or size alone is wrong on one of the two.
        """
        if not _tensor_bytes(_arguments(case)):
            return None
        from course_grader.judging.tensors import OtherTensors, same_tensors  # loads torch

        for name, rng in (("tensors", OtherTensors(self.seed)), ("again", random.Random(f"{self.seed}:again"))):
            key = (self.contract.cases, self.card.id, as_text(self.params), self.seed, name)
            drawn = _cases.get(key, partial(self._drawn, rng))
            same = [each for each in drawn if (each.name, each.ranks, each.adversary) == (case.name, case.ranks, None)]
            if len(same) == 1 and not same_tensors(_arguments(case), _arguments(same[0])):
                return replace(same[0], visible=False)
        return None

    def second_calls(self) -> list[tuple[Case, Case]]:
        """The cases on which an answer is called again, the same for every learner with these numbers."""
        key = (self.contract.cases, self.card.id, as_text(self.params), self.seed, len(self.cases))
        return _seconds.get(key, lambda: second_calls(self.cases, self.drawn_again, self._tells_apart))

    def _tells_apart(self, one: Case, other: Case) -> bool:
        """Whether the judge takes every shipped right answer's result on `one`, and not the worked answer's on `other`
        in its place."""
        if self.card.id in class_exercises.cards() or self.card.form not in ("code", "bug"):
            return False
        able = [each for each in answers(self.card.id) if each.sort == "right"]
        if not able or not self._holds(able[0], one):  # a mixture of two cases that the statement excludes
            return False
        own, its = (outcome_of(able[0], self.params, case) for case in (one, other))
        if its.state != "answered" or not self._fails(one, replace(own, value=its.value)):
            return False
        return all(self._holds(each, one) or not self._holds(each, other) for each in able[1:])

    def _holds(self, answer: BankAnswer, case: Case) -> bool:
        """Whether the judge takes an answer's result on a case."""
        outcome = outcome_of(answer, self.params, case)
        return outcome.state == "answered" and not self._fails(case, outcome)

    def _fails(self, case: Case, outcome: Outcome) -> bool:
        """Whether the judge finds a fault, or cannot judge a case that it did not draw."""
        try:
            return any(not verdict.ok for verdict in self.contract.verdicts(self.params, case, outcome))
        except Exception:
            return True


def _arguments(case: Case) -> object:
    return case.args, case.per_rank


@same_everywhere()
def resolve(card: Card, params: Params | None = None, secret: str = "public", *, unseen: bool = True) -> Exercise:
    """The exercise for these numbers (canonical by default), with all its cases or only the visible ones."""
    contract = judging(card.id)
    values = card.params if params is None else params
    seed = hidden_seed(card, secret)
    key = (contract.cases, card.id, repr(sorted(values.items())), seed)
    drawn = _cases.get(key, lambda: tuple(contract.cases(values, random.Random(seed))))
    return Exercise(
        card=card,
        contract=contract,
        params=values,
        seed=seed,
        cases=drawn if unseen else [case for case in drawn if case.visible],
        other_numbers=_of_other_variants(card, contract, values, seed, drawn) if unseen else (),
    )


def hidden_seed(card: Card, secret: str = "public") -> str:
    """The seed of the unseen cases: the same for every repeat of an exercise under one secret."""
    return hashlib.sha256(f"{CONTRACT_VERSION}:{secret}:{card.id}".encode()).hexdigest()


def as_text(value: object) -> str:
    """Parameters as canonical text: equal sets give equal text, even if one was stored as JSON."""
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, sort_keys=True, default=list)


def asks_shown_values_only(drawn: Sequence[Case]) -> bool:
    """Whether some shown value is asked on no unseen plain case, in an exercise of functions that has unseen cases."""
    if any(case.ranks for case in drawn) or all(case.visible for case in drawn):
        return False
    shown, plain = (
        {case.part for case in drawn if case.kind == "values" and case.visible is seen} for seen in (True, False)
    )
    return not shown <= plain


# ------------------------------------------------------------------------------------------------ drawing cases


class _Kept(Generic[Made]):
    """A small cache of recent values. Large values are not kept."""

    def __init__(self, most: int, is_small: Callable[[Made], bool] = lambda value: True) -> None:
        self.most, self.is_small = most, is_small
        self.values: dict[Hashable, Made] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The kept value, or a new one."""
        if key in self.values:
            return self.values[key]
        value = make()
        if self.is_small(value):
            while len(self.values) >= self.most:
                self.values.pop(next(iter(self.values)))
            self.values[key] = value
        return value


def _tensor_bytes(value: object) -> int:
    """Bytes of the tensors in plain data."""
    kind = type(value)
    if kind in (int, float, str, bool):
        return 0
    if isinstance(value, Mapping):
        return sum(map(_tensor_bytes, value.values()))
    if is_row(value):
        return sum(map(_tensor_bytes, value))
    return int(getattr(value, "nbytes", 0))


def _are_small(cases: Sequence[Case]) -> bool:
    return sum(_tensor_bytes((case.args, case.kwargs, case.per_rank, case.secret)) for case in cases) <= _KEPT_BYTES


_cases = _Kept[Sequence[Case]](64, _are_small)
_variants, _shown = _Kept[tuple[str, ...]](512), _Kept[tuple[tuple[Params, Case], ...]](512)
_seconds = _Kept[list[tuple[Case, Case]]](64, lambda pairs: _are_small([case for pair in pairs for case in pair]))


def _of_other_variants(
    card: Card, contract: Judging, params: Params, seed: str, drawn: Sequence[Case]
) -> list[tuple[Params, Case]]:
    """Shown cases of other variants with their parameters; none if the judge asks its own."""
    if card.vary is None or card.id in class_exercises.cards() or not asks_shown_values_only(drawn):
        return []
    own, structure = as_text(params), as_text(params.get(card.structural))
    candidates = _variants.get((card.id, structure, seed), lambda: _variants_of(card, structure, seed))
    texts = [text for text in candidates if text != own][:OTHER_VARIANTS]
    return [
        pair
        for text in texts
        for pair in _shown.get((contract.cases, card.id, text, seed), partial(_shown_to, contract, text, seed))
    ]


def _variants_of(card: Card, structure: str, seed: str) -> tuple[str, ...]:
    """Other variants as text: first those with this structure, then others changed to have it."""
    made = [dict(card.variant(f"{seed}:{number}")) for number in range(_DRAWS)]
    alike = [each for each in made if as_text(each.get(card.structural)) == structure]
    turned = [{**each, card.structural: json.loads(structure)} for each in made if each not in alike]
    return tuple(dict.fromkeys(map(as_text, [*alike, *turned])))


def _shown_to(contract: Judging, text: str, seed: str) -> tuple[tuple[Params, Case], ...]:
    """The cases that a student with these parameters is shown, marked as not visible."""
    params = json.loads(text)
    cases = contract.cases(params, random.Random(f"{seed}:{text}"))
    return tuple((params, replace(case, visible=False)) for case in cases if case.visible)
