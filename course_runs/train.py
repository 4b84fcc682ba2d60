"""Train the course's model for real: `torchrun --nproc-per-node 8 -m course_runs.train --size 1b --layout fsdp`.

The program prints its prediction, trains, prints what it measured, and writes an evidence file. A single process needs
no torchrun.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

import torch

from course_lib.messages import Trouble, count_text
from course_runs import (
    commands,
    eight_bits,
    evidence,
    layouts,
    loggers,
    measuring,
    peaks,
    predict,
    prediction_error,
    rates,
    saving,
)
from course_runs.evidence_fields import Measured, StepRow
from course_runs.learning_rate import rate_at
from course_runs.options import arguments, job_of
from course_runs.parallel import Choices, mesh_of, pieces_here, spread
from course_runs.process_group import Place, end, join, leave, refused, servers
from course_runs.retrying import SAVED
from course_runs.step_breakdown import Stamp
from course_runs.stepping import Stepper

WARM_UP = 3  # steps that are not timed


def warm_up(steps: int) -> int:
    """How many of so many steps are not timed: at least one is."""
    return min(WARM_UP, steps - 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Train; the exit code."""
    given = arguments(argv)
    if given.print_command:
        return _print_command(given)
    try:
        run(given, join(given.device, given.backend, given.timeout))
        return 0
    except saving.Stopped as stopped:
        if os.environ.get("RANK", "0") == "0":
            print(f"train: {stopped}", flush=True)
        return SAVED
    except (Trouble, ValueError) as trouble:  # every rank finds the same, before anything is sent
        return refused("train", trouble)
    finally:
        leave()


def _print_command(given: argparse.Namespace) -> int:
    return commands.show(given, int(os.environ.get("WORLD_SIZE", "1"))) if os.environ.get("RANK", "0") == "0" else 0


def run(given: argparse.Namespace, place: Place) -> evidence.Evidence | None:
    """Predict, train, measure, write. Rank 0 speaks."""
    if (given.save_every or given.resume) and not given.out:
        raise Trouble("Checkpoints need a folder.", "give --out")
    with loggers.boards(given, place) as shown:
        return _run(given, place, shown)


def _run(given: argparse.Namespace, place: Place, shown: loggers.Boards) -> evidence.Evidence | None:
    job = job_of(given, place.ranks, place.device.type)
    if given.compile:
        layouts.check_compiled(job.layout, job.config)
    fits(job, place)
    say = Speaker(place.first)
    dtype = torch.bfloat16 if job.width == 2 else torch.float32
    choices = Choices(dtype=dtype, reshard=job.reshard, compiled=given.compile, fp8=given.fp8)
    if given.fp8:
        eight_bits.require(place.device)
    mesh = mesh_of(job.layout, place)
    known = earlier(given.rates) if given.rates else rates.measure(job, place, choices, mesh)
    stage = mesh["pp"].get_local_rank() if job.layout.pp > 1 else 0
    expected = predict.predict(job, known, stage)
    say.prediction(given, job, known, expected)
    watch = measuring.Watch(place)
    models = [
        spread(model, job.layout, mesh, choices)
        for model in pieces_here(job.config, job.layout, mesh, place, given.seed)
    ]
    stepper = Stepper(models, job.config, job.layout, mesh, place, choices, job.batch, given.learning_rate)
    first, planned = saving.resume(given, stepper, place) if given.resume else (0, 0)
    given = until(given, first)
    setup = {**setup_of(given, job, place, dtype), "servers": servers(place)}
    shown.begin(setup)
    total = given.total_steps or planned or first + given.steps
    rows: list[StepRow] = []
    launched: list[LaunchedStep] = []
    saver = saving.Saver(given, stepper, place)
    for number in range(first, first + given.steps):
        launched.append(one_step(given, stepper, saver, number, total))
        if say.due(number, first, first + given.steps):
            rows += settled(launched, stepper, place)
            launched.clear()
            shown.log(rows, job.tokens)
            say.step(rows[-1], first + given.steps, job, place)
    saver.finish()
    rows += settled(launched, stepper, place)
    shown.log(rows, job.tokens)
    name = given.name or f"train-{given.size}-{job.layout.name.replace(',', '-').replace('=', '')}-{evidence.stamp()}"
    chrome = f"{given.out}/traces/{name}-rank{place.rank}.json.gz" if given.trace and given.out else ""
    seen = watch.read(stepper, first + given.steps, given.trace, chrome)
    measured = summary(rows, seen, job, place, known)
    measured["gap"] = prediction_error.gap(
        expected, measured, rows[warm_up(len(rows)) :], job, known.cores, on_cpu=place.device.type == "cpu"
    )
    say.comparison(expected, measured)
    if not (given.out and place.first):
        return None
    content = evidence.evidence(
        "train",
        setup={**setup, "rates": asdict(known)},
        predicted=expected.as_data(),
        measured=measured,
        raw={"steps": rows, **seen.raw},
    )
    path = evidence.write(content, given.out, name)
    print(f"evidence: {path}", flush=True)
    return content


