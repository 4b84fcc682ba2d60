"""Who waits for whom, and who comes late, from the flight recorders of several ranks.

Every rank keeps its last calls of collectives in a ring buffer (TORCH_FR_BUFFER_SIZE) and writes them to a file when a
call times out. Numbers of calls count within a group. NCCL's record says when a call has finished; gloo's does not, so
there a call counts as finished once every rank of its group has entered it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.estimate.units import duration_text, number_text
from course_lib.messages import Trouble
from course_lib.operate.faults.hangs import Call, waits, who_hangs
from course_lib.operate.faults.stragglers import find_straggler
from course_lib.operate.recordings.report import Items, Report, line_of, number, rank_in, ranks_text, whole, word

VERSION = "2"  # of the format, before the point; a new number after the point only adds fields
FEWEST = 3  # calls of all ranks from which a slow rank can be told
SIZES_DIFFER = re.compile(r"all_?to_?all|scatter|gather|coalesced", re.IGNORECASE)  # between ranks, rightly


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


def explain_dumps(dumps: Mapping[str, Mapping[str, Any]]) -> Report:
    """The report on one dump for each rank, by file name. Trouble for another version or a dump without entries."""
    report = Report("flight recorder", list(dumps))
    records: dict[int, list[Entry]] = {}
    groups: dict[str, set[int]] = {}
    labels: dict[str, str] = {}
    for name, dump in dumps.items():
        rank = rank_in(name)
        if rank is None or rank in records:
            rank = next(each for each in range(len(dumps) + 1) if each not in records)
            report.notes.append(f"{word(name)}: no rank of its own at the end of the name; taken for rank {rank}.")
        records[rank] = _entries(dump, rank, groups, labels)
    for rank, entries in records.items():
        for each in entries:
            groups.setdefault(each.group, set()).add(rank)
    calls = _calls(records, groups)
    members = {name: sorted(ranks) for name, ranks in groups.items()}
    _hang(report, members, calls, records, labels)
    _slow(report, members, records)
    everyone = sorted({rank for ranks in members.values() for rank in ranks} | set(records))
    report.numbers |= {"ranks": everyone, "calls": {rank: len(entries) for rank, entries in records.items()}}
    return report


def _entries(dump: Mapping[str, Any], rank: int, groups: dict[str, set[int]], labels: dict[str, str]) -> list[Entry]:
    version = word(str(dump.get("version", "none")), 12)
    if version.split(".")[0] != VERSION:
        raise Trouble(
            f"has version {version} of the format; version {VERSION} is known.", "use the torchfrtrace of that torch"
        )
    config = dump.get("pg_config")
    members: dict[str, list[int]] = {}
    for name, about in (config if isinstance(config, dict) else {}).items():
        listed = about.get("ranks") if isinstance(about, dict) else None
        members[str(name)] = [int(each) for each in re.findall(r"\d{1,7}", str(listed))][:1_000_000]
    found: list[Entry] = []
    pairs: Counter[str] = Counter()
    for each in Items().rows(dump.get("entries", []), "entries"):
        group = each.get("process_group")
        name, label = (
            (str(group[0]), word(group[1])) if isinstance(group, (list, tuple)) and len(group) == 2 else ("", "")
        )
        inside = members.get(name) or (members.get("", []) if label == "default_pg" else [])
        key = f"{word(name, 20)} {sorted(inside)}"[:200]
        groups.setdefault(key, set()).update(inside)
        labels[key] = {"default_pg": "", "undefined": f"group {word(name, 12)}"}.get(label, f"group {label}")
        found.append(_entry(each, rank, key, inside, pairs, groups, labels))
    return found


def _entry(
    each: Mapping[str, Any],
    rank: int,
    group: str,
    members: Sequence[int],
    pairs: Counter[str],
    groups: dict[str, set[int]],
    labels: dict[str, str],
) -> Entry:
    backend, _, operation = word(each.get("profiling_name")).partition(":")
    state, place = each.get("state"), whole(each.get("collective_seq_id"))
    finished = True if state == "completed" else None if backend == "gloo" else False
    sizes = each.get("input_sizes")
    elements = sum(_elements(size) for size in sizes) if isinstance(sizes, (list, tuple)) else 0
    message = re.fullmatch(r"(send|recv) (\d{1,6})(?:->|<-)(\d{1,6})", operation)
    if message:  # a pair of ranks is a group of its own, in which unfinished messages are counted
        one, other = (members[int(at)] if int(at) < len(members) else int(at) for at in message.groups()[1:])
        source, target = (one, other) if message[1] == "send" else (other, one)
        outer, group = group, f"{group} {source}->{target}"
        groups.setdefault(group, set()).update((source, target))
        labels[group] = f"{labels[outer]} messages from rank {source} to rank {target}".strip()
        place, operation, elements = pairs[group], "message", 0
        pairs[group] += not finished
    elif SIZES_DIFFER.search(operation):
        elements = 0
    frames = each.get("frames")
    took = number(each.get("duration_ms"))
    return Entry(
        group,
        place,
        operation or "call",
        elements,
        finished,
        (number(each.get("time_created_ns")) or 0.0) / 1e9,
        took / 1e3 if took is not None and took >= 0 else None,
        line_of(frames),
    )


def _elements(size: object) -> int:
    return int(np.prod([whole(each) for each in size], dtype=object)) if isinstance(size, (list, tuple)) else 0


def _calls(records: Mapping[int, Sequence[Entry]], groups: Mapping[str, set[int]]) -> dict[int, list[Call]]:
    """The calls as `who_hangs` takes them: those with one number, such as a coalesced one's parts, are one call."""
    entered: dict[tuple[str, int], set[int]] = {}
    first: dict[tuple[int, str], int] = {}  # older calls have left the ring buffer
    for rank, entries in records.items():
        for each in entries:
            entered.setdefault((each.group, each.number), set()).add(rank)
            first[rank, each.group] = min(each.number, first.get((rank, each.group), each.number))
    calls: dict[int, list[Call]] = {}
    for rank, entries in records.items():
        joined: dict[tuple[str, int], list[Entry]] = {}
        for each in entries:
            joined.setdefault((each.group, each.number), []).append(each)
        mine: list[Call] = []
        for (group, place), parts in joined.items():
            others = (groups[group] & records.keys()) - entered[group, place]
            missing = [other for other in others if first.get((other, group), 0) <= place]
            done = all(not missing if each.finished is None else each.finished for each in parts)
            operation = "+".join(dict.fromkeys(each.operation for each in parts))
            mine.append((group, place, operation, sum(each.elements for each in parts), done))
        calls[rank] = mine
    return calls


