"""Tensors in flight: detects uses of a tensor between the start of an operation and its `wait()`.

From `isend` or an asynchronous collective until its `wait()`, a tensor that is sent must not be written, and a tensor
that is filled must be neither read nor written. A program that breaks this rule may still give the right numbers here,
and wrong ones on another machine. So every run checks it, not only those under adversaries. While a tensor is in
flight, a `TorchFunctionMode` sees each torch function that the rank calls. Unless no argument shares memory with a
tensor in flight, it runs the function under a `TorchDispatchMode`, which sees the operations inside, including a
backward pass, and derives from their schemas which tensors they read and write. The outer mode costs little where a
rank only sends and waits. Each violation is a `Hazard`, with the lines of the call and of the access. A call that is
never waited for is also a hazard.

A hazard does not stop the run, unless a tensor in flight gets another shape or other memory: the call could not end
then, so the rank raises ValueError. `run.hazards` lists them, and `simulate` raises `InFlight` at the end. A judge uses
hazards to explain a verdict, never to decide one: the adversaries decide, so that an answer that uses a tensor in
flight loses its points for protocol but not those for values.

A correct program never triggers a hazard. In return, some violations are not detected: accesses through numpy and raw
storage; an access by index or mask to a tensor that is only partly in flight; views with gaps that interleave; and an
access in a backward pass after the hook that posted, or in one that `torch.autograd.backward` starts.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from types import BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.cluster.endpoint import Flight
from course_lib.cluster.errors import ClusterError, Use
from course_lib.cluster.protocol import ANY, Request
from course_lib.cluster.source_lines import caller_line, line_text

ACTS = ("wrote", "read", "never waited", "replaced")
MOST = 20  # hazards recorded per rank

_depth, _mode_at = torch._C._len_torch_function_stack, torch._C._get_function_stack_at
_packing = torch._C._autograd._top_saved_tensors_default_hooks
_push, _pop = torch._C._push_on_torch_function_stack, torch._C._pop_torch_function_stack
# Entering a dispatch mode as a context also sets flags for torch's compiler, which all ranks would share.
_watch_operations, _end_watch = torch._C._push_on_torch_dispatch_stack, torch._C._pop_torch_dispatch_stack
_SHOWN = frozenset(
    (Tensor.__repr__, Tensor.__format__, Tensor.tolist)
)  # read every element, outside of torch's operations

_RESHAPING = (  # changes of a tensor itself, which operations show as views or not at all
    Tensor.data.__set__,  # type: ignore[attr-defined]  # a getter and setter in C, which the stubs call a Tensor
    *(
        getattr(Tensor, f"{name}_")
        for name in ("t", "transpose", "swapaxes", "swapdims", "squeeze", "unsqueeze", "as_strided")
    ),
)

# values without tensors, and where torch's own functions are, which use what they are given alone
_ATOMS = frozenset((int, float, bool, str, type(None), type(...), torch.dtype, torch.device, torch.Size))
_IN_C = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
_TORCHS = ("torch.functional", "torch.nn.functional", "torch._tensor")

# operations that touch only some elements of a tensor, and those that look at its shape alone
_PARTIAL = ("index", "gather", "scatter", "masked", "take", "put", "embedding", "_unsafe_index")
_SHAPE_ONLY = ("empty", "zeros_like", "ones_like", "full_like", "rand", "new_", "is_same_size", "sym_", "lift_fresh")
_GROUPS = ("_c10d_functional", "c10d::")  # torch.distributed's operations: the communicator that they call looks itself


@dataclass(frozen=True, slots=True)
class Hazard:
    """A use of a tensor in flight, or a call that was never waited for."""

    rank: int
    act: str  # one of ACTS
    call: int  # the rank's call number, from 1
    what: str  # "isend of 4 float32 in shape (4,) to rank 1, tag 0"
    posted: str  # the line of the call
    line: str = ""  # the line of the access

    def __str__(self) -> str:
        call = f"call {self.call}, {self.what}, posted at {self.posted}"
        if self.act == "never waited":
            return (
                f"rank {self.rank} never waited for {call}. "
                "Keep the Work that the call returns, and wait() for it before the rank ends."
            )
        if self.act == "replaced":
            return (
                f"rank {self.rank} gave a tensor in flight another shape or other memory, at {self.line}. "
                f"It belongs to {call}, until its wait() returns. wait() first, or use another tensor."
            )
        remedy = "or send a copy (tensor.clone())" if self.what.startswith("isend") else "or use another tensor"
        did = "wrote to" if self.act == "wrote" else "read"
        return (
            f"rank {self.rank} {did} a tensor in flight, at {self.line}. "
            f"It belongs to {call}, until its wait() returns. wait() first, {remedy}."
        )

    def plain(self) -> tuple[object, ...]:
        """The fields, for a process boundary."""
        return astuple(self)


class InFlight(ClusterError):
    """The run ended, but its results cannot be trusted, because ranks used tensors in flight; `hazards` lists the
    uses."""

    def __init__(self, hazards: Sequence[Use]) -> None:
        self.hazards = tuple(hazards)
        more = len(self.hazards) - 3
        lines = [str(hazard) for hazard in self.hazards[:3]] + (
            [f"… and {more} more of this kind."] if more > 0 else []
        )
        super().__init__("\n".join(lines))


def _used_at() -> str:
    """Where a tensor is used, in words: the line, or the rank's end, if a grader reads what the rank returned."""
    file, number = caller_line()
    return "its end, where it returns that tensor" if "/course_grader/" in file else line_text((file, number))


