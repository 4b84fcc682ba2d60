"""A training step on four axes in pictures: which messages cross a server's border, and how gradients are added over
dp × cp.

The step is one of `parallel.four_axes` on the metered cluster: 16 ranks in servers of four, in one of two orders of the
axes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from course_lib.cluster import Comm, Run, Topology, simulate
from course_lib.cluster.records import Message
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, SKY, SOFT, VERMILION, ink_on
from course_lib.draw.sheets import Point, Sheet
from course_lib.estimate.units import bytes_text, count_text
from course_lib.parallel import four_axes
from course_lib.parallel.mesh import Mesh

SIZES = dict.fromkeys(four_axes.AXES, 2)
PER_SERVER = 4
ORDERS = {"tp inside the servers": ("dp", "pp", "cp", "tp"), "dp inside the servers": ("tp", "cp", "pp", "dp")}
BOTH = "dp × cp"
HOPS = 3  # of four ranks around a ring: to add the parts, and to hand them on
SCENES = (  # on the slider, along which axis, and what happens
    ("count", BOTH, "the targets are counted"),
    ("tp", "tp", "forward and backward, sums of activations"),
    ("cp", "cp", "forward and backward, keys and values around a ring"),
    ("pp", "pp", "forward and backward, from stage to stage"),
    *((f"add, hop {hop}", BOTH, f"gradients, reduce-scatter: hop {hop} of {HOPS}") for hop in range(1, HOPS + 1)),
    *((f"gather, hop {hop}", BOTH, f"gradients, all-gather: hop {hop} of {HOPS}") for hop in range(1, HOPS + 1)),
    ("norm", "tp, then pp", "the norm of all gradients"),
)
GRADIENTS = 4  # the first scene of them
HUES = {(0, 0): BLUE, (0, 1): SKY, (1, 0): GREEN, (1, 1): ORANGE}  # of (stage, part of its matrices)
WIDTH, HEIGHT, GPU, CELL, GAP = 6.7, 4.75, 0.52, 0.82, 0.2  # inches: a GPU, from one to the next, between servers


class Sent(NamedTuple):
    """A message, the axis along which it goes, and whether it leaves its server."""

    message: Message
    axis: str
    border: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A recorded step: its messages by scene, each rank's coordinates, and the numbers in its part of the weights."""

    run: Run
    scenes: Sequence[Sequence[Sent]]
    at: Sequence[Mapping[str, int]]
    weights: Sequence[int]

    def nbytes(self, axis: str, border: bool, scene: int) -> int:
        """Bytes along an axis up to a scene, across the borders of servers or inside them."""
        sent = (each for scene_before in self.scenes[: scene + 1] for each in scene_before)
        return sum(each.message.nbytes for each in sent if (each.axis, each.border) == (axis, border))


class _Placed(Comm):
    """The world of ranks as `four_axes` numbers them, on the ranks of the cluster that another order gives them."""

    def __init__(self, comm: Comm, order: Sequence[str]) -> None:
        logical, physical = Mesh(SIZES), Mesh({axis: SIZES[axis] for axis in order})
        super().__init__(range(comm.size))
        self._where = [physical.rank(logical.coordinates(rank)) for rank in range(comm.size)]

    @property
    def rank(self) -> int:
        return self._where.index(super().rank)

    def new_group(self, ranks: Sequence[int]) -> Comm:
        return super().new_group([self._where[rank] for rank in ranks])


def _one_step(comm: Comm, order: Sequence[str], job: four_axes.Job) -> tuple[Mapping[str, int], int]:
    placed = _Placed(comm, order)
    rank = four_axes.set_up(placed, SIZES, job)
    four_axes.forward_backward(rank, *four_axes.own_batch(rank, job, 0))
    four_axes.add_gradients(rank)
    four_axes.clip(rank, job.max_norm)
    return rank.at, sum(weight.numel() for weight in rank.weights.values())


def _axis(message: Message, here: Mapping[str, int], there: Mapping[str, int]) -> str:
    """The axis along which a message goes; a collective over dp or cp, which has a tag, is one over both."""
    axis = next(axis for axis in four_axes.AXES if here[axis] != there[axis])
    return BOTH if message.tag and axis in ("dp", "cp") else axis


