"""Core exercises of chapter 01 up to the walls: state, days, money, a prediction, the right peak."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts, memory
from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import CLOSE, dense_flops, functions, memory_of
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, Maybe, Number, Rows, TupleOf

DEVICES = ("H100 SXM", "A100 SXM 80GB", "H200 SXM", "B200 SXM", "MI300X")
BUCKET_WORDS = {
    "weights": "weights",
    "grads": "gradients",
    "main_grads": "fp32 main gradients",
    "master": "fp32 master copy of the weights",
    "moments": "Adam's two moments together",
}


def peak_of(device: str) -> dict[str, Any]:
    """A device and its dense peak, as parameters of a card."""
    return {"device": device, "flops": dense_flops(device)}


def buckets_text(convention: str) -> str:
    """The buckets of a convention in words: "weights 2, gradients 2, ..."."""
    buckets = memory.CONVENTIONS[convention].buckets
    return ", ".join(f"{BUCKET_WORDS[name]} {size:g}" for name, size in buckets.items() if size)


def _state_variant(draw: random.Random) -> Mapping[str, Any]:
    convention = draw.choice("CEG")
    return {
        "params": draw.choice((9e9, 11e9, 14e9, 20e9, 27e9, 30e9)),
        "memory": memory_of(draw.choice(DEVICES)),
        "convention": convention,
        "buckets": buckets_text(convention),
    }


STATE_13B = Card(
    id="state-13b",
    chapter="01",
    title="The state, the fewest GPUs, the room left",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    answers=("training_state", "fewest_gpus", "headroom"),
    text=f"""Write three functions that say how much training state a model has, how many GPUs hold it, and how much room is left. You train a
model of {{{{params:count}}}} parameters with Adam on GPUs of {{{{memory:gb}}}}. Its training state, in bytes per parameter:
{{{{buckets}}}}.

All sizes are in **bytes**, and 1 GB is 10⁹ bytes.

- `training_state(params)` returns the bytes of state of the whole model.
- `fewest_gpus(nbytes, gpu_memory)` returns the least whole number of GPUs (1 or more) that hold `nbytes` spread
  evenly. An exact fit counts.
- `headroom(nbytes, gpu_memory, gpus)` returns the bytes left on *each* GPU when `nbytes` is spread evenly over
  `gpus`; negative where the share does not fit.

Your functions must also work for other sizes and other GPUs. {CLOSE}""",
    hints=(
        "How many numbers does the optimizer keep for each weight, and how many bytes does each one take?",
        "Add up the bytes per parameter and multiply once. A share is bytes divided by GPUs. The fewest GPUs are a quotient, "
        "rounded so that everything fits.",
        "`per_param = sum(of the list above)`; `math.ceil(nbytes / gpu_memory)`; `gpu_memory - nbytes / gpus`.",
    ),
    allowed="the standard library and numpy.",
    hides=functions(
        "memory",
        "state_bytes",
        "state_by_bucket",
        "bytes_per_param",
        "fewest_devices",
        "headroom_bytes",
        "zero_bytes",
        "zero_by_bucket",
        "zero_bytes_per_param",
    ),
    params={"params": 13e9, "memory": memory_of("H100 SXM"), "convention": "B", "buckets": buckets_text("B")},
    vary=_state_variant,
    structural="convention",
    probe=rows,
    returns=Rows(Number("bytes"), Number("GPUs"), Number("bytes")),
)


def _days_variant(draw: random.Random) -> Mapping[str, Any]:
    return {
        **peak_of(draw.choice(DEVICES)),
        "params": draw.choice((3e9, 7e9, 8e9, 13e9)),
        "tokens": draw.choice((1e12, 1.4e12, 2e12, 3e12)),
        "utilization": draw.choice((0.35, 0.4, 0.45, 0.5)),
        "days": draw.choice((21, 30, 45)),
    }


TRAIN_DAYS = Card(
    id="train-days-7b",
    chapter="01",
    title="One GPU, in days",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    answers=("train_days", "gpus_for_deadline"),
    text=f"""Compute how long a training run takes on one GPU, and how many GPUs finish it in {{{{days:int}}}} days. The run has
{{{{params:count}}}} parameters and {{{{tokens:count}}}} tokens and reaches {{{{utilization:percent}}}} of the dense peak
of one {{{{device}}}}, {{{{flops:tflops}}}}.

