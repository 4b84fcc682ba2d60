"""Models of chapter 07's exercises: small nets that take virtual time, and a replica that reads its flag as torch does.

Every rank builds the same model from a description. `Net` takes time in its forward pass, and in its backward pass
before each layer's gradients, as computing them would. So the clock shows what an answer hides behind the backward
pass.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm, Work
from course_lib.model.modules import gradient


class _Spend(torch.autograd.Function):
    """The identity; virtual seconds pass when its gradient is computed."""

    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, seconds: float) -> Tensor:
        ctx.comm, ctx.seconds = comm, seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        ctx.comm.compute(ctx.seconds, kind="backward")
        return grad, None, None


class _Linear(nn.Linear):
    """A layer whose weights `Net` draws."""

    def reset_parameters(self) -> None:
        """Nothing: torch's own draw would be overwritten."""


class Net(nn.Module):
    """Layers in sequence. With `tied`, the first is used again at the end; with `branches`, all outputs are added and
    odd ranks run them in reverse."""

    _comm: Comm

    def __init__(self, comm: Comm | None, spec: Mapping[str, Any]) -> None:
        super().__init__()
        coin = torch.Generator().manual_seed(spec["seed"])
        width, self._branches, self._seconds = (spec["width"], spec.get("branches", False), spec.get("seconds", 0.0))
        kinds = {"float32": torch.float32, "float64": torch.float64}
        dtypes = [kinds[name] for name in spec.get("dtypes", ())] or [torch.float32] * spec["layers"]
        self.layers = nn.ModuleList(_Linear(width, width, bias=spec.get("biases", True), dtype=each) for each in dtypes)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=coin) * width**-0.5)
        for index in spec.get("frozen", ()):
            self.layers[index].requires_grad_(False)
        if spec.get("tied"):
            self.again = self.layers[0]
        object.__setattr__(self, "_comm", comm)

    def _layer(self, layer: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(layer, nn.Linear)
        if self._seconds:
            self._comm.compute(self._seconds / 2, kind="forward")
        y = layer(x.to(layer.weight.dtype))
        return _Spend.apply(y, self._comm, self._seconds) if self._seconds and y.requires_grad else y

    def forward(self, x: Tensor) -> Tensor:
        row = [*self.layers, self.again] if hasattr(self, "again") else list(self.layers)
        if self._branches:
            turned = row[::-1] if self._comm.rank % 2 else row
            parts = {layer: self._layer(layer, x) for layer in turned}
            return reduce(torch.add, (parts[layer].tanh().double() for layer in row))
        for layer in row:
            x = self._layer(layer, x.tanh())
        return x


class _Tell(torch.autograd.Function):
    """The identity; its graph holds a token until it is deleted, and its backward pass calls `over`."""

    @staticmethod
    def forward(ctx, x: Tensor, token: object, over: Callable[[], object]) -> Tensor:
        ctx.token, ctx.over = token, over
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        ctx.over()
        return grad, None, None


class Counted:
    """Counts of a model's forward passes: how many, the most rows in one, the most graphs alive at once."""

    def __init__(self) -> None:
        self.counts, self._alive = {"forwards": 0, "rows": 0, "most alive": 0}, 0

    def note(self, x: Tensor, out: Tensor) -> Tensor:
        """Count a forward pass of `x`; returns the output, whose graph is alive until its backward pass or deletion."""
        self.counts["forwards"] += 1
        self.counts["rows"] = max(self.counts["rows"], len(x))
        if not out.requires_grad:
            return out
        self._alive += 1
        self.counts["most alive"] = max(self.counts["most alive"], self._alive)
        token = set[object]()
        return _Tell.apply(out, token, weakref.finalize(token, self._over))  # which is called once

    def _over(self) -> None:
        self._alive -= 1

    def told(self) -> dict[str, int]:
        return dict(self.counts)


class Words(nn.Module):
    """A minimal language model, an embedding and an output layer: (rows, length) to (rows, length, vocabulary)."""

    counted: Counted

    def __init__(self, seed: int, vocabulary: int, width: int) -> None:
        super().__init__()
        coin = torch.Generator().manual_seed(seed)
        self.embedding, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=coin))
        object.__setattr__(self, "counted", Counted())

    def forward(self, tokens: Tensor) -> Tensor:
        return self.counted.note(tokens, self.head(self.embedding(tokens)))


class Replica(nn.Module):
    """A model under data parallelism: gradients are averaged in the backward pass if the flag was True in the forward
    pass.

    torch's DistributedDataParallel reads `require_backward_grad_sync` at the same time; `no_sync()` sets it to False.
    """

    counted: Counted
    _armed: list[bool]

    def __init__(self, comm: Comm, module: nn.Module) -> None:
        super().__init__()
        self.module, self.require_backward_grad_sync = module, True
        counted, armed = Counted(), [False]
        works: list[Work] = []
        object.__setattr__(self, "counted", counted)

        def arrived(parameter: nn.Parameter) -> None:
            if not armed[0]:
                return
            if not works:
                torch.autograd.Variable._execution_engine.queue_callback(finish)
            grad = gradient(parameter)
            grad /= comm.size
            if work := comm.all_reduce(grad, async_op=True):
                works.append(work)

        def finish() -> None:
            for work in works:
                work.wait()
            works.clear()
            armed[0] = False

        object.__setattr__(self, "_armed", armed)
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(arrived)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self._armed[0] = bool(self.require_backward_grad_sync)
        return self.counted.note(x, self.module(x))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within: forward passes whose backward passes do not average gradients."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before
