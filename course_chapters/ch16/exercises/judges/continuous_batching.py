from collections.abc import Callable, Iterator, Sequence

from course_chapters.ch16.planned import LIMIT
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, describe, hidden, judged, shown
from course_grader.judging.replays import first_apart, same

Request = tuple[str, int, int]
Running = Sequence[tuple[int, int]]  # tokens held, and missing


right = Worked("continuous-batching")


def _states(names: Iterator[int], size: int, chunked: bool) -> Callable[..., Case]:
    """A function that makes a case of states from (cached, missing) of each running request, tokens of each waiting
    one, budget and pages."""

    def state(running: Running, waiting: Sequence[int], budget: int, free: int, width: int = size) -> object:
        # without chunks exactly one token is missing
        runs = [(f"r{next(names)}", held + (missing if chunked else 1), held) for held, missing in running]
        return runs, [(f"r{next(names)}", tokens, 0) for tokens in waiting], budget, free, width

    return lambda make, name, share, *given: make(name, share, "states", [state(*each) for each in given])


def _cases(params: Params, rng: Random) -> list[Case]:
    chunked, s = params["prompts"] == "chunked", rng.choice((3, 4, 5))
    names = iter(rng.sample(range(1000), 400))
    states = _states(names, s, chunked)

    def workload(count: int, pages: int, budget: int) -> object:
        """Requests of which each fits alone; without chunks every prompt and what may be recomputed fits into the
        budget."""
        most = min(pages * s, 10**6 if chunked else budget)
        requests = []
        for at in range(count):
            prompt = rng.randrange(1, max(2, most * 2 // 3))
            start, reply = at // 2 * rng.randrange(1, 3), rng.randrange(1, max(2, most - prompt))
            requests.append((f"q{next(names)}", start, prompt, reply))
        return requests, budget, pages, s

    def drawn() -> object:
        count = rng.randrange(7)
        runs = [(rng.randrange(1, 4 * s), rng.choice((1, 1, 1, rng.randrange(1, 3 * s)))) for _ in range(count)]
        waits = [rng.randrange(1, 4 * s) for _ in range(rng.randrange(4))]
        return runs, waits, rng.randrange(3, 8 * s), rng.randrange(6)

    preempting: tuple[tuple[object, ...], ...] = (
        ([(2 * s, 1), (2 * s, 1), (s, 1), (2 * s - 1, 1)], [2], 50, 1),  # others
        ([(s - 1, 1), (2 * s, 1)], [1], 50, 0),  # itself, the last of two
        ([(s, 1)], [1], 50, 0),  # itself, alone
        ([(s - 1, 1), (s + 1, 3 * s)], [1], 50, 1),  # itself, although pages for a part are free
        ([(3 * s, 1), (s - 1, 1), (s - 2, 1), (2 * s, 1), (s + 1, 1)], [], 50, 0),  # several
        ([(s - 1, 1), (2 * s - 1, 1), (s - 2, 2)], [1], 50, 0),  # nobody
        ([(s, 5 * s), *[(s, 1)] * 6], [1], 5 * s, 0),  # many for the first one
    )
    stuck: tuple[tuple[object, ...], ...] = (
        ([(s, 1)], [5 * s, 1], 50, 4),
        ([], [2 * s, s], 3 * s, 2),
        ([(s + 1, 1)], [4 * s, 2], 2 * s, 99),
        ([], [3 * s, 1], 2 * s, 2),
        ([], [s, s, s], 99, 2),
    )
    ends = (1, 2, 3, 9, 10, 3 + s, 9 + s, 12 + s, 99)
    budgets = [([(s, 1), (s + 1, 7), (2 * s, 1)], [s, 2 * s], end, 99) for end in ends]
    empty: tuple[tuple[object, ...], ...] = ([], [], 9, 9), ([], [3, 4, 5], 12, 99), ([(4, 1)], [], 9, 9)
    many = ([(s, 1)] * 12, [1] * 6, 99, 99), ([(s + 1, 100)], [90], 250, 99), ([(3, 1), (4, 1)], [2, 3], 9, 5, 1)
    long = [(f"s{next(names)}", at, 2 * s, 4) for at in range(12)] + [(f"l{next(names)}", 3, 6 * s, 2)]
    batch, preempts, serves = "values:batch", "values:preempts", "generality:serves"
    runs, waits, *_ = states(hidden, "", batch, ([(s, 1)] * 4, [s], 99, 9)).args[1][0]
    alike = [([*runs], [*waits], *more) for more in ((99, 9, s), (2, 9, s), (99, 2, s), (99, 2, 4 * s))]
    return [
        states(shown, "two run, and two wait", batch, ([(10, 1), (5, 1)], [6, 20], 16, 40, 4)),
        states(shown, "no page is free", preempts, ([(8, 1), (4, 1), (6, 1)], [3], 16, 0, 4)),
        states(hidden, "budgets that end anywhere", batch, *budgets),
        states(hidden, "nobody runs, nobody waits", batch, *empty),
        states(hidden, "one that cannot start", batch, *stuck),
        states(hidden, "many requests, many tokens, pages of one token", batch, *many),
        states(hidden, "preempted: others, itself, several, nobody", preempts, *preempting),
        states(hidden, "states drawn at random", preempts, *[drawn() for _ in range(25)]),
        hidden("the same requests, with other limits", preempts, "states", alike),
        hidden("a workload with pages enough", serves, "serve", workload(12, 60, 40)),
        hidden("a workload that is often preempted", serves, "serve", workload(14, 9, 9 * s)),
        hidden("a long prompt among short ones", serves, "serve", (long, 7 * s, 8, s)),
    ]


def _fault(case: Case, got: Sequence[object]) -> Fault | None:
    want, told = list(right.value(case)), list(got)
    if same(told, want):
        return None
    if len(told) >= LIMIT:
        return "never-ends", f"after {LIMIT} iterations some requests are not finished."
    at = first_apart(told, want)
    lead = f"{'state' if case.args[0] == 'states' else 'iteration'} {at + 1}: "
    if at == min(len(told), len(want)):
        return "other-length", f"{lead}there are {len(told)} plans, and {len(want)} are right."
    mine, due = told[at], want[at]
    if type(mine) is not list or len(mine) != 2 or type(mine[0]) is not dict or type(mine[1]) is not list:
        return "wrong-shape", f"{lead}return a dictionary and a list; got {describe(mine)}."
    if mine[1] != due[1]:
        return Wrong("wrong-preempted", f"{lead}the wrong requests lose their pages: {describe(mine[1])}.", where=(1,))
    if extra := [name for name in mine[0] if name not in due[0]]:
        return "runs-too-many", f"{lead}request {describe(extra[0])} cannot run in it."
    if missing := [name for name in due[0] if name not in mine[0]]:
        return "runs-too-few", f"{lead}request {missing[0]} can run in it, too."
    return "wrong-tokens", f"{lead}a request computes another number of tokens."


JUDGING = Judging(
    shares="values:batch 0.3, values:preempts 0.4, generality:serves 0.3",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value), named=True),
    why="""Every iteration is planned anew, so a waiting request can take the place of a finished one at once. Running
requests come first because they hold pages, and a page is only given back by finishing. When pages run out, the
youngest request has lost the least work. Strict order among waiting requests keeps a long prompt from starving.""",
    pytorch="vLLM's scheduler has these rules: a token budget, running before waiting, preemption of the last by "
    "recomputation.",
)

