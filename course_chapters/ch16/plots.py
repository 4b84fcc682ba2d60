"""Chapter 16's tables and plots."""

from itertools import starmap

from IPython.display import Markdown

from course_chapters.ch16 import published, serving_facts
from course_chapters.ch16.exercises import numbers
from course_chapters.ch16.serving_errors import errors_plot as errors_plot
from course_chapters.ch16.serving_errors import quantization_plot as quantization_plot
from course_chapters.table import columns
from course_lib.estimate import facts
from course_lib.estimate.scaling_laws import chinchilla_law
from course_lib.estimate.units import BILLION, GB, TRILLION, bytes_text, duration_text, number_text, percent_text
from course_lib.operate import serving

Row = tuple[object, ...]
CONTEXT = numbers.PROMPT + numbers.REPLY // 2  # tokens that a sequence holds on average
REQUESTS = (
    f"prompts of {numbers.PROMPT:,} tokens, replies of {numbers.REPLY}, at most {numbers.MOST} at once in a replica"
)


def cache_table() -> Markdown:
    """Bytes of a token and of a long sequence for models with different attention."""
    kinds = {"llama2-7b": "MHA", **dict.fromkeys(("llama3-8b", "llama3-70b", "llama3-405b"), "GQA")}
    kinds |= {"palm-540b": "MQA", "deepseek-v3": "MLA"}

    def row(name: str, kind: str) -> Row:
        token, as_mha = serving.kv_bytes_per_token(name), serving.kv_bytes_per_token(name, kind="MHA")
        long = serving.kv_bytes(name, 32_768)
        return name, kind, *map(bytes_text, (token, as_mha, long)), percent_text(long / (80 * GB), 2)

    return columns("model | attention | a token | with MHA | 32,768 tokens | of one H100", starmap(row, kinds.items()))


def phases_table() -> Markdown:
    """Seconds by cause of a prompt and of decode iterations, of 8B on one H100, all at the plan's context."""
    one, names, context = numbers.SMALL, ("weights", "compute", "cache", "overhead"), numbers.PROMPT
    work = {  # prompt tokens and their pairs, sequences that decode with their tokens in the cache, outputs
        f"prompt of {context:,}": (context, serving.causal_pairs(context), 0, 0, 1),
        **{
            f"decode, batch of {batch}, {context:,} tokens of context each": (0, 0, batch, batch * context, batch)
            for batch in (1, 64, 256)
        },
    }

    def row(name: str, given: tuple[float, float, float, float, float]) -> Row:
        parts = [duration_text(one.parts(*given)[part], 2) for part in names]
        return name, *parts, duration_text(one.iteration_seconds(*given), 3)

    headings = "iteration | reads weights | computes products | reads the cache | overhead | in all"
    return columns(headings, starmap(row, work.items()))


def schedulers_table(rate: float = 10.0) -> Markdown:
    """Four schedulers on the same requests; the split one has two replicas, the others one."""
    reply = numbers.TABLE_REPLY
    requests = serving.poisson_requests(
        1500, rate, 1, prompt=(numbers.PROMPT, numbers.PROMPT / 2), output=(reply, reply / 2)
    )

    def row(scheduler: str) -> Row:
        run = serving.simulate(requests, numbers.SMALL, scheduler, max_batch=64)
        times = [duration_text(run.percentile(what, rank), 2) for what in ("ttft", "gap") for rank in (50, 99)]
        return scheduler, 2 if scheduler == "split" else 1, *times, f"{run.tokens_per_s:,.0f}"

    latencies = "first token, median | first token, 99 % | gap between tokens, median | gap, 99 %"
    return columns(f"scheduler | GPUs | {latencies} | output tokens/s", map(row, serving.SCHEDULERS))


