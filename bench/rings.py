"""The course's rings on real processes against gloo's own all-reduce, in interleaved repeats: `./course bench rings`.

Each repeat times one call of every contender on the same processes and size, one after the other, so that what else the
machine does falls on all alike. A figure is the median over repeats of the ratio gloo / ring within one repeat: above
one, the ring is faster.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from course_lib.cluster import Comm
from course_runs.real_ranks import launch

SIZES = (1_000_000, 16_000_000, 64_000_000, 256_000_000)  # bytes on each rank
RANKS = (2, 4)
REPEATS = 20
CONTENDERS = ("ring", "pipelined ring", "its messages alone")  # the last adds nothing up: no ring can be faster
TARGET = 64_000_000, "pipelined ring", 1.0  # (bytes, contender, least ratio to gloo)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One contender at one size against gloo, over interleaved repeats."""

    ranks: int
    nbytes: int
    contender: str
    seconds: float  # median of the slowest rank
    gloo_seconds: float
    ratio: float  # median of gloo / contender: above 1 the contender is faster
    low: float  # quartiles of the ratio
    high: float

    @property
    def ok(self) -> bool | None:
        """Whether it holds what it is held to; None where nothing is asked."""
        size, name, least = TARGET
        return self.ratio >= least if (self.nbytes, self.contender) == (size, name) else None


def times_here(comm: Comm, nbytes: int, repeats: int) -> list[list[float]]:
    """Seconds on this rank, a row a repeat: gloo, then `CONTENDERS`. One more repeat runs first and is left out."""
    import torch

    from course_lib.cluster.collectives import pipelined_ring_all_reduce, ring_all_reduce, swap

    torch.set_num_threads(1)
    x, scratch = torch.zeros(nbytes // 4), torch.zeros(-(-nbytes // 4 // comm.size))

    def exchange() -> None:
        chunk, right, left = x[: scratch.numel()], (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for _ in range(2 * (comm.size - 1)):
            swap(comm, chunk, right, scratch, left)

    runs = {
        "gloo": lambda: comm.all_reduce(x),
        "ring": lambda: ring_all_reduce(comm, x),
        "pipelined ring": lambda: pipelined_ring_all_reduce(comm, x, scratch=scratch),
        "its messages alone": exchange,
    }
    rows = []
    for _ in range(repeats + 1):
        row = []
        for reduce in runs.values():
            comm.barrier()
            start = time.perf_counter()
            reduce()
            row.append(time.perf_counter() - start)
        rows.append(row)
    return rows[1:]


def ratios(ranks: int, nbytes: int, repeats: int = REPEATS) -> list[Ratio]:
    """Both rings, and a ring's messages without its sums, against gloo at one size. A repeat's time is that of its
    slowest rank."""
    by_rank = launch(times_here, ranks, args=(nbytes, repeats), timeout=600.0).results
    rows = [[max(each) for each in zip(*(rank[repeat] for rank in by_rank), strict=True)] for repeat in range(repeats)]
    found = []
    for place, name in enumerate(CONTENDERS, 1):
        low, middle, high = statistics.quantiles([row[0] / row[place] for row in rows], n=4)
        mine, gloo = (statistics.median(row[at] for row in rows) for at in (place, 0))
        found.append(Ratio(ranks, nbytes, name, mine, gloo, middle, low, high))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 where a target is missed. `--ranks`, `--sizes` in MB, `--repeats`."""
    parser = argparse.ArgumentParser(prog="course bench rings", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=[size / 1e6 for size in SIZES], help="MB on each rank"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    if given.repeats < 2 or min(given.ranks) < 2 or min(given.sizes) <= 0:
        parser.error("a ratio needs 2 repeats, 2 ranks and a size above 0 at least")
    found: list[Ratio] = []
    for ranks in given.ranks:
        for size in given.sizes:
            print(f"{ranks} ranks, {size:g} MB …", file=sys.stderr, flush=True)
            found += ratios(ranks, int(size * 1e6) // 4 * 4, given.repeats)
    _show(found, given.json)
    return int(any(each.ok is False for each in found))


def _show(found: Sequence[Ratio], as_json: bool) -> None:
    if as_json:
        print(json.dumps([{**asdict(each), "ok": each.ok} for each in found], indent=1))
        return
    rows: list[Sequence[object]] = [
        ("ranks", "MB", "contender", "median s", "gloo s", "gloo / contender", "quartiles", "")
    ]
    for each in found:
        held = {None: "", True: "held to 1.0: yes", False: "held to 1.0: NO"}[each.ok]
        rows.append(
            (
                each.ranks,
                f"{each.nbytes / 1e6:g}",
                each.contender,
                f"{each.seconds:.4f}",
                f"{each.gloo_seconds:.4f}",
                f"{each.ratio:.2f}",
                f"{each.low:.2f} to {each.high:.2f}",
                held,
            )
        )
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(value).ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
