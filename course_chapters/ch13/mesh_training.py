"""One transformer on a mesh of up to four axes, dp × pp × cp × tp, trained on the metered cluster; equal to the whole
model.

Each strategy is that of its chapter: matrices in columns and rows along tp (09), layers in stages along pp (10),
sequences in blocks along cp, with keys and values gathered as Llama 3 does (11), and samples along dp (07). Gradients
are averaged over dp and cp together, because the ranks of both saw other tokens with the same weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MethodType

import torch
from torch import Tensor

from course_lib.cluster import Comm, Run, Topology, simulate
from course_lib.model import text, transformer
from course_lib.model.modules import gradient, set_methods
from course_lib.model.transformer import Config, again, rotate
from course_lib.parallel import pipeline
from course_lib.parallel.mesh.layout import Mesh
from course_lib.parallel.schedules import one_f_one_b
from course_lib.parallel.tensor import TensorParallel, gather_in
from course_lib.parallel.tensor import build as build_part
from course_lib.parallel.tensor.model import ParallelAttention
from course_lib.parallel.tensor.partition import Piece

AXES = ("dp", "pp", "cp", "tp")
CONFIG = Config(layers=4, hidden=16, heads=4, kv_heads=2, seq_len=16)
RATE = 3e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is trained, and how: `sequences` make the batch of all ranks, each replica cuts its own into
    `microbatches`."""

    config: Config = CONFIG
    sequences: int = 8
    microbatches: int = 2
    steps: int = 3
    seed: int = 0
    dtype: torch.dtype = torch.float64
    sequence_parallel: bool = False  # along tp, between the matrix products (11)
    averaging: bool = True  # False leaves the gradients of dp and cp apart, to see what the other axes send
    gradient_axes: tuple[str, ...] = ("dp", "cp")  # over which gradients are averaged; both, or replicas drift apart


@dataclass(frozen=True, slots=True)
class Trained:
    """Losses by step; gradients of the last step and weights after it, by their names in the whole model; the
    gradients' norms."""

    losses: list[float]
    norms: list[float]
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]


def alone(job: Job) -> Trained:
    """The whole model on the whole batch, in plain PyTorch."""
    model = transformer.build(job.config, job.seed).to(job.dtype)
    adam = torch.optim.AdamW(model.parameters(), lr=RATE)
    losses, norms = [], []
    for step in range(job.steps):
        tokens, targets = text.batch(step, job.sequences, job.config.seq_len)
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        norms.append(float(torch.nn.utils.get_total_norm([gradient(each) for each in model.parameters()])))
        losses.append(loss.item())
        adam.step()
    named = dict(model.named_parameters())
    return Trained(
        losses,
        norms,
        {name: gradient(each).clone() for name, each in named.items()},
        {name: each.detach().clone() for name, each in named.items()},
    )


def communicators(comm: Comm, mesh: Mesh, *joint: tuple[str, ...]) -> dict[object, Comm]:
    """This rank's communicator along every axis, and along each tuple of axes in `joint`. Every rank of the world calls
    it."""
    found: dict[object, Comm] = {}
    for axes in (*((axis,) for axis in mesh.axes), *joint):
        for ranks in mesh.groups(*axes):
            group = comm.new_group(ranks)  # every rank makes every group, in the same order
            if comm.rank in ranks:
                found[axes if len(axes) > 1 else axes[0]] = group
    return found


def positions_of(seq: int, parts: int, part: int) -> Tensor:
    """The tokens of one cp rank: block `part` and its mirror image of 2·`parts` blocks, so that causal work is even
    (11)."""
    blocks = torch.arange(seq).chunk(2 * parts)
    return torch.cat([blocks[part], blocks[2 * parts - 1 - part]]) if parts > 1 else torch.arange(seq)


