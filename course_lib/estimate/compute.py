"""FLOPs, utilization, time and money of a training run, and the first wall it meets.

One matrix product of (m, k) by (k, n) is 2mkn FLOP. A parameter costs a token 2 FLOP forward and 4 backward
(2 for the gradient of the input, 2 for the gradient of the weight), hence 6 × parameters × tokens.
Shares and utilizations are fractions of one. Scaling is perfect unless a function says otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from course_lib.estimate.units import HOUR, Number, Numeric, fewest, require, require_whole

FORWARD, BACKWARD = 2.0, 4.0  # FLOP per parameter and token
TRAIN = FORWARD + BACKWARD


# --- FLOPs -------------------------------------------------------------------------------------


def matmul_flops(m: Number, k: Number, n: Number) -> Number:
    """FLOP of a product of (m, k) by (k, n): a multiplication and an addition for each of m·k·n terms."""
    sizes = [require_whole(name, size) for name, size in (("m", m), ("k", k), ("n", n))]
    return 2.0 * sizes[0] * sizes[1] * sizes[2]


@dataclass(frozen=True, slots=True)
class LayerFlops:
    """FLOP of one linear layer in one training step."""

    forward: float  # Y = X W
    input_grad: float  # dX = dY Wᵀ; zero for a first layer whose input needs no gradient
    weight_grad: float  # dW = Xᵀ dY

    @property
    def total(self) -> float:
        """Forward and backward together."""
        return self.forward + self.input_grad + self.weight_grad


def linear_flops(tokens: int, n_in: int, n_out: int, first: bool = False) -> LayerFlops:
    """FLOP of Y = X W with X of shape (tokens, n_in), by its three matrix products."""
    return LayerFlops(
        forward=matmul_flops(tokens, n_in, n_out),
        input_grad=0.0 if first else matmul_flops(tokens, n_out, n_in),
        weight_grad=matmul_flops(n_in, tokens, n_out),
    )


def mlp_flops(tokens: int, widths: Sequence[int], input_needs_grad: bool = False) -> list[LayerFlops]:
    """FLOP of each linear layer of an MLP with these widths; activations and biases are left out.

    A frozen input (the data) needs no gradient, which saves the first layer a third of its work.
    """
    if len(widths) < 2:
        raise ValueError(f"widths is {list(widths)}; an MLP needs at least an input and an output width.")
    pairs = enumerate(pairwise(widths))
    return [linear_flops(tokens, a, b, first=i == 0 and not input_needs_grad) for i, (a, b) in pairs]


def train_flops(params: Number, tokens: Number) -> Number:
    """FLOP of training: 6 × parameters × tokens.

    Leaves out attention scores (see `attention_share`) and recomputation. For a mixture of experts, count
    only the parameters that a token uses. Kaplan et al. (2020), Hoffmann et al. (2022).
    """
    return TRAIN * require("params", params, "parameters") * require("tokens", tokens, "tokens")


def attention_flops_per_token(layers: Number, width: Number, seq: Number, causal: bool = False) -> Number:
    """FLOP per token, forward and backward, of the attention scores and their product with the values.

    12 · layers · width · seq when every token attends to all `seq` tokens, half of it when causal. `width` is that of
    the queries, heads × head dimension; in most models it is the hidden size.
    """
    whole = require_whole("layers", layers) * require_whole("width", width) * require("seq", seq, "tokens")
    return (6.0 if causal else 12.0) * whole


def attention_share(params: Number, layers: Number, width: Number, seq: Number, causal: bool = False) -> Number:
    """Attention FLOPs, which 6 × parameters × tokens leaves out, as a fraction of it."""
    per_token = TRAIN * require("params", params, "parameters")
    return attention_flops_per_token(layers, width, seq, causal) / per_token


def context_for_share(params: Number, layers: Number, width: Number, share: Number, causal: bool = False) -> Number:
    """The context, in tokens, at which attention adds this share to 6 × parameters × tokens."""
    return require("share", share, "a fraction") / attention_share(params, layers, width, 1, causal)


# --- time and utilization ----------------------------------------------------------------------


def train_seconds(
    params: Numeric, tokens: Numeric, flops_per_s: Numeric, mfu: Numeric = 1.0, devices: Numeric = 1
) -> Any:
    """Seconds of a training run on `devices` devices that each reach `mfu` of `flops_per_s`.

    With mfu=1 this is a lower bound that no run reaches. Scaling is perfect: twice the devices, half the time.
    """
    return train_flops(params, tokens) / _pool(flops_per_s, mfu, devices)


def devices_for_deadline(params: Numeric, tokens: Numeric, flops_per_s: Numeric, mfu: Numeric, seconds: Numeric) -> Any:
    """The fewest devices that finish within `seconds`, with perfect scaling."""
    return fewest(train_seconds(params, tokens, flops_per_s, mfu) / require("seconds", seconds, "s"))


def tokens_for_budget(usd: Number, usd_per_hour: Number, params: Number, flops_per_s: Number, mfu: Number) -> Number:
    """Tokens that a budget pays for; the number of devices that share the hours does not matter."""
    hours = require("usd", usd, "USD") / require("usd_per_hour", usd_per_hour, "USD per device-hour")
    return hours * HOUR * _pool(flops_per_s, mfu, 1) / (TRAIN * require("params", params, "parameters"))


def mfu(
    params: Number, tokens_per_s: Number, devices: Number, flops_per_s: Number, attention_per_token: Numeric = 0.0
) -> Number:
    """Model FLOPs utilization: the FLOPs that the model needs divided by the FLOPs that the devices could do.

    The result is a fraction. `tokens_per_s` is the rate of all devices together, `flops_per_s` the dense peak of one.
    Recomputed FLOPs do not count. `attention_per_token` adds attention, in full, as the PaLM paper (2022, appendix B)
    does.
    """
    attention = require("attention_per_token", attention_per_token, "FLOP", open_below=False)
    per_token = TRAIN * require("params", params, "parameters") + attention
    return per_token * require("tokens_per_s", tokens_per_s, "tokens/s") / _pool(flops_per_s, 1.0, devices)


def hfu(
    params: Number,
    tokens_per_s: Number,
    devices: Number,
    flops_per_s: Number,
    attention_per_token: float = 0.0,
    recompute: str = "none",
) -> Number:
    """Hardware FLOPs utilization, a fraction: as `mfu`, but recomputed FLOPs count too.

    recompute="full" repeats the whole forward pass (a third more FLOPs), "selective" only that of attention.
    Sources differ in how they count selective recomputation; this function counts the FLOPs that run.
    """
    attention = require("attention_per_token", attention_per_token, "FLOP", open_below=False)
    third = FORWARD / TRAIN
    again = {"none": 0.0, "selective": attention * third, "full": third * (TRAIN * params + attention)}
    if recompute not in again:
        raise ValueError(f"recompute is {recompute!r}; choose from {', '.join(again)}.")
    return mfu(params, tokens_per_s, devices, flops_per_s, attention + again[recompute])


def step_seconds(compute: Number, comm: float = 0.0, data: float = 0.0, overlap: bool = True) -> Number:
    """Seconds of one step from the seconds of its parts.

    With overlap=True all parts overlap perfectly and the longest decides, a lower bound; with False the parts add up.
    """
    named = (("compute", compute), ("comm", comm), ("data", data))
    parts = [require(name, part, "s", open_below=False) for name, part in named]
    if overlap:
        longest = np.maximum(np.maximum(parts[0], parts[1]), parts[2])
        return longest.item() if np.ndim(longest) == 0 else longest
    return parts[0] + parts[1] + parts[2]


def _pool(flops_per_s: Number, mfu: Number, devices: Number) -> Number:
    """FLOP/s that all devices deliver together."""
    rate = require("flops_per_s", flops_per_s, "FLOP/s") * require_whole("devices", devices)
    return rate * require("mfu", mfu, "a fraction of one", most=1.0)


# --- money -------------------------------------------------------------------------------------


def device_hours(seconds: Number, devices: Number) -> Number:
    """Device-hours of a run, which are what is paid for."""
    return require("seconds", seconds, "s") * require_whole("devices", devices) / HOUR


def cost_usd(device_hours: Number, usd_per_hour: Number) -> Number:
    """US dollars for these device-hours. Idle time, failed work, storage and salaries are left out."""
    hours = require("device_hours", device_hours, "device-hours", open_below=False)
    return hours * require("usd_per_hour", usd_per_hour, "USD per device-hour", open_below=False)


def wasted_fraction(mfu: Number, baseline: Numeric = 1.0) -> Number:
    """The share of the money that a run at `baseline` utilization would not have spent; 0 if none.

    The work is the same and cost is proportional to 1/MFU, so the better run costs mfu/baseline of this one.
    baseline=1 compares with a peak that no run reaches; name the baseline whenever you quote this number.
    """
    share = 1.0 - require("mfu", mfu, "a fraction of one", most=1.0) / require(
        "baseline", baseline, "a fraction of one", most=1.0
    )
    return np.maximum(share, 0.0) if np.ndim(share) else max(share, 0.0)


def budget_wasted(mfu: Number, baseline: Number, usd: Number) -> Number:
    """US dollars of a budget that a run at `baseline` utilization would have saved."""
    return wasted_fraction(mfu, baseline) * require("usd", usd, "USD", open_below=False)


def points_of_mfu_usd(usd: Number, mfu: Number, points: float = 1.0) -> Number:
    """US dollars saved on a run of `usd` if its utilization rose by `points` percentage points."""
    better = require("mfu", mfu, "a fraction of one", most=1.0) + require("points", points, "points") / 100
    if np.any(np.asarray(better) > 1.0):
        raise ValueError(f"{points} points above an MFU of {mfu} is more than the whole peak.")
    return require("usd", usd, "USD", open_below=False) * (1.0 - mfu / better)


def cost_slope(usd: Number, mfu: Number) -> Number:
    """d(cost)/d(MFU) in US dollars per unit of MFU: −cost/MFU, because cost is proportional to 1/MFU (elasticity
    −1)."""
    return -require("usd", usd, "USD") / require("mfu", mfu, "a fraction of one", most=1.0)


def elasticity(cost: Callable[..., float], inputs: Mapping[str, float], name: str, change: float = 1e-4) -> float:
    """d ln cost / d ln input by a central difference; −1 means that one percent more of the input cuts the cost by one
    percent.

    `cost` is any function of keyword arguments, `inputs` the point, `name` the input that changes.
    """
    if name not in inputs:
        raise ValueError(f"No input {name!r}; choose from {', '.join(inputs)}.")
    up, down = (cost(**{**inputs, name: inputs[name] * (1 + sign * change)}) for sign in (1, -1))
    return float((np.log(up) - np.log(down)) / (np.log1p(change) - np.log1p(-change)))


@dataclass(frozen=True, slots=True)
class Loss:
    """One step of a waterfall from peak to utilization: what is left before and after it, as fractions of peak."""

    name: str
    before: float
    after: float

    @property
    def lost(self) -> float:
        """Fraction of peak that this cause takes."""
        return self.before - self.after


def loss_waterfall(kept: dict[str, float]) -> list[Loss]:
    """The steps from peak (1.0) down: each cause keeps its fraction of what the step before left."""
    stairs, level = [], 1.0
    for name, share in kept.items():
        after = level * require(f"share kept after {name!r}", share, "a fraction of one", most=1.0)
        stairs.append(Loss(name, level, after))
        level = after
    return stairs
