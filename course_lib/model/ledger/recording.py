"""A record of one training step: every tensor that autograd keeps, and the bytes alive at every moment.

Two meters agree: hooks on what autograd saves, with module and operation, and the account of storages (`accounting`). A
storage is counted once, even if several views of it are kept. On a GPU the peaks of torch's allocator are read as well.

What a checkpointed part recomputes in the backward pass counts as temporary: checkpoint holds it, not autograd. Left
out, besides what `accounting` leaves out: the copy of the random generator's state that each checkpointed part with
dropout keeps (5 kB on a CPU).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.estimate.units import bytes_text
from course_lib.model import transformer
from course_lib.model.accounting import Accounting, Saved, _Block
from course_lib.model.ledger.labels import Namer

PHASES = ("forward", "backward", "optimizer step")


@dataclass(frozen=True, slots=True)
class Kept:
    """One tensor that autograd kept in the forward pass."""

    label: str
    where: str  # the module's path
    operation: str  # the function of torch that kept it; "": the module's own
    shape: tuple[int, ...]
    dtype: str
    nbytes: int  # of its storage; 0 if it shares another tensor's storage
    alias_of: str  # the parameter, buffer, input or label whose storage this is; "": its own


@dataclass(frozen=True, slots=True)
class Row:
    """The kept tensors of one label and dtype."""

    label: str
    count: int
    nbytes: int
    dtype: str
    where: str  # of the first
    aliases: int  # how many more times the same storages are kept


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bytes alive by role at every moment of the step, and the moments at which its phases end."""

    roles: dict[str, list[int]]
    ends: dict[str, int]

    @property
    def total(self) -> list[int]:
        """Bytes alive at every moment."""
        return [sum(column) for column in zip(*self.roles.values(), strict=True)]


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Peaks of torch's allocator on a device: the most bytes allocated to tensors, and the most reserved."""

    allocated: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What one training step kept and held. Bytes."""

    kept: tuple[Kept, ...]  # in the order in which autograd took them
    after: dict[str, dict[str, int]]  # phase: bytes by role at its end
    counted_peak_bytes: int
    by_role: dict[str, int]  # at the moment of the peak
    timeline: Timeline
    flops: int
    device: DevicePeak | None  # where there is a GPU

    @property
    def saved_bytes(self) -> int:
        """Bytes that autograd keeps from the forward to the backward pass, parameters and inputs left out."""
        return sum(each.nbytes for each in self.kept)

    @property
    def peak_bytes(self) -> int:
        """The most bytes alive at once: read from the device's allocator, or counted if there is none."""
        return self.counted_peak_bytes if self.device is None else self.device.allocated

    @property
    def by_label(self) -> dict[str, int]:
        """Bytes kept, by label."""
        total: Counter[str] = Counter()
        for each in self.kept:
            if not each.alias_of:
                total[each.label] += each.nbytes
        return dict(total)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The labels in the order in which they first appear, a row for each dtype."""
        groups: dict[tuple[str, str], list[Kept]] = {}
        for each in self.kept:
            if not each.alias_of:
                groups.setdefault((each.label, each.dtype), []).append(each)
        again = Counter(each.alias_of for each in self.kept)
        return tuple(
            Row(label, len(group), sum(each.nbytes for each in group), dtype, group[0].where, again[label])
            for (label, dtype), group in groups.items()
        )

    def table(self) -> str:
        """The rows as text, widths aligned."""
        lines: list[tuple[str, ...]] = [
            ("kept for backward", "tensors", "dtype", "bytes", "also kept as a view", "first in")
        ]
        lines += [
            (row.label, f"{row.count}", row.dtype, f"{row.nbytes:,}", f"{row.aliases or ''}", row.where)
            for row in self.rows
        ]
        lines.append(("in all", f"{sum(row.count for row in self.rows)}", "", f"{self.saved_bytes:,}", "", ""))
        return aligned(lines, "<><>><")

    def __str__(self) -> str:
        source = "counted" if self.device is None else "by the device's allocator"
        return f"{self.table()}\npeak {bytes_text(self.peak_bytes)}, {source}"


def aligned(lines: Sequence[tuple[str, ...]], sides: str) -> str:
    """Lines of cells as text, aligned; `sides` has < or > for each column."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)).rstrip()
        for line in lines
    )


class _Watch(TorchFunctionMode):
    """Tracks which torch function is running."""

    def __init__(self) -> None:
        super().__init__()
        self.running = ""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        before, self.running = self.running, func.__name__
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.running = before