def _attend_across(attention: ParallelAttention, cp: Comm, seq: int) -> None:
    """Let an attention layer see all tokens, of which this rank computes its own as queries."""
    mine = positions_of(seq, cp.size, cp.rank)
    everyone = torch.cat([positions_of(seq, cp.size, part) for part in range(cp.size)])
    future = everyone[None, :] > mine[:, None]
    cos, sin = (table[mine] for table in (attention.cos, attention.sin))

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = gather_in(torch.cat([k, v], 1), cp, 2).chunk(2, 1)  # backward: a reduce-scatter of their gradients
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        scores = (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).masked_fill(future, -torch.inf)
        return scores.softmax(-1) @ v

    def forward(self: ParallelAttention, x_BSH: Tensor) -> Tensor:
        packed = self.qkv(x_BSH)
        q, k, v = (part(packed).unflatten(-1, (-1, self.config.head_dim)) for part in (self.wq, self.wk, self.wv))
        q, k, v = (t.transpose(1, 2) for t in (rotate(q, cos, sin), rotate(k, cos, sin), v))
        out = again(core, q, k, v)  # other ranks' keys and values are not kept but gathered again
        return self.wo(out.transpose(1, 2).flatten(2))

    set_methods(attention, forward=MethodType(forward, attention))


def build(job: Job, mesh: Mesh, groups: Mapping[object, Comm]) -> tuple[TensorParallel, pipeline.TransformerStage]:
    """This rank's part of the model along tp, and of that part its stage along pp."""
    model = build_part(job.config, groups["tp"], job.seed, job.sequence_parallel).to(job.dtype)
    if groups["cp"].size > 1:
        for block in model.blocks:
            assert isinstance(block.attention, ParallelAttention)
            _attend_across(block.attention, groups["cp"], job.config.seq_len)
    return model, pipeline.transformer_stages(model, mesh.sizes["pp"])[groups["pp"].rank]


