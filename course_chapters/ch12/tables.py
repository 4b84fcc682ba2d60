"""Chapter 12's tables: published mixtures, the recorded trainings, the plan."""

from IPython.display import Markdown

from course_chapters.ch12.exercises import numbers
from course_chapters.ch12.published_experts import runs
from course_chapters.ch12.widgets import LINKS, wire_over_matmul
from course_chapters.table import table
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, number_text, percent_text
from course_lib.parallel.expert import costs


def published() -> Markdown:
    """Parameters of three models: stored, met by a token, and their bytes of training state."""
    rows = []
    for name in ("llama3-70b", "mixtral-8x7b", "deepseek-v3"):
        model = facts.model(name)
        active = model.active_params or model.params
        rows.append(
            {
                "model": name,
                "experts per token": f"{model.top_k} of {model.experts}" if model.experts else "–",
                "parameters": number_text(model.params),
                "active": number_text(active),
                "FLOPs per token, training": number_text(6 * active),
                "training state": bytes_text(numbers.STATE * model.params),
            }
        )
    return table(rows)


def recorded_table() -> Markdown:
    """The recorded trainings of the small mixture, side by side."""
    rows = []
    for name, run in runs().items():
        rows.append(
            {
                "training": name,
                "parameters": f"{run.parameters:,}",
                "active": f"{run.active:,}",
                "loss at the end": f"{run.final:.3f}",
                "busiest / mean": number_text(run.settled, 3),
                "copies dropped": percent_text(run.dropped, 2) if run.dropped else "–",
            }
        )
    return table(rows)


def wire_table() -> Markdown:
    """Seconds on the wire per second of matmul, for the experts of two published models, inside a server and between
    servers."""
    rows = []
    for name in ("mixtral-8x7b", "deepseek-v3"):
        model = facts.model(name)
        row = {"model": name, "inner width of an expert": f"{model.expert_ffn:,}"}
        for link in LINKS:
            row[link] = number_text(wire_over_matmul(model.expert_ffn, link, numbers.MFU), 2)
        rows.append(row)
    return table(rows)


def plan_table() -> Markdown:
    """The plan's model with its MLPs replaced by mixtures of the same FLOPs: parameters, bytes, and time on the
    wire."""
    rows = []
    for choice, shape in numbers.PLAN_CHOICES.items():
        total = numbers.total_parameters(shape)
        ratio = "–"
        if shape is not None:
            ranks = min(shape.experts, 8)
            ratio = number_text(wire_over_matmul(shape.ffn, next(iter(LINKS)), numbers.MFU, ranks), 2)
        state = numbers.STATE * total / numbers.GPUS
        rows.append(
            {
                "chapter": "12",
                "choice": choice,
                "parameters": number_text(total),
                "active": number_text(numbers.active_parameters(shape)),
                "state on each GPU (of its memory)": f"{bytes_text(state)} "
                f"({percent_text(state / float(numbers.H100.memory))})",
                "wire / matmul of the experts": ratio,
            }
        )
    return table(rows)


def nodes_table(nodes: int = 8) -> Markdown:
    """The mean number of nodes that a token's experts lie on, for even random routing among DeepSeek-V3's experts."""
    experts = facts.model("deepseek-v3").experts
    rows = [
        {
            "experts per token": top_k,
            f"nodes per token, of {nodes}": number_text(costs.expected_nodes(top_k, nodes, experts), 3),
        }
        for top_k in (1, 2, 4, 8)
    ]
    return table(rows)
