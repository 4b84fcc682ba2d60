"""Make good use of a paid hour: run every stage that fits these GPUs, write evidence after each, and pack it all into a
zip file.

Run `./course run tour --minutes 55 --out tour` on the rented machine. With `--dry` everything runs at home on the CPU.
The same command again runs only the stages that are missing or failed. Each stage has a time limit. If a stage fails,
the tour prints the reason and continues with the next one.
"""

import argparse
import errno
import json
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.estimate.facts import devices
from course_lib.installation import called_here
from course_lib.messages import Trouble, count_text
from course_runs import budget as money
from course_runs import evidence, preflight, torchrun
from course_runs.layouts import PROVEN

Starter = Callable[..., torchrun.Ended]
IN_SERVER = 8  # GPUs of one server, as they are rented out
FULL = os.strerror(errno.ENOSPC)


@dataclass(frozen=True)
class Stage:
    """One program of the tour."""

    name: str
    program: str
    arguments: tuple[str, ...]
    nproc: int
    minutes: float  # what it is expected to take on GPUs, and a third of what it may take
    why: str


def stages(gpus: int, dry: bool, fp8: bool = True) -> list[Stage]:
    """The stages for so many GPUs, the most telling first. `dry`: the same on processes of the CPU, with a tiny
    model. `fp8`: the GPUs have products of 8-bit numbers."""
    return list(_stages(gpus, dry, fp8))


