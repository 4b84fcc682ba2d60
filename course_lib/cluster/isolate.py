"""Ranks share nothing: copies by value of functions and what they use."""

import io
import pickle
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Generic, TypeVar

import cloudpickle
import torch
from cloudpickle import cloudpickle as _pickler

from course_lib.folders import OURS

_LOCK = threading.Lock()
Thing = TypeVar("Thing")
Key = int | tuple[int, torch.dtype | None]  # of a plain tensor, or of a storage and its dtype
_PLAIN = frozenset({int, float, bool, str, bytes, type(None), tuple, list, dict})  # no tensors or storages themselves
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Writer(cloudpickle.Pickler):
    """Pickles functions by value and keeps the storages of tensors, so that views remain views."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.memory: dict[int, torch.UntypedStorage] = {}
        self.tensors: dict[int, torch.Tensor] = {}  # plain ones, by id

    def persistent_id(self, thing: object) -> object:
        kind = type(thing)
        if kind in _PLAIN:
            return None
        if type(thing) is torch.Tensor:
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


class Blueprint(Generic[Thing]):
    """A serialized object, by value, from which independent copies are made."""

    def __init__(self, thing: Thing, name: str | tuple[str, ...] = "the function") -> None:
        file = io.BytesIO()
        with _by_value(thing, here=True):
            writer = Writer(file)
            try:
                writer.dump(thing)
            except Exception as error:
                from course_lib.cluster.uncopied import cannot_copy

                raise ValueError(cannot_copy(_dump, thing, name, error)) from None
        self._bytes = file.getvalue()
        self._memory = {key: memory.clone() for key, memory in writer.memory.items()}
        self._tensors: dict[int, tuple[torch.dtype, int, int, torch.Size, tuple[int, ...]]] = {  # place in a storage
            key: (each.dtype, each.untyped_storage()._cdata, int(each.storage_offset()), each.size(), each.stride())
            for key, each in writer.tensors.items()
        }

    def copy(self, memory: dict[int, torch.UntypedStorage] | None = None) -> Thing:
        """A new copy; its storages are added to `memory`, if given."""
        memory = {} if memory is None else memory
        tensors: dict[int, torch.Tensor] = {}

        def load(key: Key) -> torch.Tensor | torch.storage.TypedStorage:
            if isinstance(key, int):
                if key not in tensors:
                    dtype, which, offset, size, stride = self._tensors[key]
                    tensors[key] = torch.empty(0, dtype=dtype).set_(stored(which), offset, size, stride)
                return tensors[key]
            which, kind = key
            # torch's own rule: storage without a dtype is read back as one of bytes
            return torch.storage.TypedStorage(wrap_storage=stored(which), dtype=kind or torch.uint8, _internal=True)

        def stored(which: int) -> torch.UntypedStorage:
            if which not in memory:
                memory[which] = self._memory[which].clone()
            return memory[which]

        reader = _Reader(io.BytesIO(self._bytes))
        reader.load_memory = load
        return reader.load()


def pack(thing: object, name: str | tuple[str, ...] = "the function") -> bytes:
    """The object by value as bytes, for a trusted process that loads them with pickle."""
    with _by_value(thing):
        try:
            return cloudpickle.dumps(thing)
        except Exception as error:
            from course_lib.cluster.uncopied import cannot_copy

            raise ValueError(cannot_copy(_dump, thing, name, error)) from None


class _Reader(pickle.Unpickler):
    load_memory: Callable[[Key], object]

    def persistent_load(self, key: Key) -> object:
        return self.load_memory(key)


@contextmanager
def _by_value(thing: object, here: bool = False) -> Iterator[None]:
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


def _dump(thing: object) -> None:
    Writer(io.BytesIO()).dump(thing)


_found: tuple[int, list[types.ModuleType]] = (-1, [])


def _learners_modules() -> list[types.ModuleType]:
    """Modules that are neither installed nor part of the course; searched again after new imports."""
    global _found
    if _found[0] != len(sys.modules):
        modules = [(name, module) for name, module in sys.modules.copy().items() if type(module) is types.ModuleType]
        found = [module for name, module in modules if _is_learners(name, str(vars(module).get("__file__")))]
        _found = (len(sys.modules), found)
    return _found[1]


@cache
def _is_learners(name: str, file: str) -> bool:
    installed = "site-packages" in file or file.startswith((*_INSTALLED, *OURS))
    return name != "__main__" and file.endswith(".py") and not installed
