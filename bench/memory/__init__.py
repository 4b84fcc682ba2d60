"""Predicted memory against published memory, source by source: `./course bench memory`.

With `--data DIR` every known file in the folder is read as it is; without it, the few cited rows that ship with the
course. Errors are |predicted / published - 1|; where a framework has constants, the median is over the rows they were
not chosen on.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.holdout import chosen_on
from bench.memory.fitting import fitted
from bench.memory.parameters import FILE, WITHIN, Count, counts
from bench.memory.rows import Row, Skip, Tables, read, shipped
from bench.memory.sources import SOURCES, Source
from course_lib.estimate import memory
from course_lib.estimate.memory.frameworks import FRAMEWORKS, fits

MILLION_CONFIGURATIONS = 1_000_000
FAR = 0.13  # the error that nine rows of ten are to stay within


@dataclass(frozen=True, slots=True)
class Result:
    """What one source came to."""

    source: Source
    rows: tuple[Row, ...]
    skipped: dict[str, int]  # reason -> rows

    @property
    def judged(self) -> tuple[Row, ...]:
        """Rows that no constant was chosen on; all rows where there are no others."""
        free = (row for row in self.rows if not (row.fitted and chosen_on("memory", row.source, row.label)))
        return tuple(free) or self.rows

    @property
    def errors(self) -> list[float]:
        """Absolute errors of the judged rows, in per cent."""
        return [100 * abs(row.error) for row in self.judged]

    @property
    def median(self) -> float | None:
        """Median error in per cent; None without rows."""
        return float(np.median(self.errors)) if self.rows else None

    @property
    def far_off(self) -> dict[str, int]:
        """How many judged rows are off by more than `FAR`, how many of them too low, and how many each unprinted
        setting explains."""
        far = [row for row in self.judged if abs(row.error) > FAR]
        settings = sorted({name for row in far for name in row.otherwise})
        return {
            "rows": len(far),
            "too_low": sum(row.error < 0 for row in far),
            **{name: sum(row.explained(name, FAR) for row in far) for name in settings},
        }

    @property
    def ok(self) -> bool | None:
        """Whether the target is held; None where none is set or nothing was read."""
        return None if self.source.target is None or self.median is None else self.median <= self.source.target

    @property
    def left_out(self) -> str:
        """What the prediction leaves out, and the source's own conditions."""
        names = {row.framework for row in self.rows if row.framework}
        return "; ".join([*(FRAMEWORKS[name].left_out for name in sorted(names)), self.source.note])


def results(folder: Path) -> list[Result]:
    """Every source of a folder, predicted."""
    tables, found = Tables(folder), []
    for source in SOURCES:
        read_rows = read(source.name, source.file, source.reader, tables)
        reasons = Counter(each.reason for each in read_rows if isinstance(each, Skip))
        found.append(Result(source, tuple(each for each in read_rows if isinstance(each, Row)), dict(reasons)))
    return found


def not_read(folder: Path) -> list[str]:
    """Tables of the folder that say nothing of memory, or nothing that is known here."""
    return Tables(folder).others([*(source.file for source in SOURCES), "korthikanti_table3_table5.csv", FILE])


def refits(found: Sequence[Result]) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """Constants in use and constants chosen now, (slack, buffers in GiB), for every framework whose rows are there."""
    chosen = {}
    for result in found:
        half = [row for row in result.rows if row.fitted]
        if half:
            fit = fits()[half[0].framework]
            chosen[half[0].framework] = ((fit.slack, round(fit.buffers / 2**30, 6)), fitted(half))
    return chosen


