from course_grader.exercises import Anything, Card, Rows, Worth

CARD = Card(
    title="Find the bugs: a calculator with five defects",
    text="""Repair `estimate`, which returns the bytes of one GPU by purpose. A public calculator had these five defects
(*EleutherAI/cookbook, calc/calc_transformer_mem.py*); each of them changes where a model seems to fit.

```python
def estimate(model, job, tp, pp, dp, zero):
    layers, params = model["layers"] / pp, model["parameters"] / pp
    tokens = job["length"] * job["micro"]
    weights = 2 * params / tp
    if zero == 3:
        weights /= tp * dp
    gradients = 2 * params / (dp if zero >= 2 else 1)
    optimizer = job["state"] * params / (dp if zero >= 1 else 1)
    scores = 5 * model["heads"] * job["length"] / model["hidden"]
    factor = {"none": 34 + scores, "selective": 34, "full": 34}[job["recompute"]]
    activations = layers * tokens * model["hidden"] * factor
    cache = 2 * layers * tokens * model["hidden"] * 2 / tp
    return {"weights": weights, "gradients": gradients, "optimizer": optimizer, "activations": activations,
        "cache": cache}
```

- tp and pp cut weights, gradients and optimizer state. ZeRO-1 also shards the optimizer state over dp, ZeRO-2 the
  gradients as well, ZeRO-3 the weights too.
- Activations are those of one micro-batch. tp cuts all of them (with sequence parallelism). Full recomputation keeps
  the 16-bit input of each layer alone.
- `cache` is the KV cache of one micro-batch in 16 bits. The model has `kv_heads` key heads of width hidden / heads; tp
  cuts them.
- The optimizer has `job["state"]` bytes per parameter. Everything not listed here is already right.

The first check asks for a model of {{billions}}B parameters at tp = {{tp}}.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "If you double tp, what should happen to each of the five numbers? Try it on the code.",
        "Compare zero = 0 and zero = 3 at tp = 2. How many bytes does a layer's 16-bit input have for one token? How "
        "many heads have keys?",
        "`weights /= dp`; `/ tp` for gradients, optimizer and activations; full: a factor of 2; cache: hidden × "
        "kv_heads / heads.",
    ),
    answers=("estimate",),
    allowed="plain Python; the library's planner is switched off.",
    hides=("course_lib.parallel.planner.estimating:estimate", "course_lib.parallel.planner.estimating:peak_memory"),
    params={"billions": 8, "tp": 8},
    vary=lambda draw: {"billions": draw.choice((7, 13, 20, 30, 34, 50, 65, 70, 90, 110)), "tp": draw.choice((2, 4))},
    needs=("02", "08", "09"),
    returns=Rows(Anything("a dictionary of bytes by purpose")),
)
