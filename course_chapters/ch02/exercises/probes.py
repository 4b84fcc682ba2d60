"""How chapter 02 calls answers: layers that count their calls, a device of limited memory, a buffer for a single graph.

The probes return plain data and tensors; the judge decides what is right. The first call loads torch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm
    from course_lib.model.accounting import Accounting

__all__ = ["checkpointing", "cross_entropy", "own_checkpoint", "training_step"]

_TORCH_CHECKPOINT = ("checkpoint", "checkpoint_sequential", "_checkpoint_without_reentrant_generator")


class SwitchedOff(RuntimeError):
    """Raised by PyTorch's own version of an exercise while the exercise is checked."""


@contextlib.contextmanager
def own_checkpoint() -> Iterator[None]:
    """Within: `torch.utils.checkpoint` raises SwitchedOff, under whatever name it was imported."""
    import torch.utils.checkpoint as ready

    def off(*_: object, **__: object) -> None:
        from course_chapters.ch02.exercises.probes import SwitchedOff

        raise SwitchedOff("torch.utils.checkpoint is what this exercise asks you to write, so it is switched off here.")

    functions = [getattr(ready, name) for name in _TORCH_CHECKPOINT if hasattr(ready, name)]
    functions = [getattr(each, "__wrapped__", each) for each in functions] + [ready.CheckpointFunction.forward]
    bare = [each for each in functions if not each.__code__.co_freevars]
    saved = [(each, each.__code__, each.__defaults__, each.__kwdefaults__) for each in bare]
    try:
        for each in bare:
            each.__code__, each.__defaults__, each.__kwdefaults__ = off.__code__, None, None
        yield
    finally:
        for each, code, defaults, keywords in saved:
            each.__code__, each.__defaults__, each.__kwdefaults__ = code, defaults, keywords


# --- checkpointing


def net_of(spec: Mapping[str, Any]) -> tuple[list[nn.Module], list[Any]]:
    """The segments and input streams of a description, the same every time."""
    import torch
    from torch import nn

    from course_chapters.ch02.exercises.block import Layer, Segment

    torch.default_generator.manual_seed(spec["seed"])
    width, dropout, streams = spec["width"], spec["dropout"], spec["streams"]
    segments: list[nn.Module] = [Segment(depth, width, dropout, streams) for depth in spec["depths"]]
    given: list[Tensor] = [torch.randn(spec["rows"], width) for _ in range(streams)]
    if spec.get("words"):
        segments.insert(0, nn.Sequential(nn.Embedding(32, width), Layer(width, dropout)))  # an input without a gradient
        given = [torch.randint(0, 32, (spec["rows"],))]
    elif spec["input_grad"]:
        given = [x.requires_grad_() for x in given]
    if spec.get("twice"):
        segments[-1] = segments[0]
    for index in spec.get("frozen", ()):
        segments[index].requires_grad_(False)
    return segments, given


def plain_call(function: Answer, *inputs: object) -> object:
    return function(*inputs)


def as_streams(out: object) -> list[object]:
    """What a segment returned, as the next one's inputs."""
    return list(out) if isinstance(out, (tuple, list)) else [out]


def pass_through(answer: Answer, spec: Mapping[str, Any], shifts: Sequence[float] = (0.0,)) -> dict[str, object]:
    """One forward and one backward pass with `answer` around every segment: output, gradients, calls.

    Without a graph (key "graph") all gradients are None. A result that is not a tensor ends the forward pass.
    """
    import torch

    from course_chapters.ch02.exercises.block import Layer

    segments, given = net_of(spec)
    layers = [each for segment in segments for each in segment.modules() if isinstance(each, Layer)]
    for layer in layers:
        layer.shifts = tuple(shifts)
    functions = [lambda *streams, each=each: each(*streams) for each in segments]  # without a module's attributes
    torch.default_generator.manual_seed(spec["seed"] + 1)
    streams = given
    for function in functions if spec.get("closures") else segments:
        streams = as_streams(answer(function, *streams))
        if not (tensors := all(isinstance(x, torch.Tensor) for x in streams)):
            break
    calls = [layer.calls for layer in layers]
    output = [x.detach().clone() for x in streams] if tensors else list(streams)
    loss = sum((x * torch.linspace(0.5, 1.5, x.numel()).view_as(x)).sum() for x in streams) if tensors else None
    graph = loss is not None and loss.requires_grad
    if loss is not None and graph:
        loss.backward()
    return {
        "output": output,
        "graph": graph,
        "gradients": [[p.grad for p in segment.parameters() if p.requires_grad] for segment in segments],
        "input_gradients": [x.grad for x in given],
        "random": torch.rand(4),
        "calls": calls,
    }


def pass_bytes(answer: Answer, spec: Mapping[str, object]) -> dict[str, int]:
    """Bytes alive after the forward pass and at the peak of both passes, above those alive before."""
    import torch

    from course_lib.model.accounting import Accounting

    segments, given = net_of(spec)
    with Accounting() as books:
        books.adopt([*segments, *given])
        there, streams = books.live_bytes, given
        for function in segments:
            streams = as_streams(answer(function, *streams))
        kept = books.live_bytes - there
        torch.autograd.backward(streams, [torch.ones_like(x) for x in streams])
        return {"kept": kept, "peak": books.peak_bytes - there}


