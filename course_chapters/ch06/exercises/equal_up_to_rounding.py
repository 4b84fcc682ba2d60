from course_grader.exercises import Card, Worth

CARD = Card(
    title="Equal up to rounding",
    text="""Write the comparison that a test of collectives needs. Sums in another order differ in their last digits: a
ring, a tree and rank 0's own loop give three right answers, no two of them equal bit for bit (*pytorch/pytorch, pull
request 125190*). The test must accept all three and still find real errors.

- `same_sum(got, inputs)`: `inputs` is the list of all ranks' tensors; `got` is what an all-reduce returned on one rank,
  in the same shape and dtype.
- Return `True` if `got` can be their sum in *some* order of additions in that dtype, and `False` if it cannot.
- There are large numbers that nearly cancel, small ones of about 10⁻⁶, tensors in bfloat16, and up to {{ranks}} ranks.
- Wrong sums omit one rank in a single element, count one rank twice, or were computed with fewer bits than the dtype
  has.""",
    **Worth(points=6, minutes=10, difficulty=4, importance=4),
    kind="more",
    hints=(
        "When large numbers cancel, how large can the rounding error be compared with the *sum*? And compared with "
        "the terms?",
        "Each addition rounds by at most half a unit in the last place of its result, and no partial sum exceeds "
        "Σ|x|. So the error after N − 1 additions is bounded, element by element.",
        "`exact = sum(x.double() for x in inputs)`; `bound = len(inputs) * torch.finfo(got.dtype).eps * "
        "sum(x.double().abs() for x in inputs)`; compare `(got.double() - exact).abs()` with it, elementwise.",
    ),
    answers=("same_sum",),
    params={"ranks": 16},
    vary=lambda draw: {"ranks": draw.choice((12, 16, 20))},
)
