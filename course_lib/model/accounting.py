"""Counts what torch does in one thread: bytes alive and at the peak, by role, and floating-point operations.

One `TorchDispatchMode` sees every operation of its thread, the backward pass on a CPU included. It counts storages, so
views and in-place operations add nothing, and a storage counts until it is freed. A storage's role is its purpose: a
registered parameter, a parameter's gradient, optimizer state, saved by autograd for the backward pass, held by a
communicator's call, or temporary. Roles become known as they arise (a parameter when it is registered, a gradient when
it is accumulated), and are added up on request.

Left out: memory that torch does not own (Python lists, numpy arrays that are not views of tensors), overhead of the
allocator, earlier storages that were not passed to `adopt`, and work space inside an operation. FLOPs are torch's own
formulas (`torch.utils.flop_counter`), with two for a multiply and an add, plus the CPU's attention kernels, which torch
counts as zero; elementwise operations count as zero.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from itertools import accumulate
from typing import Self, TypedDict

import torch
import torch.nn.modules.module as _modules
import torch.optim.optimizer as _optimizers
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

ROLES = ("parameters", "gradients", "optimizer state", "saved for backward", "communication", "temporary")
_here = threading.local()
_hooked: dict[int, weakref.ref[Tensor]] = {}  # parameters whose gradients are followed
_resize = torch.ops.aten.resize_
_OF_PARTS = ("DTensor", "AsyncCollectiveTensor")  # tensors that store nothing; by name, as loading them takes seconds


def _is_fake(tensor: object) -> bool:
    """Whether it is a tensor of torch's tracing, which has a shape and no data."""
    return type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: object, out_val: object = None, **__: object) -> int:
    return sdpa_flop_count(query.shape, key.shape, value.shape)


def _attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: object, out_val: object = None, **__: object
) -> int:
    return sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape)


def _shape(value: object) -> object:
    """The shape of a tensor, and those of a sequence of tensors; anything else as it is."""
    if isinstance(value, Tensor):
        return value.shape
    return type(value)(map(_shape, value)) if type(value) is list or type(value) is tuple else value


def _on_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    """torch's formula of shapes as one of tensors; torch's own way to get their shapes takes ten times as long."""

    def count(*args: object, out_val: object = None, **more: object) -> int:
        named = {name: _shape(value) for name, value in more.items()}
        return formula(*map(_shape, args), out_shape=_shape(out_val), **named)

    return count


FLOPS: dict[object, Callable[..., int]] = {  # of an operation, by its name in PyTorch
    packet: _on_shapes(formula.__wrapped__) if hasattr(formula, "__wrapped__") else formula
    for packet, formula in flop_registry.items()
}
for _name, _formula in (("", _attention), ("_backward", _attention_backward)):
    _packet = getattr(torch.ops.aten, f"_scaled_dot_product_flash_attention_for_cpu{_name}", None)
    if _packet is not None:
        FLOPS[_packet] = _formula


class Ledger(TypedDict):
    """What an account counted: bytes and FLOPs."""

    peak_bytes: int
    live_bytes: int
    peak_roles: dict[str, int]
    roles: dict[str, int]
    flops: int


class _Block:
    """One storage: its bytes and what is known about it. Times are numbers of allocations."""

    __slots__ = ("born", "died", "held", "held_until", "nbytes", "ref", "role", "saved", "saved_since", "saved_until")

    def __init__(self, nbytes: int, born: int, ref: weakref.ref[torch.UntypedStorage]) -> None:
        self.nbytes, self.born, self.ref = nbytes, born, ref
        self.died: int | None = None  # last moment at which it was alive
        self.role = ""
        self.saved = self.held = 0
        self.saved_since = self.saved_until = self.held_until = -1

    def role_at(self, moment: int, now: bool) -> str:
        """Its role now, or at the moment of the peak."""
        if self.role:
            return self.role
        if self.held or (not now and self.held_until >= moment):
            return "communication"
        if self.saved and (now or self.saved_since <= moment):
            return "saved for backward"
        if not now and self.saved_since <= moment <= self.saved_until:
            return "saved for backward"
        return "temporary"

    def spans(self, last: int) -> Iterator[tuple[str, int, int]]:
        """Its roles, each with its first and last moment; communication is not distinguished."""
        if self.role or self.saved_since < 0:
            yield self.role or "temporary", self.born, last
            return
        until = min(last, last if self.saved else self.saved_until)
        yield "temporary", self.born, self.saved_since - 1
        yield "saved for backward", self.saved_since, until
        yield "temporary", until + 1, last


