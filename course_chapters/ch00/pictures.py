"""The pictures of chapter 00: the opening ring, published runs by year, and the road through the course."""

from collections.abc import Iterable, Mapping

from course_chapters import course, links
from course_chapters.ch00.exercises.numbers import LABELED
from course_chapters.ch00.widgets import frames
from course_lib import draw
from course_lib.cluster import Run
from course_lib.draw import palette, style
from course_lib.draw.explore import Explorer, explore, play, slider
from course_lib.draw.style import Picture
from course_lib.estimate import facts


def draw_totals(run: Run, step: int) -> Picture:
    """A ring after `step` rounds, with every rank's total; the run's results are each rank's totals, round by round."""
    rounds, steps = frames(run.messages), run.ranks - 1
    moving = [(message.src, message.dst) for message in rounds[step - 1]] if step else []
    totals = {rank: f"{run.results[rank][step]:.0f}" for rank in range(run.ranks)}
    done = range(run.ranks) if step == steps else ()
    title = f"Every rank's total after round {step} of {steps}"
    return draw.ring(run.ranks, holders=done, moving=moving, values=totals, title=title)


def totals(run: Run) -> Explorer:
    """The ring, round by round."""
    return explore(lambda step: draw_totals(run, step), step=play(range(run.ranks), 1, label="round", interval=700))


def accelerators_by_year(needed: int, guess: float | None = None) -> Picture:
    """Published training runs by year and number of accelerators, with the computed number for a run in 2026 and a
    guess."""
    runs = [run for run in facts.runs().values() if run.get("devices") and not run.get("tp")]
    picture, axes = style.new(3.4, left=0.9)
    axes.semilogy([run.year for run in runs], [float(run.devices) for run in runs], "o", color=palette.BLUE)
    named = [(run.year, run.devices, f"  {run.name}") for run in runs if run.name in LABELED]
    asked = [(2026.9, needed, f"  computed: {needed:,}"), (2026.9, guess, "  your guess")]
    for year, count, name in [*named, *asked]:
        if count:
            axes.annotate(name, (year, count), va="center", **style.font(style.SMALL))
    axes.semilogy([2026.9] * 2, [needed, guess or needed], "D", color=palette.VERMILION)
    axes.set(xlim=(2017, 2028.8), ylim=(4, 4e4))
    style.dress(axes, "Accelerators of published training runs", x="year", y="accelerators", grid="y")
    first, last = runs[0], max(runs, key=lambda run: run.devices)
    picture.alt = (
        f"From {first.name} on {first.devices:.0f} accelerators to {last.name} on {last.devices:,.0f}; "
        f"the running example needs {needed:,}."
    )
    return picture


def draw_road(number: str, passed: list[str]) -> str:
    """What chapter `number` may assume, and the constraints of every chapter up to it; `passed` lists passed core
    exercises."""
    known = [each for each in course.chapters().values() if each.number <= number]
    body = [
        (links.chapter_link(each.number) + " ✓" * passed.count(each.number), each.question, each.relieved, each.created)
        for each in known
    ]
    assume = " · ".join(each.relieved for each in known[:-1][-3:]) or "nothing at all"
    lead = f"<p><b>{known[-1].title}.</b> You may assume: {assume}.</p>"
    return lead + links.table(("chapter", "question", "constraint removed", "constraint revealed"), body)


def road(exercises: Iterable[Mapping[str, object]]) -> Explorer:
    """The road up to a chapter; `exercises` are the learner's, whose passed core exercises get a check mark."""
    passed = [str(each["chapter"]) for each in exercises if each["passed"] and each["kind"] == "core"]
    numbers = tuple(course.chapters())
    upto = slider(numbers, numbers[-1], label="up to chapter")
    return explore(lambda number: draw_road(number, passed), number=upto, alt="The road through the course.")