class FlightWatch(TorchFunctionMode):
    """Checks one rank's tensors in flight. It is on the thread's stack of function modes while the rank's own code
    runs."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.hazards: list[Hazard] = []
        self.flights: dict[int, Flight] = {}  # by call
        self._of: dict[int, list[int]] = {}  # by call: the storages of its buffers
        self._homes: dict[int, int] = {}  # by storage: how many buffers in flight lie in it
        self._rank = rank
        self._told: set[int] = set()  # calls with a hazard: one each is enough
        self.resting = True  # the cluster's own code runs
        self._inside = 0  # functions that it runs: torch has taken it off the stack meanwhile
        self._operations: _Operations | None = None  # once it is needed: most ranks never do

    def start(self, flights: Sequence[Flight]) -> None:
        """The tensors of these calls are in flight. The communicator's call goes on."""
        self.resting = True
        for flight in flights:
            self.flights[flight[0]] = flight
            with torch._C.DisableTorchFunction():  # an endpoint's own mode would take this for a use of the tensor
                homes = self._of[flight[0]] = [_home(buffer) for buffer in (*flight[2], *flight[3])]
            for home in homes:
                self._homes[home] = self._homes.get(home, 0) + 1

    def land(self, call: int) -> None:
        """The call is complete: the rank may use its tensors again. ValueError if one of them got other memory
        unseen."""
        flight = self.flights.pop(call, None)
        if flight is None:
            return
        homes = self._of.pop(call)
        for home in homes:
            self._homes[home] -= 1
            if not self._homes[home]:
                del self._homes[home]
        if homes != [_home(buffer) for buffer in (*flight[2], *flight[3])]:
            raise ValueError(str(self._hazard("replaced", flight, "a line before this one")))

    def rest(self) -> None:
        """A communicator's call begins, with something in flight: what happens to tensors now is not the rank's
        doing."""
        self.resting = True
        if _depth() and (top := _pop()) is not self:
            _push(top)

    def resume(self) -> None:
        """The call ends, with something in flight: watch the rank's own code again."""
        self.resting = False
        if self._inside:  # torch puts it back itself after the function that waited
            return
        depth = _depth()
        if not depth or all(_mode_at(index) is not self for index in range(depth)):
            _push(self)

    def note_open(self) -> None:
        """The rank's function has returned: note what was never waited for."""
        self.resting = True
        for flight in self.flights.values():
            self._note("never waited", flight)

    def leave(self) -> None:
        """Leave the stack of modes, including any modes that the rank's code left above this one."""
        self.flights.clear()
        self._homes.clear()
        self._of.clear()
        while any(_mode_at(index) is self for index in range(_depth())):
            _pop()

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        self._inside += 1
        try:
            if self.resting or not self.flights or (_keeps_to(func) and not self._reaches(args, kwargs)):
                return func(*args, **(kwargs or {}))
            if func in _SHOWN and isinstance(args[0], Tensor):
                self.touch(args[0], False, False)
            elif func in _RESHAPING and isinstance(args[0], Tensor):
                self.refuse(args[0])
            self._operations = self._operations or _Operations(self)
            _watch_operations(self._operations)
            try:
                return func(*args, **(kwargs or {}))
            finally:
                _end_watch(None)
        finally:
            self._inside -= 1

    def _reaches(self, args: Iterable[Any], kwargs: Mapping[str, object] | None = None) -> bool:
        """Whether arguments may lead an operation to a tensor in flight: through its storage, or by running other
        code."""
        for value in (*args, *kwargs.values()) if kwargs else args:
            kind = type(value)
            if kind is Tensor or kind is Parameter:
                if value.layout is not torch.strided or value.untyped_storage()._cdata in self._homes:
                    return True
                if value.requires_grad and _others_hooks():
                    return True
            elif kind is list or kind is tuple:
                if self._reaches(value):
                    return True
            elif kind is slice:
                if self._reaches((value.start, value.stop, value.step)):
                    return True
            elif kind not in _ATOMS:
                return True
        return False

    def use(self, sent: Iterable[Tensor], into: Iterable[Tensor]) -> None:
        """The rank passes these tensors to another call, which reads some and writes others."""
        for tensor in sent:
            self.touch(tensor, False, False)
        for tensor in into:
            self.touch(tensor, True, False)

    def touch(self, tensor: Tensor, writes: bool, partial: bool) -> None:
        """The rank reads or writes the tensor, or with `partial` an unknown part of it."""
        if tensor.layout is torch.strided and tensor.untyped_storage()._cdata not in self._homes:
            return
        for flight in self.flights.values():
            call, _, sent, into = flight
            buffers = (*into, *sent) if writes else into
            if call not in self._told and any(_overlap(tensor, buffer, partial) for buffer in buffers):
                self._note("wrote" if writes else "read", flight, _used_at())

    def refuse(self, tensor: Tensor) -> None:
        """The rank is about to give the tensor another shape or other memory: ValueError if it is in flight, because
        the call could not end.
        """
        for flight in self.flights.values():
            if any(_overlap(tensor, buffer, False) for buffer in (*flight[2], *flight[3])):
                raise ValueError(str(self._hazard("replaced", flight, line_text(caller_line()))))

    def _note(self, act: str, flight: Flight, line: str = "") -> None:
        self._told.add(flight[0])
        if len(self.hazards) < MOST:
            self.hazards.append(self._hazard(act, flight, line))

    def _hazard(self, act: str, flight: Flight, line: str) -> Hazard:
        call, request, _, _ = flight
        return Hazard(self._rank, act, call, _what(request), line_text(request.line), line)


