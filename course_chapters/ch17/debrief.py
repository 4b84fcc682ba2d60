"""After the capstone: a learner's plan beside the planner's choice and published runs of about that size."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from IPython.display import Markdown, display

from course_chapters.table import table
from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, GREY, GRID, INK, ORANGE, PALE, PURPLE, SKY, VERMILION, VIOLET, YELLOW
from course_lib.draw.style import Picture
from course_lib.estimate import compute, facts
from course_lib.estimate.units import GB, bytes_text, money_text, number_text, percent_text
from course_lib.operate import capstone
from course_lib.operate.capstone import Assessed, Task, assess
from course_lib.parallel import planner
from course_lib.parallel.planner.advice import CAUSES

NEAREST = 2  # published runs to compare with
FARTHEST = 10.0  # times the parameters, times the ratio of GPUs
AXES = ("tp", "cp", "pp", "dp", "ep", "zero")
INKS = {
    "attention": VIOLET,
    "tp": VERMILION,
    "cp": ORANGE,
    "dp": PURPLE,
    "pp": GREEN,
    "bubble": YELLOW,
    "recompute": SKY,
}
Answer = Callable[[], tuple[Mapping[str, object], Mapping[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One plan of the comparison."""

    name: str
    layout: str
    gpus: int
    tokens_per_s: float  # of one GPU
    mfu: float  # a fraction of the dense rate of the number format
    conditions: str
    found: Assessed | None = None  # of a published run nothing else is known


def nearest(task: Task) -> list[facts.PublishedStep]:
    """Published steps of models of that kind and size, dense or with experts, nearest first; at least one."""
    mine = task.job()

    def apart(step: facts.PublishedStep) -> tuple[bool, float]:
        other = planner.Job(model=step.model, seq=step.seq, sequences=step.sequences)
        size = abs(math.log(planner.used_params(other) / planner.used_params(mine)))
        return (other.shape.experts > 0) != (mine.shape.experts > 0), size + abs(math.log(step.gpus / task.gpus))

    found = sorted(facts.steps(), key=apart)
    return [step for step in found if apart(step) < (False, math.log(FARTHEST))][:NEAREST] or found[:1]


def contenders(plan: Mapping[str, object], task: Task) -> list[Row]:
    """The learner's plan, the planner's, and the published ones."""
    plans = {"your plan": plan, "the planner's": capstone.best(task)}
    return [_planned(name, each, task) for name, each in plans.items()] + [_published(step) for step in nearest(task)]


def _planned(name: str, plan: Mapping[str, object], task: Task) -> Row:
    found = assess(plan, task)
    degrees = [(axis, plan.get(axis, 1)) for axis in AXES[:-1]]
    layout = " × ".join(f"{axis} {degree}" for axis, degree in degrees if isinstance(degree, int) and degree > 1)
    used = planner.used_params(task.job())
    rate = found.mfu * task.hardware().peak / float(compute.train_flops(used, 1))
    words = f"{layout}, ZeRO-{plan.get('zero', 1)}, recompute {plan.get('recompute', 'none')}"
    conditions = f"predicted; bf16, {task.seq:,} tokens"
    return Row(
        name=name, layout=words, gpus=found.gpus, tokens_per_s=rate, mfu=found.mfu, conditions=conditions, found=found
    )


def _published(step: facts.PublishedStep) -> Row:
    device, source = facts.device(step.device), facts.reference(step.source)
    used = planner.used_params(planner.Job(model=step.model, seq=step.seq, sequences=step.sequences))
    peak = float(device.fp8_flops if step.dtype == "fp8" else device.dense_flops)
    return Row(
        name=f"{step.model}, {step.software}",
        layout=step.layout.replace("=", " ").replace(",", ", "),
        gpus=step.gpus,
        tokens_per_s=step.tokens_per_s,
        mfu=float(compute.mfu(used, step.tokens_per_s, 1, peak)),
        conditions=f"printed ([{source.year}]({source.url})); {step.device}, {step.dtype}, {step.seq:,} tokens",
    )


