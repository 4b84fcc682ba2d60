"""A captured step: its kernels with the memory that they read and write, recorded once and replayed without Python.

This is what a CUDA graph holds, carried out on a CPU. A replay runs the recorded operations on the recorded tensors. It
runs no Python, so whatever the step computed in Python stays as it was: a learning rate, a branch, a counter.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.model.transformer import Config, Transformer, build, loss

_SYNC = {
    "_local_scalar_dense": "reads a number back to the host, as .item(), float() and `if tensor:` do",
    "is_nonzero": "reads a truth value back to the host",
    "equal": "reads a truth value back to the host",
}
_DYNAMIC = ("nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave")
_REPLACES = ("resize_", "set_")


class CaptureError(RuntimeError):
    """A step cannot be captured; the message names the operation, the reason and the way out."""


class Graph(TorchDispatchMode):
    """Records while it is entered; afterwards `replay()` runs the same operations on the same memory.

    Example: `with Graph() as graph: out = step(x)`, then `x.copy_(batch); graph.replay()`, and read `out`.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled while capturing, so torch need not load its compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Callable[..., object], tuple[object, ...], dict[str, object], list[Tensor]]] = []
        self._pool: dict[int, torch.UntypedStorage] = {}
        self.closed = False

    def __exit__(self, *failure: object) -> None:
        self.closed = True
        super().__exit__(*failure)

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        name = func._overloadpacket.__name__
        if name in _SYNC:
            raise CaptureError(
                f"{name} {_SYNC[name]}, and a graph cannot wait for the host. Keep the value in a tensor, or compute "
                "it outside of the capture."
            )
        masks = name in ("index", "index_put_") and any(
            isinstance(each, Tensor) and each.dtype == torch.bool for each in tree_leaves(args[1])
        )
        if name in _DYNAMIC or name in _REPLACES or masks:
            raise CaptureError(
                f"{name} makes a tensor whose size depends on values, and a graph's sizes are fixed. Use a mask or "
                "torch.where, and keep the full size."
            )
        known = {
            each.untyped_storage()._cdata for each in tree_leaves((args, kwargs or {})) if isinstance(each, Tensor)
        }
        out = func(*args, **(kwargs or {}))
        made = [each for each in tree_leaves(out) if isinstance(each, Tensor)]
        fresh = [each for each in made if each.untyped_storage()._cdata not in known]
        for each in fresh:
            self._pool[each.untyped_storage()._cdata] = each.untyped_storage()
        if fresh or name.endswith("_"):  # all others are views, which need no kernel
            self._calls.append((func, args, kwargs or {}, [each.detach() for each in made] if fresh else []))
        return out

    @property
    def launches(self) -> int:
        """Operations in the graph; a replay is one launch."""
        return len(self._calls)

    @property
    def pool_bytes(self) -> int:
        """Bytes that the graph keeps for itself as long as it exists."""
        return sum(each.nbytes() for each in self._pool.values())

    def replay(self) -> None:
        """Run the recorded operations again, each into the memory that it wrote before."""
        if not self.closed:
            raise CaptureError("The capture has not ended; leave its `with` block, and then replay.")
        with torch.no_grad():
            for func, args, kwargs, outs in self._calls:
                again = [each for each in tree_leaves(func(*args, **kwargs)) if isinstance(each, Tensor)]
                for kept, new in zip(outs, again, strict=False):
                    kept.copy_(new)


def refused(step: Callable[[], object]) -> str:
    """Why a step cannot be captured; "" if it can."""
    try:
        with Graph():
            step()
    except CaptureError as error:
        return str(error)
    return ""


def trained_twice(steps: int = 4) -> tuple[int, int, bool]:
    """A small model trained in plain PyTorch and by replays of one captured step, each on the same batches: kernels in
    the graph, bytes of its pool, and whether all weights are equal bit for bit."""
    shape = Config(vocab=32, layers=1, hidden=32, heads=4, seq_len=16)
    coin = torch.Generator().manual_seed(0)
    batches = [torch.randint(32, (4, 17), generator=coin) for _ in range(steps)]
    models = [build(shape), build(shape)]

    def step_of(model: Transformer) -> Callable[[Tensor], Tensor]:
        adam = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(batch: Tensor) -> Tensor:
            adam.zero_grad(set_to_none=False)  # gradients keep their memory
            value = loss(model(batch[:, :-1]), batch[:, 1:])
            value.backward()
            adam.step()
            return value

        return step

    plain, replayed = map(step_of, models)
    for batch in batches:
        plain(batch)
    own = batches[0].clone()
    replayed(own)  # a warm-up with the first batch: momentum is made on first use
    own.copy_(batches[1])
    with Graph() as graph:
        replayed(own)
    for batch in batches[2:]:
        own.copy_(batch)
        graph.replay()
    pairs = zip(*(model.parameters() for model in models), strict=True)
    return graph.launches, graph.pool_bytes, all(torch.equal(one, other) for one, other in pairs)
