from course_grader.exercises import Card, ListOf, Number, Rows, Word, Worth

CARD = Card(
    title="Thin matrices on many ranks",
    text="""Say what each rank holds of an adapter, whose gradient it must complete, and what a step sends. A matrix of
`out` × `wide` numbers has an adapter $BA$: $A$ has rank × wide numbers, $B$ has out × rank. Tensor parallelism divides
the outputs (`cut` is "columns") or the inputs ("rows") among `tp` ranks, and the forward and backward passes send
nothing extra.

- `held(out, wide, rank, tp, cut)`: numbers of `[A, B]` on one rank.
- `partial(cut)`: "a" or "b", the one whose gradient is a sum over the TP ranks.
- `step_bytes(out, wide, rank, tp, dp, cut, width)`: bytes that a rank sends for this adapter after the backward pass.
  First a ring all-reduce over `tp` completes the partial gradient. Then one over `dp` averages all that the rank holds.
  Gradients have `width` bytes per number, {{width}} in the first case.
- `fsdp_share(frozen, trained, gathers)`: bytes of a step with adapters under FSDP, divided by those of full training.
  With adapters, `frozen` numbers stay as they are and `trained` ones are added. All are gathered `gathers` times, and
  the trained ones are reduce-scattered once. Full training has the `frozen` numbers alone: it gathers them as often and
  reduce-scatters them once. All numbers have the same bytes wherever they travel.""",
    **Worth(points=7, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Write $y = Wx + BAx$ with the outputs of $W$ divided. Which rows of $B$ does a rank need? Which rows of $A$?",
        "A factor that all ranks hold gets a gradient from each rank's part of the other. A ring all-reduce sends "
        "2 (n − 1) / n of its bytes.",
        "Columns: A whole, B / tp, and A is partial. Rows: A / tp, B whole, and B is partial. "
        "`(gathers * (frozen + trained) + trained) / ((gathers + 1) * frozen)`.",
    ),
    answers=("held", "partial", "step_bytes", "fsdp_share"),
    allowed="plain Python; the library's sums are switched off.",
    hides=("course_chapters.ch19.lora:fsdp_bytes, tp_extra_bytes, adapter_params",),
    params={"width": 4},
    vary=lambda draw: {"width": draw.choice((2, 8))},
    returns=Rows(ListOf(Number("numbers")), Word(("a", "b")), Number("bytes"), Number("a ratio")),
)
