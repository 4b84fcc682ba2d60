from course_chapters.ch08.exercises.probes import by_hand
from course_grader.exercises import Card, DictOf, ListOf, Number, PerRank, Tensor, TupleOf, Word, Worth

CALL = TupleOf({"pass": Word(("forward", "backward")), "unit": Number(whole=True)})
WATCHED = {name: Number() for name in ("held", "ahead", "bytes")}  # units and bytes on a rank while it computes

OWNERS = {0: "rank r holds part r", 1: "rank r holds part **(r + 1) mod N**, so the last rank holds part 0"}

CARD = Card(
    title="Gather, compute, free",
    text="""Write `sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True)`, one step of FSDP in
which no rank holds more than two units whole. A model is a stack of units. The weights of a unit form one flat row,
padded with zeros to a multiple of N and cut into N equal parts: {{holds}}. Ranks have different inputs and average
their gradients.

- `shards[u]` is this rank's part of unit u; `counts[u]` is the unit's number of weights, without padding.
- `forward(u, weights, x)` runs unit u on x, with its flat row of `counts[u]` weights. `loss(y)` returns the gradient of
  the last output y. `backward(u, weights, x, grad)` takes the unit's input and its output's gradient, and
  returns `(gradient of x, flat gradient of the weights)`.
- Return a list with **this rank's part of each unit's mean gradient**, reduced unit by unit, in the shape of
  `shards[u]`, with zeros as padding.
- Gather a unit's weights for the forward pass and **again** for the backward pass; only the last unit may keep them in
  between. With `reshard=False`, keep every row from the forward pass to its unit's backward pass, and gather it once.
- **Memory.** At most two units' weights and two units' gradients are whole on a rank at any time, so only the next unit
  may be gathered ahead. When another unit computes, the check fills the rest of the previous row with NaN.""",
    **Worth(points=14, minutes=30, difficulty=4, importance=5),
    hints=(
        "Follow one unit through the step. When are its weights needed? What else from the forward pass does its "
        "backward pass need?",
        "`gather(u)` makes an empty row of N parts, all-gathers into it and cuts the padding off. Forward: gather, "
        "run, keep x, free the row. Backward, last unit first: gather, run, put the flat gradient into a padded row "
        "of zeros, reduce-scatter, divide by N.",
        "`row = shard.new_empty(N * len(shard)); comm.all_gather_into_tensor(row, shard); row[:counts[u]]`. "
        "Gradients: `full = shard.new_zeros(N * len(shard)); full[:counts[u]] = grad; mine = torch.empty_like(shard); "
        "comm.reduce_scatter_tensor(mine, full, op='AVG')`. Where owners are shifted, collectives still use the order "
        "of ranks: roll the parts.",
    ),
    answers=("sharded_step",),
    allowed="every operation of `comm`; torch.",
    hides=("course_lib.parallel.sharding.flat_parameter:rows_of",),
    params={"owner": 0, "holds": OWNERS[0], "units": 6, "width": 5},
    vary=lambda draw: {"owner": 1, "holds": OWNERS[1], "units": draw.choice((5, 6, 7)), "width": draw.randrange(4, 7)},
    structural="owner",
    probe=by_hand,
    returns=PerRank(DictOf({"parts": ListOf(Tensor()), "order": ListOf(CALL), **WATCHED})),
)
