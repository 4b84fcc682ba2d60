"""Where the time of a step goes, from traces of kernels: hidden and exposed communication, idle time, the slow rank.

`torch.profiler` writes such a trace for each rank, in the format of chrome://tracing: a list of events with a name, a
start and a length in microseconds. On a GPU, kernels and copies count; on a CPU, PyTorch's operations and gloo's calls,
as in the course's own traced runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from course_app.recordings.report import Report, rank_in, whole, word
from course_lib.cluster.intervals import DIGITS, STARTING, Interval, sorted_out, union
from course_lib.estimate.units import duration_text, number_text, percent_text
from course_lib.messages import Trouble, count_text
from course_lib.operate.faults.stragglers import find_straggler
from course_runs.trace_events import events_of, operations

KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of what runs on a GPU
LITTLE_HIDDEN, MUCH_EXPOSED, MUCH_IDLE = 0.1, 0.05, 0.2  # of communication, and of a step: worth a cause
MOST_RANKS = 16  # that get a sentence of their own


@dataclass(frozen=True, slots=True)
class Traced:
    """One rank's trace, in seconds from its first kernel on."""

    intervals: Mapping[str, list[Interval]]  # "compute" and "communication"
    steps: tuple[Interval, ...]
    longest: Mapping[str, float]  # seconds of the kernels that took longest
    device: str

    def by_step(self) -> dict[str, np.ndarray]:
        """Seconds of each step, and of its parts: computing, exposed and hidden communication, and neither."""
        start, end = np.array(self.steps).T
        compute, talk = (_covered(self.intervals[kind], start, end) for kind in ("compute", "communication"))
        both = _covered(union([*self.intervals["compute"], *self.intervals["communication"]]), start, end)
        parts = {"step": end - start, "compute": compute, "exposed": both - compute, "hidden": talk - both + compute}
        parts["idle"] = end - start - both
        return {name: np.maximum(each, 0.0).round(DIGITS) for name, each in parts.items()}


