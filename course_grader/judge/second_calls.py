"""The cases on which an answer is called again, and what follows if its calls changed what the caller still needs."""

from collections.abc import Callable, Hashable, Mapping, Sequence
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
    cases: Sequence[Case],
    drawn_again: Callable[[Case], Case | None] = lambda case: None,
    tells_apart: Callable[[Case, Case], bool] = lambda one, other: False,
) -> list[tuple[Case, Case]]:
    """Pairs: one case of each part of the values, and that case with the arguments of the calls that come first.

    The first calls get the arguments of up to three other cases. The judged case is new: the simplest one with other
    tensors, as `drawn_again` gives it, or with another value of one argument. Before it there is a call for each
    argument that differs in this one alone, if it `tells_apart` the two: a result that is kept by too few of the
    arguments is wrong. The last of these calls is the simplest case itself.

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
        case = drawn[0] if drawn else simplest_first[0]
        calls = [each for other in (case, *calm) if _are_alike(other, case) for each in single_calls(other)]
        new = drawn or _one_new(calls, tells_apart)
        if new is None:
            found.append((case, _after(others[id(case)], case)))
            left = list(range(len(arguments_of(case))))
        else:
            base, again = new
            by_argument = _one_apart(again, [base, *calls], tells_apart)
            apart = [each for each in by_argument if each and _key(arguments_of(each)) != _key(arguments_of(base))]
            first = others[id(case)]
            if apart and None not in by_argument:  # which have the same shapes and other results
                first = [each for each in first if each.part != case.part] or first[-1:]
            found.append((again, _after([*first, *apart, base], again)))
            left = [at for at, each in enumerate(by_argument) if each is None]
        others_ranks = {each.ranks: each for each in calm if _are_alike(replace(each, ranks=case.ranks), case)}
        groups = [
            [each for each in calm if _are_alike(each, one)] for one in others_ranks.values() if one.ranks != case.ranks
        ]
        found += _elsewhere(left, [calls, *groups], tells_apart)
    return found


# ------------------------------------------------------------------------------------ calls that differ in one argument

_TRIED = 4  # values of one argument that are tried
_BASES = 3  # calls in which one argument is changed


def _are_alike(one: Case, two: Case) -> bool:
    shapes = [
        (each.ranks, each.buffering, len(arguments_of(each)), dict(each.kwargs), function_of(each))
        for each in (one, two)
    ]
    return shapes[0] == shapes[1]


def function_of(case: Case) -> int | None:
    """The number of the function that a case with rows of arguments calls."""
    return case.args[0] if _has_rows(case) else None


def _has_rows(case: Case) -> bool:
    args = case.args
    return (
        len(args) == 2
        and type(args[0]) is int
        and type(args[1]) is list
        and bool(args[1])
        and type(args[1][0]) is tuple
    )


def single_calls(case: Case, most: int = 8) -> list[Case]:
    """The case, or one for each of its first rows."""
    if not _has_rows(case):
        return [case]
    return [replace(case, args=(case.args[0], [row])) for row in case.args[1][:most]]


def arguments_of(case: Case) -> tuple[object, ...]:
    """The arguments of the call; on ranks an argument of each rank is a tuple of all ranks' values."""
    if _has_rows(case):
        return tuple(case.args[1][0])
    return (*case.args, *zip(*case.per_rank, strict=True)) if case.per_rank is not None else case.args


def _with(case: Case, at: int, value: object) -> Case:
    """A hidden case with another value of argument number `at`."""
    given = (*arguments_of(case)[:at], value, *arguments_of(case)[at + 1 :])
    if _has_rows(case):
        return replace(case, args=(case.args[0], [given]), visible=False)
    shared = len(case.args)
    by_rank = None if case.per_rank is None else tuple(zip(*given[shared:], strict=True)) or case.per_rank
    return replace(case, args=given[:shared], per_rank=by_rank, visible=False)


def _one_new(calls: Sequence[Case], tells_apart: Callable[[Case, Case], bool]) -> tuple[Case, Case] | None:
    """A call, and one that no case makes, with another value of one argument."""
    known = {_key(arguments_of(each)) for each in calls}
    for at in range(len(arguments_of(calls[0]))):
        for base in calls[:_TRIED]:
            for new in _changed(base, at, calls[:8]):
                if _key(arguments_of(new)) not in known and tells_apart(new, base):
                    return base, new
    return None


def _changed(case: Case, at: int, calls: Sequence[Case]) -> list[Case]:
    """Calls that take one argument, of the same form, from others."""
    own = arguments_of(case)[at]
    form, others = _form(own), [arguments_of(each)[at] for each in calls]
    values = {_key(value): value for value in others if _form(value) == form}
    values.pop(_key(own), None)
    return [_with(case, at, value) for value in values.values()][:_TRIED]


def _one_apart(case: Case, calls: Sequence[Case], tells_apart: Callable[[Case, Case], bool]) -> list[Case | None]:
    """For each argument, a call that differs from `case` in this one alone; None if none is found."""
    return [
        next(
            (
                each
                for each in _changed(case, at, calls)
                if _is_random(arguments_of(each)[at]) or tells_apart(each, case)
            ),
            None,
        )
        for at in range(len(arguments_of(case)))
    ]


def _elsewhere(
    left: Sequence[int], groups: Sequence[Sequence[Case]], tells_apart: Callable[[Case, Case], bool]
) -> list[tuple[Case, Case]]:
    """For each of these arguments a pair as `second_calls` gives it, if two calls differ in it and in the result."""
    found = []
    for at in left:
        tried = ((one, each) for calls in groups for one in calls[:_BASES] for each in _changed(one, at, calls))
        if pair := next((pair for pair in tried if tells_apart(*reversed(pair))), None):
            found.append((pair[1], _after(pair[:1], pair[1])))
    return found


def _form(value: object) -> object:
    """What two values of one argument have in common if either may stand in the other's place."""
    if isinstance(value, Mapping):
        return {key: _form(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [_form(each) for each in value]
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return type(value), value.shape, value.dtype
    return type(value)


def _key(value: object) -> Hashable:
    """What equal values have in common; the text of a tensor takes a thousand times as long as its bytes."""
    if isinstance(value, Mapping):
        return tuple((name, _key(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), *map(_key, value)
    if hasattr(value, "untyped_storage"):
        import torch

        assert isinstance(value, torch.Tensor)
        own = value.detach().contiguous().reshape(-1).view(torch.uint8)
        return value.dtype, value.shape, own.numpy().tobytes()
    return repr(value)


def _is_random(value: object) -> bool:
    """Whether a value consists of tensors of floating-point numbers, any of which will do."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_random, value))
    return hasattr(value, "is_floating_point") and value.is_floating_point()


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