def _hang(
    report: Report,
    groups: Mapping[str, Sequence[int]],
    calls: Mapping[int, Sequence[Call]],
    records: Mapping[int, Sequence[Entry]],
    labels: Mapping[str, str],
) -> None:
    lines = {(rank, each.group, each.number): each.line for rank, entries in records.items() for each in entries}
    waiting = waits(groups, calls)
    report.numbers["waits"] = [
        {
            "rank": rank,
            "waits_for": others,
            "call": call[1],
            "operation": call[2],
            "group": labels[call[0]] or "all ranks",
        }
        for rank, others, call in waiting
    ]
    report.drawn = [(rank, other, call[2]) for rank, others, call in waiting for other in others]
    absent = sorted({rank for ranks in groups.values() for rank in ranks} - set(calls))
    if any(each.finished is None for entries in records.values() for each in entries):
        report.notes.append(
            "Gloo's record does not say when a call ends: it counts as finished once each rank here is in it."
        )
    if absent:
        report.notes.append(f"There is no dump of {ranks_text(absent)}; add it if the job wrote one.")
    if not waiting:
        report.add("Every recorded call has finished: no rank here waits for another.", "14")
        return
    for group, place in dict.fromkeys((call[0], call[1]) for _, _, call in waiting[:1000]):
        inside = [(rank, others, call) for rank, others, call in waiting if call[:2] == (group, place)]
        what = f"{inside[0][2][2]}{_at(lines.get((inside[0][0], group, place), ''))}"
        scope = labels[group] or "all ranks"
        whom = f"wait for {ranks_text(inside[0][1])}" if inside[0][1] else "are in it with the whole group"
        report.add(f"In call {place} of {scope} ({what}), {ranks_text([each[0] for each in inside])} {whom}.", "14")
    if len(calls) == 1 and absent:
        return  # one rank's dump cannot tell who is missing
    found = who_hangs(groups, calls)
    report.numbers["hang"] = {"kind": found[0], "ranks": found[1]} if found else {"kind": "stuck", "ranks": []}
    if found is None:
        report.add(
            "Every rank of the group is in the call, and it does not end: look at the link, or at a kernel that hangs.",
            "15",
            "flapping link",
        )
    elif found[0] == "different":
        said = {rank: {call[2:4] for call in calls[rank] if not call[4]} for rank in found[1] if rank in calls}
        named = "; ".join(f"rank {rank} called {_sizes(kinds)}" for rank, kinds in list(said.items())[:4])
        report.add(
            f"The ranks are in different calls: {named}. The others differ.", "06", "collectives in another order"
        )
    elif found[0] == "order":
        report.add(
            f"Whoever is waited for waits, too: {ranks_text(found[1])} entered their groups in different orders.",
            "06",
            "collectives in another order",
        )
    else:
        for rank in found[1][:8]:
            last = records[rank][-1] if records.get(rank) else None
            where = (
                f"Its last call is {last.operation} number {last.number}{_at(last.line)}."
                if last
                else "It left no dump."
            )
            report.add(
                f"Rank {rank} is the one to look at: it is waited for and waits in no call. {where}",
                "14",
                "missing rank",
            )


