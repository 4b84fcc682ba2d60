"""Chapter 16's widgets: pages filled and freed, the rows of a batch, latency against load, both phases on the roofline, drafts."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.patches import Patch, Rectangle

from course_lib import serving
from course_lib.figures import style
from course_lib.figures.palette import BLUE, EMPTY, GREEN, GREY, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, YELLOW
from course_lib.figures.style import Picture
from course_lib.serving.speed import Sustained
from course_lib.units import MS, TFLOP, duration_text, number_text, percent_text
from course_lib.widgets.explore import Explorer, explore, menu, play, slider

SHADES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
REPLICA = serving.Deployment(model="llama3-8b", device="H100 SXM")

# --- pages filled and freed ------------------------------------------------------------------------

SLOTS, STEPS, RESERVED = 768, 60, 128  # slots of the pool, steps of the film, and the longest sequence
PAGE_SIZES = (4, 16, 32, RESERVED)


@dataclass(frozen=True)
class PoolFrame:
    """The pool after one step: for each page its sequences and filled slots, who waits, and what is wasted."""

    pages: tuple[tuple[tuple[int, ...], int], ...]
    running: int
    waiting: int
    wasted: int
    tokens: int


@lru_cache(maxsize=8)
def pool_film(page_size: int) -> tuple[PoolFrame, ...]:
    """Sequences that come, grow by two tokens a step, are forked once in a while, and end. One page of `RESERVED` slots each is a
    contiguous cache: room for the longest sequence is taken at the start."""
    coin = np.random.default_rng(4)
    plan = [(int(coin.integers(6, 40)), int(coin.integers(12, 44)), bool(coin.random() < 0.2)) for _ in range(80)]
    pool, ends, frames, arrived = serving.PagePool(SLOTS // page_size, page_size), {}, [], 0.0
    queue = iter(enumerate(plan))
    waiting = []
    for _ in range(STEPS):
        arrived += 1.1
        while arrived >= 1:
            waiting.append(next(queue))
            arrived -= 1
        for name in [name for name, end in ends.items() if pool.tokens(name) >= end]:
            pool.release(name)
            del ends[name]
        spare = len(ends) if page_size < RESERVED else 0  # a page for each to grow
        while waiting and pool.pages_of(waiting[0][1][0]) + spare <= pool.free_pages:
            name, (prompt, reply, forked) = waiting.pop(0)
            pool.add(name, prompt)
            ends[name] = prompt + reply
            if forked and page_size < RESERVED:
                pool.fork(name, name + 1000)
                ends[name + 1000] = prompt + reply
        for name in ends:
            try:
                pool.append(name, 2)
            except serving.OutOfPages:
                continue  # it waits a step
        frames.append(_frame(pool, len(waiting)))
    return tuple(frames)


def _frame(pool: serving.PagePool, waiting: int) -> PoolFrame:
    owners: list[list[int]] = [[] for _ in pool.counts]
    filled = [0] * len(pool.counts)
    for name, one in pool.sequences.items():
        for place, page in enumerate(one.table):
            owners[page].append(name)
            filled[page] = max(filled[page], min(pool.page_size, one.tokens - place * pool.page_size))
    pages = tuple((tuple(names), used) for names, used in zip(owners, filled, strict=True))
    return PoolFrame(pages, len(pool.sequences), waiting, pool.wasted_slots, sum(filled))


def draw_pages(step: int = STEPS, page_size: int = 16) -> Picture:
    """The pool's pages after a step, each filled as far as its slots are, in the color of its sequence; shared pages are framed."""
    frame = pool_film(page_size)[step - 1]
    figure, axes = style.new(3.1, left=0.15, right=0.15, bottom=0.5)
    rows = 8 if page_size < RESERVED else 2
    columns = len(frame.pages) // rows
    for page, (names, used) in enumerate(frame.pages):
        x, y = page % columns, page // columns
        axes.add_patch(Rectangle((x + 0.06, y + 0.1), 0.88, 0.8, facecolor=EMPTY, linewidth=0))
        if names:
            share = 0.88 * used / page_size
            axes.add_patch(Rectangle((x + 0.06, y + 0.1), share, 0.8, facecolor=SHADES[names[0] % 8], linewidth=0))
            shared = len(names) > 1
            edge = {"edgecolor": INK if shared else SOFT, "linewidth": 1.6 if shared else 0.5}
            axes.add_patch(Rectangle((x + 0.06, y + 0.1), 0.88, 0.8, fill=False, **edge))
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    style.bare(axes)
    room = sum(page_size for names, _ in frame.pages if names)
    title = f"Step {step}: {frame.running} sequences run, {frame.waiting} wait; {percent_text(frame.wasted / max(room, 1), 2)} of the taken slots empty"
    style.dress(axes, title)
    style.note(
        axes, 0, -0.09, "a box is a page; filled as far as it holds tokens; a dark frame: shared by several sequences"
    )
    figure.alt = f"{title}. {len(frame.pages)} pages of {page_size} tokens hold {frame.tokens} tokens of {SLOTS} slots."
    return figure


