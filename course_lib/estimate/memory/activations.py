"""Activation memory in bytes, as sums over the terms of `terms`."""

from collections.abc import Iterable
from typing import Unpack

from course_lib.estimate.memory.activation_terms import (
    Kernels,
    Term,
    TermChoices,
    kernels_of,
    layer_terms,
    outside_terms,
)
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.shapes import shape as shape_of
from course_lib.estimate.units import Numeric


def total_bytes(terms: Iterable[Term]) -> Numeric:
    """Bytes of all terms together on one rank."""
    return sum(term.nbytes for term in terms)


def layer_bytes(
    shape: object, batch: Numeric, seq: Numeric, layout: Layout | None = None, **choices: Unpack[TermChoices]
) -> Numeric:
    """Bytes that one layer keeps for one micro-batch on one rank. `choices` as for `layer_terms`."""
    return total_bytes(layer_terms(shape, batch, seq, layout, **choices))


def recomputed_bytes(
    shape: object, batch: Numeric, seq: Numeric, layout: Layout | None = None, **choices: Unpack[TermChoices]
) -> Numeric:
    """Temporary bytes while the backward pass recomputes one layer; 0 without checkpointing."""
    checkpointing = choices.pop("checkpointing", "none")
    if checkpointing == "none":
        return 0.0
    terms, selective = (
        layer_terms(shape, batch, seq, layout, **choices),
        kernels_of(choices.get("kernels", "paper")).selective,
    )
    return total_bytes(term for term in terms if not term.kept(checkpointing, selective))


def activation_bytes(
    shape: object,
    batch: Numeric,
    seq: Numeric,
    layout: Layout | None = None,
    *,
    kernels: str | Kernels = "paper",
    dtype: str = "bf16",
    dropout: bool = True,
    checkpointing: str = "none",
    loss: str = "paper",
) -> Numeric:
    """Bytes that a whole model keeps for one micro-batch on one rank, from its forward to its backward pass.

    All layers and everything outside them, as if there were no pipeline: `layout.pp` is ignored; use `stage_peaks` to
    divide the layers. The working set of a layer being recomputed is `recomputed_bytes`. Korthikanti et al. (2022),
    section 4.
    """
    one = shape_of(shape)
    layer = layer_terms(
        one, batch, seq, layout, kernels=kernels, dtype=dtype, dropout=dropout, checkpointing=checkpointing
    )
    outside = outside_terms(one, batch, seq, layout, kernels=kernels, dtype=dtype, dropout=dropout, loss=loss)
    return one.layers * total_bytes(layer) + total_bytes(outside)
