"""A run killed for real: ranks killed, hung, slowed, one with a flipped bit; a node lost and one more added.

Three trainings of the same steps: one undisturbed; one to whose ranks all that happens, restarted by torchrun's elastic
agent; and one on several agents, each a node, of which one is killed and a new one joins later. Afterwards the logs of
all ranks must show that each harm was noticed and whose it was, that each step of the final trajectory read its samples
exactly once, and, where the number of ranks did not change, that the weights are those of the undisturbed run, bit for
bit.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from course_lib.installation import called_here
from course_lib.messages import Trouble, count_text
from course_lib.model.checkpoint import Position, SampleOrder
from course_runs import evidence, launcher, torchrun
from course_runs.fault_drill_worker import BATCH, KINDS, SAMPLES
from course_runs.process_group import choose

LIMIT = 400.0  # s for each training
Record = dict[str, Any]  # a line of a rank's log, from JSON
# Agents share one store with all starts otherwise, and gloo finds the addresses of ranks that died.
_OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
_ELASTIC = ("--max-restarts", "20", "--monitor-interval", "0.3")
_JOINING = "is_host=0,join_timeout=120,last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=4"


@dataclass(frozen=True)
class Noticed:
    """One harm, and what became of it."""

    kind: str
    rank: int
    step: int
    found: str  # the kind that the logs show; "" if nothing does
    blamed: tuple[int, ...]
    resumed: int  # the step from which the next start went on; -1: there was none
    repeated: int  # steps that were computed again
    seconds: float  # until a step was completed that had not been completed before

    @property
    def ok(self) -> bool:
        """Whether the logs show what happened, and to whom. Two ranks cannot tell whose bit flipped."""
        return self.found == self.kind and (self.blamed == (self.rank,) or (self.kind == "flipped" and not self.blamed))


@dataclass(frozen=True)
class Trajectory:
    """What a training did in the end, whatever it repeated."""

    launches: tuple[int, ...]  # ranks of each start
    steps: int
    repeated: int  # steps computed more than once
    once: bool  # whether each step of the final trajectory read exactly its samples
    losses: tuple[float, ...]
    weights: str  # SHA-256 of the final weights; "" if it did not finish, or if ranks differ


# --- reading the logs -----------------------------------------------------------------------------


def read(folder: Path) -> list[Record]:
    """All ranks' records in order of time; a line that a kill cut off is left out."""
    records = []
    for path in sorted(folder.glob("log-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                records.append(json.loads(line))
    return sorted(records, key=lambda each: each["when"])


def trajectory(records: Sequence[Record], steps: int) -> Trajectory:
    """The last computation of every step, and whether the samples are those of one run without interruption."""
    ranks: dict[int, int] = {each["launch"]: each["ranks"] for each in records if each["what"] == "start"}
    done: dict[tuple[int, int], dict[int, Record]] = {}
    for each in records:
        if each["what"] == "step":
            done.setdefault((each["step"], each["launch"]), {})[each["rank"]] = each
    order, position, once, losses = SampleOrder(SAMPLES, BATCH), Position(), True, []
    for step in range(steps):
        last = max((launch for at, launch in done if at == step), default=None)
        rows = done.get((step, last), {}) if last is not None else {}
        wanted, position = order.step(position)
        read_ = list(itertools.chain(*(rows[rank]["samples"] for rank in sorted(rows))))
        once &= last is not None and len(rows) == ranks[last] and read_ == wanted
        losses.append(rows[min(rows)]["loss"] if rows else math.nan)
    ended = {each["weights"] for each in records if each["what"] == "done"}
    launches = tuple(ranks[number] for number in sorted(ranks))
    computed = len({(at, launch) for at, launch in done})
    weights = ended.pop() if len(ended) == 1 else ""
    return Trajectory(launches, steps, computed - len({at for at, _ in done}), once, tuple(losses), weights)


def noticed(records: Sequence[Record], lines: Sequence[str]) -> list[Noticed]:
    """Each harm with what the logs of the others, and torchrun's own lines, say about it."""
    found = []
    killed = {int(match[1]) for match in (re.search(r"exitcode: -9\).*?pid: (\d+)", line) for line in lines) if match}
    for harm in (each for each in records if each["what"] == "harm"):
        mine = [each for each in records if each["launch"] == harm["launch"]]
        pids = {each["rank"]: each["pid"] for each in mine if each["what"] == "start"}
        kind, blamed = "", ()
        verdict = next((each for each in mine if each["what"] in ("corrupt", "straggler")), None)
        if verdict is not None:
            kind = "flipped" if verdict["what"] == "corrupt" else "slow"
            blamed = tuple(verdict["odd"])
        elif silent := sorted(set(pids) - {each["rank"] for each in mine if each["what"] == "lost the others"}):
            errors = " ".join(each["error"] for each in mine if each["what"] == "lost the others")
            gone = (
                "reset by peer" in errors or "closed by peer" in errors or any(pids[rank] in killed for rank in silent)
            )
            kind, blamed = ("killed" if gone else "hung"), tuple(silent)  # a peer that hangs keeps its connections
        after = [each["launch"] for each in records if each["what"] == "start" and each["launch"] > harm["launch"]]
        later = [each for each in records if each["launch"] == min(after, default=-1)]
        start = min((each["step"] for each in later if each["what"] == "start"), default=-1)
        reached = max((each["step"] for each in mine if each["what"] == "step"), default=-1)
        on = next((each["when"] for each in later if each["what"] == "step" and each["step"] > reached), math.nan)
        again = reached - start + 1 if start >= 0 else 0
        row = Noticed(harm["kind"], harm["rank"], harm["step"], kind, blamed, start, max(0, again), on - harm["when"])
        found.append(row)
    return found


# --- starting -------------------------------------------------------------------------------------


def one_agent(folder: Path, ranks: int, words: Sequence[str], harm: Sequence[dict[str, object]] = ()) -> torchrun.Ended:
    """Train under one elastic agent with so many ranks, and with the harm that is planned."""
    folder.mkdir(parents=True)
    (folder / "harm.json").write_text(json.dumps(list(harm)), encoding="utf-8")
    return _train(folder, ranks, words, _ELASTIC)


def _train(folder: Path, ranks: int, words: Sequence[str], extra: Sequence[str]) -> torchrun.Ended:
    words = ["--folder", str(folder), *words]
    return torchrun.run(
        "fault_drill_worker", words, ranks, timeout=LIMIT, say=None, extra=extra, environment=_OWN_STORE
    )


def resized(folder: Path, nodes: int, words: Sequence[str], shrink_at: int, grow_at: int) -> list[torchrun.Ended]:
    """Train on one agent a node, kill one with its rank at a step, and start a new one at a later step."""
    import torch.distributed as dist

    folder.mkdir(parents=True)
    store = dist.TCPStore(launcher.loopback(), 0, is_master=True, wait_for_workers=False)  # it outlives every node
    extra = (
        "--nnodes", f"{max(1, nodes - 1)}:{nodes}", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", launcher.endpoint(store.port),
        "--rdzv-id", "survive", "--rdzv-conf", _JOINING, *_ELASTIC,
    )  # fmt: skip
    ended: list[torchrun.Ended] = []

    def node() -> None:
        ended.append(_train(folder, 1, words, extra))

    threads = [threading.Thread(target=node) for _ in range(nodes)]
    for thread in threads:
        thread.start()
    try:
        victim = _wait_for(folder, threads, lambda each: each["what"] == "step" and each["step"] >= shrink_at)
        if victim is not None:
            _kill_node(read(folder), victim["launch"])
        again = _wait_for(
            folder,
            threads,
            lambda each: each["step"] >= grow_at and each.get("ranks") == nodes - 1 and each["what"] == "step",
        )
        if again is not None:
            threads.append(threading.Thread(target=node))
            threads[-1].start()
    finally:
        for thread in threads:
            thread.join()
    return ended


def _wait_for(folder: Path, threads: Sequence[threading.Thread], wanted: Callable[[Record], bool]) -> Record | None:
    """The first record that is wanted; None if all nodes ended before."""
    while True:
        alive = any(thread.is_alive() for thread in threads)
        for each in read(folder):
            if "step" in each and wanted(each):
                return each
        if not alive:
            return None
        time.sleep(0.1)


def _kill_node(records: Sequence[Record], launch: int) -> None:
    """End the last rank of a start and the agent above it, as a node's power supply does."""
    ranks = [each for each in records if each["what"] == "start" and each["launch"] == launch]
    last = max(ranks, key=lambda each: each["rank"])
    for pid in (last["agent"], last["pid"]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- the command ----------------------------------------------------------------------------------


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="survive",
        description=__doc__.splitlines()[0],
        epilog=called_here("example: ./course run survive --harm killed,flipped"),
    )
    add = parser.add_argument
    add("--nproc", type=int, default=3, help="ranks")
    add("--steps", type=int, default=60, help="steps of each training")
    add("--harm", default=",".join(KINDS), help=f"any of {','.join(KINDS)}, in the order in which they happen; or none")
    add("--no-resize", action="store_true", help="leave out the training whose number of ranks changes")
    add("--timeout", type=float, default=10.0, help="s that a collective may take")
    add("--device", default="cpu", help="cpu, cuda or auto; with cuda a GPU for each rank")
    add("--out", default="", help="folder of the evidence file (default: none is written)")
    add("--name", default="", help="name of the evidence file")
    given = parser.parse_args(argv)
    kinds = [] if given.harm == "none" else given.harm.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise Trouble(f"There is no harm {unknown[0]!r}.", f"choose from {', '.join(KINDS)}")
    if given.nproc < 1:
        raise Trouble(f"--nproc is {given.nproc}.", "give 1 or more; a job cannot shrink to none")
    if given.nproc < 3 and "flipped" in kinds:
        print("survive: with fewer than three replicas a flipped bit is noticed, but not whose it is", flush=True)
    if given.nproc < 2 and set(kinds) - {"killed"}:
        raise Trouble("One rank has nobody to compare with.", "--nproc 3, or --harm killed")
    choose(given.device, "auto", given.nproc)  # refuses a missing GPU before anything starts
    given.kinds = kinds
    if given.steps < 9 * (len(kinds) + 1):
        raise Trouble(
            f"--steps is {given.steps}.", f"give {9 * (len(kinds) + 1)} or more for {len(kinds)} kinds of harm"
        )
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """All three trainings and the table; 0 if everything was noticed and nothing was lost."""
    try:
        given = arguments(argv)
    except Trouble as trouble:
        print(f"survive: {trouble}", file=sys.stderr)
        return 2
    words = ["--steps", str(given.steps), "--timeout", str(given.timeout), "--device", given.device]
    gap = given.steps // (len(given.kinds) + 1)
    harm = [
        {"kind": kind, "rank": (number + 1) % given.nproc, "step": 4 + number * gap}
        for number, kind in enumerate(given.kinds)
    ]
    with tempfile.TemporaryDirectory(prefix="course-survive-") as scratch:
        whole = Path(scratch)
        print(
            f"survive: trainings of {given.steps} steps: undisturbed, harmed, resized; a few minutes in all", flush=True
        )
        calm_end = one_agent(whole / "calm", given.nproc, words)
        calm = trajectory(read(whole / "calm"), given.steps)
        print(
            f"undisturbed: {count_text(given.nproc, 'rank')}, {count_text(given.steps, 'step')}, loss "
            f"{calm.losses[-1]:.4f}",
            flush=True,
        )
        if not calm_end.ok:
            print("\n".join(calm_end.lines[-8:]), file=sys.stderr)
        ended = one_agent(whole / "harmed", given.nproc, words, harm)
        records = read(whole / "harmed")
        harmed, rows = trajectory(records, given.steps), noticed(records, ended.lines)
        right = calm_end.ok and _report(rows, harmed, calm, len(harm), ended)
        results: dict[str, Record] = {"calm": asdict(calm), "harmed": asdict(harmed)}
        if not given.no_resize and given.nproc > 1:
            slow_words = [*words, "--pace", "0.25"]  # so that a node can come and go between two steps
            resized(whole / "resized", given.nproc, slow_words, given.steps // 4, given.steps // 2)
            found = trajectory(read(whole / "resized"), given.steps)
            results["resized"] = asdict(found)
            right &= _report_resized(found, calm, given.nproc)
    if given.out:
        _write(given, rows, results, len(harm))
    return 0 if right else 1


def _report(rows: Sequence[Noticed], harmed: Trajectory, calm: Trajectory, planned: int, ended: torchrun.Ended) -> bool:
    print(
        f"{'harm':9} {'rank':>4} {'step':>4}  {'found':9} {'blamed':8} {'went on at':>10} {'repeated':>8} "
        f"{'seconds':>8}"
    )
    for row in rows:
        blamed = ", ".join(map(str, row.blamed)) or "-"
        print(
            f"{row.kind:9} {row.rank:4} {row.step:4}  {row.found or 'NOTHING':9} {blamed:8} {row.resumed:10} "
            f"{row.repeated:8} {row.seconds:8.1f}"
        )
    same = harmed.weights != "" and harmed.weights == calm.weights
    print(
        f"starts: {len(harmed.launches)}; each sample exactly once: {'yes' if harmed.once else 'NO'}; "
        f"weights those of the undisturbed run: {'yes, every bit' if same else 'NO'}",
        flush=True,
    )
    right = ended.ok and len(rows) == planned and all(row.ok for row in rows) and harmed.once and same
    if not right:
        print("\n".join(ended.lines[-12:]), file=sys.stderr)
    return right


def _report_resized(found: Trajectory, calm: Trajectory, nproc: int) -> bool:
    off = max(abs(a - b) for a, b in zip(found.losses, calm.losses, strict=True))
    close = off < 1e-3  # the same sums in another order
    print(
        f"resized: ranks {' → '.join(map(str, found.launches))}; each sample exactly once: "
        f"{'yes' if found.once else 'NO'}; losses within {off:.1e} of the undisturbed run",
        flush=True,
    )
    return found.once and close and min(found.launches) < nproc and found.launches[-1] == nproc and found.weights != ""


def _write(given: argparse.Namespace, rows: Sequence[Noticed], results: dict[str, Record], planned: int) -> None:
    content = evidence.evidence(
        "survival",
        setup={
            "nproc": given.nproc,
            "steps": given.steps,
            "device": given.device,
            "harm": given.kinds,
            "timeout": given.timeout,
        },
        raw={"rows": [{**asdict(row), "ok": row.ok} for row in rows], **results},
        measured={
            "found": sum(row.ok for row in rows),
            "of": planned,
            "once": all(each["once"] for each in results.values()),
            "same": results["harmed"]["weights"] == results["calm"]["weights"] != "",
        },
    )
    print(f"evidence: {evidence.write(content, given.out, given.name or f'survive-{evidence.stamp()}')}")


if __name__ == "__main__":
    sys.exit(main())
