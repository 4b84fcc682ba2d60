"""Published measurements of engines against this library's predictions, source by source, and the consistency of a day
of serving.

The constants of `speed.Sustained` and `Deployment.reserve` were chosen on the rows for which `chosen_on` holds, by the
smallest mean of
|log(predicted / measured)|; errors are reported on the other rows.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_chapters.ch16.serving_facts import ServiceDay, ServingRow, serving_rows
from course_lib.estimate.units import DAY, HOUR
from course_lib.operate.serving.speed import (
    Deployment,
    decode_seconds,
    prefill_seconds,
    static_tokens_per_s,
    steady_tokens_per_s,
)

FIT_SOURCES = ("trtllm-2023", "trtllm-2025", "lmdeploy-2023")
STATIC_SOURCES = ("trtllm-2023",)  # all sequences of a batch start and end together
NOTES = {
    "trtllm-2023": "Few rows; kernels of prompts without CUDA graphs are not modeled, so short prompts take longer "
    "than predicted.",
    "trtllm-2025": "The batch is as large as the cache allows with whole replies reserved, at most 2,048.",
    "lmdeploy-2023": "A fixed number of requests at once, each replaced when it ends.",
    "lambda-vllm-2024": "Not bound by the GPU: the authors report that version 0.6.0, with less work on the CPU, is "
    "more than twice as fast.",
    "mlperf-2024": "The division into replicas and the length of prompts are assumptions.",
}
MOST_IN_FLIGHT = 2048


def chosen_on(row: ServingRow) -> bool:
    """Whether the constants were chosen on this row: half of the rows of some sources, by a checksum of the label."""
    return row.source in FIT_SOURCES and zlib.crc32(row.label.encode()) % 2 == 0


def deployment_of(row: ServingRow) -> Deployment:
    """The replica that was measured."""
    return Deployment(model=row.model, device=row.device, tp=row.tp, weight_size=row.weight_size, kv_size=row.kv_size)


def predict(row: ServingRow) -> float:
    """What the library predicts for this row, in its unit: seconds, or output tokens/s of all devices."""
    one = deployment_of(row)
    if row.metric == "first_token":
        return prefill_seconds(one, row.prompt)
    if row.metric == "token":
        return decode_seconds(one, row.batch, row.prompt + row.output / 2)
    replicas = row.devices // row.tp
    if row.batch and row.source in STATIC_SOURCES:
        return replicas * static_tokens_per_s(one, row.batch, row.prompt, row.output)
    return replicas * steady_tokens_per_s(one, row.prompt, row.output, batch=row.batch or None, most=MOST_IN_FLIGHT)


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of one source and metric on the rows that no constant was chosen on, as fractions."""

    source: str
    engine: str
    metric: str
    rows: int
    judged: int
    median: float  # of the absolute error
    worst: float  # 90th percentile of the absolute error
    bias: float  # median with its sign: positive where the prediction is too large

    @property
    def note(self) -> str:
        """What to know of the source."""
        return NOTES[self.source]


def errors(rows: Sequence[ServingRow] | None = None) -> list[Errors]:
    """A table of errors, one entry for each source and metric."""
    groups: dict[tuple[str, str], list[ServingRow]] = {}
    for row in serving_rows() if rows is None else rows:
        groups.setdefault((row.source, row.metric), []).append(row)
    found = []
    for (source, metric), some in groups.items():
        judged = [row for row in some if not chosen_on(row)]
        if judged:
            signed = np.array([predict(row) / float(row.value) - 1 for row in judged])
            size = np.abs(signed)
            summary = (float(np.median(size)), float(np.quantile(size, 0.9)), float(np.median(signed)))
            found.append(Errors(source, some[0].engine, metric, len(some), len(judged), *summary))
    return found


@dataclass(frozen=True, slots=True)
class Check:
    """A printed number and the same number from others of the same report."""

    what: str
    printed: float
    computed: float
    unit: str

    @property
    def error(self) -> float:
        """Relative difference, as a fraction."""
        return self.computed / self.printed - 1


def day_checks(day: ServiceDay) -> list[Check]:
    """What a day's report says twice: nodes from tokens and rates, cost from nodes, the share of cached input."""
    prefill = day.input_tokens / DAY / day.node_input_rate
    decode = day.output_tokens / DAY / day.node_output_rate
    return [
        Check("nodes, from tokens and rates of a node", float(day.nodes), prefill + decode, "nodes"),
        Check(
            "cost of a day, from nodes and rent", float(day.cost), day.nodes * 8 * DAY / HOUR * day.device_hour, "USD"
        ),
        Check("cached share of the input", float(day.cached_share), day.cached_tokens / day.input_tokens, "of 1"),
    ]


def users_at_once(day: ServiceDay) -> tuple[float, float]:
    """Replies in progress at once, by Little's law from the day's output and the range of speeds that users see."""
    rate = day.output_tokens / DAY
    return rate / day.high_user_rate, rate / day.low_user_rate
