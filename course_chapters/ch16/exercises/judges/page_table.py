import re
from collections.abc import Sequence
from contextlib import suppress

from course_chapters.ch16.exercises.probes import FULL
from course_grader.exercises.values import same_lists
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, hidden, judged, shown
from course_grader.judging.cases import Maker
from course_grader.judging.replays import first_apart, same

Operation = tuple[str, *tuple[object, ...]]  # the name of a method and its arguments


right = Worked("page-table")


def _script(rng: Random, pages: int, size: int, count: int) -> list[Operation]:
    """Operations drawn at random on a table that is often nearly full; requests' names come back after they are
    free."""
    table = right(pages, size)
    names = [f"r{number}" for number in rng.sample(range(100), 9)]
    script: list[Operation] = []
    while len(script) < count:
        live = [name for name in names if name in table.pages]
        new = [name for name in names if name not in table.pages]
        choices: list[Operation] = [("append", name) for name in 3 * live]
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
        start = ("start", name, int(more or 0) if sign == "=" else 0)
        made: dict[str, Operation] = {"=": start, "+": ("append", name), ">": ("fork", name, more), "-": ("free", name)}
        found.append(made[sign])
    return found


def _cases(params: Params, rng: Random) -> list[Case]:
    def case(make: Maker, name: str, share: str, pages: int, size: int, script: str) -> Case:
        return make(name, share, pages, size, read(script))

    s = rng.choice((3, 4, 5))
    full = f"a={2 * s} b={2 * s - 1} c=1 b+ b+ a+ a- b+ c={s}"
    taken = f"a={4 * s} a- b={3 * s + 1} b- c=1 d={3 * s}"
    drawn = _script(rng, 12, s, 300)
    return [
        case(shown, "two requests come, grow and go", "values:pages", 8, 4, "a=6 b=4 b+ a+ a- c=9 b-"),
        case(shown, "a fork, and both go on", "values:shared", 8, 4, "a=6 a>b b+ a+ a- b+"),
        case(hidden, "none, one and exactly full", "values:pages", 9, s, f"x=0 x+ y={s} y+ z={s + 1} x- z+ x={2 * s}"),
        case(hidden, "a fork of full pages", "values:shared", 9, s, f"p={2 * s} p>q q+ p+ q>s q- s+ s+ p-"),
        case(hidden, "six share, and write", "values:shared", 9, 4, "p=3 p>q q>s p>t t>u u>v s+ p+ q+ s- q- p+"),
        case(hidden, "a fork of nothing", "values:shared", 2, s, "p=0 p>q q+ p+ q-"),
        case(hidden, "no page is free", "generality:full", 4, s, full),
        case(hidden, "one request takes all pages", "generality:full", 4, s, taken),
        case(hidden, "no page for the copy", "generality:full", 3, 4, "a=6 b=1 a>c c+ a+ b- a>d a+ a-"),
        case(hidden, "60 forks that come and go", "generality:long", 5, 4, "a=2 " + "a>c c+ a+ c- " * 66),
        case(hidden, "many pages of one token", "generality:long", 40, 1, "a=30 a+ a>b b+ a+ c=9 a- b+ b- d=31 d+ c+"),
        hidden("300 operations", "generality:long", 12, s, drawn),
        hidden("two tables at the same time", "generality:long", 12, s, drawn[:60], 2),
    ]


def _fault(case: Case, got: Sequence[tuple[object, object, object]]) -> Fault | None:
    want = right.value(case)
    told = [[said, dict(held) if type(held) is dict else held, unused] for said, held, unused in got]
    if same(told, want):
        return None
    if len(told) != len(want):
        return "wrong-shape", f"{len(want)} operations give {len(want)} results; got {len(told)}."
    at = first_apart(told, want)
    name, *given = case.args[2][at]
    lead = f"after operation {at + 1}, {name}({', '.join(map(str, given))}), "
    (said, held, _), (due, owned, _) = told[at], want[at]
    if said == FULL and due != FULL:
        return "refused", f"{lead}enough pages were free."
    if due == FULL and said != FULL:
        return "not-refused", f"{lead}too few pages were free: raise MemoryError."
    if not same_lists(said, due):
        return "wrong-copy", f"{lead}it returned {describe(said)}, which is not the copy that is needed."
    if type(held) is not dict or any(not same_lists(held.get(each), owned[each]) for each in owned):
        return "wrong-table", f"{lead}a table holds other pages than it should."
    return "wrong-count", f"{lead}the number of free pages is not right."


