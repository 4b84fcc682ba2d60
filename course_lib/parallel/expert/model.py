"""The course's transformer with a mixture of experts in place of every MLP, whole or divided among ranks."""

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.model import transformer
from course_lib.model.transformer import Config, Transformer
from course_lib.parallel.expert.balance import balance_loss, update_bias, z_loss
from course_lib.parallel.expert.layer import Mixture, MixtureLayer


def build(config: Config, mixture: Mixture, seed: int = 0, comm: Comm | None = None) -> Transformer:
    """The model whose weights follow from the seed alone; with `comm`, this rank's part of it, cut from the same
    weights."""
    model = transformer.build(config, seed)
    coin = torch.Generator().manual_seed(seed + 1)
    for block in model.blocks:
        with torch.random.fork_rng(devices=[]):
            whole = MixtureLayer(config.hidden, mixture)
        for name, weight in whole.named_parameters():
            adds = 2 * config.layers if name.endswith("down") else 1
            nn.init.normal_(weight, std=(weight.shape[-1] * adds) ** -0.5, generator=coin)
        block.mlp = whole if comm is None else part_of(whole, comm)
    return model


def part_of(whole: MixtureLayer, comm: Comm) -> MixtureLayer:
    """This rank's part of a layer: its block of experts, and copies of everything else."""
    with torch.random.fork_rng(devices=[]):
        part = MixtureLayer(whole.router.in_features, whole.mixture, comm)
    held = len(part.experts.gate)
    mine = slice(comm.rank * held, (comm.rank + 1) * held)
    with torch.no_grad():
        for name, parameter in part.named_parameters():
            source = whole.get_parameter(name)
            parameter.copy_(source[mine] if name.startswith("experts.") else source)
        part.bias.copy_(whole.bias)
    return part


def layers(model: Transformer) -> list[MixtureLayer]:
    """The mixtures of a model, in order."""
    return [block.mlp for block in model.blocks if isinstance(block.mlp, MixtureLayer)]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """(parameters that every rank holds, parameters of this rank's experts); shared experts are of the first kind."""
    named = list(model.named_parameters())
    experts = [parameter for name, parameter in named if ".experts." in name]
    return [parameter for name, parameter in named if ".experts." not in name], experts


def extra_loss(model: Transformer, comm: Comm | None = None) -> Tensor:
    """What the mixtures add to the loss after a forward pass: balance and z terms, each with its weight."""
    total = torch.zeros(())
    for layer in layers(model):
        assert layer.routing is not None and layer.logits is not None
        if layer.mixture.balance == "loss":
            total = total + layer.mixture.balance_weight * balance_loss(layer.routing, comm)
        if layer.mixture.z_weight:
            total = total + layer.mixture.z_weight * z_loss(layer.logits)
    return total


def step_biases(model: Transformer, counts: Tensor) -> None:
    """Move the biases after a step; `counts` (layers, experts) are those of the whole batch."""
    for layer, load in zip(layers(model), counts, strict=True):
        if layer.mixture.balance == "bias":
            layer.bias.copy_(update_bias(layer.bias, load, layer.mixture.bias_rate))
