"""Where the time of a step goes, from traces of kernels: hidden and exposed communication, idle time, the slow rank.

`torch.profiler` writes such a trace for each rank, in the format of chrome://tracing: a list of events with a name, a
start and a length in microseconds. On a GPU, kernels and copies count; on a CPU, PyTorch's operations, and gloo's calls,
as in the course's own traced runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.cluster.intervals import STARTING, Interval, sorted_out, union
from course_lib.estimate.units import US, duration_text, number_text, percent_text
from course_lib.messages import Trouble, count_text
from course_lib.operate.faults.stragglers import find_straggler
from course_lib.operate.recordings.report import Items, Report, number, rank_in, whole, word

KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of what runs on a GPU
LITTLE_HIDDEN, MUCH_IDLE, MUCH_EXPOSED = 0.1, 0.2, 0.05  # shares that are worth a sentence


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its time in seconds."""

    name: str
    start: float
    end: float
    category: str
    lane: tuple[str, str]  # process and thread


@dataclass(frozen=True, slots=True)
class Traced:
    """One rank's trace: intervals in seconds from the first kernel on."""

    intervals: Mapping[str, list[Interval]]  # "compute" and "communication"
    steps: tuple[Interval, ...]
    names: Mapping[str, float]  # seconds by kernel, the longest first
    device: str

    def by_step(self) -> dict[str, np.ndarray]:
        """Seconds of each step, and of its parts: computing, exposed and hidden communication, and neither."""
        start, end = np.array(self.steps).T
        compute, talk = (_covered(self.intervals[kind], start, end) for kind in ("compute", "communication"))
        both = _covered(union([*self.intervals["compute"], *self.intervals["communication"]]), start, end)
        bare = both - compute
        return {
            "step": end - start,
            "compute": compute,
            "exposed": bare,
            "hidden": talk - bare,
            "idle": end - start - both,
        }


