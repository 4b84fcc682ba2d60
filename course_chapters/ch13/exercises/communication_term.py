from course_grader.exercises import Card, DictOf, Number, Rows, Worth

REDUCED = {
    "all-reduce": "one ring all-reduce of the gradients, once a step",
    "ZeRO-3": "for **every micro-batch** two ring all-gathers of the weights and one ring reduce-scatter of the "
    "gradients (ZeRO-3)",
}

CARD = Card(
    title="The communication term of a step",
    text="""Write `communication_seconds(model, layout, wires)`, the term that a planner adds to the compute time of a
step. It returns the seconds that one GPU communicates on each axis, as a dictionary with `tp`, `cp`, `pp` and `dp`.

- `model` has `layers`, `hidden`, `kv` (width of the keys), `length` (tokens of a sequence) and `parameters`; `layout`
  has `tp`, `cp`, `pp`, `dp`, `micro` (sequences of a micro-batch), `micro_batches` (of a step) and `recompute` (True:
  everything). `wires` has the bytes per second of one GPU for each axis.
- **tp**: in each of the GPU's layers, 4 ring all-reduces of its activations (micro × length / cp × hidden) for each
  micro-batch; 6 with `recompute`.
- **cp**: in each of its layers and for each micro-batch, the keys and values of the whole micro-batch (their width is
  cut by tp) are gathered twice, and their gradients reduce-scattered once.
- **pp**: for each micro-batch, a stage sends its activations forward once and an equal gradient backward once.
- **dp**: {{means}}, the GPU's share of the parameters, which tp and pp cut. The ring has **dp × cp** ranks, even where
  dp is 1, because the ranks of a cp group hold the same weights.
- Numbers have 2 bytes. A ring all-gather or reduce-scatter of S bytes among n ranks takes (n − 1) / n × S / wire, an
  all-reduce twice as long, and one rank 0 s. Ignore latency and overlap.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "How many layers does a GPU hold? How many tokens of a micro-batch? Which axes cut neither?",
        "Write a helper for the ring, `(n - 1) / n * size / wire`. Then each axis is a count of rings times a size.",
        "`held = micro * length / cp * hidden * 2`; tp: `2 * ring(tp, held) * (6 or 4) * layers / pp * "
        "micro_batches`; dp: the ring has `dp * cp` ranks.",
    ),
    answers=("communication_seconds",),
    allowed="plain Python; the library's planner is switched off.",
    hides=(
        "course_lib.parallel.planner.traffic:traffic",
        "course_lib.parallel.planner.estimating:estimate",
        "course_lib.parallel.planner.step:step_time",
    ),
    params={"reduced": "all-reduce", "means": REDUCED["all-reduce"]},
    vary=lambda draw: {"reduced": "ZeRO-3", "means": REDUCED["ZeRO-3"]},
    structural="reduced",
    needs=("08", "09", "10"),
    returns=Rows(DictOf(dict.fromkeys(("tp", "cp", "pp", "dp"), Number("seconds")))),
)
