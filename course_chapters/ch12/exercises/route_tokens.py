from course_chapters.ch12.exercises.probes import routed
from course_grader.exercises import Anything, Card, DictOf, Tensor, Worth

WEIGHTS = {
    "chosen": "the softmax over the token's `k` chosen logits, so they add up to 1 (Mixtral does this)",
    "all": "those of the softmax over **all** logits of the token, so they add up to less than 1 (Switch "
    "Transformer does this)",
}

CARD = Card(
    title="A top-k router",
    text="""Write `route(logits, k)`, which sends every token to the `k` experts with the largest logits. It returns
`(ids, weights)`, two tensors in shape (tokens, k).

- `logits` has shape (tokens, experts), in fp32 or bf16.
- `ids` is int64. In each row the largest logit comes first. Of equal logits, the expert with the **lower id** comes
  first. bf16 has so few values that ties are common, and replicas must break them alike.
- `weights` is fp32. The weights are {{means}}. Compute them in fp32.
- Gradients flow through `weights` back to `logits`. Leave `logits` as they are. There may be no tokens.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    hints=(
        "`torch.topk` does not promise an order among equal numbers. Which function of torch sorts and keeps the "
        "order of equal numbers?",
        "Sort each row in descending order with `stable=True`, and keep the first k. Then gather what the "
        "softmax needs.",
        "`ids = logits.argsort(dim=-1, descending=True, stable=True)[:, :k]`; `wide = logits.float()`; softmax before "
        "or after `wide.gather(1, ids)`.",
    ),
    answers=("route",),
    allowed="torch; the library's router is switched off.",
    hides=("course_lib.parallel.expert.routing:route",),
    params={"softmax": "chosen", "means": WEIGHTS["chosen"], "tokens": 4, "experts": 6},
    vary=lambda draw: {
        "softmax": "all",
        "means": WEIGHTS["all"],
        "tokens": draw.randrange(4, 10),
        "experts": draw.randrange(6, 12),
    },
    structural="softmax",
    probe=routed,
    returns=DictOf({"ids": Anything(), "weights": Anything(), "gradient": Tensor()}),
)
