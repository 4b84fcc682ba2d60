"""Judge of chapter 16's continuous batching: plans for single states, and whole workloads served by the answer's plans."""

import random
from ast import literal_eval
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from course_lib.exercises.ch16.judges.pages import same
from course_lib.exercises.ch16.probes import LIMIT, planned
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Request = tuple[Any, int, int]


def plan(
    running: Sequence[Request],
    waiting: Sequence[Request],
    budget: int,
    free: int,
    size: int,
    prompts: str = "chunked",
    *,
    overtake: bool = False,  # whether a later request may start when an earlier one cannot
    joins: bool = False,  # whether waiting requests start although one was preempted
    returns: bool = True,  # whether the pages of a preempted request are free at once
    slack: bool = True,  # whether the empty places of a request's last page are used
    waits: bool = False,  # whether a request without pages waits, and nobody is preempted
    spends: bool = True,  # whether running requests use up the budget
    prompt: bool = False,  # whether a waiting request needs pages for all of its tokens
) -> list[Any]:
    """The right plan; the keywords are known mistakes."""

    def pages(tokens: int) -> int:
        return -(-tokens // size)

    run: dict[Any, int] = {}
    preempted: list[Any] = []
    left, room, at = list(running), budget, 0
    while at < len(left) and room:
        name, tokens, cached = left[at]
        count = min(tokens - cached, room)
        need = pages(cached + count) - pages(cached) if slack else pages(count)
        at += 1
        if need > free and waits:
            continue
        while need > free and name not in preempted:
            victim, _, held = left.pop()
            preempted.append(victim)
            free += pages(held) if returns else 0
        if name not in preempted:
            run[name], free = count, free - need
            room -= count if spends else 0
    for name, tokens, _ in waiting if joins or not preempted else ():
        count = min(tokens, room) if prompts == "chunked" else tokens
        if 0 < count <= room and pages(tokens if prompt else count) <= free:
            run[name] = count
            room, free = room - count, free - pages(count)
        elif not overtake:
            break
    return [run, preempted]


def plans(args: tuple[Any, ...], prompts: str, **change: Any) -> Any:
    """What `planned` tells of a plan with these mistakes; None where it breaks."""
    return _made(repr(args), prompts, tuple(change.items()))


@lru_cache(maxsize=256)
def _made(written: str, prompts: str, change: tuple[tuple[str, Any], ...]) -> Any:
    """The same from arguments as text: a message needs it for each known mistake."""
    try:
        return planned(lambda *state: plan(*state, prompts, **dict(change)), Case(name="", args=literal_eval(written)))
    except (IndexError, KeyError, ValueError):
        return None


_MISTAKES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "overtakes": (
        {"overtake": True},
        "a waiting request started although one before it could not: with enough short requests a long one never starts.",
    ),
    "joins-anyway": ({"joins": True}, "a waiting request started in an iteration in which another one was preempted."),
    "pages-kept": ({"returns": False}, "the pages of a preempted request are free at once."),
    "page-not-full": ({"slack": False}, "the last page of a request still has empty places; they need no new page."),
    "nobody-preempted": ({"waits": True}, "a running request without pages was passed over, and nobody was preempted."),
    "budget-not-shared": ({"spends": False}, "running requests use up part of the budget."),
    "whole-prompt-pages": ({"prompt": True}, "a request needs pages for the tokens of this iteration only."),
}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    chunked, size = params["prompts"] == "chunked", rng.choice((3, 4, 5))
    names = iter(rng.sample(range(1000), 400))

    def state(
        running: Sequence[tuple[int, int]], waiting: Sequence[int], budget: int, free: int, width: int = size
    ) -> Any:
        """A state from (cached, missing) of each running request; without chunks exactly one token is missing."""
        return (
            [(f"r{next(names)}", cached + (missing if chunked else 1), cached) for cached, missing in running],
            [(f"r{next(names)}", tokens, 0) for tokens in waiting],
            budget,
            free,
            width,
        )

    def states(make: Any, name: str, share: str, *given: Any) -> Case:
        return make(name, share, "states", list(given))

    def workload(count: int, pages: int, budget: int) -> Any:
        """Requests of which each fits alone; without chunks every prompt and what may be recomputed fits into the budget."""
        most = min(pages * size, 10**6 if chunked else budget)
        requests = []
        for at in range(count):
            prompt = rng.randrange(1, max(2, most * 2 // 3))
            requests.append(
                (f"q{next(names)}", at // 2 * rng.randrange(1, 3), prompt, rng.randrange(1, max(2, most - prompt)))
            )
        return requests, budget, pages, size

    s = size
    tight = state([(2 * s, 1), (2 * s, 1), (s, 1), (2 * s - 1, 1)], [2], 50, 1)
    itself = state([(s - 1, 1), (2 * s, 1)], [1], 50, 0)
    alone = state([(s, 1)], [1], 50, 0)
    several = state([(3 * s, 1), (s - 1, 1), (s - 2, 1), (2 * s, 1), (s + 1, 1)], [], 50, 0)
    none = state([(s - 1, 1), (2 * s - 1, 1), (s - 2, 2 if chunked else 1)], [1], 50, 0)
    drawn = [
        state(
            [
                (rng.randrange(1, 4 * s), rng.choice((1, 1, 1, rng.randrange(1, 3 * s))))
                for _ in range(rng.randrange(7))
            ],
            [rng.randrange(1, 4 * s) for _ in range(rng.randrange(4))],
            rng.randrange(3, 8 * s),
            rng.randrange(6),
        )
        for _ in range(25)
    ]
    return [
        states(shown, "two run, and two wait", "values:batch", state([(10, 1), (5, 1)], [6, 20], 16, 40, 4)),
        states(shown, "no page is free", "values:preempts", state([(8, 1), (4, 1), (6, 1)], [3], 16, 0, 4)),
        states(
            hidden,
            "budgets that end anywhere",
            "values:batch",
            *[
                state([(s, 1), (s + 1, 7), (2 * s, 1)], [s, 2 * s], budget, 99)
                for budget in (1, 2, 3, 9, 10, 3 + s, 9 + s, 12 + s, 99)
            ],
        ),
        states(
            hidden,
            "nobody runs, nobody waits",
            "values:batch",
            state([], [], 9, 9),
            state([], [3, 4, 5], 12, 99),
            state([(4, 1)], [], 9, 9),
        ),
        states(
            hidden,
            "one that cannot start",
            "values:batch",
            state([(s, 1)], [5 * s, 1], 50, 4),
            state([], [2 * s, s], 3 * s, 2),
            state([(s + 1, 1)], [4 * s, 2], 2 * s, 99),
            state([], [3 * s, 1], 2 * s, 2),
            state([], [s, s, s], 99, 2),
        ),
        states(
            hidden, "preempted: others, itself, several, nobody", "values:preempts", tight, itself, alone, several, none
        ),
        states(hidden, "states drawn at random", "values:preempts", *drawn),
        hidden("a workload with pages enough", "generality:serves", "serve", workload(12, 60, 40)),
        hidden("a workload that is often preempted", "generality:serves", "serve", workload(14, 9, 9 * size)),
        hidden(
            "a long prompt among short ones",
            "generality:serves",
            "serve",
            ([(f"s{next(names)}", at, 2 * s, 4) for at in range(12)] + [(f"l{next(names)}", 3, 6 * s, 2)], 7 * s, 8, s),
        ),
    ]


def _fault(params: Params, case: Case, got: Any) -> Fault | None:
    prompts = params["prompts"]
    want, told = plans(case.args, prompts), list(got)
    if same(told, want):
        return None
    public = plans(case.args, "chunked") if prompts != "chunked" else None
    if public is not None and not same(public, want) and same(told, public):
        return "public-form", "this solves the public form of the exercise: here prompts are never split."
    if prompts == "chunked" and same(told, plans(case.args, "whole")):
        return "prompts-whole", "a prompt may be split over several iterations."
    for name, (change, message) in _MISTAKES.items():
        other = plans(case.args, prompts, **change)
        if other is not None and not same(other, want) and same(told, other):
            return name, message
    if len(told) >= LIMIT:
        return "never-ends", f"after {LIMIT} iterations some requests are not answered."
    pairs = list(zip(told, want, strict=False))
    at = next((at for at, pair in enumerate(pairs) if not same(*pair)), len(pairs))
    lead = f"{'state' if case.args[0] == 'states' else 'iteration'} {at + 1}: "
    if at == len(pairs):
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


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return judged(case, _fault(params, case, outcome.value), named=True)


SCHEDULING = {
    "continuous-batching": Judging(
        shares="values:batch 0.3, values:preempts 0.4, generality:serves 0.3",
        cases=_cases,
        verdicts=_verdicts,
        why="""Every iteration is planned anew, so a finished request leaves its place at once to a waiting one. Running requests come first because they hold pages, and a page is only given back by
finishing. When pages run out, the youngest request has lost the least work. Strict order among waiting requests keeps a long prompt from starving.""",
        pytorch="vLLM's scheduler has these rules: a token budget, running before waiting, preemption of the last by recomputation.",
    )
}
