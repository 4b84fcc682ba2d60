"""ZeRO stage 3, or FSDP: every rank holds a part of all state; a unit's weights are gathered, used, and freed.

Only the unit that computes needs its weights, so a rank holds its part of everything and one unit whole. Rajbhandari et
al., "ZeRO" (2019); Zhao et al., "PyTorch FSDP" (2023). How weights are really freed: autograd saves the operands of a
product, including the weight, and would keep the gathered row until the backward pass. Here it saves the weight's
position in the row instead (`_names`), and gathers the row again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar, Unpack

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course_lib.cluster import Comm
from course_lib.parallel.sharding.flat_parameter import Row, RowChoices, drop_gradient, rows_of

_outer_hooks = torch._C._autograd._top_saved_tensors_default_hooks  # ours would replace them; they must still run
Given = ParamSpec("Given")
Made = TypeVar("Made")


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


class _Use(torch.autograd.Function):
    """A row's whole parameters for one use of its unit. Its backward runs once all gradients of the unit are
    complete."""

    @staticmethod
    def forward(ctx, shard: nn.Parameter, row: Row, unit: Unit) -> tuple[Tensor, ...]:
        ctx.row, ctx.unit = row, unit
        ctx.set_materialize_grads(False)
        return tuple(row.views(row.whole()))

    @staticmethod
    def backward(ctx, *grads: Tensor | None) -> tuple[None, None, None]:
        ctx.row.free()
        ctx.unit.model._reduce(ctx.row, grads)
        return None, None, None


class Unit:
    """A module whose own parameters, those in no inner unit, are gathered and freed together."""

    def __init__(self, model: FullySharded, name: str, module: nn.Module, inner: set[nn.Module]) -> None:
        self.model, self.name, self.place = model, name, 0
        self.places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
        names: dict[str, nn.Parameter] = {}
        for path, each in _own(module, name, inner):
            for key, parameter in each._parameters.items():
                if parameter is not None:
                    if parameter not in self.places:
                        names[f"{path}.{key}".lstrip(".")] = parameter
                    self.places.setdefault(parameter, []).append((each, key))
        self._named, self._module = names, module

    def shard(self, comm: Comm, **choices: Unpack[RowChoices]) -> None:
        """Cut the parameters and remove them from their modules: outside its forward pass a unit has no weights."""
        self.rows = rows_of(comm, self._named, **choices)
        self.where = [[self.places[self._named[name]] for name in row.shapes] for row in self.rows]
        for module, key in (each for places in self.places.values() for each in places):
            del module._parameters[key]
        self._module.forward = self._around(self._module.forward)
        del self._named, self.places

    def _around(self, forward: Callable[Given, Made]) -> Callable[Given, Made]:
        """The module's forward pass, with gathering before and freeing after it."""

        def gathered(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            self.model._ahead(
                self.place, -1 if _in_backward() else +1
            )  # a recomputation visits the units in reverse order
            try:
                self._show()
                with self._names():
                    return forward(*args, **kwargs)
            finally:
                self._hide()
                if not _in_backward() and not (self.model._keeps(self) and torch.is_grad_enabled()):
                    self.free()  # after a recomputation, the backward pass needs the weights next

        return gathered

    def _show(self) -> None:
        for row, where in zip(self.rows, self.where, strict=True):
            trained = row.shard.requires_grad and torch.is_grad_enabled()
            views = _Use.apply(row.shard, row, self) if trained else row.views(row.whole())
            for view, places in zip(views, where, strict=True):
                for module, key in places:
                    module.__dict__[key] = view

    def _hide(self) -> None:
        for module, key in (each for where in self.where for places in where for each in places):
            module.__dict__.pop(key, None)

    def _names(self) -> AbstractContextManager[object]:
        """A context in which autograd saves only the position of a gathered weight in its row, and other tensors as
        usual."""
        if not torch.is_grad_enabled():
            return nullcontext()
        outer = _outer_hooks(True)
        rows = {row.full.untyped_storage()._cdata: row for row in self.rows if row.full is not None}

        def pack(tensor: Tensor) -> object:
            row = rows.get(tensor.untyped_storage()._cdata) if tensor.layout is torch.strided else None
            if row is not None:
                return row, tensor.size(), tensor.stride(), tensor.storage_offset()
            return outer[0](tensor) if outer else tensor

        def unpack(kept: Any) -> Tensor:
            if type(kept) is tuple and kept and isinstance(kept[0], Row):
                self.model._ahead(self.place, -1)
                return torch.as_strided(kept[0].whole(), *kept[1:])
            return outer[1](kept) if outer else kept

        return saved_tensors_hooks(pack, unpack)

    def start(self) -> None:
        """Begin to gather every row."""
        for row in self.rows:
            row.start()

    def free(self) -> None:
        """Free every gathered row."""
        for row in self.rows:
            row.free()


class FullySharded(nn.Module):
    """A sharded model: call `model(x)`, `backward()`, `finish()`, then an optimizer's step over `shards()`.

    `units` are modules inside `module`, in the order of their use. Parameters in none of them belong to the root unit,
    which stays gathered while the model runs. While a unit computes, the next `prefetch` units are gathered. Without
    `reshard_after_forward`, weights are kept from the forward to the backward pass: one gather less, but the whole
    model at the peak. `replicas` are the ranks that hold the same part (HSDP, see `two_levels`). Weights are sent as
    `gather_dtype`, gradients are sent as `reduce_dtype` and stored as `grad_dtype`; the default is the parameters'
    dtype.

    All ranks must use the same units in the same order. A parameter in two units is an error; a module used twice is
    gathered and reduced for each use. Buffers are not shared between ranks. Double backward is not supported.
    """

    def __init__(
        self,
        comm: Comm,
        module: nn.Module,
        units: Sequence[nn.Module] = (),
        *,
        prefetch: int = 1,
        reshard_after_forward: bool = True,
        replicas: Comm | None = None,
        gather_dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
        grad_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if type(prefetch) is not int or prefetch < 0:
            raise ValueError(
                f"prefetch={prefetch!r}: a whole number of units to gather ahead; 0 gathers when they are used."
            )
        self.comm, self.replicas, self.prefetch, self.reshard = comm, replicas, prefetch, reshard_after_forward
        named = {each: name for name, each in module.named_modules()}
        chosen = list(dict.fromkeys([module, *units]))
        if unknown := [each for each in chosen if each not in named]:
            raise ValueError(
                f"FullySharded: units contains a {type(unknown[0]).__name__} that is not inside the module; take "
                f"units from it."
            )
        self.units = [Unit(self, named[each], each, set(chosen) - {each}) for each in chosen]
        _refuse_shared(self.units)
        self.units = [unit for unit in self.units if unit._named]
        for place, unit in enumerate(self.units):
            unit.place = place
            unit.shard(comm, replicas=replicas, gather=gather_dtype, reduce=reduce_dtype, keep=grad_dtype)
        self.rows = [row for unit in self.units for row in unit.rows]
        self.held = nn.ParameterList(row.shard for row in self.rows)
        self.module = module
        self._leaving: Row | None = None
        self._reduced: set[Row] = set()

    def forward(self, *args: object, **kwargs: object) -> object:
        """The result of the module."""
        return self.module(*args, **kwargs)

    def shards(self) -> Iterator[nn.Parameter]:
        """The parameters for this rank's optimizer: its part of every trained row."""
        return (row.shard for row in self.rows if row.shard.requires_grad)

    def no_sync(self) -> AbstractContextManager[None]:
        """A no-op for `accumulate`: each micro-batch is reduced and added to this rank's part."""
        return nullcontext()

    def _keeps(self, unit: Unit) -> bool:
        return not self.reshard or unit.name == ""  # the backward pass begins in the root, where the forward pass ends

    def _ahead(self, place: int, step: int) -> None:
        """Begin to gather the unit at index `place` and those used next, in the direction of `step`."""
        for each in range(place, place + step * (self.prefetch + 1), step):
            if 0 <= each < len(self.units):
                self.units[each].start()
        if step < 0:
            for unit in self.units[place + 1 :]:  # the backward pass no longer needs these: free frozen rows
                for row in unit.rows:
                    if not row.shard.requires_grad and self.units[place].name:
                        row.free()

    def _reduce(self, row: Row, grads: Sequence[Tensor | None]) -> None:
        """Begin to reduce a row after the previous one is complete, so that only one buffer exists."""
        if self._leaving:
            self._leaving.settle()
        row.reduce(grads)
        self._leaving = row
        self._reduced.add(row)

    def finish(self) -> None:
        """Wait until every shard's gradient is the mean over ranks, and free all gathered weights."""
        if self._leaving:
            self._leaving.settle()
        for unit in self.units:
            unit.free()
        missing = [row for row in self.rows if row.shard.requires_grad and row not in self._reduced]
        self._leaving, self._reduced = None, set()
        if missing:
            names = ", ".join(name for row in missing[:2] for name in list(row.shapes)[:2])
            raise ValueError(
                f"rank {self.comm.rank}: a unit with {names} got no gradient. Use it in the loss, on all ranks, or "
                "freeze it before the model is sharded."
            )

    @contextmanager
    def gathered(self) -> Iterator[dict[str, Tensor]]:
        """A context with the whole weights by name, for reading; they take the whole model's memory. All ranks must
        enter it."""
        yield {name: view for row in self.rows for name, view in zip(row.shapes, row.views(row.whole()), strict=True)}
        for unit in self.units:
            unit.free()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Free all gradients."""
        for shard in self.held:
            drop_gradient(shard)


def _own(module: nn.Module, path: str, inner: set[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a unit with their names: all inside it, except inner units and their modules."""
    yield path, module
    for name, child in module.named_children():
        if child not in inner:
            yield from _own(child, f"{path}.{name}".lstrip("."), inner)


def _refuse_shared(units: Sequence[Unit]) -> None:
    seen: dict[nn.Parameter, str] = {}
    for unit in units:
        for parameter in unit.places:
            if parameter in seen:
                first, second = (name or "the root" for name in (seen[parameter], unit.name))
                raise ValueError(
                    f"A parameter is in two units, {first} and {second}: each would free it while the other needs it. "
                    "Put both uses in one unit: leave both modules to the root, or wrap a module that contains both."
                )
            seen[parameter] = unit.name
