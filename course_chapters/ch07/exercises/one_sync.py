from course_chapters.ch07.exercises.probes import one_sync
from course_chapters.ch07.exercises.shared import READY, STEPS
from course_grader.exercises import Anything, Card, DictOf, PerRank, Worth
from course_grader.exercises.snippets import folded

TOO_LATE = """```python
def accumulate(replica, batches, loss):
    for step, (inputs, targets) in enumerate(batches):
        value = loss(replica(inputs), targets) / len(batches)
        replica.require_backward_grad_sync = step == len(batches) - 1
        value.backward()
```"""

CARD = Card(
    title="The flag that came too late",
    text=f"""Repair a training script that sets a flag too late. With gradient accumulation, ranks need to average once
per step, not once per micro-batch; a widely copied script tried it like this (*karpathy/build-nanogpt, pull request 30,
2024; a context that left out the forward pass had the same bug: KellerJordan/modded-nanogpt, pull request 31, 2024*).

{folded("The function as it was", TOO_LATE)}

`replica` behaves like torch's DistributedDataParallel and reads `require_backward_grad_sync` in the **forward** pass.
If the flag is set then, the matching backward pass averages `.grad` over the ranks, including everything accumulated so
far. `with replica.no_sync():` clears the flag inside and restores it afterwards.

After `accumulate(replica, batches, loss)`:

- every `.grad` of the replica is the gradient of the mean over all micro-batches of all ranks, which have equal sizes;
- gradients were averaged **once**;
- every micro-batch went forward and backward alone, before the next one.

The function is called again for every step, with one or more micro-batches, the same number on all ranks. `loss(output,
targets)` is a mean over the micro-batch. Gradients are None when it is called.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    form="bug",
    hints=(
        "Which value does the flag have during the first forward pass? During the last? During the first of the "
        "second step?",
        "Set the flag before the forward pass, or put both passes inside `no_sync()` for every micro-batch but the "
        "last. Follow it through two steps: what does the next step find?",
        "`last = step == len(batches) - 1`; `with nullcontext() if last else replica.no_sync():` around the whole "
        "body of the loop.",
    ),
    answers=("accumulate",),
    hides=READY,
    params={"width": 7},
    vary=lambda draw: {"width": draw.randrange(6, 12)},
    probe=one_sync,
    returns=PerRank(DictOf({"gradients": STEPS, "counts": Anything()})),
)
