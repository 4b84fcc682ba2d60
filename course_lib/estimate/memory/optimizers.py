"""The numbers that an optimizer keeps per parameter from step to step, in addition to the weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from course_lib.estimate.memory.recipes import Convention, convention, dtype_bytes
from course_lib.estimate.memory.shapes import Shape, params_by_part
from course_lib.estimate.memory.shapes import shape as shape_of
from course_lib.estimate.units import Numeric

BLOCK = 2048  # parameters that share one fp32 scale in block-wise 8-bit states, Dettmers et al. (2021)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer's memory: `numbers(shape)` numbers per parameter of the moments' dtype, plus `fixed_bytes`."""

    name: str
    keeps: str
    numbers: Callable[[Shape | None], Numeric]  # of the optimizer's dtype
    fixed_bytes: float = 0.0  # per parameter, for any dtype
    source: str = ""


def _factored(shape: Shape | None) -> Numeric:
    """Adafactor's numbers per parameter: a row and a column for a matrix, one each for a vector."""
    if shape is None:
        return 0.0
    matrices = [(shape.hidden, shape.query_width, 2), (shape.hidden, shape.kv_width, 2)]
    matrices.append((shape.hidden, shape.ffn, 3 if shape.gated else 2))
    kept = sum(many * (rows + columns) for rows, columns, many in matrices) * shape.layers
    matrix_params = sum(many * rows * columns for rows, columns, many in matrices) * shape.layers
    tables = 1 if shape.tied else 2
    kept = kept + tables * (shape.vocab + shape.hidden)
    matrix_params = matrix_params + tables * shape.vocab * shape.hidden
    total = _total(shape)
    return (kept + (total - matrix_params)) / total  # everything but matrices keeps one number per parameter


def _muon(shape: Shape | None) -> Numeric:
    """One momentum for the layers' matrices; embeddings, head and vectors use AdamW with its two."""
    if shape is None:
        return 1.0
    matrices = shape.hidden * (2 * shape.query_width + 2 * shape.kv_width + (3 if shape.gated else 2) * shape.ffn)
    return 2.0 - shape.layers * matrices / _total(shape)


def _total(shape: Shape) -> Numeric:
    parts = params_by_part(shape)
    return sum(count * (shape.layers if part == "layer" else 1) for part, count in parts.items())


OPTIMIZERS: dict[str, Optimizer] = {
    one.name: one
    for one in (
        Optimizer("sgd", "nothing", lambda shape: 0.0, source="Robbins & Monro (1951)"),
        Optimizer("momentum", "one momentum", lambda shape: 1.0, source="Polyak (1964)"),
        Optimizer("adam", "first and second moment", lambda shape: 2.0, source="Kingma & Ba (2014)"),
        Optimizer("adamw", "first and second moment", lambda shape: 2.0, source="Loshchilov & Hutter (2017)"),
        Optimizer(
            "adafactor",
            "row and column means of the second moment, no first moment",
            _factored,
            source="Shazeer & Stern (2018), section 3",
        ),
        Optimizer(
            "adam8bit",
            f"two moments of one byte, and an fp32 scale for {BLOCK} of them",
            lambda shape: 0.0,
            fixed_bytes=2 * (1 + 4 / BLOCK),
            source="Dettmers et al. (2021)",
        ),
        Optimizer(
            "muon", "one momentum; two moments for embeddings, head and vectors", _muon, source="Jordan et al. (2024)"
        ),
    )
}


def optimizer_bytes_per_param(name: str, shape: object = None, dtype: str = "fp32") -> Numeric:
    """Bytes that an optimizer keeps per parameter, without the master copy.

    `dtype` is that of its moments; 8-bit Adam ignores it. Adafactor's and Muon's depend on the matrices: with `shape`
    they are counted; without it Adafactor is 0 and Muon one number, their limits for large matrices.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"No optimizer {name!r}; choose from {', '.join(OPTIMIZERS)}.")
    one = OPTIMIZERS[name]
    return one.fixed_bytes + dtype_bytes(dtype) * one.numbers(None if shape is None else shape_of(shape))


def with_optimizer(letter: str | Convention, optimizer: str, shape: object = None, dtype: str = "fp32") -> Convention:
    """A convention whose moments are those of another optimizer; the other buckets stay the same."""
    base = convention(letter)
    moments = optimizer_bytes_per_param(optimizer, shape, dtype)
    return replace(base, name=f"{base.name}, {optimizer}", moments=float(moments))
