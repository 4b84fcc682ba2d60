"""Who failed first, from the text that a job printed: torchrun, Slurm, NCCL's watchdog, CUDA, the kernel.

The first error in a log is rarely the cause. Ranks that wait report a timeout or a closed connection; the rank that they
wait for is silent, or says something else. So every known line is sorted into causes and consequences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from course_lib.estimate.units import GiB, KiB, MiB, bytes_text, duration_text
from course_lib.operate.recordings.report import Report, ranks_text, word

MOST_LINES, LONGEST = 5_000_000, 2_000  # lines that are read, and characters of one
SIZES = {"bytes": 1.0, "KiB": KiB, "MiB": MiB, "GiB": GiB}
RANK = re.compile(r"\[rank(\d{1,6})\]|\[Rank (\d{1,6})\]|\brank\s*:\s*(\d{1,6}) \(local")
WATCHDOG = re.compile(r"SeqNum=(\d{1,12}), OpType=(\w{1,40}).{0,200}?ran for (\d{1,12}) milliseconds before timing out")
MEMORY = re.compile(
    r"Tried to allocate ([\d.]{1,12}) (\w+).{0,20}?GPU (\d{1,4})(?: has a total capaci?ty of|;) ([\d.]{1,12}) (\w+)"
    r".*?(?:of which ([\d.]{1,12}) (\w+) is free|([\d.]{1,12}) (\w+) free)"
)
UNUSED = re.compile(r"([\d.]{1,12}) (\w+) is reserved by PyTorch but unallocated")
CAUSES = (  # what a line shows, the sentence, the chapter, the fault; $0 is what the parentheses found
    (r"oom[-_ ]kill event.*?[Ss]tep(?:Id=| )([\w.]+)|task [\d,-]+: Out Of Memory", "The host ran out of memory: the system "
     "killed a process of step $0. Ask for more with --mem, or start fewer data workers.", "14", ""),
    (r"CANCELLED AT (\S+) DUE TO TIME LIMIT", "Slurm ended the job at its time limit ($0). Save before it: --signal, and "
     "a checkpoint interval.", "14", ""),
    (r"CANCELLED AT (\S+) DUE TO NODE FAILURE|[Nn]ode failure on (\S+)", "A node failed ($0). Restart from the newest "
     "checkpoint, without that node.", "14", ""),
    (r"CANCELLED AT (\S+) DUE TO PREEMPTION|slurmstepd.*CANCELLED AT (\S+) \*\*\*", "The job was cancelled or preempted "
     "($0).", "14", ""),
    (r"NVRM: Xid \([^)]{1,60}\): (\d+)|(uncorrectable ECC error|fallen off the bus)", "The driver reports a fault of a GPU "
     "($0): take the node out.", "14", ""),
    (r"(illegal memory access|device-side assert)", "A kernel failed on the GPU ($0). Run again with "
     "CUDA_LAUNCH_BLOCKING=1 for the true line.", "15", ""),
    (r"(No space left on device|Bus error)", "A disk or /dev/shm is full ($0).", "15", ""),
    (r"(NET/Socket : Using .{1,60})", "NCCL uses TCP sockets, not InfiniBand: $0", "15", "sockets instead of InfiniBand"),
    (r"\bloss(?:[ =:]|is)+(nan|inf)\b", "The loss is $0.", "14", "bad batch"),
)  # fmt: skip
ECHOES = re.compile(
    r"Connection (?:closed|reset) by peer|Timed out waiting|ncclRemoteError|Broken pipe|closing signal SIG|Socket Timeout"
    r"|remote process exited|DistBackendError|Signal 15|taking the entire process down"
)
ERROR = re.compile(r"^\s*((?:[A-Za-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b): ?(.*)")


def explain_log(text: str, name: str) -> Report:
    """The report on one log: who failed first, who only waited, what the numbers in the messages say."""
    report = Report("log", [name])
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        report.notes.append(f"{word(name)}: only the first {MOST_LINES:,} lines are read.")
    lines = [line[:LONGEST] for line in lines[:MOST_LINES]]
    timeouts = _watchdogs(lines)
    _known(report, lines)
    root = _root(report, lines)
    if timeouts:
        _waiting(report, timeouts, lines)
    if not root and not report.findings:
        _first_error(report, lines)
    if not report.findings:
        report.add("No known failure is in this text.", "15")
        report.notes.append("If the job hangs, set TORCH_FR_BUFFER_SIZE=2000 and give the dumps of the flight recorder.")
    report.numbers["lines"] = len(lines)
    return report


def _rank(line: str) -> int | None:
    found = RANK.search(line)
    return next((int(each) for each in found.groups() if each), None) if found else None


def _bytes(value: str, unit: str) -> float:
    digits = re.fullmatch(r"\d+\.?\d*", value)
    return float(value) * SIZES.get(unit, 1.0) if digits else 0.0


def _known(report: Report, lines: Iterable[str]) -> None:
    """Causes that a line states, each once; and messages about memory, with their numbers."""
    seen: set[str] = set()
    for line in lines:
        memory = MEMORY.search(line) if "Tried to allocate" in line else None
        if memory and "memory" not in seen:
            seen.add("memory")
            _out_of_memory(report, line, memory)
        for pattern, sentence, chapter, fault in CAUSES:
            if pattern not in seen and (found := re.search(pattern, line)):
                seen.add(pattern)
                what = word(next((each for each in found.groups() if each), "?"), 60)
                report.add(sentence.replace("$0", what), chapter, fault)


def _out_of_memory(report: Report, line: str, found: re.Match[str]) -> None:
    asked, room = _bytes(found[1], found[2]), _bytes(found[4], found[5])
    free = _bytes(found[6] or found[8], found[7] or found[9])
    unused = UNUSED.search(line)
    idle = _bytes(unused[1], unused[2]) if unused else 0.0
    rank = _rank(line)
    who = f"Rank {rank}, GPU {found[3]}" if rank is not None else f"GPU {found[3]}"
    said = f"{who} is full: {bytes_text(asked)} were asked for, and {bytes_text(free)} of {bytes_text(room)} were free."
    if idle > asked:
        said += f" PyTorch had {bytes_text(idle)} reserved and not in use: enough, but in pieces."
    report.add(said, "02", "fragmented allocator" if idle > asked else "")
    report.numbers["out_of_memory"] = {"asked": asked, "free": free, "capacity": room, "reserved_unused": idle, "rank": rank}


def _root(report: Report, lines: list[str]) -> bool:
    """What torchrun's summary says: its root cause is the failure that it saw first."""
    starts = [place for place, line in enumerate(lines) if "Root Cause (first observed failure)" in line]
    if not starts:
        return False
    block = lines[starts[-1] : starts[-1] + 200]
    ends = [place for place, line in enumerate(block) if line.startswith("=====")]
    block = block[: ends[0]] if ends else block
    text = "\n".join(block)
    rank, code = re.search(r"rank\s*:\s*(\d{1,6})", text), re.search(r"exitcode\s*:\s*(-?\d{1,6})", text)
    host = re.search(r"host\s*:\s*(\S{1,100})", text)
    errors = [found for line in block if (found := ERROR.match(line))]
    exit_code = int(code[1]) if code else 0
    why = word(": ".join(errors[-1].groups()), 160) if errors else _signal(exit_code)
    who, where = f"Rank {rank[1]}" if rank else "A rank", f" on {word(host[1])}" if host else ""
    failed = {int(each) for line in lines for each in re.findall(r"^\s*rank\s*:\s*(\d{1,6}) \(local", line)}
    others = sorted(failed - ({int(rank[1])} if rank else set()))
    after = f" Torchrun ended {ranks_text(others)} after it." if others else ""
    if errors and ECHOES.search(why):
        after += " That error is itself an echo of another rank's end: look for a rank or node that says nothing."
    report.add(f"{who}{where} failed first: {why} (exit code {exit_code}).{after}", "15", "")
    report.numbers["root_cause"] = {"rank": int(rank[1]) if rank else None, "exit_code": exit_code, "error": why}
    return True


