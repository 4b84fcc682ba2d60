"""Chapter 01's widgets: three budgets, triage, parts of a step; time and money are in `ch01_time_and_money`."""

from course_chapters.ch01 import walls as walls_of
from course_chapters.ch01.bars import bars_against_ceiling
from course_chapters.ch01.choices import COUNTS, GPUS, SIZES, TOKENS, params_text, tokens_text
from course_chapters.ch01.time_and_money import cost, draw_cost, draw_runs, draw_years_to_weeks, years_to_weeks
from course_chapters.links import chapter_link
from course_lib.draw import style
from course_lib.draw.explore import Control, Explorer, explore, menu, play, slider, toggle
from course_lib.draw.palette import GREY, INK, color
from course_lib.draw.style import Picture
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import BILLION, DAY, MILLION, MS, TRILLION, bytes_text, duration_text, number_text

__all__ = [
    "cost",
    "draw_budgets",
    "draw_cost",
    "draw_runs",
    "draw_step",
    "draw_triage",
    "draw_years_to_weeks",
    "params_text",
    "step_parts",
    "three_budgets",
    "tokens_text",
    "triage",
    "years_to_weeks",
]


def _days(*counts: int) -> tuple[float, ...]:
    """Spans of time in seconds."""
    return tuple(count * DAY for count in counts)


def _days_text(seconds: float) -> str:
    return f"{seconds / DAY:.0f} days"


def _rate_text(rate: float) -> str:
    return f"{number_text(rate)} per second"


# --- three walls, three budgets ------------------------------------------------------------------


def draw_budgets(
    params: float,
    gpu: str = "H100 SXM",
    gpus: int = 8,
    tokens: float = 0.3 * TRILLION,
    target_step: float = 10.0,
    deadline: float = 90 * DAY,
    sharded: bool = False,
    step_tokens: float = 0.5 * MILLION,
    mfu: float = 0.4,
) -> Picture:
    """Loads on the budgets of memory, compute and deadline, and the first wall."""
    device = facts.device(gpu)
    job = walls_of.Job(
        params=params,
        tokens=tokens,
        step_tokens=step_tokens,
        device_memory=device.memory,
        flops_per_s=device.dense_flops,
        target_step_s=target_step,
        deadline_s=deadline,
        devices=gpus,
        mfu=mfu,
        sharded=sharded,
    )
    found = walls_of.walls(job)
    state = memory.state_bytes(params) / (gpus if sharded else 1)
    step = compute.train_seconds(params, step_tokens, device.dense_flops, mfu, gpus)
    whole = compute.train_seconds(params, tokens, device.dense_flops, mfu, gpus)
    notes = {
        "memory": f"state {bytes_text(state)}, memory {bytes_text(device.memory)}",
        "compute": f"a step takes {duration_text(step)}, target {duration_text(target_step)}",
        "deadline": f"the run takes {duration_text(whole)}, limit {duration_text(deadline)}",
    }
    verdict = f"first wall: {found.first}" if found.first else "no wall: it fits and finishes in time"
    machine = f"{gpus:,} × {gpu}" if gpus > 1 else f"one {gpu}"
    return bars_against_ceiling(
        found.loads, notes=notes, first=found.first, title=f"{params_text(params)} on {machine}: {verdict}"
    )


def three_budgets(params: float = 1 * BILLION, gpu: str = "H100 SXM") -> Explorer:
    """Three bars that fill as the model grows; each budget has its own control."""
    return explore(
        draw_budgets,
        params=play(SIZES, params, label="parameters", text=params_text, interval=700),
        gpu=menu(GPUS, gpu, label="GPU"),
        gpus=slider(COUNTS, 8, label="GPUs", text=lambda count: f"{count:,}"),
        sharded=toggle(label="shard the state over the GPUs"),
        tokens=slider(TOKENS, 0.3 * TRILLION, label="tokens of the run", text=tokens_text),
        target_step=slider((1.0, 2.0, 5.0, 10.0, 20.0, 60.0), 10.0, label="target step time", text=duration_text),
        deadline=slider(_days(7, 14, 30, 60, 90, 180, 365), 90 * DAY, label="deadline", text=_days_text),
    )


# --- do you need this at all? --------------------------------------------------------------------


_AGAINST = {  # what each load of one device is divided by
    "memory": "training state / device memory",
    "deadline": "time of the run / deadline",
    "latency": "a user's tokens / tokens it can read",
    "traffic": "requests / requests it can compute",
}


