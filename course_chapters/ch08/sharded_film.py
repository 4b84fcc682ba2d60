"""What each rank holds, moment by moment, in one training step of the real library, recorded from a metered run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypedDict

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm, simulate
from course_lib.model import accounting, text
from course_lib.model.modules import set_methods
from course_lib.model.transformer import Config, Transformer, build, loss
from course_lib.parallel.data import DataParallel
from course_lib.parallel.sharding import FullySharded, Zero, gradient_of
from course_lib.parallel.sharding.flat_parameter import Row

MODEL = Config(vocab=512, layers=4, hidden=64, seq_len=16)
RANKS, SEQUENCES = 4, 4


class Choices(TypedDict, total=False):
    """Arguments of `FullySharded`."""

    prefetch: int
    reshard_after_forward: bool


WAYS: Mapping[str, tuple[int, Choices]] = {
    "data parallel": (0, {}),
    "stage 1": (1, {}),
    "stage 2": (2, {}),
    "stage 3": (3, {}),
    "stage 3, no prefetch": (3, {"prefetch": 0}),
    "stage 3, weights kept": (3, {"reshard_after_forward": False}),
}
"""The ways of sharding that can be recorded: the ZeRO stage, and arguments of `FullySharded`."""
UNITS = ("embedding", *(f"block {layer}" for layer in range(MODEL.layers)), "head")
_WIDTH = 4  # bytes of a number
_BUCKET = 210_000  # bytes of a row in stages 0 to 2: about one block

Box = tuple[int, float, float, str]  # unit, start and stop as shares of it, and how it is held
OWN, GATHERED, MOVING, WHOLE = "own part", "gathered", "in transit", "whole"


@dataclass(frozen=True, slots=True)
class Moment:
    """What one rank holds at one moment of the step, with its bytes by role."""

    phase: str  # "start", "forward", "backward", "averaged", "stepped" or "end"
    unit: int  # the unit that computes; -1 if none does
    boxes: Mapping[str, tuple[Box, ...]]  # by role: weights, grads, moments
    nbytes: Mapping[str, int]  # weights, grads, moments, activations, and "temporary" for all else


@dataclass(frozen=True, slots=True)
class Film:
    """A step of one way of sharding. `moments[i][rank]`; `elements` of each unit; `sent` bytes by each rank."""

    way: str
    moments: tuple[tuple[Moment, ...], ...]
    elements: tuple[int, ...]
    sent: tuple[int, ...]


def units_of(model: Transformer) -> list[nn.Module]:
    """The modules that are gathered and freed as units, in the order of their use."""
    return [model.embedding, *model.blocks, model.head]


def _joined(boxes: Iterator[Box]) -> tuple[Box, ...]:
    """The boxes, with adjacent ones of the same unit and kind merged."""
    found: list[Box] = []
    for place, start, stop, how in sorted(boxes, key=lambda box: (box[3], box[:3])):
        if found and found[-1][0] == place and found[-1][3] == how and start <= found[-1][2] + 1e-9:
            found[-1] = (place, found[-1][1], max(stop, found[-1][2]), how)
        else:
            found.append((place, start, stop, how))
    return tuple(found)


class _Watch:
    """Records what one rank holds whenever a unit has computed. It keeps only names and sizes, so that it keeps no
    tensor alive."""

    def __init__(self, comm: Comm, model: Transformer) -> None:
        self.account, self.rank = accounting._here.account, comm.rank
        self.units: dict[str, tuple[int, int]] = {}  # parameter -> unit, first element in it
        self.counts = {name: each.numel() for name, each in model.named_parameters()}
        self.sizes: list[int] = []
        self.seen: list[Moment] = []
        self.done: set[int] = set()
        self.backward = False
        self.held: DataParallel | Zero | FullySharded
        modules = units_of(model)
        names = {id(each): name for name, each in model.named_parameters()}
        for place, module in enumerate(modules):
            at = 0
            for each in module.parameters():
                self.units[names[id(each)]] = (place, at)
                at += each.numel()
            self.sizes.append(at)
            set_methods(module, forward=self._around(module.forward, place))

    def _around(self, forward: Callable[..., object], place: int) -> Callable[..., object]:
        def watched(*args: object) -> object:
            out = forward(*args)
            self.look("forward", place)
            return out

        return watched

    def follow_replica(self, model: Transformer) -> None:
        """Record when the last gradient of a unit is complete, before it is sent."""
        for place, module in enumerate(units_of(model)):
            arrived = self._arrival(place, len(list(module.parameters())))
            for each in module.parameters():
                each.register_post_accumulate_grad_hook(arrived)

    def _arrival(self, place: int, missing: int) -> Callable[[object], None]:
        def arrived(_: object) -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                self.look("backward", place)

        return arrived

    def follow_rows(self, model: FullySharded) -> None:
        """Record when a unit's gradients are complete: before its weights are freed, or else before the gradients are
        sent."""
        for row in model.rows:
            if (place := self._place(row)) is not None:
                set_methods(row, free=self._before(row.free, row, place))
        reduce = model._reduce

        def reduced(row: Row, grads: Sequence[Tensor | None]) -> None:
            if (place := self._place(row)) is not None:
                self._ready(row, place)
            reduce(row, grads)

        set_methods(model, _reduce=reduced)

    def _before(self, free: Callable[[], None], row: Row, place: int) -> Callable[[], None]:
        def freed() -> None:
            if row.full is not None:
                self._ready(row, place)
            free()

        return freed

    def _ready(self, row: Row, place: int) -> None:
        if self.backward and place not in self.done:
            self.done.add(place)
            self.look("backward", place, row)

    def _place(self, row: Row) -> int | None:
        return next((self.units[name][0] for name in row.shapes if name in self.units), None)

    def look(self, phase: str, unit: int, whole: Row | None = None) -> None:
        """Record what this rank holds now. `whole`: the row whose gradients have just been completed."""
        boxes = {
            "weights": _joined(self._weights()),
            "grads": _joined(self._grads(whole)),
            "moments": _joined(self._moments()),
        }
        self.seen.append(Moment(phase, unit, boxes, self._bytes(whole)))

    def _bytes(self, whole: Row | None) -> dict[str, int]:
        roles = self.account.roles()
        rows: Sequence[Row] = () if isinstance(self.held, DataParallel) else self.held.rows
        gathered = sum(row.full.nbytes for row in rows if row.full is not None and isinstance(self.held, FullySharded))
        leaving = sum(row._leaving[2].nbytes for row in rows if row._leaving)
        ready = _WIDTH * whole.flat.elements if whole else 0  # autograd holds them, and they have no role yet
        found = {
            "weights": roles["parameters"] + gathered,
            "grads": roles["gradients"] + leaving + ready,
            "moments": roles["optimizer state"],
            "activations": roles["saved for backward"],
        }
        return {**found, "temporary": max(0, self.account.live_bytes - sum(found.values()))}

    def _whole(self, names: Iterable[str], how: str) -> Iterator[Box]:
        for name in names:
            if name in self.units:
                place, at = self.units[name]
                yield place, at / self.sizes[place], (at + self.counts[name]) / self.sizes[place], how

    def _part(self, row: Row, how: str = OWN) -> Iterator[Box]:
        for piece in row.flat.pieces(self.rank):
            if piece.name in self.units:
                place, at = self.units[piece.name]
                yield place, (at + piece.start) / self.sizes[place], (at + piece.stop) / self.sizes[place], how

    def _weights(self) -> Iterator[Box]:
        if not isinstance(self.held, FullySharded):
            yield from self._whole(self.units, WHOLE)
            return
        for row in self.held.rows:
            if row.full is not None:
                yield from self._whole(row.shapes, MOVING if row._arriving else GATHERED)
            yield from self._part(row)

    def _grads(self, whole: Row | None) -> Iterator[Box]:
        if isinstance(self.held, FullySharded):
            for row in self.held.rows:
                if whole is not None and row is whole:
                    yield from self._whole(row.shapes, WHOLE)
                elif row._leaving:
                    yield from self._whole(row.shapes, MOVING)
                elif gradient_of(row.shard) is not None:
                    yield from self._part(row)
            return
        if isinstance(self.held, DataParallel):  # its buckets stay
            yield from self._whole(self.units, WHOLE)
            return
        yield from self._whole(
            (name for name, each in self.held.module.named_parameters() if gradient_of(each) is not None), WHOLE
        )
        for row in self.held.rows:
            if row._leaving:
                yield from self._whole(row.shapes, MOVING)
            elif gradient_of(row.shard) is not None:
                yield from self._part(row)

    def _moments(self) -> Iterator[Box]:
        if isinstance(self.held, DataParallel):
            yield from self._whole(self.units, WHOLE)
        else:
            for row in self.held.rows:
                yield from self._part(row)


def _step(comm: Comm, stage: int, choices: Choices) -> tuple[list[Moment], list[int]]:
    """One step on this rank, looked at; the optimizer has its state from one before, on gradients of zero."""
    model = build(MODEL)
    watch = _Watch(comm, model)
    if stage < 3:
        watch.follow_replica(model)
    held: DataParallel | Zero | FullySharded
    if stage == 0:
        held = DataParallel(comm, model, _BUCKET, init_sync=False, buffers=False)
        watch.account.adopt([bucket.flat for bucket in held.rows], "gradients")
    elif stage < 3:
        held = Zero(comm, model, stage, _BUCKET, init_sync=False)
    else:
        held = FullySharded(comm, model, units_of(model), **choices)
        watch.follow_rows(held)
    stepped = list(model.parameters() if isinstance(held, DataParallel) else held.shards())
    optimizer = torch.optim.AdamW(stepped)
    for each in stepped:
        each.grad = torch.zeros_like(each)
    optimizer.step()
    optimizer.zero_grad()
    watch.held = held
    tokens, targets = text.batch(comm.rank, SEQUENCES, MODEL.seq_len)
    watch.look("start", -1)
    error = loss(held(tokens), targets)
    watch.backward = True
    error.backward()
    held.finish()
    watch.backward = False
    del error
    watch.look("averaged", -1)
    optimizer.step()
    watch.look("stepped", -1)
    optimizer.zero_grad()
    if isinstance(held, Zero):
        held.zero_grad()
        held.gather()
    watch.look("end", -1)
    return watch.seen, watch.sizes


@lru_cache(maxsize=len(WAYS))
def film(way: str = "stage 3") -> Film:
    """One step of the course's small transformer on four simulated ranks, sharded in this way."""
    if way not in WAYS:
        raise ValueError(f"way is {way!r}; choose from {', '.join(WAYS)}.")
    text.batch(0, 1, MODEL.seq_len)  # its table is made once, and is nobody's memory
    run = simulate(_step, RANKS, args=WAYS[way], account=True)
    seen, sizes = zip(*run.results, strict=True)
    return Film(way, tuple(zip(*seen, strict=True)), tuple(sizes[0]), tuple(run.meter.bytes_sent))