def _at(line: str) -> str:
    return f" at {line}" if line else ""


def _sizes(kinds: set[tuple[str, int]]) -> str:
    return ", ".join(f"{name} of {number_text(size)} elements" if size else name for name, size in sorted(kinds))


def _slow(report: Report, groups: Mapping[str, Sequence[int]], records: Mapping[int, Sequence[Entry]]) -> None:
    """The rank that comes last: its own work before each call, from when the calls of the largest group began."""
    ranks = sorted(records)
    whole_groups = [name for name, members in groups.items() if set(members) == set(ranks) and len(ranks) > 1]
    tables = [{each.number: each for each in records[rank] if each.group in whole_groups[:1]} for rank in ranks]
    numbers = sorted(set.intersection(*map(set, tables))) if tables else []
    if len(numbers) <= FEWEST or not whole_groups:
        return
    created = np.array([[table[at].created for table in tables] for at in numbers])
    took = [[table[at].seconds for table in tables] for at in numbers]
    if all(each is not None for row in took for each in row):  # seconds in a call need no common clock
        steps = np.median(np.diff(created, axis=0), axis=1, keepdims=True)
        own = np.maximum(steps - np.array(took, dtype=float)[1:], 0.0)
    else:
        own = created[1:] - created[:-1].max(axis=1, keepdims=True)  # a call begins when its last rank is there
        if np.median(own, axis=0).min() < 0:
            report.notes.append(
                "The ranks' clocks differ, so who comes late cannot be told; set TORCH_NCCL_ENABLE_TIMING=1."
            )
            return
    medians = np.median(own, axis=0)
    report.numbers["own_seconds"] = {rank: float(each) for rank, each in zip(ranks, medians, strict=True)}
    slow = find_straggler({"own work": own})
    if slow:
        rank = ranks[slow.rank]
        report.add(
            f"Rank {rank} is slow: its own work between two calls takes {duration_text(float(medians[slow.rank]))}, "
            f"{number_text(slow.ratio)} times the others' median, over {len(own)} calls. The others wait for it.",
            "14",
            "slow GPU",
        )
        report.numbers["slow"] = {"rank": rank, "ratio": slow.ratio}
