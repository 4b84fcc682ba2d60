"""What tokens cost: a replica's rent over the tokens that it really serves, and a model's training and serving
together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.estimate import compute
from course_lib.estimate.scaling_laws import ParametricLaw
from course_lib.estimate.units import HOUR, MILLION, require, require_whole


def usd_per_million(usd_per_hour: float, devices: int, tokens_per_s: float, utilization: float = 1.0) -> float:
    """US dollars per million output tokens of `devices` devices that reach `tokens_per_s` together when busy.

    `utilization` is the share of that rate that the traffic uses over the day. Rent is paid for the idle hours too.
    """
    rent = (
        require("usd_per_hour", usd_per_hour, "USD per device-hour", open_below=False)
        * require_whole("devices", devices)
        / HOUR
    )
    used = require("tokens_per_s", tokens_per_s, "tokens/s") * require(
        "utilization", utilization, "a fraction of one", most=1.0
    )
    return rent / used * MILLION


def break_even_tokens(train_usd: float, price: float, cost: float) -> float:
    """Tokens to serve until the margin has paid for the training. `price` and `cost` are US dollars per million
    tokens."""
    margin = require("price", price, "USD per million tokens") - require(
        "cost", cost, "USD per million tokens", open_below=False
    )
    if margin <= 0:
        raise ValueError(
            f"A price of {price:g} does not cover a cost of {cost:g} USD per million tokens; no volume breaks even."
        )
    return require("train_usd", train_usd, "USD", open_below=False) / margin * MILLION


def lifetime_flops(params: float, train_tokens: float, served_tokens: float) -> float:
    """FLOP of training on `train_tokens` and serving `served_tokens` (prompts and replies): 6 Ψ D + 2 Ψ D_served."""
    count = require("params", params, "parameters")
    return count * (
        compute.TRAIN * require("train_tokens", train_tokens, "tokens")
        + compute.FORWARD * require("served_tokens", served_tokens, "tokens", open_below=False)
    )


@dataclass(frozen=True, slots=True)
class LifetimeChoice:
    """A model of a given quality: parameters, training tokens and the FLOP of its life."""

    params: float
    train_tokens: float
    flops: float


def tokens_for_loss(law: ParametricLaw, params: float, loss: float) -> float:
    """Training tokens with which a model of `params` parameters reaches `loss`; infinity if no number does."""
    left = loss - law.floor - law.a * require("params", params, "parameters") ** -law.alpha
    return float("inf") if left <= 0 else (law.b / left) ** (1 / law.beta)


def cheapest_model(
    law: ParametricLaw, loss: float, served_tokens: float, sizes: Sequence[float] | None = None
) -> LifetimeChoice:
    """The model that reaches `loss` with the fewest FLOP over training and serving. Sardana et al. (2024).

    The more tokens a model serves, the smaller it should be and the longer it should train. Cost is counted in FLOP at
    one utilization for both phases, which decoding rarely reaches; a real bill moves the choice further to small
    models.
    """
    grid = np.asarray(np.geomspace(1e7, 1e13, 2401) if sizes is None else sizes, dtype=float)
    best = None
    for params in grid:
        tokens = tokens_for_loss(law, float(params), loss)
        if np.isfinite(tokens):
            flops = lifetime_flops(float(params), tokens, served_tokens)
            if best is None or flops < best.flops:
                best = LifetimeChoice(float(params), tokens, flops)
    if best is None:
        raise ValueError(f"No size of these reaches a loss of {loss:g}; the floor is {law.floor:g}.")
    return best
