"""Judges of chapter 01's first exercises: the state, the days of one GPU, and a predicted run."""

import math
import random
from typing import Any

from course_lib import facts, memory
from course_lib.judging import Judging, Mistake, Params, prediction
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, gpus_text, shares, table
from course_lib.judging.draws import (
    days_alone,
    draw_rows,
    log_uniform,
    logarithmic,
    one_apart,
    plain,
    rounded,
    safely_off_whole,
    unseen,
)
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case
from course_lib.units import DAY, GB, HOUR, WEEK, YEAR, GiB, bytes_text, duration_text, number_text

_MISSING = {
    "master": "a bucket is missing: the fp32 master copy of the weights, if both of Adam's moments are there.",
    "moments": "Adam's two moments are missing; they are state too.",
    "main_grads": "a bucket is missing: the second, fp32 copy of the gradients, if the master copy is there.",
    "grads": "a bucket is missing: the gradients, if the weights are there.",
    "weights": "a bucket is missing: the weights themselves.",
}


def state_of(params: float, convention: str) -> float:
    """Bytes of state: the five buckets added up, one by one."""
    return params * sum(memory.CONVENTIONS[convention].buckets.values())


def least_gpus(nbytes: float, gpu_memory: float) -> int:
    """The least whole number of GPUs, by exact arithmetic on the numbers given."""
    top, below = float(nbytes).as_integer_ratio()
    size, size_below = float(gpu_memory).as_integer_ratio()
    return max(1, -(-(top * size_below) // (below * size)))


def _spread_words(nbytes: float, gpu_memory: float) -> str:
    """A size and a GPU in words, to the byte where rounding would make them look alike."""
    text, one = bytes_text(nbytes), bytes_text(gpu_memory)
    if text == one and nbytes != gpu_memory:
        text, one = f"{nbytes:,.0f} bytes", f"{gpu_memory:,.0f} bytes"
    return f"{text} on GPUs of {one}"


def _state_column(convention: str) -> Column:
    size = memory.CONVENTIONS[convention].buckets

    def state(params: float) -> float:
        return state_of(params, convention)

    total = sum(size.values())
    return Column(
        part="state",
        unit="bytes",
        want=state,
        words=lambda p: f"{number_text(p)} parameters",
        hint="Compare your bytes per parameter with the listed ones.",
        mistakes=(
            Mistake("gigabytes", scaled(state, 1 / GB), "this is in GB; return bytes."),
            Mistake("gibibytes", scaled(state, 1 / GiB), "this is in GiB; return bytes."),
            Mistake("gib-for-gb", scaled(state, GiB / GB), "this takes 2³⁰ bytes for a GB; a GB is 10⁹ bytes."),
            Mistake("gib-for-gb", scaled(state, GB / GiB), "this takes 2³⁰ bytes for a GB; a GB is 10⁹ bytes."),
            Mistake("bits", scaled(state, 8), "this counts bits; a byte has eight."),
            Mistake("weights-only", lambda p: p * size["weights"], "these are the weights alone; training keeps more."),
            *(
                Mistake(f"missing-{name}", lambda p, left=total - size[name]: p * left, message)
                for name, message in _MISSING.items()
                if size[name]
            ),
            Mistake("one-moment", lambda p: state(p) - p * size["moments"] / 2, "one of Adam's moments is missing."),
        ),
    )


def _headroom(nbytes: float, gpu_memory: float, gpus: int) -> float:
    return gpu_memory - nbytes / gpus


_FEWEST_MISTAKES = (
    Mistake("rounded-down", lambda n, m: n // m, "that many cannot hold it; a remainder is left over."),
    Mistake("not-whole", lambda n, m: n / m, "GPUs come in whole numbers."),
    Mistake("one-too-many", shifted(least_gpus, 1), "one GPU fewer holds it too."),
    Mistake("none-at-all", lambda n, m: 0, "even a small model needs one GPU."),
)
_FEWEST = Column(part="fewest", unit="GPUs", want=least_gpus, rel=EXACT, words=_spread_words, mistakes=_FEWEST_MISTAKES)
_HEADROOM = Column(
    part="headroom",
    unit="bytes",
    want=_headroom,
    words=lambda n, m, g: f"{bytes_text(n)} on {gpus_text(g)} of {bytes_text(m)}",
    mistakes=(
        Mistake("gigabytes", scaled(_headroom, 1 / GB), "this is in GB; return bytes."),
        Mistake("all-gpus-together", lambda n, m, g: m * g - n, "this is the headroom of all GPUs together."),
        Mistake("not-shared", lambda n, m, g: m - n, "this puts the whole state on one GPU."),
        Mistake("the-share", lambda n, m, g: n / g, "this is the memory in use, not the memory left."),
        Mistake("sign", scaled(_headroom, -1), "the sign is wrong: free memory is positive."),
        Mistake("cut-at-zero", lambda *row: max(0, _headroom(*row)), "return the shortfall as a negative number."),
    ),
)


def _state_cases(params: Params, rng: random.Random) -> list[Case]:
    size, card = params["params"], params["memory"]
    nbytes = state_of(size, params["convention"])
    fewest = least_gpus(nbytes, card)
    cards = [facts.device(name).memory for name in ("A100 SXM 40GB", "H100 SXM", "H200 SXM", "B300 SXM", "MI300X")]
    sizes = [125e6, 1, 1.5e9, 405_000_000_000, 1e12, *(log_uniform(rng, 1e8, 2e12) for _ in range(15))]
    many = [(state_of(log_uniform(rng, 1e9, 5e11), "B"), float(rng.choice(cards))) for _ in range(16)]
    exact = [(160e9, 80e9), (80e9, 80e9), (640_000_000_000, 80_000_000_000), (1.28e12, 40e9), (282e9, 141e9)]
    odd = [
        (1e6, 80e9),
        (16, 80e9),
        (80e9 + 1, 80e9),
        (1e15, 16e9),
        (1120e9, 80 * 2.0**30),
        (208e9, 24 * 2.0**30),
        (81e9, 40e9),
    ]
    rooms = [(n, m, rng.choice((1, 2, 3, 8, 64, 20_000))) for n, m in many]
    inexact = [(1000 * state_of(log_uniform(rng, 1e7, 9e7), "B") + 1e7, float(rng.choice(cards))) for _ in range(3)]
    example = [(nbytes, card, n) for n in (fewest, fewest + 1, fewest + 5)]
    return [
        shown(f"{number_text(size)} parameters", "values:state", 0, [(size,)]),
        shown("the fewest GPUs", "values:fewest", 1, [(nbytes, card)]),
        shown("headroom on each GPU", "values:headroom", 2, example),
        plain("state", 0, "three more sizes", [(log_uniform(rng, 1e9, 9e10),) for _ in range(3)]),
        plain("fewest", 1, "three more GPU sizes", inexact),
        plain(
            "headroom", 2, "three more headrooms", [(n, m, least_gpus(n, m) + rng.randint(1, 8)) for n, m in inexact]
        ),
        unseen(rng, "state", 0, "other sizes", [(p,) for p in sizes]),
        unseen(rng, "fewest", 1, "other GPU sizes", many + exact + odd),
        unseen(
            rng,
            "headroom",
            2,
            "other headrooms",
            [*rooms, *one_apart(rooms, _headroom), (160e9, 80e9, 2), (160e9, 80e9, 1), (208e9, 80e9, 2)],
        ),
    ]


STATE_13B = Judging(
    shares=shares(state=(0.2, 0.2), fewest=(0.1, 0.2), headroom=(0.1, 0.2)),
    cases=_state_cases,
    verdicts=lambda params, *given: table(_state_column(params["convention"]), _FEWEST, _HEADROOM)(params, *given),
    why="State is a sum over buckets, each parameters × bytes. The fewest GPUs are a quotient rounded up, because you cannot "
    "rent a fraction of a GPU. That count leaves little or no room for activations, so people use more GPUs than the state "
    "requires. The headroom of each GPU is its memory minus an even share.",
    pytorch="`torch.optim.AdamW` creates its two moments at the first `step()`; "
    "`torch.distributed.fsdp.fully_shard` spreads the state evenly (chapter 08).",
)


def _gpus_in(params: float, tokens: float, gpu_flops: float, utilization: float, days: float) -> int:
    return max(1, math.ceil(days_alone(params, tokens, gpu_flops, utilization) / days))


def _run_words(p: float, d: float, f: float, u: float, days: float | None = None) -> str:
    text = f"{number_text(p)} parameters, {number_text(d)} tokens, {number_text(f / 1e12)} TFLOP/s at {100 * u:g} %"
    return text if days is None else f"{text} in {days:g} days"


_DAYS = Column(
    part="days",
    unit="days",
    want=days_alone,
    words=_run_words,
    hint="Divide FLOP by FLOP per second, then convert seconds to days.",
    mistakes=(
        Mistake("full-speed", lambda p, d, f, u: days_alone(p, d, f, 1), "this is at 100 % of the peak."),
        Mistake("utilization-upside-down", lambda p, d, f, u: days_alone(p, d, f, 1 / u), "a lower rate takes longer."),
        Mistake("seconds", scaled(days_alone, DAY), "these are seconds."),
        Mistake("hours", scaled(days_alone, 24), "these are hours."),
        Mistake("years", scaled(days_alone, DAY / YEAR), "these are years."),
        Mistake("forward-only", scaled(days_alone, 1 / 3), "the backward pass costs FLOPs too."),
        Mistake("multiply-adds", scaled(days_alone, 1 / 2), "a multiplication and an addition are two FLOP."),
        Mistake("recompute", scaled(days_alone, 8 / 6), "8 FLOP per parameter and token count the forward pass twice."),
    ),
)
_GPUS_MISTAKES = (
    Mistake("rounded-down", lambda *row: days_alone(*row[:4]) // row[4], "with this many GPUs the run is late."),
    Mistake("not-whole", lambda *row: days_alone(*row[:4]) / row[4], "GPUs come in whole numbers."),
    Mistake("one-too-many", shifted(_gpus_in, 1), "one GPU fewer also finishes in time."),
    Mistake("full-speed", lambda p, d, f, u, t: _gpus_in(p, d, f, 1, t), "they suffice only at 100 % of the peak."),
    Mistake("none-at-all", lambda *row: 0, "even a quick run needs one GPU."),
)
_GPUS = Column(part="gpus", unit="GPUs", want=_gpus_in, words=_run_words, rel=EXACT, mistakes=_GPUS_MISTAKES)


def _days_rows(rng: random.Random, count: int, *days: float) -> list[tuple[Any, ...]]:
    """Runs whose GPU count no rounding noise can change."""
    devices = [*facts.devices().values()][5:]

    def peak(rng: random.Random) -> float:
        return float(rng.choice(devices).dense_flops)

    fields = logarithmic(1e8, 5e11), logarithmic(1e10, 2e13), peak, rounded(0.15, 0.65, 3), days
    return draw_rows(rng, count, *fields, keep=lambda row: _settled(*row))


def _settled(*row: float) -> bool:
    return safely_off_whole(days_alone(*row[:4]) / row[4])


def _days_cases(params: Params, rng: random.Random) -> list[Case]:
    run = (params["params"], params["tokens"], params["flops"], params["utilization"])
    others = _days_rows(rng, 24, 1, 2.5, 7, 30, 90, 365)
    others += one_apart(others, _gpus_in, _settled)
    # Powers of two and a multiple of 86,400: exact in floating point in whatever order one multiplies.
    powers = (2.0**30, 86_400.0 * 2**20, 6 * 2.0**45, 0.5)
    whole = [(*powers, days_alone(*powers) / n) for n in (1, 2, 8, 64)]
    usual = _days_rows(rng, 3, 30, 60, 90)
    hurried = [(1e9, 1.25e10, 989e12, 0.4, days) for days in (0.01, 0.25, 0.5)]  # whole days are too coarse here
    small = [(7e10, 1e12, 989e12, 0.4, 1500), (1e8, 1e9, 989e12, 0.5, 30), (1, 1, 1e12, 1.0, 1)]
    return [
        shown("one GPU", "values:days", 0, [run]),
        shown(f"{params['days']} days", "values:gpus", 1, [(*run, params["days"])]),
        plain("days", 0, "three more runs", [row[:4] for row in usual]),
        plain("gpus", 1, "three more deadlines", usual),
        unseen(rng, "days", 0, "other runs", [row[:4] for row in others]),
        unseen(rng, "gpus", 1, "other deadlines", [*others, *whole, *hurried, *small]),
    ]


TRAIN_DAYS = Judging(
    shares={"values:days": 0.25, "values:gpus": 0.15, "generality:days": 0.3, "generality:gpus": 0.3},
    cases=_days_cases,
    verdicts=table(_DAYS, _GPUS),
    why="Time is work over speed: 6 × parameters × tokens FLOP over peak × utilization FLOP/s. With perfect scaling N GPUs "
    "need 1/N of the time, so the count is days alone over days allowed, rounded up. Tens of GPUs, not thousands, bring "
    "this run to a month. Real scaling (exercise “From years to weeks”) requires a few more.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs and confirms the 6 for dense models.",
)


def weeks_truth(params: Params) -> float:
    """Weeks of the run, with perfect scaling."""
    alone = days_alone(params["params"], params["tokens"], params["flops"], params["mfu"]) * DAY
    return alone / params["gpus"] / WEEK


def _weeks_reveal(params: Params) -> str:
    weeks = weeks_truth(params)
    text = (
        f"With perfect scaling: {number_text(weeks)} weeks; at 100 % of the peak it would be "
        f"{number_text(weeks * params['mfu'])}, and one GPU alone would need {duration_text(weeks * params['gpus'] * WEEK)}."
    )
    run = facts.run("Llama 3 70B")
    if math.isclose(params["params"], run.params, rel_tol=0.05) and params["tokens"] == run.tokens:
        hours = float(run.device_hours)
        weeks = number_text(hours * HOUR / params["gpus"] / WEEK)
        text += f" Meta reports {number_text(hours)} GPU-hours for such a run, all stages: {weeks} weeks."
    return text


PREDICT_WEEKS = prediction(
    unit="weeks",
    reveal=_weeks_reveal,
    truth=weeks_truth,
    why="Work is 6 × parameters × tokens, speed is GPUs × peak × MFU. One digit of each factor gives the length within a "
    "factor of two. That is enough to know whether to rent for a week or for a year.",
)