def _stages(gpus: int, dry: bool, fp8: bool) -> Iterator[Stage]:
    device = ("--device", "cpu" if dry or gpus == 0 else "cuda")
    small = dry or gpus == 0
    few = ("--steps", "23" if small else "33", "--warmup", "5")
    one, many = ("1m", "1m") if small else ("350m", "1b")

    def train(name: str, nproc: int, minutes: float, why: str, *more: str, model: str = many) -> Stage:
        return Stage(name, "train", ("--size", model, *more, *few, *device), nproc, minutes, why)

    n = max(gpus, 1)
    yield Stage(
        "matmul",
        "matmul",
        ("--seconds", "0.1" if small else "0.5", *(("--largest", "512") if dry else ()), *device),
        1,
        1.0,
        "what one device really computes",
    )
    yield train("one", 1, 2.0, "one device: MFU and memory", "--layout", "single", model=one)
    if n >= 2:
        most = ("--largest", "1.7e7", "--seconds", "0.05") if dry else ()
        yield Stage("links", "collectives", (*most, *device), n, 3.0, "α and β of every collective")
        yield train("ddp", n, 2.0, "data parallel: replicas", "--layout", "ddp", model=one)
        yield train(
            "trace-ddp",
            n,
            2.0,
            "the same with a trace: what of the communication is hidden",
            "--layout",
            "ddp",
            "--trace",
            model=one,
        )
        yield train("fsdp", n, 3.0, "fully sharded", "--layout", "fsdp")
        yield train("tp", n if n <= 4 else n // 2, 3.0, "tensor parallel inside the server", "--layout", "tp")
        yield train(
            "pp-gpipe",
            min(n, 4),
            3.0,
            "a pipeline, all forward first",
            "--layout",
            "pp",
            "--schedule",
            "gpipe",
            "--micro-batches",
            "8",
        )
        yield train(
            "pp-1f1b",
            min(n, 4),
            3.0,
            "the same pipeline, one forward one backward",
            "--layout",
            "pp",
            "--schedule",
            "1f1b",
            "--micro-batches",
            "8",
        )
    yield train(
        "one-recompute",
        1,
        2.0,
        "the same device with activations computed again",
        "--layout",
        "single",
        "--checkpointing",
        "full",
        model=one,
    )
    single = ("--layout", "single")
    yield train("one-compiled", 1, 3.0, "the same device with its blocks compiled", *single, "--compile", model=one)
    if fp8 and not small:
        yield train("one-fp8", 1, 2.0, "the same device with products of 8-bit numbers", *single, "--fp8", model=one)
    if n >= 2:
        yield train("fsdp-kept", n, 3.0, "fully sharded, gathered weights kept", "--layout", "fsdp", "--keep-gathered")
    if n >= 4:
        yield train("hsdp", n, 3.0, "two levels: replicas of shards", "--layout", f"ddp=2,fsdp={n // 2}")
        yield train("fsdp-tp", n, 3.0, "two axes", "--layout", f"fsdp={n // 2},tp=2")
        yield train(
            "pp-interleaved",
            min(n, 4) // 2,
            3.0,
            "two chunks of layers on a stage",
            "--layout",
            "pp",
            "--schedule",
            "interleaved",
            "--micro-batches",
            "8",
        )
    if n >= 8:
        yield train(
            "three-axes", 8, 3.0, "pipeline × sharding × tensor", "--layout", "pp=2,fsdp=2,tp=2", "--micro-batches", "4"
        )
    if n in PROVEN and n >= 2:
        yield Stage("parity", "parity", ("--steps", "4", *device), n, 2.0, "every layout trains the same model")
    if n >= 2:
        yield Stage(
            "resumed",
            "resumed",
            ("--layout", "fsdp", *(("--steps", "20") if small else ("--size", one, "--steps", "10")), *device),
            n,
            3.0,
            "stopped half-way and continued",
        )
    if not small:
        yield train(
            "one-1b", 1, 3.0, "one device, a larger model", "--layout", "single", "--micro-batches", "2", model="1b"
        )
    yield Stage(
        "failures",
        "failures",
        (
            "--nproc",
            "3" if gpus in (0, 1) or dry else str(min(n, 4)),
            *(("--device", "cpu") if small or gpus < 3 else ("--device", "cuda")),
        ),
        1,
        3.0,
        "each failure on purpose, and its diagnosis",
    )


def main(argv: Sequence[str] | None = None, start: Starter = torchrun.run) -> int:
    """The tour; 0 if every stage that ran went well, 1 if one failed, 2 if it could not begin."""
    given = arguments(argv)
    try:
        return Tour(given, start).go()
    except Trouble as trouble:
        print(f"tour: {trouble}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"tour: the disk of {given.out} is full. Free some of it; the same command goes on.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\ntour: stopped. What is done is in {given.out}; the same command goes on from here.", file=sys.stderr)
        return 130


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="tour",
        description=called_here(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  tour --minutes 55 --out tour\n  tour --max-cost 20 --price 2.5 --out tour\n  tour --dry "
        "--gpus 4 --out tour-at-home\n  tour --plan --gpus 8",
    )
    add = parser.add_argument
    add(
        "--minutes",
        "--max-minutes",
        dest="minutes",
        type=float,
        default=None,
        help="stop after so many minutes; a stage that no longer fits is cut short or left out",
    )
    add("--out", default="tour", help="folder for the evidence")
    add("--dry", action="store_true", help="run on the CPU of this machine as if it had as many GPUs as --gpus says")
    add("--gpus", type=int, default=None, help="number of GPUs to use (default: all, or 8 with --dry)")
    add(
        "--price",
        type=float,
        default=None,
        help="price in dollars per GPU and hour (default: the usual price of this GPU, from the course's facts)",
    )
    add("--max-cost", type=float, default=None, help="stop before the tour costs more than this, in dollars")
    add("--only", default="", help="run only these stages: names separated by commas")
    add("--plan", action="store_true", help="print which stages would run, their time and their cost, and run none")
    return parser.parse_args(argv)


class Tour:
    """The stages, the money, and the folder in which it all lands."""

    def __init__(self, given: argparse.Namespace, start: Starter) -> None:
        self.given, self.start, self.out = given, start, Path(given.out)
        if not given.dry and not given.plan and given.gpus != 0:
            preflight.require_gpus()
        seen = preflight.gpus()
        self.gpus = given.gpus if given.gpus is not None else 8 if given.dry else len(seen)
        if not given.dry and not given.plan and self.gpus > len(seen):
            raise Trouble(f"--gpus {self.gpus}, and there are {len(seen)}.", "leave --gpus out, or add --dry or --plan")
        if not given.dry and self.gpus > max(IN_SERVER, len(seen)):
            raise Trouble(
                f"Nobody rents out {self.gpus} GPUs in one server.",
                f"plan for {IN_SERVER}; for several servers see course_runs/cloud/two_nodes.sbatch",
            )
        name = preflight.fact_name(seen[0].name) if seen else "H100 SXM"
        known, self.price_source = money.usual_price(name)
        paid = 0 if given.dry else self.gpus
        self.price = given.price if given.price is not None else known
        self.budget = money.budget(paid, self.price, given.minutes, given.max_cost)
        wanted = [name for name in given.only.split(",") if name]
        known_stages = stages(self.gpus, given.dry, name is None or devices()[name].get("fp8_flops") is not None)
        self.stages = [each for each in known_stages if not wanted or each.name in wanted]
        if unknown := set(wanted) - {each.name for each in self.stages}:
            raise Trouble(
                f"There is no stage {', '.join(sorted(unknown))} here.",
                f"stages: {', '.join(each.name for each in known_stages)}",
            )

    def go(self) -> int:
        """Say what will happen, do it, pack it."""
        self.announce()
        if self.given.plan:
            return 0
        self.out.mkdir(parents=True, exist_ok=True)
        evidence.write(preflight.as_evidence(), self.out, "machine")
        results = [self.one(number, stage) for number, stage in enumerate(self.stages, 1)]
        self.pack(results)
        return 0 if all(result["state"] in ("done", "was done", "no time") for result in results) else 1

    def announce(self) -> None:
        """Stages, expected minutes and dollars, before anything starts."""
        minutes = sum(stage.minutes for stage in self.stages)
        where = (
            f"{count_text(self.gpus, 'pretended GPU')}, on this CPU" if self.given.dry else count_text(self.gpus, "GPU")
        )
        print(
            f"tour: {count_text(len(self.stages), 'stage')} on {where}, about "
            f"{count_text(round(minutes), 'minute')} on GPUs",
            flush=True,
        )
        if self.gpus and not self.given.dry and self.price:
            cost = money.dollars(60 * minutes, self.gpus, self.price)
            print(
                f"  about ${cost:,.2f} at ${self.price:.2f} per GPU and hour "
                f"({self.price_source if self.given.price is None else 'as you said'})"
            )
        if self.budget.seconds != float("inf"):
            print(f"  stops after {count_text(round(self.budget.seconds / 60, 1), 'minute')}")
            if 60 * minutes > self.budget.seconds:
                print(
                    f"  that is less than these stages are expected to take: allow "
                    f"{count_text(round(minutes), 'minute')} for all of them"
                )
        for stage in self.stages:
            print(
                f"  {stage.name:15} {stage.nproc} × {stage.program:11} {stage.minutes:3.0f} min  {stage.why}",
                flush=True,
            )

    def one(self, number: int, stage: Stage) -> dict[str, object]:
        """One stage within its time; what became of it, written down before the next begins."""
        path, log = self.out / f"{stage.name}.json", self.out / "logs" / f"{stage.name}.txt"
        begin = f"[{number}/{len(self.stages)}] {stage.name}"
        if (
            path.exists() and self._known().get(stage.name, {}).get("state") != "failed"
        ):  # one that failed may have left evidence
            print(f"{begin}: was done", flush=True)
            return self._note(stage, "was done", 0.0, "")
        if self.budget.left < 30.0:
            print(f"{begin}: no time left", flush=True)
            return self._note(stage, "no time", 0.0, "the limit of minutes or dollars was reached")
        limit = min(3 * 60 * stage.minutes * (2 if self.given.dry else 1), self.budget.left)
        print(f"{begin}: {stage.why} (at most {limit / 60:.0f} min)", flush=True)
        began = time.monotonic()
        ended = self.start(
            stage.program,
            [*stage.arguments, "--out", str(self.out), "--name", stage.name],
            stage.nproc,
            timeout=limit,
            say=_indented,
        )
        log.parent.mkdir(exist_ok=True)
        log.write_text("\n".join(ended.lines) + "\n", encoding="utf-8")
        state = "done" if ended.ok and path.exists() else "timed out" if ended.timed_out else "failed"
        why = "" if state == "done" else _why(ended)
        if why:
            print(f"  {state}: {why}; the tour goes on. Its output: {log}", flush=True)
        return self._note(stage, state, time.monotonic() - began, why)

    def _note(self, stage: Stage, state: str, seconds: float, why: str) -> dict[str, object]:
        result = {**asdict(stage), "state": state, "seconds": seconds, "words": why}
        known = self._known()
        if state != "was done" or stage.name not in known:
            known[stage.name] = result
            (self.out / "tour.jsonl").write_text(
                "".join(json.dumps(each) + "\n" for each in known.values()), encoding="utf-8"
            )
        return result

    def _known(self) -> dict[str, dict[str, object]]:
        path = self.out / "tour.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return {row["name"]: row for row in map(json.loads, lines)}

    def pack(self, results: list[dict[str, object]]) -> None:
        """The zip, how to fetch it, and what is still running up a bill."""
        target = self.out.with_suffix(".zip") if self.out.suffix else self.out.parent / f"{self.out.name}.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            kinds = ("*.json", "logs/*.txt", "traces/*.json.gz", "tour.jsonl")
            for path in sorted(path for kind in kinds for path in self.out.glob(kind)):
                packed.write(path, path.relative_to(self.out).as_posix())
        counts = {
            state: sum(result["state"] == state for result in results)
            for state in ("done", "was done", "failed", "timed out", "no time")
        }
        print("tour: " + ", ".join(f"{count} {state}" for state, count in counts.items() if count))
        print(f"evidence: {target}")
        add = called_here(f"./course evidence add {target.name}")
        print(f"  take it home:  scp THIS_MACHINE:{target.resolve()} .  then  {add}")
        if self.gpus and not self.given.dry:
            spent = f", about ${self.budget.spent:,.2f} so far" if self.price else ""
            print(
                f"The rental is still running{spent}. Stop it with your provider's console, `sky down`, or `scancel` "
                f"for a Slurm job."
            )


def _indented(line: str) -> None:
    print(f"    {line}", flush=True)


def _why(ended: torchrun.Ended) -> str:
    """The last line that says something, of a stage that failed."""
    if any(FULL in line for line in ended.lines):
        return f"the disk is full ({FULL.lower()})"
    if ended.timed_out:
        return "it did not end in its time"
    telling = [
        line
        for line in ended.lines
        if "rror" in line
        or "Way out" in line
        or line.startswith(("train:", "collectives:", "matmul:", "parity:", "resumed:"))
    ]
    return (telling or list(ended.lines) or [f"it ended with code {ended.code}"])[0][:300]


if __name__ == "__main__":
    sys.exit(main())
