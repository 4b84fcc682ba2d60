"""Chapter 13's widgets on layouts: where each axis is placed, and the strategy explorer."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import permutations
from typing import TypedDict

from course_chapters.ch13.placing import placing
from course_chapters.ch13.plan_sheet import plan_sheet
from course_chapters.ch13.tradeoff import Way, tradeoff
from course_lib.draw.explore import Explorer, buttons, explore, menu, play, show_widget, slider
from course_lib.draw.sheets import Sheet
from course_lib.estimate import facts
from course_lib.estimate.memory import Layout
from course_lib.estimate.running_plan import BATCH, GPUS, LAYOUT, MODEL, SEQ, SEQUENCES
from course_lib.estimate.units import GB, duration_text, percent_text
from course_lib.parallel import planner
from course_lib.parallel.mesh import Mesh, fill, network, placements, widest
from course_lib.parallel.mesh.cost import Placement
from course_lib.parallel.mesh.plans import Plan, plan
from course_lib.parallel.mesh.wires import Axes

# --- placement -----------------------------------------------------------------------------------

PLACES = ("tp", "cp", "dp", "pp")
ORDERS = tuple(" ".join(order) for order in permutations(PLACES))
WIRE_WORDS = {"server": "NVLink", "network": "network", "": "one rank"}
DEVICES = ("A100 SXM 80GB", "H100 SXM", "B200 SXM")


@lru_cache(maxsize=256)
def orders(tp: int, cp: int, pp: int, device: str) -> tuple[Placement, ...]:
    """Every order of the axes of the running example, the quickest first. ValueError if the sizes do not divide the
    GPUs."""
    sizes = fill(GPUS, pp=pp, cp=cp, tp=tp)
    job = planner.Job(model=MODEL, seq=SEQ, sequences=SEQUENCES, software=planner.TAUGHT)
    sent = planner.traffic(job, Layout(dp=sizes["dp"], cp=cp, pp=pp, tp=tp, sp=tp > 1), gradient=2)  # all in 16 bits
    joint: dict[Axes, float] = {
        ("dp", "cp"): float(sent["dp"]),
        **{axis: float(sent[axis]) for axis in ("pp", "cp", "tp")},
    }
    return tuple(placements(sizes, joint, network(device)))


def by_axis(seconds: Mapping, sizes: Mapping[str, int]) -> dict[str, float]:
    """Seconds under the name of one axis each: gradients, which dp and cp average together, count for dp, or cp without
    it."""
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
        f"70B on {GPUS} × {device}, all messages in 16 bits; rank {rank} and its groups. "
        f"Place {place} of {len(every)}: {better}",
    )
    costs = ", ".join(
        f"{axis} {duration_text(count)} over {wires[axis]}" for axis, count in by_axis(mine.seconds, sizes).items()
    )
    groups = "; ".join(f"{axis} {list(mesh.group(rank, axis))}" for axis in order.split() if sizes[axis] > 1)
    where = f"Order {inside_out} on {device}, all messages in 16 bits"
    sheet.alt = f"{where}: {costs}; place {place} of {len(every)}. Groups of rank {rank}: {groups}."
    return sheet


def _same(one: Mesh, other: Mesh) -> bool:
    """Whether two meshes number ranks alike; axes of one rank do not matter."""
    return [item for item in one.sizes.items() if item[1] > 1] == [item for item in other.sizes.items() if item[1] > 1]


def placement(order: str = "pp dp cp tp", rank: int = 0) -> Explorer:
    """Put each axis on a wire: choose the order of the axes, follow a rank's groups, and read what a step's
    communication costs."""
    return explore(
        draw_placement,
        order=menu(ORDERS, order, label="inside out", text=lambda each: " → ".join(each.split())),
        rank=play(range(GPUS), rank, label="rank", interval=500),
        tp=slider((1, 2, 4, 8, 16), 8, label="tp"),
        cp=slider((1, 2, 4, 8), 1, label="cp"),
        pp=slider((1, 2, 4, 8), 4, label="pp"),
        device=menu(DEVICES, "H100 SXM", label="device"),
    )


# --- the strategy explorer -----------------------------------------------------------------------

MODELS = {
    "7B": "llama2-7b",
    "8×7B experts": "mixtral-8x7b",
    "8B": "llama3-8b",
    "70B": "llama3-70b",
    "175B": "gpt3-175b",
    "405B": "llama3-405b",
}
COUNTS = tuple(2**power for power in range(0, 15))
POWERS = (1, 2, 4, 8, 16, 32)
SHARDING = {"none (plain DP)": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3 (FSDP)": 3}
LENGTHS = (2048, 4096, 8192, 32_768, 131_072)
BATCHES = tuple(2**power for power in range(18, 26))  # tokens of a step
BYTES = {"12 bytes (no master copy)": "A", "16 bytes (ZeRO's)": "B", "18 bytes (fp32 gradients)": "C"}
START: Mapping[str, object] = {
    "model": "70B",
    "gpus": GPUS,
    "tp": LAYOUT["tp"],
    "pp": LAYOUT["pp"],
    "cp": 1,
    "sharding": "ZeRO-1",
    "seq": SEQ,
    "batch": BATCH,
    "micro": 1,
    "virtual": 1,
    "recompute": "none",
    "state": "18 bytes (fp32 gradients)",
    "device": "H100 SXM",
    "ep": 1,
}
_SIMPLE = {"tp": 1, "pp": 1, "cp": 1, "micro": 1, "virtual": 1, "device": "H100 SXM", "batch": BATCH}
PRESETS: Mapping[str, Mapping[str, object]] = {
    "7B on 8 GPUs": {
        **_SIMPLE,
        "model": "7B",
        "gpus": 8,
        "sharding": "none (plain DP)",
        "seq": 2048,
        "recompute": "full",
        "state": "12 bytes (no master copy)",
    },
    "405B on 128 GPUs": {
        **_SIMPLE,
        "model": "405B",
        "gpus": 128,
        "tp": 8,
        "pp": 4,
        "sharding": "ZeRO-3 (FSDP)",
        "seq": 8192,
        "recompute": "full",
        "state": "16 bytes (ZeRO's)",
    },
    "405B on 8 GPUs": {
        **_SIMPLE,
        "model": "405B",
        "gpus": 8,
        "tp": 8,
        "sharding": "ZeRO-3 (FSDP)",
        "seq": 8192,
        "recompute": "full",
        "state": "16 bytes (ZeRO's)",
    },
    "70B on 64 GPUs": START,
}


def draw_strategy(
    model: str = "70B",
    gpus: int = 64,
    tp: int = 8,
    pp: int = 4,
    cp: int = 1,
    sharding: str = "ZeRO-1",
    seq: int = 8192,
    batch: int = 2**22,
    micro: int = 1,
    virtual: int = 1,
    recompute: str = "none",
    state: str = "18 bytes (fp32 gradients)",
    device: str = "H100 SXM",
    ep: int = 1,
) -> Sheet:
    """A layout of a model: memory, seconds of a step, bytes by axis and wire, utilization. ValueError for one that
    cannot be."""
    one = plan_of(model, gpus, tp, pp, cp, sharding, seq, batch, micro, virtual, recompute, state, device, ep)
    name = " × ".join(f"{axis} {one.mesh.sizes[axis]}" for axis in ("tp", "cp", "pp", "dp"))
    return plan_sheet(one, f"{model} on {gpus:,} × {device}: {name}")


def plan_of(
    model: str,
    gpus: int,
    tp: int,
    pp: int,
    cp: int,
    sharding: str,
    seq: int,
    batch: int,
    micro: int,
    virtual: int,
    recompute: str,
    state: str,
    device: str,
    ep: int,
) -> Plan:
    """The plan behind a setting of the explorer."""
    return plan(
        MODELS.get(model, model),
        gpus,
        tp=tp,
        pp=pp,
        cp=cp,
        zero=SHARDING[sharding],
        sequences=max(1, batch // seq),
        seq=seq,
        micro=micro,
        virtual=virtual,
        recompute=recompute,
        ep=ep,
        convention=BYTES[state],
        device=device,
    )


def strategy(preset: str = "70B on 64 GPUs", own: str = "") -> Explorer:
    """The strategy explorer, from one of its presets: lay a model out over GPUs, and see what that costs.

    `own` is one more model: a name of the course's table, or the path of a Hugging Face config.
    """
    at = {**START, **PRESETS[preset]}

    def tokens(count: int) -> str:
        return f"{count / 2**20:g} Mi tokens"

    explorer = explore(
        draw_strategy,
        model=menu((*MODELS, own) if own else tuple(MODELS), own or at["model"], label="model"),
        gpus=slider(COUNTS, at["gpus"], label="GPUs", text=lambda count: f"{count:,}"),
        tp=slider(POWERS, at["tp"], label="tp (tensor)"),
        pp=slider(POWERS, at["pp"], label="pp (pipeline)"),
        cp=slider(POWERS, at["cp"], label="cp (context)"),
        ep=slider((1, 2, 4, 8), at["ep"], label="ep (expert)"),
        sharding=menu(tuple(SHARDING), at["sharding"], label="sharding over dp"),
        recompute=menu(("none", "selective", "full"), at["recompute"], label="recomputation"),
        micro=slider(
            (1, 2, 4, 8), at["micro"], label="micro-batch", text=lambda count: f"{count} sequence{'s' * (count > 1)}"
        ),
        virtual=slider((1, 2, 4, 5), at["virtual"], label="chunks a stage", when=lambda now: now["pp"] > 1),
        batch=slider(BATCHES, at["batch"], label="batch", text=tokens),
        seq=slider(LENGTHS, at["seq"], label="sequence", text=lambda count: f"{count:,} tokens"),
        state=menu(tuple(BYTES), at["state"], label="state a parameter"),
        device=menu(DEVICES, at["device"], label="device"),
    )
    if explorer.inputs:
        _show_presets(explorer)
    return explorer


def apply(explorer: Explorer, preset: str) -> None:
    """Move all controls to a preset, and redraw once."""
    values = {**START, **PRESETS[preset]}
    explorer.shortening = True  # the moves of the inputs are not the reader's
    for name, made in explorer.inputs.items():
        made.value = values[name]
    explorer.shortening = False
    explorer.set(**values)


def _show_presets(explorer: Explorer) -> None:
    """A button for each preset, under the controls."""
    import ipywidgets

    made = []
    for name in PRESETS:
        button = ipywidgets.Button(description=name, layout=ipywidgets.Layout(width="auto"))
        button.on_click(lambda _, name=name: apply(explorer, name))
        made.append(button)
    row = ipywidgets.VBox([ipywidgets.HBox([ipywidgets.Label("presets"), *made])])
    show_widget(row, "(Run this cell to get its presets.)")


# --- memory against communication ----------------------------------------------------------------


class Mechanism(TypedDict, total=False):
    """Keywords of `plan`."""

    tp: int
    pp: int
    cp: int
    zero: int
    recompute: str
    convention: str


PLAN_AXES: Mechanism = {"tp": LAYOUT["tp"], "pp": LAYOUT["pp"], "zero": LAYOUT["zero"]}
WAYS: Mapping[str, Mechanism] = {
    "DP": {"zero": 0},
    "DP, all in bf16": {"zero": 0, "convention": "F"},
    "ZeRO-1": {"zero": 1},
    "ZeRO-3 (FSDP)": {"zero": 3},
    "FSDP, recomputed": {"zero": 3, "recompute": "full"},
    "tp 8": {"tp": 8, "zero": 0},
    "tp 8, ZeRO-1": {"tp": 8, "zero": 1},
    "pp 8": {"pp": 8, "zero": 0},
    "cp 8, FSDP": {"cp": 8, "zero": 3},
    "tp 8 × pp 4, ZeRO-1": PLAN_AXES,
    "tp 8 × pp 4, recomputed": {**PLAN_AXES, "recompute": "full"},
}
GBIT = (25, 100, 200, 400, 800, 1600)


@lru_cache(maxsize=256)
def ways_of(model: str, gpus: int, gbit: int, device: str) -> tuple[Way, ...]:
    """Memory and communication of every mechanism; those that no other beats in both are the front."""
    plans = {}
    for name, how in WAYS.items():
        try:
            plans[name] = plan(
                MODELS[model], gpus, sequences=SEQUENCES, seq=SEQ, device=device, adapter=gbit * GB / 8, **how
            )
        except ValueError:
            continue
    values = {name: (one.memory, sum(one.talking.values())) for name, one in plans.items()}
    best = {
        name
        for name, (held, seconds) in values.items()
        if not any(a <= held and b <= seconds and (a, b) != (held, seconds) for a, b in values.values())
    }
    return tuple(Way(name, held, seconds, name in best) for name, (held, seconds) in values.items())


def draw_tradeoff(model: str = "70B", gpus: int = 64, gbit: int = 400, device: str = "H100 SXM") -> Sheet:
    """Every mechanism as a point: what a GPU holds, and how long it communicates in a step of 512 sequences."""
    kept = planner.cluster(device, gpus).across.bandwidth / network(device).levels[-1].bandwidth
    return tradeoff(
        ways_of(model, gpus, gbit, device),
        float(facts.device(device).memory),
        "Less memory costs communication",
        f"{model} on {gpus:,} × {device}, adapters of {gbit} Gb/s ({percent_text(kept)} sustained), "
        f"{SEQUENCES} × {SEQ:,} tokens; green: unbeaten in both",
    )


def mechanisms(model: str = "70B") -> Explorer:
    """Every mechanism between memory pressure and coordination cost: change model and network, and watch the front
    move."""
    return explore(
        draw_tradeoff,
        model=buttons(tuple(MODELS), model, label="model"),
        gpus=slider((32, 64, 128, 256, 512), 64, label="GPUs"),
        gbit=slider(GBIT, 400, label="adapter", text=lambda rate: f"{rate} Gb/s"),
        device=menu(DEVICES, "H100 SXM", label="device"),
    )
