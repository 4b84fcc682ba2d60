import random
from typing import TypedDict

from course_grader.exercises.values import same_lists
from course_grader.judging import Fault, Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.mistakes import Wrong
from course_grader.judging.oracles import oracle
from course_grader.judging.per_row import rows_fault
from course_grader.judging.random_inputs import generality, plain
from course_grader.records import Case, Outcome

right = Worked("repair-stale-cache")
PARTS = ("version", "weights", "cache", "users", "free")
BEGINNINGS = ("a", "ab", "abc", "x", "xy", "k", "kl", "klm", "q", "qr", "qrs", "u")


class Server(TypedDict):
    """The fields of a server."""

    version: int
    weights: str
    cache: dict[str, int]
    users: list[int]
    free: list[int]


def _server(rng: random.Random, pages: int, version: int) -> Server:
    """A server with cached pages, some of them in use, and with one page in use that is not in the cache."""
    order = rng.sample(range(pages), pages)
    cached = order[: rng.randint(3, pages - 3)]
    users = [0] * pages
    for place, page in enumerate(cached):
        users[page] = (0, 1, 0)[place] if place < 3 else rng.randrange(3)
    users[order[-1]] = 1
    cache = dict(zip(rng.sample(BEGINNINGS, len(cached)), cached, strict=True))
    free = order[len(cached) : -1]
    return {"version": version, "weights": f"w{version}", "cache": cache, "users": users, "free": free}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def publishing(began: int, known: bool, pages: int = params["pages"]) -> tuple[object, ...]:
        """A request that began so many versions ago publishes its page; `known`: the cache has its beginning."""
        server = _server(rng, pages, 5)
        own = next(page for page, users in enumerate(server["users"]) if users and page not in server["cache"].values())
        return server, 5 - began, rng.choice([key for key in BEGINNINGS if (key in server["cache"]) == known]), own

    def updates(*versions: int, pages: int = params["pages"]) -> list[tuple[object, ...]]:
        return [(_server(rng, pages, 4), version) for version in versions]

    both = [publishing(1, False), publishing(0, False)]
    empty = {"version": 0, "weights": "w0", "cache": {}, "users": [0, 0, 0], "free": [2, 0, 1]}
    return [
        shown("new weights", "values:update", 0, updates(5)),
        shown("requests that began before and after", "values:publish", 1, both),
        plain("update", 0, "other servers", updates(5, 6, 5, 9, pages=14)),
        plain("publish", 1, "other requests", [publishing(began, False, 9) for began in (0, 2, 1, 0)]),
        generality("late", 0, "late updates, and a first one", [*updates(3, 4, 0, 4), (empty, 1), (empty, 0)]),
        generality("same", 1, "the cache has the beginning", [publishing(began, True) for began in (0, 1, 0, 3)]),
    ]


def _words(index: int, fields: dict[str, object], *given: object) -> str:
    call = ("an update to version {}", "a request of version {} publishes {!r}, page {}")[index].format(*given)
    return f"{call}, with {', '.join(f'{name} {value}' for name, value in fields.items() if name != 'weights')}"


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    if fault := rows_fault(case, outcome.value, len(PARTS)):
        return fault
    for row, got, want in zip(case.args[1], outcome.value, right.value(case), strict=True):
        for part, mine, due in zip(PARTS, got, want, strict=True):
            if not same_lists([mine], [due]):
                lead = f"{_words(case.args[0], *row)}: "
                return Wrong(f"wrong-{part}", f"{lead}`server.{part}` is not right.", lead)
    return None


JUDGING = Judging(
    shares="values:update 0.3, values:publish 0.25, generality:late 0.2, generality:same 0.25",
    cases=_cases,
    verdicts=oracle(_fault),
    why="""A prefix cache is keyed by tokens, and its keys and values also depend on the weights. So an update has to
empty it, and unused pages must return to the pool. A request that began before the update holds keys and
values of both versions; its pages are never entered, although it may finish with them.""",
    pytorch="vLLM has `reset_prefix_cache` for this, and SGLang flushes its radix cache with the update.",
)

ANSWERS = r'''# %% right: worked
def update_weights(server, weights, version: int) -> None:
    """Takes newer weights; no page of other weights can be found from then on."""
    ### BEGIN SOLUTION
    if version <= server.version:
        return
    server.weights, server.version = weights, version
    server.free += [page for page in server.cache.values() if server.users[page] == 0]
    server.cache.clear()
    ### END SOLUTION


def publish(server, request, beginning: str, page: int) -> None:
    """Enters a page that a request has filled, if it is of the current weights."""
    ### BEGIN SOLUTION
    if request.version == server.version:
        server.cache.setdefault(beginning, page)
    ### END SOLUTION

# %% right: in other forms
# ~ if version <= server.version: ==> if not server.version < version:
# ~ server.free += [page for ==> server.free = server.free + [page for
# ~ server.cache.clear() ==> server.cache = {}
# ~ request.version == server.version: ==> beginning not in server.cache and request.version >= server.version:
# ~ server.cache.setdefault(beginning, page) ==> server.cache[beginning] = page
# %% wrong: as given => values
# > the cache still holds pages that older weights have filled.
# -     if version <= server.version:
# -         return
#       server.weights, server.version = weights, version
# -     server.free += [page for page in server.cache.values() if server.users[page] == 0]
# -     server.cache.clear()
# ~ if request.version == server.version: ==> if True:
# ~ server.cache.setdefault(beginning, page) ==> server.cache[beginning] = page
# %% wrong: the pages are lost => values
# > unused pages left the cache and are not free: no request can use them again.
# -     server.free += [page for page in server.cache.values() if server.users[page] == 0]
# %% wrong: all pages become free => values
# > a page that a running request uses is free now: the next request overwrites it.
# ~ server.cache.values() if server.users[page] == 0] ==> server.cache.values()]
# %% wrong: only idle pages leave the cache => values
# > a page that a running request uses can still be found, with keys and values of the old weights.
# ~ server.cache.clear() ==> server.cache = {key: page for key, page in server.cache.items() if server.users[page]}
# %% wrong: idle pages come first => values
# > freed pages come after those that were free before.
# ~ server.free += [page for ==> server.free[:0] = [page for
# %% wrong: late updates count => generality
# > an older version arrived late and replaced the newer one.
# -     if version <= server.version:
# -         return
# %% wrong: the same version again => generality
# > an update to the version that the server has changes nothing, and the cache stays.
# ~ version <= server.version ==> version < server.version
# %% wrong: the versions must follow each other => values
# > a version may be skipped: take every newer one.
# ~ version <= server.version ==> version != server.version + 1
# %% wrong: all requests publish => values
# > a request that began with older weights entered a page.
# ~ if request.version == server.version: ==> if True:
# %% wrong: nobody publishes => values
# > a page of the current weights was not entered.
# ~ if request.version == server.version: ==> if False:
# %% wrong: the newer page replaces => generality
# > the cache had a page for this beginning; the new one took its place.
# ~ server.cache.setdefault(beginning, page) ==> server.cache[beginning] = page
# %% wrong: the old weights stay => values
# > the server still has its old weights.
# ~ server.weights, server.version = weights, version ==> server.version = version
'''
