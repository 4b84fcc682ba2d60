"""A small server with continuous batching and a paged KV cache, and the load to try it with.

Without --load it serves until Ctrl-C. With --load, clients in a process of their own send requests at each rate; the
run first measures the cost of an iteration, predicts the latencies of each rate from it, and then measures them.
"""

import argparse
import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import torch

from course_lib.messages import Trouble, count_text
from course_lib.model import text
from course_runs import cores, evidence, serve_load, serve_model
from course_runs.serve_arguments import arguments, plan
from course_runs.serving import load
from course_runs.serving.engine import Engine
from course_runs.serving.http_api import application
from course_runs.serving.paged_model import PagedModel
from course_runs.serving.server import HOST, Server

SMALL = 5_000_000  # parameters; a smaller model's products are too short to be divided among threads
BUSY = 1.3  # times the undisturbed seconds of an iteration, from which the run says so
Made = TypeVar("Made")


class Stopping:
    """Ctrl-C and SIGTERM: the first asks to drain, the second to stop at once."""

    def __init__(self) -> None:
        self.drain, self.now = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(each, self._asked)
            except NotImplementedError:  # Windows
                signal.signal(each, lambda *_: loop.call_soon_threadsafe(self._asked))

    def _asked(self) -> None:
        (self.now if self.drain.is_set() else self.drain).set()

    async def during(self, work: Coroutine[object, None, Made]) -> Made | None:
        """The result of `work`, or None if Ctrl-C came first; then the work is cancelled."""
        task, asked = asyncio.ensure_future(work), asyncio.ensure_future(self.drain.wait())
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return None
        return task.result()


async def serve(given: argparse.Namespace, ready: Callable[[int], None] = lambda port: None) -> int:
    """Serve, with the load that is asked for, until Ctrl-C or the end of the load; the exit code."""
    model = serve_model.load(given.model, given.device)
    server = Server(Engine(given.limits, PagedModel(model, given.limits, len(text.vocabulary()))), given.model)
    stopping = Stopping()
    try:
        port = server.start(application(server), 0 if given.rates else given.port)
    except OSError as error:
        raise Trouble(
            f"Port {given.port} of {HOST} cannot be used: {error.strerror}.", "--port 0 takes a free one"
        ) from None
    params = sum(weight.numel() for weight in model.parameters())
    torch.set_num_threads(max(1, cores.threads(1) - bool(given.rates)) if params > SMALL else 1)  # clients have a core
    cache = server.engine.compute.cache  # type: ignore[attr-defined]
    print(
        f"serving {given.model}, {params:,} parameters, on {given.device} at http://{HOST}:{port}/v1\n"
        f"KV cache: {count_text(given.limits.pages, 'page')} of {count_text(given.limits.page_size, 'token')}, "
        f"{cache.nbytes / 1e6:,.1f} MB; context {given.limits.context} tokens; at most {given.limits.max_batch} "
        f"sequences run and {given.limits.queue} wait. Ctrl-C drains.",
        flush=True,
    )
    ready(port)
    rows: list[serve_load.Row] = []
    wrong = 0
    if given.rates:
        rows, wrong = await _loaded(given, server, port, stopping)
    else:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                _watch(server, stopping, given.every), None if given.seconds == math.inf else given.seconds
            )
    if server.replies:
        print(f"\nserve: finishing {len(server.replies)} accepted requests; Ctrl-C again stops at once", flush=True)
    drained = await server.drain(given.grace, stopping.now)
    return _last_words(given, server, rows, drained, wrong)


async def _watch(server: Server, stopping: Stopping, every: float) -> None:
    """A live line when something has changed, until Ctrl-C."""
    before = server.live()
    while not stopping.drain.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.drain.wait(), every)
        if (line := server.live()) != before:
            print(line, flush=True)
        before = line


