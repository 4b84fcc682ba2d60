import re
from collections.abc import Mapping, Sequence

from course_grader.exercises.values import same_lists
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, hidden, judged, shown
from course_grader.judging.cases import Maker
from course_grader.judging.replays import first_apart

Operation = tuple[object, ...]


right = Worked("prefix-cache")


def _prompt(rng: Random, count: int) -> list[int]:
    return [rng.randrange(1000) for _ in range(count)]


def _traffic(rng: Random, pages: int, size: int, count: int) -> list[Operation]:
    """Requests that come and go at random, most with one of three beginnings."""
    cache = right(pages, size)
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
    """Operations from words: p=abc:7@t admits p of tenant t with the first 7 tokens of the pages a, b, c; -p releases
    it."""
    found: list[Operation] = []
    for name, prompt, cut, tenant, gone in re.findall(r"(\w+)=([a-z]+)(?::(\d+))?(?:@(\w+))?|-(\w+)", script):
        tokens = [token for letter in prompt for token in letters[letter]][: int(cut) if cut else None]
        found.append(("release", gone) if gone else ("admit", name, tokens, tenant or "t"))
    return found


def _cases(params: Params, rng: Random) -> list[Case]:
    def case(make: Maker, name: str, share: str, pages: int, size: int, script: str) -> Case:
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
    drawn = _traffic(rng, 14, s, 240)
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


def _fault(case: Case, got: Sequence[object]) -> Fault | None:
    want, told = right.value(case), list(got)
    if same_lists(told, want):
        return None
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
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""Keys and values of a token depend on all tokens before it, so the key of a page must, too. A chain of hashes
does that in constant time a page. The last token is computed because its logits choose the next one. Evicting the end
of a prompt first keeps every cached page reachable from the start of its prompt.""",
    pytorch="vLLM's automatic prefix caching has these rules, with the tenant as `cache_salt`; SGLang keeps the same "
    "in a radix tree.",
)

ANSWERS = r'''import hashlib
from collections import OrderedDict
from itertools import takewhile
# %% right: worked
sharing = params("prefix-cache").sharing  # leave as is: "all" requests share pages, or those of one "tenant"


class PrefixCache:
    """Pages of earlier prompts."""

    def __init__(self, pages: int, size: int) -> None:
        ### BEGIN SOLUTION
        self.size, self.empty = size, pages
        self.users, self.unused = {}, OrderedDict()  # of cached pages, by key; unused ones in the order of release
        self.requests = {}  # keys of the cached pages that it uses, and the number of its other pages

    def keys(self, tokens, tenant):
        key, keys = tenant if sharing == "tenant" else "", []
        for end in range(self.size, len(tokens) + 1, self.size):
            text = f"{key} {tokens[end - self.size : end]}"
            key = hashlib.sha256(text.encode()).hexdigest()
            keys.append(key)
        return keys
        ### END SOLUTION

    def admit(self, request: str, tokens: list[int], tenant: str) -> int | None:
        """Pages for a request; returns the number of tokens that were cached, or None if it does not fit."""
        ### BEGIN SOLUTION
        keys = self.keys(tokens, tenant)
        hits = list(takewhile(self.users.__contains__, keys[: (len(tokens) - 1) // self.size]))
        fresh = math.ceil(len(tokens) / self.size) - len(hits)
        if fresh > self.empty + len(self.unused) - sum(key in self.unused for key in hits):
            return None
        for key in hits:
            self.users[key] += 1
            self.unused.pop(key, None)
        evicted = max(0, fresh - self.empty)
        self.empty -= fresh - evicted
        for _ in range(evicted):
            del self.users[self.unused.popitem(last=False)[0]]
        new = [key for key in keys[len(hits) :] if key not in self.users]
        self.users.update(dict.fromkeys(new, 1))
        self.requests[request] = (hits + new, fresh - len(new))
        return len(hits) * self.size
        ### END SOLUTION

    def release(self, request: str) -> None:
        ### BEGIN SOLUTION
        keys, others = self.requests.pop(request)
        self.empty += others
        for key in reversed(keys):
            self.users[key] -= 1
            if self.users[key] == 0:
                self.unused[key] = True
        ### END SOLUTION
# %% right: prefixes with the time of their release  from: worked
class PrefixCache:
    def __init__(self, pages, size):
        self.pages, self.size, self.clock, self.released, self.tables = pages, size, 0, {}, {}

    def admit(self, request, tokens, tenant):
        whose = tenant if sharing == "tenant" else None
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
# %% wrong: not chained => values
# > a page was shared whose tokens are the same, but not the tokens before it.
# ~ text = f"{key} {tokens ==> text = f"{tenant if sharing == 'tenant' else ''} {tokens
# %% wrong: nothing computed => values
# > the last token of a prompt is always computed: its output is needed.
# ~ keys[: (len(tokens) - 1) // self.size] ==> keys
# %% wrong: beginning first => generality
# > the beginning of a prompt was evicted before its end.
# ~ reversed(keys) ==> keys
# %% wrong: forgets => values
# > the pages of a released request stay cached.
# -                 self.unused[key] = True
# +                 del self.users[key]
# +                 self.empty += 1
# %% wrong: cached first => generality
# > a cached page was evicted although a free page held nothing cached.
# ~ max(0, fresh - self.empty) ==> min(fresh, len(self.unused))
# %% wrong: tenants apart => values tenants-apart unless sharing=tenant
# > pages are shared among tenants here.
# ~ tenant if sharing == "tenant" else "" ==> tenant
# %% wrong: the public form => values public-form unless sharing=all
# > this solves the public form of the exercise: here tenants do not share pages.
# ~ tenant if sharing == "tenant" else "" ==> ""
# %% wrong: pages in use are given up => generality other-hits
# -             self.users[key] += 1
# %% wrong: hits count as free => generality
# > cached pages that the request uses itself were counted as free for its other pages.
# ~ - sum(key in self.unused for key in hits): ==> :
# ~ range(evicted): ==> range(min(evicted, len(self.unused))):
# %% wrong: a refusal keeps its hits => generality
# > a refused request has taken the pages that it hits, and never releases them.
# -         if fresh > self.empty + len(self.unused) - sum(key in self.unused for key in hits):
# -             return None
#               self.unused.pop(key, None)
# +         if fresh > self.empty + len(self.unused):
# +             return None
# %% wrong: the order of admission => generality
# > the page that was cached first was evicted, although it has been used again since.
# -             del self.users[self.unused.popitem(last=False)[0]]
# +             key = next(each for each in self.users if each in self.unused)
# +             del self.users[key], self.unused[key]
# %% wrong: a page is cached twice => generality
# > a page whose tokens are cached already was cached a second time.
# ~ [key for key in keys[len(hits) :] if key not in self.users] ==> keys[len(hits) :]
# %% wrong: a refusal makes the hits young => generality
# > a refused request counts as a use: the pages it would have hit are evicted later than they should be.
#           fresh = math.ceil(len(tokens) / self.size) - len(hits)
# +         [self.unused.move_to_end(key) for key in hits if key in self.unused]
# %% wrong: the tokens' digits as a key => values other-hits
# ~ {tokens[end - self.size : end]}" ==> {''.join(map(str, tokens[end - self.size : end]))}"
# %% wrong: tokens are kept in 16 bits => values ~
# ~ {tokens[end - self.size : end]}" ==> {[token % 2**16 for token in tokens[end - self.size : end]]}"
# %% wrong: prompts by their sums => values other-hits
# ~ text = f"{key} {tokens[end - self.size : end]}" ==> text = f"{end} {sum(tokens[:end])} {tokens[end - 1]}"
'''