def draw_triage(
    params: float = 7 * BILLION,
    gpu: str = "H100 SXM",
    tokens: float = 0.1 * TRILLION,
    deadline: float = 30 * DAY,
    qps: float = 0.0,
    user_rate: float = 20.0,
) -> str:
    """Loads of training and serving on one device, the advice, and a link to the chapter that removes the first
    wall."""
    found = walls_of.triage(
        params, facts.device(gpu), tokens=tokens, deadline_s=deadline, qps=qps, tokens_per_s_per_user=user_rate
    )
    if not found.loads:
        return "<p>This model is neither trained nor served. Stay on one GPU.</p>"
    first = found.first.wall if found.first else None
    title = f"{params_text(params)} on one {gpu}: {first + ' comes first' if first else 'stay on one GPU'}"
    picture = bars_against_ceiling(found.loads, notes=_AGAINST, first=first, title=title)
    where = f" {chapter_link(found.first.chapter[:2])}." if found.first else ""
    many = f" Training needs at least {found.devices:,} GPUs at 40 % MFU." if found.devices > 1 else ""
    more = f" Serving needs about {found.replicas:,} replicas." if found.replicas > 1 else ""
    return f"{style.page(picture)}<p><b>{found.advice}</b>{where}{many}{more}</p>"


def triage() -> Explorer:
    """Which walls one GPU hits, what to do first, and the answer "none: don't distribute"."""
    return explore(
        draw_triage,
        params=slider(SIZES, 7 * BILLION, label="parameters", text=params_text),
        gpu=menu(GPUS, "H100 SXM", label="GPU"),
        tokens=slider((0.0, *TOKENS), 0.1 * TRILLION, label="tokens to train on", text=tokens_text),
        deadline=slider(
            _days(1, 7, 30, 90, 365), 30 * DAY, label="deadline", text=_days_text, when=lambda now: now["tokens"] > 0
        ),
        qps=slider((0.0, 0.1, 1.0, 10.0, 100.0, 1000.0), 0.0, label="requests to serve", text=_rate_text),
        user_rate=slider(
            (5.0, 20.0, 50.0, 100.0, 200.0),
            20.0,
            label="tokens for one user",
            text=_rate_text,
            when=lambda now: now["qps"] > 0,
        ),
    )


# --- what one step waits for -----------------------------------------------------------------------


def draw_step(
    compute_ms: float = 300.0, comm_ms: float = 180.0, data_ms: float = 60.0, overlap: bool = True
) -> Picture:
    """The three parts of a step, in parallel or one after another, and the one that limits it."""
    parts = {"compute": compute_ms * MS, "communication": comm_ms * MS, "input": data_ms * MS}
    fills = {"compute": color("forward"), "communication": color("communication"), "input": color("temporary")}
    seconds, worst = (
        compute.step_seconds(parts["compute"], parts["communication"], parts["input"], overlap=each)
        for each in (overlap, False)
    )
    binding = max(parts, key=lambda name: parts[name])
    figure, axes = style.new(2.35, left=1.35, right=0.3, bottom=0.55, top=0.42)
    start = 0.0
    for place, (name, size) in enumerate(parts.items()):
        left = 0.0 if overlap else start
        axes.barh(place, size / MS, left=left / MS, height=0.55, color=fills[name], linewidth=0)
        heavy = overlap and name == binding
        axes.text(-0.012 * worst / MS, place, name, ha="right", va="center", **style.font(bold=heavy))
        start += size
    axes.axvline(seconds / MS, color=INK, linewidth=1.5)
    axes.axvline(worst / MS, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set_xlim(0, 1.04 * (worst or MS) / MS)
    axes.set_ylim(2.6, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    how = f"bound by {binding}" if overlap else "the sum of its parts: nothing overlaps"
    title = f"A step of {duration_text(seconds)}, {how}"
    style.dress(axes, title, x="time (ms); solid line: this step; dashed line: without overlap")
    said = ", ".join(f"{name} {duration_text(size)}" for name, size in parts.items())
    figure.alt = f"{title}. Its parts: {said}. Without overlap it would take {duration_text(worst)}."
    return figure


def step_parts() -> Explorer:
    """A step's time from its parts: the largest with perfect overlap, the sum with none."""
    times = tuple(float(ms) for ms in (0, 20, 60, 120, 180, 240, 300, 400, 500))

    def part(start: float, label: str) -> Control:
        return slider(times, start, label=label, text=lambda ms: f"{ms:.0f} ms")

    return explore(
        draw_step,
        compute_ms=part(300.0, "compute"),
        comm_ms=part(180.0, "communication"),
        data_ms=part(60.0, "input"),
        overlap=toggle(True, label="all three overlap perfectly"),
    )
