"""Cards of chapter 12 on the router: how much of the model a token uses, which experts it goes to, which copies fit."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch12.probes import routed, rows_kept
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, DictOf, Number, Rows, Tensor

SHARED: Mapping[int, str] = {
    0: "Every layer has `experts` experts, and each token uses `k` of them.",
    1: "Every layer has `experts` routed experts, and each token uses `k` of them. One **shared** expert of the same size comes on top; "
    "every token uses it, and the router does not know it.",
}

ACTIVE_PARAMETERS = Card(
    id="active-parameters",
    chapter="12",
    title="Total and active parameters",
    text="""Count the parameters of a model with experts: all that must be stored, and those that one token uses. Memory follows
the first number, and compute follows the second. Write two functions with the same arguments `(layers, width, ffn, experts, k, other)`:

- `total_parameters` returns all parameters. `active_parameters` returns those that take part in the computation for one token.
- {{means}} An expert is a gated MLP: three matrices of `width` × `ffn`.
- The router of a layer is one matrix of `width` × `experts`, without a bias. It computes a score for every expert.
- `other` counts everything else in the whole model (attention, norms, embeddings). Every token uses it.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which of the matrices of a layer does a token multiply with, and which does it skip?",
        "Per layer, the total has `experts` experts and the router. The active count has `k` experts, and the same router.",
        "`expert = 3 * width * ffn`; `layers * (k * expert + width * experts) + other`.",
    ),
    answers=("total_parameters", "active_parameters"),
    allowed="plain Python.",
    params={"shared": 0, "means": SHARED[0]},
    vary=lambda draw: {"shared": 1, "means": SHARED[1]},
    structural="shared",
    probe=rows,
    returns=Rows(Number("parameters"), Number("parameters")),
)

WEIGHTS: Mapping[str, str] = {
    "chosen": "the softmax over the token's `k` chosen logits, so they add up to 1 (Mixtral does this)",
    "all": "those of the softmax over **all** logits of the token, so they add up to less than 1 (Switch Transformer does this)",
}

ROUTE_TOKENS = Card(
    id="route-tokens",
    chapter="12",
    title="A top-k router",
    text="""Write `route(logits, k)`, which sends every token to the `k` experts with the largest logits. It returns `(ids, weights)`, two tensors in
shape (tokens, k).

- `logits` has shape (tokens, experts), in fp32 or bf16.
- `ids` is int64. In each row the largest logit comes first. Of equal logits, the expert with the **lower id** comes first. bf16 has so few
  values that ties are common, and replicas must break them alike.
- `weights` is fp32. The weights are {{means}}. Compute them in fp32.
- Gradients flow through `weights` back to `logits`. Leave `logits` as they are. There may be no tokens.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    hints=(
        "`torch.topk` does not promise an order among equal numbers. Which function of torch sorts and keeps the order of equal numbers?",
        "Sort each row in descending order with `stable=True`, and keep the first k. Then gather what the softmax needs.",
        "`ids = logits.argsort(dim=-1, descending=True, stable=True)[:, :k]`; `wide = logits.float()`; softmax before or after `wide.gather(1, ids)`.",
    ),
    answers=("route",),
    allowed="torch; the library's router is switched off.",
    hides=("expert_parallel.routing:route",),
    params={"softmax": "chosen", "means": WEIGHTS["chosen"], "tokens": 4, "experts": 6},
    vary=lambda draw: {
        "softmax": "all",
        "means": WEIGHTS["all"],
        "tokens": draw.randrange(4, 10),
        "experts": draw.randrange(6, 12),
    },
    structural="softmax",
    probe=routed,
    returns=DictOf({"ids": Anything(), "weights": Anything(), "gradient": Tensor(), "changed": Anything()}),
)

KEEPS: Mapping[str, str] = {
    "position": "those of the **lower token numbers**",
    "weight": "those with the **larger weights**; of equal weights, the lower token number goes first",
}

CAPACITY = Card(
    id="capacity",
    chapter="12",
    title="Capacity: which copies fit",
    text="""An expert with a fixed buffer takes at most `capacity` copies of tokens. Write two functions: one sizes the buffer, and one
decides which copies are dropped.

- `capacity(tokens, k, experts, factor)` returns `factor` times the mean number of copies per expert, rounded **up** to a whole number, and at least 1.
- `kept(ids, weights, capacity)` returns a bool tensor in the shape of `ids`: whether each copy is kept.
- `ids` and `weights` have shape (tokens, k). `ids` holds expert numbers, and the `k` numbers of a token are different.
- An expert with at most `capacity` copies keeps all of them. Any other keeps exactly `capacity`: {{means}}.
- Each copy is decided by itself: a token may lose one copy and keep another. Leave the tensors as they are.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    hints=(
        "Within its expert, which place in the line does each copy have?",
        "Put the copies in order of priority, and sort them by expert with a stable sort. The place of a copy is its position minus the start of "
        "its expert.",
        "`flat = ids.flatten()`; `order = flat.argsort(stable=True)`; `starts = counts.cumsum(0) - counts`; "
        "`place[order] = torch.arange(len(flat)) - starts[flat[order]]`; `place < capacity`.",
    ),
    answers=("capacity", "kept"),
    allowed="torch and `math`; the library's dispatch is switched off.",
    hides=("expert_parallel.costs:capacity", "expert_parallel.dropping:keep"),
    params={"keeps": "position", "means": KEEPS["position"]},
    vary=lambda draw: {"keeps": "weight", "means": KEEPS["weight"]},
    structural="keeps",
    probe=rows_kept,
    returns=Rows(Number("copies", whole=True), Anything("a bool tensor")),
)


def _vary_drops(draw: random.Random) -> Mapping[str, Any]:
    mean, experts = draw.choice((16, 36, 64, 100)), draw.choice((16, 32, 64, 128))
    return {"tokens": mean * experts, "experts": experts}


PREDICT_DROPS = Card(
    id="predict-drops",
    chapter="12",
    title="Prediction: how much does chance drop?",
    text="""Predict how many tokens are dropped even if a router has learned a perfect balance: each of {{tokens:int}} tokens goes to one of {{experts}} experts, all equally likely and independent of
each other. The capacity factor is 1, so every expert holds exactly its mean number of tokens.

Before you compute anything, commit to an interval for the percentage of tokens that are **dropped** in one step. `dropped_interval()` returns
`(low, high)` in percent, with `high` at most four times `low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=3),
    kind="more",
    **PREDICTION,
    hints=(
        "By how much does the count of one expert vary around its mean?",
        "The count has a standard deviation of about the root of its mean. Only the part above the mean is dropped.",
        "The mean excess of a normal number over its mean is 0.4 standard deviations: about `0.4 / sqrt(tokens / experts)`.",
    ),
    answers=("dropped_interval",),
    params={"tokens": 1024, "experts": 16},
    vary=_vary_drops,
    returns=Anything("a pair of numbers in percent"),
)
