"""What every rank holds after every round of an all-reduce: read from a real run, and drawn as a grid of sums.

Each number carries a stamp below its value, with one bit for each rank whose number it contains. Adding numbers adds
distinct powers of two, so the stamp of a sum shows which ranks' numbers it holds.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import torch
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MplPath
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from course_lib.cluster import Comm, Topology, collectives, simulate
from course_lib.cluster.comm import P2POp
from course_lib.cluster.records import Message
from course_lib.draw.palette import EMPTY, INK, ORANGE, PAPER, VERMILION, ink_on

_STAMP = 1 << 20  # values are stored above the stamps
_ROUNDS = Topology.flat(latency=1.0, bandwidth=1e30)  # every message takes one unit of time, so the clock counts rounds
MOST_RANKS = 16

PHASES: Mapping[str, tuple[str, str]] = {
    "ring": ("reduce-scatter", "all-gather"),
    "naive root": ("all ranks send to rank 0", "rank 0 sends to all ranks"),
    "tree": ("reduce, up the tree", "broadcast, down the tree"),
    "halving-doubling": ("halving", "doubling"),
}
"""The all-reduces that can be stepped through, and the names of their two phases."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One round: what moved, and what every rank holds after it."""

    phase: str  # "start", or one of the algorithm's two
    moved: tuple[tuple[int, int, tuple[int, ...]], ...]  # (src, dst, chunks that changed at dst)
    values: tuple[tuple[int, ...], ...]  # values[rank][chunk]
    holds: tuple[tuple[int, ...], ...]  # how many ranks' numbers each chunk contains
    sent: tuple[int, ...]  # bytes that each rank has sent so far
    links: tuple[tuple[int, int, int], ...]  # (src, dst, bytes so far) of the links in use


@dataclass(frozen=True, slots=True)
class Walk:
    """A whole all-reduce of one number a chunk, round by round. `frames[0]` is the start."""

    algorithm: str
    ranks: int
    nbytes: int  # one rank's tensor
    frames: tuple[Frame, ...]


class _Watched:
    """A communicator that records the tensor before every operation, and the ranks that took part."""

    def __init__(self, comm: Comm, x: torch.Tensor) -> None:
        self._comm, self._x = comm, x
        self.rank, self.size = comm.rank, comm.size
        self.isend, self.irecv = comm.isend, comm.irecv  # names for P2POp; started in a batch only
        self.ops: list[list[tuple[int, int]]] = []
        self.seen: list[list[int]] = []

    def _note(self, *pairs: tuple[int, int]) -> None:
        self.seen.append(self._x.tolist())
        self.ops.append(list(pairs))

    def send(self, tensor: torch.Tensor, dst: int) -> None:
        self._note((self.rank, dst))
        self._comm.send(tensor, dst)

    def recv(self, tensor: torch.Tensor, src: int) -> int:
        self._note((src, self.rank))
        return self._comm.recv(tensor, src)

    def batch_isend_irecv(self, halves: Sequence[P2POp]) -> object:
        self._note(*((self.rank, one.peer) if one.op.__name__ == "isend" else (one.peer, self.rank) for one in halves))
        return self._comm.batch_isend_irecv(halves)


def _watch(
    comm: Comm, algorithm: Callable[..., object], x: torch.Tensor
) -> tuple[list[list[tuple[int, int]]], list[list[int]]]:
    watched = _Watched(comm, x)
    algorithm(watched, x)
    return watched.ops, [*watched.seen, x.tolist()]


def start_values(ranks: int) -> list[list[int]]:
    """Small integers, a different row for each rank, the same on every call."""
    draw = random.Random(ranks)
    return [[draw.randint(1, 9) for _ in range(ranks)] for _ in range(ranks)]


@lru_cache(maxsize=64)
def walk(algorithm: str = "ring", ranks: int = 5) -> Walk:
    """The rounds of an all-reduce of `ranks` numbers on as many ranks, recorded from a simulated run."""
    if algorithm not in PHASES:
        raise ValueError(f"algorithm is {algorithm!r}; choose from {', '.join(PHASES)}.")
    if not 2 <= ranks <= MOST_RANKS:
        raise ValueError(f"ranks is {ranks}; a walk can show 2 to {MOST_RANKS}.")
    stamped = [
        torch.tensor([value * _STAMP + (1 << rank) for value in row]) for rank, row in enumerate(start_values(ranks))
    ]
    run = simulate(
        _watch, ranks, args=(collectives.ALL_REDUCES[algorithm][0],), per_rank=[(x,) for x in stamped], topology=_ROUNDS
    )
    messages = sorted(run.messages, key=lambda message: (message.arrived, message.src, message.dst))
    ends = [_op_ends(ops, rank, messages) for rank, (ops, _) in enumerate(run.results)]
    now = [snapshots[0] for _, snapshots in run.results]
    frames = [Frame("start", (), *_read(now), (0,) * ranks, ())]
    gone: list[Message] = []
    for now_round, group in groupby(messages, key=lambda message: round(message.arrived)):
        batch = list(group)
        gone += batch
        after = [
            snapshots[sum(end <= now_round for end in ends[rank])] for rank, (_, snapshots) in enumerate(run.results)
        ]
        moved = tuple((m.src, m.dst, _changed(now[m.dst], after[m.dst])) for m in batch)
        shares = all(_full(now[src][chunk], ranks) for src, _, chunks in moved for chunk in chunks)
        totals: dict[tuple[int, int], int] = {}
        for message in gone:
            totals[message.src, message.dst] = totals.get((message.src, message.dst), 0) + message.nbytes
        sent = tuple(sum(size for (src, _), size in totals.items() if src == rank) for rank in range(ranks))
        links = tuple((*pair, size) for pair, size in sorted(totals.items()))
        frames.append(Frame(PHASES[algorithm][shares], moved, *_read(after), sent, links))
        now = after
    return Walk(algorithm, ranks, stamped[0].nbytes, tuple(frames))