def _covered(parts: Sequence[Interval], start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Seconds of sorted, disjoint `parts` from each start to its end."""
    begins, stops = np.array(parts or [(0.0, 0.0)]).T
    total = np.concatenate([[0.0], np.cumsum(stops - begins)])
    place = np.searchsorted(begins, [start, end], side="right")
    before = total[place] - np.where(place > 0, np.maximum(stops[place - 1] - [start, end], 0.0), 0.0)
    return before[1] - before[0]


def explain_traces(traces: Mapping[str, object]) -> Report:
    """The report on one trace for each rank, by file name. Trouble where a trace has no kernel and no operation."""
    report = Report("trace", list(traces))
    ranks: dict[int, Traced] = {}
    for name, content in traces.items():
        about = content.get("distributedInfo") if isinstance(content, dict) else None
        rank = whole(about.get("rank"), -1) if isinstance(about, dict) else rank_in(name) if len(traces) > 1 else 0
        rank = max(ranks, default=-1) + 1 if rank is None or rank < 0 or rank in ranks else rank
        ranks[rank] = _traced(content, report)
    report.traced = ranks = dict(sorted(ranks.items()))
    tables = {rank: each.by_step() for rank, each in ranks.items()}
    seconds = {rank: {name: float(each.mean()) for name, each in table.items()} for rank, table in tables.items()}
    report.numbers = {"steps": {rank: len(each.steps) for rank, each in ranks.items()}, "seconds_per_step": seconds}
    report.numbers["longest"] = {rank: each.longest for rank, each in ranks.items()}
    starved = all(each["idle"] > MUCH_IDLE * each["step"] for each in seconds.values())
    for rank in list(ranks)[:MOST_RANKS]:
        _rank(report, f"Rank {rank}", seconds[rank], ranks[rank], starved)
    _slow(report, tables)
    return report


def _traced(content: object, report: Report) -> Traced:
    rows = content["traceEvents"] if isinstance(content, dict) else content
    events, bad = events_of(report.rows(rows, "traceEvents"))
    if bad:
        report.notes.append(f"{count_text(bad, 'event')} left out: a time that is no number, or a length below zero.")
    on_gpu = [each for each in events if each.category in KERNELS]
    shown = on_gpu or operations(events)
    if not shown:
        found = f"has {count_text(len(events), 'usable event')}, none of them a GPU kernel or an operation of PyTorch."
        raise Trouble(found, "record with torch.profiler (ProfilerActivity.CPU and CUDA), and export_chrome_trace")
    first, last = min(each.start for each in shown), max(each.end for each in shown)
    category = "gpu_user_annotation" if on_gpu else "user_annotation"  # on a GPU, kernels run later than their calls
    marks: dict[str, tuple[float, float]] = {}  # a GPU's streams have a mark of the same step each
    for each in events:
        if each.name.startswith("ProfilerStep#") and each.category == category:
            start, end = marks.get(each.name, (each.start, each.end))
            marks[each.name] = min(start, each.start), max(end, each.end)
    total: dict[str, float] = {}
    for each in shown:
        total[each.name] = total.get(each.name, 0.0) + each.end - each.start
    longest = sorted(total, key=total.__getitem__, reverse=True)[:5]
    return Traced(
        intervals=sorted_out([(each.name, each.start, each.end) for each in shown], 0.0 if on_gpu else STARTING),
        steps=tuple(sorted((a - first, b - first) for a, b in marks.values())) or ((0.0, last - first),),
        longest={word(name, 60): total[name] for name in longest},
        device="GPU" if on_gpu else "CPU",
    )


def _rank(report: Report, who: str, parts: Mapping[str, float], traced: Traced, starved: bool) -> None:
    """What one rank's step consists of; `starved`: every rank does nothing for a fifth of its step."""
    step, talk = parts["step"], parts["exposed"] + parts["hidden"]
    time = {name: duration_text(seconds) for name, seconds in parts.items()}
    share = {name: percent_text(seconds / step if step else 0.0, 2) for name, seconds in parts.items()}
    span = f"a step of {time['step']}" if len(traced.steps) > 1 else time["step"]
    said = f"{who}: in {span} the {traced.device} computes for {time['compute']} and communicates for "
    said += duration_text(talk)
    if talk:
        said += f", of which {time['hidden']} are hidden behind computing and {time['exposed']} exposed"
        said += f" ({share['exposed']} of the time)"
    fault = "starved for data" if starved else ""
    if parts["hidden"] < LITTLE_HIDDEN * talk and parts["exposed"] > MUCH_EXPOSED * step:
        fault = "no overlap"
    chapter = {"starved for data": "01", "no overlap": "07"}.get(fault, "15")
    report.add(f"{said}. It does neither for {time['idle']} ({share['idle']}).", chapter, fault)


def _slow(report: Report, tables: Mapping[int, Mapping[str, np.ndarray]]) -> None:
    """The rank whose own work is slow: computing, and neither computing nor communicating (data, host)."""
    if len(tables) < 2:
        report.notes.append("One rank's trace cannot tell whom it waits for: give the traces of all ranks.")
        return
    steps = min(len(each["step"]) for each in tables.values())
    own = {"computing": "compute", "waiting for data or the host": "idle"}
    times = {said: np.stack([each[part][:steps] for each in tables.values()], axis=1) for said, part in own.items()}
    slow = find_straggler({said: each.tolist() for said, each in times.items()})
    if slow is None:
        report.add("No rank is slow: the ranks' own work takes about the same time in every step.", "14")
        return
    rank = list(tables)[slow.rank]
    report.numbers["slow"] = {"rank": rank, "ratio": slow.ratio, "part": slow.part}
    said = f"Rank {rank} is slow: its own work takes {number_text(slow.ratio)} times the others' median, most of it in "
    said += f"{slow.part}. The other ranks wait for it inside their collectives."
    report.add(said, "14", "slow GPU" if slow.part == "computing" else "slow loader on one rank")
