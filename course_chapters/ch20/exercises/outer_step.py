from collections.abc import Mapping

from course_chapters.ch20.exercises.distant_probes import outer_rounds
from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, DictOf, PerRank

FORMS: Mapping[str, str] = {
    "Nesterov": "s ← s − γ · (g + μ · v), with the new v",
    "heavy ball": "s ← s − γ · v, with the new v",
}

CARD = Card(
    title="The outer step of DiLoCo",
    text="""Workers have trained alone since they last shared weights. Write
`outer_step(comm, own, shared, velocity)`, which returns the new shared weights and the new velocity.

- `own`, `shared` and `velocity` are lists of tensors of the same shapes and one dtype. Only `own` differs between
  workers. Leave all three as they are.
- The outer gradient g is the mean over the workers of `shared` − `own`.
- v ← μ · v + g, where v is `velocity` and μ = {{momentum}}.
- {{means}}, where s is `shared` and γ = {{rate}}.

Return `(shared, velocity)` as two lists of new tensors in the same dtype.

Budget for each worker: twice the bytes of `own`, and the messages of one all-reduce of a single tensor.""",
    **Worth(points=10, minutes=18, difficulty=3, importance=5),
    hints=(
        "An optimizer steps against a gradient. In which direction have the workers gone, and which sign has g?",
        "Put all differences into one flat tensor, and sum it over the workers with one call. Velocity is equal "
        "everywhere already: it need not travel.",
        "`flat = torch.cat([(s - o).flatten() for s, o in zip(shared, own)])`; `comm.all_reduce(flat)`; then "
        "`flat.split([s.numel() for s in shared])`.",
    ),
    answers=("outer_step",),
    allowed="torch and all operations of `comm`; the library's `train` is switched off.",
    hides=("course_chapters.ch20.diloco:train",),
    params={"form": "Nesterov", "means": FORMS["Nesterov"], "rate": 0.7, "momentum": 0.9, "workers": 3},
    vary=lambda draw: {
        "form": "heavy ball",
        "means": FORMS["heavy ball"],
        "rate": draw.choice((0.4, 0.5, 0.8)),
        "momentum": draw.choice((0.6, 0.8)),
        "workers": draw.choice((2, 4)),
    },
    structural="form",
    needs=("06", "07"),
    probe=outer_rounds,
    returns=PerRank(DictOf({"x": Anything("lists of tensors"), "touched": Anything()})),
)
