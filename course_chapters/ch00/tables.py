"""The tables of chapter 00."""

from collections.abc import Collection, Sequence

from IPython.display import HTML

from course_chapters import course, links
from course_chapters.ch00.exercises import numbers
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import HOUR, bytes_text, duration_text, money_text, number_text, percent_text


def _table(head: tuple[str, ...], body: Sequence[tuple[str, ...]], fold: str = "") -> HTML:
    """Rows as an HTML table, folded behind the line `fold` if there is one."""
    made = links.table(head, body)
    return HTML(f"<details><summary>{fold}</summary>{made}</details>" if fold else made)


def _known(fact: float | None) -> str:
    return number_text(fact) if fact else "–"


def published_runs() -> HTML:
    """Every published run with its size, cost and source."""
    rows = []
    for run in [run for run in facts.runs().values() if not run.get("tp")]:
        sizes = map(_known, (run.params, run.get("tokens"), run.flops, run.get("devices"), run.get("days")))
        rows.append((run.name, run.published, *sizes, facts.reference(run.source).short))
    head = ("run", "published", "parameters", "tokens", "FLOP", "devices", "days", "source")
    return _table(head, rows, fold=f"All {len(rows)} published runs (– means not published)")


def cost_by_mfu(params: float, tokens: float, usd_per_hour: float) -> HTML:
    """Cost of a run on H100s at five utilizations, and what one percentage point more saves."""
    rows = []
    for mfu in (0.30, 0.35, 0.40, 0.45, 0.50):
        hours = compute.train_seconds(params, tokens, numbers.H100.dense_flops, mfu) / HOUR
        cost = compute.cost_usd(hours, usd_per_hour)
        saved = compute.points_of_mfu_usd(cost, mfu)
        rows.append((percent_text(mfu), number_text(hours), money_text(cost), money_text(saved)))
    return _table(("MFU", "H100-hours", "cost of the run", "saved by one more point"), rows)


def checkpoint_formats() -> HTML:
    """Whether a checkpoint fits on one H100 in 16 and in 32 bits."""
    rows = []
    for dtype in ("bf16", "fp32"):
        size = memory.weights_bytes(numbers.CHECKPOINT_PARAMS, dtype)
        verdict = "starts" if size <= numbers.H100.memory else "fails while loading"
        rows.append((dtype, bytes_text(size), f"{size / numbers.H100.memory:.2f}", verdict))
    return _table(("stored as", "weights", "fraction of one H100", "the job"), rows)


def batch_readings() -> HTML:
    """Two readings of "the batch size is four": tokens of a step, and steps of the run."""
    rows = []
    for reading, factor in (("one rank's micro-batch", numbers.GPUS * numbers.ACCUMULATE), ("a step of the run", 1)):
        tokens = numbers.SEQUENCES * factor * numbers.SEQ
        rows.append((reading, f"× {factor}", number_text(tokens), number_text(numbers.TOKENS / tokens)))
    return _table(("four sequences in", "factor", "tokens per step", "steps of the run"), rows)


def two_links() -> HTML:
    """Computing, communicating and idle time of a step on the link inside a server and on the one between servers."""
    rows = []
    gpu, work = numbers.H100, numbers.step_flops_seconds()
    for name, rate in (("NVLink, inside", gpu.link_one_way), ("adapter, between", gpu.network_one_way)):
        idle = percent_text(numbers.idle_fraction(rate), 2)
        rows.append((name, duration_text(work), duration_text(numbers.ring_seconds(rate)), idle))
    return _table(("link", "computing", "communicating", "idle share of the step"), rows)


def judged_estimate(suspects: Collection[int]) -> HTML:
    """The seven lines of an estimate, each judged once there are suspects."""
    rows = []
    for number, line in enumerate(numbers.estimate(), 1):
        hit = (number in suspects) == bool(line.fault)
        said = f"{'✓' if hit else '✗'} {line.fault or 'The units agree.'}" if suspects else ""
        rows.append((str(number), line.text, said))
    return _table(("", "the estimate", "what its units show"), rows)


def reading_order(order: Sequence[str]) -> HTML:
    """The ideas that come before one that they need, or that there are none."""
    ideas = course.nodes()
    early = [(ideas[idea].concept, ideas[need].concept) for idea, need in course.out_of_order(order)]
    return _table(("too early", "needs first"), early) if early else HTML("You can read the course in this order.")


def outcomes() -> HTML:
    """The four things that the course teaches."""
    rows = [(f"☐ {each.outcome}", each.you_can, each.shown_by) for each in course.outcomes().values()]
    return _table(("you gain", "you can", "shown by"), rows)


def thesis() -> HTML:
    """Every strategy with the property that it exploits, folded."""
    rows = [
        (each.strategy, each.cuts, each.property, each.operation, each.collective, links.chapter_link(each.chapter))
        for each in course.thesis().values()
    ]
    head = ("strategy", "splits", "property", "key operation", "communication", "chapter")
    return _table(head, rows, fold="The complete thesis table")


def symbols() -> HTML:
    """What the course's letters mean: those of all chapters, and then those of single ones; folded."""
    rows = [
        (each.symbol, " ".join(each.chapters) or "all", each.meaning, each.unit, each.elsewhere)
        for each in course.every_symbol()
    ]
    fold = f"The course's {len(course.symbols())} symbols, and {len(rows) - len(course.symbols())} of single chapters"
    return _table(("symbol", "chapter", "meaning", "unit", "elsewhere"), rows, fold=fold)


def sources() -> HTML:
    """The bibliography, with the numbers that each source supports, folded."""
    rows = [
        (f'<a href="{each.url}">{each.title}</a>', each.authors, str(each.year), "; ".join(each.supports))
        for each in facts.references().values()
        if each.supports
    ]
    return _table(
        ("source", "authors", "year", "the numbers it supports"),
        rows,
        fold=f"{len(rows)} sources, each with its numbers",
    )
