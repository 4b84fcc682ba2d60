"""How chapter 16 calls answers: a page table and a prefix cache operation by operation, a server iteration by
iteration, and a sampler so often that its distribution shows."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from course_chapters.ch16.planned import serve_by_plan
from course_grader.exercises.probes import rows, unless_open
from course_grader.exercises.values import is_number, is_row
from course_grader.records import Answer, Case

Table = Sequence[Sequence[float]]  # the probabilities of the next token by the token before
Operations = Sequence[Sequence[Any]]  # each with the name of a method and its arguments
State = tuple[list[object], list[int], list[int], dict[str, list[int]]]  # holds, users, free, tables of requests
FULL = "full"  # what an operation is said to return that raises MemoryError


def plain(value: object) -> object:
    """The same with lists for tuples, Python's numbers for NumPy's, and whole floats as ints."""
    if is_row(value):
        return [plain(each) for each in value]
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    return int(value) if type(value) is float and is_number(value) and value == int(value) else value


def _whole(value: object) -> bool:
    return type(value) is int


# --- page table


def paged(answer: Answer, case: Case, comm: object = None) -> object:
    """What a page table says after each operation: [what was returned, the tables of live requests, free pages].

    `case.args = (pages, size, operations)`, each operation (name of the method, arguments …). With a 2 after these, a
    second table goes through the same operations, each time before the first one: what one table does must not change
    another.
    """
    pages, size, operations, *count = case.args
    tables = [answer(pages, size) for _ in range(*count or (1,))]
    return [told[-1] for told in zip(*(_operated(table, operations) for table in tables), strict=True)]


def _operated(table: Any, operations: Operations) -> Iterator[list[object]]:
    live: list[str] = []
    for name, *given in operations:
        if name != "start" and given[0] not in live:
            yield ["skipped", {}, plain(table.unused())]  # it was refused before
            continue
        try:
            said = plain(getattr(table, name)(*given))
            said = said if name in ("append", "fork") else None  # nothing was asked of the others
            said = [said] if type(said) is str else said  # returned, so it is no refusal
            live += [given[-1 if name == "fork" else 0]] if name in ("start", "fork") else []
            live = [each for each in live if name != "free" or each != given[0]]
        except MemoryError:
            said = FULL
        yield [said, {each: plain(table.table(each)) for each in live}, plain(table.unused())]


# --- prefix cache


def cached(answer: Answer, case: Case, comm: object = None) -> object:
    """What a prefix cache returns for each operation; `case.args = (pages, size, operations)`, with a 2 after these as
    in `paged`."""
    pages, size, operations, *count = case.args
    caches = [answer(pages, size) for _ in range(*count or (1,))]
    told: list[object] = []
    refused: set[object] = set()
    for name, *given in operations:
        if name == "release" and given[0] in refused:
            told.append("released")
            continue
        said = [plain(getattr(cache, name)(*copy.deepcopy(given))) for cache in caches][-1]
        told.append(said if name == "admit" else "released")
        refused = refused | {given[0]} if name == "admit" and said is None else refused - {given[0]}
    return told


# --- pool of pages


class Pool:
    """The pool of `repair-pages`. Page numbers in `free` are in the order in which they will be taken."""

    def __init__(self, holds: Sequence[object], users: Sequence[int], free: Sequence[int]) -> None:
        self.holds = list(holds)  # the prefix whose last tokens a page holds, or None
        self.users, self.free = list(users), list(free)

    def take(self) -> int:
        """The page that comes first in `free`, for one new user. What it held is forgotten."""
        page = self.free.pop(0)
        self.holds[page] = None
        self.users[page] = 1
        return page

    def touch(self, page: int) -> None:
        """One more user of a page; if it was free, it leaves `free`."""
        if page in self.free:
            self.free.remove(page)
        self.users[page] += 1


def repaired(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """What a pool holds after each operation: [what was returned, free pages, users of each page].

    `case.args = (index of the function that the case is about, (holds, users, free, tables), operations)`; an operation
    is ("allocate", request, prompt as a tuple of page contents) or ("release", request).
    """
    index, state, operations = case.args
    return unless_open(index, lambda: pooled(answers, state, operations))


def pooled(answers: Sequence[Answer], state: State, operations: Operations) -> object:
    """The same for a start state; hits are found as a server does, the longest prefix of which every page is held."""
    allocate, release = answers
    holds, users, free, tables = copy.deepcopy(state)
    pool, told = Pool(holds, users, free), []
    for name, request, *more in operations:
        said = None
        if name == "release":
            release(pool, list(tables.pop(request, [])))
        else:
            prefixes = [more[0][: end + 1] for end in range(len(more[0]))]
            hits: list[int] = []
            while len(hits) < len(prefixes) and prefixes[len(hits)] in pool.holds:
                hits.append(pool.holds.index(prefixes[len(hits)]))
            said = allocate(pool, list(hits), len(prefixes) - len(hits))
            if _is_table(plain(said), len(prefixes), len(pool.users)):
                tables[request] = said
                for page, prefix in zip(said, prefixes, strict=True):
                    pool.holds[page] = prefix
        told.append([said, plain(list(pool.free)), plain(list(pool.users))])
    return plain(told)  # copied in the end: later calls must leave a table as it is


def _is_table(said: object, length: int, pages: int) -> bool:
    return type(said) is list and len(said) == length and all(_whole(page) and 0 <= page < pages for page in said)


# --- iterations of a server


def planned(answer: Answer, case: Case, comm: object = None) -> object:
    """Plans of an answer: for each state of `case.args = ("states", states)`, or for each iteration of ("serve",
    workload)."""
    kind, given = case.args

    def plan(*state: object) -> object:
        said = answer(*state)  # of the runner's own copy: the caller sees what the answer changes
        if type(said) not in (list, tuple) or len(said) != 2 or type(said[0]) is not dict:
            return said
        return [{name: plain(count) for name, count in said[0].items()}, plain(said[1])]

    return [plan(*state) for state in given] if kind == "states" else serve_by_plan(plan, *given)


# --- speculative sampling


def speculated(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """How often each output of `verify` came, or what `tokens_per_step` returns for each row.

    A row for `verify` is (target, draft, first token, guesses, times, seed): target and draft are tables with the
    probabilities of the next token by the token before. A draft of None proposes the token with the highest index that
    the target allows.
    """
    if case.args[0] == 1:
        return rows(answers, case)
    return [_counted(answers[0], *row) for row in case.args[1]]


def proposal(target: Table, draft: Table | None, token: int) -> list[float]:
    """The probabilities with which a token is proposed after `token`."""
    if draft is not None:
        return list(draft[token])
    last = max(at for at, p in enumerate(target[token]) if p > 0)
    return [float(at == last) for at in range(len(target))]


TWICE = 60  # calls of each row that are made once more, with `rng` in the same state


class OtherChance(Exception):
    """An answer draws from another source than the generator that it is given."""


def _counted(
    verify: Answer, target: Table, draft: Table | None, first: int, guesses: int, times: int, seed: int
) -> object:
    rng, counts = random.Random(seed), Counter[tuple[int, ...]]()
    tokens = range(len(target))
    sums = [list(accumulate(proposal(target, draft, token))) for token in tokens]
    for at in range(times):
        path = [first]
        for _ in range(guesses):
            path += rng.choices(tokens, cum_weights=sums[path[-1]])
        drafts = None if draft is None else [list(draft[token]) for token in path[:-1]]
        lists = [list(target[token]) for token in path], drafts, list(path[1:])
        twin = copy.copy(rng) if at < TWICE else None
        again = plain(verify(*copy.deepcopy(lists), twin)) if twin else None
        said = plain(verify(*lists, rng))
        if type(said) is not list or not all(_whole(token) for token in said):
            return said
        if twin and said != again:
            raise OtherChance("with `rng` in the same state the output differs; take all random numbers from `rng`")
        counts[tuple(said)] += 1
    return [[list(said), count] for said, count in sorted(counts.items())]
