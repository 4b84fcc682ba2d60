from course_grader.judging import Params, prediction
from course_lib.cluster.collectives import ring_rate
from course_lib.estimate.compute import train_seconds
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.memory import weights_bytes
from course_lib.estimate.units import bytes_text, duration_text
from course_lib.parallel.sharding import bytes_per_param_sent


def talking_seconds(params: Params) -> float:
    """Seconds for which a GPU sends in a step of FSDP over all GPUs."""
    return bytes_per_param_sent(3, ranks=params["gpus"]) * params["params"] / _rate(params)


def _rate(params: Params) -> float:
    """Bytes/s of a ring through full servers."""
    return float(ring_rate(params["gpus"], params["per_server"], params["link"], params["bandwidth"]))


def computing_seconds(params: Params) -> float:
    """Seconds for which a GPU computes in the same step."""
    return train_seconds(params["params"], params["tokens"], params["rate"], devices=params["gpus"])


def _reveal(params: Params) -> str:
    weights, rate = bytes_text(weights_bytes(params["params"])), bytes_text(_rate(params))
    sends, computes = duration_text(talking_seconds(params)), duration_text(computing_seconds(params))
    longest = measured.series("H100 nodes")[-1]
    batch = f"{params['tokens'] / 2**20:g} Mi tokens"
    return (
        f"{sends}: three times the {weights} of weights, at {rate}/s and without latency. "
        f"For {batch}, each GPU computes for {computes}. "
        f"A ring of {longest.ranks} H100s was measured at {bytes_text(longest.bus_bandwidth)}/s (06)."
    )


JUDGING = prediction(
    unit="seconds",
    truth=talking_seconds,
    reveal=_reveal,
    why="""Each GPU receives the whole model twice and passes on gradients of the whole model, however many GPUs there
are. Only its computation shrinks. So we gather in smaller groups (HSDP), or cut the model in other ways as well.""",
    pytorch="`fully_shard` with a two-dimensional mesh is HSDP.",
)

ANSWERS = r'''# %% right: worked
def sending_interval() -> tuple[float, float]:
    """Seconds that you believe contain the time a GPU sends: (low, high), high at most 4 × low."""
    asked = params("predict-all-shards")
    rate = min(asked.link, asked.per_server * asked.bandwidth)  # bytes/s: all adapters of a server, or the links inside
    guess = 3 * 2 * asked.params * (asked.gpus - 1) / asked.gpus / rate
    return guess / 1.8, guess * 1.8
# %% right: far off, and committed
# ~ return guess / 1.8, guess * 1.8 ==> return [0.5, 2.0]
# %% wrong: too wide => values too-wide
# ~ return guess / 1.8, guess * 1.8 ==> return 1, 100
# %% wrong: turned round => values reversed
# ~ return guess / 1.8, guess * 1.8 ==> return 8, 4
# %% wrong: one number => values not-a-pair
# ~ return guess / 1.8, guess * 1.8 ==> return 6.1
# %% wrong: from zero => values not-positive
# ~ return guess / 1.8, guess * 1.8 ==> return 0, 8
'''
