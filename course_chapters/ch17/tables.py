"""Chapter 17's tables: the plan on one page, remedies, parallelisms, conflicts, graded plans, faults, debates, and
where intuition breaks."""

from collections.abc import Mapping
from dataclasses import replace

from IPython.display import Markdown

from course_chapters import framework_commands
from course_chapters.ch17 import diagnosis, mechanisms, rubric
from course_chapters.ch17.debates import DEBATES
from course_chapters.table import table
from course_grader import exercises
from course_grader.exercises.placeholders import keep_dollars
from course_lib.estimate import facts, running_plan
from course_lib.estimate.units import bytes_text, duration_text, money_text, number_text, percent_text
from course_lib.operate import capstone
from course_lib.operate.capstone import COURSE, assess, strategies
from course_lib.parallel import planner
from course_lib.parallel.planner.advice import CAUSES


def budget(plan: Mapping[str, object], task: capstone.Task = COURSE) -> Markdown:
    """A plan on one page."""
    rows = capstone.budget_page(plan, task)
    return table([{"line": line, "choice": choice, "what follows": follows} for line, choice, follows in rows])


def remedies(task: capstone.Task = COURSE) -> Markdown:
    """What each remedy frees and costs, cheapest first."""
    return table(
        [
            {
                "remedy": each.name,
                "frees": bytes_text(each.freed),
                "leaves": bytes_text(each.memory),
                "a step takes longer by": percent_text(max(each.cost, 0.0), 2),
                "what you change": each.change,
            }
            for each in capstone.remedies(task)
        ]
    )


def parallelisms(gpus: int = 8, seq: int = 8192) -> Markdown:
    """The table of parallelisms."""
    return table(
        [
            {
                "": row.name,
                "divides": row.divides,
                "a GPU sends": bytes_text(row.sent),
                "state": bytes_text(row.state),
                "activations": bytes_text(row.activations),
                "hidden behind": row.hidden,
                "use it when": row.when,
            }
            for row in capstone.parallelisms(gpus, seq)
        ],
        f"{strategies.assumes(gpus, seq)}.",
    )


def conflicts() -> Markdown:
    """How much worse each quantity gets; what a cell counts is in `conflict`."""
    rows = []
    for memory in mechanisms.MEMORY:
        row = {"": memory}
        for other in mechanisms.COORDINATION:
            cell = mechanisms.conflict(memory, other)
            times = f"× {number_text(cell.times, 2)}"
            row[other] = f"**{times}**" if cell.fights else f"{times} (helps)"
        rows.append(row)
    return table(rows, f"{mechanisms.ASSUMES}.")


def conflict(memory: str, coordination: str) -> Markdown:
    """One cell of the matrix: the quantity, both numbers, and the question to answer."""
    cell = mechanisms.conflict(memory, coordination)
    show = {"bytes": bytes_text, "s": duration_text, "fraction": percent_text}.get(cell.unit, number_text)
    verdict = "They fight." if cell.fights else "They help each other."
    return Markdown(
        f"**{memory} with {coordination}**: {cell.quantity}: {show(cell.before)} without, {show(cell.after)} with. "
        f"{verdict} *{cell.prompt}*"
    )


def graded(task: capstone.Task = COURSE) -> Markdown:
    """The three exemplars, line by line of the rubric."""
    lines = {name: rubric.grade(task, one.plan, one.claims) for name, one in rubric.exemplars(task).items()}
    return table(
        [
            {"line": name, "holds if": words} | {plan: _mark(found[name]) for plan, found in lines.items()}
            for name, words in rubric.LINES.items()
        ]
    )


def _mark(line: rubric.Line) -> str:
    show = {"bytes": bytes_text, "USD": money_text, "of the step": percent_text, "apart": percent_text}.get(line.unit)
    value = show(line.value) if show else f"{number_text(line.value)} {line.unit}" if line.unit == "days" else ""
    return f"{'✓' if line.holds else '**✗**'} {value}".strip()


def exemplars(task: capstone.Task = COURSE) -> Markdown:
    """The three plans as their authors hand them in."""
    rows = []
    for one in rubric.exemplars(task).values():
        said = one.claims
        rows.append(
            {
                "plan": ", ".join(f"{name} {value}" for name, value in one.plan.items()),
                "claimed memory": bytes_text(said["memory"]),
                "a step": duration_text(said["seconds"]),
                "days": number_text(said["days"]),
                "dollars": money_text(said["usd"]),
                "MFU": percent_text(said["mfu"]),
                "binding": CAUSES[said["binding"]],
            }
        )
    return table([{"": letter} | row for letter, row in zip("ABC", rows, strict=True)])


def notes(task: capstone.Task = COURSE) -> Markdown:
    """What the grader notes on each plan."""
    lines = []
    for letter, (name, one) in zip("ABC", rubric.exemplars(task).items(), strict=True):
        lines += [f"**{letter}, {name}.** " + " ".join(one.notes)]
    return Markdown("\n\n".join(lines))


