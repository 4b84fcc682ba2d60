"""Cards of chapter 16 on pages: a page table with copy-on-write, a prefix cache, and a pool that loses its own hits."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch16.probes import cached, paged, repaired
from course_lib.exercises.drilling import pick
from course_lib.exercises.returns import Anything, ListOf, Maybe, TupleOf

COPIES: Mapping[str, str] = {
    "written": "A shared page is copied **when it is written**: if `append` would write into a partly filled page that other requests share, "
    "it first replaces that page in this request's table by a new one and returns `(old page, new page)`. Otherwise it returns None, and so does `fork`.",
    "forked": "A partly filled page is never shared: if the last page of `request` is partly filled, `fork` gives the child a new page in its "
    "place and returns `(old page, new page)`. Otherwise it returns None. `append` returns None.",
}

PAGE_TABLE = Card(
    id="page-table",
    chapter="16",
    title="A page table for the KV cache",
    text="""Write `Pages(pages, size)`, the page table of a server. It hands out pages `0 … pages - 1` of `size` tokens each, shares them between
requests, and takes them back. Its methods:

- `start(request, tokens)`: a new request whose first `tokens` tokens need pages. It takes no more pages than they need.
- `append(request)`: one more token. If the last page is full, or there is none, the request gets a new page.
- `fork(request, child)`: the new request `child` has the same tokens and shares the pages of `request`.
- `free(request)`: the request ends. A page is free again when no request uses it anymore.
- `table(request)` returns the list of its pages in order. `unused()` returns the number of free pages.

{{means}}

- A new page is always the free page with the **lowest number**.
- If too few pages are free, raise `MemoryError` and change nothing. A name may be used again after `free`.
- A program may have several tables, which have nothing in common.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "What must you know of each page, and of each request? When may a write go into a page without harm to others?",
        "Keep the number of users of each page, and the pages and the number of tokens of each request. Check that enough pages are free before you change anything.",
        "Free pages as a heap: `heapq.heappop` gives the lowest. `free` subtracts one user from each page of the table and pushes the pages with none left. "
        "`append` looks at `tokens % size` and at the users of the last page.",
    ),
    answers=("Pages",),
    allowed="plain Python and `heapq`.",
    params={"copies": "written", "means": COPIES["written"]},
    vary=lambda draw: {"copies": "forked", "means": COPIES["forked"]},
    structural="copies",
    probe=paged,
    returns=ListOf(
        TupleOf({"returned": Maybe(Anything("a value")), "tables": Anything("tables"), "unused": Anything("a count")}),
        what="operation",
    ),
)

SHARING: Mapping[str, str] = {
    "all": "Requests of all tenants share pages; `tenant` makes no difference.",
    "tenant": "Only requests of the same `tenant` share pages, so that no tenant learns from response times what another one has asked.",
}

PREFIX_CACHE = Card(
    id="prefix-cache",
    chapter="16",
    title="A prefix cache",
    text="""Write `PrefixCache(pages, size)`. It keeps the pages of earlier prompts, so that a prompt that begins like one of them is computed only from where it
differs. Its methods:

- `admit(request, tokens, tenant)` gives a request pages for all its `tokens` (a list of ints, at least one). It returns the number of tokens whose page
  was cached, or None if the pages do not suffice; then nothing changes.
- `release(request)`: the request ends. Its pages stay cached until they are needed for something else.

Rules:

- Only a full page is cached, from `admit` on. Another request may use it if **all tokens up to its end** are the same. {{means}}
- At least the last token of a prompt is computed, even if all of its pages are cached.
- A page whose tokens are cached already is not cached a second time. It is free as soon as its request ends.
- A request takes free pages that hold nothing cached first. After that it takes cached pages that no request uses, the one that was released longest ago
  first. Within one request, the **last** page counts as released first.
- A program may have several caches, which have nothing in common.""",
    **Worth(points=8, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Why does the key of a page have to depend on all tokens before it? And why should the end of a prompt be given up before its beginning?",
        "A dictionary from key to page state (number of users), where the key is the hash of (key of the page before, tokens of this page). Cached pages without users are kept in the order of their release.",
        "An `OrderedDict` of unused keys: a hit removes its key, `release` appends keys in reverse, eviction is `popitem(last=False)`. "
        "The pages suffice if the new pages number at most free + unused − unused hits.",
    ),
    answers=("PrefixCache",),
    allowed="plain Python, `collections`, `hashlib`; the library's keys are switched off.",
    hides=("serving.prefix_cache:block_keys",),
    params={"sharing": "all", "means": SHARING["all"]},
    vary=lambda draw: {"sharing": "tenant", "means": SHARING["tenant"]},
    structural="sharing",
    probe=cached,
    returns=ListOf(Maybe(Anything("a number of tokens")), what="operation"),
)

_POOL = """```python
def allocate(pool, hits, fresh):
    if fresh > len(pool.free):
        return None
    new = [pool.take() for _ in range(fresh)]
    for page in hits:
        pool.touch(page)
    return hits + new


def release(pool, table):
    for page in table:
        pool.users[page] -= 1
        if pool.users[page] == 0:
            pool.free.append(page)
```"""

REPAIR_PAGES = Card(
    id="repair-pages",
    chapter="16",
    title="The page that two tokens share",
    text=f"""A server with this code answers some cached prompts with nonsense and fails on others. Repair the two functions. The bugs are real: new pages were
taken before the hits were marked as used (*vllm-project/vllm, pull request 10507, 2024*), the test for enough pages counted hits as free
(*vllm-project/vllm, pull request 11565, 2024*), and pages were given up in an order that leaves useless ones in the cache
(*llm-d/llm-d-inference-sim, issue 704, 2026*).

{_POOL}

- `hits` are the pages that hold the beginning of the prompt, in order; some are in use, others are free but still hold it. `fresh` more pages are needed.
- `allocate` returns the table: the hits, then new pages. If the free pages do not suffice, it returns None, and the pool is **as it was before**.
- `release` gives pages back so that the **last** page of a prompt is taken first. Pages that others use stay.
- `pool.free` lists the free pages in the order in which they are taken; `pool.users[page]` counts users. `pool.take()` takes the first of `free`, forgets what it held and
  sets its users to 1. `pool.touch(page)` adds a user and removes the page from `free` if it was there. The first pool has {{{{pages}}}} pages.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    form="bug",
    hints=(
        "A hit that no request uses stands in `pool.free`. What can `take` do to it?",
        "If you only touch the hits first, what is left behind when the test fails after that?",
        "Count the hits without users: they are free now, and will not be. Test `fresh > len(pool.free) - that`, touch, then take. Release in reverse.",
    ),
    answers=("allocate", "release"),
    allowed="plain Python.",
    params={"pages": 6},
    vary=pick(pages=(5, 7, 8)),
    probe=repaired,
    returns=Anything("the pool after each operation"),
)