def speed_seconds(configurations: int = MILLION_CONFIGURATIONS, repeats: int = 3) -> float:
    """Seconds to predict the peak of that many layouts of one model in one call, the quickest of some repeats."""
    draw, took = np.random.default_rng(0), []
    tp, pp, dp = (2 ** draw.integers(0, most, configurations) for most in (4, 4, 8))
    microbatches, batch = draw.integers(1, 65, configurations), draw.integers(1, 9, configurations)
    for _ in range(repeats):
        start = time.perf_counter()
        layout = memory.Layout(tp=tp, sp=True, pp=pp, dp=dp, zero=1, microbatches=microbatches)
        memory.peak_bytes("llama3-70b", batch, 4096, layout, kernels="flash", dropout=False, checkpointing="selective")
        took.append(time.perf_counter() - start)
    return min(took)


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 where a target is missed, 2 where the folder is not there."""
    parser = argparse.ArgumentParser(prog="course bench memory", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of published tables; without it, the rows that ship")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", action="store_true", help="choose the constants again, and compare with those in use")
    parser.add_argument("--rows", action="store_true", help="every row, published beside predicted")
    given = parser.parse_args(list(arguments))
    folder = given.data or shipped()
    if not folder.is_dir():
        parser.error(f"{folder} is not a folder; give one that holds files such as {SOURCES[0].file}")
    found, models, seconds = results(folder), counts(Tables(folder)), speed_seconds()
    chosen = refits(found) if given.fit else {}
    if given.json:
        print(json.dumps({**_as_json(found, models, seconds, chosen), "files_not_read": not_read(folder)}, indent=1))
    else:
        _show(found, models, seconds, chosen, given.rows)
        for name in not_read(folder):
            print(f"not read: {name} (no memory in it that is predicted here)")
    wrong = any(result.ok is False for result in found) or any(now != kept for kept, now in chosen.values())
    return int(wrong)


def _as_json(
    found: Sequence[Result], models: Sequence[Count], seconds: float, chosen: Mapping[str, tuple[object, object]]
) -> dict[str, object]:
    return {
        "sources": {
            result.source.name: {
                "median_error_percent": None if result.median is None else round(result.median, 3),
                "p90_error_percent": round(float(np.quantile(result.errors, 0.9)), 3) if result.rows else None,
                "rows": len(result.rows),
                "rows_judged": len(result.judged) if result.rows else 0,
                "rows_fitted_on": sum(row.fitted for row in result.rows),
                "target_percent": result.source.target,
                "ok": result.ok,
                "far_off": result.far_off if result.rows else {},
                "skipped": result.skipped,
                "left_out": result.left_out,
            }
            for result in found
        },
        "parameters": {
            "models": len(models),
            "within_half_a_percent": sum(one.ok for one in models),
            "others": {
                one.name: {"error_percent": round(100 * one.error, 3), "why": one.explanation}
                for one in models
                if not one.ok
            },
        },
        "refit": {name: {"in_use": kept, "chosen_now": now} for name, (kept, now) in chosen.items()},
        "million_configurations_seconds": round(seconds, 3),
    }


def _show(
    found: Sequence[Result],
    models: Sequence[Count],
    seconds: float,
    chosen: Mapping[str, tuple[object, object]],
    every: bool,
) -> None:
    print(f"{'source':20} {'rows':>5} {'judged':>6} {'median':>8} {'p90':>8}  held to")
    for result in found:
        if result.rows:
            verdict = "" if result.ok is None else f"{result.source.target:g} %: {'yes' if result.ok else 'NO'}"
            high = np.quantile(result.errors, 0.9)
            print(
                f"{result.source.name:20} {len(result.rows):5} {len(result.judged):6} {result.median:6.1f} % "
                f"{high:6.1f} %  {verdict}"
            )
            print(f"{'':20} left out: {result.left_out}")
            rows, low, *settings = result.far_off.items()
            if rows[1]:
                causes = "".join(f"; with {name} {count} of them come within that" for name, count in settings)
                print(
                    f"{'':20} more than {100 * FAR:g} % off: {rows[1]}, of which {low[1]} are predicted too low{causes}"
                )
        else:
            print(f"{result.source.name:20}     -      -        -        -")
        for reason, count in result.skipped.items():
            print(f"{'':20} skipped {count}: {reason}")
        for row in result.rows if every else ():
            print(
                f"{'':20} {row.measured:10.4g} {row.predicted:10.4g} {100 * row.error:+7.1f} %  "
                f"{'fit  ' if row.fitted else ''}{row.label}"
            )
    others = [one for one in models if not one.ok]
    print(
        f"parameters: {len(models) - len(others)} of {len(models)} dense models within {100 * WITHIN:g} % of the "
        f"printed count"
    )
    for one in others:
        print(f"{'':20} {one.name} {100 * one.error:+.2f} %: {one.explanation or 'unexplained'}")
    for name, (kept, now) in chosen.items():
        print(f"constants of {name}: in use {kept}, chosen now {now}{'' if kept == now else '  DIFFERENT'}")
    print(f"a million configurations: {seconds:.2f} s")
