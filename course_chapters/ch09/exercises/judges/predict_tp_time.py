from course_grader.judging import Params, prediction
from course_lib.estimate import facts
from course_lib.estimate.units import GB, bytes_text, duration_text
from course_lib.parallel.tensor.traffic import tp_cost_per_layer


def tp_time(params: Params) -> float:
    """Seconds of the all-reduces that are to be predicted."""
    cost = tp_cost_per_layer(params["tokens"], params["hidden"], params["ranks"], 0.0, params["bandwidth"])
    return float(params["layers"] * cost.seconds)


def _reveal(params: Params) -> str:
    cost = tp_cost_per_layer(params["tokens"], params["hidden"], params["ranks"], 0.0, params["bandwidth"])
    inside = facts.device("H100 SXM").link_one_way
    fast = duration_text(tp_time({**params, "bandwidth": inside}))
    return (
        f"{duration_text(tp_time(params))}: {bytes_text(cost.nbytes)} from every rank for each of {params['layers']} "
        f"layers. Over the links inside a server of H100, at {inside / GB:.0f} GB/s, it would be {fast}."
    )


JUDGING = prediction(
    unit="seconds",
    why="Every layer all-reduces a tensor of activations four times, each time sending almost twice its bytes, and "
    "the next product has to wait: over the network that alone takes longer than the products it was cut for.",
    pytorch="`init_device_mesh` puts the tensor-parallel axis last, so that neighbors share a server.",
    reveal=_reveal,
    truth=tp_time,
)

ANSWERS = r'''# %% right: worked
def tp_interval() -> tuple[float, float]:
    """An interval for the seconds of the all-reduces: (low, high), with high at most 4 × low."""
    asked = params("predict-tp-time")
    sent = 4 * 2 * (1 - 1 / asked.ranks) * asked.tokens * asked.hidden * 2  # bytes a layer
    seconds = asked.layers * sent / asked.bandwidth
    return seconds / 1.9, seconds * 1.9
# %% right: a guess, and wrong
# ~ return seconds / 1.9, seconds * 1.9 ==> return [1e-3, 4e-3]
'''
