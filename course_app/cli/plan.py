"""`course plan`: the best layouts of a model on a cluster, with what binds each, from a calibrated model of the step."""

import json
import math
import re
from typing import Annotated, Any

import typer

from course_app.cli.console import examples, part
from course_lib.messages import Trouble

EXAMPLES = examples(
    "course plan --model llama3-70b --gpus 64xH100            the best layouts and what binds each",
    "course plan --model llama3-70b --gpus 512xH100 --tokens 2T --deadline 90d",
    "course plan --model llama3-8b --gpus 8xA100 --sequences 128 --json",
)
SIZES = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
NUMBER = r"(\d+\.?\d*|\.\d+)"
TIMES = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def plan(
    model: Annotated[str, typer.Option("--model", help="The model, by its name in the course's facts.")],
    gpus: Annotated[str, typer.Option("--gpus", help="Devices, as in 64xH100.")],
    seq: Annotated[int, typer.Option("--seq", min=1, help="Tokens of a sequence.")] = 8192,
    sequences: Annotated[
        int, typer.Option("--sequences", min=1, help="Sequences in a step, all devices together.")
    ] = 512,
    dtype: Annotated[str, typer.Option("--dtype", help="bf16 or fp8.")] = "bf16",
    tokens: Annotated[str, typer.Option("--tokens", help="Tokens of the run, as in 2T.")] = "2T",
    deadline: Annotated[
        str, typer.Option("--deadline", help="The longest time the run may take, as in 12h, 30d or 4w.")
    ] = "",
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", help="The most the run may cost, as in 500000 (dollars).")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many plans to show.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Plan a training run: the quickest layouts that fit.

    Each plan says what it costs, what binds it, and what it gives up against the best, and is written as a command line of torchtitan,
    Megatron-LM and `course run`. Exits with 1 if nothing fits or meets the limits, naming what comes nearest.
    """
    planner = part("course_lib.parallel.planner", "planning a run")
    try:
        many = _amount(tokens)
        job = planner.Job(model=model, seq=seq, sequences=sequences, dtype=dtype)
        limits = {"deadline": _seconds(deadline) if deadline else None, "max_usd": _dollars(max_cost)}
        found = planner.search(job, planner.cluster(gpus), top=top, tokens=many, **limits)
    except planner.NoPlan as nothing:
        raise Trouble(str(nothing), "change the devices, the batch or the limits") from None
    except ValueError as refusal:
        raise Trouble(str(refusal), "correct this value; `course plan --help` has examples") from None
    if as_json:
        asked = {"tokens": many, "sequences": sequences, "seq": seq, "dtype": dtype}
        typer.echo(json.dumps({**asked, "plans": [_as_json(planner, each, many) for each in found]}, indent=1))
        return
    typer.echo(
        f"{many / 1e12:g}T tokens in steps of {sequences:,} sequences of {seq:,} tokens ({sequences * seq:,} tokens), {dtype}.\n"
    )
    typer.echo("\n".join(planner.explain(found, many)))
    typer.echo("\nThe best plan as a command line:")
    lines, refused = _commands(planner, found[0])
    for framework, line in lines.items():
        typer.echo(f"  {framework}: {line}")
    for framework, why in refused.items():
        typer.echo(f"  {framework}: not possible. {why}")


def _amount(text: str) -> float:
    found = re.fullmatch(rf"\s*{NUMBER}\s*([KMBT]?)\s*", text.upper())
    if not found or float(found[1]) <= 0:
        raise ValueError(f"--tokens is {text!r}; write a number above zero, such as 300B or 2T.")
    return float(found[1]) * SIZES[found[2]]


def _seconds(text: str) -> float:
    found = re.fullmatch(rf"\s*{NUMBER}\s*([hdw])\s*", text.lower())
    if not found or float(found[1]) <= 0:
        raise ValueError(f"--deadline is {text!r}; write a time above zero with its unit, such as 12h, 30d or 4w.")
    return float(found[1]) * TIMES[found[2]]


def _dollars(limit: float | None) -> float | None:
    if limit is not None and not 0 < limit < math.inf:
        raise ValueError(f"--max-cost is {limit:g}; write dollars above zero, such as 500000.")
    return limit


def _as_json(planner: Any, one: Any, tokens: float) -> dict[str, Any]:
    where, found = one.layout, one.estimate
    return {
        "layout": {
            name: int(getattr(where, name))
            for name in ("tp", "cp", "pp", "dp", "ep", "zero", "virtual", "microbatches")
        },
        "schedule": where.schedule,
        "recompute": one.job.recompute,
        "seconds": one.seconds,
        "seconds_by_cause": {name: float(each) for name, each in found.step.parts.items()},
        "memory_bytes": one.memory,
        "mfu": float(found.mfu),
        "attention_mfu": float(found.attention_mfu),
        "tokens_per_second": float(found.tokens_per_second),
        "days": one.days(tokens),
        "usd": one.usd(tokens) if one.cluster.usd_per_hour else None,  # no price is known for this device
        "bound_by": planner.binding(one),
        "commands": _commands(planner, one)[0],
        "not_possible": _commands(planner, one)[1],
    }


def _commands(planner: Any, one: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Command lines by framework, and the reasons of those that cannot run the plan."""
    lines, refused = {}, {}
    for name in planner.FRAMEWORKS:
        try:
            lines[name] = planner.command(one, name)
        except ValueError as refusal:
            refused[name] = str(refusal)
    return lines, refused