JUDGING = Judging(
    shares="values:pages 0.2, values:shared 0.4, generality:full 0.2, generality:long 0.2",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""A page is shared as long as nobody writes into it. Only the last, partly filled page of a request is ever
written, so a fork costs at most one copy, and only when one of the two goes on. The count of users is what makes it
safe to free: without it, a page is handed out twice. Whatever can be refused is tested before anything is changed.""",
    pytorch="PyTorch has no page table. vLLM's block pool keeps the same counts; FlexAttention's block masks can "
    "read such pages.",
)

ANSWERS = r'''from collections import Counter
# %% right: worked
copies = params("page-table").copies  # leave as is: a shared page is copied when "written", or when "forked"


class Pages:
    """A page table: requests share pages, and a page is free when no request uses it."""

    def __init__(self, pages: int, size: int) -> None:
        ### BEGIN SOLUTION
        self.size, self.idle, self.users = size, list(range(pages)), Counter()
        self.pages, self.tokens = {}, {}

    def take(self, count):
        if count > len(self.idle):
            raise MemoryError
        self.idle.sort()
        taken, self.idle = self.idle[:count], self.idle[count:]
        self.users.update(taken)
        return taken

    def replace_last(self, mine):
        old, (mine[-1],) = mine[-1], self.take(1)
        return old, mine[-1]
        ### END SOLUTION

    def start(self, request: str, tokens: int) -> None:
        ### BEGIN SOLUTION
        self.pages[request] = self.take(-(-tokens // self.size))
        self.tokens[request] = tokens
        ### END SOLUTION

    def append(self, request: str) -> tuple[int, int] | None:
        """One more token; returns (old page, new page) if a page is copied."""
        ### BEGIN SOLUTION
        mine, copied = self.pages[request], None
        if self.tokens[request] == len(mine) * self.size:
            mine += self.take(1)
        elif self.users[mine[-1]] > 1:
            copied = self.replace_last(mine)
            self.users[copied[0]] -= 1
        self.tokens[request] += 1
        return copied
        ### END SOLUTION

    def fork(self, request: str, child: str) -> tuple[int, int] | None:
        ### BEGIN SOLUTION
        mine, copied = list(self.pages[request]), None
        if copies == "forked" and self.tokens[request] % self.size:
            copied = self.replace_last(mine)
            self.users[mine[-1]] -= 1  # counted with the others below
        self.users.update(mine)
        self.pages[child], self.tokens[child] = mine, self.tokens[request]
        return copied
        ### END SOLUTION

    def free(self, request: str) -> None:
        ### BEGIN SOLUTION
        for page in self.pages.pop(request):
            self.users[page] -= 1
            self.idle += [page] if self.users[page] == 0 else []
        ### END SOLUTION

    def table(self, request: str) -> list[int]:
        ### BEGIN SOLUTION
        return list(self.pages[request])
        ### END SOLUTION

    def unused(self) -> int:
        ### BEGIN SOLUTION
        return len(self.idle)
        ### END SOLUTION
# %% right: users are counted anew each time  from: worked
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

    def replaced(self, pages, old):
        return pages[: len(pages) - len(old)] + self.take(1)

    def append(self, request):
        pages, tokens = self.held[request]
        old = pages[-1:] if tokens % self.size else []
        if old and sum(old[0] in others for others, _ in self.held.values()) == 1:
            self.held[request] = pages, tokens + 1
            return None
        self.held[request] = new, _ = self.replaced(pages, old), tokens + 1
        return (*old, new[-1]) if old else None

    def fork(self, request, child):
        pages, tokens = self.held[request]
        old = pages[-1:] if copies == "forked" and tokens % self.size else []
        self.held[child] = (self.replaced(pages, old) if old else pages), tokens
        return (*old, self.held[child][0][-1]) if old else None

    def free(self, request):
        del self.held[request]

    def table(self, request):
        return tuple(self.held[request][0])

    def unused(self):
        return len(self.idle())
# %% wrong: never copies => values never-copies unless copies=forked
# > a token is written into a page that another request uses as well.
# ~ self.users[mine[-1]] > 1 ==> False
# %% wrong: the public form => values public-form unless copies=written
# > this solves the public form of the exercise: pages are copied at another moment here.
# ~ copies == "forked" and ==> not copies and
# %% wrong: copies when forked => values other-moment unless copies=forked
# > a page is copied when it is forked; here it is copied when it is written.
# ~ copies == "forked" and ==> copies and
# %% wrong: shares nothing => values
# > a forked child takes new pages for tokens that are in pages already.
# ~ mine, copied = list(self.pages[request]), None ==> mine, copied = self.take(len(self.pages[request])), None
# -         self.users.update(mine)
# %% wrong: append returns a word instead of raising => generality not-refused
#           mine, copied = self.pages[request], None
# +         if self.tokens[request] == len(mine) * self.size and not self.idle:
# +             return "full"
# %% wrong: a child has the parent's list => values
# > parent and child have one and the same list of pages, so a page of one appears in the table of the other.
# ~ list(self.pages[request]), None ==> self.pages[request], None
# %% wrong: others lose => values
# > a page counts as free while another request still uses it.
# ~ if self.users[page] == 0 ==> if True
# %% wrong: keeps the copied => values keeps-the-copied unless copies=forked
# > after the copy, the old page still counts this request as a user.
# -             self.users[copied[0]] -= 1
# %% wrong: half done => generality
# > a refused operation has taken pages.
#           if count > len(self.idle):
# +             self.idle = []
# %% wrong: the token counts before it has a page => generality
# > a refused `append` has counted the token, although it has no page.
# -         if self.tokens[request] == len(mine) * self.size:
# +         self.tokens[request] += 1
# +         if self.tokens[request] > len(mine) * self.size:
# -         self.tokens[request] += 1
# %% wrong: always one page more => values
# > a request whose last page is exactly full takes one page more than it needs.
# ~ -(-tokens // self.size) ==> tokens // self.size + 1
# %% wrong: newest first => values
# > a new page is the free one with the lowest number.
# ~ list(range(pages)) ==> list(range(pages))[::-1]
# -         self.idle.sort()
# -         taken, self.idle = self.idle[:count], self.idle[count:]
# +         taken = [self.idle.pop() for _ in range(count)]
# %% wrong: five users at most => values never-copies unless copies=forked
# ~ self.users[mine[-1]] > 1 ==> 1 < self.users[mine[-1]] < 6
# %% wrong: all tables have the same requests => generality raised
# ~ self.pages, self.tokens = {}, {} ==> self.pages, self.tokens = Pages.shared
# +     shared = {}, {}
'''
