"""Judge of repair-pages: the page that two tokens share."""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from course_lib.exercises.ch16.probes import Pool, pooled
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.replays import Replay, first_apart
from course_lib.records import Case


def allocate(pool: Pool, hits: Sequence[int], fresh: int, mistake: str = "") -> list[int] | None:
    """The repaired function, with one of `_MISTAKES` if it is named."""
    careless = mistake in ("takes-its-hits", "as-given")  # hits count as free pages, and are touched last
    idle = 0 if careless else sum(pool.users[page] == 0 for page in hits)
    if mistake != "users-left" and fresh > len(pool.free) - idle:
        return None
    new = [pool.take() for _ in range(fresh)] if careless else []
    for page in hits:
        pool.touch(page)
    if mistake == "users-left" and fresh > len(pool.free):
        return None
    return [*hits, *(new if careless else [pool.take() for _ in range(fresh)])]


def release(pool: Pool, table: Sequence[int], mistake: str = "") -> None:
    """The repaired function, with one of `_MISTAKES` if it is named."""
    for page in table if mistake in ("beginning-first", "as-given") else reversed(table):
        pool.users[page] -= 1
        if pool.users[page] == 0:
            pool.free.insert(0 if mistake == "newest-first" else len(pool.free), page)


_OWN = "a new page was taken from the hits: two places of the table have the same page, and what it held is gone."
_MISTAKES: Mapping[str, str] = {
    "takes-its-hits": _OWN,
    "beginning-first": "the last page of a prompt must be taken before its first.",
    "as-given": _OWN,
    "users-left": "after a refusal the hits have one user too many.",
    "newest-first": "pages released earlier are to be taken first.",
}


def _run(args: tuple[Any, ...], form: str, mistake: str) -> Any:
    answers = partial(allocate, mistake=mistake), partial(release, mistake=mistake)
    return pooled(answers, *args[1:])


POOLS = Replay(_run, _MISTAKES)


def _state(rng: random.Random, pages: int, live: Mapping[str, str], cached: Sequence[str]) -> tuple[Any, ...]:
    """A pool of `pages` where some prompts are in use and others only cached; a prompt is a string, a letter for each page."""
    numbers = list(range(pages))
    rng.shuffle(numbers)
    holds: list[Any] = [None] * pages
    users, tables, free = [0] * pages, {}, []
    place: dict[tuple[str, ...], int] = {}
    for request, prompt in [*live.items(), *((None, each) for each in cached)]:
        table = []
        for end in range(1, len(prompt) + 1):
            prefix = tuple(prompt[:end])
            if prefix not in place:
                place[prefix] = numbers.pop()
                holds[place[prefix]] = prefix
            table.append(place[prefix])
            users[place[prefix]] += request is not None
        if request is None:
            free += [page for page in reversed(table) if users[page] == 0 and page not in free]
        else:
            tables[request] = table
    return holds, users, [*numbers, *free], tables


def _cases(params: Params, rng: random.Random) -> list[Case]:
    pages, more = params["pages"], rng.choice((8, 9, 10))

    def case(make: Any, name: str, share: str, index: int, state: Any, script: str) -> Case:
        """A case from words: n=abc allocates for request n, -n releases it."""
        words = [each.partition("=") for each in script.split()]
        steps = [("allocate", name, tuple(prompt)) if sign else ("release", name[1:]) for name, sign, prompt in words]
        return make(name, share, index, state, steps)

    def state(count: int, live: str, *kept: str) -> tuple[Any, ...]:
        return _state(rng, count, dict(each.split("=") for each in live.split()), kept)

    live: list[str] = []
    drawn = ""
    for at in range(60):
        if live and (len(live) > 3 or rng.random() < 0.4):
            drawn += f" -{live.pop(rng.randrange(len(live)))}"
        else:
            drawn += f" n{at}={rng.choice(('abcd', 'abxy', 'kl', 'klm', 'q'))[: rng.randrange(1, 5)]}"
            live.append(f"n{at}")
    cold, used = state(4, "", "ab", "xy"), state(6, "u=ab", "abc", "xy")
    first, ending = state(pages, f"u={'wvts'[: pages - 4]}", "ab", "cd"), state(more, "u=abc v=abd w=k", "xy")
    deep = state(16, "u=abcdef v=abcdeg w=abc o=abx", "klmnop")
    some, refused = "values:hits", "generality:refusals"
    return [
        case(shown, "a hit that is the next page to be taken", some, 0, first, "n=abc"),
        case(shown, "a request ends", "values:order", 1, state(pages, "u=abc"), "-u"),
        case(hidden, "all pages are cached ones", some, 0, cold, "n=abcd"),
        case(hidden, "hits of which some are in use", some, 0, used, "n=abcde m=abk"),
        case(hidden, "no hits, nothing but hits", some, 0, state(5, "", "abc"), "n=kl m=ab"),
        case(hidden, "one too few, because hits are free pages", refused, 0, cold, "n=abcde m=abcd"),
        case(hidden, "refused, with hits in use", refused, 0, used, "n=abcdefg m=abcdef o=q"),
        case(hidden, "the same hits, idle and in use", refused, 0, state(5, "", "ab", "xy"), "n=abc m=abkl"),
        case(hidden, "shared pages, one request after the other", "values:order", 1, ending, "-v -w -u"),
        case(hidden, "nothing but hits, and no page is free", refused, 0, state(2, "u=ab"), "n=ab m=abc"),
        case(hidden, "long prompts", "generality:long", 1, deep, "m=klmnopqrs n=klmnopqr -u -v -w -o -n"),
        case(hidden, "60 operations", "generality:long", 1, state(more, "", "abcd"), drawn),
    ]


