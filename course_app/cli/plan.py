"""`course plan`: the best layouts of a model on a cluster, with what binds each, from a calibrated model of the
step."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from course_app.cli.console import examples, part
from course_lib.messages import Trouble, count_text

if TYPE_CHECKING:
    from course_lib.estimate.facts import ModelShape
    from course_lib.parallel.planner import Cluster, Job, Plan

EXAMPLES = examples(
    "course plan --model llama3-70b --gpus 64xH100            plans that differ, and what binds each",
    "course plan --model ./config.json --gpus 8xA100-40GB     your own model: the config of a Hugging Face checkpoint",
    "course plan --model llama3-70b --gpus 512xH100 --tokens 2T --deadline 90d --html plan.html",
    'course plan --model llama3-70b --gpus H100:64 --layout "tp=8,pp=4,zero=1"    your own layout, judged',
    "course plan --model ./my-model --gpus 8xH100 --serve     what serving it gives",
    "course plan --model llama3-8b --gpus 8xA100 --sequences 128 --json",
)
SIZES = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
NUMBER = r"(\d+\.?\d*|\.\d+)"
TIMES = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
USUAL_BATCH = 512  # sequences
USUAL_SEQ = 8192  # tokens, unless the model's context is shorter
CONDITIONS = "without failures, restarts, checkpoints, evaluation and waiting for data"


def plan(
    model: Annotated[
        str, typer.Option("--model", help="A name of the course's table, a Hugging Face config.json, or its folder.")
    ],
    gpus: Annotated[str, typer.Option("--gpus", help="Devices, as in 64xH100, 8xA100-40GB, H100:8 or gb200-nvl72.")],
    seq: Annotated[
        int | None,
        typer.Option("--seq", min=1, max=100_000_000, help="Tokens of a sequence; 8,192, or the model's context."),
    ] = None,
    sequences: Annotated[
        int | None,
        typer.Option("--sequences", min=1, max=10_000_000, help="Sequences in a step; 512, or near it, by default."),
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="bf16, fp8 or fp4.")] = "bf16",
    software: Annotated[
        str,
        typer.Option(
            "--software",
            help="Whose kernels, overlap and memory: megatron-core, megatron-bridge, torchtitan, nanotron, course.",
        ),
    ] = "megatron-core",
    tokens: Annotated[str, typer.Option("--tokens", help="Tokens of the run, as in 2T.")] = "2T",
    deadline: Annotated[
        str, typer.Option("--deadline", help="The longest time the run may take, as in 12h, 30d or 4w.")
    ] = "",
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", help="The most the run may cost, as in 500000 (dollars).")
    ] = None,
    layout: Annotated[
        str, typer.Option("--layout", help='Judge this layout, as in "tp=8,pp=4,zero=1,microbatch=1,recompute=full".')
    ] = "",
    top: Annotated[int, typer.Option("--top", min=1, help="How many plans to show.")] = 3,
    serve: Annotated[bool, typer.Option("--serve", help="Plan serving instead of training.")] = False,
    page: Annotated[
        Path | None, typer.Option("--html", help="Write a page with pictures, to send to a colleague.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Plan a training run: the quickest layout that fits, the one with the fewest axes, and the one with the most
    memory to spare.

    Each plan has its memory and time by part, what it costs, what binds it and what it gives up, and the command lines
    of torchtitan, Megatron-LM, Megatron-Bridge and `course run`. Exits with 1 if nothing fits or meets the limits,
    naming what comes nearest.
    """
    planner, memory = part("course_lib.parallel.planner", "planning a run"), part("course_lib.estimate.memory", "plan")
    own_layout = part("course_app.own_layout", "planning a run")
    try:
        one = memory.find_model(model)
        cluster = planner.cluster(gpus)
        if serve:
            return _serve(one, cluster, as_json)
        many = _amount(tokens)
        batch = sequences or _batch(cluster.gpus)
        job = planner.Job(model=one, seq=_sequence(one, seq), sequences=batch, dtype=dtype, software=software)
        limits = {"deadline": _seconds(deadline) if deadline else None, "max_usd": _dollars(max_cost)}
        own = own_layout.judged(layout, job, cluster) if layout else None  # its own reasons come before the search's
        found = planner.choices(job, cluster, tokens=many, **limits)
        found = dict(list(found.items())[:top])
        best_wish, best = next(iter(found.items()))
        if own:
            found = {best_wish: best, "your layout": own}
    except planner.NoPlan as nothing:
        raise Trouble(str(nothing), "change the layout, the devices, the batch or the limits") from None
    except ValueError as refusal:
        raise Trouble(str(refusal), "correct this value; `course plan --help` has examples") from None
    heading = [about(one), devices(cluster), run(job, many)]
    if page is not None:
        page.write_text(part("course_app.plan_page", "the page").page(one.name, heading, found, many), encoding="utf-8")
    if as_json:
        asked = {"model": one.name, "parameters": one.params, "note": one.note, "tokens": many}
        asked |= {"sequences": batch, "seq": int(job.seq), "dtype": dtype, "software": software}
        asked |= {"conditions": CONDITIONS}
        plans = [{"wish": wish, **_as_json(planner, each, many)} for wish, each in found.items()]
        told = own_layout.published(job, cluster)
        typer.echo(json.dumps({**asked, "plans": plans, "published": asdict(told.step) if told else None}, indent=1))
        return
    told = own_layout.published(job, cluster)
    compared = ["", own_layout.compared(told, best)] if told else []
    typer.echo("\n".join([*heading, "", *explain(found, many), *compared]))
    shown = list(found)[-1] if layout else list(found)[0]
    typer.echo(f"\nCommand lines of {shown}:")
    lines, refused = commands(found[shown])
    for framework, line in lines.items():
        typer.echo(f"  {framework}: {line}")
    for framework, why in refused.items():
        typer.echo(f"  {framework}: not possible. {why}")
    if page is not None:
        typer.echo(f"\nThe page with pictures: {page}")