- `train_days(params, tokens, gpu_flops, utilization)` returns the days (24 h) on **one** GPU. `gpu_flops` is its peak
  in FLOP/s, `utilization` a fraction of one. Count 6 FLOP per parameter and token.
- `gpus_for_deadline(params, tokens, gpu_flops, utilization, days)` returns the least whole number of GPUs (1 or more)
  that finish within `days`. Assume perfect scaling: twice the GPUs, half the time.

{CLOSE}""",
    hints=(
        "How many FLOP is the work, and how many FLOP does one GPU really do per second?",
        "Time is work divided by speed; speed is the peak times the utilization; a day has 86,400 seconds. "
        "The second function can call the first one.",
        "`seconds = 6 * params * tokens / (gpu_flops * utilization)`; `ceil(days on one GPU / days allowed)`.",
    ),
    allowed="the standard library, numpy and `course_lib.units`.",
    hides=("compute:train_flops", "compute:train_seconds", "compute:devices_for_deadline"),
    params={**peak_of("H100 SXM"), "params": 7e9, "tokens": 2e12, "utilization": 0.5, "days": 30},
    vary=_days_variant,
    probe=rows,
    returns=Rows(Number("days"), Number("GPUs")),
)


def _spent(kind: str, usd: float, price: float) -> dict[str, Any]:
    """The parameters that say what was spent, in dollars or in GPU-hours."""
    hours = usd / price
    spent, words, unit = {
        "dollars": (usd, f"a budget of \\${usd / 1e6:g}M", "US dollars"),
        "GPU-hours": (hours, f"{hours / 1e6:g}M GPU-hours", "GPU-hours"),
    }[kind]
    return {"spent_in": kind, "spent": spent, "usd_per_hour": price, "spent_words": words, "spent_unit": unit}


def _waste_variant(draw: random.Random) -> Mapping[str, Any]:
    return {
        **_spent("GPU-hours", draw.choice((6e6, 8e6, 12e6, 20e6)), draw.choice((1.5, 2.0, 2.5, 4.0))),
        "mfu": draw.choice((0.28, 0.3, 0.32, 0.38)),
        "achievable": draw.choice((0.48, 0.5, 0.52)),
        "typical": draw.choice((0.42, 0.44, 0.45)),
    }


MFU_WASTE = Card(
    id="mfu-waste",
    chapter="01",
    title="Money lost, compared with what?",
    **Worth(points=10, minutes=10, difficulty=2, importance=4),
    answers=("money_lost",),
    text=f"""A run at {{{{mfu:percent}}}} MFU used {{{{spent_words}}}}; a GPU costs {{{{usd_per_hour:usd}}}} an hour.
Compute how much of that was lost. The answer depends on the baseline: the whole peak, the {{{{achievable:percent}}}}
that good teams reach, or the {{{{typical:percent}}}} that was promised.

`money_lost(spent, usd_per_hour, mfu, baselines)` gets what was spent in **{{{{spent_unit}}}}** and a dictionary
`baselines` from a name to an MFU, such as `{{"whole peak": 1.0, "promised": {{{{typical}}}}}}`. Return a dictionary
with the same names, each with a pair `(lost, more)`:

- `lost`: the US dollars that the **same work** would have saved at that baseline;
- `more`: the extra work that the **same money** would have done there, as a fraction (0.25 is a quarter more).

A run at or above its baseline has lost nothing: both are 0. You may not need every argument. {CLOSE}""",
    hints=(
        "If the work is fixed, how does its price change when the MFU doubles?",
        "The same work at the baseline takes mfu / baseline of the GPU-hours. The same GPU-hours at the baseline do "
        "baseline / mfu of the work. The two fractions are not equal.",
        "For each name: `lost = usd * (1 - mfu / baseline)` and `more = baseline / mfu - 1`, both at least 0, "
        "where `usd` is what was spent, in dollars.",
    ),
    allowed="the standard library and numpy.",
    hides=("compute:wasted_fraction", "compute:budget_wasted"),
    params=_spent("dollars", 10e6, float(facts.price("H100 hour"))) | {"mfu": 0.35, "achievable": 0.5, "typical": 0.45},
    vary=_waste_variant,
    structural="spent_in",
    probe=rows,
    returns=Rows(Anything("a dictionary with a pair (lost, more) for each baseline")),
)


def _weeks_variant(draw: random.Random) -> Mapping[str, Any]:
    return {
        **peak_of(draw.choice(DEVICES)),
        "params": draw.choice((32e9, 65e9, 110e9)),
        "tokens": draw.choice((8e12, 10e12, 18e12)),
        "gpus": draw.choice((512, 768, 2048)),
    }


PREDICT_WEEKS = Card(
    id="predict-weeks",
    chapter="01",
    title="Before you compute: how many weeks?",
    **Worth(points=3, minutes=5, difficulty=2, importance=3),
    **PREDICTION,
    answers=("weeks_interval",),
    text="""{{params:count}} parameters, {{tokens:count}} tokens, {{gpus:int}} {{device}} at {{mfu:percent}} MFU and
