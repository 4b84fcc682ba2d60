from course_grader.exercises import Card, Maybe, Number, Params, Random, Rows, TupleOf, Word, Worth
from course_grader.exercises.snippets import folded
from course_lib.estimate import memory

WALLS = ("memory", "compute", "deadline")
FIXES = ("nothing", "shard state", "longer deadline", "more GPUs")


def _wall_variant(draw: Random) -> Params:
    return {
        "convention": (convention := draw.choice("BCE")),
        "bytes_per_param": int(memory.CONVENTIONS[convention].bytes_per_param),
        "params": draw.choice((13e9, 16e9, 20e9)),
        "device": draw.choice(("H100 SXM", "A100 SXM 80GB", "H200 SXM")),
    }


_KEYS = """| key | is |
|---|---|
| `params`, `tokens` | size of the model, tokens of the whole run |
| `step_tokens` | tokens of one step, all GPUs together |
| `gpus`, `gpu_memory` | GPUs in use, bytes of **one** of them |
| `reserve` | fraction of each GPU's memory kept for activations and buffers |
| `dense_flops`, `sparse_flops` | FLOP/s of **one** GPU, dense and with 2:4 sparsity |
| `mfu` | fraction of the dense peak that is reached |
| `step_s`, `deadline_s` | the longest acceptable step, and the longest acceptable run |
| `latest_s` | the latest possible deadline (later than `deadline_s`), or `None` |
| `sharded` | `True`: the state is spread evenly over the GPUs; `False`: each holds a whole copy |"""

CARD = Card(
    title="The first wall, and the cheapest way past it",
    **Worth(points=20, minutes=20, difficulty=4, importance=5),
    answers=("first_wall",),
    text=f"""Write `first_wall(job)`, which names the wall that a job hits first and the cheapest change that leaves no
wall at all. A fix for one wall is useless if another remains.

{folded("The keys of the dictionary `job`, in bytes, FLOP/s, seconds and tokens", _KEYS)}

- A **load** is what the job needs divided by what it has. Above 1 it is a wall; exactly 1 still fits. Count 6 FLOP per
  parameter and token, and assume perfect scaling.
- Three loads: **memory**, state on one GPU at {{{{bytes_per_param}}}} bytes per parameter over its memory minus the
  reserve; **compute**, seconds of one step over `step_s`; **deadline**, seconds of the run over `deadline_s`.
- Return `(wall, fix, gpus)`. `wall` is the name of the heaviest load, or `"none"` if no load is above 1. `gpus` is how
  many GPUs are in use after the fix.
- `fix` is the first of these, from cheap to expensive, that **by itself leaves no wall at all**: `"nothing"`;
  `"shard state"`; `"longer deadline"`, which becomes `latest_s`, if that is not `None`; `"more GPUs"`, which shards the
  state and uses the fewest GPUs that leave no wall, while the deadline stays as it was.

You see five jobs; grading adds 200 unseen ones.""",
    hints=(
        "What should you compute first: the fix, or the three loads of a job?",
        "Write `loads(job)` once. A fix is a changed copy of the job; try the four in order and stop at the first "
        "whose largest load is at most 1. For the last one, how does each load depend on the number of GPUs?",
        '`for fix, changed in (("nothing", job), ("shard state", {**job, "sharded": True}), …): if max(loads(changed)'
        '.values()) <= 1: return wall, fix, changed["gpus"]`; then count GPUs upwards from `job["gpus"]`.',
    ),
    allowed="the standard library and numpy.",
    hides=(
        "course_chapters.ch01.walls:walls, apply_fix, cheapest_fix",
        "course_lib.estimate.memory:state_bytes, fewest_devices",
        "course_lib.estimate.compute:train_seconds, devices_for_deadline",
    ),
    params={
        "convention": "B",
        "bytes_per_param": int(memory.CONVENTIONS["B"].bytes_per_param),
        "params": 13e9,
        "device": "H100 SXM",
    },
    vary=_wall_variant,
    returns=Rows(
        TupleOf(
            {"wall": Maybe(Word((*WALLS, "none"))), "fix": Word(FIXES), "gpus": Number("GPUs in use after the fix")}
        )
    ),
)
