from course_chapters.ch01.exercises.shared import audit_card, audit_task, peak
from course_grader.exercises.audits import Item

STEP_ITEMS = (
    Item("step-70b-8ms", "", "seconds"),
    Item("llama70b-500-years", "", "years"),
    Item("llama70b-6-months", "", "months of a twelfth of a year"),
    Item("llama3-17-days", "", "days"),
    Item("gpt3-5-years", "", "years"),
    Item("cluster-24-eflops", "", "EFLOP/s (10¹⁸)"),
)


CARD = audit_card(
    "audit_steps",
    "Audit: a step, a run, a peak",
    f"""These are six statements quoted from public lessons on this subject. Recompute each from the inputs it names;
where it names none, an H100 has {peak("H100 SXM")}, a year 365.25 days, and training costs 6 FLOP per parameter and
token.

{audit_task("audit_steps", STEP_ITEMS)}""",
    (
        "Before you calculate: for which of these numbers do you already know the order of magnitude?",
        "Recompute all six the same way: work over speed. Then divide each published number by yours. A ratio of 1 is "
        "right; a ratio of 1,000, of 2 or of the MFU points to the cause.",
        '`work = 6 * params * tokens`; `speed = gpus * peak * mfu`; `"some-id": (work / speed / unit, '
        '"wrong", "unit")`.',
    ),
)
