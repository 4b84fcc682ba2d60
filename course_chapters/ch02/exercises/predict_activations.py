from course_grader.exercises import PREDICTION, Card, Worth
from course_lib.estimate import facts


def _predict(model: str, seq: int) -> dict[str, object]:
    one = facts.model(model)
    sizes = {"params": float(one.params), "hidden": int(one.hidden), "layers": int(one.layers)}
    return {"model": model, "seq": seq, **sizes}


CARD = Card(
    title="Prediction: what does one sequence keep?",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    answers=("activations_interval",),
    text="""Before you compute anything, give an interval in GB for the activations of one forward pass. You learn more
from a measurement if you have committed to a number first.

- **Job:** {{model}} ({{params:count}} parameters, {{layers:int}} layers, hidden size {{hidden:int}}), one sequence of
  {{seq:int}} tokens, bf16, fused attention, no dropout, nothing recomputed.
- **Question:** how many GB do its layers keep for the backward pass, without embeddings and logits?
- `activations_interval()` returns `(low, high)`, with `high` at most four times `low`.

You get the points for a valid interval, whether or not it contains the answer.""",
    hints=(
        "How many numbers does a layer keep for one token: about as many as the hidden size, or many times that?",
        "Count the tensors of shape (tokens, hidden) in one layer: the inputs of each matrix, norm and activation "
        "function. The MLP's are wider.",
        "Tokens × layers × hidden × 2 bytes × the number of such tensors, which is between ten and thirty.",
    ),
    allowed="mental arithmetic only; the check then shows the number.",
    params=_predict("llama3-70b", 8192),
    vary=lambda draw: _predict(
        draw.choice(("llama3-8b", "llama3-70b", "mistral-7b", "llama2-13b")), draw.choice((2048, 4096, 16384))
    ),
)
