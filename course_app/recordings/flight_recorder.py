"""Who waits for whom, and who comes late, from the flight recorders of several ranks.

Every rank keeps its last calls of collectives in a ring buffer (TORCH_FR_BUFFER_SIZE) and writes them to a file when a
call times out. Numbers of calls count within a group. NCCL's record says when a call has finished; gloo's does not, so
there a call counts as finished once every rank of its group has entered it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from course_app.recordings.report import Report, line_of, number, rank_in, ranks_text, whole, word
from course_lib.estimate.units import duration_text, number_text
from course_lib.messages import Trouble
from course_lib.operate.faults.hangs import Call, waits, who_hangs
from course_lib.operate.faults.stragglers import find_straggler

VERSION = "2"  # of the format, before the point; a new number after the point only adds fields
FEWEST = 3  # calls of all ranks from which a slow rank can be told
SIZES_DIFFER = re.compile(r"all_?to_?all|scatter|gather|coalesced", re.IGNORECASE)  # between ranks, rightly
CLOCKS = "The ranks' clocks differ, so who comes late cannot be told; set TORCH_NCCL_ENABLE_TIMING=1."
GLOO = "Gloo's record does not say when a call ends: it counts as finished once each rank here is in it."


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded call of one rank."""

    group: str
    number: int
    operation: str
    elements: int
    finished: bool | None  # None: the recorder does not say
    created: float  # s
    seconds: float | None  # in the call, where timing was enabled
    line: str  # of the program


@dataclass(slots=True)
class Job:
    """What the dumps of one job say together."""

    report: Report
    records: dict[int, list[Entry]] = field(default_factory=dict)  # by rank
    groups: dict[str, set[int]] = field(default_factory=dict)  # the ranks of each group
    labels: dict[str, str] = field(default_factory=dict)  # how each group is called

    def add(self, dump: Mapping[str, object], rank: int) -> None:
        """The entries of one rank. Trouble for another version of the format."""
        version, config = word(dump.get("version", "none"), 12), dump.get("pg_config")
        if version.split(".")[0] != VERSION:
            raise Trouble(f"has version {version}; version {VERSION} is known.", "use that torch's own torchfrtrace")
        members: dict[str, list[int]] = {}
        for name, about in (config if isinstance(config, dict) else {}).items():
            listed = about.get("ranks") if isinstance(about, dict) else None
            members[str(name)] = [int(each) for each in re.findall(r"\d{1,7}", str(listed)[:1_000_000])]
        pairs: Counter[str] = Counter()
        self.records[rank] = found = []
        for each in self.report.rows(dump.get("entries", []), "entries"):
            pair = each.get("process_group")
            name, label = map(str, pair) if isinstance(pair, (list, tuple)) and len(pair) == 2 else ("", "undefined")
            inside = members.get(name) or (members.get("", []) if label == "default_pg" else [])
            group = f"{word(name, 20)} {sorted(inside)}"[:200]
            self.labels[group] = (
                "all ranks" if label == "default_pg" else f"group {word(name if label == 'undefined' else label)}"
            )
            self.groups.setdefault(group, set()).update([*inside, rank])
            found.append(self._entry(each, group, inside, pairs))

    def _entry(self, each: Mapping[str, object], group: str, members: Sequence[int], pairs: Counter[str]) -> Entry:
        backend, _, operation = word(each.get("profiling_name")).partition(":")
        finished = True if each.get("state") == "completed" else None if backend == "gloo" else False
        place, sizes, elements = whole(each.get("collective_seq_id")), each.get("input_sizes"), 0
        message = re.fullmatch(r"(send|recv) (\d{1,6})(?:->|<-)(\d{1,6})", operation)
        if message:  # a pair of ranks is a group of its own, in which unfinished messages are counted
            one, other = (members[int(at)] if int(at) < len(members) else int(at) for at in message.groups()[1:])
            source, target = (one, other) if message[1] == "send" else (other, one)
            label = f"the messages from rank {source} to rank {target}"
            group, operation = f"{group} {source}->{target}", "message"
            self.labels[group], self.groups[group] = label, {source, target}
            place = pairs[group]
            pairs[group] += not finished
        elif not SIZES_DIFFER.search(operation) and isinstance(sizes, (list, tuple)):
            shapes = [[whole(dim) for dim in size] for size in sizes if isinstance(size, (list, tuple))]
            elements = sum(int(np.prod(shape, dtype=object)) for shape in shapes)
        created, took = number(each.get("time_created_ns")) or 0.0, number(each.get("duration_ms"))
        seconds, line = None if took is None or took < 0 else took / 1e3, line_of(each.get("frames"))
        return Entry(group, place, operation or "call", elements, finished, created / 1e9, seconds, line)

    def calls(self) -> dict[int, list[Call]]:
        """The calls as `who_hangs` takes them: those with one number, such as a coalesced one's parts, are one call.

        Of a group's calls that are not finished, a rank waits in the first: the others are only queued behind it.
        """
        joined: dict[int, dict[tuple[str, int], list[Entry]]] = {rank: {} for rank in self.records}
        first: dict[tuple[int, str], int] = {}  # older calls have left the ring buffer
        for rank, entries in self.records.items():
            for each in entries:
                joined[rank].setdefault((each.group, each.number), []).append(each)
                first[rank, each.group] = min(each.number, first.get((rank, each.group), each.number))

        def call(group: str, place: int, parts: Sequence[Entry]) -> Call:
            inside = (rank for rank in self.groups[group] if rank in joined and first.get((rank, group), 0) <= place)
            all_in = parts[0].finished is None and all((group, place) in joined[rank] for rank in inside)
            name = "+".join(dict.fromkeys(each.operation for each in parts))
            finished = all_in or all(each.finished for each in parts)
            return group, place, name, sum(each.elements for each in parts), finished

        found: dict[int, list[Call]] = {}
        for rank, mine in joined.items():
            waits_in: set[str] = set()
            found[rank] = []
            for group, place, name, elements, finished in (call(*key, parts) for key, parts in mine.items()):
                found[rank].append((group, place, name, elements, finished or group in waits_in))
                waits_in |= set() if finished else {group}
        return found


