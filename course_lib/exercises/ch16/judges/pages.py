"""Judge of chapter 16's page table: what a table holds after each operation, and what known mistakes lead to."""

import random
import re
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from course_lib.exercises.ch16.probes import FULL, paged
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Operation = tuple[Any, ...]


class Table:
    """The page table of the card; the keywords are known mistakes."""

    def __init__(
        self,
        pages: int,
        size: int,
        copies: str = "written",
        *,
        shares: bool = True,  # whether a child shares pages at all
        copied: bool = True,  # whether a shared page is copied when it is written
        counted: bool = True,  # whether pages that others use stay when a request ends
        left: bool = True,  # whether the old page loses a user when it is copied
        whole: bool = True,  # whether a refused operation changes nothing
        stack: bool = False,  # whether the page freed last is taken first
    ) -> None:
        self.size, self.copies, self.stack = size, copies, stack
        self.shares, self.copied, self.counted, self.left, self.whole = shares, copied, counted, left, whole
        self.idle = list(range(pages))[::-1] if stack else list(range(pages))
        self.users: dict[int, int] = {}
        self.pages: dict[str, list[int]] = {}
        self.tokens: dict[str, int] = {}

    def _take(self, count: int) -> list[int]:
        if count > len(self.idle):
            if not self.whole:
                self.idle = []
            raise MemoryError
        if not self.stack:
            self.idle.sort()
        taken = [self.idle.pop(-1 if self.stack else 0) for _ in range(count)]
        self.users |= dict.fromkeys(taken, 1)
        return taken

    def start(self, request: str, tokens: int) -> None:
        self.pages[request] = self._take(-(-tokens // self.size))
        self.tokens[request] = tokens

    def append(self, request: str) -> tuple[int, int] | None:
        mine, copy = self.pages[request], None
        if self.tokens[request] % self.size == 0:
            mine += self._take(1)
        elif self.copies == "written" and self.copied and self.users[mine[-1]] > 1:
            (new,) = self._take(1)
            copy = (mine[-1], new)
            self.users[mine[-1]] -= self.left
            mine[-1] = new
        self.tokens[request] += 1
        return copy

    def fork(self, request: str, child: str) -> tuple[int, int] | None:
        mine, copy = list(self.pages[request]), None
        if not self.shares:
            mine = self._take(len(mine))
        elif self.copies == "forked" and self.tokens[request] % self.size:
            (new,) = self._take(1)
            copy, mine[-1] = (mine[-1], new), new
        for page in mine if self.shares else []:
            self.users[page] += 1 if copy is None or page != copy[1] else 0
        self.pages[child], self.tokens[child] = mine, self.tokens[request]
        return copy

    def free(self, request: str) -> None:
        for page in self.pages.pop(request):
            self.users[page] -= 1
            if self.users[page] == 0 or not self.counted:
                self.idle.append(page)

    def table(self, request: str) -> list[int]:
        return list(self.pages[request])

    def unused(self) -> int:
        return len(self.idle)


def tables(args: tuple[Any, ...], copies: str, **change: Any) -> Any:
    """What `paged` tells of a table with these mistakes; None where it breaks."""
    return _made(repr(args), copies, tuple(change.items()))


@lru_cache(maxsize=256)
def _made(written: str, copies: str, change: tuple[tuple[str, Any], ...]) -> Any:
    """The same from arguments as text: a message needs it for each known mistake."""
    case = Case(name="", args=literal_eval(written))
    try:
        return paged(lambda pages, size: Table(pages, size, copies, **dict(change)), case)
    except (KeyError, IndexError):
        return None


_MISTAKES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "never-copies": ({"copied": False}, "a token is written into a page that another request uses as well."),
    "shares-nothing": ({"shares": False}, "a child takes pages of its own for tokens that are there already."),
    "others-lose": ({"counted": False}, "a page is free while another request uses it."),
    "keeps-the-copied": ({"left": False}, "a page that was copied counts this request as a user still."),
    "half-done": ({"whole": False}, "a refused operation has taken pages."),
    "newest-first": ({"stack": True}, "a new page is the free one with the lowest number."),
}


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
        case(hidden, "three share, and write one by one", "values:shared", 9, 4, "p=3 p>q q>s s+ p+ q+ s- q- p+"),
        case(hidden, "a fork of nothing", "values:shared", 2, s, "p=0 p>q q+ p+ q-"),
        case(hidden, "no page is free", "generality:full", 4, s, full),
        case(hidden, "no page for the copy", "generality:full", 3, 4, "a=6 b=1 a>c c+ a+ b- a>d a+ a-"),
        case(hidden, "60 forks that come and go", "generality:long", 5, 4, "a=2 " + "a>c c+ a+ c- " * 66),
        hidden("300 operations", "generality:long", 12, s, drawn),
    ]


def _fault(params: Params, case: Case, got: Any) -> Fault | None:
    copies = params["copies"]
    want = tables(case.args, copies)
    told = [[said, dict(held) if type(held) is dict else held, unused] for said, held, unused in got]
    if same(told, want):
        return None
    public = tables(case.args, "written") if copies != "written" else None
    if public is not None and not same(public, want) and same(told, public):
        return "public-form", "this solves the public form of the exercise: pages are copied at another moment here."
    for name, (change, message) in _MISTAKES.items():
        other = tables(case.args, copies, **change)
        if other is not None and not same(other, want) and same(told, other):
            return name, message
    if len(told) != len(want):
        return "wrong-shape", f"{len(want)} operations give {len(want)} results; got {len(told)}."
    at = next(at for at, pair in enumerate(zip(told, want, strict=True)) if not same(*pair))
    name, *given = case.args[2][at]
    lead = f"after operation {at + 1}, {name}({', '.join(map(str, given))}), "
    (said, held, _), (right, owned, _) = told[at], want[at]
    if said == FULL or right == FULL:
        return (
            ("refused", f"{lead}enough pages were free.")
            if said == FULL
            else ("not-refused", f"{lead}too few pages were free: MemoryError is due.")
        )
    if not same_lists(said, right):
        return "wrong-copy", f"{lead}it returned {describe(said)}, which is not what is to be copied."
    if type(held) is not dict or any(not same_lists(held.get(each), owned[each]) for each in owned):
        return "wrong-table", f"{lead}a table holds other pages than it should."
    return "wrong-count", f"{lead}the number of free pages is not right."


def same(got: Any, want: Any) -> bool:
    """Whether nested lists and dictionaries are equal, the types of their numbers included."""
    if type(want) is dict:
        return type(got) is dict and got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    if type(want) is list:
        return type(got) is list and len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and got == want


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, _fault(params, case, outcome.value), named=True)


PAGES = {
    "page-table": Judging(
        shares="values:pages 0.2, values:shared 0.4, generality:full 0.2, generality:long 0.2",
        cases=_cases,
        verdicts=_verdicts,
        why="""A page is shared as long as nobody writes into it. Only the last, partly filled page of a request is ever written, so a fork costs at most one
copy, and only when one of the two goes on. The count of users is what makes it safe to free: without it, a page is handed out twice. Whatever can be refused
is tested before anything is changed.""",
        pytorch="PyTorch has no page table. vLLM's block pool keeps the same counts; FlexAttention's block masks can read such pages.",
    )
}
