"""Sums whose accumulator has few bits: one after the other, in pairs, in chunks, with Kahan's compensation; and how
wrong they can be."""

import math

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole
from course_lib.model.precision.number_formats import Format, number_format
from course_lib.model.precision.rounding import round_to


def running_sum(terms: Tensor, form: str | Format) -> Tensor:
    """The sum over the last dimension, one term after the other, rounded to the format after every addition.

    `terms` (..., n) in float32 or float64; an empty sum is 0.
    """
    total = _zero(terms)
    for term in terms.unbind(-1):
        total = round_to(total + term, form)
    return total


def pairwise_sum(terms: Tensor, form: str | Format) -> Tensor:
    """The sum over the last dimension as a tree: neighbors first, then the sums of neighbors; rounded after every
    addition."""
    if not terms.shape[-1]:
        return _zero(terms)
    while terms.shape[-1] > 1:
        even = terms.shape[-1] // 2 * 2
        pairs = round_to(terms[..., 0:even:2] + terms[..., 1:even:2], form)
        terms = torch.cat([pairs, terms[..., even:]], dim=-1)
    return terms[..., 0]


def chunked_sum(terms: Tensor, form: str | Format, every: int, wide: str | Format = "fp32") -> Tensor:
    """Runs of `every` terms are summed in the format, and their sums in a wide one. Tensor cores with narrow
    accumulators are used so."""
    require_whole("every", every, "terms")
    if not terms.shape[-1]:
        return _zero(terms)
    sums = [running_sum(chunk, form) for chunk in terms.split(every, dim=-1)]
    return running_sum(torch.stack(sums, dim=-1), wide)


def kahan_sum(terms: Tensor, form: str | Format) -> Tensor:
    """The running sum with a second number of the same format that remembers what rounding dropped. Kahan (1965)."""
    total, lost = _zero(terms), _zero(terms)
    for term in terms.unbind(-1):
        wanted = round_to(term - lost, form)
        grown = round_to(total + wanted, form)
        lost = round_to(round_to(grown - total, form) - wanted, form)
        total = grown
    return total


def additions_in_a_row(count: int, order: str = "running") -> int:
    """How many roundings one term of `count` goes through at most: "running", "pairwise", or "any" order at all."""
    require_whole("count", count, "terms")
    depths = {"running": count - 1, "any": count - 1, "pairwise": math.ceil(math.log2(count))}
    if order not in depths:
        raise ValueError(f"order is {order!r}; choose from {', '.join(depths)}.")
    return depths[order]


def sum_bound(terms: Tensor, form: str | Format, order: str = "any") -> Tensor:
    """The largest error that summing values of the format over the last dimension can have, overflow aside.

    With k roundings in a row it is k u / (1 - k u) times the sum of magnitudes, u being the unit roundoff; infinite
    once k u reaches 1. N. J. Higham, Accuracy and Stability of Numerical Algorithms (2002), sections 3.1 and 4.2.
    """
    if not terms.shape[-1]:
        return _zero(terms)
    share = additions_in_a_row(terms.shape[-1], order) * number_format(form).unit_roundoff
    return terms.abs().sum(-1) * (share / (1 - share) if share < 1 else math.inf)


def _zero(terms: Tensor) -> Tensor:
    return torch.zeros(terms.shape[:-1], dtype=terms.dtype)
