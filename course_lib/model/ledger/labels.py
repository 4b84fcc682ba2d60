"""Labels of kept tensors, from the module and the operation that kept them, in order.

The names are those of `memory.terms`. A tensor of any other model is labeled by its place: "path: operation".
"""

from collections import Counter

from torch import Tensor

_SDPA = "scaled_dot_product_attention"
# a product keeps its second factor first
_CORE = ("attention.k", "attention.q", "attention.v", "attention.softmax_dropped")

# (last name of the module's path, operation, dimensions where that matters): names in the order of keeping
_ORDER: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "checkpoint"): ("norm1.input",),
    ("norm1", "norm"): ("norm1.input", "norm1.statistics"),
    ("wq", "linear"): ("attention.input",),
    ("wk", "linear"): ("attention.input",),
    ("wv", "linear"): ("attention.input",),
    ("attention", "checkpoint"): ("attention.q", "attention.k", "attention.v"),
    ("attention", "matmul"): _CORE,
    ("attention", "softmax"): ("attention.softmax",),
    ("attention", "dropout"): ("attention.softmax_mask",),
    ("attention", "flash 4"): ("attention.q", "attention.k", "attention.v", "attention.context"),
    ("attention", "flash 3"): ("attention.logsumexp",),
    ("attention", "math 3"): _CORE,
    ("attention", "math 4"): ("attention.softmax", "attention.softmax_mask"),
    ("wo", "linear"): ("attention.context",),
    ("dropout", "dropout"): ("attention.dropout_mask", "mlp.dropout_mask"),
    ("norm2", "norm"): ("norm2.input", "norm2.statistics"),
    ("gate", "linear"): ("mlp.input",),
    ("up", "linear"): ("mlp.input",),
    ("mlp", "silu"): ("mlp.gate",),
    ("mlp", "mul"): ("mlp.up", "mlp.activated"),
    ("mlp", "gelu"): ("mlp.up",),
    ("norm", "norm"): ("final_norm.input", "final_norm.statistics"),
    ("head", "linear"): ("head.input",),
    ("", "cross_entropy"): ("loss.log_probabilities", "loss.log_probabilities", "loss.weight"),
}


class Namer:
    """Labels the kept tensors of one forward pass; call `name` for each of them in order."""

    def __init__(self, gated: bool) -> None:
        self._down = "mlp.product" if gated else "mlp.activated"
        self._seen: Counter[tuple[str, str]] = Counter()
        self._kernel: dict[str, str] = {}  # of a path's attention

    def name(self, path: str, operation: str, tensor: Tensor) -> str:
        """The label of this tensor, kept by `operation` (or none) in the module at `path`."""
        leaf = path.rpartition(".")[2]
        if operation == "linear" and not tensor.is_contiguous():
            return "weights.cast"  # a matrix is kept transposed
        if (leaf, operation) == ("down", "linear"):
            return self._down
        if operation == _SDPA:
            # flash keeps q as it came, (B, A, S, D); math keeps what its product read, (B A, S, D)
            kernel = self._kernel.setdefault(path, "flash" if tensor.ndim == 4 else "math")
            operation = f"{kernel} {tensor.ndim}"
        elif not operation:
            operation = "norm" if leaf.startswith("norm") else "checkpoint"
        names = _ORDER.get((leaf, operation))
        if names is None:
            return f"{path or 'model'}: {operation}"
        place = self._seen[path, operation]
        self._seen[path, operation] += 1
        return names[min(place, len(names) - 1)]