async def _loaded(
    given: argparse.Namespace, server: Server, port: int, stopping: Stopping
) -> tuple[list[serve_load.Row], int]:
    """All rates in turn, as far as Ctrl-C lets them; how many replies differ from the uncached model's."""
    print("measuring the cost of an iteration", flush=True)
    cost = await stopping.during(serve_load.calibrated(port, server, given.seed))
    if cost is None:
        return [], 0
    given.cost = cost
    print(
        f"an iteration takes {1e3 * cost.fixed:.2f} ms, {1e6 * cost.prompt_token:.0f} µs per prompt token, "
        f"{1e6 * cost.prompt_chunk:.0f} per prompt, {1e6 * cost.decode:.0f} per decoding sequence, "
        f"{1e6 * cost.context:.2f} per token of context\n"
        f"the server adds {1e6 * cost.turn:.0f} µs per iteration, {1e6 * cost.delivery:.0f} per token sent, "
        f"{1e3 * cost.request:.1f} ms per request"
    )
    if cost.stretch > BUSY:
        print(
            f"other programs use this machine: an iteration takes {cost.stretch:.1f} times as long as undisturbed, "
            f"with wide scatter"
        )
    most = serve_load.capacity(plan(given, 1.0, 0, 200), given.limits, cost)
    print(f"predicted capacity: {most:.3g} requests/s", flush=True)
    rates = [share * most for share in serve_load.AUTO] if math.isnan(given.rates[0]) else given.rates
    rows: list[serve_load.Row] = []
    wrong = 0
    for number, rate in enumerate(rates):
        sent = plan(given, rate, number)
        row = await stopping.during(serve_load.measured(port, server, rate, sent, cost, given.every))
        if row is None:
            break
        rows.append(row)
        if given.verify:
            right, total = serve_load.same_as_uncached(server, sent, row.seen)
            print(f"  {right} of {total} replies are those of the model without a cache", flush=True)
            wrong += total - right
    return rows, wrong


def _last_words(
    given: argparse.Namespace, server: Server, rows: Sequence[serve_load.Row], drained: bool, wrong: int
) -> int:
    if rows:
        print("\n" + "\n".join([*serve_load.table(rows), "", *serve_load.ratios(rows)]))
    failed = sum(row.measured.failed for row in rows)
    for row in rows:
        for each in [each for each in row.seen if each.status == load.FAILED][:3]:
            print(f"failed at {row.rate:.3g} requests/s: {each.said}")
    outcomes = ", ".join(f"{count:,} {name}" for name, count in sorted(server.tally.items())) or "none"
    lost = server.received - len(server.outcomes)
    print(
        f"\nrequests received{', warm-up included' if rows else ''}: {server.received:,} ({outcomes}); without an "
        f"answer: {lost}; pages in use: {server.engine.pages_used}; preemptions: {server.engine.preemptions}"
        + ("" if drained else "; some were stopped before they were complete"),
        flush=True,
    )
    good = server.clean and not failed and not wrong
    if given.out and rows:
        print(f"evidence: {_evidence(given, server, rows, good)}")
    return 0 if good and drained else 1


def _evidence(given: argparse.Namespace, server: Server, rows: Sequence[serve_load.Row], good: bool) -> Path:
    content = evidence.evidence(
        "serving",
        setup={
            "model": given.model,
            "device": given.device,
            "limits": asdict(given.limits),
            "requests": given.requests,
            "lengths": given.lengths,
            "groups": given.groups,
            "shared": given.shared,
            "disconnect": given.disconnect,
            "seed": given.seed,
        },
        predicted={"cost": asdict(given.cost), "rows": [serve_load.as_data(row)["predicted"] for row in rows]},
        measured={
            "rows": [serve_load.as_data(row)["measured"] for row in rows],
            "outcomes": dict(server.tally),
            "received": server.received,
            "clean": good,
        },
        raw={
            "rows": [
                {k: v for k, v in serve_load.as_data(row).items() if k not in ("predicted", "measured")} for row in rows
            ]
        },
    )
    return evidence.write(content, given.out, given.name or f"serve-{evidence.stamp()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve; 0 if every request had its one answer and all pages are free, 1 if not, 2 if it was refused."""
    try:
        given = arguments(argv)
        return asyncio.run(serve(given))
    except Trouble as trouble:
        print(f"serve: {trouble}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
