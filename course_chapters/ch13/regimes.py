"""Chapter 13's widgets: the regime cube, and the wires from a server to the whole cluster."""

from course_chapters.ch03.levels import zoom as draw_level
from course_chapters.ch13.cube import INKS, Point, cube
from course_chapters.ch13.regime import ASSUMES, AXES, Regime, regime
from course_lib.draw import style
from course_lib.draw.explore import Explorer, buttons, explore, menu, play, slider
from course_lib.draw.sheets import Sheet
from course_lib.draw.style import Picture
from course_lib.estimate import facts, roofline
from course_lib.estimate.facts import Device
from course_lib.estimate.units import BILLION, DAY, GB, KB, MB, bytes_text, duration_text, number_text

# --- the regime cube -----------------------------------------------------------------------------

RUNS = ("Llama 3 8B", "Llama 2 7B", "Llama 3 70B", "GPT-3 175B", "Llama 3.1 405B")
SMALL = ("1B", 1.0 * BILLION, 20.0 * BILLION)  # twenty tokens per parameter
YOURS = "your model"
CUBE_DEVICES = ("A100 SXM 80GB", "H100 SXM", "B200 SXM")
COUNTS = tuple(2**power for power in range(3, 15))
SIZES = tuple(round(BILLION * 10 ** (step / 4), -7) for step in range(-4, 14))
DEADLINES, STEPS = (7, 14, 30, 60, 90, 180), (1, 2, 5, 10, 20, 30)
ADAPTERS = (10, 25, 100, 200, 400, 800)  # Gb/s
EDGES = ("memory: state / one GPU", "compute: run / deadline", "bandwidth: gradients / step")
TURNS = tuple(range(0, 360, 6))


def models(own: float) -> dict[str, tuple[float, float]]:
    """Parameters and training tokens of the models in the cube; yours has twenty tokens per parameter."""
    found = {SMALL[0]: SMALL[1:]}
    for name in RUNS:
        run = facts.run(name)
        found[name] = float(run.params), float(run.tokens)
    return {**found, YOURS: (own, 20 * own)}


def loads(params: float, tokens: float, device: str, devices: int, gbit: float, deadline: float, step: float) -> Regime:
    """The three loads on so many devices with adapters of `gbit` Gb/s, for a deadline in days and a step in seconds."""
    one: Device = facts.device(device)
    return regime(
        params,
        tokens,
        devices=devices,
        device_memory=float(one.memory),
        flops_per_s=float(one.dense_flops),
        link=float(one.link_one_way),
        adapter=gbit * GB / 8,
        deadline_s=deadline * DAY,
        target_step_s=step,
    )


def draw_cube(
    model: str = "Llama 3.1 405B",
    turn: int = 30,
    tilt: int = 18,
    devices: int = 64,
    device: str = "H100 SXM",
    gbit: int = 400,
    deadline: int = 60,
    step: int = 10,
    own: float = 10 * BILLION,
) -> Sheet:
    """Models by their loads on memory, compute and bandwidth, colored by the axis that binds."""
    points = []
    for name, (params, tokens) in models(own).items():
        found = loads(params, tokens, device, devices, gbit, deadline, step)
        points.append(Point(name, found.loads, found.binding))
    sheet = cube(points, EDGES, model, turn, tilt)
    sheet.head(
        "What binds? Three budgets, one model a point",
        f"{devices:,} × {device}, adapters of {gbit} Gb/s, {deadline} days, steps of {step} s; gray box: all "
        f"three are met",
    )
    sheet.keys(0.2, 0.16, {f"{axis} binds": INKS[axis] for axis in AXES} | {"none": INKS["none"]}, 0.45)
    said = [
        f"{each.name} {', '.join(f'{number_text(value)}' for value in each.values)} ({each.binding})" for each in points
    ]
    sheet.alt = (
        f"Loads on memory, compute and bandwidth with {devices:,} {device} at {gbit} Gb/s, {deadline} days, {step} s "
        f"a step, and in brackets what binds: {'; '.join(said)}. {ASSUMES}. Chosen: {model}, seen from {turn}° around "
        f"and {tilt}° above."
    )
    return sheet


def regimes(model: str = "Llama 3.1 405B", devices: int = 64) -> Explorer:
    """Click a model, turn the cube, and change the cluster: which of the three budgets binds?"""
    return explore(
        draw_cube,
        model=buttons((SMALL[0], *RUNS, YOURS), model, label="model"),
        turn=play(TURNS, 30, label="turn", text=lambda angle: f"{angle}°", interval=120),
        tilt=slider(tuple(range(0, 91, 6)), 18, label="tilt", text=lambda angle: f"{angle}°"),
        devices=slider(COUNTS, devices, label="GPUs", text=lambda count: f"{count:,}"),
        device=menu(CUBE_DEVICES, "H100 SXM", label="device"),
        gbit=slider(ADAPTERS, 400, label="adapter", text=lambda rate: f"{rate} Gb/s"),
        deadline=slider(DEADLINES, 60, label="deadline", text=lambda days: f"{days} days"),
        step=slider(STEPS, 10, label="target step", text=lambda seconds: f"{seconds} s"),
        own=slider(SIZES, 10 * BILLION, label="your model", text=lambda size: f"{size / BILLION:g}B"),
    )


# --- from a server to the cluster ----------------------------------------------------------------

TOPOLOGIES = ("Llama 3 cluster", "DGX H100 server", "DGX A100 server", "GB200 NVL72 rack")
PAYLOADS = (64 * KB, MB, 16 * MB, 256 * MB, GB, 16 * GB)


def draw_wires(level: int = 1, payload: float = GB, topology: str = "Llama 3 cluster") -> Picture:
    """One level of a cluster, its bandwidth, and how long each level takes for the same payload of one device."""
    views = roofline.levels(topology)
    picture = draw_level(views, min(level, len(views) - 1))
    times = [f"{each.name} {duration_text(payload / each.bandwidth)}" for each in views]
    line = f"The same {bytes_text(payload)} of one device: {', '.join(times)}."
    high = picture.get_figheight()
    picture.text(0.25 / style.WIDTH, 0.14 / high, line, **style.font(style.SMALL))
    picture.alt += f" {line}"
    return picture


def wires(level: int = 1, topology: str = "Llama 3 cluster") -> Explorer:
    """Zoom out from a device: what each level holds, its bandwidth one way, and the time of the same payload."""
    names = ("device", "1 level out", "2 levels out", "3 levels out", "4 levels out")
    return explore(
        draw_wires,
        level=play(
            range(len(names)),
            level,
            label="zoom",
            text=lambda place: names[place],
            interval=1500,
            last=lambda now: len(roofline.levels(now["topology"])) - 1,
        ),
        payload=slider(PAYLOADS, GB, label="payload", text=bytes_text),
        topology=menu(TOPOLOGIES, topology, label="cluster"),
    )
