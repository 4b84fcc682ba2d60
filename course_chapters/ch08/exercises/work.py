"""Test objects of chapter 08's exercises: parameters with an optimizer, a stack of flat units, a model with tied
weights."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.cluster import Comm
from course_lib.cluster.endpoint import endpoint
from course_lib.model.optimizer import SGD, AdamW, Optimizer
from course_lib.model.transformer import Config, Transformer, build


class Unwritten(TorchDispatchMode):
    """New memory of this thread holds sevens until it is written, so that what an answer never writes is not zero by
    chance."""

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        made = func(*args, **(kwargs or {}))
        return made.fill_(7) if func._schema.name in ("aten::empty", "aten::new_empty", "aten::empty_like") else made


class Weights:
    """Parameters, equal on all ranks, some of them frozen or tied, and optimizers over any of them."""

    def __init__(
        self,
        *,
        seed: int,
        shapes: Sequence[Sequence[int]],
        optimizer: str,
        frozen: Sequence[int] = (),
        tied: Sequence[int] = (),
        **_: object,
    ) -> None:
        coin = torch.Generator().manual_seed(seed)
        self._rule, self._tied = RULES[optimizer], tied
        self._made: list[weakref.ref[Optimizer]] = []
        self.tensors = [nn.Parameter(torch.randn(list(shape), generator=coin)) for shape in shapes]
        for place in frozen:
            self.tensors[place].requires_grad_(False)

    def given(self) -> list[nn.Parameter]:
        """The list passed to the answer, with tied parameters repeated at the end."""
        return [*self.tensors, *(self.tensors[place] for place in self._tied)]

    def make(self, tensors: object) -> Optimizer:
        made = self._rule(tensors)
        self._made.append(weakref.ref(made))
        return made

    def state_bytes(self) -> int:
        """Bytes of state of all optimizers that still exist."""
        return sum(made.state_bytes() for each in self._made if (made := each()) is not None)


STATE = {"adamw": 2, "momentum": 1, "paces": 24}  # tensors of state per parameter


class Paces(Optimizer):
    """So many momenta that all other memory is negligible."""

    defaults = {"lr": 0.02}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of each momentum, the later ones slower."""
        for place in range(1, STATE["paces"] + 1):
            pace = state.setdefault(str(place), torch.zeros_like(param)).lerp_(grad, 1 / place)
            param.sub_(pace, alpha=group["lr"] / place)


RULES: Mapping[str, Callable[..., Optimizer]] = {
    "adamw": partial(AdamW, lr=0.02, weight_decay=0.1),
    "momentum": partial(SGD, lr=0.02, momentum=0.9),
    "paces": Paces,
}


