from course_grader.exercises import Card, Worth
from course_grader.exercises.drilling import pick
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import Number, Rows, TupleOf
from course_grader.exercises.snippets import functions

CARD = Card(
    title="Where to put the threshold",
    text="""A check measures a node's rate `repeats` times, takes the mean, and rejects the node if the mean is below a
threshold. Write three functions. A rate is a share of a healthy node's rate: a healthy node has 1, a weak one `weak`.
One measurement has normal noise with the standard deviation `noise`, independent of the others.

- `rates(threshold, weak, noise, repeats)`: the pair (false alarms, detection), the chance that a healthy node is
  rejected and the chance that a weak one is.
- `healthy_share(alarms, detection, share)`: the share of the rejected nodes that are healthy, if a `share` of all nodes
  is weak. 0 if no node is ever rejected.
- `highest_threshold(most, noise, repeats)`: the highest threshold that rejects at most a share `most` of the healthy
  nodes, 0 < most < 1.

The first case has a threshold of {{threshold}} and a noise of {{noise}}.""",
    **Worth(points=5, minutes=8, difficulty=2, importance=4),
    kind="more",
    hints=(
        "How does the standard deviation of a mean depend on the number of measurements?",
        "`statistics.NormalDist(mean, deviation)` has `cdf` and `inv_cdf`. Which mean does a weak node have?",
        "`deviation = noise / repeats**0.5`. Rejected healthy nodes: `(1 - share) * alarms`; divide by them plus "
        "`share * detection`.",
    ),
    answers=("rates", "healthy_share", "highest_threshold"),
    allowed="the standard library; the library's check is switched off.",
    hides=functions("course_chapters.ch20.health_checks", "rejection_chance", "healthy_share"),
    params={"threshold": 0.97, "noise": 0.02},
    vary=pick(threshold=(0.96, 0.965, 0.975, 0.98), noise=(0.015, 0.018, 0.022, 0.025, 0.03)),
    probe=rows,
    returns=Rows(
        TupleOf({"alarms": Number("a fraction"), "detection": Number("a fraction")}),
        Number("a fraction"),
        Number("a share of a healthy node's rate"),
    ),
)
