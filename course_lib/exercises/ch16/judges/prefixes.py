"""Judges of chapter 16's prefix cache, and of the pool that loses its own hits."""

import random
import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any

from course_lib.exercises.ch16.probes import Pool, pooled
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case

Operation = tuple[Any, ...]

# --- prefix cache


class Cache:
    """The prefix cache of the card; the keywords are known mistakes."""

    def __init__(
        self,
        pages: int,
        size: int,
        sharing: str = "all",
        *,
        chained: bool = True,  # whether a page's key depends on the tokens before it
        last: bool = True,  # whether the last token is always computed
        tail: bool = True,  # whether the end of a prompt is given up before its beginning
        clears: bool = False,  # whether pages leave the cache when their request ends
    ) -> None:
        self.size, self.sharing = size, sharing
        self.chained, self.last, self.tail, self.clears = chained, last, tail, clears
        self.blank = pages  # pages that hold nothing cached and have no user
        self.users: dict[Any, int] = {}  # of cached pages, by key
        self.unused: list[Any] = []  # keys of cached pages without users, the first to be evicted first
        self.requests: dict[str, tuple[list[Any], int]] = {}  # its cached pages, and the number of its others

    def _keys(self, tokens: Sequence[int], tenant: str) -> list[Any]:
        whose = tenant if self.sharing == "tenant" else ""
        ends = range(self.size, len(tokens) + 1, self.size)
        return [(whose, tuple(tokens[0 if self.chained else end - self.size : end])) for end in ends]

    def admit(self, request: str, tokens: Sequence[int], tenant: str) -> int | None:
        keys = self._keys(tokens, tenant)
        hits = list(takewhile(self.users.__contains__, keys[: (len(tokens) - self.last) // self.size]))
        fresh = -(-len(tokens) // self.size) - len(hits)
        unused = [key for key in self.unused if key not in hits]
        if fresh > self.blank + len(unused):
            return None
        evicted = max(0, fresh - self.blank)
        self.blank -= fresh - evicted
        for key in unused[:evicted]:
            del self.users[key]
        self.unused = unused[evicted:]
        new = [key for key in keys[len(hits) :] if key not in self.users]
        for key in [*hits, *new]:
            self.users[key] = self.users.get(key, 0) + 1
        self.requests[request] = ([*hits, *new], fresh - len(new))
        return len(hits) * self.size

    def release(self, request: str) -> None:
        keys, others = self.requests.pop(request)
        self.blank += others
        for key in reversed(keys) if self.tail else keys:
            self.users[key] -= 1
            if self.users[key] == 0 and self.clears:
                del self.users[key]
                self.blank += 1
            elif self.users[key] == 0:
                self.unused.append(key)


def hits(args: tuple[Any, ...], sharing: str, **change: Any) -> list[Any]:
    """What a cache with these mistakes returns for each operation."""
    return list(_made(repr(args), sharing, tuple(change.items())))


@lru_cache(maxsize=256)
def _made(written: str, sharing: str, change: tuple[tuple[str, Any], ...]) -> list[Any]:
    """The same from arguments as text: a message needs it for each known mistake."""
    pages, size, operations = literal_eval(written)
    cache, told = Cache(pages, size, sharing, **dict(change)), list[Any]()
    for name, *given in operations:
        if name == "admit":
            told.append(cache.admit(*given))
        else:
            told.append("released")
            if given[0] in cache.requests:
                cache.release(*given)
    return told


_MISTAKES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "not-chained": ({"chained": False}, "a page was shared whose tokens are the same, but not the tokens before it."),
    "nothing-computed": ({"last": False}, "the last token of a prompt is always computed: its output is needed."),
    "beginning-first": ({"tail": False}, "the beginning of a prompt was given up before its end."),
    "forgets": ({"clears": True}, "the pages of a released request stay cached."),
}


def _prompt(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(1000) for _ in range(count)]


def _traffic(rng: random.Random, pages: int, size: int, count: int, sharing: str) -> list[Operation]:
    """Requests that come and go at random, most with one of three beginnings."""
    cache = Cache(pages, size, sharing)
    starts = [_prompt(rng, size * 4) for _ in range(3)]
    script: list[Operation] = []
    while len(script) < count:
        if cache.requests and (len(cache.requests) > 3 or rng.random() < 0.45):
            name = rng.choice(sorted(cache.requests))
            cache.release(name)
            script.append(("release", name))
            continue
        kept = rng.choice(starts)[: rng.randrange(4 * size + 1)]
        tokens = [*kept, *_prompt(rng, rng.randrange(2 * size))] or [7]
        given = (f"q{len(script)}", tokens, rng.choice("ab"))
        cache.admit(*given)
        script.append(("admit", *given))
    return script


def read(script: str, letters: Mapping[str, Sequence[int]]) -> list[Operation]:
    """Operations from words: p=abc:7@t admits p of tenant t with the first 7 tokens of the pages a, b, c; -p releases it."""
    found: list[Operation] = []
    for name, prompt, cut, tenant, gone in re.findall(r"(\w+)=([a-z]+)(?::(\d+))?(?:@(\w+))?|-(\w+)", script):
        tokens = [token for letter in prompt for token in letters[letter]][: int(cut) if cut else None]
        found.append(("release", gone) if gone else ("admit", name, tokens, tenant or "t"))
    return found


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def case(make: Any, name: str, share: str, pages: int, size: int, script: str) -> Case:
        letters = {letter: _prompt(rng, size) for letter in "abcdefghijklxyz"}
        return make(name, share, pages, size, read(script, letters))

    s = rng.choice((3, 4, 5))
    one, two, three = s + 1, 2 * s + 1, 3 * s + 1
    ends = f"p=ab q=ab r=abc:{two} u=ab:{2 * s - 1} v=ax:{two - 2} w=a:1 k=a l=ab:{one}"
    fill = f"p=abc q=xyz r=k:1 -p r=k u=abc -q v=xyz:{two} w=a"
    order = f"p=ab q=xy r=kl -q -p -r u=def -u v=abc:{two} -v w=xyz:{two}"
    young = f"p=ab:{one} -p q=xy:{one} -q r=ab:{one} -r u=klc -u v=ab:{one} -v w=xy:{one}"
    middle, unused = f"p=abc q=xbck r=ybk u=xbkl v=bc:{one}", f"p=abc -p q=xy r=abcd u=abcd:{three} v=abc"
    drawn = _traffic(rng, 14, s, 240, params["sharing"])
    return [
        case(shown, "the same prompt, and one that goes on", "values:hits", 12, 4, "x=ab y=ab -x z=abc:10"),
        case(shown, "another beginning", "values:hits", 12, 4, "x=abc:9 y=bca:9"),
        case(hidden, "one token more, one less, one other", "values:hits", 30, s, ends),
        case(hidden, "a page in the middle that is the same", "values:hits", 30, s, middle),
        case(hidden, "two tenants", "values:hits", 30, s, f"p=ab:{one}@m q=ab:{one}@n r=ab:{one}@m u=ab:{one}@n"),
        case(hidden, "full, and full of unused pages", "generality:eviction", 6, s, fill),
        case(hidden, "the oldest goes first, its end before its beginning", "generality:eviction", 6, s, order),
        case(hidden, "a page that is used again is young again", "generality:eviction", 4, s, young),
        case(hidden, "unused hits, and too few others", "generality:eviction", 5, s, unused),
        case(hidden, "the same page twice", "generality:eviction", 4, s, f"p=a q=a r=ab -q u=xy -p v=xy -r w=ab:{one}"),
        hidden("120 requests that come and go", "generality:long", 14, s, drawn),
    ]


def _fault(params: Params, case: Case, got: Any) -> Fault | None:
    sharing, told = params["sharing"], list(got)
    want = hits(case.args, sharing)
    if same_lists(told, want):
        return None
    public = hits(case.args, "all") if sharing != "all" else want
    if public != want and same_lists(told, public):
        return "public-form", "this solves the public form of the exercise: here tenants do not share pages."
    if sharing == "all" and same_lists(told, hits(case.args, "tenant")):
        return "tenants-apart", "pages are shared among tenants here."
    for name, (change, message) in _MISTAKES.items():
        other = hits(case.args, sharing, **change)
        if other != want and same_lists(told, other):
            return name, message
    if len(told) != len(want):
        return "wrong-shape", f"{len(case.args[2])} operations give as many results; got {len(told)}."
    at = next(at for at, pair in enumerate(zip(told, want, strict=True)) if not same_lists(*pair))
    request = case.args[2][at][1]
    if told[at] is None:
        return "refused", f"operation {at + 1}: request {request} was refused although enough pages were free."
    if want[at] is None:
        return "not-refused", f"operation {at + 1}: there are too few pages for request {request}."
    return "other-hits", f"operation {at + 1}: {describe(told[at])} is not the number of cached tokens of {request}."


# --- the pool that loses its hits


def allocate(
    pool: Pool, hits: Sequence[int], fresh: int, *, first: bool = True, test: str = "before", careful: bool = True
) -> list[int] | None:
    """The repaired function; without `first` hits are touched last, `test` says when the room is tested, `careful` counts hits as used."""
    idle = sum(pool.users[page] == 0 for page in hits) if careful else 0
    if test == "before" and fresh > len(pool.free) - idle:
        return None
    if first:
        for page in hits:
            pool.touch(page)
    if test == "after" and fresh > len(pool.free):
        return None
    new = [pool.take() for _ in range(fresh)]
    if not first:
        for page in hits:
            pool.touch(page)
    return [*hits, *new]


def release(pool: Pool, table: Sequence[int], *, tail: bool = True, ahead: bool = False) -> None:
    """The repaired function; without `tail` the beginning is given up first, `ahead` puts pages to the front of the list."""
    for page in reversed(table) if tail else table:
        pool.users[page] -= 1
        if pool.users[page] == 0:
            pool.free.insert(0, page) if ahead else pool.free.append(page)


_OWN = "a new page was taken from the hits: two places of the table have the same page, and what it held is gone."
_BUGS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], str]] = {
    "takes-its-hits": ({"first": False, "careful": False}, {}, _OWN),
    "beginning-first": ({}, {"tail": False}, "the last page of a prompt must be taken before its first."),
    "as-given": ({"first": False, "careful": False}, {"tail": False}, _OWN),
    "users-left": ({"test": "after"}, {}, "after a refusal the hits have one user too many."),
    "newest-first": ({}, {"ahead": True}, "pages released earlier are to be taken first."),
}