class _Operations(TorchDispatchMode):
    """Shows a watch which tensors the operations inside a torch function use."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """True: nothing is compiled under it, so torch need not load its compiler, which takes seconds."""
        return False

    def __init__(self, watch: FlightWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        if self._watch.flights and not self._watch.resting and not func.is_view:
            access = _accesses.get(func) or _access(func)
            if access.replaces and isinstance(args[0], Tensor):
                self._watch.refuse(args[0])
            if access.looks:
                for position, value in enumerate(args):
                    for tensor in _tensors(value):
                        self._watch.touch(tensor, position in access.writes, access.partial)
                for name, value in (kwargs or {}).items():
                    for tensor in _tensors(value):
                        self._watch.touch(tensor, name in access.writes, access.partial)
        return func(*args, **kwargs) if kwargs else func(*args)


@cache
def _keeps_to(func: object) -> bool:
    """Whether a torch function uses no tensors but those in its arguments: one in C, or one in Python that runs no
    graph."""
    return isinstance(func, _IN_C) or (getattr(func, "__module__", "") in _TORCHS and func is not Tensor.backward)


def _others_hooks() -> bool:
    """Whether hooks see what autograd saves, and may use other tensors; the library's own take its place alone."""
    hooks = _packing(True)
    return hooks is not None and not (getattr(hooks[0], "__module__", None) or "").startswith("course_lib.")


def _home(buffer: Tensor) -> int:
    """The storage in which a tensor lies."""
    return buffer.untyped_storage()._cdata


def _what(request: Request) -> str:
    """The call in words."""
    if request.op == "collective":
        return request.more.text()
    whom = "any rank" if request.peer == ANY else f"rank {request.peer}"
    elements = f"{math.prod(request.shape)} {request.dtype} in shape {request.shape}"
    return f"{request.op} of {elements} {'to' if request.op == 'isend' else 'from'} {whom}, tag {request.tag}"


class _Access(NamedTuple):
    """How an operation uses its arguments: which of them it writes, by position and by name."""

    looks: bool  # whether it looks at any elements
    partial: bool
    replaces: bool  # whether it gives its first argument another shape or other memory
    writes: frozenset[int | str]


_accesses: dict[OpOverload, _Access] = {}


def _access(func: OpOverload) -> _Access:
    name = func._schema.name.removeprefix("aten::")
    written = [
        (position, argument.name)
        for position, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    found = _Access(
        not name.startswith(_SHAPE_ONLY + _GROUPS),
        name.startswith(_PARTIAL),
        name.startswith("resize") and bool(written),
        frozenset(key for pair in written for key in pair),
    )
    _accesses[func] = found
    return found


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, Tensor):
                yield item


def _overlap(used: Tensor, buffer: Tensor, partial: bool) -> bool:
    """Whether the use of a tensor certainly touches the buffer; `partial`: an unknown part of its elements is used."""
    if used.layout is not torch.strided or used.is_meta or not used.numel() or not buffer.numel():
        return False
    if used.untyped_storage()._cdata != buffer.untyped_storage()._cdata:
        return False
    (first, last, dense), (start, stop, solid) = _extent(used), _extent(buffer)
    if last <= start or stop <= first:
        return False
    if partial:
        return solid and start <= first and last <= stop
    if dense and solid:
        return True
    if solid:  # the first or the last element of the used tensor lies in the buffer
        return start <= first or last <= stop
    if dense:
        return first <= start or stop <= last
    return first == start  # two views with gaps: nothing is sure but a shared first element


def _extent(tensor: Tensor) -> tuple[int, int, bool]:
    """The byte range of its storage from the first to the last element, and whether the tensor fills it."""
    size = tensor.element_size()
    reach = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.storage_offset() * size
    return int(start), int(start + (reach + 1) * size), reach + 1 == tensor.numel()