def pages(step: int = 30) -> Explorer:
    """Play the pool; change the size of a page, up to a contiguous block for the longest sequence."""
    return explore(
        draw_pages,
        step=play(range(1, STEPS + 1), step, label="step", interval=250),
        page_size=slider(
            PAGE_SIZES,
            16,
            label="page",
            text=lambda size: f"{size} tokens" if size < RESERVED else f"{size}: reserved block",
        ),
    )


# --- the rows of a batch ---------------------------------------------------------------------------

FRAMES = 40
KINDS = ("static", "continuous", "chunked")
BATCH_REQUESTS = tuple(
    serving.Request(i, arrival, prompt, output)
    for i, (arrival, prompt, output) in enumerate(
        [(0.0, 400, 60), (0.02, 900, 25), (0.05, 300, 110), (0.1, 500, 40), (0.24, 12_000, 30), (0.3, 400, 55)]
        + [(0.42, 600, 30), (0.55, 300, 70), (0.62, 800, 20), (0.7, 500, 40)]
    )
)


@lru_cache(maxsize=8)
def batch_run(scheduler: str) -> serving.Outcome:
    """Ten requests on one replica with four places in the batch."""
    return serving.simulate(BATCH_REQUESTS, REPLICA, scheduler, max_batch=4, trace=True)


def draw_batch(frame: int = FRAMES, scheduler: str = "continuous") -> Picture:
    """A row for each request: waiting, its prompt computed, decoding, and standing still while another prompt is computed."""
    run = batch_run(scheduler)
    longest = max(batch_run(kind).finish.max() for kind in KINDS)
    now = longest * frame / FRAMES
    figure, axes = style.new(3.4, left=0.85, bottom=0.85)
    for row, (one, finish) in enumerate(zip(run.requests, run.finish, strict=True)):
        if one.arrival < now:
            axes.barh(row, min(finish, now) - one.arrival, left=one.arrival, height=0.2, color=GREY)
    for span in run.spans:
        if span.start >= now:
            break
        stop = min(span.stop, now)
        for places, ink in ((span.prompts, ORANGE), (span.decoding, BLUE)):
            axes.barh(list(places), stop - span.start, left=span.start, height=0.66, color=ink)
    axes.set(xlim=(0, longest), ylim=(len(run.requests) - 0.4, -0.6))
    axes.set_yticks(range(len(run.requests)), [f"{one.prompt:,}+{one.output}" for one in run.requests], fontsize=7)
    done = run.finish <= now
    gap = duration_text(float(run.gaps.max()), 2)
    title = (
        f"{scheduler}, {duration_text(now, 2)}: {int(done.sum())} of {len(done)} done; longest gap between tokens {gap}"
    )
    style.dress(axes, title, "seconds (a row is a request: prompt + reply tokens)")
    handles = [
        Patch(facecolor=ink, label=text) for ink, text in ((ORANGE, "prompt"), (BLUE, "decoding"), (GREY, "waiting"))
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=3, frameon=False, fontsize=8)
    figure.alt = f"{title}. All are done after {duration_text(float(run.finish.max()), 3)}; the first tokens come after {duration_text(float(np.mean(run.ttft)), 2)} on average."
    return figure


