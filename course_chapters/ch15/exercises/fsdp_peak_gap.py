from course_chapters.ch15.exercises.work import fsdp_job, seen, sets_with
from course_grader.exercises import Card, Worth, rows
from course_runs.reading import recorded


def _sharded(which: str) -> dict[str, object]:
    names = [f"{which}/fsdp", f"{which}/fsdp-kept"]
    return {"runs": names, "jobs": [fsdp_job(recorded(name)) for name in names], "seen": seen(names)}


CARD = Card(
    title="The peak of FSDP",
    text="""Add up everything that FSDP ever holds, and you get more than any run's peak: whole gradients appear while
activations disappear. Write `fsdp_peak(job)`, which walks through the backward pass unit by unit, the last one first,
and returns what one rank holds at the **peak**, in bytes by part. `job` is a dictionary:

| key | |
|---|---|
| `"units"` | parameters of each unit, first unit first |
| `"rest"` | parameters in no unit: embedding, last norm, head |
| `"ranks"` | number of ranks that share everything |
| `"width"` | bytes of a number in the arithmetic: 2 in mixed precision, else 4 |
| `"reshard"` | whether a unit's weights are freed after its forward pass |
| `"activations"` | for each unit, the bytes that autograd keeps |
| `"work"` | for each unit, the bytes that its backward allocates and frees |

While the backward of unit u runs, a rank holds:

- `"state"`: its share of all weights (4 bytes each) and of AdamW's two moments (8 bytes), including the rest;
- `"gradients"`: its share, 4 bytes each, of the units whose backward is **done**;
- `"gathered"`: whole weights, `width` bytes each: always the rest; unit u and the next one in turn, which is already on
  its way; without `reshard`, every unit whose backward is not done;
- `"whole gradient"`: that of unit u, `width` bytes each;
- `"activations"`: those of unit u and of all units whose backward is still to come;
- `"work"`: unit u's.

Shown: two recorded runs, `params("fsdp-peak-gap").jobs`, with and without resharding. Their measured peaks are
{{seen}}. How near do you get, and how near without `"work"`, which is missing from every formula of state and
activations?""",
    **Worth(points=7, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "When the backward of the last unit begins, how many gradients are there? When that of the first one ends, "
        "how many activations?",
        "Write a function of u that returns the six parts. The largest sum over all u is the peak; return that u's "
        "parts, not the largest of each part.",
        '`"gradients": 4 * sum(units[u + 1:]) / ranks`; `first = max(u - 1, 0) if reshard else 0`; `"gathered": width '
        "* (sum(units[first:u + 1]) + rest)`; then "
        "`max((during(u) for u in range(len(units))), key=lambda parts: sum(parts.values()))`.",
    ),
    answers=("fsdp_peak",),
    hides=(
        "course_lib.parallel.sharding:gathered_peak",
        "course_lib.estimate.memory:zero_bytes",
        "course_runs.predict:memory_bytes",
    ),
    params=_sharded("cpu4"),
    vary=lambda draw: _sharded(draw.choice(sets_with("fsdp", "fsdp-kept"))),
    needs=("02", "08"),
    probe=rows,
)