class Saved:
    """Represents a tensor that autograd saved; dies when autograd releases it."""

    __slots__ = ("_account", "_block", "tensor")

    def __init__(self, tensor: Tensor, account: Accounting, block: _Block | None) -> None:
        self.tensor, self._account, self._block = tensor, account, block
        if block is not None:
            if not block.saved:
                block.saved_since = account.moment
            block.saved += 1

    def __del__(self) -> None:
        if self._block is not None:
            self._block.saved -= 1
            self._block.saved_until = self._account.moment


class Accounting(TorchDispatchMode):
    """Counts while it is entered: `with Accounting() as account: …`, then `account.peak_bytes`, `account.flops`.

    With `history=True` it also remembers freed storages, and `timeline()` returns bytes by role over time.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled while counting, so torch need not load its compiler, which takes seconds."""
        return False

    def __init__(self, history: bool = False) -> None:
        super().__init__()
        self.marks: list[tuple[int, str]] = []  # named moments
        self._history: list[_Block] | None = [] if history else None
        self.live_bytes = 0
        self.peak_bytes = 0
        self.flops = 0
        self.moment = 0
        self._blocks: dict[int, _Block] = {}
        self._peak = 0  # the moment of the peak
        self._gone: list[_Block] = []  # alive at the peak, freed since
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)
        self._outer: Accounting | None = None

    # --- dispatched operations

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if types and any(each.__name__ in _OF_PARTS for each in types):
            return NotImplemented  # torch then calls the operations on its parts, which come here
        if not types and torch.is_inference_mode_enabled():
            out = self._by_parts(func, args, kwargs or {})
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs) if kwargs else func(*args)
        if type(out) is Tensor:  # most are; it is neither fake nor of parts
            if out.layout is torch.strided and not out.is_meta:
                storage = out.untyped_storage()
                if storage._cdata not in self._blocks:
                    self._add(storage)
        elif isinstance(out, (tuple, list)):
            for item in out:
                if isinstance(item, Tensor):
                    self._see(item)
        elif isinstance(out, Tensor):
            self._see(out)
        packet = func._overloadpacket
        formula = FLOPS.get(packet)
        if formula is not None and not _is_fake(out):
            self.flops += formula(*args, **(kwargs or {}), out_val=out)
        elif packet is _resize and isinstance(args[0], Tensor):
            self._resized(args[0].untyped_storage())
        return out

    def _by_parts(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """What an operation gives that consists of others, as `matmul` does of `bmm`, which come here one by one; else
        NotImplemented. Only in inference mode does torch not take it apart before it comes here."""
        TorchDispatchMode.__enter__(self)
        try:
            return func.decompose(*args, **kwargs)
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def _see(self, tensor: Tensor) -> None:
        plain = type(tensor) is Tensor  # no subclass: to look for an attribute that is not there takes long
        tensor = tensor if plain else getattr(tensor, "_local_tensor", tensor)
        if tensor.layout is torch.strided and not tensor.is_meta and (plain or not _is_fake(tensor)):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._blocks:
                self._add(storage)

    def _add(self, storage: torch.UntypedStorage) -> _Block:
        key = storage._cdata
        self.moment += 1
        nbytes = storage.nbytes()
        blocks, me = self._blocks, weakref.ref(self)

        def gone(_: object) -> None:
            account = me()
            if account is not None:
                account._drop(key)

        block = blocks[key] = _Block(nbytes, self.moment, weakref.ref(storage, gone))
        if self._history is not None:
            self._history.append(block)
        self._grow(nbytes)
        return block

    def _grow(self, nbytes: int) -> None:
        self.live_bytes += nbytes
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes, self._peak = self.live_bytes, self.moment
            self._gone.clear()

    def _drop(self, key: int) -> None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self.live_bytes -= block.nbytes
            block.died = self.moment
            if block.born <= self._peak:
                self._gone.append(block)

    def _resized(self, storage: torch.UntypedStorage) -> None:
        block = self._blocks.get(storage._cdata)
        if block is None:
            return
        past = copy(block)  # its role so far may be part of the peak
        past.died = self.moment
        if past.born <= self._peak:
            self._gone.append(past)
        if self._history is not None:
            self._history.append(past)
        self.moment += 1
        change, block.nbytes, block.born = storage.nbytes() - past.nbytes, storage.nbytes(), self.moment
        block.saved_since = self.moment if block.saved else -1
        self._grow(change)

    def _pack(self, tensor: Tensor) -> Saved:
        return Saved(tensor, self, self._block(tensor))

    def _block(self, tensor: Tensor) -> _Block | None:
        tensor = getattr(tensor, "_local_tensor", tensor)
        if tensor.layout is not torch.strided or tensor.is_meta:
            return None
        return self._blocks.get(tensor.untyped_storage()._cdata)

    # --- what the caller registers

    def adopt(self, things: object, role: str = "") -> None:
        """Count the tensors in these things (modules, tensors, lists, tuples, dicts) from now on, and watch the
        modules.

        `role` is the role of the tensors among them, if known.
        """
        if role and role not in ROLES:
            raise ValueError(f"No role {role!r}; choose from {', '.join(ROLES)}.")
        for thing in _inside(things):
            if isinstance(thing, nn.Module):
                self.watch(thing)
            elif isinstance(thing, torch.UntypedStorage):
                if thing._cdata not in self._blocks:
                    self._add(thing)
            else:
                self._see(thing)
                if role:
                    self._call(thing, role)

    def watch(self, module: nn.Module | Iterable[Tensor]) -> None:
        """Register these parameters, so that their gradients get their role as well."""
        for parameter in list(module.parameters()) if isinstance(module, nn.Module) else module:
            self._parameter(parameter)

    def _parameter(self, parameter: Tensor) -> None:
        self._see(parameter)
        self._call(parameter, "parameters")
        known = _hooked.get(id(parameter))
        if parameter.requires_grad and parameter.is_leaf and (known is None or known() is not parameter):
            _hooked[id(parameter)] = weakref.ref(parameter)
            parameter.register_post_accumulate_grad_hook(_gradient)

    def _call(self, tensor: object, role: str) -> None:
        block = self._block(tensor) if isinstance(tensor, Tensor) else None
        if block is not None:
            block.role = role

    def hold(self, tensors: Iterable[Tensor]) -> Callable[[], None]:
        """Give these tensors the communication role until the returned function is called."""
        held = [block for tensor in tensors if (block := self._block(tensor)) is not None]
        for block in held:
            block.held += 1

        def release() -> None:
            for block in held:
                block.held -= 1
                block.held_until = self.moment

        return release

    def mark(self, name: str) -> None:
        """Name the phase that ends at this moment, for the timeline."""
        self.moment += 1
        self.marks.append((self.moment, name))

    # --- what the caller reads

    def storages(self) -> list[torch.UntypedStorage]:
        """The counted storages that are alive now."""
        return [storage for block in self._blocks.values() if (storage := block.ref()) is not None]

    def roles(self) -> dict[str, int]:
        """Bytes alive now, by role."""
        return self._tally(list(self._blocks.values()), now=True)

    def peak_roles(self) -> dict[str, int]:
        """Bytes alive at the moment of the peak, by role; they add up to `peak_bytes`."""
        alive = [block for block in self._blocks.values() if block.born <= self._peak]
        return self._tally([*alive, *self._gone], now=False)

    def _tally(self, blocks: Iterable[_Block], now: bool) -> dict[str, int]:
        tally = dict.fromkeys(ROLES, 0)
        for block in blocks:
            tally[block.role_at(self._peak, now)] += block.nbytes
        return tally

    def timeline(self) -> dict[str, list[int]]:
        """Bytes alive by role, at every moment: after each allocation, and at each mark. It needs `history=True`.

        A free shows at the next moment. A storage has its last role from its birth on, but counts as saved for backward
        only from the first to the last moment at which autograd kept it.
        """
        if self._history is None:
            raise ValueError("No history was kept; count with Accounting(history=True) for a timeline.")
        change = {role: [0] * (self.moment + 2) for role in ROLES}
        for block in self._history:
            last = self.moment if block.died is None else block.died
            for role, first, until in block.spans(last):
                change[role][first] += block.nbytes
                change[role][until + 1] -= block.nbytes
        return {role: list(accumulate(steps[:-1])) for role, steps in change.items()}

    def ledger(self) -> Ledger:
        """Everything counted, as plain data: bytes and FLOPs."""
        return {
            "peak_bytes": self.peak_bytes,
            "live_bytes": self.live_bytes,
            "peak_roles": self.peak_roles(),
            "roles": self.roles(),
            "flops": self.flops,
        }

    def reset_peak(self) -> None:
        """Reset the peak to the bytes that are alive now."""
        self.peak_bytes, self._peak = self.live_bytes, self.moment
        self._gone.clear()

    def __enter__(self) -> Self:
        self._outer = getattr(_here, "account", None)
        _here.account = self
        self._hooks.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._hooks.__exit__(*error)
        _here.account = self._outer


def unseen() -> AbstractContextManager[None]:
    """Within: operations are not counted."""
    return torch._C._DisableTorchDispatch()


def here() -> Accounting | None:
    """The account that counts in this thread, or None."""
    return getattr(_here, "account", None)


def name_role(tensor: Tensor, role: str) -> None:
    """Give this thread's account the role of a tensor where torch cannot infer it."""
    account = here()
    if account is not None:
        account.adopt(tensor, role)


def _unpack(saved: Saved) -> Tensor:
    return saved.tensor


def _inside(thing: object, depth: int = 0) -> Iterator[Tensor | nn.Module | torch.UntypedStorage]:
    if isinstance(thing, (Tensor, nn.Module, torch.UntypedStorage)):
        yield thing
    elif isinstance(thing, dict) and depth < 8:
        for item in thing.values():
            yield from _inside(item, depth + 1)
    elif isinstance(thing, (list, tuple, set)) and depth < 8:
        for item in thing:
            yield from _inside(item, depth + 1)


# --- roles from torch's own hooks: parameters when registered, gradients and states when created


def _gradient(parameter: Tensor) -> None:
    account = getattr(_here, "account", None)
    if account is not None:
        account._call(parameter.grad, "gradients")


def _registered(module: nn.Module, name: str, parameter: object) -> None:
    account = getattr(_here, "account", None)
    if account is not None and isinstance(parameter, nn.Parameter):
        account._parameter(parameter)


def _stepped(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    account = getattr(_here, "account", None)
    if account is not None:
        for state in optimizer.state.values():
            for tensor in _inside(state):
                account._call(tensor, "optimizer state")
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            for tensor, role in ((parameter, "parameters"), (parameter.grad, "gradients")):
                block = account._block(tensor) if tensor is not None else None
                if block is not None and not block.role:  # FSDP2 registers neither
                    block.role = role


def _resize_storage(storage: torch.UntypedStorage, nbytes: int) -> torch.UntypedStorage:
    """A storage's own `resize_`, which is not a dispatched operation: FSDP frees and restores a unit's weights with
    it."""
    out = _plain_resize(storage, nbytes)
    account = getattr(_here, "account", None)
    if account is not None:
        account._resized(storage)
    return out


_plain_resize = torch.UntypedStorage.resize_
torch.UntypedStorage.resize_ = _resize_storage  # type: ignore[method-assign, assignment]
_modules.register_module_parameter_registration_hook(_registered)
_optimizers.register_optimizer_step_post_hook(_stepped)
