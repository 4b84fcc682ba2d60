from typing import Any

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.values import same_lists
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, hidden, judged, shown
from course_grader.judging.replays import first_apart

right = Worked("repair-stale-cache")
PARTS = ("version", "weights", "cache", "users", "free")


def _cases(params: Params, rng: Random) -> list[Case]:
    pages = params["pages"]

    def case(make: Any, name: str, share: str, index: int, script: str, count: int = pages) -> Case:
        """A case from words: a=xyz starts request a, a+ fills its next page, -a ends it, 3! is an update to version
        3."""
        steps: list[tuple[Any, ...]] = []
        for word in script.split():
            if word.endswith("!"):
                steps.append(("update", int(word[:-1])))
            elif word.endswith("+"):
                steps.append(("fill", word[:-1]))
            elif word.startswith("-"):
                steps.append(("end", word[1:]))
            else:
                steps.append(("start", *word.split("=")))
        return make(name, share, index, count, steps)

    drawn, names, version = "", [f"r{at}" for at in range(5)], 0
    for _ in range(70):
        name = rng.choice(names)
        kind = rng.random()
        if kind < 0.15:
            version += rng.choice((-1, 1, 1, 2))
            drawn += f" {max(version, 0)}!"
        else:
            drawn += f" {name}+" if kind < 0.7 else f" -{name} {name}={rng.choice(('abc', 'abd', 'kl', 'abcde'))}"
    begun = " ".join(f"{name}={prompt}" for name, prompt in zip(names, ("abc", "abd", "kl", "abcde", "k"), strict=True))
    return [
        case(shown, "an idle cache at an update", "values:update", 0, "a=xy a+ a+ -a 1! b=xy b+ b+"),
        case(shown, "a request runs across the update", "values:publish", 1, "a=xyz a+ 1! a+ b=xyz"),
        case(hidden, "two idle prompts, one in use", "values:update", 0, "a=pq a+ a+ -a b=uv b+ c=pr c+ 1! -c -b d=uv"),
        case(hidden, "a request that began before it", "values:publish", 1, "a=kl b=kl a+ 2! b+ c=kl c+ a+ -a -b d=kl"),
        case(hidden, "late updates", "generality:late", 0, "2! a=xy a+ 1! a+ 2! b=xy 3! c=xy -a -b -c 3!"),
        case(hidden, "an update before anything", "generality:late", 0, "1! 1! a=q a+ 0! -a b=q"),
        case(hidden, "two fill the same page", "generality:same", 1, "a=xy b=xy a+ b+ a+ b+ -b -a c=xy 1! d=xy d+"),
        case(hidden, "two updates", "generality:same", 1, "a=abcd a+ 1! a+ b=ab b+ 2! b+ a+ c=ab c+ -a -b -c"),
        case(hidden, "70 operations", "generality:same", 1, begun + drawn, 16),
        case(
            hidden,
            "all pages idle, then needed",
            "generality:late",
            0,
            "a=abcd a+ a+ a+ a+ -a 1! b=wxyz b+ b+ b+ b+",
            4,
        ),
    ]


def _fault(case: Case, got: Any) -> Fault | None:
    if type(got) is str and got == NOT_ANSWERED:
        return "not-answered", "this function is not answered yet."
    want = right.value(case)
    if same_lists(got, want):
        return None
    if type(got) is not list or [type(each) is list and len(each) for each in got] != [len(PARTS)] * len(want):
        return "wrong-shape", f"the server after each operation is expected; got {describe(got)}."
    at = first_apart(got, want)
    what, *given = case.args[2][at]
    told = f"operation {at + 1}, {' '.join([what, *map(str, given)])}: "
    part = next(part for part, mine, due in zip(PARTS, got[at], want[at], strict=True) if not same_lists([mine], [due]))
    return f"wrong-{part}", f"{told}`server.{part}` is not right."


JUDGING = Judging(
    shares="values:update 0.3, values:publish 0.25, generality:late 0.2, generality:same 0.25",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""A prefix cache is keyed by tokens, and its keys and values also depend on the weights. So an update has to
empty it, and unused pages must return to the pool. A request that began before the update holds keys and
values of both versions; its pages are never entered, although it may finish with them.""",
    pytorch="vLLM has `reset_prefix_cache` for this, and SGLang flushes its radix cache with the update.",
)

ANSWERS = r'''# %% right: worked
def update_weights(server, weights, version: int) -> None:
    """Takes newer weights; no page of other weights can be found from then on."""
    if version <= server.version:
        return
    server.weights, server.version = weights, version
    server.free += [page for page in server.cache.values() if server.users[page] == 0]
    server.cache.clear()


def publish(server, request, beginning: str, page: int) -> None:
    """Enters a page that a request has filled, if it is of the current weights."""
    if request.version == server.version:
        server.cache.setdefault(beginning, page)
# %% right: page by page
def update_weights(server, weights, version):
    if server.version < version:
        server.weights = weights
        server.version = version
        for beginning in list(server.cache):
            page = server.cache.pop(beginning)
            if not server.users[page]:
                server.free.append(page)


def publish(server, request, beginning, page):
    if beginning not in server.cache and request.version >= server.version:
        server.cache[beginning] = page
# %% wrong: as given => values
# > the cache still holds pages that older weights have filled.
def update_weights(server, weights, version):
    server.weights = weights
    server.version = version


def publish(server, request, beginning, page):
    server.cache[beginning] = page
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
# ~ free += ==> free[:0] =
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
# %% wrong: left as it is => not-answered
# ~ if version <= server.version: ==> raise NotImplementedError
# -         return
'''
