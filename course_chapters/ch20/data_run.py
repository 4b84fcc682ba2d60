"""`course run data`: a mixed stream read ahead from a slow store by real processes, stopped, and resumed by another
number of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TypedDict

import numpy as np
import torch
from torch.nn import functional

from course_chapters.ch20.data_mixture import Mixture, Position, Sample, share
from course_chapters.ch20.data_shards import Dataset, SlowStore, open_dataset, read_file, write_shards
from course_chapters.ch20.prefetch import Prefetcher, depth_for, play
from course_lib.cluster import Comm
from course_lib.cluster.errors import Unfinished
from course_lib.estimate.units import MINUTE, bytes_text, duration_text, percent_text, require, require_whole
from course_lib.messages import Trouble, count_text
from course_lib.model import text
from course_lib.model.transformer import Config, Transformer, build
from course_runs import evidence
from course_runs.real_ranks import launch

WEIGHTS = {"stories": 0.5, "sums": 0.3, "questions": 0.2}
SHARD_TOKENS, MINUTES = 5_000, 10.0  # of a shard; for all processes together
TOLERANCE = 1e-9  # of a loss: float64 sums in another order
EXAMPLES = """\
examples:
  course run data                                  two processes, then three, from a store of 2 ms and 2 MB/s
  course run data --before 4 --after 1 --depth 4   others
  course run data --latency 0.02                   a store slower than the step: no buffer hides it
  course run data --dry                            what it would do
"""


@dataclass(frozen=True)
class Plan:
    """A run of `steps` steps of `batch` samples that `before` ranks stop after `stop`, and `after` ranks resume."""

    before: int = 2
    after: int = 3
    steps: int = 24
    stop: int = 12
    batch: int = 12
    depth: int = 2
    latency: float = 0.002  # s
    bandwidth: float = 2e6  # bytes/s
    seq_len: int = 64
    hidden: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("before", "after", "steps", "stop", "batch", "depth"):
            require_whole(name, getattr(self, name))
        if self.stop >= self.steps:
            raise ValueError(f"stop is {self.stop}; a run of {self.steps} steps stops before its end.")
        if max(self.before, self.after) > self.batch:
            raise ValueError(f"A step of {self.batch} samples gives {max(self.before, self.after)} ranks none to read.")
        SlowStore(self.latency, self.bandwidth)


def write_datasets(folder: Path, seq_len: int) -> dict[str, Dataset]:
    """The course's text as three datasets in shards: sentences with sums, questions, and all others."""
    sentences = [f"{each}. " for each in text.text().replace("\n", " ").replace("? ", "?. ").split(". ") if each]
    kind_of = {each: "questions" if "?" in each else "sums" if "=" in each else "stories" for each in set(sentences)}
    for name in WEIGHTS:
        tokens = text.encode("".join(each for each in sentences if kind_of[each] == name)).numpy()
        write_shards(tokens, folder / name, SHARD_TOKENS, seq_len)
    return open_datasets(folder)


def open_datasets(folder: Path) -> dict[str, Dataset]:
    """The three datasets, each checked."""
    return {name: open_dataset(folder / name) for name in WEIGHTS}


def mixture(datasets: dict[str, Dataset], seed: int) -> Mixture:
    """The run's order of samples."""
    return Mixture({name: each.samples for name, each in datasets.items()}, WEIGHTS, seed)


def read_seconds(datasets: dict[str, Dataset], samples: Sequence[Sample], store: SlowStore) -> float:
    """What the store takes for these samples, one request after the other."""
    seconds = 0.0

    def counted(path: Path, first: int, count: int) -> bytes:
        nonlocal seconds
        seconds += store.seconds(count)
        return read_file(path, first, count)

    for name, number in samples:
        datasets[name].sample(number, counted)
    return seconds


State = tuple[dict[str, torch.Tensor], dict[str, object]]  # of the model and of its optimizer


class Stage(TypedDict):
    """Steps that some processes take, from which state, and how."""

    first: int
    last: int
    position: Position
    state: State | None
    depth: int
    slow: bool


class Row(TypedDict):
    """A rank's step."""

    wait: float
    seconds: float
    loss: float
    samples: list[Sample]


class Joined(TypedDict):
    """A step of all ranks."""

    loss: float
    samples: list[list[list[str | int]]]


class Part(TypedDict):
    """What a rank gives back of its steps."""

    rows: list[Row]
    position: Position
    state: State | None


