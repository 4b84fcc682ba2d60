"""Chapter 13's widgets on layouts: where each axis is placed, and the strategy explorer."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import permutations

from course_lib.exercises.running_example import BATCH, SEQ
from course_lib.figures.placing import placing
from course_lib.figures.sheets import Sheet
from course_lib.mesh import Mesh, fill, network, placements, sent_bytes, widest
from course_lib.mesh.cost import Placement
from course_lib.units import duration_text
from course_lib.widgets.explore import Explorer, explore, menu, play, slider

# --- placement -----------------------------------------------------------------------------------

GPUS = 64
PLACES = ("tp", "cp", "dp", "pp")
ORDERS = tuple(" ".join(order) for order in permutations(PLACES))
WIRE_WORDS = {"server": "NVLink", "network": "network", "": "one rank"}
DEVICES = ("A100 SXM 80GB", "H100 SXM", "B200 SXM")


@lru_cache(maxsize=256)
def orders(tp: int, cp: int, pp: int, device: str) -> tuple[Placement, ...]:
    """Every order of the axes of the running example, the quickest first. ValueError if the sizes do not divide the GPUs."""
    sizes = fill(GPUS, pp=pp, cp=cp, tp=tp)
    sent = sent_bytes("llama3-70b", sizes, BATCH / SEQ, SEQ)
    joint = {("dp", "cp"): sent["dp"], **{axis: sent[axis] for axis in ("pp", "cp", "tp")}}
    return tuple(placements(sizes, joint, network(device)))


def by_axis(seconds: Mapping, sizes: Mapping[str, int]) -> dict[str, float]:
    """Seconds under the name of one axis each: gradients, which dp and cp average together, count for dp, or cp without it."""
    name = "dp" if sizes["dp"] > 1 else "cp"
    found: dict[str, float] = {}
    for axes, count in seconds.items():
        key = name if isinstance(axes, tuple) else axes
        found[key] = found.get(key, 0.0) + count
    return found


def draw_placement(
    order: str = "tp cp dp pp", rank: int = 0, tp: int = 8, cp: int = 1, pp: int = 4, device: str = "H100 SXM"
) -> Sheet:
    """The running example's 64 GPUs with the groups of one rank, in one order of the axes from the inside out."""
    every = orders(tp, cp, pp, device)
    sizes = fill(GPUS, pp=pp, cp=cp, tp=tp)
    mesh = Mesh({axis: sizes[axis] for axis in reversed(order.split())})
    mine = next(each for each in every if _same(each.mesh, mesh))
    net = network(device)
    wires = {axis: WIRE_WORDS[widest(mesh, axis, net)] for axis in mesh.axes}
    place = 1 + sum(each.total < mine.total * (1 - 1e-9) for each in every)
    better = "no order is quicker" if place == 1 else f"the best is {mine.total / every[0].total:.2g} × quicker"
    inside_out = " → ".join(f"{axis} {sizes[axis]}" for axis in order.split() if sizes[axis] > 1)
    sheet = placing(
        mesh,
        rank,
        by_axis(mine.seconds, sizes),
        wires,
        f"From the inside out: {inside_out}",
        f"70B on 64 × {device}; rank {rank} and its groups. Place {place} of {len(every)}: {better}",
    )
    costs = ", ".join(
        f"{axis} {duration_text(count)} over {wires[axis]}" for axis, count in by_axis(mine.seconds, sizes).items()
    )
    groups = "; ".join(f"{axis} {list(mesh.group(rank, axis))}" for axis in order.split() if sizes[axis] > 1)
    sheet.alt = (
        f"Order {inside_out} on {device}: {costs}; place {place} of {len(every)}. Groups of rank {rank}: {groups}."
    )
    return sheet


def _same(one: Mesh, other: Mesh) -> bool:
    """Whether two meshes number ranks alike; axes of one rank do not matter."""
    return [item for item in one.sizes.items() if item[1] > 1] == [item for item in other.sizes.items() if item[1] > 1]


def placement(order: str = "pp dp cp tp", rank: int = 0) -> Explorer:
    """Put each axis on a wire: choose the order of the axes, follow a rank's groups, and read what a step's communication costs."""
    return explore(
        draw_placement,
        order=menu(ORDERS, order, label="inside out", text=lambda each: " → ".join(each.split())),
        rank=play(range(GPUS), rank, label="rank", interval=500),
        tp=slider((1, 2, 4, 8, 16), 8, label="tp"),
        cp=slider((1, 2, 4, 8), 1, label="cp"),
        pp=slider((1, 2, 4, 8), 4, label="pp"),
        device=menu(DEVICES, "H100 SXM", label="device"),
    )