def checkpointing(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The results of a net whose segments are called through the answer; `case.args = (description, shifts, measured)`.

    With shifts, a second pass follows in which the n-th call of a layer adds the n-th of them: its gradients ("moved")
    show which call they came from. "kept" and "peak" are bytes if measured, and otherwise 0.
    """
    import torch

    spec, shifts, measured = case.args
    with own_checkpoint(), torch.random.fork_rng(devices=[]), torch.set_grad_enabled(spec.get("grad", True)):
        result = pass_through(answer, spec)
        moved = pass_through(answer, spec, shifts)["gradients"] if shifts and result["graph"] else []
        books = pass_bytes(answer, spec) if measured and result["graph"] else {"kept": 0, "peak": 0}
    return {**result, "moved": moved, **books}


# --- a device of limited memory


class OutOfMemory(RuntimeError):
    """Raised by a device that has no memory left."""


@contextlib.contextmanager
def device_of(most: float, *there: object) -> Iterator[Accounting]:
    """Within: torch can allocate `most` bytes in addition to what is `there`; more raises OutOfMemory."""
    from course_lib.model.accounting import Accounting

    class Device(Accounting):
        base, room = 0, math.inf

        def _grow(self, nbytes: int) -> None:
            used = self.live_bytes - self.base
            if used + nbytes > self.room:
                raise OutOfMemory(
                    f"tried to allocate {nbytes / 1024:,.1f} KiB; {used / 1024:,.1f} of {self.room / 1024:,.1f} "
                    f"KiB are in use."
                )
            super()._grow(nbytes)

    with Device() as books:
        books.adopt(there)
        books.base, books.room = books.live_bytes, most
        yield books


# --- the loss


def loss_inputs(
    *,
    seed: int,
    tokens: int,
    width: int,
    words: int,
    size: float = 1.0,
    ignored: Sequence[tuple[int, int]] = (),
    **_: object,
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (tokens, width), weights (words, width) and targets of a description, the same every time."""
    import torch

    coin = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, width, generator=coin) * size
    weight = torch.randn(words, width, generator=coin) / math.sqrt(width)
    targets = torch.randint(0, words, (tokens,), generator=coin)
    for first, last in ignored:
        targets[first:last] = -100
    return hidden, weight, targets


def cross_entropy(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Loss, gradients and peak bytes of the answer on `case.args = (description, bytes of the device or None)`."""
    import torch

    spec, most = case.args
    hidden, weight, targets = loss_inputs(**spec)
    hidden.requires_grad_("hidden" in spec["wanted"])
    weight.requires_grad_("weight" in spec["wanted"])
    with device_of(most or math.inf, hidden, weight, targets) as books, torch.set_grad_enabled(bool(spec["wanted"])):
        there = books.live_bytes
        loss = answer(hidden, weight, targets, spec["chunks"])
        graph = isinstance(loss, torch.Tensor) and loss.requires_grad
        if graph:
            (loss * spec["scale"]).sum().backward()
        peak = books.peak_bytes - there
    gradients = {"hidden": hidden.grad, "weight": weight.grad}
    return {"loss": loss, "graph": graph, **gradients, "targets": targets, "peak": peak}


# --- a buffer for a single graph


def static_model(*, one_buffer: bool, seed: int, words: int, width: int, depth: int, **_: object) -> nn.Module:
    """A small language model; with one buffer, each forward pass overwrites the activations of the previous one."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    passes = [0]  # forward passes so far; the last one owns the buffer

    def check(number: int, _: object) -> None:
        if number != passes[0]:
            raise OutOfMemory(
                f"the activations of forward pass {number} are gone: the device has room for one pass, and pass "
                f"{passes[0]} has overwritten them."
            )

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(words, width)
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, tokens: object) -> object:
            x = self.table(tokens)
            if one_buffer and torch.is_grad_enabled():
                passes[0] += 1
                x.register_hook(partial(check, passes[0]))
            for layer in self.layers:
                x = x + F.gelu(layer(x))
            return self.head(x)

    torch.default_generator.manual_seed(seed)
    return Model()


def micro_batches(
    *, seed: int, words: int, rows: int, lengths: Sequence[tuple[int, int]], whole: int = 0, **_: object
) -> list[tuple[Tensor, Tensor]]:
    """Pairs (inputs, targets) of different lengths; targets of -100 do not count."""
    import torch

    coin = torch.Generator().manual_seed(seed + 1)
    pairs = []
    for length, padding in lengths:
        tokens = torch.randint(0, words, (rows, length + 1), generator=coin)
        targets = tokens[:, 1:].clone()
        if padding:
            targets[whole:, length - padding :] = -100
        pairs.append((tokens[:, :-1], targets))
    return pairs


def training_step(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Loss, gradients and peak bytes (0 if not measured) of one step on `case.args = (description, measured)`."""
    import torch

    from course_lib.model.accounting import Accounting

    spec, measured = case.args
    with torch.random.fork_rng(devices=[]):
        model, batches = static_model(**spec, one_buffer=not measured), micro_batches(**spec)
    given = iter(batches) if spec.get("once") else batches
    with Accounting() if measured else contextlib.nullcontext() as books:
        if books:
            books.adopt(model)
            there = books.live_bytes
        loss = answer(model, given)
        peak = books.peak_bytes - there if books else 0
    return {"loss": loss, "gradients": [p.grad for p in model.parameters()], "peak": peak}
