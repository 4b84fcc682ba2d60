from course_chapters.ch16.exercises.probes import cached
from course_grader.exercises import Anything, Card, ListOf, Maybe, Worth

SHARING = {
    "all": "Requests of all tenants share pages; `tenant` makes no difference.",
    "tenant": "Only requests of the same `tenant` share pages, so that no tenant learns from response times what "
    "another one has asked.",
}

CARD = Card(
    title="A prefix cache",
    text="""Write `PrefixCache(pages, size)`. It keeps the pages of earlier prompts. A prompt that shares a prefix with
one of them is then computed only from where the two differ. Its methods:

- `admit(request, tokens, tenant)` gives a request pages for all its `tokens` (a list of ints, at least one). It returns
  the number of tokens whose page was cached, or None if the pages do not suffice; then nothing changes.
- `release(request)`: the request ends. Its pages stay cached until they are evicted.

Rules:

- A page is cached if it is full, from `admit` on. Another request may use it if **all tokens up to its end** are the
  same. {{means}}
- At least the last token of a prompt is computed, so its page is never taken from the cache.
- A page whose tokens are cached already is not cached a second time. It is free as soon as its request ends.
- A request first takes free pages that hold nothing cached. Then it evicts cached pages that no request uses, the one
  that was released longest ago first. Within one request, the **last** page counts as released first.
- A program may create several caches, which share nothing.""",
    **Worth(points=8, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Why does the key of a page have to depend on all tokens before it? And why should the end of a prompt be "
        "evicted before its beginning?",
        "Keep a dictionary from key to page state (number of users). The key is the hash of (key of the page before, "
        "tokens of this page). Keep cached pages without users in the order of their release.",
        "Use an `OrderedDict` of unused keys: a hit removes its key, `release` appends keys in reverse, eviction is "
        "`popitem(last=False)`. The pages suffice if the new pages number at most free + unused − unused hits.",
    ),
    answers=("PrefixCache",),
    allowed="plain Python, `collections`, `hashlib`; the library's keys are switched off.",
    hides=("course_lib.operate.serving.prefix_cache:block_keys",),
    params={"sharing": "all", "means": SHARING["all"]},
    vary=lambda draw: {"sharing": "tenant", "means": SHARING["tenant"]},
    structural="sharing",
    probe=cached,
    returns=ListOf(Maybe(Anything("a number of tokens")), what="operation"),
)
