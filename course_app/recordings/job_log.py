"""Who failed first, from the text that a job printed: torchrun, Slurm, NCCL's watchdog, CUDA, the kernel.

The first error in a log is rarely the cause. Ranks that wait report a timeout or a closed connection; the rank that
they wait for is silent, or says something else. So every known line is sorted into causes and echoes.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from course_app.recordings.report import Report, ranks_text, word
from course_lib.estimate.units import GiB, KiB, MiB, bytes_text, duration_text

LONGEST = 2_000  # characters of a line that are read
SIZES = {"bytes": 1.0, "KiB": KiB, "MiB": MiB, "GiB": GiB}
TELLING = re.split(  # every line that is read has one of these: the others are passed over quickly
    r"\|",
    "Root Cause|[rank|[Rank|rank  |rror|xception|nterrupt|kill|Out Of Memory|CANCELLED|ode failure|Xid|illegal|assert"
    "|No space|NET/Socket|nan|inf|world|WORLD|exitcode|allocate|=====",
)
RANK = re.compile(r"\[rank(\d{1,6})\]|\[Rank (\d{1,6})\]|\brank\s*:\s*(\d{1,6}) \(local")
WATCHDOG = re.compile(r"SeqNum=(\d{1,12}), OpType=(\w{1,40}).*ran for (\d{1,12}) milliseconds before timing out")
ASKED = re.compile(r"Tried to allocate ([\d.]+ \w+).{0,9}GPU (\d+)(?: has a total capaci?ty of|;) ([\d.]+ \w+)")
FREE, UNUSED = re.compile(r"([\d.]+ \w+) (?:is )?free"), re.compile(r"([\d.]+ \w+) is reserved by PyTorch but")
HOST_MEMORY = "The host ran out of memory, and a process of step $ was killed. Use more --mem or fewer data workers."
CAUSES = (  # what a line shows; the sentence, in which $ is what the parentheses found; the chapter; the fault
    (r"oom[-_ ]kill event.*?[Ss]tep(?:Id=| )(\w+\.\w+)", HOST_MEMORY, "14", ""),
    (r"srun: error: (\S+: tasks? [\d,[\]-]+: .{3,40})", "The first end that srun reports: $.", "14", ""),
    (r"CANCELLED AT (\S+) DUE TO TIME LIMIT", "Slurm ended the job at its time limit ($). Save before it.", "14", ""),
    (r"CANCELLED AT (\S+) DUE TO NODE FAIL|ode failure on (\S+)", "A node failed ($). Restart without it.", "14", ""),
    (r"CANCELLED AT (\S+) DUE TO PREEMPTION", "The job was preempted ($). Resume from its checkpoint.", "14", ""),
    (r"NVRM: Xid \([^)]+\): (\d+)|(ncorrectable ECC error)", "A GPU has a fault ($): take the node out.", "14", ""),
    (r"(illegal memory access|device-side assert)", "A kernel failed ($): set CUDA_LAUNCH_BLOCKING=1.", "15", ""),
    (r"(No space left on device|Bus error)", "A disk or /dev/shm is full ($).", "15", ""),
    (r"(NET/Socket : Using .{1,60})", "NCCL uses TCP, not InfiniBand ($).", "15", "sockets instead of InfiniBand"),
    (r"\bloss\W+(?:is )?(nan|inf)\b", "The loss is $.", "14", "bad batch"),
)
ECHOES = re.compile(
    r"onnection (?:closed|reset|refused)|[Tt]imed? ?out|ncclRemoteError|Broken pipe|remote process|DistBackendError"
)
ERROR = re.compile(r"^(?:.{0,40}\[rank\d+\]:)?\s*((?:[A-Za-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception|Interrupt)): ?(.*)")
SIGNALS = {
    -6: "it aborted (signal 6), as NCCL's watchdog makes it do",
    -7: "a bus error (signal 7), often a full /dev/shm",
    -9: "it was killed (signal 9), often because the host ran out of memory",
    -11: "a segmentation fault (signal 11)",
    -15: "it was asked to end (signal 15)",
}
UNTOLD = "its error is not in this log; decorate main with torch.distributed.elastic's @record"


def explain_logs(logs: Mapping[str, str]) -> Report:
    """The report on the logs of one job: who failed first, who only waited, what the numbers in the messages say."""
    report = Report("log", list(logs))
    cut = (line[:LONGEST] for text in logs.values() for line in text.splitlines())
    lines = [line for line in cut if any(each in line for each in TELLING)]
    report.numbers["lines"] = sum(text.count("\n") for text in logs.values())
    _stated(report, lines)
    _summary(report, lines)
    _timeouts(report, lines)
    if not report.findings:
        _errors(report, lines)
    ended = next((found[1] for line in lines if (found := re.search(r"CANCELLED AT (\S+) \*\*\*", line))), "")
    if not report.findings and ended:
        report.add(f"The job was cancelled at {word(ended)}.", "14")
    if not report.findings:
        report.add("No known failure is in this text.", "15")
        report.notes.append("If the job hangs, set TORCH_FR_BUFFER_SIZE=2000 and give the flight recorders' dumps.")
    return report


def _rank(line: str) -> int | None:
    found = RANK.search(line)
    return int(next(filter(None, found.groups()))) if found else None


def _bytes(found: re.Match[str] | None, group: int = 1) -> float:
    """Bytes of a size as torch prints it, such as "4.00 GiB"; 0 where there is none."""
    value, unit = found[group].split() if found else ("0", "")
    return float(value) * SIZES.get(unit, 1.0) if re.fullmatch(r"\d+\.?\d*", value) else 0.0


def _stated(report: Report, lines: Sequence[str]) -> None:
    """Causes that a line states, each once; and the first message about a GPU's memory, with its numbers."""
    seen = set()
    for line in lines:
        for pattern, sentence, chapter, fault in CAUSES:
            if sentence not in seen and (found := re.search(pattern, line)):
                seen.add(sentence)
                what = word(next(filter(None, found.groups())), 60).rstrip(".")
                report.add(sentence.replace("$", what), chapter, fault)
        if "out_of_memory" in report.numbers or not (asked := ASKED.search(line)):
            continue
        sizes = {"asked": _bytes(asked), "free": _bytes(FREE.search(line)), "capacity": _bytes(asked, 3)}
        sizes["reserved_unused"] = idle = _bytes(UNUSED.search(line))
        report.numbers["out_of_memory"] = sizes | {"rank": _rank(line)}
        who = f"Rank {_rank(line)}, GPU {asked[2]}" if _rank(line) is not None else f"GPU {asked[2]}"
        one, two, three = (bytes_text(sizes[name]) for name in ("asked", "free", "capacity"))
        said = f"{who} is full: {one} were asked for, and {two} of {three} were free."
        pieces = f" PyTorch had {bytes_text(idle)} reserved and not in use: enough, but in pieces."
        in_pieces = idle > sizes["asked"]
        report.add(said + pieces * in_pieces, "02", "fragmented allocator" * in_pieces)


