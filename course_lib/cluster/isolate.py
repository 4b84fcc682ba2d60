"""Ranks share nothing: by-value copies of functions, and separate generator states for each rank."""

from __future__ import annotations

import importlib
import inspect
import io
import pickle
import random
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np
import numpy.random
import torch

from course_lib.folders import OURS

_pickler: Any = importlib.import_module("cloudpickle.cloudpickle")
_LOCK = threading.Lock()
_PLAIN = frozenset({int, float, bool, str, bytes, type(None), tuple, list, dict})  # no tensors or storages themselves
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class _Writer(cloudpickle.Pickler):
    """Pickles functions by value and keeps the storages of tensors, so that views remain views."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.memory: dict[int, torch.UntypedStorage] = {}
        self.tensors: dict[int, torch.Tensor] = {}  # plain ones, by id

    def persistent_id(self, thing: Any) -> Any:
        kind = type(thing)
        if kind in _PLAIN:
            return None
        if kind is torch.Tensor:
            return self._tensor_id(thing)
        if isinstance(thing, torch.storage.TypedStorage):
            memory, dtype = thing._untyped_storage, thing.dtype
        elif isinstance(thing, torch.UntypedStorage):
            memory, dtype = thing, None
        else:
            return None
        self.memory[memory._cdata] = memory
        return memory._cdata, dtype

    def _tensor_id(self, thing: torch.Tensor) -> int | None:
        """Of a tensor that consists of its numbers alone; torch's own way to pickle it takes three times as long."""
        if not thing.is_cpu or thing.layout is not torch.strided or thing.requires_grad or thing.is_quantized:
            return None
        if thing.is_conj() or thing.is_neg() or vars(thing):
            return None
        memory = thing.untyped_storage()
        self.memory[memory._cdata], self.tensors[id(thing)] = memory, thing
        return id(thing)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """A tensor's dtype, its storage, and its place there."""
    memory = tensor.untyped_storage()._cdata
    return tensor.dtype, memory, tensor.storage_offset(), tensor.size(), tensor.stride()


class Blueprint:
    """A serialized object, by value, from which independent copies are made."""

    def __init__(self, thing: Any, name: str | tuple[str, ...] = "the function") -> None:
        file = io.BytesIO()
        with _by_value(thing, here=True):
            writer = _Writer(file)
            try:
                writer.dump(thing)
            except Exception as error:
                raise ValueError(_cannot_copy(thing, name, error)) from None
        self._bytes = file.getvalue()
        self._memory = {key: memory.clone() for key, memory in writer.memory.items()}
        self._tensors = {key: _layout(tensor) for key, tensor in writer.tensors.items()}

    def copy(self, memory: dict[int, torch.UntypedStorage] | None = None) -> Any:
        """A new copy; its storages are added to `memory`, if given."""
        memory = {} if memory is None else memory
        tensors: dict[int, torch.Tensor] = {}

        def load(key: int | tuple[int, torch.dtype | None]) -> Any:
            if isinstance(key, int):
                if key not in tensors:
                    dtype, which, *place = self._tensors[key]
                    tensors[key] = torch.empty(0, dtype=dtype).set_(stored(which), *place)
                return tensors[key]
            which, dtype = key
            # torch's own rule: storage without a dtype is read back as one of bytes
            return torch.storage.TypedStorage(wrap_storage=stored(which), dtype=dtype or torch.uint8, _internal=True)

        def stored(which: int) -> torch.UntypedStorage:
            if which not in memory:
                memory[which] = self._memory[which].clone()
            return memory[which]

        reader = _Reader(io.BytesIO(self._bytes))
        reader.load_memory = load
        return reader.load()


def pack(thing: Any, name: str | tuple[str, ...] = "the function") -> bytes:
    """The object by value as bytes, for a trusted process that loads them with pickle."""
    with _by_value(thing):
        try:
            return cloudpickle.dumps(thing)
        except Exception as error:
            raise ValueError(_cannot_copy(thing, name, error)) from None


class _Reader(pickle.Unpickler):
    load_memory: Callable[[Any], Any]

    def persistent_load(self, key: Any) -> Any:
        return self.load_memory(key)


@contextmanager
def _by_value(thing: Any, here: bool = False) -> Iterator[None]:
    """A context in which the learner's own modules are copied, and classes become new classes in each copy.

    `here` says that the copies are made in this process, where every module that the function uses is loaded already.
    """
    modules = _learners_modules()
    with _LOCK:
        registered = [module for module in modules if module.__name__ not in _pickler.list_registry_pickle_by_value()]
        for module in registered:
            _pickler.register_pickle_by_value(module)
        keep = _pickler._get_or_create_tracker_id, _pickler._find_imported_submodules
        _pickler._get_or_create_tracker_id = lambda class_def: None  # a tracked class would be one object for all ranks
        if here:  # looking for submodules to load again goes through all of `sys.modules`, for each function
            _pickler._find_imported_submodules = lambda code, dependencies: []
        try:
            yield
        finally:
            _pickler._get_or_create_tracker_id, _pickler._find_imported_submodules = keep
            for module in registered:
                _pickler.unregister_pickle_by_value(module)


