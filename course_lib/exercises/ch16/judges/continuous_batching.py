"""Judge of continuous-batching: plan the next iteration."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch16.probes import planned
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.replays import Replay, first_apart, same
from course_lib.records import Case
from course_lib.serving.planned import LIMIT

Request = tuple[Any, int, int]


def plan(
    running: Sequence[Request],
    waiting: Sequence[Request],
    budget: int,
    free: int,
    size: int,
    prompts: str = "chunked",
    mistake: str = "",
) -> list[Any]:
    """The right plan, or one with a mistake of `_MISTAKES`."""

    def pages(tokens: int) -> int:
        return -(-tokens // size)

    run: dict[Any, int] = {}
    preempted: list[Any] = []
    left, room, at = list(running), budget, 0
    while at < len(left) and room:
        name, tokens, cached = left[at]
        count = min(tokens - cached, room)
        need = pages(count) if mistake == "page-not-full" else pages(cached + count) - pages(cached)
        at += 1
        if need > free and mistake == "nobody-preempted":
            continue
        while need > free and name not in preempted:
            victim, _, held = left.pop()
            preempted.append(victim)
            free += 0 if mistake == "pages-kept" else pages(held)
        if name not in preempted:
            run[name], free = count, free - need
            room -= 0 if mistake == "budget-not-shared" else count
    for name, tokens, _ in waiting if mistake == "joins-anyway" or not preempted else ():
        count = min(tokens, room) if prompts == "chunked" else tokens
        if 0 < count <= room and pages(tokens if mistake == "whole-prompt-pages" else count) <= free:
            run[name] = count
            room, free = room - count, free - pages(count)
        elif mistake != "overtakes":
            break
    return [run, preempted]


def _run(args: tuple[Any, ...], prompts: str, mistake: str) -> Any:
    return planned(lambda *state: plan(*state, prompts, mistake), Case(name="", args=args))


_MISTAKES: Mapping[str, str] = {
    "overtakes": "a waiting request started although one before it could not: with enough short requests a long one never starts.",
    "joins-anyway": "a waiting request started in an iteration in which another one was preempted.",
    "pages-kept": "the pages of a preempted request are free at once.",
    "page-not-full": "the last page of a request still has empty places; they need no new page.",
    "nobody-preempted": "a running request without pages was passed over, and nobody was preempted.",
    "budget-not-shared": "running requests use up part of the budget.",
    "whole-prompt-pages": "a request needs pages for the tokens of this iteration only.",
}
_FORMS: Mapping[str, Fault] = {
    "chunked": ("public-form", "this solves the public form of the exercise: here prompts are never split."),
    "whole": ("prompts-whole", "a prompt may be split over several iterations."),
}
PLANS = Replay(_run, _MISTAKES, _FORMS)


def _states(names: Iterator[int], size: int, chunked: bool) -> Callable[..., Case]:
    """A function that makes a case of states from (cached, missing) of each running request, tokens of each waiting one, budget and pages."""

    def state(running: Any, waiting: Sequence[int], budget: int, free: int, width: int = size) -> Any:
        # without chunks exactly one token is missing
        runs = [(f"r{next(names)}", held + (missing if chunked else 1), held) for held, missing in running]
        return runs, [(f"r{next(names)}", tokens, 0) for tokens in waiting], budget, free, width

    return lambda make, name, share, *given: make(name, share, "states", [state(*each) for each in given])


def _cases(params: Params, rng: random.Random) -> list[Case]:
    chunked, s = params["prompts"] == "chunked", rng.choice((3, 4, 5))
    names = iter(rng.sample(range(1000), 400))
    states = _states(names, s, chunked)

    def workload(count: int, pages: int, budget: int) -> Any:
        """Requests of which each fits alone; without chunks every prompt and what may be recomputed fits into the budget."""
        most = min(pages * s, 10**6 if chunked else budget)
        requests = []
        for at in range(count):
            prompt = rng.randrange(1, max(2, most * 2 // 3))
            start, reply = at // 2 * rng.randrange(1, 3), rng.randrange(1, max(2, most - prompt))
            requests.append((f"q{next(names)}", start, prompt, reply))
        return requests, budget, pages, s

    def drawn() -> Any:
        runs = [
            (rng.randrange(1, 4 * s), rng.choice((1, 1, 1, rng.randrange(1, 3 * s)))) for _ in range(rng.randrange(7))
        ]
        waits = [rng.randrange(1, 4 * s) for _ in range(rng.randrange(4))]
        return runs, waits, rng.randrange(3, 8 * s), rng.randrange(6)

    preempting = (
        ([(2 * s, 1), (2 * s, 1), (s, 1), (2 * s - 1, 1)], [2], 50, 1),  # others
        ([(s - 1, 1), (2 * s, 1)], [1], 50, 0),  # itself, the last of two
        ([(s, 1)], [1], 50, 0),  # itself, alone
        ([(s - 1, 1), (s + 1, 3 * s)], [1], 50, 1),  # itself, although pages for a part are free
        ([(3 * s, 1), (s - 1, 1), (s - 2, 1), (2 * s, 1), (s + 1, 1)], [], 50, 0),  # several
        ([(s - 1, 1), (2 * s - 1, 1), (s - 2, 2)], [1], 50, 0),  # nobody
        ([(s, 5 * s), *[(s, 1)] * 6], [1], 5 * s, 0),  # many for the first one
    )
    stuck = (
        ([(s, 1)], [5 * s, 1], 50, 4),
        ([], [2 * s, s], 3 * s, 2),
        ([(s + 1, 1)], [4 * s, 2], 2 * s, 99),
        ([], [3 * s, 1], 2 * s, 2),
        ([], [s, s, s], 99, 2),
    )
    budgets = [
        ([(s, 1), (s + 1, 7), (2 * s, 1)], [s, 2 * s], b, 99) for b in (1, 2, 3, 9, 10, 3 + s, 9 + s, 12 + s, 99)
    ]
    empty = ([], [], 9, 9), ([], [3, 4, 5], 12, 99), ([(4, 1)], [], 9, 9)
    many = ([(s, 1)] * 12, [1] * 6, 99, 99), ([(s + 1, 100)], [90], 250, 99), ([(3, 1), (4, 1)], [2, 3], 9, 5, 1)
    long = [(f"s{next(names)}", at, 2 * s, 4) for at in range(12)] + [(f"l{next(names)}", 3, 6 * s, 2)]
    batch, preempts, serves = "values:batch", "values:preempts", "generality:serves"
    return [
        states(shown, "two run, and two wait", batch, ([(10, 1), (5, 1)], [6, 20], 16, 40, 4)),
        states(shown, "no page is free", preempts, ([(8, 1), (4, 1), (6, 1)], [3], 16, 0, 4)),
        states(hidden, "budgets that end anywhere", batch, *budgets),
        states(hidden, "nobody runs, nobody waits", batch, *empty),
        states(hidden, "one that cannot start", batch, *stuck),
        states(hidden, "many requests, many tokens, pages of one token", batch, *many),
        states(hidden, "preempted: others, itself, several, nobody", preempts, *preempting),
        states(hidden, "states drawn at random", preempts, *[drawn() for _ in range(25)]),
        hidden("a workload with pages enough", serves, "serve", workload(12, 60, 40)),
        hidden("a workload that is often preempted", serves, "serve", workload(14, 9, 9 * s)),
        hidden("a long prompt among short ones", serves, "serve", (long, 7 * s, 8, s)),
    ]


def _fault(params: Params, case: Case, got: Any) -> Fault | None:
    want, told = PLANS.of(case.args, params["prompts"]), list(got)
    if same(told, want):
        return None
    if fault := PLANS.known(case.args, params["prompts"], told):
        return fault
    if len(told) >= LIMIT:
        return "never-ends", f"after {LIMIT} iterations some requests are not answered."
    at = first_apart(told, want)
    lead = f"{'state' if case.args[0] == 'states' else 'iteration'} {at + 1}: "
    if at == min(len(told), len(want)):
        return "other-length", f"{lead}there are {len(told)} plans, and {len(want)} are right."
    mine, right = told[at], want[at]
    if type(mine) is not list or len(mine) != 2 or type(mine[0]) is not dict or type(mine[1]) is not list:
        return "wrong-shape", f"{lead}return a dictionary and a list; got {describe(mine)}."
    if mine[1] != right[1]:
        return "wrong-preempted", f"{lead}{describe(mine[1])} are preempted, which is not right."
    if extra := [name for name in mine[0] if name not in right[0]]:
        return "runs-too-many", f"{lead}request {describe(extra[0])} cannot run in it."
    if missing := [name for name in right[0] if name not in mine[0]]:
        return "runs-too-few", f"{lead}request {missing[0]} can run in it, too."
    return "wrong-tokens", f"{lead}a request computes another number of tokens."


JUDGING = Judging(
    shares="values:batch 0.3, values:preempts 0.4, generality:serves 0.3",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(params, case, outcome.value), named=True),
    why="""Every iteration is planned anew, so a finished request leaves its place at once to a waiting one. Running requests come first because they hold pages, and a page is only given back by
