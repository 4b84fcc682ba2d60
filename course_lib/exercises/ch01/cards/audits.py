"""Audits of chapter 01: published statements, some wrong and some right, to be recomputed and judged."""

from typing import Any

from course_lib import facts
from course_lib.exercises import Card
from course_lib.exercises.audits import AUDIT, Item, rules
from course_lib.units import number_text, percent_text

CAUSES = {
    "as printed": "the statement is right",
    "unit": "the number has the wrong unit",
    "missing factor": "a factor that the statement itself names is missing from its number",
    "dense or sparse": "the sparse peak was used for the dense one, or the dense for the sparse",
    "wrong baseline": "the share is relative to something that no run can reach",
    "wrong scope": "the number is true of a smaller part, or of a larger whole, than the statement says",
    "convention": "both ways of counting are defensible",
    "reversed conclusion": "the numbers are right, but they imply the opposite",
}


STEP_ITEMS = (
    Item("step-70b-8ms", "", "seconds"),
    Item("llama70b-500-years", "", "years"),
    Item("llama70b-6-months", "", "months of a twelfth of a year"),
    Item("llama3-17-days", "", "days"),
    Item("gpt3-5-years", "", "years"),
    Item("cluster-24-eflops", "", "EFLOP/s (10¹⁸)"),
)
RUN_ITEMS = (
    Item("54-days-by-flops", "from the FLOPs", "days", claim="llama3-54-days"),
    Item("54-days-by-hours", "from the GPU-hours", "days", claim="llama3-54-days"),
    Item(
        "forty-percent-burns-sixty",
        "against the MFU that the lesson itself calls achievable",
        "a fraction of the money",
    ),
    Item("llama3-1170-years", "", "years"),
    Item("seven-b-1966-days", "", "days"),
    Item("waste-3-million", "", "millions of US dollars"),
)


def statement(items: tuple[Item, ...]) -> str:
    """The Markdown table of an audit's statements, quoted from the facts with their sources."""
    lines = ["| id | published statement | your number in |", "|---|---|---|"]
    for item in items:
        claim = facts.claim(item.claim or item.id)
        way = f", {item.asked}" if item.asked else ""
        source = claim.value.source.removeprefix("a public lesson, ")
        lines.append(f"| `{item.id}` | “{claim.text}” *({source})* | {item.unit}{way} |")
    return "\n".join(lines)


def _task(name: str, items: tuple[Item, ...]) -> str:
    return f"""{statement(items)}

{rules(name, CAUSES)}"""


def _peak(device: str) -> str:
    return f"{number_text(float(facts.device(device).dense_flops) / 1e12)} TFLOP/s dense"


def _run_text() -> str:
    run = facts.run("Llama 3.1 405B")
    return (
        f"{number_text(float(run.params))} parameters, {number_text(float(run.tokens), 4)} tokens, {int(run.devices):,} H100 "
        f"at {percent_text(float(run.mfu))} MFU ({run.mfu.source}), {number_text(float(run.device_hours), 4)} GPU-hours "
        f"({run.device_hours.source})"
    )


def _audit(name: str, answer: str, title: str, text: str, hints: tuple[str, str, str], **more: Any) -> Card:
    return Card(
        id=name,
        chapter="01",
        title=title,
        points=12,
        minutes=15,
        **AUDIT,
        answers=(answer,),
        text=text,
        hints=hints,
        **more,
    )


AUDIT_ONE_STEP = _audit(
    "audit-one-step",
    "audit_steps",
    "Audit: a step, a run, a peak",
    f"""These are six statements quoted from public lessons on this subject. Recompute each from the inputs it names; where
it names none, an H100 has {_peak("H100 SXM")}, a year 365.25 days, and training costs 6 FLOP per parameter and token.

{_task("audit_steps", STEP_ITEMS)}""",
    (
        "Before you calculate: for which of these numbers do you already know the order of magnitude?",
        "Recompute all six the same way: work over speed. Then divide each published number by yours. A ratio of 1 is "
        "right; a ratio of 1,000, of 2 or of the MFU points to the cause.",
        '`work = 6 * params * tokens`; `speed = gpus * peak * mfu`; `"some-id": (work / speed / unit, "wrong", "unit")`.',
    ),
    difficulty=3,
    importance=4,
)

AUDIT_RUN_LENGTH = _audit(
    "audit-run-length",
    "audit_run",
    "Audit: how long was it, how much was lost?",
    f"""Recompute each statement below and judge it. They are about a famous run and two smaller ones. The makers of Llama 3.1 405B published:
{_run_text()}. You check the first statement by two routes that have only the number of GPUs in common. An H100 has
{_peak("H100 SXM")}, a year 365.25 days; a time on one H100 without a stated utilization assumes 100 % of the peak; training costs
6 FLOP per parameter and token. About the third statement: {facts.claim("forty-percent-burns-sixty").value.condition}.

{_task("audit_run", RUN_ITEMS)}""",
    (
        "Two independent routes roughly agree. What does that imply for a third number that differs from both?",
        "By FLOPs: the work divided by what all GPUs deliver. By hours: GPU-hours divided by GPUs. A waste needs a baseline: "
        "what would the same work have cost at the better rate?",
        "`days = 6 * P * T / (gpus * peak * mfu) / 86400`; `days = gpu_hours / gpus / 24`; `waste = 1 - mfu / baseline`.",
    ),
    difficulty=3,
    importance=4,
)

AUDITS = (AUDIT_ONE_STEP, AUDIT_RUN_LENGTH)