def explain_dumps(dumps: Mapping[str, Mapping[str, object]]) -> Report:
    """The report on one dump for each rank, by file name. Trouble for another version of the format."""
    report = Report("flight recorder", list(dumps))
    job = Job(report)
    for name, dump in dumps.items():
        rank = rank_in(name)
        if rank is None or rank in job.records:
            rank = next(each for each in range(len(dumps) + 1) if each not in job.records)
            report.notes.append(f"{word(name)}: the end of its name is no rank of its own; it counts as rank {rank}.")
        job.add(dump, rank)
    report.numbers["calls"] = {rank: len(entries) for rank, entries in sorted(job.records.items())}
    _hang(job)
    _slow(job)
    return report


def _hang(job: Job) -> None:
    """Who waits for whom, and the kind of hang with the ranks that cause it."""
    report, records, calls = job.report, job.records, job.calls()
    groups = {name: sorted(ranks) for name, ranks in job.groups.items()}
    waiting = waits(groups, calls)
    lines = {(rank, each.group, each.number): each.line for rank, entries in records.items() for each in entries}
    names = ("rank", "waits_for", "call", "operation", "group")
    rows = [(rank, list(others), call[1], call[2], job.labels[call[0]]) for rank, others, call in waiting]
    report.numbers["waits"] = [dict(zip(names, row, strict=True)) for row in rows]
    report.waits = [(rank, other, call[2]) for rank, others, call in waiting for other in others]
    absent = sorted(set().union(*groups.values()) - set(calls))
    if any(each.finished is None for entries in records.values() for each in entries):
        report.notes.append(GLOO)
    if absent:
        report.notes.append(f"There is no dump of {ranks_text(absent)}; add it if the job wrote one.")
    if not waiting:
        report.add("Every recorded call has finished: no rank here waits for another.", "14")
        return
    for key in list(dict.fromkeys(call[:2] for _, _, call in waiting))[:20]:
        inside = [(rank, others) for rank, others, call in waiting if call[:2] == key]
        operation = next(call[2] for _, _, call in waiting if call[:2] == key)
        what = f"{operation}{_at(lines.get((inside[0][0], *key), ''))}"
        verb = ("waits for", "is") if len(inside) == 1 else ("wait for", "are")
        whom = f"{verb[0]} {ranks_text(inside[0][1])}" if inside[0][1] else f"{verb[1]} in it with the whole group"
        who = ranks_text([rank for rank, _ in inside])
        report.add(f"In call {key[1]} of {job.labels[key[0]]} ({what}), {who} {whom}.", "14")
    if len(calls) == 1:
        report.notes.append("One rank's dump cannot tell who is missing: give those of all ranks.")
        return
    kind, ranks = who_hangs(groups, calls) or ("stuck", [])
    report.numbers["hang"] = {"kind": kind, "ranks": ranks}
    if kind == "stuck":
        said = (
            "Every rank of the group is in the call, and it does not end: look at the link, or for a kernel that hangs."
        )
        report.add(said, "15", "flapping link")
    elif kind == "different":
        odd = [(rank, call) for rank in ranks for call in calls[rank] if not call[4]][:4]
        sizes = (f" of {number_text(call[3])} elements" if call[3] else "" for _, call in odd)
        each = "; ".join(f"rank {rank} called {call[2]}{size}" for (rank, call), size in zip(odd, sizes, strict=True))
        said = f"The ranks are in different calls: {each}, unlike most of its group."
        report.add(said, "06", "collectives in another order")
    elif kind == "order":
        said = (
            f"Each rank that is waited for waits itself: {ranks_text(ranks)} entered their groups in different orders."
        )
        report.add(said, "06", "collectives in another order")
    for rank in ranks[:8] if kind == "missing" else ():
        last = records[rank][-1] if records.get(rank) else None
        where = f"Its last call is {last.operation} number {last.number}{_at(last.line)}." if last else "It left none."
        report.add(f"Rank {rank} is waited for and waits in no call: look there first. {where}", "14", "missing rank")


