"""Predicted step times against published ones, source by source: `./course bench planner`.

Errors are |predicted / published - 1|; the bias is their median with its sign. The baseline is one efficiency with the
pipeline's bubble, for each source the one that has the least mean error on the very rows that are judged: a planner
that does not beat it explains nothing.
"""

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, cast

import numpy as np

from bench.holdout import chosen_on
from bench.planner.rows import Skip, Timed
from bench.planner.sources import TARGETS, Target, read_folder
from course_lib.estimate.memory.layout import Degrees
from course_lib.parallel import planner

CHUNK = 20_000  # layouts a call: arrays that stay in a processor's cache
SMALLEST_GROUP = 3  # layouts, for a rank correlation and a regret
FAR_REGRET = 15  # per cent: more than that is a choice worth a look


class Told(TypedDict):
    """Everything about a source, as it is printed: errors in per cent."""

    rows: int
    rows_judged: int
    planner: dict[str, float | int | None]
    planner_on_fit_half: dict[str, float] | None
    one_constant: dict[str, float | int | None]
    rank_correlation_of_all_rows: float
    target_median: float | None
    ok: bool | None
    left_out: str


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of one source with the planner's and the constant's seconds."""

    name: str
    rows: tuple[Timed, ...]
    predicted: np.ndarray
    constant: np.ndarray

    @property
    def target(self) -> Target:
        """The median error that this source may have, and the rows that are left out."""
        return TARGETS.get(self.name, Target(None, "not known by name; taken as current Megatron Core"))

    @property
    def measured(self) -> np.ndarray:
        """Published seconds."""
        return np.array([row.seconds for row in self.rows])

    @property
    def judged(self) -> np.ndarray:
        """Rows that no constant was chosen on; all rows if there are no others."""
        return _judged(self.rows)

    def errors(self, seconds: np.ndarray, half: np.ndarray) -> dict[str, float]:
        """Median, mean and 90th percentile of the absolute error, and the median with its sign, in per cent."""
        signed = 100 * (seconds[half] / self.measured[half] - 1)
        size = np.abs(signed)
        return {
            "median": float(np.median(size)),
            "mean": float(np.mean(size)),
            "p90": float(np.quantile(size, 0.9)),
            "bias": float(np.median(signed)),
        }

    def choosing(self, seconds: np.ndarray) -> dict[str, float | int | None]:
        """Over groups of layouts of one model, batch and cluster: rank correlation, and the loss from taking the
        predicted best."""
        groups = defaultdict(list)
        for place, row in enumerate(self.rows):
            groups[row.group].append(place)
        ranks, regrets, staged = [], [], []
        for name, places in groups.items():
            if name and len(places) >= SMALLEST_GROUP:
                real, said = self.measured[places], seconds[places]
                ranks.append(correlation(real, said))
                taken = int(np.argmin(said))
                regrets.append(100 * (real[taken] / real.min() - 1))
                staged.append(np.max(self.rows[places[taken]].layout.pp) > 1)
        if not ranks:
            return {
                "groups": 0,
                "rank_correlation": None,
                "regret": None,
                "median_regret": None,
                "far": 0,
                "far_staged": 0,
            }
        far = np.array(regrets) > FAR_REGRET
        return {
            "groups": len(ranks),
            "rank_correlation": float(np.median(ranks)),
            "regret": float(np.mean(regrets)),
            "median_regret": float(np.median(regrets)),
            "far": int(far.sum()),
            "far_staged": int((far & np.array(staged)).sum()),
        }

    def as_json(self) -> Told:
        """Everything about the source."""
        half = self.judged
        fitted = ~half if (~half).any() else half
        return {
            "rows": len(self.rows),
            "rows_judged": int(half.sum()),
            "planner": {**self.errors(self.predicted, half), **self.choosing(self.predicted)},
            "planner_on_fit_half": self.errors(self.predicted, fitted) if (~half).any() else None,
            "one_constant": {**self.errors(self.constant, half), **self.choosing(self.constant)},
            "rank_correlation_of_all_rows": correlation(self.measured[half], self.predicted[half]),
            "target_median": self.target.median,
            "ok": None
            if self.target.median is None
            else self.errors(self.predicted, half)["median"] <= self.target.median,
            "left_out": self.target.note,
        }


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation; 0 if either is constant."""
    x, y = (_places(each) for each in (one, other))
    if len(one) < 2 or min(x.std(), y.std()) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _places(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values share the mean of their ranks."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def results(folder: Path) -> tuple[list[Result], list[Skip], dict[str, str]]:
    """Every source of a folder, the rows that are skipped, and the tables that are not read."""
    timed, skipped, unread = read_folder(folder)
    by_source: dict[str, list[Timed]] = defaultdict(list)
    for each in timed:
        row = replace(each, fitted=each.fitted and chosen_on("time", each.source, each.label))
        many = row.source == "vtrain" and row.cluster.gpus > row.cluster.per_node
        by_source["vtrain-many" if many else row.source].append(row)
    found = []
    for name, rows in by_source.items():
        predicted = np.array([float(planner.step_time(row.job, row.cluster, row.layout).seconds) for row in rows])
        found.append(Result(name, tuple(rows), predicted, _constant(rows)))
    parts = [each for each in found if each.name.startswith("playbook")]
    if len(parts) > 1:  # a choice is among all layouts of a model and a number of devices
        every = tuple(row for each in parts for row in each.rows)
        both = (np.concatenate([getattr(each, name) for each in parts]) for name in ("predicted", "constant"))
        found.append(Result("playbook-choice", every, *both))
    order = list(TARGETS)
    return sorted(found, key=lambda each: order.index(each.name) if each.name in order else len(order)), skipped, unread


def _constant(rows: Sequence[Timed]) -> np.ndarray:
    """Seconds by one efficiency and the bubble, the efficiency being the best in hindsight: that of the judged row with
    which the mean error of all of them is least."""
    ideal = np.array([row.ideal for row in rows])
    half = _judged(rows)
    slow = (np.array([row.seconds for row in rows]) / ideal)[half]
    errors = np.abs(slow[:, None] / slow[None, :] - 1).mean(axis=1)
    return ideal * float(slow[np.argmin(errors)])


def _judged(rows: Sequence[Timed]) -> np.ndarray:
    """Rows that no constant was chosen on; all rows if there are no others."""
    free = np.array([not row.fitted for row in rows])
    return free if free.any() else ~free


def speed(layouts: int = 200_000) -> dict[str, float]:
    """Layouts of a 70B model per CPU second, with memory; and seconds to search and rank all layouts on 512 devices."""
    job, many = planner.Job(model="llama3-70b", seq=8192, sequences=1024), planner.cluster("512xH100")
    table = planner.layouts(job, many)
    count = np.size(table.tp)
    start = time.perf_counter()
    np.argsort(planner.estimate(job, many, table).seconds)
    searched = time.perf_counter() - start
    names = ("tp", "sp", "cp", "pp", "dp", "ep", "zero", "replicas", "virtual", "microbatches")
    more = replace(table, **cast(Degrees, {name: np.tile(getattr(table, name), CHUNK // count) for name in names}))
    took = time.process_time()
    for _ in range(layouts // CHUNK):
        planner.estimate(job, many, more)
    took = time.process_time() - took
    return {
        "layouts_per_cpu_second": layouts // CHUNK * (CHUNK // count) * count / took,
        "layouts": count,
        "search_seconds": searched,
    }


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 if a target is missed, 2 if the folder does not exist."""
    parser = argparse.ArgumentParser(prog="course bench planner", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of published tables")
    parser.add_argument("--json", action="store_true", help="every figure as JSON")
    parser.add_argument("--rows", action="store_true", help="every row, with its seconds by cause")
    given = parser.parse_args(list(arguments))
    if not given.data.is_dir():
        parser.error(f"{given.data} is not a folder")
    found, skipped, unread = results(given.data)
    quick = speed()
    if given.json:
        reasons = Counter((each.source, each.reason) for each in skipped)
        text = {
            "sources": {each.name: each.as_json() for each in found},
            "skipped": [{"source": source, "reason": why, "rows": count} for (source, why), count in reasons.items()],
            "files_not_read": unread,
            "speed": quick,
        }
        print(json.dumps(text, indent=1))
    else:
        _show(found, skipped, unread, quick, given.rows)
    return int(any(each.as_json()["ok"] is False for each in found))


def _show(
    found: Sequence[Result], skipped: Sequence[Skip], unread: dict[str, str], quick: dict[str, float], every: bool
) -> None:
    print(
        f"{'source':20}{'rows':>6}{'judged':>7}{'median':>8}{'mean':>6}{'p90':>6}{'bias':>6}"
        f"{'constant: median':>18}{'mean':>6}{'rank':>6}{'regret':>9}  asked"
    )
    for each in found:
        told = each.as_json()
        ours, theirs = told["planner"], told["one_constant"]
        rank = "" if ours["rank_correlation"] is None else f"{ours['rank_correlation']:.2f}"
        regret = "" if ours["regret"] is None else f"{ours['regret']:.1f} %"
        asked = "" if told["ok"] is None else f"{told['target_median']:g} %: {'yes' if told['ok'] else 'NO'}"
        print(
            f"{each.name:20}{told['rows']:6}{told['rows_judged']:7}{ours['median']:6.1f} %{ours['mean']:6.1f}"
            f"{ours['p90']:6.1f}{ours['bias']:+6.1f}{theirs['median']:16.1f} %{theirs['mean']:6.1f}"
            f"{rank:>6}{regret:>9}  {asked}"
        )
        if ours["far"]:
            print(
                f"{'':20}choices that cost over {FAR_REGRET} %: {ours['far']} of {ours['groups']}, "
                f"{ours['far_staged']} of them a pipeline; the median choice costs {ours['median_regret']:.1f} %"
            )
        for row, seconds in zip(each.rows, each.predicted, strict=True) if every else ():
            parts = planner.step_time(row.job, row.cluster, row.layout).parts
            causes = " ".join(
                f"{name}={float(part):.3g}" for name, part in parts.items() if float(part) > 0.005 * seconds
            )
            print(
                f"    {row.seconds:9.3f}{seconds:9.3f}{100 * (seconds / row.seconds - 1):+7.1f} %  "
                f"{row.label}  [{causes}]"
            )
    print("left out, by source:")
    for each in found:
        print(f"    {each.name}: {each.target.note}")
    for (source, why), count in Counter((each.source, each.reason) for each in skipped).items():
        print(f"    skipped {count} of {source}: {why}")
    for name, why in unread.items():
        print(f"    not read {name}: {why}")
    print(
        f"{quick['layouts_per_cpu_second'] / 1e6:.2f} million layouts per CPU second with memory; "
        f"{quick['layouts']} layouts of 70B on 512 devices estimated and ranked in {quick['search_seconds']:.3f} s"
    )
