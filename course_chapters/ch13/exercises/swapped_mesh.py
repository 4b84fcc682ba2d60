from course_chapters.ch13.exercises.probes import mesh_run
from course_grader.exercises import Card, PerRank, Tensor, TupleOf, Worth

CARD = Card(
    title="Find the bug: a mesh that is right on four ranks",
    text="""Repair `on_mesh(comm, tp_size, x, gradient)`. It builds the groups of a mesh (dp, tp) on `comm`, the
communicator of all ranks. Then it returns the pair (`x` summed over the rank's tensor-parallel group, `gradient`
averaged over its data-parallel group).

```python
def on_mesh(comm, tp_size, x, gradient):
    grid = torch.arange(comm.size).view(tp_size, -1)      # the mesh (dp, tp)
    for ranks in grid.T.tolist():
        group = comm.new_group(ranks)
        if comm.rank in ranks:
            dp = group
    for ranks in grid.tolist():
        group = comm.new_group(ranks)
        if comm.rank in ranks:
            tp = group
    x, gradient = x.clone(), gradient.clone()
    tp.all_reduce(x)
    dp.all_reduce(gradient)
    return x, gradient / tp_size
```

Its test has {{shown}} and passes. A test of PyTorch had its axes mixed up in the same way (*pytorch/pytorch, issue
107974, 2023*).

- A tensor-parallel group has `tp_size` **consecutive** ranks; the data-parallel groups have the others. `tp_size`
  divides the ranks.
- Leave `x` and `gradient` as they are. The ranks send what these two all-reduces need, and no more.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "With 8 ranks and tp_size 2, write down the grid. How many ranks are in a row?",
        "Two numbers are equal on the test's mesh, tp_size and the number of replicas. Find every place that takes "
        "one for the other.",
        "`grid = torch.arange(comm.size).view(-1, tp_size)`; rows are tp groups, columns dp groups; divide by "
        "`comm.size // tp_size`.",
    ),
    answers=("on_mesh",),
    allowed="torch and every operation of `comm`; the library's meshes are switched off.",
    hides=(
        "course_lib.parallel.mesh.layout:strides",
        "course_chapters.ch13.mesh_training:communicators",
        "course_lib.parallel.four_axes:set_up, _group",
    ),
    params={"ranks": 4, "tp": 2, "shown": "four ranks and tp_size 2"},
    vary=lambda draw: {"ranks": 9, "tp": 3, "shown": "nine ranks and tp_size 3"},
    needs=("07", "09"),
    probe=mesh_run,
    returns=PerRank(TupleOf({"x": Tensor(), "gradient": Tensor()})),
)
