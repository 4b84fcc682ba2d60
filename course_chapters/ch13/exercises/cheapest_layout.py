from course_chapters.ch13.exercises.probes import searched
from course_grader.exercises import Card, DictOf, Maybe, Number, Worth

KEYS = "gpus", "tp", "pp", "micro"
GOALS = {
    "cheapest": "the **fewest GPU-seconds** (gpus × steps × seconds) among the layouts whose run, steps × seconds, "
    "takes at most `limit` seconds",
    "quickest": "the **shortest run** (steps × seconds) among the layouts that use at most `limit` GPU-seconds (gpus "
    "× steps × seconds)",
}

CARD = Card(
    title="The best layout under a limit",
    text="""Write `cheapest(cluster, model, steps, limit, evaluate)`, a small planner: it searches all layouts and
returns the best one as a dictionary with `gpus`, `tp`, `pp` and `micro`, or `None` if no layout is allowed. The best
one has {{means}}.

`evaluate(gpus, tp, pp, micro)` returns (seconds of one step, bytes on the fullest GPU). It accepts only valid layouts
and raises `ValueError` for others. A layout is valid if

- `gpus` is a whole number of servers of `cluster["per_server"]` GPUs, and at most `cluster["gpus"]`: you need not use
  them all,
- `tp` divides `cluster["per_server"]` and `model["heads"]`, and `pp` divides `model["layers"]`,
- `tp * pp` divides `gpus`; the quotient is dp,
- `dp * micro` divides `model["sequences"]`, the sequences of a step.

It is allowed if it also fits into `cluster["memory"]` bytes and meets the limit. A layout that uses all of the memory
or all of the limit is allowed. Of equally good layouts, return any. There are never more than a few thousand.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "Does a larger step time or a smaller cluster always cost less? Which of the conditions can you test before "
        "you call `evaluate`?",
        "Four nested loops over the sizes that are possible, with a `continue` for each condition. Keep the best "
        "layout so far.",
        "`for gpus in range(per, total + 1, per)`, `for tp in range(1, per + 1)`, `for pp in range(1, layers + 1)`, "
        "`for micro in range(1, sequences + 1)`.",
    ),
    answers=("cheapest",),
    allowed="plain Python and `itertools`; the library's planner is switched off.",
    hides=("course_lib.parallel.planner.search:search", "course_lib.parallel.planner.search:layouts"),
    params={"goal": "cheapest", "means": GOALS["cheapest"]},
    vary=lambda draw: {"goal": "quickest", "means": GOALS["quickest"]},
    structural="goal",
    needs=("02", "08", "09", "10"),
    probe=searched,
    returns=DictOf({"layout": Maybe(DictOf(dict.fromkeys(KEYS, Number(whole=True))))}),
)
