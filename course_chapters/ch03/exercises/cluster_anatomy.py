from course_chapters.ch03.exercises.shared import OTHERS
from course_grader.exercises import Card, ListOf, Number, Rows, TupleOf, Worth
from course_grader.exercises.snippets import CLOSE, dense_flops, memory_of


def _cluster(device: str, *counts: int) -> dict[str, object]:
    names = ("GPUs in a server", "servers in a rack", "racks in a pod", "pods in the cluster")
    words = ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))
    sheet = {"device": device, "memory": memory_of(device), "flops": dense_flops(device)}
    return {"counts": list(counts), "words": words, **sheet}


CARD = Card(
    title="What a cluster is made of",
    **Worth(points=5, minutes=5, difficulty=1, importance=4),
    answers=("anatomy",),
    text=f"""Compute how many GPUs each level of a cluster holds, with how much memory and what peak. These numbers
decide where a model fits, and how long a job takes at least.

`anatomy(counts, memory, flops)` returns three lists with one number per level, from the inside out: GPUs, bytes of
memory, and FLOP/s of one unit of that level.

- `counts` has one whole number per level: first the GPUs of the innermost unit, then how many units of the level below
  each unit contains. A cluster may have any number of levels.
- `memory` and `flops` are the bytes and the dense peak of **one GPU**.

The visible case has {{{{words}}}}: four counts. Each GPU is one {{{{device}}}} with {{{{memory:gb}}}} and
{{{{flops:tflops}}}}. {CLOSE}""",
    hints=(
        "How many GPUs does a rack hold, if you know how many a server holds?",
        "Multiply the counts from the inside out. Memory and peak are those of one GPU, times the GPUs of the level.",
        "`gpus = [math.prod(counts[: level + 1]) for level in range(len(counts))]`; `[n * memory for n in gpus]`; the "
        "same with `flops`.",
    ),
    allowed="the standard library and numpy.",
    params=_cluster("H100 SXM", 8, 2, 192, 8),
    vary=lambda draw: _cluster(draw.choice(OTHERS), *map(draw.choice, ((4, 16), (3, 5), (32, 96), (6, 12)))),
    returns=Rows(TupleOf(dict.fromkeys(("GPUs", "memory", "peak"), ListOf(Number(), what="level")))),
)