def _pool_run(args: tuple[Any, ...], how: Mapping[str, Any], back: Mapping[str, Any]) -> Any:
    def give(pool: Pool, hits: Sequence[int], fresh: int) -> Any:
        return allocate(pool, hits, fresh, **how)

    try:
        return pooled((give, lambda pool, table: release(pool, table, **back)), *args[1:])
    except IndexError:
        return None


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


def _pool_cases(params: Params, rng: random.Random) -> list[Case]:
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
    some, refused = "values:hits", "generality:refusals"
    return [
        case(shown, "a hit that is the next page to be taken", some, 0, first, "n=abc"),
        case(shown, "a request ends", "values:order", 1, state(pages, "u=abc"), "-u"),
        case(hidden, "all pages are cached ones", some, 0, cold, "n=abcd"),
        case(hidden, "hits of which some are in use", some, 0, used, "n=abcde m=abk"),
        case(hidden, "no hits, nothing but hits", some, 0, state(5, "", "abc"), "n=kl m=ab"),
        case(hidden, "one too few, because hits are free pages", refused, 0, cold, "n=abcde m=abcd"),
        case(hidden, "refused, with hits in use", refused, 0, used, "n=abcdefg m=abcdef o=q"),
        case(hidden, "shared pages, one request after the other", "values:order", 1, ending, "-v -w -u"),
        case(hidden, "60 operations", "generality:long", 1, state(more, "", "abcd"), drawn),
    ]


