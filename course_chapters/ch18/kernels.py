"""A step as a list of kernels, recorded from the step itself: FLOP, bytes read and written, and one launch each.

PyTorch dispatches every operation one at a time, and on a GPU each of them that computes launches one kernel, rarely a
few. A recording on the meta device has shapes and no values, so a layer of any size is recorded in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_chapters.ch18.published import LIMITS
from course_lib.estimate.roofline import Machine
from course_lib.estimate.units import require
from course_lib.model.accounting import FLOPS
from course_lib.model.transformer import Block, Config

KINDS = ("matmul", "attention", "reduction", "pointwise", "other")
SIZES = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}  # dtypes that kernels exist for
_MATMULS = ("mm", "bmm", "addmm", "baddbmm")
_REDUCTIONS = (
    *("sum", "mean", "amax", "max", "var", "var_mean", "_softmax", "_log_softmax", "softmax", "log_softmax"),
    *("_softmax_backward_data", "_log_softmax_backward_data", "linalg_vector_norm"),
)
_OTHER = ("embedding", "embedding_dense_backward", "index", "gather", "cat", "sort", "nll_loss_forward", "index_put_")
_OVERWRITING = ("copy_", "fill_", "zero_")  # the first argument is written and not read
_FREE = ("detach", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: what it is, its FLOP, and the bytes of each tensor, by number, that it reads or writes."""

    name: str
    kind: str  # one of KINDS
    flop: float
    reads: Mapping[int, float]
    writes: Mapping[int, float]
    elements: int = 0  # of its largest tensor: its iteration space
    rows: int = 0  # elements outside of the last dimension, in which a reduction keeps its place
    by_row: bool = True  # each row of its result depends on the same row of its inputs
    parts: tuple[str, ...] = ()  # names of the kernels that were fused into this one

    @property
    def nbytes(self) -> float:
        """Bytes that pass through the device's memory."""
        return sum(self.reads.values()) + sum(self.writes.values())


def limit(kernel: Kernel, device: Machine, launch: float) -> str:
    """What takes longest: the host's `launch` (s), the kernel's bytes, or its FLOP. On a tie the first of LIMITS."""
    seconds = launch, kernel.nbytes / device.bandwidth, kernel.flop / device.flops
    return LIMITS[seconds.index(max(seconds))]


def device_seconds(kernel: Kernel, device: Machine) -> float:
    """Seconds on the device by its roofline, without launch and without a gap to the next kernel."""
    return max(kernel.nbytes / device.bandwidth, kernel.flop / device.flops)


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the host launched each kernel and when the device ran it: (start, end) in seconds."""

    host: tuple[tuple[float, float], ...]
    device: tuple[tuple[float, float], ...]

    @property
    def seconds(self) -> float:
        """From the first launch to the end of the last kernel."""
        return self.device[-1][1] if self.device else 0.0

    @property
    def idle(self) -> float:
        """Seconds of these in which the device runs no kernel."""
        return self.seconds - sum(end - start for start, end in self.device)


def timeline(seconds: Sequence[float], launch: float, gap: float = 0.0, graph: bool = False) -> Timeline:
    """Kernels of so many `seconds` in one stream. The host takes `launch` s for each, or once for all as a `graph`.

    A kernel starts when it has been launched and `gap` s after the one before has ended. ValueError for times below 0.
    """
    for name, value in (("launch", launch), ("gap", gap), *(("a kernel", each) for each in seconds)):
        require(name, value, "s", open_below=False)
    host: list[tuple[float, float]] = []
    device: list[tuple[float, float]] = []
    now, free = 0.0, 0.0
    for each in seconds:
        if not (graph and host):
            host.append((now, now + launch))
            now += launch
        start = max(now, free + gap if device else 0.0)
        free = start + each
        device.append((start, free))
    return Timeline(tuple(host), tuple(device))


class _Recorder(TorchDispatchMode):
    """Notes each operation that computes, while it is entered."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled while recording, so torch need not load its compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []
        self._numbers: dict[object, int] = {}
        self._alive: list[torch.UntypedStorage] = []  # so that no number is given twice

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        given = [each for each in tree_leaves((args, kwargs or {})) if isinstance(each, Tensor)]
        made = [each for each in tree_leaves(out) if isinstance(each, Tensor)]
        known = {self._number(each) for each in given}
        looks = not name.endswith("_") and all(self._number(each) in known for each in made)
        if name in _FREE or looks:  # a view, or memory without content: no kernel
            return out
        formula = FLOPS.get(func._overloadpacket)
        largest = max([*given, *made], key=Tensor.numel)
        flop = formula(*args, **(kwargs or {}), out_val=out) if formula else float(largest.numel())
        rows = largest.numel() // max(largest.shape[-1] if largest.ndim else 1, 1)
        read = given[1:] if name in _OVERWRITING else given
        self.kernels.append(
            Kernel(
                name=name.strip("_"),
                kind=(kind := kind_of(name)),
                flop=float(flop),
                reads={self._number(each): _bytes(each) for each in read},
                writes={self._number(each): _bytes(each) for each in made},
                elements=largest.numel(),
                rows=rows,
                by_row=kind != "reduction" or made[0].numel() in (rows, largest.numel()),
            )
        )
        return out

    def _number(self, tensor: Tensor) -> int:
        """The number of a tensor's storage: a view has that of what it looks at."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._numbers:
            self._numbers[storage._cdata] = len(self._numbers)
            self._alive.append(storage)
        return self._numbers[storage._cdata]


def _bytes(tensor: Tensor) -> float:
    """Bytes of a tensor; one that is expanded is no larger than its storage."""
    return float(min(tensor.nbytes, tensor.untyped_storage().nbytes()))


def kind_of(name: str) -> str:
    """The kind of a kernel by the name of PyTorch's operation, such as "mm" or "_softmax"."""
    if name in _MATMULS:
        return "matmul"
    if "attention" in name:
        return "attention"
    if name in _REDUCTIONS:
        return "reduction"
    return "other" if name in _OTHER else "pointwise"


def record(step: Callable[[], object]) -> tuple[Kernel, ...]:
    """The kernels that one call of `step` launches, in order, its backward pass among them."""
    with _Recorder() as seen:
        step()
    return tuple(seen.kernels)


def layer_kernels(
    tokens: int, *, hidden: int = 4096, heads: int = 32, attention: str = "manual", dtype: torch.dtype = torch.bfloat16
) -> tuple[Kernel, ...]:
    """One layer of the course's transformer, forward and backward, on one sequence of `tokens`, without its values.

    ValueError for a size that heads do not divide, and for a dtype that matmuls do not take.
    """
    if dtype not in SIZES:
        raise ValueError(f"dtype is {dtype}; kernels exist for {', '.join(SIZES.values())}.")
    config = Config(layers=1, hidden=hidden, heads=heads, seq_len=int(tokens), attention=attention)
    with torch.device("meta"):
        block = Block(config).to(dtype)
        x = torch.empty(1, int(tokens), hidden, dtype=dtype, requires_grad=True)
    return record(lambda: block(x).sum().backward())


def by_kind(kernels: Iterable[Kernel]) -> dict[str, tuple[int, float, float]]:
    """Launches, FLOP and bytes of each kind that occurs, in the order of KINDS."""
    every = list(kernels)
    rows = {kind: [each for each in every if each.kind == kind] for kind in KINDS}
    return {
        kind: (len(row), sum(each.flop for each in row), sum(each.nbytes for each in row))
        for kind, row in rows.items()
        if row
    }
