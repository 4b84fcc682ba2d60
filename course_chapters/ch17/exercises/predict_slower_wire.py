from collections.abc import Mapping

from course_grader.exercises import PREDICTION, Anything, Card, Worth

WIRE_RUNS = (  # model, cluster, sequences
    ("llama3-8b", "64xH100", 128),
    ("llama3-8b", "128xH100", 256),
    ("llama2-13b", "64xH100", 256),
    ("llama2-13b", "32xA100", 64),
)


def _wire(row: tuple[str, str, int], slower: int) -> Mapping[str, object]:
    return {**dict(zip(("model", "cluster", "sequences"), row, strict=True)), "slower": slower, "seq": 4096}


CARD = Card(
    title="Prediction: the network becomes slower",
    text="""Commit to an interval for how many **times longer** a step takes when the network between the servers
becomes **{{slower}} times** slower. Write `slower_interval()`: it returns `(low, high)`, with `high` at most four times
`low`.

- The run trains {{model}} on {{cluster}} with ZeRO-3 over all GPUs. A step has {{sequences}} sequences of {{seq}}
  tokens.
- Every GPU processes its sequences one after another, and nothing is recomputed.
- The links inside the servers stay as they are.

You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    kind="more",
    **PREDICTION,
    hints=(
        "How long does a micro-batch compute, and how long do its two gathers and its reduce-scatter take?",
        "Compute: 6 · parameters · tokens of a micro-batch over the FLOP/s that are reached. Traffic: about 3 · 2 "
        "bytes · parameters over the bandwidth of one GPU's share of the network. Only what is longer than the "
        "computation shows.",
        "`max(compute, slower * traffic) / max(compute, traffic)`, a little less, because the network does not slow "
        "every part of a step.",
    ),
    answers=("slower_interval",),
    params=_wire(WIRE_RUNS[0], 8),
    vary=lambda draw: _wire(draw.choice(WIRE_RUNS[1:]), draw.choice((4, 6, 12))),
    needs=("08", "13"),
    returns=Anything("a pair of numbers, how many times longer"),
)
