"""Texts of the numbers in chapter 16's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping

from course_chapters.ch16 import serving_facts
from course_chapters.ch16.published import errors, users_at_once
from course_chapters.running_example import GPUS, opening, reading, usd_text
from course_lib.estimate import facts
from course_lib.estimate.units import BILLION, KB, bytes_text, duration_text, number_text, percent_text
from course_lib.operate import serving
from course_lib.operate.serving.speed import Sustained

SMALL = serving.Deployment(model="llama3-8b", device="H100 SXM")
LARGE = serving.Deployment(model="llama3-70b", device="H100 SXM", tp=8)
IDEAL = Sustained(
    compute=1, memory=1, cache=1, wire=1, layer_seconds=0, message_seconds=0, host_seconds=0, sequence_seconds=0
)
ROOF = serving.Deployment(model="llama3-8b", device="H100 SXM", sustained=IDEAL)  # as its data sheet says
LOSS = 2.05  # nats per token that the models of the table on lifetimes reach
PROMPT, REPLY = 1024, 256  # of the plan's requests: a choice
MOST = 256  # sequences at once in a replica of the plan
TABLE_REPLY = 150  # tokens of a mean reply in the table of schedulers
DAY = serving_facts.service_day()


def plan_rate(one: serving.Deployment) -> float:
    """Output tokens/s of the plan's GPUs as replicas of this kind."""
    return GPUS // one.tp * serving.steady_tokens_per_s(one, PROMPT, REPLY, most=MOST)


def _plan() -> serving.Deployment:
    return serving.Deployment(model="llama3-70b", device="H100 SXM", tp=2, weight_size=1.0, kv_size=1.0)


def _ratio(long: float, short: float) -> str:
    return number_text(long / short, 2)


def _error(source: str, metric: str) -> float:
    (found,) = (each for each in errors() if (each.source, each.metric) == (source, metric))
    return found.median


_SOURCES = (
    "vllm-2023 vllm-060-2024 orca-2022 sarathi-2024 distserve-2024 leviathan-2023 chen-2023 mqa-2019 "
    "gqa-2023 deepseek-v2-2024 kivi-2024 little-1961 sardana-2024 deepseek-serving-2025 mlperf-2024"
)


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("16"),
    # cache
    "large_token": lambda: f"{serving.kv_bytes_per_token('llama3-70b') / KB:.0f} kB",
    "large_token_mha": lambda: f"{serving.kv_bytes_per_token('llama3-70b', kind='MHA') / 1e6:.1f} MB",
    "small_reserve": lambda: percent_text(SMALL.reserve),
    "small_room": lambda: f"{SMALL.kv_capacity:,}",
    "used_least": lambda: percent_text(facts.claim("cache-used-least").value, 2),
    "used_most": lambda: percent_text(facts.claim("cache-used-most").value, 2),
    "small_weights": lambda: bytes_text(SMALL.weight_bytes),
    "latent": lambda: str(facts.model("deepseek-v3").latent_width),
    "large_layers": lambda: str(LARGE.model.layers),
    "large_kv_heads": lambda: str(LARGE.model.kv_heads),
    "large_heads": lambda: str(LARGE.model.heads),
    "large_head": lambda: str(LARGE.model.head_dim),
    # phases
    "alone_share": lambda: percent_text(
        2 * SMALL.model.params / serving.decode_seconds(SMALL, 1, PROMPT) / facts.device("H100 SXM").dense_flops, 1
    ),
    "batch_slower": lambda: _ratio(serving.decode_seconds(SMALL, 64, PROMPT), serving.decode_seconds(SMALL, 1, PROMPT)),
    "small_decode": lambda: duration_text(serving.decode_seconds(SMALL, 1, PROMPT), 2),
    "small_decode_64": lambda: duration_text(serving.decode_seconds(SMALL, 64, PROMPT), 2),
    "batch_gain": lambda: _ratio(
        64 * serving.decode_seconds(SMALL, 1, PROMPT), serving.decode_seconds(SMALL, 64, PROMPT)
    ),
    "ridge_batch": lambda: f"{serving.ridge_batch(ROOF):.0f}",
    "read_once": lambda: duration_text(SMALL.weight_bytes / facts.device("H100 SXM").bandwidth, 2),
    # serving many
    "wait_half": lambda: number_text(serving.md1_wait(0.5, 1.0), 2),
    "wait_high": lambda: number_text(serving.md1_wait(0.95, 1.0), 2),
    # speculative
    "draft_tokens": lambda: number_text(serving.expected_tokens(0.8, 4), 3),
    "draft_gain": lambda: number_text(serving.speedup(0.8, 4, 0.1), 3),
    # published
    "in_flight_error": lambda: percent_text(_error("trtllm-2025", "throughput"), 2),
    "token_error": lambda: percent_text(_error("lmdeploy-2023", "token"), 2),
    "cpu_error": lambda: percent_text(_error("lambda-vllm-2024", "token"), 2),
    "day_nodes": lambda: f"{DAY.nodes:g}",
    "day_output": lambda: f"{DAY.output_tokens / BILLION:.0f} billion",
    "day_cost": lambda: usd_text(DAY.cost),
    "day_cached": lambda: percent_text(DAY.cached_share),
    "day_users": lambda: " to ".join(f"{round(each, -3):,.0f}" for each in users_at_once(DAY)),
    "day_user_rates": lambda: f"{DAY.low_user_rate:g} to {DAY.high_user_rate:g} tokens per second",
    # cost and plan
    "price": lambda: usd_text(facts.price("H100 hour")),
    "loss": lambda: f"{LOSS:g}",
    "plan_rate": lambda: f"{plan_rate(_plan()):,.0f}",
    "plan_replicas": lambda: str(GPUS // 2),
    "plan_token": lambda: duration_text(serving.decode_seconds(_plan(), 1, PROMPT + REPLY / 2), 2),
    "plan_batch": lambda: f"{serving.largest_batch(_plan(), PROMPT + REPLY):,}",
    "plan_prompt": lambda: f"{PROMPT:,}",
    "table_reply": lambda: str(TABLE_REPLY),
    "plan_reply": lambda: str(REPLY),
    "reading": lambda: reading(*_SOURCES.split()),
}
