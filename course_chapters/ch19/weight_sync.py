"""Weights on their way from a trainer to a generator: who sends which part of which tensor to whom, in which bucket.

The trainer cuts each matrix over its `tp` ranks and, under ZeRO-3, the rows of each part over `dp`. The generator's
replicas cut over a `tp` of their own. A rank of either side holds boxes of tensors: a range along each dimension. What
a generator's rank needs is the overlap of its boxes with the trainer's. So no rank gathers a tensor that it does not
hold, and the bytes that arrive are those that the generator keeps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.cluster import Comm, P2POp
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import require_whole
from course_lib.model.transformer import Config
from course_lib.parallel.tensor.partition import plan, span


@dataclass(frozen=True, slots=True)
class Box:
    """Part of a tensor: the elements between `start` and `stop` along each dimension."""

    name: str
    ranges: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How long it is along each dimension."""
        return tuple(stop - start for start, stop in self.ranges)

    @property
    def numel(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    def overlap(self, other: Box) -> Box | None:
        """The part that both have; None without one."""
        if self.name != other.name:
            return None
        pairs = zip(self.ranges, other.ranges, strict=True)
        both = tuple((max(one[0], two[0]), min(one[1], two[1])) for one, two in pairs)
        return Box(self.name, both) if all(start < stop for start, stop in both) else None

    def of(self, held: Tensor, holder: Box) -> Tensor:
        """This part of the tensor of a rank that holds `holder`: a view."""
        inside = zip(self.ranges, holder.ranges, strict=True)
        return held[tuple(slice(start - first, stop - first) for (start, stop), (first, _) in inside)]


Held = Mapping[int, Mapping[str, Box]]  # by rank of the cluster: what it holds of each tensor of the whole model


@dataclass(frozen=True, slots=True)
class Transfer:
    """One part on its way from rank `source` to rank `target`; if both are one rank, it copies the part."""

    source: int
    target: int
    box: Box


def holdings(config: Config, layout: Layout, first: int = 0) -> Held:
    """What each rank holds of a model: rank `first` + d · tp + t has part t of `tp`, of which ZeRO-3 leaves it the d-th
    rows.

    `config` is a `transformer.Config`. ValueError for a layout that this map does not know, or that the model does not
    fit.
    """
    if odd := [axis for axis in ("pp", "cp", "ep", "replicas", "virtual") if getattr(layout, axis) != 1]:
        raise ValueError(
            f"Weights are mapped between layouts of tp and dp; {odd[0]}={getattr(layout, odd[0])} cannot be mapped."
        )
    if layout.zero not in (0, 3):
        raise ValueError(f"zero={layout.zero} leaves weights whole: give zero=0 for that, or 3 for sharded rows.")
    return {
        first + dp * int(layout.tp) + tp: {box.name: box for box in _boxes(config, layout, dp, tp)}
        for dp in range(int(layout.dp))
        for tp in range(int(layout.tp))
    }


def _boxes(config: Config, layout: Layout, dp: int, tp: int) -> Iterator[Box]:
    for pieces in plan(config, int(layout.tp), tp).values():
        for piece in pieces:
            ranges = [(0, length) for length in piece.shape]
            if piece.dim is not None:
                ranges[piece.dim] = piece.start, piece.stop
            if layout.zero == 3:
                first, last = ranges[0]
                start, stop = span(last - first, int(layout.dp), dp)
                ranges[0] = first + start, first + stop
            yield Box(piece.name, tuple(ranges))


def sync_map(sources: Held, targets: Held) -> list[Transfer]:
    """Who sends what to whom, such that every target gets each of its elements once.

    A rank that holds what it needs copies it. Of several others that hold the same box, the one that has sent the least
    so far sends it. ValueError if the sources lack an element that a target needs: then the layouts cannot be mapped.
    """
    holders: dict[str, dict[Box, list[int]]] = defaultdict(dict)
    for rank, held in sources.items():
        for box in held.values():
            if box.numel:
                holders[box.name].setdefault(box, []).append(rank)
    sent, found = dict.fromkeys(sources, 0), []
    for target, held in targets.items():
        for needed in held.values():
            parts = 0
            for box, ranks in holders[needed.name].items():
                if both := box.overlap(needed):
                    source = target if target in ranks else min(ranks, key=lambda rank: (sent[rank], rank))
                    sent[source] += both.numel * (source != target)
                    parts += both.numel
                    found.append(Transfer(source, target, both))
            if parts != needed.numel:
                raise ValueError(
                    f"The layouts cannot be mapped: rank {target} needs {needed.numel} numbers of {needed.name}, and "
                    f"the boxes of the sources give it {parts}. Each number must lie in one box."
                )
    return found


def buckets(transfers: Sequence[Transfer], limit: int, itemsize: int) -> list[list[Transfer]]:
    """The transfers in rounds, tensor after tensor: in a round, no rank sends or receives more than `limit` bytes.

    ValueError if a rank's part of one tensor alone is larger.
    """
    require_whole("limit", limit, "bytes")
    tensors: dict[str, list[Transfer]] = {}
    for each in transfers:
        tensors.setdefault(each.box.name, []).append(each)
    rounds: list[list[Transfer]] = [[]]
    for name, parts in tensors.items():
        if (most := _busiest(parts) * itemsize) > limit:
            raise ValueError(
                f"A bucket of {limit:,} bytes is too small: one rank moves {most:,} bytes of {name} alone."
            )
        if _busiest(rounds[-1] + parts) * itemsize > limit:
            rounds.append([])
        rounds[-1] += parts
    return rounds


def _busiest(transfers: Sequence[Transfer]) -> int:
    """The most numbers that one rank sends or receives."""
    moved: dict[tuple[str, int], int] = defaultdict(int)
    for each in transfers:
        if each.source != each.target:
            moved["from", each.source] += each.box.numel
            moved["to", each.target] += each.box.numel
    return max(moved.values(), default=0)


@dataclass(frozen=True, slots=True)
class SyncBytes:
    """Bytes of one sync, by rank. No way of sending has less than `floor` arrive: what targets need and do not hold."""

    sent: Mapping[int, int]
    received: Mapping[int, int]
    floor: int
    whole: int  # that arrive if every target gets every tensor whole and keeps its part


def sync_bytes(sources: Held, targets: Held, itemsize: int) -> SyncBytes:
    """The bytes of `sync_map`, predicted, for numbers of `itemsize` bytes."""
    sent, received = dict.fromkeys(sources, 0), dict.fromkeys(targets, 0)
    for each in sync_map(sources, targets):
        if each.source != each.target:
            sent[each.source] += each.box.numel * itemsize
            received[each.target] += each.box.numel * itemsize
    missing = 0
    for rank, held in targets.items():
        own = (sources.get(rank, {}).get(name, Box(name, ())) for name in held)
        both = (mine.overlap(box) if mine.ranges else None for mine, box in zip(own, held.values(), strict=True))
        missing += sum(box.numel for box in held.values()) - sum(box.numel for box in both if box)
    model = sum(box.numel for box in {box for held in sources.values() for box in held.values()})
    return SyncBytes(sent, received, missing * itemsize, model * len(targets) * itemsize)


def sync(
    comm: Comm,
    sources: Held,
    targets: Held,
    tensors: Mapping[str, Tensor],
    dtype: torch.dtype = torch.bfloat16,
    limit: int = 2**30,
) -> dict[str, Tensor]:
    """One sync, called by every rank of `sources` and `targets`: the parts that this rank needs; nothing if it is no
    target.

    `tensors` are those that it holds as a source. They travel in `dtype`, in buckets of `limit` bytes, and a pair of
    ranks exchanges one message in each bucket.
    """
    me, mine, needs = comm.rank, sources.get(comm.rank, {}), targets.get(comm.rank, {})
    got = {name: torch.empty(box.shape, dtype=dtype) for name, box in needs.items()}
    for bucket in buckets(sync_map(sources, targets), limit, dtype.itemsize):
        leave: dict[int, list[Tensor]] = defaultdict(list)
        arrive: dict[int, list[Box]] = defaultdict(list)
        for each in bucket:
            if each.source == me:
                part = each.box.of(tensors[each.box.name], mine[each.box.name])
                if each.target == me:
                    each.box.of(got[each.box.name], needs[each.box.name]).copy_(part)
                else:
                    leave[each.target].append(part.flatten().to(dtype))
            elif each.target == me:
                arrive[each.source].append(each.box)
        staged = {peer: torch.empty(sum(box.numel for box in boxes), dtype=dtype) for peer, boxes in arrive.items()}
        halves = [P2POp(comm.isend, torch.cat(parts), peer) for peer, parts in leave.items()]
        halves += [P2POp(comm.irecv, flat, peer) for peer, flat in staged.items()]
        for work in comm.batch_isend_irecv(halves) if halves else ():
            work.wait()
        for peer, boxes in arrive.items():
            for box, flat in zip(boxes, staged[peer].split([box.numel for box in boxes]), strict=True):
                box.of(got[box.name], needs[box.name]).copy_(flat.view(box.shape))
    return got