def _stage(comm: Comm | None, plan: Plan, folder: str, stage: Stage) -> Part:
    """A rank's part of the steps from `first` to `last`: what it read, waited and computed; rank 0 adds the state.

    `depth` 0 reads each batch when its step needs it; `position` and `state` are those of a checkpoint.
    """
    rank, ranks = (0, 1) if comm is None else (comm.rank, comm.size)
    datasets = open_datasets(Path(folder))
    store = SlowStore(plan.latency, plan.bandwidth) if stage["slow"] else read_file
    order, position = mixture(datasets, plan.seed), tuple(stage["position"])
    wanted: list[list[Sample]] = []
    for _ in range(stage["first"], stage["last"]):
        batch, position = order.batch(position, plan.batch)
        wanted.append(share(batch, rank, ranks))

    def load(samples: list[Sample]) -> torch.Tensor:
        return torch.tensor(np.stack([datasets[name].sample(number, store) for name, number in samples]).astype(int))

    config = Config(vocab=64, layers=2, hidden=plan.hidden, heads=4, seq_len=plan.seq_len)
    model = build(config, plan.seed).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if stage["state"]:
        model.load_state_dict(stage["state"][0])
        optimizer.load_state_dict(stage["state"][1])
    ahead = Prefetcher(load, wanted, stage["depth"]) if stage["depth"] else None
    batches = iter(ahead) if ahead else map(load, wanted)
    rows: list[Row] = []
    for samples in wanted:
        begun = time.perf_counter()
        tokens = next(batches)
        there = time.perf_counter()
        loss = _step(model, optimizer, tokens, plan, comm)
        rows.append({"wait": there - begun, "seconds": time.perf_counter() - there, "loss": loss, "samples": samples})
    state = (model.state_dict(), optimizer.state_dict()) if rank == 0 else None
    return {"rows": rows, "position": position, "state": state}


def _step(
    model: Transformer, optimizer: torch.optim.Optimizer, tokens: torch.Tensor, plan: Plan, comm: Comm | None
) -> float:
    """One step on this rank's samples; loss and gradients are means over the tokens of all ranks."""
    optimizer.zero_grad()
    logits = model(tokens[:, :-1])
    targets = plan.batch * plan.seq_len
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum") / targets
    loss.backward()
    parameters = list(model.parameters())
    flat = torch.cat([loss.detach().reshape(1), *(each.grad.flatten() for each in parameters if each.grad is not None)])
    if comm is not None:
        comm.all_reduce(flat)
    for each, part in zip(parameters, flat[1:].split([each.numel() for each in parameters]), strict=True):
        each.grad = part.view_as(each)
    optimizer.step()
    return float(flat[0])


def measured(plan: Plan, minutes: float, say: Callable[[str], None]) -> evidence.Evidence:
    """The evidence of a run: two stages on other numbers of ranks, one without a buffer, and one process alone.

    `Unfinished` where the processes take longer than `minutes` together.
    """
    until = time.monotonic() + minutes * MINUTE
    with tempfile.TemporaryDirectory(prefix="data-") as folder:
        datasets = write_datasets(Path(folder), plan.seq_len)
        order = mixture(datasets, plan.seed)

        def stage(ranks: int, first: int, last: int, position: Position, state: State | None, depth: int) -> list[Part]:
            given = Stage(first=first, last=last, position=position, state=state, depth=depth, slow=True)
            return launch(_stage, ranks, (plan, folder, given), timeout=max(until - time.monotonic(), 0.1)).results

        before = stage(plan.before, 0, plan.stop, order.start, None, plan.depth)
        say(f"{count_text(plan.before, 'rank')} stopped after {plan.stop} steps at {list(before[0]['position'])}.")
        after = stage(plan.after, plan.stop, plan.steps, before[0]["position"], before[0]["state"], plan.depth)
        say(f"{count_text(plan.after, 'rank')} resumed and read up to {list(after[0]['position'])}.")
        plain = stage(plan.before, 0, plan.stop, order.start, None, 0)
        whole = Stage(first=0, last=plan.steps, position=order.start, state=None, depth=0, slow=False)
        alone = _stage(None, plan, folder, whole)
        return _evidence(plan, datasets, order, before, after, plain, alone)


