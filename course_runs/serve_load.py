"""Load for `./course run serve`: what a rate of requests will do, what it did, and the two beside each other."""

import asyncio
import contextlib
import json
import math
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from course_lib.messages import Trouble, count_text
from course_lib.model import text
from course_runs.serving import load
from course_runs.serving.engine import Iteration, Limits
from course_runs.serving.forecast import IterationCost, Timed, fit, forecast
from course_runs.serving.load import OK, Planned, Seen, Summary
from course_runs.serving.server import HOST, Server

AUTO = (0.25, 0.5, 0.75, 1.0, 1.5, 2.5)  # of the predicted capacity
KNEE = 3.0  # times the TTFT at the lowest rate
FIRST = 5  # iterations of the warm-up that do not count: the first of everything is slow
ALONE = 10  # requests of the warm-up that run alone
_DIGITS = 4  # of times in the evidence: 0.1 ms


@dataclass(frozen=True)
class Row:
    """One rate: predicted and measured."""

    rate: float
    predicted: Summary
    measured: Summary
    factor: float  # seconds of the run's own iterations over those that the warm-up promised for them
    predicted_use: dict[str, float]
    measured_use: dict[str, float]
    seen: tuple[Seen, ...]
    preemptions: int


def use(iterations: Sequence[tuple[Iteration, float]]) -> dict[str, float]:
    """Averages over iterations, each with its seconds to the next: sequences that run, requests in the system; most
    pages."""
    total = math.fsum(seconds for _, seconds in iterations) or math.nan
    return {
        "batch": math.fsum(each.running * seconds for each, seconds in iterations) / total,
        "busy_requests": math.fsum((each.running + each.waiting) * seconds for each, seconds in iterations),
        "pages": max((each.pages for each, _ in iterations), default=0),
        "seconds": total,
    }


async def send(port: int, plan: Sequence[Planned], server: Server, every: float = math.inf) -> list[Seen]:
    """Send a plan from a process of its own, with a line of the server's live figures now and then; what the clients
    saw."""
    with tempfile.TemporaryDirectory(prefix="course-serve-") as scratch:
        source, target = Path(scratch, "plan.json"), Path(scratch, "seen.json")
        source.write_text(json.dumps([asdict(each) for each in plan]), encoding="utf-8")
        words = [sys.executable, "-m", "course_runs.serving.client", f"http://{HOST}:{port}", str(source), str(target)]
        process = await asyncio.create_subprocess_exec(*words, start_new_session=True)  # Ctrl-C reaches us alone
        try:
            while process.returncode is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), None if every == math.inf else every)
                    break
                if server.iterations:
                    print(f"  {server.live()}", flush=True)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise Trouble(f"The load generator ended with code {process.returncode}.", "its own words are above")
        return [Seen(**each) for each in json.loads(target.read_text(encoding="utf-8"))]


# --- predicting -----------------------------------------------------------------------------------


def warm_up(limits: Limits, seed: int) -> list[Planned]:
    """Requests of a calibration: single ones, then bursts of growing size. None share a prefix with later ones."""
    coin, rows, at = random.Random(f"warm-up {seed}"), [], 0.0
    longest = min(limits.context, limits.pages * limits.page_size) - 24
    for size in (*[1] * ALONE, *[min(size, limits.max_batch) for size in (2, 2, 4, 4, 8, 16, 16, 32)]):
        for _ in range(min(size, limits.queue + 1)):
            prompt = "".join(coin.choice(text.vocabulary()) for _ in range(coin.randint(1, max(1, longest))))
            rows.append(Planned(at, prompt, coin.randint(8, 24)))
        at += 0.15 + 0.02 * size
    return rows


async def calibrated(port: int, server: Server, seed: int) -> IterationCost:
    """The cost of an iteration on this machine, from a warm-up through the server itself."""
    plan = warm_up(server.engine.limits, seed)
    seen = await send(port, plan, server)
    cost = fit(server.iterations[FIRST:])
    expected, _ = forecast(plan, server.engine.limits, cost)
    alone = [
        (mine, said) for mine, said in list(zip(seen, expected, strict=True))[2:ALONE] if mine.times and said.times
    ]
    late = median(mine.ttft - said.ttft for mine, said in alone) if alone else 0.0
    return replace(cost, request=max(0.0, late))


def capacity(plan: Sequence[Planned], limits: Limits, cost: IterationCost) -> float:
    """Requests per second at which the server is always busy: those of the plan, all waiting from the start."""
    at_once = [replace(each, arrival=0.0, cut=None) for each in plan]
    seen, _ = forecast(at_once, replace(limits, queue=len(plan)), cost)
    return len(plan) / max(each.times[-1] for each in seen)


def predicted(plan: Sequence[Planned], limits: Limits, cost: IterationCost) -> tuple[Summary, dict[str, float]]:
    """What a plan will do."""
    seen, iterations = forecast(plan, limits, cost)
    times = [(each, cost.seconds(each) + cost.turn + cost.delivery * len(each.new)) for each in iterations]
    return load.summary(seen), use(times)


# --- measuring ------------------------------------------------------------------------------------


