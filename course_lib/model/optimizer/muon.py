"""Muon: momentum whose matrix is replaced by the nearest orthogonal one. Jordan et al. (2024); shapes (rows,
columns)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.model.optimizer.steps import Optimizer

COEFFICIENTS = (3.4445, -4.775, 2.0315)  # of the quintic: steep at 0, and about 1 from there on (Jordan et al., 2024)


def orthogonalize(matrix: Tensor, steps: int = 5, eps: float = 1e-7, dtype: torch.dtype | None = None) -> Tensor:
    """The matrix with its singular values near 1 (0.7 to 1.2 after 5 steps), by Newton–Schulz; `dtype` is computed
    in."""
    if matrix.ndim != 2:
        raise ValueError(
            f"orthogonalize takes a matrix, and got shape {tuple(matrix.shape)}; train vectors with AdamW."
        )
    a, b, c = COEFFICIENTS
    x = matrix.to(dtype or matrix.dtype)
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    x = x / x.norm().clamp(min=eps)  # so that no singular value is above 1
    for _ in range(steps):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)  # aX + (bXXᵀ + c(XXᵀ)²)X
    return x if wide else x.T


class Muon(Optimizer):
    """Orthogonalized momentum for the matrices of hidden layers; train embeddings, the head and vectors with AdamW.

    Decay is decoupled and uses the plain learning rate; the update is scaled by √max(1, rows/columns), as in torch.
    """

    defaults = {"lr": 1e-3, "momentum": 0.95, "weight_decay": 0.1, "nesterov": True, "steps": 5, "dtype": None}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step; the whole matrix is needed at once, so a shard of it cannot be updated alone."""
        keep = group["momentum"]
        state["velocity"] = keep * state.get("velocity", torch.zeros_like(param)) + (1 - keep) * grad
        direction = keep * state["velocity"] + (1 - keep) * grad if group["nesterov"] else state["velocity"]
        turned = orthogonalize(direction, group["steps"], dtype=group["dtype"])
        param *= 1 - group["lr"] * group["weight_decay"]
        param -= group["lr"] * max(1, param.shape[0] / param.shape[1]) ** 0.5 * turned.to(param.dtype)
