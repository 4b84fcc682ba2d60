"""Chapter 13's tables: levels of a cluster, published recipes, choices by
deadline."""

from collections.abc import Iterable, Sequence

from IPython.display import Markdown

from course_chapters.ch13.exercises import numbers
from course_chapters.ch13.exercises.numbers import LLAMA_RUNS
from course_chapters.table import table
from course_lib.estimate import roofline
from course_lib.estimate.running_plan import LAYOUT_TEXT
from course_lib.estimate.units import GB, TRILLION, bytes_text, duration_text, money_text, number_text, percent_text
from course_lib.parallel import planner
from course_lib.parallel.mesh import Mesh, crossed, network
from course_lib.parallel.planner.advice import CAUSES, degrees


def levels(topology: str = "Llama 3 cluster", payload: float = GB) -> Markdown:
    """Levels of a cluster: devices, bandwidth of a device one way and both ways, and the seconds of one payload."""
    return table(
        [
            {
                "level": each.name,
                "GPUs": f"{each.devices:,}",
                "GB/s one way, each GPU": number_text(each.bandwidth / GB),
                "both ways added": number_text((1 if each.wire == "memory" else 2) * each.bandwidth / GB),
                "against one level in": "–" if not place else f"÷ {number_text(1 / each.ratio)}",
                f"{bytes_text(payload)} of one GPU": duration_text(payload / each.bandwidth),
            }
            for place, each in enumerate(roofline.levels(topology))
        ]
    )


def wires(mesh: Mesh, cluster: str) -> Markdown:
    """For each axis of a mesh: its groups, one of them, and the wires that they cross on a cluster."""
    net = network(cluster)
    rows = []
    for axis in reversed(mesh.axes):
        group = mesh.groups(axis)[0]
        counts = {name: count for name, count in crossed(mesh, axis, net).items() if count}
        rows.append(
            {
                "axis": f"{axis} = {mesh.sizes[axis]}",
                "stride": mesh.stride(axis),
                "groups": f"{mesh.size // mesh.sizes[axis]:,}",
                "the first one": ", ".join(map(str, group[:4])) + (", …" if len(group) > 4 else ""),
                "outermost wire": ", ".join(f"{name} ({count:,})" for name, count in counts.items()) or "none",
            }
        )
    return table(rows)


def recipes() -> Markdown:
    """Llama 3 405B's published layouts, with what follows from them."""
    rows = []
    for run in LLAMA_RUNS:
        sizes = {axis: int(getattr(run, axis)) for axis in ("tp", "cp", "pp", "dp")}
        sequences = round(run.batch_tokens / run.seq_len)
        rows.append(
            {
                "GPUs": f"{run.devices:,.0f}",
                "tokens of a sequence": f"{run.seq_len:,.0f}",
                **{axis: str(size) for axis, size in sizes.items()},
                "product": f"{sizes['tp'] * sizes['cp'] * sizes['pp'] * sizes['dp']:,}",
                "sequences of a replica": str(sequences // sizes["dp"]),
                "MFU": percent_text(float(run.mfu)),
            }
        )
    return table(rows)


def best(plans: Sequence[planner.Plan], tokens: float) -> Markdown:
    """Plans of the planner with their memory, what binds them, and how long a run of so many tokens takes."""
    rows = []
    for each in plans:
        cause = planner.binding(each)
        rows.append(
            {
                "layout": degrees(each),
                "memory": bytes_text(each.memory),
                "a step": duration_text(each.seconds),
                "most lost to": f"{CAUSES[cause]}, "
                f"{percent_text(float(each.estimate.step.parts[cause]) / each.seconds, 2)}",
                "MFU": percent_text(float(each.estimate.mfu)),
                "with attention": percent_text(float(each.estimate.attention_mfu)),
                "the run": f"{each.days(tokens):,.0f} days",
            }
        )
    return table(rows)


def deadline(model: str, tokens: float, days: float, counts: Iterable[int] = (1024, 2048, 4096, 8192)) -> Markdown:
    """For each number of GPUs the quickest layout that fits, if it meets the deadline, with its price."""
    rows, job = [], planner.Job(model=model, seq=numbers.SEQ, sequences=numbers.SEQUENCES, software=planner.TAUGHT)
    for count in counts:
        cluster = planner.cluster(numbers.H100.name, count)
        (found,) = planner.search(job, cluster, top=1)
        if found.days(tokens) > days:
            late = f"none in time; the quickest takes {found.days(tokens):,.0f} days"
            rows.append({"GPUs": f"{count:,}", "best layout": late, "days": "–", "price": "–", "MFU": "–"})
            continue
        rows.append(
            {
                "GPUs": f"{count:,}",
                "best layout": degrees(found),
                "days": number_text(found.days(tokens)),
                "price": money_text(found.usd(tokens)),
                "MFU": percent_text(float(found.estimate.mfu)),
            }
        )
    price = f"${cluster.usd_per_hour:.2f} a GPU-hour"
    return table(
        rows,
        f"{model}, {number_text(tokens / TRILLION)} T tokens, steps of {job.sequences} × {job.seq:,} tokens; {price}.",
    )


def hsdp(model: str = "llama3-405b", gpus: int = 16_384) -> Markdown:
    """FSDP over all GPUs against groups of replicas: bytes of state, and seconds of a step's weight and gradient
    traffic."""
    return table(numbers.hsdp_rows(model, gpus))


def my_plan() -> list[dict[str, str]]:
    """The plan's row after this chapter: tensor parallelism and stages, against sharding alone."""
    rows = []
    for name, one in ((f"{LAYOUT_TEXT}, ZeRO-1", numbers.planned()), ("FSDP, recomputed", numbers.only_sharded())):
        rows.append(
            {
                "chapter": "13",
                "layout": name,
                "micro-batches": str(one.microbatches),
                "state": bytes_text(one.state),
                "slack and buffers": bytes_text(one.held["buffers"]),
                "fullest GPU": bytes_text(one.memory),
                "a step": duration_text(one.seconds),
                "bubble": percent_text(one.parts["bubble"] / one.seconds),
                "MFU": percent_text(one.mfu),
                "with attention": percent_text(one.attention_mfu),
                "tokens a second": f"{one.tokens / one.seconds:,.0f}",
            }
        )
    return rows