def _summary(report: Report, lines: Sequence[str]) -> None:
    """What torchrun's summary says: its root cause is the failure that it saw first."""
    starts = [place for place, line in enumerate(lines) if "Root Cause (first observed failure)" in line]
    if not starts:
        return
    block = lines[starts[-1] : starts[-1] + 200]
    block = block[: next((place for place, line in enumerate(block) if line.startswith("=====")), 200)]
    rank = next((_rank(line) for line in block if _rank(line) is not None), None)
    codes = [int(found[1]) for line in block if (found := re.search(r"exitcode\s*:\s*(-?\d{1,6})", line))]
    errors = [": ".join(found.groups()) for line in block if (found := ERROR.match(line))]
    if not errors and rank is not None:  # without @record, the rank's own traceback stands above the summary
        own = (line for line in lines[: starts[-1]] if f"[rank{rank}]" in line)
        errors = [": ".join(found.groups()) for line in own if (found := ERROR.match(line))]
    code = codes[0] if codes else 0
    why = word(errors[-1], 160) if errors else SIGNALS.get(code, UNTOLD)
    others = sorted({int(each) for line in lines for each in re.findall(r"^\s*rank\s*:\s*(\d{1,6}) \(", line)} - {rank})
    said = f"{f'Rank {rank}' if rank is not None else 'A rank'} failed first: {why} (exit code {code})."
    said += f" Torchrun ended {ranks_text(others)} after it." if others else ""
    echo = " That error is itself an echo of another end: look for a rank or a node that says nothing."
    report.add(said + echo * bool(errors and ECHOES.search(why)), "15")
    report.numbers["root_cause"] = {"rank": rank, "exit_code": code, "error": why}


def _timeouts(report: Report, lines: Sequence[str]) -> None:
    """Who waits, from the first timeout that each rank's watchdog reports, and which rank is silent or elsewhere."""
    found = [(rank, hit) for line in lines if (hit := WATCHDOG.search(line)) and (rank := _rank(line)) is not None]
    calls = {rank: (int(hit[1]), hit[2]) for rank, hit in reversed(found)}
    if not calls:
        return
    number, operation = usual = Counter(calls.values()).most_common(1)[0][0]
    named = {rank for line in lines if (rank := _rank(line)) is not None}
    sizes = [int(each) for line in lines for each in re.findall(r"(?i:world[_ ]size)\W{1,3}(\d{1,6})", line)]
    silent = sorted(set(range(max([*sizes, max(named) + 1]))) - set(calls))
    other = {rank: call for rank, call in sorted(calls.items()) if call != usual}
    report.numbers["watchdog"] = {"waited": sorted(calls), "silent": silent, "elsewhere": list(other)}
    waited = duration_text(int(found[0][1][3]) / 1e3)
    who = ranks_text(sorted(calls)).capitalize()
    report.add(f"{who} waited {waited}, most of them in {operation} number {number}.", "14")
    if silent:
        said = f"{ranks_text(silent).capitalize()} reported no timeout: look there first."
        report.add(said, "14", "missing rank")
    elif other:
        where = "; ".join(f"rank {rank} in {call[1]} number {call[0]}" for rank, call in list(other.items())[:4])
        report.add(f"Not all were in the same call: {where}.", "06", "collectives in another order")
    else:
        said = "Every rank that is named waited in the same call: look at the link, or for a rank that is not named."
        report.add(said, "15", "flapping link")


def _errors(report: Report, lines: Sequence[str]) -> None:
    """The first exception that is no echo of another rank's end."""
    errors = [(_rank(line), word(": ".join(found.groups()), 160)) for line in lines if (found := ERROR.match(line))]
    own = [each for each in errors if not ECHOES.search(each[1])] or errors
    if own:
        rank, what = own[0]
        who = f"Rank {rank}" if rank is not None else "The job"
        report.add(f"{who} failed first: {what} (the first of {len(errors)} exceptions in the log).", "15")
        report.numbers["first_error"] = {"rank": rank, "error": what}
