"""`./course run`: a program started through torchrun, with its limits of time and money, and its exit code passed
on."""

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.messages import FULL, Trouble, count_text, in_words
from course_runs import budget as money
from course_runs import launcher, preflight, retrying, torchrun
from course_runs.processes import sigterm_as_exit

STOPPED = 124  # as `timeout` says it


@dataclass(frozen=True)
class Limits:
    """What a run may take: minutes, dollars, and the price of a GPU's hour."""

    minutes: float | None = None
    dollars: float | None = None
    price: float | None = None


def start(
    program: str,
    arguments: Sequence[str],
    nproc: int,
    limits: Limits,
    starter: Callable[..., torchrun.Ended] = torchrun.run,
    retries: int = 0,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Run it to its end or its limit, and again up to `retries` times where that can help; the exit code."""
    if nproc < 1:
        raise Trouble(f"--nproc is {nproc}.", "give 1 or more")
    if left := launcher.left_over(os.environ):
        print(f"run: ignores {', '.join(left)}, set by another launcher: a run starts ranks of its own", flush=True)
    arguments = list(arguments)
    if program == "tour":  # it keeps to its limits stage by stage
        for flag, value in (("--minutes", limits.minutes), ("--max-cost", limits.dollars), ("--price", limits.price)):
            arguments += [flag, str(value)] if value is not None else []
        from course_runs import tour

        return tour.main(arguments)
    if program == "train" and any(word.partition("=")[0] == "--print-command" for word in arguments):
        from course_runs import commands, options  # nothing is started, so the GPUs need not be here

        return commands.show(options.arguments(arguments), nproc)
    seen = preflight.gpus()
    paid = min(nproc, len(seen)) if "cpu" not in arguments else 0
    known, source = money.usual_price(preflight.fact_name(seen[0].name) if seen else None)
    price = limits.price if limits.price is not None else known
    if limits.dollars is not None and not paid:
        paid = nproc if limits.price is not None else 0  # a price of one's own counts for CPUs too
    budget = money.budget(paid, price, limits.minutes, limits.dollars)
    timeout = None if budget.seconds == math.inf else budget.seconds
    if timeout is not None:
        cost = (
            f", ${money.dollars(timeout, paid, price):,.2f} at ${price:,.2f} per device and hour"
            if price and paid
            else ""
        )
        print(f"run: at most {count_text(round(timeout / 60, 1), 'minute')}{cost}", flush=True)
    with sigterm_as_exit():  # the run's processes are told, and may save
        if retries:
            ended = retrying.run(starter, program, arguments, nproc, timeout, retries, sleep)
        else:
            ended = starter(program, arguments, nproc, timeout=timeout)
    if ended.timed_out:
        print(
            f"run: stopped after {count_text(round(ended.seconds / 60, 1), 'minute')}, its limit; no process is "
            f"left.{_kept(program, arguments, ended)}"
        )
        return STOPPED
    if paid and price:
        print(
            f"run: {ended.seconds:,.0f} s, about ${money.dollars(ended.seconds, paid, price):,.2f} "
            f"({source if limits.price is None else 'your price'})"
        )
    if ended.code and (full := in_words("\n".join(ended.lines[-40:]))) and full[0] == FULL:
        print(f"run: {FULL}.\n  Way out: free some room, or name another disk with --out or TMPDIR", file=sys.stderr)
    elif not retries and (why := retrying.cause(ended)):
        print(f"run: {why}", file=sys.stderr)
    return _code(ended)


def _kept(program: str, arguments: Sequence[str], ended: torchrun.Ended) -> str:
    """Where a stopped run's last words lie, in words: it wrote no evidence, and its minutes were paid for."""
    if "--out" not in arguments:
        return ""
    path = Path(arguments[arguments.index("--out") + 1]) / f"stopped-{program}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(
            [f"{program} {' '.join(arguments)}", f"stopped after {ended.seconds:,.0f} s, its limit", *ended.lines]
        )
        + "\n",
        encoding="utf-8",
    )
    return f" What it said last: {path}"


def _code(ended: torchrun.Ended) -> int:
    """The program's own code where torchrun hides it: a refusal is 2, and 143 means that it saved because of
    SIGTERM."""
    if ended.code and any("Way out:" in line for line in ended.lines):
        return 2
    return retrying.SAVED if ended.code and retrying.SAVED in retrying.codes(ended) else ended.code