def _fault(case: Case, got: Any) -> Fault | None:
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    want = POOLS.of(case.args)
    if same_lists(got, want):
        return None
    if type(got) is not list or len(got) != len(want):
        return "wrong-shape", f"the pool after each operation is expected; got {describe(got)}."
    if fault := POOLS.known(case.args, "", got):
        return fault
    at = first_apart(got, want)
    lead, mine, right = f"operation {at + 1}, {case.args[2][at][0]}: ", got[at], want[at]
    if type(mine) is not list or len(mine) != 3:
        return "wrong-shape", f"{lead}{describe(mine)} is no state of a pool."
    if right[0] is None and mine[0] is not None:
        return "not-refused", f"{lead}there are too few pages: return None."
    if mine[0] is None and right[0] is not None:
        return "refused", f"{lead}None came back although enough pages were free."
    if not same_lists(mine[0], right[0]):
        return "wrong-table", f"{lead}the table is not the hits and then new pages in the order of `free`."
    if not same_lists(mine[2], right[2]):
        return "wrong-users", f"{lead}the users of the pages are not right."
    return "wrong-order", f"{lead}`free` holds other pages than it should, or has them in another order."


JUDGING = Judging(
    shares="values:hits 0.3, values:order 0.2, generality:refusals 0.3, generality:long 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""A cached page without users is in two roles: it can be hit, and it can be taken. Whatever reads the number of free pages must know which of
them are about to become hits. So count those first, decide, touch the hits, and take the new pages last. A refusal that comes after the touching
leaves users behind that nobody removes.""",
    pytorch="vLLM's `KVCacheManager.allocate_slots` does these steps in this order; its tests hold a case for each of the two bugs.",
)

ANSWERS = r"""# %% right: as written  from: the card
# -     if fresh > len(pool.free):
# +     idle = sum(pool.users[page] == 0 for page in hits)
# +     if fresh > len(pool.free) - idle:
# -     new = [pool.take() for _ in range(fresh)]
# ~ hits + new ==> hits + [pool.take() for _ in range(fresh)]
# ~ in table ==> in reversed(table)

# %% right: the others are counted
def allocate(pool, hits, fresh):
    others = [page for page in pool.free if page not in hits]
    if len(others) < fresh:
        return None
    new = others[:fresh]
    for page in hits:
        pool.touch(page)
    for page in new:
        assert pool.take() == page
    return tuple(hits) + tuple(new)


def release(pool, table):
    for page in table:
        pool.users[page] -= 1
    pool.free += [page for page in table[::-1] if not pool.users[page]]


# %% wrong: as given => values -  from: the card

# %% wrong: taken before the hits are touched => values takes-its-hits  from: the card
# ~ in table ==> in reversed(table)

# %% wrong: tested after the hits are touched => generality users-left  from: as written
# -     idle = sum(pool.users[page] == 0 for page in hits)
# -     if fresh > len(pool.free) - idle:
# -         return None
#           pool.touch(page)
# +     if fresh > len(pool.free):
# +         return None

# %% wrong: all hits count as free => values refused  from: as written
# ~ if fresh > len(pool.free) - idle: ==> if fresh > len(pool.free) - len(hits):

# %% wrong: the beginning goes first => values beginning-first  from: as written
# ~ reversed(table) ==> table

# %% wrong: to the front of the list => values newest-first  from: as written
# ~ free.append(page) ==> free.insert(0, page)

# %% wrong: nothing is refused => generality -  from: as written
# -     if fresh > len(pool.free) - idle:
# -         return None
# +     fresh = min(fresh, len(pool.free) - idle)

# %% wrong: new pages first => values wrong-table  from: as written
# ~ hits + [pool.take() for _ in range(fresh)] ==> [pool.take() for _ in range(fresh)] + hits

# %% wrong: a user less for each, and no page free => values -  from: as written
# ~ pool.free.append(page) ==> pass

# %% wrong: no page is free, so nothing is given => generality refused  from: as written
# ~ - idle: ==> - idle or not pool.free:

# %% wrong: left as it is => not-answered  from: as written
# ~ idle = sum(pool.users[page] == 0 for page in hits) ==> raise NotImplementedError

# %% wrong: remembers how many hits are idle => generality refused  from: as written
# - def allocate(pool, hits, fresh):
# + IDLE = {}
# + def allocate(pool, hits, fresh):
#       idle = sum(pool.users[page] == 0 for page in hits)
# +     idle = IDLE.setdefault(tuple(hits), idle)

# %% wrong: one list for all tables => values wrong-table  from: as written
# - def allocate(pool, hits, fresh):
# + TABLE = []
# + def allocate(pool, hits, fresh):
# -     return hits + [pool.take() for _ in range(fresh)]
# +     TABLE[:] = hits + [pool.take() for _ in range(fresh)]
# +     return TABLE
"""
