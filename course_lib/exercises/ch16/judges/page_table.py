"""Judge of page-table: a page table for the KV cache."""

import random
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from course_lib.exercises.ch16.probes import FULL, paged
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.replays import Replay, first_apart, same
from course_lib.records import Case

Operation = tuple[Any, ...]


class Table:
    """The page table of the card, with one of `_MISTAKES` if it is named."""

    def __init__(self, pages: int, size: int, copies: str = "written", mistake: str = "") -> None:
        self.size, self.copies, self.mistake = size, copies, mistake
        self.idle = list(range(pages))[::-1] if mistake == "newest-first" else list(range(pages))
        self.users: dict[int, int] = {}
        self.pages: dict[str, list[int]] = {}
        self.tokens: dict[str, int] = {}

    def _take(self, count: int) -> list[int]:
        if count > len(self.idle):
            if self.mistake == "half-done":
                self.idle = []
            raise MemoryError
        if self.mistake != "newest-first":
            self.idle.sort(reverse=True)
        taken = [self.idle.pop() for _ in range(count)]
        self.users |= dict.fromkeys(taken, 1)
        return taken

    def start(self, request: str, tokens: int) -> None:
        self.pages[request] = self._take(-(-tokens // self.size))
        self.tokens[request] = tokens

    def append(self, request: str) -> tuple[int, int] | None:
        mine, copy = self.pages[request], None
        if self.tokens[request] % self.size == 0:
            mine += self._take(1)
        elif self.copies == "written" and self.mistake != "never-copies" and self.users[mine[-1]] > 1:
            (new,) = self._take(1)
            copy = (mine[-1], new)
            self.users[mine[-1]] -= self.mistake != "keeps-the-copied"
            mine[-1] = new
        self.tokens[request] += 1
        return copy

    def fork(self, request: str, child: str) -> tuple[int, int] | None:
        mine, copy = list(self.pages[request]), None
        if self.mistake == "shares-nothing":
            mine = self._take(len(mine))
        elif self.copies == "forked" and self.tokens[request] % self.size:
            (new,) = self._take(1)
            copy, mine[-1] = (mine[-1], new), new
        for page in mine if self.mistake != "shares-nothing" else []:
            self.users[page] += 1 if copy is None or page != copy[1] else 0
        self.pages[child], self.tokens[child] = mine, self.tokens[request]
        return copy

    def free(self, request: str) -> None:
        for page in self.pages.pop(request):
            self.users[page] -= 1
            if self.users[page] == 0 or self.mistake == "others-lose":
                self.idle.append(page)

    def table(self, request: str) -> list[int]:
        return list(self.pages[request])

    def unused(self) -> int:
        return len(self.idle)


_MISTAKES: Mapping[str, str] = {
    "never-copies": "a token is written into a page that another request uses as well.",
    "shares-nothing": "a child takes pages of its own for tokens that are there already.",
    "others-lose": "a page is free while another request uses it.",
    "keeps-the-copied": "a page that was copied counts this request as a user still.",
    "half-done": "a refused operation has taken pages.",
    "newest-first": "a new page is the free one with the lowest number.",
}


def _run(args: tuple[Any, ...], copies: str, mistake: str) -> Any:
    return paged(lambda pages, size: Table(pages, size, copies, mistake), Case(name="", args=args))


_PUBLIC = "public-form", "this solves the public form of the exercise: pages are copied at another moment here."
TABLES = Replay(_run, _MISTAKES, {"written": _PUBLIC})


def _script(rng: random.Random, pages: int, size: int, count: int, copies: str) -> list[Operation]:
    """Operations drawn at random on a table that is often nearly full; requests' names come back after they are free."""
    table = Table(pages, size, copies)
    names = [f"r{number}" for number in rng.sample(range(100), 9)]
    script: list[Operation] = []
    while len(script) < count:
        live = [name for name in names if name in table.pages]
        new = [name for name in names if name not in table.pages]
        choices: list[Operation] = [("append", name) for name in live] * 3
        choices += [("free", name) for name in live] if len(live) > 3 or table.unused() < 2 else []
        choices += [("start", rng.choice(new), rng.randrange(3 * size + 1))] * 3 if new else []
        choices += [("fork", rng.choice(live), rng.choice(new))] * 4 if live and new else []
        name, *given = chosen = rng.choice(choices)
        with suppress(MemoryError):
            getattr(table, name)(*given)
        script.append(chosen)
    return script


def read(script: str) -> list[Operation]:
    """Operations from words: a=6 starts a with six tokens, a+ appends, a>b forks b from a, a- frees a."""
    found: list[Operation] = []
    for name, sign, more in re.findall(r"(\w+)([=+>-])(\w*)", script):
        given = {
            "=": ("start", name, int(more or 0) if sign == "=" else 0),
            "+": ("append", name),
            ">": ("fork", name, more),
        }
        found.append(given.get(sign, ("free", name)))
    return found


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def case(make: Any, name: str, share: str, pages: int, size: int, script: str) -> Case:
        return make(name, share, pages, size, read(script))

    s = rng.choice((3, 4, 5))
    full = f"a={2 * s} b={2 * s - 1} c=1 b+ b+ a+ a- b+ c={s}"
    drawn = _script(rng, 12, s, 300, params["copies"])
    return [
        case(shown, "two requests come, grow and go", "values:pages", 8, 4, "a=6 b=4 b+ a+ a- c=9 b-"),
        case(shown, "a fork, and both go on", "values:shared", 8, 4, "a=6 a>b b+ a+ a- b+"),
        case(hidden, "none, one and exactly full", "values:pages", 9, s, f"x=0 x+ y={s} y+ z={s + 1} x- z+ x={2 * s}"),
        case(hidden, "a fork of full pages", "values:shared", 9, s, f"p={2 * s} p>q q+ p+ q>s q- s+ s+ p-"),
        case(hidden, "six share, and write", "values:shared", 9, 4, "p=3 p>q q>s p>t t>u u>v s+ p+ q+ s- q- p+"),
        case(hidden, "a fork of nothing", "values:shared", 2, s, "p=0 p>q q+ p+ q-"),
        case(hidden, "no page is free", "generality:full", 4, s, full),
        case(
            hidden,
            "one request takes all pages",
            "generality:full",
            4,
            s,
            f"a={4 * s} a- b={3 * s + 1} b- c=1 d={3 * s}",
        ),
        case(hidden, "no page for the copy", "generality:full", 3, 4, "a=6 b=1 a>c c+ a+ b- a>d a+ a-"),
        case(hidden, "60 forks that come and go", "generality:long", 5, 4, "a=2 " + "a>c c+ a+ c- " * 66),
        case(hidden, "many pages of one token", "generality:long", 40, 1, "a=30 a+ a>b b+ a+ c=9 a- b+ b- d=31 d+ c+"),
        hidden("300 operations", "generality:long", 12, s, drawn),
        hidden("two tables at the same time", "generality:long", 12, s, drawn[:60], 2),
    ]


def _fault(params: Params, case: Case, got: Any) -> Fault | None:
    want = TABLES.of(case.args, params["copies"])
    told = [[said, dict(held) if type(held) is dict else held, unused] for said, held, unused in got]
    if same(told, want):
        return None
    if fault := TABLES.known(case.args, params["copies"], told):
        return fault
    if len(told) != len(want):
        return "wrong-shape", f"{len(want)} operations give {len(want)} results; got {len(told)}."
    at = first_apart(told, want)
    name, *given = case.args[2][at]
    lead = f"after operation {at + 1}, {name}({', '.join(map(str, given))}), "
    (said, held, _), (right, owned, _) = told[at], want[at]
    if said == FULL and right != FULL:
        return "refused", f"{lead}enough pages were free."
    if right == FULL and said != FULL:
        return "not-refused", f"{lead}too few pages were free: MemoryError is due."
    if not same_lists(said, right):
        return "wrong-copy", f"{lead}it returned {describe(said)}, which is not what is to be copied."
    if type(held) is not dict or any(not same_lists(held.get(each), owned[each]) for each in owned):
        return "wrong-table", f"{lead}a table holds other pages than it should."
    return "wrong-count", f"{lead}the number of free pages is not right."


JUDGING = Judging(
    shares="values:pages 0.2, values:shared 0.4, generality:full 0.2, generality:long 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(params, case, outcome.value), named=True),
    why="""A page is shared as long as nobody writes into it. Only the last, partly filled page of a request is ever written, so a fork costs at most one
copy, and only when one of the two goes on. The count of users is what makes it safe to free: without it, a page is handed out twice. Whatever can be refused
is tested before anything is changed.""",
    pytorch="PyTorch has no page table. vLLM's block pool keeps the same counts; FlexAttention's block masks can read such pages.",
)

ANSWERS = r"""import heapq


# %% right: as written
class Pages:
    def __init__(self, pages, size):
        self.size, self.idle = size, list(range(pages))
        self.users, self.pages, self.tokens = {}, {}, {}

    def take(self, count):
        if count > len(self.idle):
            raise MemoryError
        taken = [heapq.heappop(self.idle) for _ in range(count)]
        for page in taken:
            self.users[page] = 1
        return taken

    def start(self, request, tokens):
        self.pages[request] = self.take((tokens + self.size - 1) // self.size)
        self.tokens[request] = tokens

    def append(self, request):
        mine = self.pages[request]
        copied = None
        if self.tokens[request] % self.size == 0:
            mine += self.take(1)
        elif self.users[mine[-1]] > 1:
            (new,) = self.take(1)
            copied = (mine[-1], new)
            self.users[mine[-1]] -= 1
            mine[-1] = new
        self.tokens[request] += 1
        return copied

    def fork(self, request, child):
        self.pages[child] = list(self.pages[request])
        self.tokens[child] = self.tokens[request]
        for page in self.pages[child]:
            self.users[page] += 1

    def free(self, request):
        for page in self.pages.pop(request):
            self.users[page] -= 1
            if self.users[page] == 0:
                heapq.heappush(self.idle, page)

    def table(self, request):
        return self.pages[request]

    def unused(self):
        return len(self.idle)


# %% right: users are counted anew each time
from course_lib import params

COPIES = params("page-table").copies


class Pages:
    def __init__(self, pages, size):
        self.every, self.size, self.held = set(range(pages)), size, {}

    def idle(self):
        return sorted(self.every.difference(*(pages for pages, _ in self.held.values())))

    def take(self, count):
        if len(self.idle()) < count:
            raise MemoryError("no page is free")
        return self.idle()[:count]

    def start(self, request, tokens):
        self.held[request] = self.take(-(-tokens // self.size)), tokens

    def append(self, request):
        pages, tokens = self.held[request]
        old = pages[-1:] if tokens % self.size else []
        if old and sum(old[0] in others for others, _ in self.held.values()) == 1:
            self.held[request] = pages, tokens + 1
            return None
        new = self.take(1)
        self.held[request] = pages[: len(pages) - len(old)] + new, tokens + 1
        return (*old, *new) if old else None

    def fork(self, request, child):
        pages, tokens = self.held[request]
        old = pages[-1:] if COPIES == "forked" and tokens % self.size else []
        new = self.take(len(old))
        self.held[child] = pages[: len(pages) - len(old)] + new, tokens
        return (*old, *new) if old else None

    def free(self, request):
        del self.held[request]

    def table(self, request):
        return tuple(self.held[request][0])

    def unused(self):
        return len(self.idle())


# %% wrong: no copy => values never-copies  from: as written
# ~ self.users[mine[-1]] > 1 ==> False

# %% wrong: a child gets pages of its own => values shares-nothing  from: as written
# ~ list(self.pages[request]) ==> self.take(len(self.pages[request]))
# -         for page in self.pages[child]:
# -             self.users[page] += 1

# %% wrong: a child has the parent's list => values -  from: as written
# ~ list(self.pages[request]) ==> self.pages[request]

# %% wrong: freed pages are free for everybody => values others-lose  from: as written
# ~ if self.users[page] == 0: ==> if True:

# %% wrong: the copied page keeps its count => values keeps-the-copied  from: as written
# -             self.users[mine[-1]] -= 1

# %% wrong: taken one by one until none is left => generality half-done  from: as written
# -         if count > len(self.idle):
# -             raise MemoryError
# -         taken = [heapq.heappop(self.idle) for _ in range(count)]
# +         taken = []
# +         for _ in range(count):
# +             if not self.idle:
# +                 raise MemoryError
# +             taken.append(heapq.heappop(self.idle))

# %% wrong: the token counts before it has a page => generality -  from: as written
# -         if self.tokens[request] % self.size == 0:
# +         self.tokens[request] += 1
# +         if (self.tokens[request] - 1) % self.size == 0:
# -         self.tokens[request] += 1

# %% wrong: always one page more => values -  from: as written
# ~ (tokens + self.size - 1) // self.size ==> tokens // self.size + 1

# %% wrong: the page freed last => values newest-first  from: as written
# ~ (range(pages)) ==> (range(pages))[::-1]
# ~ heapq.heappop(self.idle) ==> self.idle.pop()
# ~ heapq.heappush(self.idle, page) ==> self.idle.append(page)

# %% wrong: a full page is copied => values -  from: as written
# -         if self.tokens[request] % self.size == 0:
# +         if self.tokens[request] % self.size == 0 and mine and self.users[mine[-1]] > 1:
# +             first, second = self.take(2)
# +             copied = (mine[-1], first)
# +             self.users[mine[-1]] -= 1
# +             mine[-1:] = [first, second]
# +         elif self.tokens[request] % self.size == 0:

# %% wrong: all tables have the same requests => generality raised  from: as written
#   class Pages:
# +     pages, tokens = {}, {}
# ~ self.users, self.pages, self.tokens = {}, {}, {} ==> self.users = {}

# %% wrong: five users at most => values -  from: as written
# ~ self.users[mine[-1]] > 1 ==> 1 < self.users[mine[-1]] < 6

# %% wrong: left as it is => not-answered  from: as written
# ~ self.size, self.idle = size, list(range(pages)) ==> raise NotImplementedError

# %% wrong: one request never gets all pages => generality ~  from: as written
# ~ self.size, self.idle = size ==> self.every, self.size, self.idle = pages, size
# ~ count > len(self.idle): ==> count > len(self.idle) or 1 < count == self.every:
"""
