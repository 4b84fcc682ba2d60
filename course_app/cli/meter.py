"""`course meter`: a torchrun script on metered CPU ranks: who sends how much to whom on a described cluster."""

import html
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from course_app.cli.console import examples, part
from course_lib.messages import Trouble, count_text

if TYPE_CHECKING:
    from course_lib.cluster import Run, Topology

EXAMPLES = examples(
    "course meter --ranks 8 train.py --batch 32           what torchrun --nproc-per-node 8 train.py would send",
    "course meter --topology 2x4xh100 train.py            the same on two servers of four H100, with their wires",
    "course meter --ranks 4 --html run.html train.py      a page with a timeline",
)
MOST_ROWS, MOST_RANKS, MOST_SPANS = 12, 16, 3000  # that are printed; of a picture


def meter(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The script, and after it the script's own arguments.")],
    ranks: Annotated[
        int | None, typer.Option("--ranks", min=1, max=1024, help="Ranks; by default those of --topology, or 2.")
    ] = None,
    topology: Annotated[
        str, typer.Option("--topology", help="Servers x devices x device, as in 2x4xh100; or 8xh100.")
    ] = "",
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds on this machine before it is ended.")
    ] = 300,
    page: Annotated[Path | None, typer.Option("--html", help="Write a page with a timeline and all pairs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run a torchrun script on metered ranks: bytes by line, pair and wire, exposed and hidden time, memory by role.

    The ranks are threads of one process on this CPU, with torch.distributed as it is. Their clock is the described
    cluster's: FLOPs at the rate that long runs sustain, messages over its wires. Reading memory, kernel launches and
    Python take no time on it. Exits with 1 after a deadlock, a mismatch or an error, with the lines of the script.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch is loaded: metered ranks compute on the CPU
    simulation = part("course_lib.cluster.script", "metering a script")
    if not script.is_file():
        raise Trouble(f"There is no script {script}.", "name a Python file, as torchrun takes it")
    described, on, devices = _topology(topology)
    number = ranks or devices or 2
    if devices and number > devices:
        raise Trouble(f"{number} ranks do not fit {topology}, which has {devices} devices.", "leave --ranks out")
    try:
        run = simulation.run_script(script, number, context.args, described, timeout, 100_000 if as_json else None)
    except RuntimeError as error:  # a thread that cannot be ended; it ends with this process
        raise Trouble(f"{script} did not stop: {error}", "a rank must not wait outside torch.distributed") from error
    except SyntaxError as error:
        raise Trouble(f"{script}, line {error.lineno}: {error.msg}.", "mend it first") from error
    found: Found = {"script": str(script), "on": on, **_figures(run)}
    if as_json:
        typer.echo(json.dumps({**found, "output": run.output}, indent=1))
    else:
        typer.echo("\n".join(_lines(found)))
    if page:
        page.write_text(_page(found, run), encoding="utf-8")
    raise typer.Exit(int(bool(found["problem"])))


def _topology(text: str) -> "tuple[Topology, str, int]":
    """The topology, in words, and its number of devices; 0 without a description."""
    from course_lib.cluster import Topology

    if not text:
        return Topology(), "equal links of 10 µs and 10 GB/s, 1 TFLOP/s each; --topology describes others", 0
    sizes = re.fullmatch(r"(?:(\d+)x)?(\d+)x(\D.*)", text.strip(), re.IGNORECASE)
    if sizes is None or not int(sizes[2]):
        raise Trouble(f"--topology {text} is not servers x devices x device.", "write it as in 2x4xh100 or 16xh100")
    planner = part("course_lib.parallel.planner", "describing a cluster")
    try:
        one = planner.cluster(sizes[3], 1)
    except ValueError as error:
        raise Trouble(f"--topology {text}: {error}", "write it as in 2x4xh100") from error
    per_node = int(sizes[2]) if sizes[1] else min(int(sizes[2]), one.per_node)
    nodes = int(sizes[1]) if sizes[1] else -(-int(sizes[2]) // per_node)
    inside, across = ((wire.latency, wire.bandwidth) for wire in (one.inside, one.across))
    words = f"{nodes} x {per_node} {one.device}"
    return Topology.nodes(per_node, inside, across, flops=one.matmul), words, nodes * per_node


class Wire(TypedDict):
    """What passed over one kind of link."""

    bytes: int
    messages: int


class Line(TypedDict):
    """What a line of the script sent."""

    line: str
    bytes: int
    messages: int


class OfRank(TypedDict):
    """What a rank moved, held and computed."""

    rank: int
    sent: int
    received: int
    collectives: int
    exposed_seconds: float
    hidden_seconds: float
    flops: int
    peak_bytes: int
    peak_roles: dict[str, int]


Pair = TypedDict("Pair", {"from": int, "to": int, "bytes": int, "messages": int, "wire": str})


class Figures(TypedDict):
    """What was counted, as plain data: bytes, and seconds of the described cluster."""

    ranks: int
    seconds: float
    wires: dict[str, Wire]
    pairs: list[Pair]
    lines: list[Line]
    lines_are_all: bool
    by_rank: list[OfRank]
    problem: str
    hazards: list[str]


class Found(Figures):
    """The same, and of which script and on what."""

    script: str
    on: str


def _figures(run: "Run") -> Figures:
    """What was counted, as plain data: bytes, and seconds of the described cluster."""
    counted, levels = run.meter, run.topology.levels
    exposed, hidden = run.exposed(), run.hidden()
    wire = [levels[run.topology.level_of(*pair)].name for pair in counted.pairs]
    has_memory = counted.ledgers is not None
    return {
        "ranks": run.ranks,
        "seconds": run.seconds,
        "wires": {name: {"bytes": sent, "messages": many} for name, (sent, many) in counted.levels.items()},
        "pairs": [
            {"from": src, "to": dst, "bytes": sent, "messages": many, "wire": name}
            for ((src, dst), (sent, many)), name in sorted(zip(counted.pairs.items(), wire, strict=True))
        ],
        "lines": [{"line": line, "bytes": sent, "messages": many} for line, (sent, many) in run.by_line().items()],
        "lines_are_all": not run.truncated,
        "by_rank": [
            {
                "rank": rank,
                "sent": counted.bytes_sent[rank],
                "received": counted.bytes_received[rank],
                "collectives": counted.collectives[rank],
                "exposed_seconds": exposed[rank],
                "hidden_seconds": hidden[rank],
                "flops": counted.flops[rank] if has_memory else 0,
                "peak_bytes": counted.peak_bytes[rank] if has_memory else 0,
                "peak_roles": dict(counted.peak_roles[rank] or {}) if has_memory else {},
            }
            for rank in range(run.ranks)
        ],
        "problem": _problem(run.error),
        "hazards": [str(hazard) for hazard in run.hazards],
    }


def _problem(error: BaseException | None) -> str:
    """Why the run ended early, in words; "" if it did not."""
    if error is None:
        return ""
    text = str(error)
    if "daemonic processes" in text or "cannot fork" in text:
        text += (
            "\nLoad data in the rank itself, with DataLoader(…, num_workers=0), and leave starting ranks to torchrun."
        )
    raised = str(getattr(error, "original", None) or error)
    if re.search(
        "cuda|nvidia", raised, re.IGNORECASE
    ):  # "Torch not compiled with CUDA enabled", "no … '_cuda_setDevice'"
        text += (
            "\nMetered ranks compute on the CPU: let the script take torch.device('cpu') where CUDA is not available."
        )
    return text


def _lines(found: Found) -> list[str]:
    """The report as text."""
    from course_lib.estimate.units import bytes_text, duration_text

    ranks, pairs = found["by_rank"], sorted(found["pairs"], key=lambda pair: -pair["bytes"])
    lines = ["", f"{found['script']} on {count_text(found['ranks'], 'metered rank')}: {found['on']}", ""]
    if found["problem"] and not pairs:
        return [*lines, found["problem"]]  # nothing was sent: there is nothing to count
    lines += [f"{duration_text(found['seconds'])} on this cluster's clock, until the last rank ended"]
    for name, wire in ((name, wire) for name, wire in found["wires"].items() if wire["messages"]):
        lines.append(f"{bytes_text(wire['bytes']):>10} in {wire['messages']:,} messages over {_WIRES.get(name, name)}")
    lines += ["", f"     bytes  messages  sent by{'' if found['lines_are_all'] else ' (the first messages alone)'}"]
    sources = sorted(found["lines"], key=lambda line: -line["bytes"])
    for source in sources[:MOST_ROWS]:
        lines.append(f"{bytes_text(source['bytes']):>10}{source['messages']:10,}  {source['line']}")
    lines += [f"… and {len(sources) - MOST_ROWS} more lines: --json has all"] if len(sources) > MOST_ROWS else []
    lines += ["", "exposed: the rank waits for messages; hidden: they travel while it computes", ""]
    lines += ["rank       sent   received  collectives    exposed     hidden  peak memory"]
    for each in ranks[:MOST_RANKS]:
        roles = sorted(each["peak_roles"].items(), key=lambda item: -item[1])
        shown = ", ".join(f"{role} {bytes_text(size)}" for role, size in roles if size)
        sizes = "".join(f"{bytes_text(each[name]):>11}" for name in ("sent", "received"))
        times = "".join(f"{duration_text(each[name]):>11}" for name in ("exposed_seconds", "hidden_seconds"))
        memory = f"  {bytes_text(each['peak_bytes'])}{f' ({shown})' if shown else ''}"
        lines.append(f"{each['rank']:4}{sizes}{each['collectives']:13}{times}{memory}")
    lines += [f"… and {len(ranks) - MOST_RANKS} more ranks: --json has all"] if len(ranks) > MOST_RANKS else []
    lines += ["", "from -> to      bytes  messages  wire"] if pairs else []
    for pair in pairs[:MOST_ROWS]:
        ends = f"{pair['from']:4} -> {pair['to']:<3}"
        lines.append(f"{ends}{bytes_text(pair['bytes']):>10}{pair['messages']:10,}  {pair['wire']}")
    lines += [f"… and {len(pairs) - MOST_ROWS} more pairs: --json has all"] if len(pairs) > MOST_ROWS else []
    for hazard in found["hazards"][:3]:
        lines += ["", f"A tensor in flight was used: {hazard}"]
    return [*lines, "", found["problem"]] if found["problem"] else lines


_WIRES = {"node": "the links inside a server", "network": "the network between servers", "link": "the links"}


def _page(found: Found, run: "Run") -> str:
    """The report as one page that needs no other file, with the beginning of the timeline."""
    from course_app.certificate.page import STYLE
    from course_lib.draw import page as picture
    from course_lib.draw import who_is_busy

    title = html.escape(f"{found['script']} on {count_text(found['ranks'], 'metered rank')}")
    spans = run.spans[:MOST_SPANS]
    drawn = picture(who_is_busy(spans, ranks=run.ranks, title="What each rank does")) if spans else ""
    cut = f"<p>The first {MOST_SPANS:,} of {len(run.spans):,} spans.</p>" if len(run.spans) > MOST_SPANS else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><main><h1>{title}</h1>{drawn}{cut}<pre>{html.escape(chr(10).join(_lines(found)))}</pre></main></body></html>\n"
    )
