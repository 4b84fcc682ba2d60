"""How chapter 19 calls answers that run on a trainer's and a generator's ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from course_grader.exercises.probes import unless_open


def synced(answer: Any, case: Any, comm: Any = None) -> Any:
    """What a rank returns; `case.args = (rows, columns, shard)`, the last of each rank. "touched": an argument
    changed."""
    import torch

    rows, columns, shard = case.args
    before, mine, theirs = shard.clone(), list(rows), list(columns)
    got = answer(comm, shard, mine, theirs)
    return {"x": got, "touched": mine != rows or theirs != columns or not torch.equal(before, shard)}


def repaired_cache(answers: Any, case: Any, comm: Any = None) -> Any:
    """The server after each operation: [version, weights, cache, users, free pages]; `case.args = (index, pages,
    operations)`.

    Operations: ("start", name, prompt), ("fill", name) the next page of the prompt, ("end", name), ("update", version).
    A name that ended may start again. Where `index` is 0, pages are published as in the card.
    """
    index, pages, operations = case.args
    update, publish = answers

    def run() -> list[Any]:
        server = SimpleNamespace(weights="w0", version=0, cache={}, users=[0] * pages, free=list(range(pages)))
        running: dict[str, Any] = {}
        said = []
        for what, *given in operations:
            if what == "update":
                update(server, f"w{given[0]}", given[0])
            elif what == "start":
                name, prompt = given
                running[name] = SimpleNamespace(version=server.version, prompt=prompt, table=_found(server, prompt))
            elif what == "fill" and given[0] in running and server.free:
                request = running[given[0]]
                page = server.free.pop(0)
                server.users[page] += 1
                request.table.append(page)
                beginning = request.prompt[: len(request.table)]
                if index:
                    publish(server, request, beginning, page)
                else:
                    server.cache[beginning] = page
            elif what == "end" and given[0] in running:
                _end(server, running.pop(given[0]).table)
            said.append([server.version, server.weights, sorted(server.cache.items()), *map(list, _lists(server))])
        return said

    return unless_open(index, run)


def _lists(server: Any) -> tuple[Any, Any]:
    return server.users, server.free


def _found(server: Any, prompt: str) -> list[int]:
    """The pages of the longest beginning that the cache holds, now used once more."""
    table = []
    for end in range(1, len(prompt) + 1):
        page = server.cache.get(prompt[:end])
        if page is None:
            break
        server.users[page] += 1
        table.append(page)
    return table


def _end(server: Any, table: list[int]) -> None:
    """Give pages back; those that the cache can still find are not free."""
    for page in table:
        server.users[page] -= 1
        if server.users[page] == 0 and page not in server.cache.values():
            server.free.append(page)
