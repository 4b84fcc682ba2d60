from collections.abc import Mapping

from course_chapters.ch16.exercises.probes import paged
from course_grader.exercises import Anything, Card, ListOf, Maybe, TupleOf, Worth

COPIES: Mapping[str, str] = {
    "written": "A shared page is copied **when it is written**: if `append` would write into a partly filled page "
    "that other requests share, it first replaces that page in this request's table by a new one and "
    "returns `(old page, new page)`. Otherwise it returns None, and so does `fork`.",
    "forked": "A partly filled page is never shared: if the last page of `request` is partly filled, `fork` gives the "
    "child a new page in its place and returns `(old page, new page)`. Otherwise it returns None. `append` "
    "returns None.",
}

CARD = Card(
    title="A page table for the KV cache",
    text="""Write `Pages(pages, size)`, the page table of a server. It hands out pages `0 … pages - 1` of `size` tokens
each, shares them between requests, and takes them back. Its methods:

- `start(request, tokens)`: a new request takes as many pages as its first `tokens` tokens need, and no more.
- `append(request)`: one more token. If the last page is full, or there is none, the request gets a new page.
- `fork(request, child)`: the new request `child` has the same tokens and shares the pages of `request`.
- `free(request)`: the request ends. A page is free again when no request uses it anymore.
- `table(request)` returns the list of its pages in order. `unused()` returns the number of free pages.

{{means}}

- A new page is always the free page with the **lowest number**.
- If too few pages are free, raise `MemoryError` and change nothing. After `free`, the name may be used again.
- A program may create several tables, which share nothing.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "What must you know of each page, and of each request? When may a request write to a page "
        "without harm to others?",
        "Keep the number of users of each page, and the pages and the number of tokens of each request. Check that "
        "enough pages are free before you change anything.",
        "Keep free pages in a heap: `heapq.heappop` gives the lowest. `free` subtracts one user from each page of the "
        "table and pushes the pages with none left. `append` looks at `tokens % size` and at the users of "
        "the last page.",
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