def until(given: argparse.Namespace, first: int) -> argparse.Namespace:
    """The command line with the steps that are left of `--until`, after the `first` that a checkpoint holds."""
    if not given.until:
        return given
    if given.until <= first:
        raise Trouble(
            f"Step {given.until} was the last to train: the checkpoint is of step {first}.", "give a larger --until"
        )
    return argparse.Namespace(**{**vars(given), "steps": given.until - first})


@dataclass(frozen=True)
class LaunchedStep:
    """A step as the device's own stamps and tensors, until the device is done with it."""

    number: int
    learning_rate: float
    start: Stamp
    end: Stamp
    values: dict[str, torch.Tensor]  # loss and gradient norm
    parts: list[tuple[str, Stamp, Stamp]]


def one_step(given: argparse.Namespace, stepper: Stepper, saver: saving.Saver, number: int, total: int) -> LaunchedStep:
    """One step, and the checkpoint after it if one is due; `settled` reads its numbers."""
    rate = rate_at(number, given.learning_rate, given.warmup, total)
    start = stepper.clock.now()
    values = stepper.launch(number, rate)
    saver.after(number + 1, total)
    return LaunchedStep(number, rate, start, stepper.clock.now(), values, stepper.clock.take())


def settled(launched: Sequence[LaunchedStep], stepper: Stepper, place: Place) -> list[StepRow]:
    """The numbers of these steps, once the device has done all that it was given."""
    place.wait()
    return [
        {
            "step": each.number,
            "seconds": stepper.clock.between(each.start, each.end),
            "loss": float(each.values["loss"]),
            "gradient_norm": float(each.values["gradient_norm"]),
            "learning_rate": each.learning_rate,
            "parts": stepper.clock.seconds(each.parts),
        }
        for each in launched
    ]


def earlier(path: str) -> predict.Rates:
    """The rates of an earlier run on the same machine."""
    content = evidence.read(path)
    if content["kind"] != "train":
        raise Trouble(
            f"--rates {path} is evidence of kind {content['kind']!r}, which holds no rates.",
            "give that of a `train` run on this machine",
        )
    return replace(predict.Rates(**content["setup"]["rates"]), source="those of an earlier run")


def setup_of(given: argparse.Namespace, job: predict.Job, place: Place, dtype: torch.dtype) -> dict[str, object]:
    """What was run, for the evidence."""
    return {
        "size": given.size,
        "parameters": job.params,
        "layout": job.layout.as_data(),
        "batch": job.batch,
        "seq_len": job.config.seq_len,
        "tokens_per_step": job.tokens,
        "dtype": str(dtype).removeprefix("torch."),
        "checkpointing": job.config.checkpointing,
        "reshard_after_forward": job.reshard,
        "compiled": given.compile,
        "fp8": given.fp8,
        "backend": place.backend,
        "device": place.device.type,
        "seed": given.seed,
        "steps": given.steps,
        "warm_up": warm_up(given.steps),
        "learning_rate": given.learning_rate,
        "warmup": given.warmup,
    }


