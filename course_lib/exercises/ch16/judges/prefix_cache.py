"""Judge of prefix-cache: a prefix cache."""

import random
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from course_lib.exercises.ch16.probes import cached
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.replays import Replay, first_apart
from course_lib.records import Case

Operation = tuple[Any, ...]


class Cache:
    """The prefix cache of the card, with one of `_MISTAKES` if it is named."""

    def __init__(self, pages: int, size: int, sharing: str = "all", mistake: str = "") -> None:
        self.size, self.sharing, self.mistake = size, sharing, mistake
        self.blank = pages  # pages that hold nothing cached and have no user
        self.users: dict[Any, int] = {}  # of cached pages, by key
        self.unused: list[Any] = []  # keys of cached pages without users, the first to be evicted first
        self.requests: dict[str, tuple[list[Any], int]] = {}  # its cached pages, and the number of its others

    def _keys(self, tokens: Sequence[int], tenant: str) -> list[Any]:
        whose = tenant if self.sharing == "tenant" else ""
        ends = range(self.size, len(tokens) + 1, self.size)
        return [(whose, tuple(tokens[end - self.size if self.mistake == "not-chained" else 0 : end])) for end in ends]

    def admit(self, request: str, tokens: Sequence[int], tenant: str) -> int | None:
        keys, most = self._keys(tokens, tenant), len(tokens) - (self.mistake != "nothing-computed")
        hits = list(takewhile(self.users.__contains__, keys[: most // self.size]))
        fresh = -(-len(tokens) // self.size) - len(hits)
        unused = [key for key in self.unused if key not in hits]
        if fresh > self.blank + len(unused):
            return None
        evicted = min(fresh, len(unused)) if self.mistake == "cached-first" else max(0, fresh - self.blank)
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
        for key in keys if self.mistake == "beginning-first" else reversed(keys):
            self.users[key] -= 1
            if self.users[key] == 0 and self.mistake == "forgets":
                del self.users[key]
                self.blank += 1
            elif self.users[key] == 0:
                self.unused.append(key)


def _run(args: tuple[Any, ...], sharing: str, mistake: str) -> Any:
    return cached(lambda pages, size: Cache(pages, size, sharing, mistake), Case(name="", args=args))


_MISTAKES: Mapping[str, str] = {
    "not-chained": "a page was shared whose tokens are the same, but not the tokens before it.",
    "nothing-computed": "the last token of a prompt is always computed: its output is needed.",
    "beginning-first": "the beginning of a prompt was given up before its end.",
    "forgets": "the pages of a released request stay cached.",
    "cached-first": "a cached page was given up although another page held nothing cached.",
}
_FORMS: Mapping[str, Fault] = {
    "all": ("public-form", "this solves the public form of the exercise: here tenants do not share pages."),
    "tenant": ("tenants-apart", "pages are shared among tenants here."),
}
HITS = Replay(_run, _MISTAKES, _FORMS)


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
        letters["z"] = [*letters["a"][1:], letters["a"][0]]  # the same tokens in another order
        letters["s"] = [*letters["a"][1::-1], *letters["a"][2:]]
        letters["m"] = [token + 2**20 for token in letters["a"]]
        letters |= {"n": [1, 23, *letters["a"][2:]], "o": [12, 3, *letters["a"][2:]]}  # the same digits
        return make(name, share, pages, size, read(script, letters))

    s = rng.choice((3, 4, 5))
    one, two, three = s + 1, 2 * s + 1, 3 * s + 1
    ends = f"p=ab q=ab r=abc:{two} u=ab:{2 * s - 1} v=ax:{two - 2} w=a:1 k=a l=ab:{one}"
    fill = f"p=abc q=xyz r=k:1 -p r=k u=abc -q v=xyz:{two} w=a"
    order = f"p=ab q=xy r=kl -q -p -r u=def -u v=abc:{two} -v w=xyz:{two}"
    young = f"p=ab:{one} -p o=ab:{one} -o q=xy:{one} -q r=ab:{one} -r u=klc -u v=ab:{one} -v w=xy:{one}"
    middle, unused = f"p=abc q=xbck r=ybk u=xbkl v=bc:{one}", f"p=abc -p q=xy r=abcd u=abcd:{three} v=abc"
    refused = f"p=ab:{one} -p q=xy:{one} -q r=abcde u=klc -u v=ab:{one} -v w=xy:{one}"
    drawn = _traffic(rng, 14, s, 240, params["sharing"])
    return [
        case(shown, "the same prompt, and one that goes on", "values:hits", 12, 4, "x=ab y=ab -x z=abc:10"),
        case(shown, "another beginning", "values:hits", 12, 4, "x=abc:9 y=bca:9"),
        case(hidden, "one token more, one less, one other", "values:hits", 30, s, ends),
        case(hidden, "a page in the middle that is the same", "values:hits", 30, s, middle),
        case(hidden, "the same tokens in another order", "values:hits", 30, s, "p=ab q=zb r=ba u=zba v=abz w=sb"),
        case(hidden, "tokens of a large vocabulary", "values:hits", 40, s, "p=ab q=mb r=am u=ab v=mb w=nb k=ob"),
        case(hidden, "pages of one token", "values:hits", 30, 1, "p=abcdefgh q=abcdefgh -p r=abcdefghi -q q=abcx p=a"),
        case(hidden, "two tenants", "values:hits", 30, s, f"p=ab:{one}@m q=ab:{one}@n r=ab:{one}@m u=ab:{one}@n"),
        case(hidden, "full, and full of unused pages", "generality:eviction", 6, s, fill),
        case(hidden, "the oldest goes first, its end before its beginning", "generality:eviction", 6, s, order),
        case(hidden, "a page that is used again is young again", "generality:eviction", 4, s, young),
        case(hidden, "unused hits, and too few others", "generality:eviction", 5, s, unused),
        case(hidden, "a refusal makes no page young", "generality:eviction", 4, s, refused),
        case(hidden, "the same page twice", "generality:eviction", 4, s, f"p=a q=a r=ab -q u=xy -p v=xy -r w=ab:{one}"),
        hidden("120 requests that come and go", "generality:long", 14, s, drawn),
        hidden("two caches at the same time", "generality:long", 14, s, drawn[:60], 2),
    ]


def _fault(params: Params, case: Case, got: Any) -> Fault | None:
    want, told = HITS.of(case.args, params["sharing"]), list(got)
    if same_lists(told, want):
        return None
    if fault := HITS.known(case.args, params["sharing"], told):
        return fault
    if len(told) != len(want):
        return "wrong-shape", f"{len(case.args[2])} operations give as many results; got {len(told)}."
    at = first_apart(told, want)
    request = case.args[2][at][1]
    if told[at] is None:
        return "refused", f"operation {at + 1}: request {request} was refused although enough pages were free."
    if want[at] is None:
        return "not-refused", f"operation {at + 1}: there are too few pages for request {request}."
    return "other-hits", f"operation {at + 1}: {describe(told[at])} is not the number of cached tokens of {request}."


JUDGING = Judging(
    shares="values:hits 0.4, generality:eviction 0.4, generality:long 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(params, case, outcome.value), named=True),
    why="""Keys and values of a token depend on all tokens before it, so the key of a page must, too. A chain of hashes does that in constant time a page. The
last token is computed because its logits choose the next one. Giving up the end of a prompt first keeps every cached page reachable from the start of its prompt.""",
    pytorch="vLLM's automatic prefix caching has these rules, with the tenant as `cache_salt`; SGLang keeps the same in a radix tree.",
)

ANSWERS = r"""import math
from collections import OrderedDict


# %% right: as written
class PrefixCache:
    def __init__(self, pages, size):
        self.size, self.empty = size, pages
        self.users, self.unused, self.requests = {}, OrderedDict(), {}

    def admit(self, request, tokens, tenant):
        ends = range(self.size, len(tokens) + 1, self.size)
        keys = [tuple(tokens[:end]) for end in ends]
        hits = []
        for key in keys[: (len(tokens) - 1) // self.size]:
            if key not in self.users:
                break
            hits.append(key)
        fresh = math.ceil(len(tokens) / self.size) - len(hits)
        if fresh > self.empty + len(self.unused) - sum(key in self.unused for key in hits):
            return None
        for key in hits:
            self.users[key] += 1
            self.unused.pop(key, None)
        for _ in range(fresh):
            if self.empty:
                self.empty -= 1
            else:
                key, _ = self.unused.popitem(last=False)
                del self.users[key]
        new = [key for key in keys if key not in self.users]
        for key in new:
            self.users[key] = 1
        self.requests[request] = hits + new, fresh - len(new)
        return len(hits) * self.size

    def release(self, request):
        keys, others = self.requests.pop(request)
        self.empty += others
        for key in reversed(keys):
            self.users[key] -= 1
            if self.users[key] == 0:
                self.unused[key] = None


# %% right: prefixes with the time of their release
from course_lib import params

SHARING = params("prefix-cache").sharing


class PrefixCache:
    def __init__(self, pages, size):
        self.pages, self.size, self.clock, self.released, self.tables = pages, size, 0, {}, {}

    def admit(self, request, tokens, tenant):
        whose = tenant if SHARING == "tenant" else None
        prefixes = [(whose, *tokens[:end]) for end in range(self.size, len(tokens) + 1, self.size)]
        hits = prefixes[: (len(tokens) - 1) // self.size]
        while not set(hits) <= self.released.keys():
            hits.pop()
        used = {*hits, *(prefix for mine, _ in self.tables.values() for prefix in mine)}
        unused = sorted(self.released.keys() - used, key=self.released.get)
        blank = self.pages - len(self.released) - sum(others for _, others in self.tables.values())
        fresh = -(-len(tokens) // self.size) - len(hits)
        if fresh > blank + len(unused):
            return None
        for prefix in unused[: max(0, fresh - blank)]:
            del self.released[prefix]
        new = [prefix for prefix in prefixes[len(hits) :] if prefix not in self.released]
        self.released |= dict.fromkeys(new)
        self.tables[request] = hits + new, fresh - len(new)
        return self.size * len(hits)

    def release(self, request):
        for prefix in self.tables.pop(request)[0][::-1]:
            self.clock += 1
            self.released[prefix] = self.clock


# %% wrong: the key of a page alone => values not-chained  from: as written
# ~ tokens[:end] ==> tokens[end - self.size : end]

# %% wrong: everything from the cache => values nothing-computed  from: as written
# ~ for key in keys[: (len(tokens) - 1) // self.size]: ==> for key in keys:

# %% wrong: the beginning goes first => generality beginning-first  from: as written
# ~ reversed(keys) ==> keys

# %% wrong: released pages are forgotten => values forgets  from: as written
# -                 self.unused[key] = None
# +                 del self.users[key]
# +                 self.empty += 1

# %% wrong: pages in use are given up => generality -  from: as written
# -             self.users[key] += 1

# %% wrong: hits count as free => generality -  from: as written
# ~ - sum(key in self.unused for key in hits): ==> :

# %% wrong: tenants share nothing => values tenants-apart unless sharing=tenant  from: as written
# ~ keys = [tuple(tokens[:end]) for end in ends] ==> keys = [(tenant, *tokens[:end]) for end in ends]

# %% wrong: the order of admission => generality -  from: as written
# ~ key, _ = self.unused.popitem(last=False) ==> key = next(each for each in self.users if each in self.unused)
# ~ del self.users[key] ==> del self.unused[key], self.users[key]

# %% wrong: a page is cached twice => generality -  from: as written
# ~ [key for key in keys if key not in self.users] ==> keys[len(hits) :]

# %% wrong: a refusal makes the hits young => generality -  from: as written
#           fresh = math.ceil(len(tokens) / self.size) - len(hits)
# +         for key in hits:
# +             if key in self.unused:
# +                 self.unused.move_to_end(key)

# %% wrong: cached pages go before empty ones => generality cached-first  from: as written
# ~ if self.empty: ==> if not self.unused:

# %% wrong: the tokens' digits as a key => values other-hits  from: as written
# ~ tuple(tokens[:end]) ==> "".join(map(str, tokens[:end]))

# %% wrong: left as it is => not-answered  from: as written
# ~ self.size, self.empty = size, pages ==> raise NotImplementedError

# %% wrong: tokens are kept in 16 bits => values ~  from: as written
# ~ tuple(tokens[:end]) for end ==> tuple(token % 2**16 for token in tokens[:end]) for end

# %% wrong: prompts by their sums => values -  from: as written
# ~ keys = [tuple(tokens[:end]) for end in ends] ==> keys = [(end, sum(tokens[:end]), tokens[end - 1]) for end in ends]
"""
