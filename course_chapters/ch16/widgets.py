"""Chapter 16's widgets: pages filled and freed, the rows of a batch, latency against load, both phases on the roofline,
drafts."""

from course_chapters.ch16.batch_rows import FRAMES, KINDS, draw_batch
from course_chapters.ch16.page_pool import PAGE_SIZES, RESERVED, STEPS, draw_pages
from course_chapters.ch16.serving_curves import BATCHES, CONTEXTS, PROMPTS, RATES, draw_drafts, draw_load, draw_phases
from course_lib.draw.explore import Explorer, explore, menu, play, slider, toggle
from course_lib.estimate.units import count_text, percent_text


def pages(step: int = 31) -> Explorer:
    """Play the pool; change the size of a page, up to a block for the longest sequence, and stop sharing beginnings."""
    return explore(
        draw_pages,
        step=play(range(1, STEPS + 1), step, label="iteration", interval=400),
        page_size=slider(
            PAGE_SIZES,
            16,
            label="page",
            text=lambda size: f"{size} tokens" if size < RESERVED else f"{size}: reserved block",
        ),
        share=toggle(True, label="share equal beginnings"),
    )


def batch(frame: int = FRAMES) -> Explorer:
    """Play a batch under three schedulers."""
    return explore(
        draw_batch,
        frame=play(range(1, FRAMES + 1), frame, label="time", interval=200, text=lambda frame: f"{frame} of {FRAMES}"),
        scheduler=menu(KINDS, "continuous", label="scheduler"),
    )


def load(rate: float = 10.0) -> Explorer:
    """Raise the rate until the queue grows without bound."""
    return explore(
        draw_load,
        rate=slider(RATES, rate, label="arrivals", text=lambda each: f"{each:g} requests/s"),
        scheduler=menu(("static", "continuous", "chunked"), "chunked", label="scheduler"),
        prompt=slider(PROMPTS, 1024, label="prompts", text=lambda each: f"about {each:,} tokens"),
    )


def phases(batch: int = 16) -> Explorer:
    """Move the batch, the context and the prompt."""
    return explore(
        draw_phases,
        batch=play(BATCHES, batch, label="batch", text=lambda each: count_text(each, "sequence"), interval=900),
        context=slider(CONTEXTS, 2048, label="context", text=lambda each: f"{each:,} tokens"),
        prompt=slider((16, 128, 1024, 8192), 1024, label="prompt", text=lambda each: f"{each:,} tokens"),
    )


def drafts(rate: float = 0.8) -> Explorer:
    """Change how often a draft is right, what it costs, and what checking costs."""
    return explore(
        draw_drafts,
        rate=slider((0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), rate, label="accepted", text=lambda each: percent_text(each)),
        cost=slider((0.02, 0.05, 0.1, 0.2, 0.4), 0.1, label="a draft costs", text=lambda each: f"{each:g} of a pass"),
        check=slider((1.0, 2.0, 4.0, 12.0), 1.0, label="checking 12", text=lambda each: f"{each:g} × a pass"),
    )
