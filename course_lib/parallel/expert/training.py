"""Training a mixture of experts on the course's text, over any number of ranks and any division of the experts among
them."""

from dataclasses import dataclass, field

import torch

from course_lib.cluster import Comm
from course_lib.model import text, transformer
from course_lib.model.modules import gradient
from course_lib.model.optimizer import AdamW
from course_lib.model.transformer import Config
from course_lib.parallel.expert import model as mixtures
from course_lib.parallel.expert.gradients import average_gradients, expert_groups, global_norm
from course_lib.parallel.expert.layer import Mixture

SMALL = Config(hidden=16, layers=2, heads=2, seq_len=32)
MOST = 1.0  # largest norm of a step's gradient


@dataclass(slots=True)
class Trace:
    """What a training did, the same on every rank."""

    losses: list[float] = field(default_factory=list)  # nats per token over the whole batch, without balance terms
    norms: list[float] = field(default_factory=list)  # of the whole gradient before clipping
    counts: list[list[list[int]]] = field(default_factory=list)  # copies by step, layer and expert
    dropped: list[float] = field(default_factory=list)  # share of all copies of a step


def train(
    comm: Comm,
    config: Config,
    mixture: Mixture,
    steps: int,
    size: int = 8,
    ep: int = 1,
    lr: float = 3e-3,
    seed: int = 0,
) -> Trace:
    """Train on every rank of `comm`, experts divided among blocks of `ep` ranks; `size` sequences per step over all
    ranks."""
    if size % comm.size:
        raise ValueError(f"{size} sequences do not divide among {comm.size} ranks; give a multiple of {comm.size}.")
    group, copies = expert_groups(comm, ep)
    model = mixtures.build(config, mixture, seed, group)
    dense, experts = mixtures.split_parameters(model)
    optimizer, trace = AdamW([*dense, *experts], lr=lr), Trace()
    for step in range(steps):
        tokens, targets = (part.chunk(comm.size)[comm.rank] for part in text.batch(step, size, config.seq_len))
        optimizer.zero_grad()
        loss = transformer.loss(model(tokens), targets)
        (loss + mixtures.extra_loss(model, comm)).backward()
        average_gradients(comm, copies, dense, experts)
        norm = global_norm(comm, copies, [gradient(p) for p in dense], [gradient(p) for p in experts])
        for parameter in (*dense, *experts):
            gradient(parameter).mul_(min(1.0, MOST / norm))
        optimizer.step()
        _record(trace, comm, model, loss.detach(), norm)
    return trace


def _record(trace: Trace, comm: Comm, model: transformer.Transformer, loss: torch.Tensor, norm: float) -> None:
    moe_layers = mixtures.layers(model)
    counts = torch.stack([layer.routing.counts for layer in moe_layers if layer.routing])
    lost = sum(0 if layer.kept is None else int((~layer.kept).sum()) for layer in moe_layers)
    sums = torch.cat([counts.flatten().double(), torch.tensor([lost, loss.item()], dtype=torch.float64)])
    comm.all_reduce(sums)
    counts = sums[:-2].long().view(counts.shape)
    trace.losses.append(sums[-1].item() / comm.size)
    trace.norms.append(norm)
    trace.counts.append(counts.tolist())
    trace.dropped.append(sums[-2].item() / int(counts.sum()))
    mixtures.step_biases(model, counts)
