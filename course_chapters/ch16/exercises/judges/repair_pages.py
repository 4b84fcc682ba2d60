from collections.abc import Mapping, Sequence

from course_chapters.ch16.exercises.probes import State
from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.values import same_lists
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, hidden, judged, shown
from course_grader.judging.cases import Maker
from course_grader.judging.replays import first_apart

right = Worked("repair-pages")


def _state(rng: Random, pages: int, live: Mapping[str, str], cached: Sequence[str]) -> State:
    """A pool of `pages` where some prompts are in use and others only cached; a prompt is a string, a letter for each
    page."""
    numbers = list(range(pages))
    rng.shuffle(numbers)
    holds: list[object] = [None] * pages
    users, tables, free = [0] * pages, dict[str, list[int]](), list[int]()
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


def _cases(params: Params, rng: Random) -> list[Case]:
    pages, more = params["pages"], rng.choice((8, 9, 10))

    def case(make: Maker, name: str, share: str, index: int, state: object, script: str) -> Case:
        """A case from words: n=abc allocates for request n, -n releases it."""
        words = [each.partition("=") for each in script.split()]
        steps = [("allocate", name, tuple(prompt)) if sign else ("release", name[1:]) for name, sign, prompt in words]
        return make(name, share, index, state, steps)

    def state(count: int, live: str, *kept: str) -> tuple[object, ...]:
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


def _fault(case: Case, got: object) -> Fault | None:
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    want = right.value(case)
    if same_lists(got, want):
        return None
    if type(got) is not list or len(got) != len(want):
        return "wrong-shape", f"the pool after each operation is expected; got {describe(got)}."
    at = first_apart(got, want)
    lead, mine, due = f"operation {at + 1}, {case.args[2][at][0]}: ", got[at], want[at]
    if type(mine) is not list or len(mine) != 3:
        return "wrong-shape", f"{lead}{describe(mine)} is no state of a pool."
    if due[0] is None and mine[0] is not None:
        return "not-refused", f"{lead}there are too few pages: return None."
    if mine[0] is None and due[0] is not None:
        return "refused", f"{lead}None came back although enough pages were free."
    if not same_lists(mine[0], due[0]):
        return "wrong-table", f"{lead}the table is not the hits and then new pages in the order of `free`."
    if not same_lists(mine[2], due[2]):
        return "wrong-users", f"{lead}the users of the pages are not right."
    return "wrong-order", f"{lead}`free` holds other pages than it should, or has them in another order."


JUDGING = Judging(
    shares="values:hits 0.3, values:order 0.2, generality:refusals 0.3, generality:long 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""A cached page without users is in two roles: it can be hit, and it can be taken. Whatever reads the number of
free pages must know which of them are about to become hits. So count those first, decide, touch the hits, and take the
new pages last. A refusal that comes after the touching leaves users behind that nobody removes.""",
    pytorch="vLLM's `KVCacheManager.allocate_slots` does these steps in this order; its tests hold a case for each of "
    "the two bugs.",
)

ANSWERS = r'''# %% right: worked
def allocate(pool, hits: list[int], fresh: int) -> list[int] | None:
    """The hits and `fresh` new pages, or None if too few pages are free."""
    idle = sum(pool.users[page] == 0 for page in hits)  # free now, and not for new pages
    if fresh > len(pool.free) - idle:
        return None
    for page in hits:
        pool.touch(page)
    return hits + [pool.take() for _ in range(fresh)]


def release(pool, table: list[int]) -> None:
    """Gives the pages of a table back, so that the last one is taken first."""
    for page in reversed(table):
        pool.users[page] -= 1
        if pool.users[page] == 0:
            pool.free.append(page)
# %% right: the others are counted
def allocate(pool, hits, fresh):
    others = [page for page in pool.free if page not in hits]
    if len(others) < fresh:
        return None
    for page in hits:
        pool.touch(page)
    return (*hits, *(pool.take() for _ in range(fresh)))


def release(pool, table):
    for page in table:
        pool.users[page] -= 1
    pool.free += [page for page in table[::-1] if not pool.users[page]]
# %% wrong: as given => values  from: the card
# > a new page was taken from the hits: two places of the table have the same page, and what it held is gone.
# %% wrong: takes its hits => values  from: the card
# > a new page was taken from the hits: two places of the table have the same page, and what it held is gone.
# ~ in table ==> in reversed(table)
# %% wrong: users left => generality
# > after a refusal the hits have one user too many.
# -     idle = sum(pool.users[page] == 0 for page in hits)  # free now, and not for new pages
# -     if fresh > len(pool.free) - idle:
# -         return None
#           pool.touch(page)
# +     if fresh > len(pool.free):
# +         return None
# %% wrong: beginning first => values
# > the last page of a prompt must be taken before its first.
# ~ reversed(table) ==> table
# %% wrong: newest first => values
# > pages released earlier are to be taken first.
# ~ free.append(page) ==> free.insert(0, page)
# %% wrong: others lose their pages => values
# > a page that others still use was given up, too.
# ~ if pool.users[page] == 0: ==> if True:
# %% wrong: all users at once => values
# > a page that others use has lost all its users, not one.
# ~ pool.users[page] -= 1 ==> pool.users[page] = 0
# %% wrong: all hits count as free => values refused
# ~ > len(pool.free) - idle ==> > len(pool.free) - len(hits)
# %% wrong: no page is free, so nothing is given => generality refused
# ~ - idle: ==> - idle or not pool.free:
# %% wrong: nothing is refused => generality not-refused
# -     if fresh > len(pool.free) - idle:
# -         return None
# +     fresh = min(fresh, len(pool.free) - idle)
# %% wrong: new pages first => values new-pages-first
# > the new pages come before the hits; a table has its pages in the order of the prompt.
# ~ hits + [pool.take() for _ in range(fresh)] ==> [pool.take() for _ in range(fresh)] + hits
# %% wrong: a user less for each, and no page free => values not-freed
# > a page that lost its last user is not in `free`.
# ~ pool.free.append(page) ==> pass
# %% wrong: remembers how many hits are idle => generality refused
# ~ idle = sum(pool.users[page] == 0 for page in hits)
# ~~ ==> idle = allocate.__dict__.setdefault(str(hits), sum(pool.users[page] == 0 for page in hits))
# %% wrong: one list for all tables => values wrong-table
# -     return hits + [pool.take() for _ in range(fresh)]
# +     allocate.table = getattr(allocate, "table", [])
# +     allocate.table[:] = hits + [pool.take() for _ in range(fresh)]
# +     return allocate.table
'''
