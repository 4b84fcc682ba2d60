"""The judge of an audit. Errors found count only if a right statement is recognized too, and the reverse."""

import re
from collections.abc import Mapping, Sequence

from course_grader.exercises.audits import NEAR, NEAR_TEXT, RIGHT, WRONG, Item
from course_grader.exercises.values import is_row
from course_grader.judging import Judging, Params, Worked, describe, is_number, near
from course_grader.judging.mistakes import Fault, Wrong, verdict
from course_grader.records import Case, Outcome, Verdict

_SLIP = 0.02  # relative: of a number that names its mistake
_GIBI = 2**30 / 1e9  # smaller units are so near to the binary ones that the number counts as right
Key = tuple[float, str, str]  # the truth about one statement: the number in the unit asked for, the verdict, the cause


def audit(items: Sequence[Item], truth: Worked, causes: Mapping[str, str], why: str, pytorch: str = "") -> Judging:
    """The judging of an audit: every statement has the same share. The truth is what the worked answer returns."""

    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        given, keys = outcome.value, truth()
        if type(given) is not dict:
            none: Fault = (
                "no-dictionary",
                f"Return a dictionary from id to (number, verdict, cause); got {describe(given)}.",
            )
            return [verdict("values", item.id, case, none) for item in items]
        faults = _beside({item.id: _fault(item, keys[item.id], causes, given) for item in items}, keys)
        found = {name: fault and Wrong(*fault)._replace(where=(name, 0)) for name, fault in faults.items()}
        return [verdict("values", item.id, case, found[item.id]) for item in items]

    return Judging(
        shares={f"values:{item.id}": 1 / len(items) for item in items},
        cases=lambda params, rng: [Case(name="the statements")],
        verdicts=verdicts,
        within=_SLIP,
        why=why,
        pytorch=pytorch,
    )


def _beside(faults: Mapping[str, Fault | None], keys: Mapping[str, Key]) -> dict[str, Fault | None]:
    """The faults, and a fault for every right judgment if all are of one kind: calling all statements the same earns
    nothing."""
    found = dict(faults)
    for side, other, told in (
        (RIGHT, WRONG, "this counts once you have also found a wrong statement."),
        (WRONG, RIGHT, "this counts once you have also recognized a right statement."),
    ):
        if all(faults[name] for name in faults if keys[name][1] == other):
            found |= {
                name: ("blind", f"{name}: {told}") for name in faults if keys[name][1] == side and not faults[name]
            }
    return found


def _fault(item: Item, key: Key, causes: Mapping[str, str], given: Mapping[object, object]) -> Fault | None:
    """What is wrong with the answer on one statement; None if number, verdict and cause are right."""
    lead = f"{item.id}: "
    if item.id not in given:
        return "missing", f"{lead}no answer under this id yet."
    answer = given[item.id]
    if not is_row(answer) or len(answer) != 3:
        return "wrong-shape", f"{lead}give (number, {RIGHT!r} or {WRONG!r}, cause); got {describe(answer)}."
    number, said, cause = answer
    said, cause = _word(said, (RIGHT, WRONG)), _word(cause, causes)
    if not is_number(number):
        return "not-a-number", f"{lead}the first value is a number ({item.words}); got {describe(number)}."
    if said is None or cause is None:
        return "no-such-word", f"{lead}a verdict is {RIGHT!r} or {WRONG!r}, a cause one of {', '.join(causes)}."
    right_number, right_said, right_cause = key
    if not near(number, right_number, NEAR):
        return _slip(item, right_number, number, lead)
    if said != right_said:
        return (
            "wrong-verdict",
            f"{lead}your number is right; now compare it with what was printed: within {NEAR_TEXT} or not?",
        )
    if cause != right_cause:
        return (
            "wrong-cause",
            f"{lead}number and verdict are right; {cause!r} is not what happened. Hold what each cause means against "
            f"the sentence.",
        )
    return None


def _word(given: object, known: Sequence[str] | Mapping[str, str]) -> str | None:
    """The known word that was meant, upper and lower case aside; None for any other."""
    return next((word for word in known if type(given) is str and word.lower() == given.strip().lower()), None)


def _slip(item: Item, right: float, number: float, lead: str) -> Fault:
    """What is said of a number that is not near the right one, where no shipped mistake explains it."""
    if any(near(number, right * each, NEAR) for each in (item.scale, 1e-6, 1e-3, 1e3, 1e6)):
        told = f"{lead}your number is right but for its unit, or a power of 1,000; asked for: {item.words}."
        return Wrong("other-unit", told, lead)
    if re.search(r"\bGB\b", item.words) and near(number * _GIBI, right, _SLIP / 10):
        return Wrong("gib-for-gb", f"{lead}your number counts GiB, of 2³⁰ bytes; a GB is 10⁹ bytes.", lead)
    return Wrong("other-number", f"{lead}your number is {number / right:.3g} times ours ({item.words}).", lead)
