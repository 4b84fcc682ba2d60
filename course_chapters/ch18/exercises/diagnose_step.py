from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, TupleOf, Word, Worth

CAUSES: Mapping[str, str] = {
    "compiles": "the host compiles for more than the limit",
    "late data": "the host waits for data for more than the limit",
    "synchronizes": "the device is idle for more than the limit, and the host waited for it at least once",
    "launch-bound": "the device is idle for more than the limit, and the host never waited for it",
    "exposed": "communication is exposed for more than the limit",
    "small kernels": "small kernels run for more than twice the limit",
    "sound": "none of these",
}
LIST = "\n".join(f'- `"{word}"`: {meaning};' for word, meaning in CAUSES.items())

CARD = Card(
    title="What does the step wait for?",
    text=f"""Write two functions that read the trace of a step and name what to change. A trace is a dictionary:

- `"seconds"`: the length of the step, which begins at 0;
- `"device"`: a list of kernels `(kind, start, end)`, with the kind `"matmul"`, `"small"` or `"communication"`. Several
  can run at once, and the list has no order;
- `"host"`: a list of `(what, start, end)` with `"launch"`, `"wait"` (for the device), `"data"` or `"compile"`.

`shares(trace)` returns two fractions of the step: when no kernel runs (idle), and when communication runs and no other
kernel does (exposed). `cause(trace, limit)` returns the first word that applies; `limit` is a fraction of the step:

{LIST}

The visible limit is {{{{percent}}}} %. Times that equal a limit do not exceed it.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    needs=("15",),
    hints=(
        "Which events can overlap? Their lengths must not be added up.",
        "Merge intervals into a union first. Idle is the step minus the union of all kernels. Exposed is the union of "
        "all kernels minus the union of those that compute.",
        "Sort by start; extend the last interval while the next one begins before its end. Then ask the questions in "
        'the order of the list, each as `seconds of the union > limit * trace["seconds"]`.',
    ),
    answers=("shares", "cause"),
    allowed="plain Python; the library's unions are switched off.",
    hides=("course_lib.cluster.intervals:union, outside, length",),
    params={"percent": 20},
    vary=lambda draw: {"percent": draw.choice((15, 25))},
    returns=Rows(TupleOf({"idle": Number("a fraction"), "exposed": Number("a fraction")}), Word(tuple(CAUSES))),
)
