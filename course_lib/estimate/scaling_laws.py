"""How loss falls with parameters, tokens and compute: a power law fitted to runs, and the split of a budget of FLOPs.

C ≈ 6 Ψ D FLOPs for Ψ parameters and D tokens (the papers write N for Ψ). Kaplan et al. (2020); Hoffmann et al. (2022),
called Chinchilla.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.estimate.compute import TRAIN
from course_lib.estimate.facts.optimization import published
from course_lib.estimate.units import require


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """loss = floor + scale · x^(−exponent)."""

    floor: float
    scale: float
    exponent: float

    def loss(self, x: float) -> float:
        """The loss at x (parameters, tokens or FLOPs, whatever was fitted)."""
        return self.floor + self.scale * require("x", x) ** -self.exponent


def fit_power_law(x: Sequence[float], losses: Sequence[float], floor: float | None = None) -> PowerLaw:
    """The power law of least squares; `floor` holds L∞ fixed (0: a straight line in logarithms).

    For each exponent the other two are a linear fit; the exponent is searched on a grid that is refined. L∞ is at least
    0.
    """
    at, loss = np.asarray(x, dtype=float), np.asarray(losses, dtype=float)
    free = 3 - (floor is not None)
    if at.shape != loss.shape or at.ndim != 1 or len(set(at.tolist())) < free:
        raise ValueError(f"Give a loss for each x, at {free} different x or more; got {at.size} and {loss.size}.")
    require("x", at)
    require("losses", loss)
    low, high = 0.005, 3.0
    for _ in range(12):
        grid = np.linspace(low, high, 41)
        tried = [_linear(at, loss, exponent, floor) for exponent in grid]
        best = int(np.argmin([error for error, _ in tried]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 40)]
    bottom, scale = tried[best][1]
    if scale <= 0:
        raise ValueError("The losses do not fall with x: no power law fits them.")
    return PowerLaw(float(bottom), float(scale), float(grid[best]))


def _linear(
    at: np.ndarray, loss: np.ndarray, exponent: float, floor: float | None
) -> tuple[float, tuple[float, float]]:
    """(squared error, (floor, scale)) of the best fit with this exponent."""
    middle = np.exp(np.log(at).mean())  # so that the columns are of one size
    column = (at / middle) ** -exponent
    if floor is None:
        floor, scale = np.linalg.lstsq(np.stack([np.ones_like(at), column], axis=1), loss, rcond=None)[0]
        floor = max(floor, 0.0)
    scale = column @ (loss - floor) / (column @ column)
    return float(np.square(floor + scale * column - loss).sum()), (floor, scale * middle**exponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricLaw:
    """L(Ψ, D) = floor + a Ψ^(−alpha) + b D^(−beta), and the best Ψ and D of a budget. Hoffmann et al. (2022), equation
    2."""

    floor: float
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, params: float, tokens: float) -> float:
        """Nats per token after one pass over `tokens`."""
        require("params", params, "parameters")
        require("tokens", tokens, "tokens")
        return self.floor + self.a * params**-self.alpha + self.b * tokens**-self.beta

    def optimum(self, flops: float) -> tuple[float, float]:
        """(parameters, tokens) of the least loss with 6 Ψ D = flops: their equation 4."""
        ratio = (self.alpha * self.a / (self.beta * self.b)) ** (1 / (self.alpha + self.beta))
        params = ratio * (require("flops", flops, "FLOP") / TRAIN) ** (self.beta / (self.alpha + self.beta))
        return params, flops / TRAIN / params


def growth_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """q in y ∝ x^q by least squares in logarithms: 0.5 where both halves of a budget grow alike."""
    across, up = np.log(require("x", x)), np.log(require("y", y))
    if across.shape != up.shape or across.ndim != 1 or len(set(across.tolist())) < 2:
        raise ValueError("Give a y for each x, at two different x at least.")
    return float(np.polyfit(across, up, 1)[0])


GOPHER_FLOPS = 5.76e23  # the budget at which Hoffmann et al. compare their model with Gopher
CHINCHILLA = {"corrected": "chinchilla-corrected", "printed": "chinchilla-law"}


def chinchilla_law(fit: str = "corrected") -> ParametricLaw:
    """Hoffmann et al.'s parametric law: fitted again by Besiroglu et al. (2024), or with its constants as "printed".

    The first fit had not converged, and its printed constants are rounded: they ask for 70 to 100 tokens a parameter at
    large budgets. The corrected ones agree with the paper's two other methods, about 20.
    """
    if fit not in CHINCHILLA:
        raise ValueError(f"There is no fit {fit!r}; choose from {', '.join(CHINCHILLA)}.")
    return ParametricLaw(**{name: float(value) for name, value in published(CHINCHILLA[fit]).items()})


def tokens_for(params: float, per_param: float = 20.0) -> float:
    """Tokens by the rule of thumb of 20 a parameter, which Hoffmann et al.'s first two approaches lead to."""
    return require("params", params, "parameters") * require("per_param", per_param, "tokens")


def split(flops: float, per_param: float = 20.0) -> tuple[float, float]:
    """(parameters, tokens) that spend `flops` with this many tokens a parameter."""
    params = (require("flops", flops, "FLOP") / TRAIN / require("per_param", per_param, "tokens")) ** 0.5
    return params, params * per_param