perfect scaling: estimate without a calculator how many weeks the run takes. Round every factor to a small number times a
power of ten.

`weeks_interval()` returns `(low, high)`, the range of **weeks** in which you expect the run's length. You earn the
points for an interval of positive numbers with `high` at most 4 times `low`, whether or not the true length is in it.
You see the true length once you have committed.""",
    hints=(
        "What power of ten is the work, and what power of ten is the speed of all GPUs together?",
        "Work is 6 × parameters × tokens. Speed is GPUs × peak × MFU. A week is about 6 × 10⁵ seconds.",
        "`return (guess / 1.8, guess * 1.8)` with your guess in weeks.",
    ),
    params={**peak_of("H100 SXM"), "params": 70e9, "tokens": 15e12, "gpus": 1024, "mfu": 0.4},
    vary=_weeks_variant,
)


def _peak_variant(draw: random.Random) -> Mapping[str, Any]:
    gpus = draw.choice((4, 8))
    return {
        "params": draw.choice((65e9, 130e9, 280e9, 530e9)),
        "tokens": draw.choice((270e9, 300e9, 400e9)),
        "model": "a model",
        "device": draw.choice(("H100 SXM", "H200 SXM", "B200 SXM", "GB200")),
        "gpus": gpus,
        "scope": _scope(gpus),
    }


def _scope(gpus: int) -> str:
    return "one GPU" if gpus == 1 else f"a whole server of {gpus} GPUs"


WHICH_PEAK = Card(
    id="which-peak",
    chapter="01",
    title="Which peak?",
    **Worth(points=10, minutes=10, difficulty=3, importance=5),
    answers=("which_peak",),
    text=f"""Find the right peak on a vendor's data sheet. Two pages report how long one {{{{device}}}} would need, at 100 % of its
peak, for {{{{model}}}} with {{{{params:count}}}} parameters on {{{{tokens:count}}}} tokens in BF16. One time is twice the
other, and both come from the same sheet.

`which_peak(params, tokens, sheet)` gets the sheet as a list of rows, in any order:
`{{"precision": "BF16", "tflops": 1234.5, "sparsity": True}}`. The rate of a row with `sparsity` requires two of every
four weights to be zero; that doubles the rate, and ordinary training cannot use it. The numbers on this sheet are for
**{{{{scope}}}}**. Some sheets have only one of the two BF16 rows.

Return the pair `(peak, years)`: the FLOP/s that **one GPU** can reach in dense BF16 training, and the years of
365.25 days that it needs at 100 % of that rate, with 6 FLOP per parameter and token. {CLOSE} (Years of 365 days pass.)""",
    hints=(
        "Which row of the sheet also holds for a matrix without any zeros?",
        "Look only at BF16. If there is a row without sparsity, take it; if not, undo the doubling. Then check the unit, "
        "and how many GPUs the number is for.",
        "`row = dense row if there is one else sparse row`; `peak = row['tflops'] * 1e12 / (2 if row['sparsity'] else "
        "1) / GPUs on the sheet`; years = work / peak / seconds in a year.",
    ),
    allowed="the standard library, numpy and `course_lib.units`; the rate comes from the sheet, not from `facts`.",
    hides=("compute:train_seconds",),
    params={
        "params": float(facts.run("GPT-3 175B").params),
        "tokens": float(facts.run("GPT-3 175B").tokens),
        "model": "GPT-3",
        "device": "H100 SXM",
        "gpus": 1,
        "scope": _scope(1),
    },
    vary=_peak_variant,
    structural="gpus",
    probe=rows,
    returns=Rows(TupleOf({"peak in FLOP/s": Maybe(Number("FLOP/s")), "years": Maybe(Number("years"))})),
)

BEFORE_WALLS = (STATE_13B, TRAIN_DAYS, MFU_WASTE, PREDICT_WEEKS, WHICH_PEAK)
