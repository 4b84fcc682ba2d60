from course_chapters.ch01.exercises.shared import audit_card, audit_task, peak
from course_grader.exercises.audits import Item
from course_lib.estimate import facts
from course_lib.estimate.units import number_text, percent_text

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


def _run_text() -> str:
    run = facts.run("Llama 3.1 405B")
    return (
        f"{number_text(float(run.params))} parameters, {number_text(float(run.tokens), 4)} tokens, "
        f"{int(run.devices):,} H100 at {percent_text(float(run.mfu))} MFU ({run.mfu.source}), "
        f"{number_text(float(run.device_hours), 4)} GPU-hours ({run.device_hours.source})"
    )


CARD = audit_card(
    "audit_run",
    "Audit: how long was it, how much was lost?",
    f"""Recompute each statement below and judge it. They are about a famous run and two smaller ones. The makers of
Llama 3.1 405B published: {_run_text()}. You check the first statement by two routes that have only the number of GPUs
in common. An H100 has {peak("H100 SXM")}, a year 365.25 days; a time on one H100 without a stated utilization assumes
100 % of the peak; training costs 6 FLOP per parameter and token. About the third statement:
{facts.claim("forty-percent-burns-sixty").value.condition}.

{audit_task("audit_run", RUN_ITEMS)}""",
    (
        "Two independent routes roughly agree. What does that imply for a third number that differs from both?",
        "By FLOPs: the work divided by what all GPUs deliver. By hours: GPU-hours divided by GPUs. A waste needs a "
        "baseline: what would the same work have cost at the better rate?",
        "`days = 6 * P * T / (gpus * peak * mfu) / 86400`; `days = gpu_hours / gpus / 24`; `waste = 1 - mfu "
        "/ baseline`.",
    ),
)