def prefix_table() -> Markdown:
    """Time to the first token with and without a prefix cache, by the length of the shared beginning."""

    def row(shared: int) -> Row:
        requests = serving.poisson_requests(600, 8.0, 1, prompt=2048, output=64, groups=8, shared=shared)
        runs = [serving.simulate(requests, numbers.SMALL, "chunked", prefix_pages=n) for n in (0, 8 * 1792 // 16)]
        return f"{shared:,}", *(duration_text(run.percentile("ttft", 50), 2) for run in runs)

    headings = "shared tokens of 2,048, at 8 requests/s | first token without | with a prefix cache"
    return columns(headings, map(row, (0, 256, 1024, 1792)))


class _Second(serving.Deployment):
    """Its iterations take a second, whatever is computed."""

    def iteration_seconds(self, *_: object, **__: object) -> float:
        return 1.0


def queue_table() -> Markdown:
    """Waits of a simulated server with constant service time beside the closed form."""
    second = _Second(model="llama3-8b", device="H100 SXM")

    def row(load: float) -> Row:
        run = serving.simulate(serving.poisson_requests(10_000, load, 1, 1, 1), second, max_batch=1, capacity=10**6)
        waits = serving.md1_wait(load, 1.0), float(run.ttft.mean()) - 1, serving.mm1_wait(load, 1.0)
        return percent_text(load), *(number_text(wait, 3) for wait in waits)

    headings = "utilization | wait by M/D/1, service times | simulated | if service times vary (M/M/1)"
    return columns(headings, map(row, (0.5, 0.8, 0.9, 0.95)))


def layouts_table() -> Markdown:
    """Eight H100s as replicas of 8B and of 70B."""

    def row(base: serving.Deployment, one: serving.LayoutRow) -> Row:
        times = duration_text(one.first_token, 2), duration_text(one.token, 2)
        return base.model.name, f"{one.replicas} × {one.tp}", *times, f"{one.tokens_per_s:,.0f}"

    both = [
        (base, one)
        for base in (numbers.SMALL, numbers.LARGE)
        for one in serving.server_layouts(base, 8, numbers.PROMPT, numbers.REPLY, numbers.MOST)
    ]
    headings = "model | replicas × TP | first token | a token, alone | output tokens/s, full"
    return columns(headings, starmap(row, both), f"bf16; {REQUESTS}.")


def pools_table() -> Markdown:
    """Replicas for prefill and decode by the length of prompts, at one rate of requests."""
    rate, limit = 20.0, 0.025  # requests/s, and s between two tokens

    def row(prompt: int, output: int) -> Row:
        sizes = serving.pool_sizes(numbers.SMALL, rate, prompt, output, token_limit=limit)
        moved = serving.kv_transfer_seconds(numbers.SMALL, prompt, facts.device("H100 SXM").network_one_way)
        times = duration_text(moved, 2), duration_text(serving.prefill_seconds(numbers.SMALL, prompt), 2)
        return f"{prompt:,} + {output}", sizes.prefill, sizes.decode, *times

    headings = "prompt + reply | prefill replicas | decode replicas | cache moves in | prompt computed in"
    sizes = ((256, 512), (numbers.PROMPT, numbers.REPLY), (4096, 256), (16_384, 128))
    load = f"{rate:g} requests/s, at most {duration_text(limit)} between tokens"
    return columns(headings, starmap(row, sizes), f"8B, an H100 a replica, {load}; a cache moves over one adapter.")


def cost_table() -> Markdown:
    """Dollars per million output tokens by batch and by how busy the day is."""
    one, price = numbers.SMALL, facts.price("H100 hour")

    def row(batch: int) -> Row:
        rate = serving.steady_tokens_per_s(one, numbers.PROMPT, numbers.REPLY, batch=batch)
        token = duration_text(serving.decode_seconds(one, batch, CONTEXT), 2)
        usd = [f"${serving.usd_per_million(price, 1, rate, share):.2f}" for share in (1.0, 0.3, 0.05)]
        return batch, f"{rate:,.0f}", token, *usd

    headings = f"batch | tokens/s | a token takes, at {CONTEXT:,} tokens of context | 100 % busy | 30 % busy | 5 % busy"
    return columns(headings, map(row, (1, 8, 64, 256)))


def lifetime_table() -> Markdown:
    """The cheapest model of one quality, by how much it will serve."""
    law = chinchilla_law()

    def row(served: float) -> Row:
        choice = serving.cheapest_model(law, numbers.LOSS, served)
        train = serving.lifetime_flops(choice.params, choice.train_tokens, 0)
        tokens = f"{served / TRILLION:,.0f} trillion" if served else "none"
        model = f"{choice.params / BILLION:.1f} billion", f"{choice.train_tokens / TRILLION:.2f} trillion"
        return tokens, *model, f"{choice.train_tokens / choice.params:,.0f}", percent_text(train / choice.flops, 2)

    headings = "tokens served | parameters | training tokens | tokens per parameter | share of all FLOP that trains"
    return columns(headings, map(row, (0.0, 1e12, 1e13, 1e14)))


def errors_table() -> Markdown:
    """Errors of the predictions by source and metric, on rows that no constant was chosen on."""
    names = {"throughput": "output tokens/s", "first_token": "first token", "token": "gap between tokens"}

    def row(each: published.Errors) -> Row:
        bias = f"{'+' if each.bias > 0 else '−'}{percent_text(abs(each.bias), 2)}"
        shares = percent_text(each.median, 2), percent_text(each.worst, 2), bias
        return each.engine, names[each.metric], f"{each.judged} of {each.rows}", *shares

    return columns("engine | measured | rows judged | median error | 90 % within | bias", map(row, published.errors()))


def day_table() -> Markdown:
    """What DeepSeek's report of a day says, recomputed from its other numbers."""
    checks = published.day_checks(serving_facts.service_day())
    rows = [(each.what, number_text(each.printed, 4), number_text(each.computed, 4), each.unit) for each in checks]
    return columns("quantity | printed | recomputed | unit", rows)


def plan_table() -> Markdown:
    """The plan's 64 H100s serving the trained 70B: replicas, latencies, throughput and cost."""

    def row(name: str, size: float, tp: int) -> Row:
        one = serving.Deployment(model="llama3-70b", device="H100 SXM", tp=tp, weight_size=size, kv_size=size)
        times = serving.decode_seconds(one, 1, CONTEXT), serving.prefill_seconds(one, numbers.PROMPT)
        rate = numbers.plan_rate(one)
        usd = serving.usd_per_million(facts.price("H100 hour"), numbers.GPUS, rate, 0.5)
        layout = f"{numbers.GPUS // tp} × {tp}"
        return name, layout, *(duration_text(time, 2) for time in times), f"{rate:,.0f}", f"${usd:.2f}"

    headings = f"numbers | replicas × TP | a token, alone | first token of {numbers.PROMPT:,}"
    kinds = ("bf16", 2.0, 4), ("bf16", 2.0, 8), ("fp8", 1.0, 2), ("fp8", 1.0, 4)
    price = f"${facts.price('H100 hour'):.2f} a GPU-hour"
    assumes = f"{numbers.GPUS} H100s; {REQUESTS}; {price}."
    return columns(f"{headings} | output tokens/s of all | per million at half load", starmap(row, kinds), assumes)
