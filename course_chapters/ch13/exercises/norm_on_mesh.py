from course_chapters.ch13.exercises.probes import mesh_run
from course_grader.exercises import Card, Number, PerRank, Worth

CARD = Card(
    title="One norm for any mesh",
    text="""Write `mesh_norm(comm, sizes, parts)`, which clipping needs: the {{power}}-norm of all gradients of the
model, (Σ |g|^{{power}})^(1/{{power}}), on a mesh with any axes. A trainer that summed over all ranks counted replicated
gradients several times (*NVIDIA-NeMo/RL, pull request 3788*).

- `sizes` is the mesh: a dictionary from axis to size. Their product is `comm.size`.
- `parts` is a list of pairs (tensor, axes): this rank's piece of a gradient, and the axes over which that gradient is
  **sharded**. Along every other axis the ranks hold equal copies of the piece. A parameter of one pipeline stage counts
  as sharded over that axis.
- Every rank returns the norm of the whole model as a float. Add up in float64, because pieces may be bf16.
- Ranks may hold different numbers of parts, even none, and pieces may be empty.
- Leave the tensors as they are. **Bytes:** a rank sends at most {{most}} bytes.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "If all ranks add up all of their pieces, how often does a piece count that is sharded over tp alone?",
        "It counts once for each copy: as often as the product of the sizes of the axes over which it is *not* "
        "sharded. Divide by that number first.",
        "`total += tensor.double().abs().pow(p).sum() / copies`, with `copies = math.prod(size for axis, size in "
        "sizes.items() if axis not in axes)`; one all-reduce of `total` over `comm`.",
    ),
    answers=("mesh_norm",),
    allowed="torch and every operation of `comm`.",
    hides=(
        "course_lib.model.optimizer.clipping:clip_sharded_, global_norm",
        "course_chapters.ch13.mesh_training:mesh_norm_of",
        "course_lib.parallel.four_axes:clip",
    ),
    params={"power": 2, "most": 512},
    vary=lambda draw: {"power": draw.choice((3, 4, 5)), "most": draw.choice((384, 512, 640))},
    needs=("04", "08", "09"),
    probe=mesh_run,
    returns=PerRank(Number("the norm")),
)