def _op_ends(ops: Sequence[Sequence[tuple[int, int]]], rank: int, messages: Sequence[Message]) -> list[int]:
    """The round in which each operation of a rank ended; messages of a pair arrive in the order of their operations."""
    queues: dict[tuple[int, int], list[int]] = {}
    for message in messages:
        if rank in (message.src, message.dst):
            queues.setdefault((message.src, message.dst), []).append(round(message.arrived))
    return [max(queues[pair].pop(0) for pair in pairs) for pairs in ops]


def _changed(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    return tuple(chunk for chunk, (one, other) in enumerate(zip(before, after, strict=True)) if one != other)


def _full(number: int, ranks: int) -> bool:
    return number % _STAMP == (1 << ranks) - 1


def _read(rows: Sequence[Sequence[int]]) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    values = tuple(tuple(number // _STAMP for number in row) for row in rows)
    return values, tuple(tuple((number % _STAMP).bit_count() for number in row) for row in rows)


# --- drawing


def tint(share: float) -> str:
    """The color of a sum over this share of the ranks: from nearly empty to the full color of gradients."""
    ends = [[int(code[place : place + 2], 16) for place in (1, 3, 5)] for code in (EMPTY, ORANGE)]
    mixed = (round(low + (high - low) * share) for low, high in zip(*ends, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def cell_place(
    ranks: int, corner: tuple[float, float], side: tuple[float, float], rank: int, chunk: float
) -> tuple[float, float]:
    """The center of a cell of the grid, in inches; rank 0 is the top row."""
    return corner[0] + (chunk + 0.5) * side[0] / ranks, corner[1] + (ranks - rank - 0.5) * side[1] / ranks


def draw_sums(
    axes: Axes, frame: Frame, ranks: int, corner: tuple[float, float], side: tuple[float, float], size: float
) -> None:
    """A grid of ranks (rows) by chunks on a `sheet`; the fill shows how complete a sum is, a red edge what just
    arrived.

    `corner` is the lower left one and `side` the width and height, in inches; `size` of the numbers in points.
    """
    fresh = {(dst, chunk) for _, dst, chunks in frame.moved for chunk in chunks}
    half = (0.44 * side[0] / ranks, 0.43 * side[1] / ranks)
    boxes: dict[tuple[bool, int], list[tuple[float, float]]] = {}
    numbers: dict[str, list[tuple[str, tuple[float, float]]]] = {}
    inks = {held: ink_on(fill_of(held, ranks)) for held in range(1, ranks + 1)}
    for rank in range(ranks):
        for chunk in range(ranks):
            place, held = cell_place(ranks, corner, side, rank, chunk), frame.holds[rank][chunk]
            boxes.setdefault(((rank, chunk) in fresh, held), []).append(place)
            numbers.setdefault(inks[held], []).append((str(frame.values[rank][chunk]), place))
    for new, held in sorted(boxes):
        edge = VERMILION if new else INK if held == ranks else PAPER
        outline = MplPath.make_compound_path(*(_box(place, half) for place in boxes[new, held]))
        axes.add_artist(
            PathPatch(outline, facecolor=fill_of(held, ranks), edgecolor=edge, linewidth=2.0 if new else 0.8)
        )
    for ink, texts in numbers.items():
        draw_texts(axes, texts, ink, size)


def fill_of(held: int, ranks: int) -> str:
    """The fill of a chunk that holds the numbers of `held` ranks."""
    return tint(0.0 if held == 1 else held / ranks)


def draw_texts(
    axes: Axes, texts: Sequence[tuple[str, tuple[float, float]]], ink: str, size: float, halo: bool = False
) -> None:
    """Many short texts in one color, centered on points of a `sheet`, as a single shape; a halo keeps lines off
    them."""
    outlines = [_outline(text, size).transformed(Affine2D().translate(*place)) for text, place in texts if text]
    if outlines:
        whole = MplPath.make_compound_path(*outlines)
        if halo:
            axes.add_artist(PathPatch(whole, facecolor=PAPER, edgecolor=PAPER, linewidth=4, zorder=4))
        axes.add_artist(PathPatch(whole, facecolor=ink, linewidth=0, zorder=5))


@lru_cache(maxsize=2048)
def _outline(text: str, size: float) -> MplPath:
    """The shape of a text around its center, in inches."""
    outline = TextPath((0, 0), text, size=size / 72)
    box = outline.get_extents()
    return outline.transformed(Affine2D().translate(-(box.x0 + box.x1) / 2, -0.73 * size / 144))


def _box(middle: tuple[float, float], half: tuple[float, float]) -> MplPath:
    (x, y), (wide, high) = middle, half
    corners = [
        (x - wide, y - high),
        (x + wide, y - high),
        (x + wide, y + high),
        (x - wide, y + high),
        (x - wide, y - high),
    ]
    return MplPath(corners, closed=True)