def repeated(table: Tensor, count: int, times: int) -> list[Tensor]:
    """`times` rows of `count` numbers, each repeating `table` from a different offset; all are views of one row."""
    row = table.repeat(count // len(table) + times)
    return [row[start : start + count] for start in range(times)]


class Told(TypedDict):
    """What a rank's `Stack` saw of a step."""

    order: list[tuple[str, int]]  # passes and units, as they were called
    held: int
    ahead: float
    bytes: int


class Stack:
    """A stack of units tanh(x Wᵀ + b) with flat weights; weights that should have been freed are overwritten with NaN.

    `around` creates a context for a unit's own computation, which does not count as the answer's memory. `alive`
    returns the storages that count. Without `watch`, nothing is overwritten, counted or copied.
    """

    def __init__(
        self,
        comm: Comm,
        widths: Sequence[int],
        wish: Sequence[bool],
        shards: Sequence[Tensor],
        target: Tensor,
        watch: bool = True,
    ) -> None:
        self._widths, self._keep, self._target = widths, not wish[-1] if wish else False, target
        self._comm, self._shards, self._watch = comm, list(shards), watch
        self._own = {shard.untyped_storage()._cdata for shard in shards}
        self._rows: dict[int, list[_Row]] = {}  # unit -> the rows of weights that it was given
        self._order: list[tuple[str, int]] = []
        self._most = self._bytes = 0
        self._calls: list[int] = []  # calls of the communicator when each unit's forward began
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        self.alive: Callable[[], Sequence[torch.UntypedStorage]] = list

    def forward(self, unit: int, weights: Tensor, x: Tensor) -> Tensor:
        """The unit's output."""
        self._turn("forward", unit, weights, x)
        with self.around(), torch.no_grad():
            return self._out(unit, weights, x)

    def loss(self, y: object) -> Tensor:
        """The gradient of the last unit's output."""
        with self.around(), torch.no_grad():
            return (self._tensor(y, "loss", (len(self._target), self._widths[-1])) - self._target) / len(self._target)

    def backward(self, unit: int, weights: Tensor, x: Tensor, grad: object) -> tuple[Tensor, Tensor]:
        """The gradient of the unit's input, and that of its weights, flat."""
        self._turn("backward", unit, weights, x)
        grad = self._tensor(grad, f"backward of unit {unit}", (len(x), self._widths[unit + 1]))
        with self.around(), torch.no_grad():
            y = self._out(unit, weights, x)
            inner = grad * (1 - y * y)
            matrix, _ = self._cut(unit, weights)
            return inner @ matrix, torch.cat([(inner.T @ x).reshape(-1), inner.sum(0)])

    def told(self) -> Told:
        """The order of calls, and the peaks of: other units' rows while one computed, units gathered ahead, and
        bytes."""
        return {"order": list(self._order), "held": self._most, "ahead": self._ahead(), "bytes": self._bytes}

    def _cut(self, unit: int, weights: Tensor) -> tuple[Tensor, Tensor]:
        into, out = self._widths[unit], self._widths[unit + 1]
        return weights[: into * out].view(out, into), weights[into * out :]

    def _out(self, unit: int, weights: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(functional.linear(x, *self._cut(unit, weights)))

    def _turn(self, what: str, unit: object, weights: Tensor, x: object) -> None:
        if type(unit) is not int or not 0 <= unit < len(self._widths) - 1:
            raise ValueError(f"Units are 0 to {len(self._widths) - 2}; {what} was asked for {unit!r}.")
        count = (self._widths[unit] + 1) * self._widths[unit + 1]
        self._tensor(weights, f"{what} of unit {unit}", (count,), "the flat weights, whole and without padding,")
        self._tensor(x, f"{what} of unit {unit}", (len(self._target), self._widths[unit]), "the unit's input")
        self._order.append((what, unit))
        if not self._watch:
            return
        with self.around(), torch.no_grad():
            self._overwrite(unit)
            self._look(what)
            if weights.untyped_storage()._cdata not in self._own:
                self._rows.setdefault(unit, []).append(_Row(weights.detach()))

    def _tensor(self, value: object, where: str, shape: tuple[int, ...], what: str = "a tensor") -> Tensor:
        if not isinstance(value, Tensor) or tuple(value.shape) != shape:
            got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)[:40]
            raise ValueError(f"The {where} needs {what} in shape {shape}; it was given {got}.")
        return value.detach()

    def _overwrite(self, unit: int) -> None:
        """Fill the rows of other units that still exist with NaN, except those to be kept."""
        existing = 0
        for other, rows in self._rows.items():
            rows[:] = [row for row in rows if row.exists()]
            if other == unit:
                continue
            existing += bool(rows)
            last = next(what for what, place in reversed(self._order) if place == other)
            if not (self._keep and last == "forward"):
                for row in rows:
                    row.overwrite()
        self._most = max(self._most, existing)

    def _look(self, what: str) -> None:
        """Count live bytes while a unit computes (a freed storage has none), and calls of the communicator so far."""
        live = sum(storage.nbytes() for storage in self.alive() if storage._cdata not in self._own)
        self._bytes = max(self._bytes, live)
        if what == "forward" and self._comm is not None:
            self._calls.append(endpoint().calls)

    def _ahead(self) -> float:
        """The most units gathered ahead, in a forward pass with equally many calls for each unit."""
        each = max(self._calls, default=0) / max(len(self._shards), 1)
        return max((calls / each - unit - 1 for unit, calls in enumerate(self._calls)), default=0.0) if each else 0.0


class _Row:
    """A unit's weights as the answer passed them: a part of a storage, which may later be freed or reused."""

    def __init__(self, weights: Tensor) -> None:
        self._storage = weakref.ref(weights.untyped_storage())
        self._where = weights.storage_offset(), weights.shape, weights.stride()
        self._numbers = weights.clone()

    def _there(self) -> Tensor | None:
        storage, (start, shape, stride) = self._storage(), self._where
        end = (start + (shape[0] - 1) * stride[0] + 1) * self._numbers.element_size()
        if storage is None or storage.nbytes() < end:
            return None
        return torch.empty(0, dtype=self._numbers.dtype).set_(storage, start, shape, stride)

    def exists(self) -> bool:
        """Whether the weights, or the NaN that overwrote them, still exist."""
        there = self._there()
        return there is not None and torch.equal(there.nan_to_num(torch.inf), self._numbers.nan_to_num(torch.inf))

    def overwrite(self) -> None:
        """Replace the weights with NaN."""
        there = self._there()
        if there is not None:
            self._numbers = there.fill_(torch.nan).clone()


def tied_model(*, seed: int, vocab: int, layers: int, hidden: int, **_: object) -> Transformer:
    """A transformer whose head shares the embedding's weights, equal on every rank."""
    return build(Config(vocab=vocab, layers=layers, hidden=hidden, heads=1, tied=True), seed).double()


def glimpses(tensors: Sequence[Tensor], places: Tensor) -> Tensor:
    """The numbers of every tensor at some positions, one row per tensor."""
    return torch.stack([each.detach().reshape(-1)[places % each.numel()] for each in tensors])