def _pool_fault(case: Case, got: Any) -> Fault | None:
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    want = _pool_run(case.args, {}, {})
    if same_lists(got, want):
        return None
    if type(got) is not list or len(got) != len(want):
        return "wrong-shape", f"the pool after each operation is expected; got {describe(got)}."
    for name, (how, giving, message) in _BUGS.items():
        other = _pool_run(case.args, how, giving)
        if other is not None and not same_lists(other, want) and same_lists(got, other):
            return name, message
    at = next(at for at, pair in enumerate(zip(got, want, strict=True)) if not same_lists(*pair))
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


PREFIXES = {
    "prefix-cache": Judging(
        shares="values:hits 0.4, generality:eviction 0.4, generality:long 0.2",
        cases=_cases,
        verdicts=lambda params, case, outcome: judged(case, _fault(params, case, outcome.value), named=True),
        why="""Keys and values of a token depend on all tokens before it, so the key of a page must, too. A chain of hashes does that in constant time a page. The
last token is computed because its logits choose the next one. Giving up the end of a prompt first keeps every cached page reachable from the start of its prompt.""",
        pytorch="vLLM's automatic prefix caching has these rules, with the tenant as `cache_salt`; SGLang keeps the same in a radix tree.",
    ),
    "repair-pages": Judging(
        shares="values:hits 0.3, values:order 0.2, generality:refusals 0.3, generality:long 0.2",
        cases=_pool_cases,
        verdicts=lambda params, case, outcome: judged(case, _pool_fault(case, outcome.value), named=True),
        why="""A cached page without users is in two roles: it can be hit, and it can be taken. Whatever reads the number of free pages must know which of
them are about to become hits. So count those first, decide, touch the hits, and take the new pages last. A refusal that comes after the touching
leaves users behind that nobody removes.""",
        pytorch="vLLM's `KVCacheManager.allocate_slots` does these steps in this order; its tests hold a case for each of the two bugs.",
    ),
}
