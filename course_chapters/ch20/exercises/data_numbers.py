"""Numbers in chapter 20's prose about data, validation and energy."""

from collections.abc import Callable, Mapping

from course_chapters.ch20 import data_plots, validation
from course_chapters.ch20.data_plots import CHECK, MIXTURE, STEP_SECONDS
from course_chapters.ch20.prefetch import depth_for
from course_lib.estimate import facts
from course_lib.estimate.running_plan import MFU
from course_lib.estimate.units import DAY, HOUR, bytes_text, duration_text, number_text, percent_text
from course_runs import evidence

SOURCES: tuple[str, ...] = ("megatron-blending", "bloom-carbon-2022", "llama31-card")
READ, PAUSE, STEP = 0.7, 2.0, 1.0  # s, of the worked example
BETWEEN = 3 * DAY
PUBLISHED = data_plots.published_energy()
LARGE, SMALL, FAST, SLOW = 6, 4, 2, 1  # GB of shards, GB/s of hosts: those of a worked example


def _setup(name: str) -> str:
    shipped = next(content for origin, _, content in evidence.found("data") if origin == "recorded")
    return str(shipped["setup"][name])


NUMBERS: Mapping[str, Callable[[], str]] = {
    "plan_rate": lambda: f"{bytes_text(data_plots.TOKEN_BYTES * data_plots.tokens_per_second(), 2)}/s",
    "plan_mfu": lambda: percent_text(MFU),
    "buffer_read": lambda: duration_text(READ),
    "buffer_pause": lambda: duration_text(PAUSE),
    "buffer_step": lambda: duration_text(STEP),
    "buffer_depth": lambda: str(depth_for(READ, PAUSE, STEP)),
    "shard_large": lambda: f"{LARGE} GB",
    "shard_small": lambda: f"{SMALL} GB",
    "host_fast": lambda: f"{FAST} GB/s",
    "host_slow": lambda: f"{SLOW} GB/s",
    "fast_one": lambda: duration_text(LARGE / FAST),
    "fast_two": lambda: duration_text(2 * LARGE / FAST),
    "slow_one": lambda: duration_text(LARGE / SLOW),
    "slow_small": lambda: duration_text(SMALL / SLOW),
    "mixture_weights": lambda: ", ".join(f"{weight:g} of {name}" for name, weight in MIXTURE.weights.items()),
    "run_before": lambda: _setup("before"),
    "run_after": lambda: _setup("after"),
    "run_steps": lambda: _setup("steps"),
    "cadence_step": lambda: duration_text(STEP_SECONDS),
    "cadence_check": lambda: duration_text(CHECK),
    "cadence_best": lambda: str(validation.best_every(STEP_SECONDS, CHECK, BETWEEN)),
    "cadence_lost": lambda: percent_text(
        validation.lost_share(validation.best_every(STEP_SECONDS, CHECK, BETWEEN), STEP_SECONDS, CHECK, BETWEEN), 2
    ),
    "cadence_backlog": lambda: duration_text(validation.backlog(100, STEP_SECONDS, 0.5 * HOUR, 10), 2),
    "energy_ratio": lambda: number_text(PUBLISHED[-1].grams / PUBLISHED[0].grams, 2),
    "server_watts": lambda: f"{facts.claim('dgx-power').value / 1000:g} kW",
    "server_share": lambda: f"{data_plots.energy.WATTS_OF_SERVER:,.0f} W",
}
