"""What the inputs of an exercise's cases are like: lengths, flags and counts of ranks, alone and in pairs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from course_grader.judge.second_calls import arguments_of, function_of, single_calls
from course_grader.records import Case

Trait = tuple[int, str]  # the number of an argument, -1 for the ranks, and what it is like
LENGTHS = ("nothing", "one", "many")
RANKS = ("one rank", "an odd number of ranks", "an even number of ranks")


def traits(case: Case) -> Iterator[Trait]:
    """The traits of one call."""
    if case.ranks:
        yield -1, RANKS[0] if case.ranks == 1 else RANKS[2 - case.ranks % 2]
    for at in range(len(arguments_of(case))):
        for like in {_trait(each) for each in _values(case, at)} - {""}:
            yield at, like


def _values(case: Case, at: int) -> Sequence[object]:
    """Argument number `at`; on ranks, where each rank has its own, that of all ranks."""
    value = arguments_of(case)[at]
    return value if case.per_rank is not None and at >= len(case.args) else [value]


def _trait(value: object) -> str:
    if value is None or type(value) is bool:
        return repr(value)
    if isinstance(value, (list, tuple, dict)):
        return LENGTHS[min(len(value), 2)]
    return LENGTHS[min(value.numel(), 2)] if hasattr(value, "numel") else ""


def gaps(cases: Sequence[Case]) -> list[str]:
    """A length of one where there is nothing and many, counts of ranks that do not occur, and pairs of traits that no
    call has together.

    An argument that is as long as an earlier one in every call, or as there are ranks, is left out.
    """
    by_function: dict[object, list[Case]] = defaultdict(list)
    for case in cases:
        for each in single_calls(case, 1000):
            by_function[function_of(each)].append(each)
    found = []
    for key, single in by_function.items():
        where, calls = "" if key is None else f"function {key}, ", [set(traits(each)) for each in single]
        ats = sorted({at for call in calls for at, _ in call})
        left_out = {at for at in ats if at >= 0 and all(_one_for_each_rank(each, at) for each in single)}
        left_out |= {at for one, at in combinations(ats, 2) if one >= 0 and _are_tied(one, at, calls)}
        seen = {trait for call in calls for trait in call if trait[0] not in left_out}
        for at in sorted({at for at, _ in seen}):
            its = {like for number, like in seen if number == at}
            if its == {"nothing", "many"} or (at == -1 and len(its) < 3):
                found.append(f"{where}argument {at}: {' and '.join(sorted(its))} alone")
        for one, two in combinations(sorted(seen), 2):
            if one[0] != two[0] and not any({one, two} <= call for call in calls):
                found.append(f"{where}never {one[0]} {one[1]} with {two[0]} {two[1]}")
    return found


def _one_for_each_rank(case: Case, at: int) -> bool:
    """Whether an argument is a list with an entry for each rank."""
    values = _values(case, at) if at < len(arguments_of(case)) else ()
    return case.ranks is not None and all(
        isinstance(each, (list, tuple)) and len(each) == case.ranks for each in values
    )


def _are_tied(one: int, two: int, calls: Sequence[set[Trait]]) -> bool:
    """Whether two arguments are alike in every call, as lists of the same length."""
    return all({like for at, like in call if at == one} == {like for at, like in call if at == two} for call in calls)