finishing. When pages run out, the youngest request has lost the least work. Strict order among waiting requests keeps a long prompt from starving.""",
    pytorch="vLLM's scheduler has these rules: a token budget, running before waiting, preemption of the last by recomputation.",
)

ANSWERS = r"""# %% right: as written
def plan(running, waiting, budget, free, size):
    run, preempted, left, at = {}, [], list(running), 0
    while at < len(left) and budget:
        name, tokens, cached = left[at]
        count = min(tokens - cached, budget)
        need = -(-(cached + count) // size) - -(-cached // size)
        while need > free and name not in preempted:
            victim, _, held = left.pop()
            preempted.append(victim)
            free += -(-held // size)
        if name in preempted:
            break
        run[name] = count
        budget -= count
        free -= need
        at += 1
    if preempted:
        return run, preempted
    for name, tokens, _ in waiting:
        count = min(tokens, budget)
        need = -(-count // size)
        if not count or need > free:
            break
        run[name] = count
        budget -= count
        free -= need
    return run, preempted


# %% right: pages of those who are left
from course_lib import params

PROMPTS = params("continuous-batching").prompts


def pages_of(tokens, size):
    return (tokens + size - 1) // size


def plan(running, waiting, budget, free, size):
    holds = {name: pages_of(cached, size) for name, _, cached in running}
    every, run, lost = free + sum(holds.values()), {}, []
    for name, tokens, cached in running:
        count = min(tokens - cached, budget)
        if not count or name not in holds:
            break
        want = pages_of(cached + count, size)
        while name in holds and sum(holds.values()) - holds[name] + want > every:
            lost.append(holds.popitem()[0])
        if name in holds:
            holds[name], run[name], budget = want, count, budget - count
    left = every - sum(holds.values())
    for name, tokens, _ in waiting[: 0 if lost else None]:
        count = min(tokens, budget) if PROMPTS == "chunked" else tokens
        left -= pages_of(count, size)
        if not 0 < count <= budget or left < 0:
            break
        run[name], budget = count, budget - count
    return run, lost


# %% wrong: prompts are not split => values prompts-whole unless prompts=whole  from: as written
# ~ min(tokens, budget) ==> tokens
# ~ not count ==> count > budget

# %% wrong: later ones overtake => values overtakes  from: as written
#           if not count or need > free:
# -             break
# +             continue

# %% wrong: the oldest is preempted => values -  from: as written
# ~ pop() ==> pop(at)

# %% wrong: joins while others are preempted => values joins-anyway  from: as written
# -     if preempted:
# -         return run, preempted

# %% wrong: pages do not come back => values pages-kept  from: as written
# -             free += -(-held // size)

# %% wrong: pages for new tokens alone => values page-not-full  from: as written
# ~ (cached + count) // size) - -(-cached ==> count

# %% wrong: nobody is preempted => values nobody-preempted  from: as written
# -         while need > free and name not in preempted:
# -             victim, _, held = left.pop()
# -             preempted.append(victim)
# -             free += -(-held // size)
# -         if name in preempted:
# -             break
# +         if need > free:
# +             at += 1
# +             continue

# %% wrong: the whole prompt needs pages => values whole-prompt-pages  from: as written
# ~ need = -(-count // size) ==> need = -(-tokens // size)

# %% wrong: a budget for each kind => values budget-not-shared  from: as written
# ~ at = {}, [], list(running), 0 ==> at, whole = {}, [], list(running), 0, budget
#           if name in preempted:
#               break
# -         run[name] = count
# -         budget -= count
# +         run[name] = min(tokens - cached, whole)

# %% wrong: zero tokens are a plan => values -  from: as written
# ~ while at < len(left) and budget: ==> while at < len(left):

# %% wrong: a part that fits, in place of being preempted => values -  from: as written
#           while need > free and name not in preempted:
# +             if len(left) == at + 1 and free:
# +                 count, need = -(-cached // size) * size + free * size - cached, free
# +                 break

# %% wrong: eight requests at most => values runs-too-few  from: as written
# ~ while at < len(left) and budget: ==> while at < min(8, len(left)) and budget:

# %% wrong: left as it is => not-answered  from: as written
# ~ run, preempted, left, at = {}, [], list(running), 0 ==> raise NotImplementedError
"""