def faults(family: str) -> Markdown:
    """The faults of one family: name, mechanism, and what to look at first."""
    rows = [each for each in diagnosis.FAULTS.values() if each.family == family]
    return table(
        [
            {"fault": each.name, "cause": each.cause, "look first at": each.look, "chapter": each.chapter}
            for each in rows
        ]
    )


def debates() -> Markdown:
    """Contested practice: both sides with sources, the course's number, and what would settle it."""
    parts = []
    for each in DEBATES:
        sides = []
        for side in each.sides:
            source = facts.reference(side.source)
            sides.append(
                f"- **{side.claim}** {side.evidence} ([{source.authors.split(',')[0].split(' and ')[0]}, "
                f"{source.year}]({source.url}))"
            )
        parts.append(
            "\n".join(
                [f"**{each.question}**", "", *sides, "", f"{each.number} *What would settle it:* {each.change_mind}"]
            )
        )
    return Markdown(keep_dollars("\n\n".join(parts).replace("$", "\\$")))


def surprises() -> Markdown:
    """Where intuition breaks: what one expects, and what the library computes."""
    good = rubric.exemplars()["good"].plan
    base = assess(good, COURSE)
    slow = assess(good, replace(COURSE, across_share=0.25))
    wide = assess({"tp": 16, "pp": 4, "microbatches": 512}, COURSE)
    both = assess({"tp": 8, "dp": 8, "zero": 3, "microbatches": 64}, COURSE)
    rows = {row.name: row for row in capstone.parallelisms()}
    gathers = mechanisms.conflict("ZeRO-3", "pipeline").times
    lost = capstone.changed(COURSE, "lost server")
    again = assess(capstone.best(lost), lost)
    share = again.tokens / again.days / (COURSE.tokens / assess(capstone.best(COURSE), COURSE).days)
    said = (
        (
            "FSDP sends three times as much as DP",
            f"{number_text(rows['FSDP'].sent / rows['DP'].sent, 2)} times, in one micro-batch",
        ),
        (
            "a network four times slower makes the step much longer",
            f"{percent_text(slow.seconds / base.seconds - 1, 2)} with {running_plan.LAYOUT_TEXT}",
        ),
        (
            "TP and FSDP together beat either",
            f"{duration_text(both.seconds)} a step, against {duration_text(base.seconds)} and "
            f"{duration_text(assess(running_plan.SHARDED, COURSE).seconds)}",
        ),
        (
            "twice the tensor-parallel ranks halve the time of a layer",
            f"tp 16 takes {percent_text(wide.seconds / base.seconds - 1, 2)} longer than tp 8",
        ),
        (
            "ZeRO-3 costs half as much again as ZeRO-1",
            f"{number_text(gathers, 2)} times as many bytes with 32 micro-batches",
        ),
        (
            "one server of eight lost costs an eighth",
            f"{percent_text(1 - share, 2)} of the speed, because {lost.gpus} GPUs divide badly",
        ),
    )
    return table([{"one expects": expected, "the library computes": found} for expected, found in said])


DECISIONS = (  # chapter, its number, what it means, what was decided
    ("01", "state_70b", "of training state in 16-bit Adam", "more than one GPU, whatever the speed"),
    ("04", "batch", "a step", "a batch below the one where more samples stop paying"),
    ("05", "plan_state", "of state on each of 64 GPUs", "bf16 with an fp32 master copy, gradients summed in fp32"),
    ("06", "measured_seconds", "for one all-reduce of all gradients", "once a step, behind the backward pass"),
    ("07", "plan_talk", "of traffic for plain data parallelism", "it would be hidden, but the state does not fit"),
    ("08", "plan_exposed", "exposed in each micro-batch of FSDP", "the simplest plan that fits, and the one to beat"),
    ("09", "share_nvlink", "of a layer's time in tensor-parallel messages", "tp 8, inside a server"),
    ("10", "plan_idle", "of the time four equal stages wait", "four stages between servers"),
    ("11", "plan_time", "for a layer's keys and values at long context", "no context parallelism at 8,192 tokens"),
    ("12", "plan_eight", "of state on a GPU with eight experts", "dense"),
    ("13", "plan_step", "a step", f"{running_plan.LAYOUT_TEXT}, ZeRO-1"),
    ("14", "plan_goodput", "goodput", "checkpoints in the background"),
)


def my_plan() -> Markdown:
    """One line from each chapter's plan, with the number that decided it."""
    rows = []
    for chapter, name, words, decided in DECISIONS:
        number = exercises.numbers(chapter)[name]()
        rows.append({"chapter": chapter, "number": f"{number} {words}", "decision": decided})
    return table(rows)


def launch(plan: Mapping[str, object], task: capstone.Task = COURSE, framework: str = "torchtitan") -> None:
    """Print the command that starts the plan under a framework."""
    layout, job = capstone.layout_of(plan), task.job(str(plan.get("recompute", "none")))
    hardware = task.hardware()
    found = planner.Plan(job=job, cluster=hardware, layout=layout, estimate=planner.estimate(job, hardware, layout))
    print(framework_commands.command(found, framework))