async def measured(
    port: int, server: Server, rate: float, plan: Sequence[Planned], cost: IterationCost, every: float
) -> Row:
    """Send a plan whose forecast has been printed."""
    said, said_use = predicted(plan, server.engine.limits, cost)
    print(
        f"\n{rate:.3g} requests/s, {count_text(len(plan), 'request')}; predicted: TTFT p50 {_ms(said.ttft[50])}, p99 "
        f"{_ms(said.ttft[99])} ms, ITL p50 {_ms(said.itl[50])} ms, {said.tokens_per_s:,.0f} tokens/s, "
        f"{said.refused} refused",
        flush=True,
    )
    server.forget()
    before = server.engine.preemptions
    seen = await send(port, plan, server, every)
    for each in seen:
        each.times = [round(time, _DIGITS) for time in each.times]
        each.arrival = round(each.arrival, _DIGITS)
    found = load.summary(seen)
    spent = use([(each.iteration, seconds) for each, seconds in _with_pauses(server.iterations)])
    factor = sum(each.seconds for each in server.iterations) / sum(
        cost.seconds(each.iteration) for each in server.iterations
    )
    return Row(rate, said, found, factor, said_use, spent, tuple(seen), server.engine.preemptions - before)


def _with_pauses(iterations: Sequence[Timed]) -> list[tuple[Timed, float]]:
    """Each iteration with the seconds until the next begins, if that follows at once."""
    ends = [each.begun for each in iterations[1:]] + [math.inf]
    return [
        (each, end - each.begun if each.busy and end < math.inf else each.seconds)
        for each, end in zip(iterations, ends, strict=True)
    ]


def same_as_uncached(server: Server, plan: Sequence[Planned], seen: Sequence[Seen]) -> tuple[int, int]:
    """How many complete replies are those of the model without a cache, and how many there are. Slow: one pass per
    token."""
    import torch

    from course_runs.serving.paged_model import PagedModel

    compute = server.engine.compute
    assert isinstance(compute, PagedModel)
    known: dict[str, str] = {}
    right = total = 0
    for asked, got in zip(plan, seen, strict=True):
        if got.status != OK:
            continue
        tokens = text.encode(asked.prompt).tolist()
        while len(known.get(asked.prompt, "")) < asked.max_tokens:
            said = known.get(asked.prompt, "")
            whole = torch.tensor([tokens + text.encode(said).tolist()], device=compute.cache.keys.device)
            with torch.inference_mode():
                token = int(compute.model(whole)[0, -1, : compute.vocabulary].argmax())
            known[asked.prompt] = said + text.vocabulary()[token]
        total += 1
        right += got.text == known[asked.prompt][: asked.max_tokens]
    return right, total


# --- reporting ------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> list[str]:
    """Predicted beside measured, a line for each rate."""
    heads = ("TTFT p50 ms", "TTFT p99 ms", "ITL p50 ms", "ITL p99 ms", "tokens/s", "refused", "batch")
    lines = ["".join([f"{'':>11}", *(f"{head:>17}" for head in heads)])]
    lines.append("".join([f"{'requests/s':>11}", *(f"{'pred':>10}{'meas':>7}" for _ in heads)]))
    for row in rows:
        one, other = (_cells(row, which) for which in ("predicted", "measured"))
        lines.append(f"{row.rate:>11.3g}" + "".join(f"{a:>10}{b:>7}" for a, b in zip(one, other, strict=True)))
    return lines


def _times(one: Summary) -> list[str]:
    return [_ms(one.ttft[50]), _ms(one.ttft[99]), _ms(one.itl[50]), _ms(one.itl[99])]


def _cells(row: Row, which: str) -> list[str]:
    one, spent = getattr(row, which), getattr(row, f"{which}_use")
    return [*_times(one), f"{one.tokens_per_s:,.0f}", str(one.refused), f"{spent['batch']:.1f}"]


def ratios(rows: Sequence[Row]) -> list[str]:
    """Measured over predicted, as medians over the rates below the knee, and Little's law on the measured run."""
    lines = []
    last = knee(rows)
    below = [row for row in rows if last is None or row.rate < last] or rows[:1]
    for name, pick in (
        ("TTFT p50", lambda one: one.ttft[50]),
        ("ITL p50", lambda one: one.itl[50]),
        ("ITL p99", lambda one: one.itl[99]),
        ("tokens/s", lambda one: one.tokens_per_s),
    ):
        lines.append(
            f"{name:9} measured / predicted = {median(pick(r.measured) / pick(r.predicted) for r in below):.2f}"
        )
    factors = ", ".join(f"{row.factor:.2f}" for row in rows)
    lines.append(f"the runs' iterations took {factors} times as long as the warm-up promised")
    for row in rows:
        one = row.measured
        inside = row.measured_use["busy_requests"] / one.seconds
        lines.append(
            f"Little's law at {row.rate:.3g} requests/s: arrival rate × time in the system = {one.in_system:.2f}; "
            f"counted in the server: {inside:.2f} requests"
        )
    where = f"{last:.3g} requests/s" if last is not None else f"above {rows[-1].rate:.3g} requests/s"
    lines.append(f"knee (median TTFT more than {KNEE:g} times that of the lowest rate, or requests refused): {where}")
    return lines


def knee(rows: Sequence[Row]) -> float | None:
    """The first rate at which requests are refused or the median TTFT exceeds `KNEE` times the lowest rate's."""
    first = rows[0].measured.ttft[50]
    late = (row.rate for row in rows if row.measured.refused or row.measured.ttft[50] > KNEE * first)
    return next(late, None)


def as_data(row: Row) -> dict[str, object]:
    """A rate for the evidence; what each client saw is `requests`."""
    numbers: dict[str, object] = {"rate": row.rate, "preemptions": row.preemptions, "factor": row.factor}
    for which in ("predicted", "measured"):
        numbers[which] = {**asdict(getattr(row, which)), **getattr(row, f"{which}_use")}
    requests = [{"arrival": each.arrival, "status": each.status, "times": each.times} for each in row.seen]
    return {**numbers, "requests": requests}


def _ms(seconds: float) -> str:
    return "–" if math.isnan(seconds) else f"{1e3 * seconds:.1f}" if seconds < 1 else f"{1e3 * seconds:,.0f}"
