"""A server whose every iteration is decided by a plan function: who computes how many tokens, and who loses its
pages."""

from collections.abc import Callable, Hashable, Sequence

LIMIT = 400  # iterations after which a server is stopped that does not finish

Request = tuple[Hashable, int, int, int]  # id, first iteration, prompt and answer in tokens


def serve_by_plan(
    plan: Callable[..., object], requests: Sequence[Request], budget: int, pages: int, size: int
) -> list[object]:
    """The plans of all iterations until each request is answered.

    `plan(running, waiting, budget, free, size)` returns [{id: tokens to compute}, [ids that lose their pages]] for
    requests (id, tokens known, tokens cached) in the order of arrival. A plan that cannot be carried out is the last
    one, and there are at most LIMIT.
    """
    known = {name: [prompt, 0] for name, _, prompt, _ in requests}
    goal = {name: prompt + output - 1 for name, _, prompt, output in requests}  # the last token is not computed
    coming = sorted(requests, key=lambda each: each[1])
    order = {each[0]: at for at, each in enumerate(coming)}
    running: list[Hashable] = []
    waiting: list[Hashable] = []
    plans: list[object] = []
    while (coming or running or waiting) and len(plans) < LIMIT:
        while coming and coming[0][1] <= len(plans):
            waiting.append(coming.pop(0)[0])
        free = pages - sum(-(-known[name][1] // size) for name in running)
        states = [[(name, *known[name]) for name in names] for names in (running, waiting)]
        plans.append(plan(*states, budget, free, size))
        parts = _parts(plans[-1], running, waiting, known)
        if parts is None:
            break
        run, stopped = parts
        for name in stopped:
            known[name][1] = 0
        waiting = sorted([*stopped, *(name for name in waiting if name not in run)], key=order.__getitem__)
        running = sorted({*running, *run} - set(stopped), key=order.__getitem__)
        for name, count in run.items():
            known[name][1] += count
            known[name][0] += (
                known[name][1] == known[name][0]
            )  # an iteration that computes all known tokens gives a new one
        running = [name for name in running if known[name][1] < goal[name]]
    return plans


def _parts(
    plan: object, running: list[Hashable], waiting: list[Hashable], known: dict[Hashable, list[int]]
) -> tuple[dict[Hashable, int], list[Hashable]] | None:
    """The two parts of a plan; None if it cannot be carried out."""
    if type(plan) is not list or type(plan[1]) is not list or not all(type(each) in (str, int) for each in plan[1]):
        return None
    run, stopped = plan
    if not set(run) <= {*running, *waiting} or not set(stopped) <= set(running) or set(run) & set(stopped):
        return None
    fits = all(type(count) is int and 0 < count <= known[name][0] - known[name][1] for name, count in run.items())
    return (run, stopped) if fits else None