ANSWERS = r'''# %% right: worked
prompts = params("continuous-batching").prompts  # leave as is: may be "chunked", or run only "whole"


def plan(running: list[tuple], waiting: list[tuple], budget: int, free: int, size: int) -> tuple[dict, list]:
    """What the next iteration computes, and who loses the pages: ({id: tokens}, [ids])."""
    run, preempted, left, at = {}, [], list(running), 0
    while at < len(left) and budget:
        name, tokens, cached = left[at]
        count = min(tokens - cached, budget)
        need = -(-(cached + count) // size) - -(-cached // size)
        while need > free and name not in preempted:
            victim, _, held = left.pop()
            preempted.append(victim)
            free += -(-held // size)
        if name not in preempted:
            run[name], budget, free = count, budget - count, free - need
        at += 1
    for name, tokens, _ in waiting if not preempted else []:
        count = min(tokens, budget) if prompts == "chunked" else tokens
        need = -(-count // size)
        if not 0 < count <= budget or need > free:
            break
        run[name], budget, free = count, budget - count, free - need
    return run, preempted
# %% right: pages of those who are left  from: worked
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
        count = min(tokens, budget) if prompts == "chunked" else tokens
        left -= pages_of(count, size)
        if not 0 < count <= budget or left < 0:
            break
        run[name], budget = count, budget - count
    return run, lost
# %% wrong: prompts whole => values prompts-whole unless prompts=whole
# > a prompt may be split over several iterations.
# ~ prompts == "chunked" ==> not prompts
# %% wrong: the public form => values public-form unless prompts=chunked
# > this solves the public form of the exercise: here prompts are never split.
# ~ prompts == "chunked" ==> prompts
# %% wrong: overtakes => values
# > a waiting request started although one before it could not: with enough short requests a long one never starts.
# ~ break ==> continue
# %% wrong: the oldest is preempted => values
# > the oldest of the running requests was preempted; the youngest has lost the least work.
# ~ left.pop() ==> left.pop(at)
# %% wrong: joins anyway => values
# > a waiting request started in an iteration in which another one was preempted.
# ~ waiting if not preempted else [] ==> waiting
# %% wrong: pages kept => values
# > the pages of a preempted request are free at once.
# -             free += -(-held // size)
# %% wrong: page not full => values
# > the last page of a request still has room; tokens that fit there need no new page.
# ~ -(-(cached + count) // size) - -(-cached // size) ==> -(-count // size)
# %% wrong: nobody preempted => values
# > too few pages were free for a running request: it was skipped, and no request was preempted.
# -         while need > free and name not in preempted:
# -             victim, _, held = left.pop()
# -             preempted.append(victim)
# -             free += -(-held // size)
# ~ if name not in preempted: ==> if need <= free:
# %% wrong: whole prompt pages => values whole-prompt-pages unless prompts=whole
# > a request needs pages for the tokens of this iteration only.
# ~ need = -(-count // size) ==> need = -(-tokens // size)
# %% wrong: budget not shared => values
# > running requests use up part of the budget.
# -             run[name], budget, free = count, budget - count, free - need
# +             run[name], free = count, free - need
# %% wrong: zero tokens are a plan => values runs-too-many
# ~ while at < len(left) and budget: ==> while at < len(left):
# %% wrong: a part that fits, in place of being preempted => values wrong-preempted unless prompts=whole
#           while need > free and name not in preempted:
# +             if len(left) == at + 1 and free:
# +                 count, need = -(-cached // size) * size + free * size - cached, free
# +                 break
# %% wrong: eight requests at most => values runs-too-few
# ~ while at < len(left) and budget: ==> while at < min(8, len(left)) and budget:
'''