def _covered(parts: Sequence[Interval], start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Seconds of sorted, disjoint `parts` from each start to its end."""
    if not parts:
        return np.zeros(len(start))
    begins, stops = np.array(parts).T
    total = np.concatenate([[0.0], np.cumsum(stops - begins)])

    def until(at: np.ndarray) -> np.ndarray:
        place = np.searchsorted(begins, at, side="right")
        return total[place] - np.where(place > 0, np.maximum(stops[place - 1] - at, 0.0), 0.0)

    return until(end) - until(start)


def explain_traces(traces: Mapping[str, Any]) -> Report:
    """The report on one trace for each rank, by file name. Trouble where a trace has no kernel and no operation."""
    report = Report("trace", list(traces))
    ranks: dict[int, Traced] = {}
    for name, content in traces.items():
        about = content.get("distributedInfo") if isinstance(content, dict) else None
        rank = whole(about.get("rank"), -1) if isinstance(about, dict) else -1
        rank = rank if rank >= 0 else (rank_in(name) if len(traces) > 1 else None) or 0
        rank = rank if rank not in ranks else max(ranks) + 1
        ranks[rank] = _traced(content, name, report)
    report.drawn = dict(sorted(ranks.items()))
    tables = {rank: each.by_step() for rank, each in report.drawn.items()}
    seconds = {rank: {name: float(each.mean()) for name, each in table.items()} for rank, table in tables.items()}
    report.numbers = {
        "ranks": list(seconds),
        "steps": {rank: len(each.steps) for rank, each in report.drawn.items()},
        "seconds_per_step": seconds,
        "longest": {rank: dict(list(each.names.items())[:5]) for rank, each in report.drawn.items()},
    }
    for rank, parts in list(seconds.items())[:16]:
        _rank(report, rank, parts, report.drawn[rank])
    _slow(report, tables)
    return report


def _traced(content: Any, name: str, report: Report) -> Traced:
    events, bad = _events(content["traceEvents"] if isinstance(content, dict) else content)
    if bad:
        left = count_text(bad, "event")
        report.notes.append(f"{word(name)}: {left} left out, for a time that is no number or a length below zero.")
    on_gpu = [each for each in events if each.category in KERNELS]
    shown = on_gpu or _operations(events)
    if not shown:
        raise Trouble(
            f"has {count_text(len(events), 'usable event')}, none of them a GPU kernel or an operation of PyTorch.",
            "record with torch.profiler (ProfilerActivity.CPU and CUDA), and export_chrome_trace",
        )
    begin = min(each.start for each in shown)
    kernels = [(each.name, each.start, each.end) for each in shown]
    marks = sorted({(each.start - begin, each.end - begin) for each in events if _is_step(each, bool(on_gpu))})
    total: Counter[str] = Counter()
    for each in shown:
        total[word(each.name, 60)] += each.end - each.start  # type: ignore[assignment]
    return Traced(
        intervals=sorted_out(kernels, 0.0 if on_gpu else STARTING),
        steps=tuple(marks) or ((0.0, max(each.end for each in shown) - begin),),
        names=dict(total.most_common()),
        device="GPU" if on_gpu else "CPU",
    )


def _events(rows: object) -> tuple[list[Event], int]:
    """Complete events ("X"), and pairs of a beginning and an end ("B" and "E"); and how many cannot be used."""
    found: list[Event] = []
    begun: dict[tuple[str, str], list[tuple[str, float | None, str]]] = {}
    bad = 0
    for each in Items().rows(rows, "traceEvents"):
        kind, start = each.get("ph"), number(each.get("ts"))
        name, category = str(each.get("name", ""))[:400], str(each.get("cat", ""))[:40]
        lane = (str(each.get("pid"))[:40], str(each.get("tid"))[:40])
        if kind == "B":
            begun.setdefault(lane, []).append((name, start, category))
            continue
        if kind == "E" and begun.get(lane):
            name, since, category = begun[lane].pop()
            took = start - since if start is not None and since is not None else None
            start = since
        elif kind == "X":
            took = number(each.get("dur"))
        else:
            continue
        if start is None or took is None or took < 0:
            bad += 1
            continue
        found.append(Event(name, start * US, (start + took) * US, category, lane))
    return found, bad


def _operations(events: Sequence[Event]) -> list[Event]:
    """On a CPU: gloo's calls, and PyTorch's operations with nothing else inside, so that none of them waits."""
    ordered = sorted(events, key=lambda each: (each.lane, each.start, -each.end))
    around: list[int] = []  # places of the events that the next one may be inside of
    others = set()  # places of those that have something else inside
    for place, each in enumerate(ordered):
        while around and (ordered[around[-1]].lane != each.lane or ordered[around[-1]].end <= each.start):
            around.pop()
        if not each.name.startswith("aten::"):
            for outer in reversed(around):
                if outer in others:
                    break
                others.add(outer)
        around.append(place)
    kept = [each for place, each in enumerate(ordered) if place not in others]
    return [each for each in kept if each.name.startswith(("aten::", "gloo:"))]


def _is_step(event: Event, gpu: bool) -> bool:
    """A step as torch.profiler marks it; on a GPU, its mark there, because kernels run later than their calls."""
    return bool(re.match(r"ProfilerStep#", event.name)) and (event.category == "gpu_user_annotation") is gpu


def _rank(report: Report, rank: int, parts: Mapping[str, float], traced: Traced) -> None:
    """What one rank's step consists of."""
    step, talk = parts["step"], parts["exposed"] + parts["hidden"]
    steps = f"a step of {duration_text(step)}" if len(traced.steps) > 1 else f"{duration_text(step)}"
    said = f"Rank {rank}: in {steps} the {traced.device} computes for {duration_text(parts['compute'])}"
    if not talk:
        said += " and does not communicate."
        report.add(f"{said} {_idle(parts)}", "03", "starved for data" if parts["idle"] > MUCH_IDLE * step else "")
        return
    hidden = parts["hidden"] / talk
    said += (
        f" and communicates for {duration_text(talk)}, of which {duration_text(parts['hidden'])} are hidden behind "
        f"computing and {duration_text(parts['exposed'])} exposed ({percent_text(parts['exposed'] / step, 2)} of the time)."
    )
    exposes = parts["exposed"] > MUCH_EXPOSED * step
    fault = (
        "no overlap"
        if hidden < LITTLE_HIDDEN and exposes
        else "starved for data"
        if parts["idle"] > MUCH_IDLE * step
        else ""
    )
    report.add(f"{said} {_idle(parts)}", "15" if fault != "no overlap" else "07", fault)


def _idle(parts: Mapping[str, float]) -> str:
    return f"It does neither for {duration_text(parts['idle'])} ({percent_text(parts['idle'] / parts['step'], 2)})."


def _slow(report: Report, tables: Mapping[int, Mapping[str, np.ndarray]]) -> None:
    """The rank whose own work is slow: computing, and neither computing nor communicating (data, host)."""
    if len(tables) < 2:
        report.notes.append("One rank's trace cannot tell whom it waits for: give the traces of all ranks.")
        return
    steps = min(len(each["step"]) for each in tables.values())
    own = {"computing": "compute", "waiting for data or the host": "idle"}
    times = {words: np.stack([each[part][:steps] for each in tables.values()], axis=1) for words, part in own.items()}
    slow = find_straggler(times)  # type: ignore[arg-type]
    if slow is None:
        report.add("No rank is slow: the ranks' own work takes about the same time in every step.", "14")
        return
    rank = list(tables)[slow.rank]
    report.numbers["slow"] = {"rank": rank, "ratio": slow.ratio, "part": slow.part}
    report.add(
        f"Rank {rank} is slow: its own work takes {number_text(slow.ratio)} times the others' median, most of it in "
        f"{slow.part}. The other ranks wait for it inside their collectives.",
        "14",
        "slow GPU" if slow.part == "computing" else "slow loader on one rank",
    )
