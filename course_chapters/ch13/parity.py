"""One to four axes on the metered cluster against the whole model: differences and bytes by axis, as a table.

`ladder` trains with the chapters' modules, which `mesh_training` puts together; `beside_whole` shows
`parallel.four_axes`, `layers_and_inputs` are trained by PyTorch's parts, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import torch
from IPython.display import Markdown
from torch import Tensor, nn
from torch.nn import functional as F

from course_chapters.ch13.mesh_training import AXES, CONFIG, Job, Trained, alone, bytes_by_axis, train
from course_chapters.table import table
from course_lib.cluster import Comm, simulate
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import bytes_text, number_text
from course_lib.model import transformer
from course_lib.model.optimizer import AdamW, clip_
from course_lib.model.transformer import Config
from course_lib.parallel import four_axes, planner, tensor
from course_lib.parallel.mesh import Mesh

JOB = Job(config=replace(CONFIG, layers=2), steps=2)


@cache
def whole() -> Trained:
    """The whole model's training."""
    return alone(JOB)


def apart(sizes: Mapping[str, int]) -> tuple[float, float]:
    """The largest differences of losses and of gradients from the whole model's, relative to its own."""
    want, (got, _) = whole(), train(sizes, JOB)
    loss = max(abs(a - b) / b for a, b in zip(got.losses, want.losses, strict=True))
    gradient = max(
        ((got.gradients[name] - one).abs().max() / one.abs().max()).item() for name, one in want.gradients.items()
    )
    return loss, gradient


def ladder(meshes: Iterable[Mapping[str, int]]) -> Markdown:
    """A row for each mesh."""
    rows = []
    for sizes in meshes:
        loss, gradient = apart(sizes)
        sent = bytes_by_axis(sizes, JOB)
        ranks = 1
        for size in sizes.values():
            ranks *= size
        rows.append(
            {
                "mesh": " ".join(f"{axis}{size}" for axis, size in sizes.items()),
                "ranks": ranks,
                "losses apart": number_text(loss, 1),
                "gradients apart": number_text(gradient, 1),
                **{f"{axis} bytes": bytes_text(sent[axis]) if sent[axis] else "–" for axis in reversed(AXES)},
            }
        )
    return table(rows)


# --- the same in PyTorch

LAYERS = Config(hidden=32, heads=4, seq_len=16)


def layers_and_inputs(tp: Comm | None = None) -> tuple[nn.Sequential, Tensor]:
    """The layers of `LAYERS` without embedding and head, whole or this rank's part along `tp`; inputs (8, 16, 32)."""
    coin = torch.Generator().manual_seed(13)
    model = transformer.build(LAYERS) if tp is None else tensor.build(LAYERS, tp)
    return nn.Sequential(*model.blocks), torch.randn(8, LAYERS.seq_len, LAYERS.hidden, generator=coin)


def torch_plan() -> dict[str, object]:
    """How PyTorch splits a layer along tp: its matrices by columns and rows, which read one DTensor each."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel

    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    columns = ("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up")
    plan = dict.fromkeys(("attention", "mlp"), whole) | dict.fromkeys(columns, ColwiseParallel())
    return plan | dict.fromkeys(("attention.wo", "mlp.down"), RowwiseParallel())


def planned_bytes(grid: Mesh) -> dict[str, float]:
    """What the planner says that all ranks send along each axis in a step of these layers: of twice as many less of as
    many, because it counts an embedding and a head, too."""
    dp, cp, tp = (grid.sizes.get(axis, 1) for axis in ("dp", "cp", "tp"))
    layout = Layout(dp=dp, cp=cp, tp=tp, zero=3)
    once, twice = (
        planner.traffic(
            planner.Job(model=replace(LAYERS, layers=layers), seq=LAYERS.seq_len, sequences=8), layout, 4, gradient=4
        )
        for layers in (LAYERS.layers, 2 * LAYERS.layers)
    )
    return {axis: grid.size * float(twice[axis] - once[axis]) for axis, size in grid.sizes.items() if size > 1}


# --- the same in one file


def whole_model(job: four_axes.Job) -> four_axes.Trained:
    """One process trains the whole model: what every rank of `four_axes.train` has a part of."""
    model = transformer.build(job.config, job.seed).to(job.dtype)
    adam, losses, norms = AdamW(model.parameters(), lr=job.lr), [], []
    for step in range(job.steps):
        tokens, targets = job.batch(step, job.sequences, job.config.seq_len)
        adam.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        norms.append(clip_(adam.grads, job.max_norm))
        adam.step()
    named = dict(model.named_parameters())
    gradients = {name: each.grad for name, each in named.items() if each.grad is not None}
    return four_axes.Trained(losses, norms, {name: each.detach() for name, each in named.items()}, gradients)


def part_of_step(comm: Comm, sizes: Mapping[str, int], job: four_axes.Job, parts: int) -> None:
    """The beginning of a step: its batch, and with 1 part forward and backward passes, with 2 the sum of gradients."""
    rank = four_axes.set_up(comm, sizes, job)
    batch = four_axes.own_batch(rank, job, 0)
    if parts > 0:
        four_axes.forward_backward(rank, *batch)
    if parts > 1:
        four_axes.add_gradients(rank)


def sent_along(sizes: Mapping[str, int], job: four_axes.Job) -> dict[str, float]:
    """Bytes that a rank sends in a step along tp, cp and pp, and to sum gradients over dp × cp ("dp"): the mean over
    ranks."""
    mesh = Mesh({axis: sizes.get(axis, 1) for axis in four_axes.AXES})
    before, passes, summed = (simulate(part_of_step, mesh.size, (sizes, job, parts)).meter for parts in range(3))
    found = dict.fromkeys(four_axes.AXES, 0.0)
    for (source, target), (nbytes, _) in passes.pairs.items():
        nbytes -= before.pairs.get((source, target), (0, 0))[0]
        if nbytes:
            (axis,) = mesh.axes_between(source, target)  # a message of these passes moves along one axis
            found[axis] += nbytes / mesh.size
    found["dp"] = (summed.total_bytes - passes.total_bytes) / mesh.size
    return found


def beside_whole(ranks: Sequence[four_axes.Trained], sizes: Mapping[str, int], job: four_axes.Job) -> Markdown:
    """A row for each step with the loss on the ranks and that of the whole model; then the bytes that a rank sends in a
    step."""
    want, got = whole_model(job), ranks[0]
    steps = [
        {
            "step": str(step + 1),
            "loss on the mesh": f"{got.losses[step]:.6f}",
            "of the whole model": f"{want.losses[step]:.6f}",
            "losses apart": number_text(abs(got.losses[step] - want.losses[step]), 1),
            "gradient norms apart": number_text(abs(got.norms[step] - want.norms[step]), 1),
        }
        for step in range(job.steps)
    ]
    sent = sent_along(sizes, job)
    along = {"tp": sent["tp"], "cp": sent["cp"], "pp": sent["pp"], "dp × cp": sent["dp"]}
    kinds = {"tp": "activations", "cp": "keys and values", "pp": "activations", "dp × cp": "gradients"}
    rows = [{"along": axes, "a rank sends in a step": bytes_text(along[axes]), "of": kinds[axes]} for axes in along]
    return Markdown(f"{table(steps).data}\n\n{table(rows).data}")
