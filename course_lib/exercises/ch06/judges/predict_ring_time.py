"""Judge of predict-ring-time: prediction: how long does the ring take?"""

from course_lib import collectives
from course_lib.judging import Params, prediction
from course_lib.units import duration_text


def ring_time(params: Params) -> float:
    """Seconds of the ring all-reduce that the learner predicts."""
    ring = collectives.ring_cost(params["nbytes"], params["ranks"], params["latency"], params["bandwidth"])
    return float(ring.seconds)


def _time_reveal(params: Params) -> str:
    cost = collectives.ring_cost(params["nbytes"], params["ranks"], params["latency"], params["bandwidth"])
    latencies = cost.steps * params["latency"]
    return (
        f"{duration_text(cost.seconds)}: {cost.steps:,} messages of {params['nbytes'] / params['ranks'] / 1e9:,.3g} GB. Latency "
        f"accounts for {duration_text(latencies)} of it."
    )


JUDGING = prediction(
    unit="seconds",
    why="Almost twice the tensor passes through every link, whatever N is. The 2(N − 1) latencies are added to that.",
    pytorch="nccl-tests reports this time as bus bandwidth: 2(N − 1)/N of the bytes, divided by the time.",
    reveal=_time_reveal,
    truth=ring_time,
)

ANSWERS = r'''"""Answers to predict-ring-time: committed intervals, and what is none."""


# %% right: a narrow guess, near the truth
def ring_seconds_interval():
    return 2.5, 3.0


# %% right: wide, and far off; committing is what counts  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> [1e-3, 4e-3]

# %% right: one value  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> (7, 7)

# %% wrong: too wide => values too-wide  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> 0.1, 10

# %% wrong: the ends exchanged => values reversed  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> 4, 2

# %% wrong: a single number => values not-a-pair  from: a narrow guess, near the truth
# ~ 5, 3.0 ==> 8

# %% wrong: not positive => values not-positive  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> 0, 3
'''