@lru_cache(maxsize=4)
def record(order: str = "tp inside the servers") -> Step:
    """One step up to the norm of the gradients. A message's scene follows from the axes along which its ranks differ,
    and from the call that sent it: the group of dp × cp has two, and the norm's is the last one along tp and pp."""
    job = four_axes.Job(sequences=4)
    run = simulate(_one_step, 16, (ORDERS[order], job), topology=Topology.nodes(PER_SERVER))
    at, weights = zip(*run.results, strict=True)
    sent = [(message, _axis(message, at[message.src], at[message.dst])) for message in run.messages]
    last = {(message.src, axis): message.tag for message, axis in sent}  # a rank's last call along an axis
    scenes: list[list[Sent]] = [[] for _ in SCENES]
    hops = [0] * len(at)  # of gradients, by the rank that sends
    for message, axis in sent:
        scene = 0 if axis == BOTH else 1 + ("tp", "cp", "pp").index(axis)
        if axis == BOTH and message.tag > 1:
            scene = GRADIENTS + hops[message.src]
            hops[message.src] += 1
        elif axis != BOTH and message.tag and message.tag == last[message.src, axis]:
            scene = len(SCENES) - 1
        scenes[scene].append(Sent(message, axis, message.src // PER_SERVER != message.dst // PER_SERVER))
    return Step(run, scenes, at, weights)


def draw_step(scene: int = GRADIENTS, order: str = "tp inside the servers") -> Sheet:
    """One scene of a step: the servers with their GPUs, the messages, and the bytes of each axis up to here."""
    step, (_, axis, words) = record(order), SCENES[scene]
    sheet = Sheet(HEIGHT, WIDTH)
    title = f"{scene + 1} of {len(SCENES)}, {axis}: {words}"
    crossing = sum(each.border for each in step.scenes[scene])
    said = f"{crossing} of {count_text(len(step.scenes[scene]), 'message')} across a border"
    sheet.head(title, f"Axes, the slowest first: {', '.join(ORDERS[order])}. {said}")
    for server in range(len(step.at) // PER_SERVER):
        left, low = _corner(server * PER_SERVER)
        sheet.boxes([(left - 0.1, left + CELL + GPU + 0.1, low - CELL - 0.1, low + GPU + 0.1)], EMPTY, order=0)
    for rank, at in enumerate(step.at):
        _gpu(sheet, rank, at)
    for source, target, border in sorted(
        {(each.message.src, each.message.dst, each.border) for each in step.scenes[scene]}
    ):
        sheet.arrow(_way(source, target), VERMILION if border else SOFT, 1.8 if border else 1.2, order=1)
    totals = _bars(sheet, step, scene)
    sheet.keys(0.25, 0.17, {"crosses a border": VERMILION, "inside a server": SOFT}, gap=0.35)
    sheet.text(3.1, 0.17, "Same color: same weights, one group of dp × cp.", va="center", ink=SOFT)
    groups = Mesh({one: SIZES[one] for one in ORDERS[order]}).groups("dp", "cp")
    held = "; ".join(f"ranks {', '.join(map(str, ranks))}: {step.weights[ranks[0]]:,} weights" for ranks in groups)
    sheet.alt = f"{title}. Order {order}: {said}. Bytes so far: {totals}. Groups of dp × cp: {held}."
    return sheet


def _grid(rank: int) -> tuple[int, int]:
    """A GPU's column and row: servers two by two, and in each its GPUs two by two."""
    server, place = divmod(rank, PER_SERVER)
    return 2 * (server % 2) + place % 2, 2 * (server // 2) + place // 2


def _corner(rank: int) -> Point:
    """The lower left corner of a GPU."""
    column, row = _grid(rank)
    return 0.35 + column * CELL + column // 2 * GAP, HEIGHT - 1.4 - row * CELL - row // 2 * GAP


def _gpu(sheet: Sheet, rank: int, at: Mapping[str, int]) -> None:
    """A GPU in the color of its part of the weights, with its rank and its place along dp and cp."""
    left, low = _corner(rank)
    fill = HUES[at["pp"], at["tp"]]
    sheet.boxes([(left, left + GPU, low, low + GPU)], fill)
    middle, ink = left + GPU / 2, ink_on(fill)
    sheet.text(middle, low + 0.33, str(rank), size=style.NORMAL, ink=ink, ha="center", va="center", bold=True)
    sheet.text(middle, low + 0.15, f"dp{at['dp']} cp{at['cp']}", size=7.0, ink=ink, ha="center", va="center")


def _way(source: int, target: int) -> list[Point]:
    """From one GPU to another in its row or column: straight to a neighbor, else along a lane beside the others."""
    here, there = ([edge + GPU / 2 for edge in _corner(rank)] for rank in (source, target))
    moves = int(_grid(source)[0] == _grid(target)[0])  # 0: across, 1: up or down
    step, middle = there[moves] - here[moves], here[1 - moves]
    if abs(step) < CELL + GAP + 0.01:
        half, beside = (
            math.copysign(GPU / 2, step),
            middle + math.copysign(0.06, step),
        )  # on one side there, on one back
        path = [(here[moves] + half, beside), (there[moves] - half, beside)]
    else:
        edge = middle + GPU / 2
        lane = edge + 0.06 + 0.08 * (_grid(min(source, target))[moves] % 2)
        path = [(here[moves], edge), (here[moves], lane), (there[moves], lane), (there[moves], edge)]
    return [(y, x) for x, y in path] if moves else path


def _bars(sheet: Sheet, step: Step, scene: int) -> str:
    """Bytes of each axis so far, inside servers and across their borders; the same in words."""
    left, wide, axes, said = 4.35, 1.55, ("tp", "cp", "pp", BOTH), []
    most = max(step.nbytes(axis, border, len(SCENES)) for axis in axes for border in (True, False))
    sheet.text(left, HEIGHT - 0.86, "sent so far, by the meter", ink=SOFT)
    for row, axis in enumerate(axes):
        y = HEIGHT - 1.2 - 0.64 * row
        sheet.text(left, y, axis, size=style.NORMAL, bold=True)
        for place, (border, ink) in enumerate(((False, SOFT), (True, VERMILION))):
            nbytes, low = step.nbytes(axis, border, scene), y - 0.2 - 0.19 * place
            sheet.boxes([(left, left + max(0.015, wide * nbytes / most), low, low + 0.12)], ink if nbytes else EMPTY)
            sheet.text(left + wide * nbytes / most + 0.08, low + 0.06, bytes_text(nbytes), va="center")
            said.append(f"{axis} {bytes_text(nbytes)} {'across borders' if border else 'inside servers'}")
    crossed = sum(step.nbytes(axis, True, scene) for axis in axes)
    whole = crossed + sum(step.nbytes(axis, False, scene) for axis in axes)
    y = HEIGHT - 1.2 - 0.64 * len(axes)
    sheet.text(left, y, f"across borders: {bytes_text(crossed)}", size=style.NORMAL, ink=INK, bold=True)
    sheet.text(left, y - 0.18, f"of {bytes_text(whole)}", ink=SOFT)
    for pp in range(2):
        parts = {f"pp{pp} tp{tp}": HUES[pp, tp] for tp in range(2)}
        sheet.keys(left + 0.05, y - 0.4 - 0.19 * pp, parts, gap=0.35)
    return f"{', '.join(said)}; in all {bytes_text(crossed)} of {bytes_text(whole)} across borders"


def mesh_step(scene: int = 1) -> Explorer:
    """Play a training step on four axes: which messages cross a border, and how gradients are added over dp × cp."""
    for order in ORDERS:
        record(order)  # in advance: a control must not wait for a run
    return explore(
        draw_step,
        scene=play(range(len(SCENES)), scene, label="scene", text=lambda scene: SCENES[scene][0], interval=1500),
        order=menu(tuple(ORDERS), label="order"),
    )