_found: tuple[int, list[types.ModuleType]] = (-1, [])


def _learners_modules() -> list[types.ModuleType]:
    """Modules that are neither installed nor part of the course; searched again after new imports."""
    global _found
    if _found[0] != len(sys.modules):
        modules = sys.modules.copy()
        _found = (len(modules), [module for name, module in modules.items() if _is_learners(name, module)])
    return _found[1]


_judged: dict[str, tuple[Any, bool]] = {}


def _is_learners(name: str, module: Any) -> bool:
    known = _judged.get(name)
    if known is None or known[0] is not module:
        file = vars(module).get("__file__") if type(module) is types.ModuleType and name != "__main__" else None
        ours = (
            isinstance(file, str)
            and file.endswith(".py")
            and "site-packages" not in file
            and not file.startswith((*_INSTALLED, *OURS))
        )
        known = _judged[name] = (module, ours)
    return known[1]


def _cannot_copy(thing: Any, name: str | tuple[str, ...], error: Exception) -> str:
    """What cannot be copied and why, in words; several names are those of the parts of `thing`."""
    for part, one in zip(thing, name, strict=True) if isinstance(name, tuple) else ():
        try:
            _Writer(io.BytesIO()).dump(part)
        except Exception as inner:
            return _cannot_copy(part, one, inner)
    path, cause = _culprit(thing, str(name), error)
    return (
        f"Every rank gets its own copy of the function and what it uses, and {path} cannot be copied: {cause}. "
        "Make it inside the function, or pass in what it is made from."
    )


def _culprit(thing: Any, name: str, error: Exception, depth: int = 0) -> tuple[str, str]:
    """The innermost named thing that cannot be copied, and why."""
    parts: list[tuple[str, Any]] = []
    if isinstance(thing, types.FunctionType):
        inside = inspect.getclosurevars(thing)
        parts = [(f"the global {key!r}", value) for key, value in inside.globals.items()]
        parts += [(f"the outer variable {key!r}", value) for key, value in inside.nonlocals.items()]
        parts += [("a default of the function", value) for value in (thing.__defaults__ or ())]
    elif isinstance(thing, (tuple, list)):
        parts = [(f"{name}[{index}]", value) for index, value in enumerate(thing)]
    elif isinstance(thing, dict):
        parts = [(f"{name}[{key!r}]", value) for key, value in thing.items()]
    for part, value in parts if depth < 6 else ():
        try:
            _Writer(io.BytesIO()).dump(value)
        except Exception as inner:
            return _culprit(value, part, inner, depth + 1)
    return name, f"{type(error).__name__}: {error}"


# --- generators

_random_names = [name for name in random.__all__ if getattr(getattr(random, name), "__self__", None) is random._inst]
_random_here = threading.local()
_torch_generator = torch.default_generator


def _rank_random(name: str) -> Callable[..., Any]:
    shared = getattr(random._inst, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        mine = getattr(_random_here, "generator", None)
        return shared(*args, **kwargs) if mine is None else getattr(mine, name)(*args, **kwargs)

    call.__name__ = name
    return call


_spare: list[np.random.MT19937] = []


class Chance:
    """The generators of one rank: torch's starts equal on every rank, as in torch processes; those of numpy and random do not."""

    __slots__ = ("numpy", "python", "torch")

    def __init__(self, rank: int, seed: int) -> None:
        self.torch = torch.Generator().manual_seed(seed).get_state()
        self.numpy = _spare.pop() if _spare else np.random.MT19937(0)
        np.random.RandomState(self.numpy).seed([seed & 0xFFFFFFFF, rank])
        self.python = random.Random(f"{seed} {rank}")

    def enter(self) -> None:
        """This rank runs: activate its generators."""
        _torch_generator.set_state(self.torch)
        numpy.random.mtrand.set_bit_generator(self.numpy)

    def leave(self) -> None:
        """Another rank is about to run: save its generators."""
        self.torch = _torch_generator.get_state()

    def give_back(self) -> None:
        """The rank has ended: another may reuse its numpy generator, which is slow to create."""
        _spare.append(self.numpy)

    def bind(self) -> None:
        """Assign this thread to the rank."""
        _random_here.generator = self.python


@contextmanager
def own_generators() -> Iterator[None]:
    """A context in which rank threads use their own generators; the caller's generators are restored afterwards."""
    kept_torch, kept_numpy = _torch_generator.get_state(), numpy.random.mtrand.get_bit_generator()
    kept_state = np.random.get_state()
    kept_names = {name: getattr(random, name) for name in _random_names}
    for name in _random_names:
        setattr(random, name, _rank_random(name))
    try:
        yield
    finally:
        for name, function in kept_names.items():
            setattr(random, name, function)
        _random_here.generator = None
        _torch_generator.set_state(kept_torch)
        numpy.random.mtrand.set_bit_generator(kept_numpy)
        np.random.set_state(kept_state)