def summary(
    rows: list[StepRow], seen: measuring.Seen, job: predict.Job, place: Place, known: predict.Rates
) -> Measured:
    """What follows from the raw numbers: medians over the timed steps, MFU by a named peak, bytes."""
    times = sorted(row["seconds"] for row in rows[warm_up(len(rows)) :])
    seconds = median(times)
    peak, source = peaks.peak_flops(place.device, torch.bfloat16 if job.width == 2 else torch.float32, known.flops)
    flops = predict.step_flops(job)
    return {
        "step_seconds": seconds,
        "step_seconds_p10": times[len(times) // 10],
        "step_seconds_p90": times[min(len(times) * 9 // 10, len(times) - 1)],
        "tokens_per_s": job.tokens / seconds,
        "mfu": flops / seconds / place.ranks / peak,
        "peak_flops": peak,
        "peak_source": source,
        "model_flops_per_step": flops,
        "memory_bytes": seen.memory_bytes,
        "memory_by": seen.memory_by,
        "wire": seen.wire,
        **seen.traced,
        "wire_bytes": sum(seen.wire.values()),
        "wire_calls": seen.calls,
        "first_loss": rows[0]["loss"],
        "last_loss": rows[-1]["loss"],
    }


def fits(job: predict.Job, place: Place) -> None:
    """Trouble, before anything is built, where the prediction says that the model does not fit on this device."""
    room = peaks.memory_of(place)
    stages = range(job.layout.pp)
    need = max(sum(predict.memory_bytes(job, stage).values()) for stage in stages)
    if need <= room:
        return
    raise Trouble(
        f"This needs about {need / 1e9:,.1f} GB on a rank, and a rank has {room / 1e9:,.1f} GB.", would_fit(job, room)
    )


def would_fit(job: predict.Job, room: float) -> str:
    """The first of a few changes with which the job would fit, in words."""
    layout = job.layout
    tries = [("--checkpointing full", replace(job, config=replace(job.config, checkpointing="full")))]
    if layout.ddp > 1 and layout.pp == layout.tp == 1:
        tries.append(("--layout fsdp", replace(job, layout=replace(layout, ddp=1, fsdp=layout.ddp * layout.fsdp))))
        tries.append(("--layout fsdp --checkpointing full", replace(tries[-1][1], config=tries[0][1].config)))
    for name, other in tries:
        if max(sum(predict.memory_bytes(other, stage).values()) for stage in range(layout.pp)) <= room:
            return f"{name} would fit"
    return "use more ranks with fsdp, tp or pp, a shorter --seq-len, a smaller --batch or a smaller --size"


class Speaker:
    """What rank 0 says while a run goes on."""

    def __init__(self, speaks: bool) -> None:
        self.speaks = speaks
        self.last = 0.0

    def line(self, text: str) -> None:
        """One line, at once."""
        if self.speaks:
            print(text, flush=True)

    def prediction(
        self, given: argparse.Namespace, job: predict.Job, known: predict.Rates, expected: predict.Predicted
    ) -> None:
        """What is about to run, and what it should need."""
        config, layout = job.config, job.layout
        self.line(
            f"{given.size}: {job.params / 1e6:,.1f}M parameters, {count_text(config.layers, 'layer')} of "
            f"{config.hidden}, {job.batch} × {config.seq_len} tokens a step; {layout.name} on "
            f"{count_text(layout.ranks, 'rank')}"
        )
        self.line(
            f"rates ({known.source}): {known.flops / 1e9:,.1f} GFLOP/s, copy {known.memory / 1e9:,.1f} GB/s"
            + f", a block {known.block * 1e3:,.1f} ms"
            + "".join(
                f", {name} {alpha * 1e6:,.0f} µs" + (f" + bytes / {rate / 1e9:,.2f} GB/s" if rate else "")
                for name, (alpha, rate) in known.wires.items()
            )
        )
        self.line("predicted: " + ", ".join(_said(expected.step_seconds, expected.memory_bytes, expected.wire_bytes)))

    def due(self, number: int, first: int, last: int) -> bool:
        """Whether it is time for a line: at most twice a second, and for the first and the last step always."""
        return number + 1 >= last or number == first or time.monotonic() - self.last >= 0.5

    def step(self, row: StepRow, last: int, job: predict.Job, place: Place) -> None:
        """A row as a line."""
        self.last = time.monotonic()
        memory = f"  {torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if place.device.type == "cuda" else ""
        self.line(
            f"step {row['step'] + 1:>4}/{last}  loss {row['loss']:.4f}  |g| {row['gradient_norm']:.2f}  "
            f"{job.tokens / row['seconds']:,.0f} tokens/s  {row['seconds'] * 1e3:,.0f} ms{memory}"
        )

    def comparison(self, expected: predict.Predicted, measured: Measured) -> None:
        """Predicted, measured, and their ratio, a line for each."""
        self.line(
            "measured:  "
            f"{', '.join(_said(measured['step_seconds'], measured['memory_bytes'], measured['wire_bytes']))}; MFU "
            f"{measured['mfu']:.1%} of {measured['peak_flops'] / 1e12:,.2f} TFLOP/s ({measured['peak_source']})"
        )
        for name, one, other in (
            ("step time", expected.step_seconds, measured["step_seconds"]),
            ("memory", expected.memory_bytes, measured["memory_bytes"]),
            ("wire", expected.wire_bytes, measured["wire_bytes"]),
        ):
            if one and other:
                self.line(f"  {name:9} measured / predicted = {other / one:.2f}")
        parts = ", ".join(f"{name} {seconds * 1e3:,.1f} ms" for name, seconds in expected.seconds.items() if seconds)
        self.line(f"  predicted, part by part: {parts}")
        for words in prediction_error.said(measured["gap"]):
            self.line(f"  gap: {words}")


def _said(seconds: float, memory: float, wire: float) -> list[str]:
    return [f"{seconds * 1e3:,.1f} ms a step", f"{memory / 1e6:,.1f} MB at the peak", f"{wire / 1e6:,.2f} MB sent"]


if __name__ == "__main__":
    end(main())
