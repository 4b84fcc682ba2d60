from course_chapters.ch03.exercises.shared import rates
from course_grader.exercises import PREDICTION, Card, Worth
from course_lib.estimate import facts


def _decode_params(model: str, device: str) -> dict[str, object]:
    return {"model": model, "params": float(facts.model(model).params), **rates(device)}


MODELS, DEVICES = ("mistral-7b", "qwen2.5-7b", "llama2-13b", "llama3-8b"), ("H100 SXM", "A100 SXM 80GB", "H200 SXM")

CARD = Card(
    title="Predict: one user, one GPU",
    **Worth(points=5, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    answers=("tokens_interval",),
    text="""One {{device}} ({{flops:tflops}} dense, {{bandwidth:gbps}}) generates text for **one** user with a model of
{{params:count}} parameters in 16 bits. Predict the highest possible rate in tokens per
second, without a calculator. Every token needs every weight once, and 2 FLOP per weight.

`tokens_interval()` returns `(low, high)` in tokens a second, with `high` at most four times `low`. You earn the
points for such an interval, whether or not the true rate is in it. You see the true rate once you have committed.""",
    hints=(
        "What must the device do with each weight before it can multiply by it?",
        "There are two times: the bytes of all weights divided by the memory bandwidth, and FLOP divided by FLOP/s. "
        "Which is longer?",
        "`seconds = max(2 * params / bandwidth, 2 * params / flops)`; `return 0.5 / seconds, 2 / seconds`.",
    ),
    params=_decode_params("llama3-8b", "H100 SXM"),
    vary=lambda draw: _decode_params(draw.choice(MODELS), draw.choice(DEVICES)),
)