def batch(frame: int = FRAMES) -> Explorer:
    """Play a batch under three schedulers."""
    return explore(
        draw_batch,
        frame=play(range(1, FRAMES + 1), frame, label="time", interval=200, text=lambda frame: f"{frame} of {FRAMES}"),
        scheduler=menu(KINDS, "continuous", label="scheduler"),
    )


# --- latency against load --------------------------------------------------------------------------

RATES = (1.0, 4.0, 7.0, 10.0, 13.0, 16.0, 19.0, 22.0, 25.0)
PROMPTS = (512, 1024, 2048, 4096)
LOAD_REQUESTS = 400


@lru_cache(maxsize=256)
def load_point(rate: float, scheduler: str, prompt: int) -> tuple[float, float, float]:
    """Median and 99th percentile of the time to the first token, and the 99th percentile of gaps between tokens, in seconds."""
    requests = serving.poisson_requests(LOAD_REQUESTS, rate, 1, prompt=(prompt, prompt / 2), output=(150, 75))
    run = serving.simulate(requests, REPLICA, scheduler, max_batch=64)
    return run.percentile("ttft", 50), run.percentile("ttft", 99), run.percentile("gap", 99)


def draw_load(rate: float = 10.0, scheduler: str = "chunked", prompt: int = 1024) -> Picture:
    """Latencies over the arrival rate, and where the chosen rate lies."""
    points = np.array([load_point(each, scheduler, prompt) for each in RATES]) / MS
    figure, axes = style.new(3.3, left=0.8, bottom=0.85)
    for column, ink, text in (
        (0, SKY, "first token, median"),
        (1, BLUE, "first token, 99 %"),
        (2, ORANGE, "gap, 99 %"),
    ):
        axes.semilogy(RATES, points[:, column], "o-", color=ink, markersize=3, label=text)
    axes.axvline(rate, color=VERMILION, linewidth=1.2, linestyle="--")
    axes.set(ylim=(5, 2e5), xlim=(0, RATES[-1] + 1))
    middle, tail, gap = points[RATES.index(rate)]
    title = f"{scheduler}, {rate:g} requests/s: first token {duration_text(middle * MS, 2)}, 99 % within {duration_text(tail * MS, 2)}"
    style.dress(axes, title, "requests per second", "milliseconds", grid="y")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=3)
    figure.alt = f"{title}; 99 % of the gaps between tokens are below {duration_text(gap * MS, 2)}. 8B on one H100, prompts of about {prompt:,} tokens."
    return figure


def load(rate: float = 10.0) -> Explorer:
    """Raise the rate until the queue grows without bound."""
    return explore(
        draw_load,
        rate=slider(RATES, rate, label="arrivals", text=lambda each: f"{each:g} requests/s"),
        scheduler=menu(("static", "continuous", "chunked"), "chunked", label="scheduler"),
        prompt=slider(PROMPTS, 1024, label="prompts", text=lambda each: f"about {each:,} tokens"),
    )


# --- both phases on the roofline -------------------------------------------------------------------

IDEAL = Sustained(
    compute=1, memory=1, cache=1, wire=1, layer_seconds=0, message_seconds=0, host_seconds=0, sequence_seconds=0
)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (0, 512, 2048, 8192, 32_768)
ROOF = serving.Deployment(model="llama3-8b", device="H100 SXM", sustained=IDEAL)


def intensity(chunk: float, pairs: float, batch: float, context: float) -> float:
    """FLOP per byte of an iteration: products and attention over weights and cache."""
    part = ROOF.parts(chunk, pairs, batch, context, max(batch, 1))
    return (part["compute"] + part["attention"]) * ROOF.flops / ((part["weights"] + part["cache"]) * ROOF.bandwidth)


