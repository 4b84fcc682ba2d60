import math
from functools import cache

from course_grader.judging import Params, prediction
from course_lib.operate.capstone.plans import assess
from course_lib.operate.capstone.task import Task


@cache
def _seconds(model: str, cluster: str, sequences: int, seq: int, share: float) -> float:
    days, usd = math.inf, math.inf
    task = Task(model=model, cluster=cluster, sequences=sequences, seq=seq, days=days, usd=usd, across_share=share)
    return assess({"dp": task.gpus, "zero": 3, "microbatches": sequences // task.gpus}, task).seconds


def slower_ratio(params: Params) -> float:
    """A step with the slower network over one with the usual network, as the planner sees them."""
    run = params["model"], params["cluster"], params["sequences"], params["seq"]
    return _seconds(*run, 1 / params["slower"]) / _seconds(*run, 1.0)


JUDGING = prediction(
    "times",
    slower_ratio,
    lambda params: f"By the planner, a step takes {slower_ratio(params):.3g} times as long.",
    why="As long as the gathers are shorter than the computation of a micro-batch, a slower wire costs nothing. "
    "Beyond that point every second of traffic shows. So the ratio is smaller than the factor of the wire, and it "
    "is larger the closer the run was to the edge.",
    pytorch="Larger micro-batches, or HSDP with its gathers inside a server, move the edge.",
)

ANSWERS = r'''# %% right: worked
def slower_interval() -> tuple[float, float]:
    """How many times longer a step takes: (low, high), high at most 4 × low."""
    slower = params("predict-slower-wire").slower  # the gathers were about half as long as the computation, or longer
    return slower / 4, slower
# %% right: from a roofline
def slower_interval():
    compute = 6 * 8e9 * 4096 / 500e12
    traffic = 3 * 2 * 8e9 / 40e9
    ratio = max(compute, 8 * traffic) / max(compute, traffic)
    return [ratio / 2, ratio * 1.5]
# %% wrong: one number => values not-a-pair
# ~ return slower / 4, slower ==> return slower
# %% wrong: it commits to nothing => values too-wide
# ~ return slower / 4, slower ==> return slower / 8, slower
# %% wrong: the high end comes first => values reversed
# ~ return slower / 4, slower ==> return slower, slower / 4
# %% wrong: none => values not-positive
# ~ return slower / 4, slower ==> return 0, slower
'''
