"""A task for a model of one's own, with bounds that the best plan of the search just meets."""

from dataclasses import replace

from course_lib.estimate.units import BILLION
from course_lib.operate.capstone.failure_log import drawn_log
from course_lib.operate.capstone.plans import assess, best
from course_lib.operate.capstone.task import Task

SLACK = 1.05  # times the best plan's days and dollars


def own_task(model: str, cluster: str, *, seq: int, sequences: int, billions: float, log: int = 0) -> Task:
    """A task like the capstone's: `model` is a name or the path of a Hugging Face `config.json`, `cluster` such as
    "104xH100", `log` the number of the failure log that is drawn for it.

    planner.NoPlan if nothing fits; ValueError for a model or cluster that is not known.
    """
    loose = Task(model=model, cluster=cluster, seq=seq, sequences=sequences, tokens=billions * BILLION)
    loose = replace(loose, days=float("inf"), usd=float("inf"), log=drawn_log(loose.servers, log))
    quickest = assess(best(loose), loose)
    return replace(loose, days=SLACK * quickest.days, usd=SLACK * quickest.usd)