def draw_phases(batch: int = 16, context: int = 2048, prompt: int = 1024) -> Picture:
    """Where one decode iteration and one prompt lie under the roof of an H100."""
    figure, axes = style.new(3.3, left=0.85)
    x = np.geomspace(0.5, 2e4, 100)
    peak, slope = ROOF.flops / TFLOP, ROOF.bandwidth / TFLOP
    axes.loglog(x, np.minimum(peak, x * slope), color=INK, linewidth=1.6)
    reach = lambda at: min(peak, at * slope)  # noqa: E731
    path = [intensity(0, 0, each, each * context) for each in BATCHES]
    axes.plot(
        path, [reach(each) for each in path], "-", color=BLUE, linewidth=4, alpha=0.35, label="decode, batch 1 to 256"
    )
    here, first = intensity(0, 0, batch, batch * context), intensity(prompt, serving.causal_pairs(prompt), 0, 0)
    axes.plot(here, reach(here), "o", color=BLUE, markersize=9, label=f"decode: {number_text(here, 2)} FLOP/B")
    axes.plot(first, reach(first), "D", color=ORANGE, markersize=8, label=f"prefill: {number_text(first, 2)} FLOP/B")
    axes.set(xlim=(0.5, 2e4), ylim=(1, 2500))
    title = f"Decode reaches {percent_text(reach(here) / peak, 2)} of the peak, prefill {percent_text(reach(first) / peak, 2)}"
    style.dress(axes, title, "FLOP per byte of device memory", "TFLOP/s at most", grid="both")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    figure.alt = f"{title}. Batch {batch} with {context:,} tokens of context each; a prompt of {prompt:,} tokens. 8B in bf16 on one H100."
    return figure


def phases(batch: int = 16) -> Explorer:
    """Move the batch, the context and the prompt."""
    return explore(
        draw_phases,
        batch=play(BATCHES, batch, label="batch", text=lambda each: f"{each} sequences", interval=900),
        context=slider(CONTEXTS, 2048, label="context", text=lambda each: f"{each:,} tokens"),
        prompt=slider((16, 128, 1024, 8192), 1024, label="prompt", text=lambda each: f"{each:,} tokens"),
    )


# --- drafts ----------------------------------------------------------------------------------------

DRAFTED = range(13)


def draw_drafts(rate: float = 0.8, cost: float = 0.1, check: float = 1.0) -> Picture:
    """Speedup over the number of drafted tokens."""
    figure, axes = style.new(3.0)
    cost_of = lambda drafted: 1 + (check - 1) * drafted / 12  # noqa: E731
    gains = [serving.speedup(rate, drafted, cost, cost_of(drafted)) for drafted in DRAFTED]
    best = int(np.argmax(gains))
    axes.bar(DRAFTED, gains, color=[GREEN if drafted == best else SKY for drafted in DRAFTED])
    axes.axhline(1, color=INK, linewidth=1, linestyle="--")
    axes.set(ylim=(0, 5))
    axes.set_xticks(DRAFTED)
    title = f"{best} drafted tokens are best: {number_text(gains[best], 3)} times as fast"
    style.dress(axes, title, "drafted tokens (dashed: without drafts)", "speedup", grid="y")
    figure.alt = f"{title}. A drafted token is accepted with probability {rate:g} and costs {cost:g} of a pass."
    return figure


def drafts(rate: float = 0.8) -> Explorer:
    """Change how often a draft is right, what it costs, and what checking costs."""
    return explore(
        draw_drafts,
        rate=slider((0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), rate, label="accepted", text=lambda each: percent_text(each)),
        cost=slider((0.02, 0.05, 0.1, 0.2, 0.4), 0.1, label="a draft costs", text=lambda each: f"{each:g} of a pass"),
        check=slider((1.0, 2.0, 4.0, 12.0), 1.0, label="checking 12", text=lambda each: f"{each:g} passes"),
    )
