from course_grader.judging import Params, prediction
from course_lib.estimate import memory
from course_lib.estimate.units import GB, number_text


def kept_by_layers(params: Params) -> float:
    """GB that all layers keep for one sequence: fused attention, 16 bits, no dropout."""
    shape = memory.shape(params["model"])
    each = memory.layer_bytes(shape, 1, params["seq"], kernels="flash", dtype="bf16", dropout=False)
    return params["layers"] * each / GB


def _reveal(params: Params) -> str:
    kept, token = kept_by_layers(params), params["seq"] * params["layers"] * params["hidden"] * 2 / GB
    tensors, weights = number_text(kept / token), number_text(2 * params["params"] / GB)
    return (
        f"{number_text(kept)} GB, or {tensors} tensors of shape (tokens, hidden) in each layer. The weights take "
        f"{weights} GB in 16 bits. Checkpointing every layer keeps one tensor per layer, {number_text(token)} GB."
    )


JUDGING = prediction(
    unit="GB",
    reveal=_reveal,
    truth=kept_by_layers,
    why="The backward pass needs every input of a matrix product, and the inputs of each norm, activation function "
    "and attention: about twenty tensors per layer, the MLP's being the widest. They grow with tokens and layers, "
    "and sharding the state does not reduce them.",
)

ANSWERS = r'''# %% right: worked
def activations_interval() -> tuple[float, float]:
    """Your interval for the layers' activations in GB: (low, high), with high at most 4 × low."""
    asked = params("predict-activations")
    tensor = asked.seq * asked.layers * asked.hidden * 2 / GB
    return 11 * tensor, 30 * tensor
# %% right: far off, but committed
# ~ return 11 * tensor, 30 * tensor ==> return [1.0, 4.0]
# %% wrong: too wide => values too-wide
# ~ 11 * tensor, ==> tensor,
# %% wrong: one number => values not-a-pair
# ~ 11 * tensor, 30 ==> 20
# %% wrong: turned round => values reversed
# ~ 11 * tensor, 30 ==> 30 * tensor, 11
# %% wrong: nothing at the lower end => values not-positive
# ~ 11 * tensor, ==> 0,
'''