def _signal(code: int) -> str:
    known = {-9: "it was killed (signal 9), often because the host ran out of memory", -15: "it was asked to end (signal 15)"}
    known |= {-11: "a segmentation fault (signal 11)", -6: "it aborted (signal 6), as NCCL's watchdog makes it do", -7: "a bus error (signal 7)"}
    return known.get(code, "its error is not in this log; decorate main with torch.distributed.elastic's @record")


def _watchdogs(lines: Iterable[str]) -> dict[int, tuple[int, str, float]]:
    """By rank, the first call whose timeout its watchdog reports: number, operation, seconds."""
    found: dict[int, tuple[int, str, float]] = {}
    for line in lines:
        rank, hit = _rank(line), WATCHDOG.search(line)
        if hit and rank is not None:
            call = int(hit[1]), hit[2], int(hit[3]) / 1e3
            found[rank] = min(call, found.get(rank, call))
    return found


def _waiting(report: Report, timeouts: dict[int, tuple[int, str, float]], lines: Iterable[str]) -> None:
    """Who waits, and which rank is silent or elsewhere."""
    number, operation, seconds = max(timeouts.values(), key=lambda each: [*timeouts.values()].count(each))
    mentioned = {rank for line in lines if (rank := _rank(line)) is not None}
    sizes = [int(each) for line in lines for each in re.findall(r"world[_ ]size[=: ]+(\d{1,6})", line)]
    world = set(range(max([*sizes, max(mentioned | set(timeouts)) + 1])))
    report.add(f"{ranks_text(sorted(timeouts)).capitalize()} waited {duration_text(seconds)} in {operation} number {number}.", "14")
    silent = sorted(world - set(timeouts))
    other = {rank: call for rank, call in timeouts.items() if call[:2] != (number, operation)}
    report.numbers["watchdog"] = {"waited": sorted(timeouts), "silent": silent, "elsewhere": sorted(other)}
    if silent:
        report.add(f"{ranks_text(silent).capitalize()} reported no timeout: look there first.", "14", "missing rank")
    elif other:
        where = "; ".join(f"rank {rank} in {call[1]} number {call[0]}" for rank, call in list(other.items())[:4])
        report.add(f"Not all were in the same call: {where}.", "06", "collectives in another order")
    else:
        report.add("Every rank that is named waited in the same call: suspect the link, or a rank that is not named here.", "15", "flapping link")


def _first_error(report: Report, lines: Iterable[str]) -> None:
    """The first exception that is no echo of another rank's end."""
    errors: list[tuple[Any, str]] = []
    for line in lines:
        found = ERROR.match(re.sub(r"^.{0,40}?\[rank\d+\]:? ?", "", line))
        if found:
            errors.append((_rank(line), word(": ".join(found.groups()), 160)))
    own = [each for each in errors if not ECHOES.search(each[1])]
    if own or errors:
        rank, what = (own or errors)[0]
        who = f"Rank {rank}" if rank is not None else "The job"
        report.add(f"{who} failed first: {what}. {len(errors) - 1} further errors follow.", "15", "")
        report.numbers["first_error"] = {"rank": rank, "error": what}
