"""ZeRO stage 3, or FSDP: every rank holds a part of everything; a unit's weights are gathered, used, and let go.

Only the unit at work needs its weights, so a rank holds its part of all and one unit whole. Rajbhandari et al., "ZeRO"
(2019); Zhao et al., "PyTorch FSDP" (2023). How weights really go: autograd keeps what a product multiplies, the weight too,
and would hold the gathered row until the backward pass. Here it keeps the weight's name instead (`_names`), and asks for
the weight again when it gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course_lib.accounting import here
from course_lib.cluster import Comm
from course_lib.sharding.rows import Draw, Row, drop_gradient, rows_of

_ask_torch = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


def _outer_hooks() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """How tensors are kept around here: hooks replace each other, and whoever counts or recomputes must go on seeing them.

    torch tells since 2.8; before, the account is asked, and checkpointing inside a unit keeps all and recomputes nothing.
    """
    if _ask_torch is not None:
        return _ask_torch(True)
    account = here()
    return account and (account._hooks.pack_hook, account._hooks.unpack_hook)


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


class _Use(torch.autograd.Function):
    """A row's parameters, whole, for one use of its unit. Backward comes when the unit's last gradient is there."""

    @staticmethod
    def forward(ctx: Any, shard: nn.Parameter, row: Row, unit: Unit) -> tuple[Tensor, ...]:
        ctx.row, ctx.unit = row, unit
        ctx.set_materialize_grads(False)
        return tuple(row.views(row.whole()))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[None, None, None]:
        ctx.row.free()
        ctx.unit.model._reduce(ctx.row, grads)
        return None, None, None


class Unit:
    """A module whose own parameters come and go together: those that belong to no unit further inside."""

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

    def shard(self, comm: Comm, **choices: Any) -> None:
        """Cut the parameters, and take them out of their modules: outside of its forward pass a unit has no weights."""
        self.rows = rows_of(comm, self._named, **choices)
        self.where = [[self.places[self._named[name]] for name in row.shapes] for row in self.rows]
        for module, key in (each for places in self.places.values() for each in places):
            del module._parameters[key]
        self._module.forward = self._around(self._module.forward)
        del self._named, self.places

    def _around(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The module's forward pass, between gathering and letting go."""

        def gathered(*args: Any, **kwargs: Any) -> Any:
            self.model._ahead(
                self.place, -1 if _in_backward() else +1
            )  # a recomputation goes backwards through the units
            try:
                self._show()
                with self._names():
                    return forward(*args, **kwargs)
            finally:
                self._hide()
                if not _in_backward() and not (self.model._keeps(self) and torch.is_grad_enabled()):
                    self.free()  # in a recomputation the backward pass is about to ask for the weights

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

    def _names(self) -> AbstractContextManager[Any]:
        """Within: autograd keeps of a gathered weight where it lies in its row; of all else what it would keep anyway."""
        if not torch.is_grad_enabled():
            return nullcontext()
        outer = _outer_hooks()
        rows = {row.full.untyped_storage()._cdata: row for row in self.rows}

        def pack(tensor: Tensor) -> Any:
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
        """Let every gathered row go."""
        for row in self.rows:
            row.free()


class FullySharded(nn.Module):
    """A model in parts: `model(x)`, `backward()`, `finish()`, then an optimizer's step over `shards()`; nothing to gather.

    `units` are modules inside `module`, in the order of their use; what lies in none of them is the root's, which is
    gathered as long as the model runs. While a unit computes, the next `prefetch` are gathered. Without
    `reshard_after_forward` weights stay from the forward pass to the backward: one gather less, and the whole model at the
    peak. `replicas` are ranks that hold the same part (HSDP, see `two_levels`). Weights travel as `gather_dtype`,
    gradients as `reduce_dtype`, and are kept as `grad_dtype`: each the parameters' own, if not given. `draw` makes
    the values of a model that has none, on the meta device (see `initial`).

    All ranks must use the same units in the same order. A parameter of two units is an error; a module used twice is
    gathered and reduced for each use. Buffers are each rank's own. Not for double backward.
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
        draw: Draw | None = None,
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
                f"FullySharded: units holds a {type(unknown[0]).__name__} that is not inside the module; take units from it."
            )
        self.units = [Unit(self, named[each], each, set(chosen) - {each}) for each in chosen]
        _refuse_shared(self.units)
        self.units = [unit for unit in self.units if unit._named]
        for place, unit in enumerate(self.units):
            unit.place = place
            unit.shard(comm, replicas=replicas, gather=gather_dtype, reduce=reduce_dtype, keep=grad_dtype, draw=draw)
        self.rows = [row for unit in self.units for row in unit.rows]
        self.held = nn.ParameterList(row.shard for row in self.rows)
        self.module, self._leaving, self._reduced = module, None, set()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own result."""
        return self.module(*args, **kwargs)

    def shards(self) -> Iterator[nn.Parameter]:
        """What this rank's optimizer steps: its part of every row that is trained."""
        return (row.shard for row in self.rows if row.shard.requires_grad)

    def no_sync(self) -> AbstractContextManager[None]:
        """For `accumulate`: micro-batches need no care here, each is reduced and added to the part that is kept."""
        return nullcontext()

    def _keeps(self, unit: Unit) -> bool:
        return not self.reshard or unit.name == ""  # the backward pass begins in the root, where the forward pass ends

    def _ahead(self, place: int, step: int) -> None:
        """Begin to gather the unit in this place and those to be used next."""
        for each in range(place, place + step * (self.prefetch + 1), step):
            if 0 <= each < len(self.units):
                self.units[each].start()
        if step < 0:
            for unit in self.units[place + 1 :]:  # the backward pass is through with those: frozen rows go here
                for row in unit.rows:
                    if not row.shard.requires_grad and self.units[place].name:
                        row.free()

    def _reduce(self, row: Row, grads: Sequence[Tensor | None]) -> None:
        """Begin to reduce a row, when the one before is through: one buffer at a time."""
        if self._leaving:
            self._leaving.settle()
        row.reduce(grads)
        self._leaving = row
        self._reduced.add(row)

    def finish(self) -> None:
        """Wait until every shard's gradient is the mean over ranks; all gathered weights are gone then."""
        if self._leaving:
            self._leaving.settle()
        for unit in self.units:
            unit.free()
        missing = [row for row in self.rows if row.shard.requires_grad and row not in self._reduced]
        self._leaving, self._reduced = None, set()
        if missing:
            names = ", ".join(name for row in missing[:2] for name in list(row.shapes)[:2])
            raise ValueError(
                f"rank {self.comm.rank}: a unit with {names} got no gradient. Use it in the loss, on all ranks, or freeze it "
                "before the model is sharded."
            )

    @contextmanager
    def gathered(self) -> Iterator[dict[str, Tensor]]:
        """Within: whole weights by name, to read; they take the whole model's memory. All ranks enter it."""
        yield {name: view for row in self.rows for name, view in zip(row.shapes, row.views(row.whole()), strict=True)}
        for unit in self.units:
            unit.free()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        for shard in self.held:
            drop_gradient(shard)


def _own(module: nn.Module, path: str, inner: set[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a unit with their names: those inside it, but for units inside and what is in them."""
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
                    f"A parameter is in two units, {first} and {second}: each would free it under the other. Put both uses in "
                    "one unit: leave one of the two modules to the root, or wrap what holds both."
                )
            seen[parameter] = unit.name
