"""Chapter 16's tables and plots."""

from functools import cache

import numpy as np
import torch
from IPython.display import Markdown

from course_lib import facts, serving
from course_lib.chapters.table import table
from course_lib.exercises.ch16 import numbers
from course_lib.figures import style
from course_lib.figures.palette import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION
from course_lib.figures.style import Picture
from course_lib.scaling_laws import chinchilla_law
from course_lib.serving import published
from course_lib.units import BILLION, GB, MS, TRILLION, bytes_text, duration_text, number_text, percent_text


def cache_table() -> Markdown:
    """Bytes of a token and of a long sequence for models with different attention."""
    rows = []
    for name, kind in (
        ("llama2-7b", "MHA"),
        ("llama3-8b", "GQA"),
        ("llama3-70b", "GQA"),
        ("llama3-405b", "GQA"),
        ("palm-540b", "MQA"),
        ("deepseek-v3", "MLA"),
    ):
        one = serving.kv_bytes_per_token(name)
        rows.append(
            {
                "model": name,
                "attention": kind,
                "a token": bytes_text(one),
                "with MHA": bytes_text(serving.kv_bytes_per_token(name, kind="MHA")),
                "32,768 tokens": bytes_text(serving.kv_bytes(name, 32_768)),
                "of one H100": percent_text(serving.kv_bytes(name, 32_768) / (80 * GB), 2),
            }
        )
    return table(rows)


def phases_table() -> Markdown:
    """Seconds by cause of a prompt and of decode iterations, of 8B on one H100."""
    one = numbers.SMALL
    rows = []
    for name, given in (
        ("prompt of 2,048", (2048, serving.causal_pairs(2048), 0, 0, 1)),
        ("decode, 1 sequence", (0, 0, 1, 2048, 1)),
        ("decode, 64 sequences", (0, 0, 64, 64 * 2048, 64)),
        ("decode, 256 sequences", (0, 0, 256, 256 * 1024, 256)),
    ):
        part = one.parts(*given)
        rows.append(
            {
                "iteration": name,
                "reads weights": duration_text(part["weights"], 2),
                "computes products": duration_text(part["compute"], 2),
                "reads the cache": duration_text(part["cache"], 2),
                "overhead": duration_text(part["overhead"], 2),
                "in all": duration_text(one.iteration_seconds(*given), 3),
            }
        )
    return table(rows)


def schedulers_table(rate: float = 10.0) -> Markdown:
    """Four schedulers on the same requests; the split one has two replicas, the others one."""
    requests = serving.poisson_requests(1500, rate, 1, prompt=(1024, 512), output=(150, 75))
    rows = []
    for scheduler in serving.SCHEDULERS:
        run = serving.simulate(requests, numbers.SMALL, scheduler, max_batch=64)
        rows.append(
            {
                "scheduler": scheduler,
                "GPUs": 2 if scheduler == "split" else 1,
                "first token, median": duration_text(run.percentile("ttft", 50), 2),
                "first token, 99 %": duration_text(run.percentile("ttft", 99), 2),
                "gap between tokens, median": duration_text(run.percentile("gap", 50), 2),
                "gap, 99 %": duration_text(run.percentile("gap", 99), 2),
                "output tokens/s": f"{run.tokens_per_s:,.0f}",
            }
        )
    return table(rows)


