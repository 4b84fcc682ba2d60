"""How large a batch pays: the gradient noise scale, measured two ways, and the critical batch of a trade of steps for
tokens.

McCandlish et al., "An Empirical Model of Large-Batch Training" (2018). Batches are in samples of whatever is
independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from course_lib.estimate.units import require


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """|G|² of the true gradient and tr Σ of one sample's noise; their estimates may be negative when they are noisy."""

    signal: float  # |G|²
    noise: float  # tr Σ

    @property
    def batch(self) -> float:
        """tr Σ / |G|², the batch at which noise and signal are equally large; infinite where no signal was found."""
        return self.noise / self.signal if self.signal > 0 else math.inf

    def squared_norm(self, batch: float) -> float:
        """The mean squared norm of the gradient of a batch: |G|² + tr Σ / n. The noise falls as 1/n at *every* batch
        n."""
        return self.signal + self.noise / require("batch", batch, "samples")


def noise_scale_of_samples(grads: Tensor) -> NoiseScale:
    """From one gradient a sample, shape (samples, parameters): both estimates are unbiased."""
    if grads.ndim != 2 or len(grads) < 2:
        raise ValueError(
            f"Give at least two samples' gradients as (samples, parameters), not shape {tuple(grads.shape)}."
        )
    grads = grads.double()
    noise = grads.var(dim=0, correction=1).sum().item()
    return NoiseScale(grads.mean(0).square().sum().item() - noise / len(grads), noise)


def noise_scale_two_batches(small: float, big: float, small_squared: float, big_squared: float) -> NoiseScale:
    """From mean squared gradient norms at two batch sizes, unbiased (their appendix A.1). Data-parallel training has
    both: a rank's and the averaged one."""
    require("small", small, "samples")
    if not big > small:
        raise ValueError(
            f"big={big:g} must be larger than small={small:g}: two equal batches do not tell noise from signal."
        )
    signal = (big * big_squared - small * small_squared) / (big - small)
    return NoiseScale(signal, (small_squared - big_squared) / (1 / small - 1 / big))


@dataclass(frozen=True, slots=True)
class CriticalBatch:
    """The trade to reach one loss: (U/U_min − 1)(E/E_min − 1) = 1 for U updates and E = n·U samples or tokens."""

    min_steps: float
    min_samples: float

    @property
    def batch(self) -> float:
        """E_min / U_min: there a run takes twice the fewest steps and twice the fewest samples."""
        return self.min_samples / self.min_steps

    def steps(self, batch: float) -> float:
        """Updates at this batch: U_min (1 + n_crit / n)."""
        return self.min_steps * (1 + self.batch / require("batch", batch, "samples"))

    def samples(self, batch: float) -> float:
        """Samples (or tokens) at this batch: E_min (1 + n / n_crit)."""
        return self.steps(batch) * batch


def fit_critical_batch(batches: Sequence[float], steps: Sequence[float]) -> CriticalBatch:
    """The hyperbola through runs that reached one loss: U = U_min + E_min / n, by least squares of relative errors."""
    sizes, counts = np.asarray(batches, dtype=float), np.asarray(steps, dtype=float)
    if sizes.shape != counts.shape or sizes.ndim != 1 or len(set(sizes.tolist())) < 2:
        raise ValueError("Give one number of steps for each batch, of at least two different batches.")
    require("batches", sizes, "samples")
    require("steps", counts, "steps")
    design = np.stack([np.ones_like(sizes), 1 / sizes], axis=1) / counts[:, None]
    fewest, least = (float(each) for each in np.linalg.lstsq(design, np.ones_like(sizes), rcond=None)[0])
    if fewest <= 0 or least <= 0:
        raise ValueError(
            f"The fit gives U_min={fewest:.3g} and E_min={least:.3g}; both must be positive. Add smaller batches, "
            "where steps fall as 1/n, and larger ones, where they do not."
        )
    return CriticalBatch(fewest, least)