def explain(plans: "Mapping[str, Plan]", tokens: float) -> list[str]:
    """Each plan in a few lines: its wish and layout; time and cost; memory and time by part; what binds it; what it
    gives up."""
    from course_lib.estimate.units import bytes_text, duration_text, percent_text
    from course_lib.parallel.planner import cost, degrees, memory_parts, time_parts, verdict

    lines: list[str] = []
    best = next(iter(plans.values()))
    for place, (wish, plan) in enumerate(plans.items(), start=1):
        held = ", ".join(f"{name} {bytes_text(each)}" for name, each in memory_parts(plan).items())
        spent = ", ".join(f"{name} {percent_text(each / plan.seconds, 2)}" for name, each in time_parts(plan).items())
        lines += [
            f"{place}. {wish[0].upper()}{wish[1:]}: {degrees(plan)}",
            f"   {duration_text(plan.seconds)} a step, {cost(plan, tokens)}; MFU "
            f"{percent_text(float(plan.estimate.mfu))} ({percent_text(float(plan.estimate.attention_mfu))} "
            f"with attention){' of the 16-bit peak' * (plan.job.dtype != 'bf16')}",
            f"   Memory: {bytes_text(plan.memory)} of {bytes_text(plan.cluster.memory)}: {held}",
            *([f"   In the server's memory: {_in_server(plan)}"] * plan.job.offload),
            f"   Time: {spent}",
            f"   {verdict(plan, best)}",
        ]
    return lines


def _in_server(plan: "Plan") -> str:
    """What a device offloads, of what the server has for it, as far as a source says that."""
    from course_lib.estimate.units import bytes_text
    from course_lib.parallel.planner import offloaded

    room = plan.cluster.server_memory
    told = f"of {bytes_text(room)}" if room else "not checked: no source says how much such a server has"
    return f"{bytes_text(float(offloaded(plan.job, plan.layout)))} a device, {told}"


def about(one: "ModelShape") -> str:
    """The model in a line: parameters, those of a token, and what its config leaves to know."""
    active = "" if one.active_params == one.params else f", {one.active_params:,} of them used by a token"
    return f"{one.name}: {one.params:,} parameters{active}.{' Note: ' + one.note + '.' if one.note else ''}"


def devices(cluster: "Cluster") -> str:
    """The devices in a line: how many, how they are joined, what they cost, where the rates are from."""
    price = f"${cluster.usd_per_hour:.2f} an hour each" if cluster.usd_per_hour else "price unknown"
    servers = f" in servers of {cluster.per_node}" if cluster.gpus > cluster.per_node else ""
    return f"{cluster.gpus:,} x {cluster.name}{servers}, {price}. Rates: {cluster.source}."


def run(job: "Job", tokens: float) -> str:
    """The run in a line: tokens, batch, sequence, number format, and what the times leave out."""
    batch = f"steps of {job.sequences:,} sequences of {job.seq:,} tokens ({job.tokens:,} tokens)"
    return f"{_tokens(tokens)} in {batch}, {job.dtype}, Adam with fp32 state, {job.software.name}; {CONDITIONS}."


def _tokens(many: float) -> str:
    size = next((name for name in ("T", "B", "M", "K") if many >= SIZES[name]), "")
    return f"{many / SIZES[size]:g}{size} tokens"


def _sequence(one: "ModelShape", asked: int | None) -> int:
    """Tokens of a sequence; refused if the model has no position for each of them."""
    if asked and one.learned_positions and asked > one.seq_len:
        raise ValueError(f"--seq is {asked}; {one.name} has {one.seq_len} learned positions.")
    return asked or min(USUAL_SEQ, one.seq_len or USUAL_SEQ)