def prefix_table() -> Markdown:
    """Time to the first token with and without a prefix cache, by the length of the shared beginning."""
    rows = []
    for shared in (0, 256, 1024, 1792):
        requests = serving.poisson_requests(600, 8.0, 1, prompt=2048, output=64, groups=8, shared=shared)
        plain, kept = (
            serving.simulate(requests, numbers.SMALL, "chunked", prefix_pages=pages) for pages in (0, 8 * 1792 // 16)
        )
        rows.append(
            {
                "shared tokens of 2,048": f"{shared:,}",
                "first token without": duration_text(plain.percentile("ttft", 50), 2),
                "with a prefix cache": duration_text(kept.percentile("ttft", 50), 2),
            }
        )
    return table(rows)


def queue_table() -> Markdown:
    """Waits of a simulated server with constant service time beside the closed form."""

    class Constant:
        """Every request takes a second."""

        kv_capacity = 10**6

        @staticmethod
        def iteration_seconds(chunk: float, pairs: float, batch: float, context: float, outputs: float) -> float:
            """A second, whatever is computed."""
            return 1.0

    rows = []
    for load in (0.5, 0.8, 0.9, 0.95):
        run = serving.simulate(serving.poisson_requests(10_000, load, 1, 1, 1), Constant, max_batch=1)
        rows.append(
            {
                "utilization": percent_text(load),
                "wait by M/D/1, service times": number_text(serving.md1_wait(load, 1.0), 3),
                "simulated": number_text(float(run.ttft.mean()) - 1, 3),
                "if service times vary (M/M/1)": number_text(serving.mm1_wait(load, 1.0), 3),
            }
        )
    return table(rows)


@cache
def quantization() -> dict[tuple[int, str], float]:
    """Relative error of attention's output by bits and by what shares a scale of the keys."""
    keys = serving.keys_with_outliers(512, 64, outliers=3, times=10)
    coin = torch.Generator().manual_seed(1)
    q, v = torch.randn(64, 64, generator=coin), torch.randn(512, 64, generator=coin)
    return {
        (bits, per): serving.attention_error(q, keys, v, bits, keys=per)
        for bits in (8, 6, 4, 3, 2)
        for per in ("channel", "token", "tensor")
    }


def quantization_plot() -> Picture:
    """Error over bits for scales per channel, per token and for all keys."""
    figure, axes = style.new(2.8)
    for per, ink in (("channel", GREEN), ("token", ORANGE), ("tensor", VERMILION)):
        points = sorted((bits, 100 * error) for (bits, kind), error in quantization().items() if kind == per)
        axes.semilogy(*zip(*points, strict=True), "o-", color=ink, label=f"keys: a scale per {per}")
    axes.set_xticks((2, 3, 4, 6, 8))
    title = "Keys have outlier channels; a scale per channel isolates them"
    style.dress(axes, title, "bits of a number", "error of the output, %", grid="y")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    four = {per: percent_text(quantization()[4, per], 2) for per in ("channel", "token", "tensor")}
    figure.alt = f"{title}. With 4 bits the error is {four['channel']} per channel, {four['token']} per token and {four['tensor']} with one scale."
    return figure


def layouts_table() -> Markdown:
    """Eight H100s as replicas of 8B and of 70B."""
    rows = []
    for model in ("llama3-8b", "llama3-70b"):
        base = numbers.SMALL if model == "llama3-8b" else numbers.LARGE
        for row in serving.server_layouts(base, 8, 1024, 256):
            rows.append(
                {
                    "model": model,
                    "replicas × TP": f"{row.replicas} × {row.tp}",
                    "first token": duration_text(row.first_token, 2),
                    "a token, alone": duration_text(row.token, 2),
                    "output tokens/s, full": f"{row.tokens_per_s:,.0f}",
                }
            )
    return table(rows)


def pools_table() -> Markdown:
    """Replicas for prefill and decode by the length of prompts, with 20 requests/s."""
    rows = []
    for prompt, output in ((256, 512), (1024, 256), (4096, 256), (16_384, 128)):
        sizes = serving.pool_sizes(numbers.SMALL, 20.0, prompt, output, token_limit=0.025)
        moved = serving.kv_transfer_seconds(numbers.SMALL, prompt, facts.device("H100 SXM").network_one_way)
        rows.append(
            {
                "prompt + reply": f"{prompt:,} + {output}",
                "prefill replicas": sizes.prefill,
                "decode replicas": sizes.decode,
                "cache moves in": duration_text(moved, 2),
                "prompt computed in": duration_text(serving.prefill_seconds(numbers.SMALL, prompt), 2),
            }
        )
    return table(rows)


def cost_table() -> Markdown:
    """Dollars per million output tokens by batch and by how busy the day is."""
    one, price = numbers.SMALL, facts.price("H100 hour")
    rows = []
    for batch in (1, 8, 64, 256):
        rate = serving.steady_tokens_per_s(one, 1024, 256, batch=batch)
        token = duration_text(serving.decode_seconds(one, batch, 1152), 2)
        cells = {
            f"{share:.0%} busy": f"${serving.usd_per_million(price, 1, rate, share):.2f}" for share in (1.0, 0.3, 0.05)
        }
        rows.append({"batch": batch, "tokens/s": f"{rate:,.0f}", "a token takes": token, **cells})
    return table(rows)


def lifetime_table() -> Markdown:
    """The cheapest model of one quality, by how much it will serve."""
    law, loss = chinchilla_law(), numbers.LOSS
    rows = []
    for served in (0.0, 1e12, 1e13, 1e14):
        choice = serving.cheapest_model(law, loss, served)
        train = serving.lifetime_flops(choice.params, choice.train_tokens, 0)
        rows.append(
            {
                "tokens served": "none" if not served else f"{served / TRILLION:,.0f} trillion",
                "parameters": f"{choice.params / BILLION:.1f} billion",
                "training tokens": f"{choice.train_tokens / TRILLION:.2f} trillion",
                "tokens per parameter": f"{choice.train_tokens / choice.params:,.0f}",
                "FLOP of training": percent_text(train / choice.flops, 2),
            }
        )
    return table(rows)


def errors_table() -> Markdown:
    """Errors of the predictions by source and metric, on rows that no constant was chosen on."""
    names = {"throughput": "output tokens/s", "first_token": "first token", "token": "gap between tokens"}
    return table(
        [
            {
                "engine": each.engine,
                "measured": names[each.metric],
                "rows judged": f"{each.judged} of {each.rows}",
                "median error": percent_text(each.median, 2),
                "90 % within": percent_text(each.worst, 2),
                "bias": f"{'+' if each.bias > 0 else '−'}{percent_text(abs(each.bias), 2)}",
            }
            for each in published.errors()
        ]
    )


def errors_plot() -> Picture:
    """Predicted over measured for every judged row."""
    figure, axes = style.new(3.2, left=0.85)
    inks = dict(zip(facts.serving_sources(), (PURPLE, GREEN, BLUE, VERMILION, SKY), strict=True))
    for source, ink in inks.items():
        rows = [row for row in facts.serving_rows(source) if not published.chosen_on(row)]
        scale = [1 if row.metric == "throughput" else 1 / MS for row in rows]
        x = [float(row.value) * each for row, each in zip(rows, scale, strict=True)]
        y = [published.predict(row) * each for row, each in zip(rows, scale, strict=True)]
        axes.loglog(x, y, "o", color=ink, markersize=4, label=rows[0].engine)
    span = np.array([5.0, 5e4])
    axes.loglog(span, span, color=SOFT, linewidth=1)
    title = "Only the engine that waits for its CPU is far from the line"
    style.dress(axes, title, "measured (tokens/s, or ms)", "predicted", grid="both")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    figure.alt = (
        f"{title}. Predicted against measured, {sum(each.judged for each in published.errors())} rows of five sources."
    )
    return figure


def day_table() -> Markdown:
    """What DeepSeek's report of a day says, recomputed from its other numbers."""
    return table(
        [
            {
                "quantity": check.what,
                "printed": number_text(check.printed, 4),
                "recomputed": number_text(check.computed, 4),
                "unit": check.unit,
            }
            for check in serving.day_checks(facts.service_day())
        ]
    )


def plan_table() -> Markdown:
    """The plan's 64 H100s serving the trained 70B: replicas, latencies, throughput and cost."""
    rows = []
    for name, size, tp in (("bf16", 2.0, 4), ("bf16", 2.0, 8), ("fp8", 1.0, 2), ("fp8", 1.0, 4)):
        base = serving.Deployment(model="llama3-70b", device="H100 SXM", tp=tp, weight_size=size, kv_size=size)
        rate = numbers.plan_rate(base)
        rows.append(
            {
                "numbers": name,
                "replicas × TP": f"{numbers.GPUS // tp} × {tp}",
                "a token, alone": duration_text(serving.decode_seconds(base, 1, 1152), 2),
                "first token of 1,024": duration_text(serving.prefill_seconds(base, 1024), 2),
                "output tokens/s of all": f"{rate:,.0f}",
                "per million at half load": f"${serving.usd_per_million(facts.price('H100 hour'), numbers.GPUS, rate, 0.5):.2f}",
            }
        )
    return table(rows)
