"""Failures on purpose, on real processes: start a run, let one thing go wrong, say what it was, leave nothing
behind."""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from course_runs import evidence, torchrun
from course_runs.failure_drill_worker import KINDS, Note

STRAGGLER = 3.0  # times the median of the other ranks' own work


@dataclass(frozen=True)
class Diagnosis:
    """What happened, to whom, and what to look at."""

    kind: str  # one of KINDS; "none": nothing
    rank: int | None
    words: str


def diagnose(notes: Sequence[Note], ended: torchrun.Ended) -> Diagnosis:
    """What the ranks' last notes and the way the processes ended say together."""
    said = " ".join([*ended.lines, *(note.get("error", "") for note in notes)])
    for note in notes:
        if "do not have the same" in note.get("error", ""):
            return Diagnosis("version", None, note["error"].split(": ", 1)[1])
    if "mismatch between collectives" in said or "mismatch" in said and "collective" in said.lower():
        odd = _odd_one(notes)
        return Diagnosis(
            "mismatched",
            odd,
            f"The ranks called different collectives in step {notes[0]['step']}: compare what each calls there, "
            "above all in branches that only some ranks take.",
        )
    silent = [note for note in notes if not note.get("error") and note["doing"] != "done"]
    waiting = [note for note in notes if note["doing"] == "all_reduce"]
    if not ended.ok and silent:
        lost = min(silent, key=lambda note: (note["step"], note["doing"] == "all_reduce"))
        if lost["pid"] in _killed(ended.lines):
            return Diagnosis(
                "killed",
                lost["rank"],
                f"Rank {lost['rank']} was killed (signal 9) in step {lost['step']}; the others lost it in their sum. "
                "The system kills what runs out of memory: look at dmesg, and at the host's memory.",
            )
        if lost["doing"] == "compute" and waiting:
            others = ", ".join(str(note["rank"]) for note in waiting)
            return Diagnosis(
                "hung",
                lost["rank"],
                f"Rank {lost['rank']} never came to the sum of step {lost['step']}: it is still at its own work, "
                f"while rank {others} wait. Look at its stack (py-spy dump --pid {lost['pid']}).",
            )
    slow = _straggler(notes)
    if slow is not None:
        rank, times = slow
        return Diagnosis(
            "slow",
            rank,
            f"Rank {rank} takes {times:.1f} times as long as the others for the same work, and everybody waits for "
            "it: look at its clocks, temperature and neighbors on the host.",
        )
    if ended.ok:
        return Diagnosis("none", None, "Nothing went wrong.")
    return Diagnosis(
        "none",
        None,
        f"It ended with code {ended.code}, and the notes do not say why; its last words: "
        f"{' / '.join(ended.lines[-2:])}",
    )


def _killed(lines: Sequence[str]) -> set[int]:
    """The processes that torchrun saw end by signal 9 before it ended the others itself."""
    found = (re.search(r"exitcode\s*: -9\b.*?pid: (\d+)", line) for line in lines)
    return {int(match[1]) for match in found if match}


def _straggler(notes: Sequence[Note]) -> tuple[int, float] | None:
    """The rank whose own work takes far longer than that of the others."""
    means = {note["rank"]: median(note["work"][1:]) for note in notes if len(note["work"]) > 2}
    if len(means) < 2:
        return None
    slowest = max(means, key=lambda rank: means[rank])
    others = median(value for rank, value in means.items() if rank != slowest)
    ratio = means[slowest] / others
    return (slowest, ratio) if ratio >= STRAGGLER and means[slowest] - others > 0.02 else None


def _odd_one(notes: Sequence[Note]) -> int | None:
    for note in notes:
        if "ALLGATHER" in note.get("error", "").upper().split("RANK", 1)[-1][:200]:
            return note["rank"]
    return None


def fail(
    kind: str, nproc: int = 3, *, victim: int = 1, timeout: float = 5.0, limit: float = 90.0, device: str = "auto"
) -> tuple[Diagnosis, torchrun.Ended]:
    """Run `failing` and diagnose it. `timeout`: of a collective; `limit`: of everything. Seconds."""
    with tempfile.TemporaryDirectory(prefix="course-failure-") as folder:
        debug = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} if kind == "mismatched" else {}
        ended = torchrun.run(
            "failure_drill_worker",
            [
                "--kind",
                kind,
                "--victim",
                str(victim),
                "--folder",
                folder,
                "--timeout",
                str(timeout),
                "--device",
                device,
            ],
            nproc,
            timeout=limit,
            say=None,
            environment=debug,
        )
        notes = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("rank-*.json"))]
    return diagnose(notes, ended), ended


def main(argv: Sequence[str] | None = None) -> int:
    """Each failure in turn; 0 if every diagnosis names what was done."""
    parser = argparse.ArgumentParser(
        prog="failures", description=__doc__, epilog="example: python -m course_runs.failure_drill --kinds killed,hung"
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"comma-separated: {', '.join(KINDS)}")
    parser.add_argument("--nproc", type=int, default=3, help="processes")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--timeout", type=float, default=5.0, help="s that a collective may take")
    parser.add_argument("--out", default="", help="folder of the evidence file (default: none is written)")
    parser.add_argument("--name", default="", help="name of the evidence file")
    given = parser.parse_args(argv)
    rows, right = [], True
    for kind in given.kinds.split(","):
        found, ended = fail(kind, given.nproc, timeout=given.timeout, device=given.device)
        right &= found.kind == kind
        rows.append({"done": kind, **asdict(found), "seconds": ended.seconds, "code": ended.code})
        print(
            f"{kind:11} {'found' if found.kind == kind else 'NOT FOUND: ' + found.kind:10} {ended.seconds:5.1f} s  "
            f"{found.words}",
            flush=True,
        )
    if given.out:
        content = evidence.evidence(
            "failure",
            setup={"nproc": given.nproc, "device": given.device, "timeout": given.timeout},
            raw={"rows": rows},
            measured={"found": sum(row["done"] == row["kind"] for row in rows), "of": len(rows)},
        )
        print(f"evidence: {evidence.write(content, given.out, given.name or f'failures-{evidence.stamp()}')}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
