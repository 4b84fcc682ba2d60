"""torch.distributed inside a run: each rank finds its own groups where torch looks for those of a process.

    def step(comm):
        dist.init_process_group("gloo")  # the group is there already: this only finds it
        dist.all_reduce(gradient)

torch keeps its process groups in `distributed_c10d._world`, which it offers as a point of extension. During a run,
`Worlds` is there. It leads a rank's thread to that rank's `RankWorld`, created at its first use of torch.distributed,
and any other thread to what was there before. `torch_group` has the process group itself.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from course_lib.cluster.endpoint import Endpoint, here

if TYPE_CHECKING:
    from course_lib.cluster.torch_group import RankWorld


class Worlds:
    """`distributed_c10d._world` during a run: the world of the rank that asks, or of the process on other threads."""

    process: object
    process_functions: dict[str, Callable[..., object]]

    def __init__(self, process: object, process_functions: dict[str, Callable[..., object]]) -> None:
        self.__dict__.update(process=process, process_functions=process_functions)

    def __getattr__(self, name: str) -> object:
        return getattr(_of_rank() or self.process, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_of_rank() or self.process, name, value)

    def call(self, name: str, *args: object, **options: object) -> object:
        """Call a function of torch.distributed that a rank has a version of its own of."""
        world = _of_rank()
        return (getattr(world, name) if world else self.process_functions[name])(*args, **options)


def _of_rank() -> "RankWorld | None":
    end: Endpoint | None = getattr(here, "endpoint", None)
    if end is None or end.is_remote or not end.ranks:
        return None
    if end.torch_world is None:
        from course_lib.cluster.torch_group import RankWorld

        end.torch_world = RankWorld(end)
        end.torch_world.init_process_group()
    return end.torch_world


@contextmanager
def torch_worlds() -> Iterator[None]:
    """A context in which each rank has its own world of torch.distributed. It does nothing where that is not loaded."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not hasattr(c10d, "_world"):
        yield
        return
    torch = c10d.torch
    if torch.version.cuda and not torch.cuda.is_available():
        getattr(torch._C, "_ensureCUDADeviceGuardSet", bool)()  # torch 2.10 crashes if a rank is the first to call it
    process = c10d._world
    functions: dict[str, Callable[..., object]] = {}
    with ExitStack() as stack:
        for own in (_init_process_group, _batch_isend_irecv):
            name = own.__name__[1:]
            functions[name] = stack.enter_context(_body_of(c10d, name, own.__code__))
        vars(c10d)["_world"] = Worlds(process, functions)
        try:
            yield
        finally:
            vars(c10d)["_world"] = process
            if redistribute := sys.modules.get("torch.distributed.tensor._redistribute"):
                redistribute._gen_transform_infos.cache_clear()  # by thread, whose numbers the next run has again
                getattr(redistribute, "clear_redistribute_planner_cache", bool)()  # torch from 2.10 on
            c10d.torch._C._distributed_c10d._set_thread_isolation_mode(False)  # a rank's first use turns it on


# Programs import these functions by name, so their bodies are replaced, not their names; they run in torch's module.
_world = Worlds(None, {})


def _init_process_group(*args: object, **options: object) -> object:
    return _world.call("init_process_group", *args, **options)


def _batch_isend_irecv(*args: object, **options: object) -> object:
    return _world.call("batch_isend_irecv", *args, **options)


@contextmanager
def _body_of(module: ModuleType, name: str, code: object) -> Iterator[Callable[..., object]]:
    """Replace the body of a function for a while; yields a function with the body that it had."""
    function = inspect.unwrap(getattr(module, name))
    kept = function.__code__
    former = FunctionType(kept, function.__globals__, name, function.__defaults__, function.__closure__)
    former.__kwdefaults__ = function.__kwdefaults__
    function.__code__ = code
    try:
        yield former
    finally:
        function.__code__ = kept
