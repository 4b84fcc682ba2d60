from course_chapters.ch16.exercises.probes import repaired
from course_grader.exercises import Anything, Card, Worth, pick

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

CARD = Card(
    title="The page that two tokens share",
    text=f"""A server with this code answers some cached prompts with nonsense and fails on others. Repair the two
functions. The bugs are real: new pages were taken before the hits were marked as used (*vllm-project/vllm, pull request
10507, 2024*), the test for enough pages counted hits as free (*vllm-project/vllm, pull request 11565, 2024*), and pages
were given up in an order that leaves useless ones in the cache (*llm-d/llm-d-inference-sim, issue 704, 2026*).

{_POOL}

- `hits` are the pages that hold the beginning of the prompt, in order; some are in use, others are free but still hold
  it. `fresh` more pages are needed.
- `allocate` returns the table: the hits, then new pages. If the free pages do not suffice, it returns None, and the
  pool is **as it was before**.
- `release` gives pages back so that the **last** page of a prompt is taken first. Pages that others use stay.
- `pool.free` lists the free pages in the order in which they are taken; `pool.users[page]` counts users. `pool.take()`
  takes the first of `free`, forgets what it held and sets its users to 1. `pool.touch(page)` adds a user and removes
  the page from `free` if it was there. The first pool has {{{{pages}}}} pages.""",
    **Worth(points=6, minutes=15, difficulty=2, importance=4),
    kind="more",
    form="bug",
    hints=(
        "A hit that no request uses is in `pool.free`. What can `take` do to it?",
        "If you only touch the hits first, what is left behind when the test fails after that?",
        "Count the hits without users: they are free now, and will not be. Test `fresh > len(pool.free) - that`, "
        "touch, then take. Release in reverse.",
    ),
    answers=("allocate", "release"),
    allowed="plain Python.",
    params={"pages": 6},
    vary=pick(pages=(5, 7, 8)),
    probe=repaired,
    returns=Anything("the pool after each operation"),
)
