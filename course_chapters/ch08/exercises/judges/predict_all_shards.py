"""Judge of predict-all-shards: prediction: one model over all GPUs."""

from course_grader.judging import Params, prediction
from course_lib.estimate.units import bytes_text, duration_text
from course_lib.parallel.sharding import bytes_per_param_sent


def talking_seconds(params: Params) -> float:
    """Seconds for which a GPU sends in a step of FSDP over all GPUs."""
    n = params["gpus"]
    return bytes_per_param_sent(3) * (n - 1) / n * params["params"] / params["bandwidth"]


def computing_seconds(params: Params) -> float:
    """Seconds for which a GPU computes in the same step."""
    return 6 * params["params"] * params["tokens"] / params["gpus"] / params["rate"]


def _reveal(params: Params) -> str:
    weights, rate = bytes_text(2 * params["params"]), bytes_text(params["bandwidth"])
    sends, computes = duration_text(talking_seconds(params)), duration_text(computing_seconds(params))
    batch = f"{params['tokens'] / 2**20:g} Mi tokens"
    return f"{sends}: three times the {weights} of weights, at {rate}/s. For {batch}, each GPU computes for {computes}."


JUDGING = prediction(
    unit="seconds",
    truth=talking_seconds,
    reveal=_reveal,
    why="""Each GPU receives the whole model twice and passes on gradients of the whole model, however many GPUs there are. Only its
computation shrinks. So we gather inside a server (HSDP), or cut the model in other ways as well.""",
    pytorch="`fully_shard` with a two-dimensional mesh is HSDP.",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
def sending_interval() -> tuple[float, float]:
    """Seconds that you believe contain the time a GPU sends: (low, high), high at most 4 × low."""
    ### BEGIN SOLUTION
    asked = params("predict-all-shards")
    guess = 3 * 2 * asked.params * (asked.gpus - 1) / asked.gpus / asked.bandwidth
    return guess / 1.8, guess * 1.8
    ### END SOLUTION

# %% right: far off, and committed
# ~ return guess / 1.8, guess * 1.8 ==> return [0.5, 2.0]
# %% wrong: too wide => values too-wide
# ~ return guess / 1.8, guess * 1.8 ==> return 1, 100
# %% wrong: turned round => values reversed
# ~ return guess / 1.8, guess * 1.8 ==> return 60, 30
# %% wrong: one number => values not-a-pair
# ~ return guess / 1.8, guess * 1.8 ==> return 48.6
# %% wrong: from zero => values not-positive
# ~ return guess / 1.8, guess * 1.8 ==> return 0, 50
'''