class _Recorder(Accounting):
    """An account that also records what autograd saves, until `writing` ends."""

    def __init__(self, namer: Namer, watch: _Watch, known: dict[int, str]) -> None:
        super().__init__(history=True)
        self.path = [""]  # of the module that runs, its callers before it
        self.writing = True
        self._namer, self._watch, self._known = namer, watch, known  # storage: what existed before
        self._written: list[tuple[_Block | None, Kept]] = []
        self._owners: dict[int, str] = {}  # id of a block, which the history keeps: its first label

    def _pack(self, tensor: Tensor) -> Saved:
        if self.writing:
            self._write(tensor)
        return super()._pack(tensor)

    def _write(self, tensor: Tensor) -> None:
        path, operation = self.path[-1], self._watch.running
        block = self._block(tensor)
        old = self._known.get(tensor.untyped_storage()._cdata, "")
        label = old or self._namer.name(path, operation, tensor)
        owner = old or self._owners.get(id(block), "")
        nbytes = 0 if owner else tensor.untyped_storage().nbytes()
        self._owners.setdefault(id(block), label)
        dtype = str(tensor.dtype).removeprefix("torch.")
        self._written.append((block, Kept(label, path, operation, tuple(tensor.shape), dtype, nbytes, owner)))

    def held(self) -> Iterator[Kept]:
        """The recorded tensors that are still kept."""
        return (kept for block, kept in self._written if block is None or block.saved)


@contextmanager
def _following(model: nn.Module, path: list[str]) -> Iterator[None]:
    """Within: `path` ends with the path of the running module."""
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            for register, act in (
                (module.register_forward_pre_hook, lambda *_, name=name: path.append(name)),
                (module.register_forward_hook, lambda *_: (path.pop(), None)[1]),
            ):
                hooks.callback(register(act).remove)
        yield


def _before(model: nn.Module, tokens: Tensor, targets: Tensor) -> dict[int, str]:
    """The storages that exist before the step, with their names."""
    named: Iterable[tuple[str, Tensor]] = (
        *model.named_parameters(),
        *model.named_buffers(),
        ("tokens", tokens),
        ("targets", targets),
    )
    return {tensor.untyped_storage()._cdata: name for name, tensor in named}


@contextmanager
def _device_peak(device: torch.device, read: list[DevicePeak]) -> Iterator[None]:
    """Within: a GPU's allocator counts a new peak, which goes into `read` at the end. Does nothing on a CPU."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    yield
    torch.cuda.synchronize(device)
    read.append(DevicePeak(torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)))


def record(
    model: nn.Module,
    tokens: Tensor,
    targets: Tensor,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    autocast: torch.dtype | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = transformer.loss,
) -> Ledger:
    """The ledger of one training step: forward, backward and, with an optimizer, its step. The step really runs.

    `autocast` is the dtype of torch's autocast around the forward pass, None for none; for a model in bf16 give
    `model.to(torch.bfloat16)`. Gradients and optimizer state that exist before are counted; buffers count among the
    parameters, the batch is temporary.
    """
    if autocast not in (None, torch.bfloat16, torch.float16):
        raise ValueError(f"autocast is {autocast!r}; give torch.bfloat16 or torch.float16, or None for none.")
    if not model.training:
        raise ValueError(
            "The model is in evaluation mode, so little is kept for a backward pass; call model.train() first."
        )
    watch = _Watch()
    read: list[DevicePeak] = []
    gated = any(name.endswith("mlp.gate") for name, _ in model.named_modules())
    account = _Recorder(Namer(gated), watch, _before(model, tokens, targets))
    after = {}
    with _device_peak(tokens.device, read), account:
        account.adopt(model)
        account.adopt(list(model.buffers()), "parameters")
        account.adopt([tokens, targets], "temporary")
        account.adopt([p.grad for p in model.parameters() if p.grad is not None], "gradients")
        if optimizer is not None:
            account.adopt(list(optimizer.state.values()), "optimizer state")
        begin = account.moment
        mixed = torch.autocast(tokens.device.type, dtype=autocast, enabled=autocast is not None)
        with _following(model, account.path), watch, mixed:
            value = loss(model(tokens), targets)
        account.writing = False
        kept = tuple(account.held())
        account.mark(PHASES[0])
        after[PHASES[0]] = account.roles()
        acts = (value.backward, None if optimizer is None else optimizer.step)
        for phase, act in zip(PHASES[1:], acts, strict=True):
            if act:
                act()
                account.adopt([p.grad for p in model.parameters() if p.grad is not None], "gradients")
                account.mark(phase)
                after[phase] = account.roles()
    return Ledger(
        kept,
        after,
        account.peak_bytes,
        account.peak_roles(),
        _since(begin, account),
        account.flops,
        read[0] if read else None,
    )


def _since(begin: int, account: Accounting) -> Timeline:
    """The account's timeline without the initial adoption of the model."""
    roles = {role: steps[begin:] for role, steps in account.timeline().items()}
    return Timeline(roles, {name: at - begin for at, name in account.marks})
