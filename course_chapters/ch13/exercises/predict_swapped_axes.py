from course_grader.exercises import PREDICTION, Anything, Card, Params, Random, Worth


def _vary_swapped(draw: Random) -> Params:
    return {
        "tokens": draw.choice((8192, 32_768)),
        "billions": draw.choice((34, 70)),
        "hidden": 8192,
        "layers": draw.choice((48, 60, 80)),
    }


CARD = Card(
    title="Prediction: what does the wrong order cost?",
    text="""Predict the cost of placing two axes of a mesh in the wrong order. A model of {{billions}}B parameters
({{layers}} layers, hidden {{hidden}}) trains on 64 H100s in 8 servers with tp = 8 and dp = 8. Each replica processes
{{tokens}} tokens in a step. Every layer has four tensor-parallel all-reduces of its activations, and dp all-reduces the
gradients once, all in 16 bits. In the right order, tp is inside the servers (450 GB/s) and dp between them (50 GB/s).
Somebody swaps the two axes: tp now crosses servers, and dp stays inside.

Commit to an interval for how many **times longer** communication takes with the axes swapped: both axes added up, no
overlap, no latency. `swapped_interval()` returns `(low, high)`, with `high` at most four times `low`. You earn the
points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    kind="more",
    **PREDICTION,
    hints=(
        "Which of the two axes sends more bytes per GPU, and by what factor do the wires differ?",
        "One all-reduce among n ranks sends 2 (n − 1) / n of its tensor. tp: 4 per layer, tokens × hidden × 2 bytes. "
        "dp: parameters / 8 × 2 bytes.",
        "With T and D for the bytes of the axes: (T / 50 + D / 450) / (T / 450 + D / 50).",
    ),
    answers=("swapped_interval",),
    params={"tokens": 32_768, "billions": 70, "hidden": 8192, "layers": 80},
    vary=_vary_swapped,
    needs=("07", "09"),
    returns=Anything("a pair of numbers, how many times longer"),
)