def _at(line: str) -> str:
    return f" at {line}" if line else ""


def _slow(job: Job) -> None:
    """The rank that comes last: its own work before each call, from when the calls of a group of all ranks began."""
    report, ranks = job.report, sorted(job.records)
    shared = next((name for name, inside in job.groups.items() if inside == set(ranks)), "")
    tables = [{each.number: each for each in job.records[rank] if each.group == shared} for rank in ranks]
    numbers = sorted(set.intersection(*map(set, tables)))
    if len(numbers) <= FEWEST or len(ranks) < 2:
        return
    created = np.array([[table[at].created for table in tables] for at in numbers])
    took = [[table[at].seconds for table in tables] for at in numbers]
    if all(each is not None for row in took for each in row):  # seconds in a call need no common clock
        steps = np.median(np.diff(created, axis=0), axis=1, keepdims=True)
        own = np.maximum(steps - np.array(took, dtype=float)[1:], 0.0)
    else:
        own = created[1:] - created[:-1].max(axis=1, keepdims=True)  # a call begins when its last rank is there
    medians = [float(each) for each in np.median(own, axis=0)]
    if min(medians) < 0:
        report.notes.append(CLOCKS)
        return
    report.numbers["own_seconds"] = dict(zip(ranks, medians, strict=True))
    if slow := find_straggler({"own work": own.tolist()}):
        rank = ranks[slow.rank]
        report.numbers["slow"] = {"rank": rank, "ratio": slow.ratio}
        said = f"Rank {rank} is slow: its own work between two calls takes {duration_text(medians[slow.rank])}, "
        said += f"{number_text(slow.ratio)} times the others' median, over {len(own)} calls. The others wait for it."
        report.add(said, "14", "slow GPU")