def compared(plan: Mapping[str, object], task: Task) -> Markdown:
    """The rows as a table, and what the planner's choice has that the learner's has not."""
    found = contenders(plan, task)
    lines = table(
        [
            {
                "": row.name,
                "layout": row.layout,
                "GPUs": row.gpus,
                "tokens/s of a GPU": number_text(row.tokens_per_s, 3),
                "MFU": percent_text(row.mfu, 2),
                "memory": bytes_text(row.found.memory) if row.found else "–",
                "days": number_text(row.found.days) if row.found else "–",
                "dollars": money_text(row.found.usd) if row.found else "–",
                "conditions": row.conditions,
            }
            for row in found
        ]
    )
    yours, best = (row.found for row in found[:2])
    assert yours and best
    longer = yours.days / best.days - 1
    said = "as long as" if abs(longer) < 0.01 else f"{percent_text(abs(longer), 2)} {_more(longer)} than"
    room = (yours.memory - best.memory) / GB
    held = f"{abs(room):.1f} GB {'more' if room > 0 else 'less'}" if abs(room) >= 0.1 else "as much"
    causes = CAUSES[yours.binding], CAUSES[best.binding]
    waits = f"Yours waits most for {causes[0]}, the planner's for {causes[1]}."
    if yours.binding == best.binding:
        waits = f"Both wait most for {causes[0]}."
    return Markdown(
        f"{lines.data}\n\nYour run takes {said} the planner's, and its fullest GPU holds {held}. {waits} "
        "Published runs were made with their authors' software, batch and number format; "
        "compare their axes with yours, and ask which of your conditions (sequence, memory, network) differs."
    )


def _more(longer: float) -> str:
    return "longer" if longer > 0 else "shorter"


def picture(plan: Mapping[str, object], task: Task) -> Picture:
    """Where the time of each run goes: to the FLOPs that MFU counts, and, where a prediction says it, to what else."""
    found = contenders(plan, task)
    figure, axes = style.new(0.55 * len(found) + 1.55, left=2.35, bottom=1.05)
    labels, said = set(), []
    for place, row in enumerate(found):
        parts = {"counted by MFU": (row.mfu, BLUE)}
        if row.found:
            shares = {name: seconds / row.found.seconds for name, seconds in row.found.parts.items()}
            parts["matmuls below the peak rate"] = max(shares["matmul"] - row.mfu, 0.0), PALE["memory"]
            parts |= {CAUSES[name]: (shares[name], ink) for name, ink in INKS.items() if shares[name] > 0.005}
        rest = 1 - sum(share for share, _ in parts.values())
        parts |= {"the rest": (rest, GREY)} if row.found else {"not published": (rest, GRID)}
        left = 0.0
        for name, (share, ink) in parts.items():
            axes.barh(place, share, left=left, color=ink, linewidth=0, label=None if name in labels else name)
            left += share
            labels.add(name)
        said.append(f"{row.name}: " + ", ".join(f"{name} {percent_text(each, 2)}" for name, (each, _) in parts.items()))
    axes.set_yticks(range(len(found)), [f"{row.name}\n{row.gpus} GPUs" for row in found])
    axes.set(xlim=(0, 1), ylim=(len(found) - 0.5, -0.5))
    axes.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0", "25 %", "50 %", "75 %", "100 %"))
    title = "Where the time of a step goes"
    style.dress(axes, title)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.3, -0.12), ncol=3, frameon=False, fontsize=style.SMALL, labelcolor=INK
    )
    figure.alt = f"{title}. " + "; ".join(said) + "."
    return figure


def debrief(answer: Answer, task: Task) -> Picture | None:
    """Show the table and return the picture, if the learner's plan holds; else say what is missing."""
    try:
        plan = answer()[0]
        broken = assess(plan, task).problems
    except NotImplementedError:
        display(Markdown("Answer `capstone-plan` above first; then this cell compares your plan."))
        return None
    if broken:
        display(
            Markdown(f"Your plan breaks a bound first: {capstone.PROBLEMS[broken[0]]}. Then this cell compares it.")
        )
        return None
    display(compared(plan, task))
    return picture(plan, task)
