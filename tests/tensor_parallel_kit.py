"""Trainings on one rank and on several, for the tests of tensor parallelism."""

from functools import cache

import torch
from torch.nn import functional as F

from course_lib.cluster.parity import adam_tolerance, tolerance
from course_lib.model.text import batch
from course_lib.model.transformer import Config
from course_lib.model.transformer import build as build_whole
from course_lib.parallel.tensor import full_gradients, full_state, parallelize

RATE = 3e-3
SEQUENCES = 4
SHAPES = {
    "grouped queries": Config(kv_heads=2),
    "one KV head": Config(kv_heads=1),
    "tied, learned positions, biases, plain MLP": Config(tied=True, positions="learned", biases=True, gated=False),
    "all recomputed, a vocabulary that does not divide": Config(checkpointing="full", vocab=53),
    "attention recomputed": Config(checkpointing="selective", attention="manual", layers=1),
}
TERMS = SEQUENCES * 32  # the longest sum: tokens of the batch, in a weight's gradient
FROZEN = ("embedding", "attention", "norm2")


def whole_model(config, frozen=()):
    model = build_whole(config).double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(word in name for word in frozen))
    return model


def adam(model):
    return torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=RATE)


@cache
def alone(config, steps, frozen=()):
    """The whole model on one rank: losses, first gradients, last weights; the largest gradient, and each weight's
    smallest."""
    model, losses, first, largest, smallest = whole_model(config, frozen), [], {}, 0.0, {}
    optimizer = adam(model)
    for step in range(steps):
        tokens, targets = batch(step, SEQUENCES, config.seq_len)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
        largest = max(largest, *(each.abs().max().item() for each in gradients.values()))
        smallest = {name: torch.minimum(smallest.get(name, each.abs()), each.abs()) for name, each in gradients.items()}
        first = first or gradients
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, model.state_dict(), largest, smallest


def together(comm, config, steps, options, frozen=(), forget=False):
    """The same on ranks; gradients and weights gathered whole."""
    model, losses, first = parallelize(whole_model(config, frozen), comm, *options), [], {}
    optimizer = adam(model)
    for step in range(steps):
        tokens, targets = batch(step, SEQUENCES, config.seq_len)
        loss = model.loss(model(tokens), targets)
        loss.backward()
        if not forget:
            model.finish()
        losses.append(loss.item())
        first = first or full_gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    return losses, first, full_state(model), {name: each.detach() for name, each in model.named_parameters()}


def compare(got, want, steps):
    """Whether all of `got` is what one rank has, but for roundings of sums over the batch's tokens."""
    losses, gradients, state = got[:3]
    _, first, weights, largest, smallest = want
    assert set(gradients) == set(first) and set(state) == set(weights)
    for mine, theirs in zip(losses, want[0], strict=True):
        assert abs(mine - theirs) <= tolerance(torch.float64, TERMS, steps) * want[0][0]
    for name, gradient in gradients.items():  # a key's bias has no gradient but rounding, of sums as large as others
        assert (gradient - first[name]).abs().max() <= tolerance(torch.float64, TERMS) * largest, name
    for name, weight in state.items():
        if (own := "embedding.weight" if name == "head.weight" and name not in smallest else name) in smallest:
            allowed = adam_tolerance(torch.float64, TERMS, steps, RATE, largest, smallest[own])
            assert ((weight - weights[name]).abs() <= allowed).all(), name
        else:
            assert torch.equal(weight, weights[name]), name


OPTIONS = {
    "replicated ends": (False, False),
    "vocabulary cut": (False, True),
    "sequence shared out": (True, False),
    "both": (True, True),
}