def _evidence(
    plan: Plan,
    datasets: dict[str, Dataset],
    order: Mixture,
    before: list[Part],
    after: list[Part],
    plain: list[Part],
    alone: Part,
) -> evidence.Evidence:
    rows = [_joined(stage, number) for stage in (before, after) for number in range(len(stage[0]["rows"]))]
    step = median(row["seconds"] for row in before[0]["rows"][1:])
    store = SlowStore(plan.latency, plan.bandwidth)
    reads = [read_seconds(datasets, row["samples"], store) for row in before[0]["rows"]]
    predicted = {depth: fmean(play(reads, step, depth).waits) for depth in (0, plan.depth)}
    samples = order.batch(order.start, plan.steps * plan.batch)[0]
    apart = max(abs(row["loss"] - one["loss"]) for row, one in zip(rows, alone["rows"], strict=True))
    return evidence.evidence(
        "data",
        setup={**asdict(plan), "ranks": max(plan.before, plan.after), "samples_of": dict(order.samples)},
        predicted={"wait_without": predicted[0], "wait_with": predicted[plan.depth], "read_seconds": fmean(reads)},
        measured={
            "wait_without": fmean(row["wait"] for row in plain[0]["rows"]),
            "wait_with": fmean(row["wait"] for row in before[0]["rows"]),
            "step_seconds": step,
            "largest_difference": apart,
        },
        raw={
            "rows": rows,
            "waits_without": [row["wait"] for row in plain[0]["rows"]],
            "waits_with": [row["wait"] for row in before[0]["rows"]],
            "order": [list(each) for each in samples],
            "losses_alone": [row["loss"] for row in alone["rows"]],
        },
        notes=("The store is emulated: each request sleeps. Waits are those of rank 0 of the first stage.",),
    )


def _joined(stage: list[Part], number: int) -> Joined:
    """One step of all ranks: its loss, and the samples of every rank in turn."""
    of_ranks = [rank["rows"][number] for rank in stage]
    return {"loss": of_ranks[0]["loss"], "samples": [[list(each) for each in row["samples"]] for row in of_ranks]}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says: 0 where it went well, 1 where the resumed run differs, 2 where it was refused,
    124 where it took too long."""
    given = vars(arguments(argv))
    dry, out, minutes = (given.pop(name) for name in ("dry", "out", "minutes"))
    try:
        plan = Plan(**given)
        print(_said(plan), flush=True)
        if dry:
            return 0
        content = measured(plan, require("minutes", minutes, "min"), print)
    except Unfinished:
        print(f"data: stopped after {minutes:g} minutes; there is no evidence.", file=sys.stderr)
        return 124
    except (Trouble, ValueError) as trouble:
        print(f"data: {trouble}", file=sys.stderr)
        return 2
    found, said = content["measured"], content["predicted"]
    for name, words in (("wait_without", "without a buffer"), ("wait_with", f"with {plan.depth} batches ahead")):
        print(f"A step waits {duration_text(found[name], 2)} {words}; predicted {duration_text(said[name], 2)}.")
    share_waited = found["wait_with"] / (found["wait_with"] + found["step_seconds"])
    print(f"With the buffer, {percent_text(share_waited, 2)} of the time is waiting.")
    try:
        depth_for(said["read_seconds"], 0, found["step_seconds"])
    except ValueError as slower:
        print(slower)
    print(f"Losses of the resumed run and of one process alone differ by at most {found['largest_difference']:.2g}.")
    if out:
        print(evidence.write(content, out, f"data-{evidence.stamp()}"))
    return int(found["largest_difference"] > TOLERANCE)


def _said(plan: Plan) -> str:
    return (
        f"{count_text(plan.before, 'rank')} train for {plan.stop} steps of {count_text(plan.batch, 'sample')}, then "
        f"{count_text(plan.after, 'rank')} up to step {plan.steps}; the store answers after "
        f"{duration_text(plan.latency)} and sends {bytes_text(plan.bandwidth)}/s; {plan.depth} batches ahead."
    )


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="course run data",
        description="Read a mixture of three datasets from a slow store, stop, and resume on other ranks.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan = Plan()
    for name, words in (
        ("before", "processes of the first stage"),
        ("after", "processes that resume it"),
        ("steps", "steps of both stages together"),
        ("stop", "steps of the first stage"),
        ("batch", "samples of a step, all processes together"),
        ("depth", "batches read ahead"),
        ("seed", "of weights and of the order of samples"),
    ):
        default = getattr(plan, name)
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{words} (default: {default})")
    parser.add_argument("--latency", type=float, default=plan.latency, help="seconds until the store answers")
    parser.add_argument("--bandwidth", type=float, default=plan.bandwidth, help="bytes/s of the store")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"stop after so many (default: {MINUTES:g})")
    parser.add_argument("--dry", action="store_true", help="say what would run, and stop")
    parser.add_argument("--out", default="", help="folder for the evidence")
    return parser.parse_args(argv)
