"""Gradients averaged over ranks: one by one after the backward pass, or in buckets while it runs.

`DataParallel` does what torch's DistributedDataParallel does (Li et al., "PyTorch Distributed: Experiences on
Accelerating Data Parallel Training", 2020). Left out: sparse gradients, and rebuilding buckets in the order of
the first backward pass. On GPUs, set torch's default device, on which counts are then exchanged.
"""

import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from course_lib.cluster import MAX, Comm, Work
from course_lib.estimate.units import require_whole

BUCKET = 25 * 2**20  # bytes: torch's default


def average_gradients(comm: Comm, parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by the mean over ranks, one all-reduce each, after the backward pass; a missing gradient
    counts as zero."""
    for parameter in parameters:
        if parameter.requires_grad:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = grad.div_(comm.size)
            comm.all_reduce(parameter.grad)


def buckets_of(parameters: Iterable[nn.Parameter], nbytes: int = BUCKET) -> list[list[nn.Parameter]]:
    """Parameters in order, with a new bucket where one would exceed `nbytes` bytes or the dtype changes.

    Pass them in reverse, because the backward pass computes the last layer's gradients first. A larger parameter gets a
    bucket of its own.
    """
    buckets: list[list[nn.Parameter]] = []
    room = require_whole("nbytes", nbytes, "bytes")
    for parameter in parameters:
        if not buckets or parameter.nbytes > room or parameter.dtype != buckets[-1][0].dtype:
            buckets.append([])
            room = nbytes
        buckets[-1].append(parameter)
        room -= parameter.nbytes
    return buckets


def on_gradient(parameter: nn.Parameter, method: Callable[[nn.Parameter], None]) -> None:
    """Call a method of an object with a parameter whenever its gradient is complete, for as long as the object lives.

    torch 2.13 never frees a parameter whose hook leads back to it, so the hook must not hold the object that holds the
    parameter.
    """
    held = weakref.WeakMethod(method)

    def hook(parameter: nn.Parameter) -> None:
        if (call := held()) is not None:
            call(parameter)

    parameter.register_post_accumulate_grad_hook(hook)


class Bucket:
    """Gradients of some parameters in one flat tensor, averaged by one all-reduce; each `.grad` becomes a view of
    it."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        lengths = [each.numel() for each in parameters]
        self.flat = torch.zeros(sum(lengths), dtype=parameters[0].dtype, device=parameters[0].device)
        rows = self.flat.split(lengths)
        self.views = {each: row.view(each.shape) for each, row in zip(parameters, rows, strict=True)}
        self.missing = dict.fromkeys(parameters)
        self.work: Work | None = None

    def put(self, parameter: nn.Parameter, ranks: int) -> None:
        """Copy a gradient into the bucket, divided before the sum, so the sum overflows only where the mean does."""
        view = self.views[parameter]
        if parameter.grad is None:
            view.zero_()
        else:
            torch.mul(parameter.grad, 1 / ranks, out=view)
        parameter.grad = view
        del self.missing[parameter]

    def wait(self) -> None:
        """Wait for the mean, and reset the bucket for the next backward pass."""
        assert self.work is not None
        self.work.wait()
        self.missing, self.work = dict.fromkeys(self.views), None


class DataParallel(nn.Module):
    """A replica whose gradients are averaged while the backward pass runs: `replica(x)`, `backward()`, `finish()`.

    Frozen parameters are ignored and tied ones count once. A parameter that this rank's backward pass did not reach is
    an error in `finish()`; with `unused="zero"` it counts as zero, and stays without a gradient if no rank reached it;
    this sends one more byte per parameter (torch's find_unused_parameters). Persistent buffers are copied from rank 0
    at the start and, with `buffers`, before each synchronized forward pass. `overlap=False` sends everything in
    `finish()`; `init_sync=False` assumes that all ranks start with equal weights, and sends nothing at the start.
    """

    def __init__(
        self,
        comm: Comm,
        module: nn.Module,
        bucket_bytes: int = BUCKET,
        *,
        unused: str = "error",
        buffers: bool = True,
        overlap: bool = True,
        init_sync: bool = True,
    ) -> None:
        super().__init__()
        if unused not in ("error", "zero"):
            raise ValueError(f"unused={unused!r}: choose 'error' or 'zero' for parameters that get no gradient.")
        self.comm, self.module, self.unused, self.overlap = comm, module, unused, overlap
        self.names = {each: name for name, each in module.named_parameters() if each.requires_grad}
        saved = module.state_dict()
        held = [each for name, each in module.named_buffers() if name in saved]
        if init_sync:
            self._alike()
            for tensor in (*module.parameters(), *held):
                comm.broadcast(tensor.data, src=0)
        self.rows = [Bucket(each) for each in buckets_of(reversed(self.names), bucket_bytes)]
        self._home = {parameter: bucket for bucket in self.rows for parameter in bucket.views}
        self._sync, self._sent, self._copied = True, 0, held if buffers else []
        for parameter in self.names:
            on_gradient(parameter, self._arrived)

    def _alike(self) -> None:
        """Raise ValueError unless all ranks train the same parameters; otherwise they would hang later."""
        mark = zlib.crc32(repr([(name, each.shape, each.dtype) for each, name in self.names.items()]).encode())
        marks = torch.tensor([mark, -mark])
        self.comm.all_reduce(marks, op=MAX)
        if marks[0] != -marks[1] or not self.names:
            raise ValueError(
                f"rank {self.comm.rank} trains {len(self.names)} parameters; all ranks must train the same ones, at "
                "least one: same names, shapes and dtypes. Is a layer frozen, or a size different, on some ranks only?"
            )

    def forward(self, *args: object, **kwargs: object) -> object:
        """The module's own result."""
        if any(len(bucket.missing) < len(bucket.views) for bucket in self.rows):
            raise RuntimeError(
                "The last backward pass's gradients are still in flight: call finish() before the next forward pass."
            )
        if self._sync and self.training and torch.is_grad_enabled():
            self._copy_buffers()
        return self.module(*args, **kwargs)

    def _copy_buffers(self) -> None:
        for buffer in self._copied:
            self.comm.broadcast(buffer, src=0)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within: backward passes accumulate gradients locally and send nothing; the next one outside sends the sum."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def _arrived(self, parameter: nn.Parameter) -> None:
        """The hook: a gradient is complete. Buckets leave in the same order on all ranks, in whatever order gradients
        complete."""
        if not self._sync:
            return
        if parameter not in self._home[parameter].missing:
            raise RuntimeError(
                f"{self.names[parameter]} got a second gradient before finish(): put all backward passes but "
                "the last inside no_sync()."
            )
        self._home[parameter].put(parameter, self.comm.size)
        if self.overlap:
            self._send()

    def _send(self) -> None:
        while self._sent < len(self.rows) and not self.rows[self._sent].missing:
            bucket = self.rows[self._sent]
            bucket.work = self.comm.all_reduce(bucket.flat, async_op=True)
            self._sent += 1

    def finish(self, idle: bool = False) -> None:
        """Wait until every gradient is the mean over ranks. ValueError names parameters without one, unless `idle`."""
        silent = [each for bucket in self.rows for each in bucket.missing if each.grad is None]
        if silent and self.unused == "error" and not idle:
            names = ", ".join(self.names[each] for each in silent[:3])
            raise ValueError(
                f"rank {self.comm.rank}: no gradient for {names} ({len(silent)} of {len(self.names)} parameters). Use "
                "them in the loss, freeze them, pass unused='zero', or call idle() on a rank without data."
            )
        for bucket in self.rows:
            for parameter in list(bucket.missing):
                bucket.put(parameter, self.comm.size)
        self._send()
        nowhere = self._unused_everywhere(silent) if self.unused == "zero" else []
        for bucket in self.rows:
            bucket.wait()
        self._sent = 0
        for parameter in nowhere:
            parameter.grad = None

    def idle(self) -> None:
        """The step of a rank without data: it takes part in the other ranks' collectives, in order, with zeros."""
        if self.training:
            self._copy_buffers()
        self.finish(idle=True)

    def _unused_everywhere(self, silent: Sequence[nn.Parameter]) -> list[nn.Parameter]:
        here = set(silent)
        used = torch.tensor([each not in here for each in self.names], dtype=torch.uint8)
        self.comm.all_reduce(used, op=MAX)
        return [each for each, anywhere in zip(self.names, used.tolist(), strict=True) if not anywhere]
