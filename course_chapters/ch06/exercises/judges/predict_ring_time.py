from course_grader.judging import Params, prediction
from course_lib.cluster import collectives
from course_lib.estimate.units import duration_text


def ring_time(params: Params) -> float:
    """Seconds of the ring all-reduce that the learner predicts."""
    ring = collectives.ring_cost(params["nbytes"], params["ranks"], params["latency"], params["bandwidth"])
    return float(ring.seconds)


def _time_reveal(params: Params) -> str:
    cost = collectives.ring_cost(params["nbytes"], params["ranks"], params["latency"], params["bandwidth"])
    latencies = cost.steps * params["latency"]
    return (
        f"{duration_text(cost.seconds)}: {cost.steps:,} messages of {params['nbytes'] / params['ranks'] / 1e9:,.3g} "
        f"GB. Latency accounts for {duration_text(latencies)} of it."
    )


JUDGING = prediction(
    unit="seconds",
    why="Almost twice the tensor passes through every link, whatever N is. The 2(N − 1) latencies are added to that.",
    pytorch="nccl-tests reports this time as bus bandwidth: 2(N − 1)/N of the bytes, divided by the time.",
    reveal=_time_reveal,
    truth=ring_time,
)

ANSWERS = r'''# %% right: worked
def ring_seconds_interval() -> tuple[float, float]:
    """(low, high): the interval in which you expect the ring's time in seconds, with high at most 4 × low."""
    asked = params("predict-ring-time")
    guess = 2 * asked.nbytes / asked.bandwidth  # every byte crosses a link about twice
    return guess / 1.8, guess * 1.8
# %% right: a narrow guess, near the truth
# ~ guess / 1.8, guess * 1.8 ==> 2.5, 3.0
# %% right: wide, and far off; committing is what counts
# ~ guess / 1.8, guess * 1.8 ==> [1e-3, 4e-3]
# %% right: one value
# ~ guess / 1.8, guess * 1.8 ==> (7, 7)
'''
