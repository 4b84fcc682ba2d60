"""How chapter 13 calls answers: on the ranks of a mesh, and a search that asks what each layout costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course_grader.exercises.probes import watched

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


@watched
def mesh_run(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """What a rank gets back for the case's arguments."""
    import torch

    result = answer(comm, *case.args)
    if type(result) not in (tuple, list):
        return result.item() if isinstance(result, torch.Tensor) and result.numel() == 1 else result
    return list(result)  # not copies: a later call must leave them as they are


def why_invalid(cluster: Mapping[str, int], model: Mapping[str, int], layout: Sequence[int]) -> str:
    """Which rule of the card a layout breaks; "" for a valid one."""
    gpus, tp, pp, micro = layout
    if any(type(each) is not int or each < 1 for each in layout):
        return f"sizes are whole numbers from 1, not {layout}"
    if gpus % cluster["per_server"]:
        return f"{gpus} GPUs are not a whole number of servers of {cluster['per_server']}"
    if gpus > cluster["gpus"]:
        return f"{gpus} GPUs are more than the {cluster['gpus']} of the cluster"
    if cluster["per_server"] % tp or model["heads"] % tp:
        return (
            f"tp {tp} does not divide the GPUs of a server ({cluster['per_server']}) and the heads ({model['heads']})"
        )
    if model["layers"] % pp:
        return f"pp {pp} does not divide {model['layers']} layers"
    if gpus % (tp * pp):
        return f"tp {tp} times pp {pp} does not divide {gpus} GPUs"
    dp = gpus // (tp * pp)
    if model["sequences"] % (dp * micro):
        return f"dp {dp} times micro {micro} does not divide {model['sequences']} sequences"
    return ""


def measured(
    spec: Mapping[str, float], cluster: object, model: Mapping[str, int], layout: Sequence[int]
) -> tuple[float, int]:
    """Seconds of a step, in 64ths so that sums are exact, and bytes on a GPU; with a scatter that no rule of thumb
    foresees."""
    gpus, tp, pp, micro = layout
    count = model["sequences"] * tp * pp // (gpus * micro)  # micro-batches of a replica
    mixed = (gpus * 2654435761 + tp * 40503 + pp * 9973 + micro * 769 + spec["salt"]) % 1009 / 1009
    compute = spec["work"] / gpus * (1 + (pp - 1) / count) * (1 + 0.3 / micro)
    talk = spec["tp_seconds"] * (1 - 1 / tp) + spec["dp_seconds"] * (1 - tp * pp / gpus) / (tp * pp)
    seconds = max(1, round(64 * (compute + talk) * (0.8 + 0.4 * mixed))) / 64
    held = spec["state"] / (tp * pp) + spec["activations"] * micro / tp * (0.7 + 0.6 * mixed)
    return seconds, round(held)


def searched(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The layout that a search returns; `case.args = (cluster, model, steps, limit, spec)`."""
    cluster, model, steps, limit, spec = case.args

    def evaluate(gpus: int, tp: int, pp: int, micro: int) -> tuple[float, int]:
        layout = gpus, tp, pp, micro
        if broken := why_invalid(cluster, model, layout):
            raise ValueError(f"evaluate: {broken}.")
        return measured(spec, cluster, model, layout)

    return {"layout": answer(dict(cluster), dict(model), steps, limit, evaluate)}