def on_mesh(comm: Comm, mesh: Mesh, job: Job) -> dict[str, object]:
    """The training on one rank; what it returns is put together by `train`."""
    torch.set_num_threads(1)
    groups = communicators(comm, mesh, ("dp", "cp"))
    replicas = groups[job.gradient_axes if len(job.gradient_axes) > 1 else job.gradient_axes[0]]
    model, stage = build(job, mesh, groups)
    at, size = mesh.coordinates(comm.rank), mesh.sizes
    schedule = one_f_one_b(size["pp"], job.microbatches)
    adam = torch.optim.AdamW(stage.parameters(), lr=RATE)
    mine = positions_of(job.config.seq_len, size["cp"], at["cp"])
    losses, norms = [], []
    for step in range(job.steps):
        batch = text.batch(step, job.sequences, job.config.seq_len)
        tokens, targets = (rows.chunk(size["dp"])[at["dp"]][:, mine] for rows in batch)
        adam.zero_grad()
        ran = pipeline.run(
            groups["pp"],
            schedule,
            {at["pp"]: stage},
            model.loss,
            tokens,
            targets,
            (len(mine) // (size["tp"] if job.sequence_parallel else 1), job.config.hidden),
            replicas=replicas if job.averaging and replicas.size > 1 else None,
            ties=pipeline.tied_ends(model, size["pp"]),
            dtype=job.dtype,
        )
        model.finish()
        losses.append(ran.loss)
        norms.append(mesh_norm_of(model, groups))
        adam.step()
    here = {id(each) for each in stage.parameters()}
    parts = {name: each for name, each in model.named_parameters() if id(each) in here}
    return {
        "losses": losses,
        "norms": norms,
        "pieces": {name: model.pieces[name] for name in parts},
        "gradients": {name: each.grad for name, each in parts.items()},
        "weights": {name: each.detach() for name, each in parts.items()},
    }


def mesh_norm_of(model: TensorParallel, groups: Mapping[object, Comm]) -> float:
    """The norm of the whole model's gradients: each number counts once, so sums go over tp and pp, not over dp and cp.

    A piece that several tp ranks hold is divided by its copies; a tied matrix counts on the first stage only.
    """
    total = torch.zeros(1, dtype=torch.float64)
    last_of_many = groups["pp"].size > 1 and groups["pp"].rank == groups["pp"].size - 1
    for name, parameter in model.named_parameters():
        if parameter.grad is None or (model.config.tied and last_of_many and name == "embedding.weight"):
            continue
        rows = [piece.local_shape[0] for piece in model.pieces[name]]
        for piece, grad in zip(model.pieces[name], parameter.grad.split(rows), strict=True):
            total += grad.double().square().sum() / piece.copies
    for axis in ("tp", "pp"):
        groups[axis].all_reduce(total)
    return total.sqrt().item()


def train(sizes: Mapping[str, int], job: Job | None = None, topology: Topology | None = None) -> tuple[Trained, Run]:
    """Train on the metered cluster with these sizes of the axes; the whole model's gradients and weights, and the run's
    meter.

    Raises AssertionError if replicas differ: ranks with the same stage and part must hold the same numbers.
    """
    job, mesh = job or Job(), mesh_of(sizes)
    check(mesh, job)
    run = simulate(on_mesh, mesh.size, (mesh, job), topology=topology)
    first = run.results[0]
    whole: dict[str, dict[str, Tensor]] = {}
    for kind in ("gradients", "weights"):
        whole[kind] = {}
        for result in run.results:
            for name, tensor in result[kind].items():
                _place(whole[kind], result["pieces"][name], tensor, check=job.averaging)
    return Trained(first["losses"], first["norms"], whole["gradients"], whole["weights"]), run


def _place(whole: dict[str, Tensor], pieces: Iterable[Piece], tensor: Tensor, check: bool) -> None:
    offset = 0
    for piece in pieces:
        rows = tensor.narrow(0, offset, piece.local_shape[0])
        offset += piece.local_shape[0]
        into = piece.of(whole.setdefault(piece.name, torch.full(piece.shape, torch.nan, dtype=tensor.dtype)))
        if check and not into.isnan().any() and not torch.equal(into, rows):
            raise AssertionError(f"Replicas of {piece.name} differ.")
        into.copy_(rows)


def mesh_of(sizes: Mapping[str, int]) -> Mesh:
    """The mesh with the four axes of this module in its order; axes that are not given have one rank."""
    unknown = [axis for axis in sizes if axis not in AXES]
    if unknown:
        raise ValueError(f"This training knows no axis {unknown[0]!r}; it has {', '.join(AXES)}.")
    return Mesh({axis: sizes.get(axis, 1) for axis in AXES})


def check(mesh: Mesh, job: Job) -> None:
    """ValueError if the axes do not divide what they cut."""
    for axis, parts, what, count in (
        ("dp", 1, "sequences", job.sequences),
        ("pp", 1, "layers", job.config.layers),
        ("cp", 2, "tokens of a sequence", job.config.seq_len),
        ("tp", 1, "heads", job.config.heads),
    ):
        size = mesh.sizes[axis]
        if size > 1 and count % (parts * size):
            fits = [n for n in range(1, count + 1) if count % (parts * n) == 0]
            raise ValueError(
                f"{axis}={size} does not divide {count} {what}; {axis} may be {', '.join(map(str, fits))}."
            )


def bytes_by_axis(sizes: Mapping[str, int], job: Job | None = None) -> dict[str, float]:
    """Bytes that a rank sends in one step along each axis, metered, mean over ranks; "dp" is the averaging over dp and
    cp.

    Without averaging, two ranks that exchange bytes differ along one axis only. The averaging is the difference of two
    runs.
    """
    from dataclasses import replace

    job, mesh = replace(job or Job(), steps=1), mesh_of(sizes)
    _, run = train(sizes, job)
    _, apart = train(sizes, replace(job, averaging=False))
    found = dict.fromkeys(AXES, 0.0)
    for (source, target), (nbytes, _) in apart.meter.pairs.items():
        (axis,) = mesh.axes_between(source, target)
        found[axis] += nbytes / mesh.size
    found["dp"] = (run.meter.total_bytes - apart.meter.total_bytes) / mesh.size
    return found
