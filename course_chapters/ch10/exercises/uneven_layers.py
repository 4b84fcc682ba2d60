from course_grader.exercises import Card, ListOf, Number, Worth

CARD = Card(
    title="Layers that differ",
    text="""Write `cut_layers(costs, stages)`, which divides unequal layers into stages so that the slowest stage takes
as little time as possible: it sets the pace of the whole pipeline. An embedding costs little, and a head with a large
vocabulary costs as much as several blocks. Layers stay in their order.

`costs` is a list with the time of each layer, embedding and head included. Return a list of **how many layers** each
stage gets, first stage first, with at least one layer each. There are {{layers}} layers in the example and up to a
hundred in the unseen cases. If several cuts are equally good, any will do.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Filling one stage after another up to the average looks reasonable. What happens to the last stage?",
        "If you knew the largest time allowed, filling greedily would show whether it can be kept. Which times can "
        "be the answer?",
        "Or by dynamic programming: `best[k][i]` = least slowest stage when layers from i on make k stages = min over "
        "j of `max(sum(costs[i:j]), best[k-1][j])`; remember the j.",
    ),
    answers=("cut_layers",),
    allowed="plain Python and numpy; the library's `cut` is switched off.",
    hides=("course_lib.parallel.schedules:cut", "course_lib.parallel.schedules:cut_evenly"),
    params={"layers": 12, "stages": 4},
    vary=lambda draw: dict(
        zip(("layers", "stages"), draw.choice(((11, 3), (13, 3), (14, 3), (14, 4), (14, 5))), strict=True)
    ),
    returns=ListOf(Number("layers", whole=True), what="stage"),
)