def _batch(gpus: int) -> int:
    """512 sequences, or the multiple of the devices nearest to it, where neither divides the other."""
    fits = USUAL_BATCH % gpus == 0 or gpus % USUAL_BATCH == 0
    return USUAL_BATCH if fits else max(1, round(USUAL_BATCH / gpus)) * gpus


class Replica(NamedTuple):
    """What replicas on so many devices give."""

    devices_of_a_replica: int
    replicas: int
    sequences_at_once: int
    cache_bytes_per_token: float
    first_token_seconds: float
    token_seconds: float
    tokens_per_second: float
    usd_per_million_tokens: float | None


def _serve(one: "ModelShape", cluster: "Cluster", as_json: bool, prompt: int = 2048, output: int = 256) -> None:
    """What replicas of 1, 2, 4, … devices give to requests of 2,048 tokens and replies of 256."""
    serving = part("course_lib.operate.serving", "planning a service")
    units = part("course_lib.estimate.units", "planning a service")
    server = min(cluster.gpus, cluster.per_node)
    rows: list[Replica] = []
    size = 2.0
    for size in (2.0, 1.0):  # bytes of a weight: 8 bits where 16 do not fit
        for tp in (1 << power for power in range(server.bit_length())):
            if server % tp or one.heads % tp:
                continue
            try:
                each = serving.Deployment(model=one, device=cluster.device, tp=tp, weight_size=size)
                rate = serving.steady_tokens_per_s(each, prompt, output) * (cluster.gpus // tp)
            except ValueError:
                continue  # it does not fit
            usd = serving.usd_per_million(cluster.usd_per_hour, cluster.gpus, rate) if cluster.usd_per_hour else None
            rows.append(
                Replica(
                    devices_of_a_replica=tp,
                    replicas=cluster.gpus // tp,
                    sequences_at_once=serving.largest_batch(each, prompt + output),
                    cache_bytes_per_token=each.kv_token_bytes,
                    first_token_seconds=serving.prefill_seconds(each, prompt),
                    token_seconds=serving.decode_seconds(each, 1, prompt + output / 2),
                    tokens_per_second=rate,
                    usd_per_million_tokens=usd,
                )
            )
        if rows:
            break
    if not rows:
        need = one.params / 0.94 / units.GB
        raise ValueError(
            f"{one.name} with 1 byte per weight does not fit on a server of {server} x {cluster.device}: it needs "
            f"{need:.0f} GB."
        )
    if as_json:
        found = {"model": one.name, "weight_bytes": size, "prompt": prompt, "output": output}
        typer.echo(json.dumps({**found, "replicas": [each._asdict() for each in rows]}, indent=1))
        return
    typer.echo("\n".join([about(one), devices(cluster)]))
    typer.echo(
        f"Serving with {8 * size:.0f}-bit weights and 16-bit caches: prompts of {prompt:,} tokens, replies of "
        f"{output}, requests always waiting.\n"
    )
    for row in rows:
        price = f"${row.usd_per_million_tokens:.2f}" if row.usd_per_million_tokens else "price unknown"
        typer.echo(
            f"{count_text(row.replicas, 'replica')} of {count_text(row.devices_of_a_replica, 'device')}: "
            f"{row.tokens_per_second:,.0f} output tokens/s in all, {price} a million; "
            f"{count_text(row.sequences_at_once, 'sequence')} at once in a replica. A request alone: first token "
            f"after {units.duration_text(row.first_token_seconds)}, then one every "
            f"{units.duration_text(row.token_seconds)}"
        )


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


def _as_json(planner: ModuleType, one: "Plan", tokens: float) -> dict[str, object]:
    where, found = one.layout, one.estimate
    lines, refused = commands(one)
    return {
        "layout": {
            name: int(getattr(where, name))
            for name in ("tp", "cp", "pp", "dp", "ep", "zero", "replicas", "virtual", "microbatches")
        },
        "microbatch_sequences": one.micro,
        "schedule": where.schedule,
        "recompute": one.job.recompute,
        "offload": one.job.software.offloads if one.job.offload else "none",
        "seconds": one.seconds,
        "seconds_by_cause": {name: float(each) for name, each in found.step.parts.items()},
        "memory_bytes": one.memory,
        "memory_by_part": planner.memory_by_part(one.job, where),
        "mfu": float(found.mfu),
        "attention_mfu": float(found.attention_mfu),
        "tokens_per_second": float(found.tokens_per_second),
        "days": one.days(tokens),
        "usd": one.usd(tokens) if one.cluster.usd_per_hour else None,  # no price is known for this device
        "bound_by": planner.binding(one),
        "commands": lines,
        "not_possible": refused,
    }


def commands(one: "Plan") -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Command lines by framework, and the reasons of those that cannot run the plan."""
    from course_chapters import framework_commands

    lines, refused = {}, {}
    for name in framework_commands.FRAMEWORKS:
        try:
            lines[name] = framework_commands.command(one, name)
        except ValueError as refusal:
            refused[name] = str(refusal)
    return lines, refused
