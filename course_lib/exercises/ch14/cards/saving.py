"""Cards of chapter 14 on what is saved and how: all of the state, the position in the data, and files that survive a crash."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch14.disk import crashed
from course_lib.exercises.ch14.probes import resumed, sampled, survived
from course_lib.exercises.drilling import pick
from course_lib.exercises.returns import Anything, DictOf, ListOf, Number, TupleOf

RUN = ListOf(Anything("a part of the run"), length=5)
_WHOLE = Number("a count", whole=True)

SNAPSHOT_AND_RESTORE = Card(
    id="snapshot-and-restore",
    chapter="14",
    title="Resume bit for bit",
    text="""Write two functions, so that a restored training takes exactly the steps that the first one would have taken:

- `snapshot(trainer)` returns the state of a training. It must be something that `torch.save` writes and `torch.load(…, weights_only=True)` reads:
  tensors, numbers, strings, None, lists, tuples, dictionaries.
- `restore(trainer, saved)` puts that state into a new trainer. The new one was started with other seeds and has already taken steps.

The trainer has these attributes: `model` (with dropout and batch normalization), `optimizer` (AdamW), `schedule` (a PyTorch scheduler), `generator` (a
`torch.Generator` that shuffles each epoch), `order` and `position` (the ids of this epoch, and how many are used up), `average` (a list of tensors, the moving
average of the weights) and `scale` (a dictionary, the loss scale and its counter). Dropout draws from torch's default generator.

- The snapshot is written in the background: **training goes on before `torch.save` runs**.
- Losses, weights, averages and order must be equal bit for bit.""",
    **Worth(points=8, minutes=20, difficulty=2, importance=5),
    hints=(
        "List everything that the next step reads. Which of these do `state_dict` calls not cover?",
        "`state_dict()` returns the live tensors. What happens to them while the writer waits?",
        "`copy.deepcopy({...})` around `model.state_dict()`, `optimizer.state_dict()`, `schedule.state_dict()`, `generator.get_state()`, "
        "`torch.get_rng_state()` and the four plain attributes; then the matching `load_state_dict`, `set_state` and `torch.set_rng_state`.",
    ),
    answers=("snapshot", "restore"),
    allowed="everything of torch, and `copy`.",
    hides=("checkpoint.resume:capture", "checkpoint.resume:restore"),
    params={"during": 3},
    vary=pick(during=(2, 4, 5)),
    probe=resumed,
    returns=DictOf({"undisturbed": RUN, "resumed": RUN}),
)

BATCHES: Mapping[str, str] = {
    "span": "A batch may span epochs: it always has `batch` ids.",
    "short": "A batch never spans epochs: the last one of an epoch may have fewer ids.",
}

EXACTLY_ONCE = Card(
    id="exactly-once",
    chapter="14",
    title="Every sample exactly once",
    text="""Write `take(order, consumed, batch, rank, ranks)`: the ids that this rank reads in the next step. A job may lose a server, go on with fewer
ranks, and later grow again. Every sample must still be read exactly once per epoch, and the batches must be those of the undisturbed job.

- `order(epoch)` returns the ids of an epoch in the order of that epoch; epochs count from 0, and all have the same length.
- `consumed` is the number of ids that **all ranks together** have read since the start of the run. It is all that the checkpoint keeps.
- The step reads the next `batch` ids. {{means}}
- The ranks share the batch in contiguous parts: rank 0 the first, and so on. Sizes differ by at most one, and larger parts come first. A rank may get none.
- Return `(ids, consumed after the step)`, a list and an int; the second is the same on all ranks.

In one real trainer, ranks that resumed from files of another number of ranks read 2 of 12 images twice and 2 not at all (*bghira/SimpleTuner, pull request
2986, 2026*).""",
    **Worth(points=8, minutes=20, difficulty=2, importance=5),
    hints=(
        "Forget ranks at first: which ids does the next batch have, given `consumed`?",
        "`divmod(consumed, len(order(0)))` gives the epoch and the place in it. The ranks come in only at the end.",
        "`small, extra = divmod(len(ids), ranks)`; rank r begins at `r * small + min(r, extra)` and has `small + (r < extra)` ids.",
    ),
    answers=("take",),
    allowed="plain Python.",
    params={"batches": "span", "means": BATCHES["span"]},
    vary=lambda draw: {"batches": "short", "means": BATCHES["short"]},
    structural="batches",
    probe=sampled,
    returns=ListOf(
        DictOf({"ids": ListOf(ListOf(Number("ids", whole=True))), "consumed": ListOf(Number("ids", whole=True))}),
        what="step",
    ),
)

ATOMIC_CHECKPOINT = Card(
    id="atomic-checkpoint",
    chapter="14",
    title="A checkpoint that survives the crash",
    text="""Write `save(disk, step, data)` and `load(disk)` for a disk that may lose power at any moment.

- `load` returns `(step, data)` of the newest undamaged checkpoint, or None. Once `save` has returned, no crash may lose its checkpoint. A crash during `save`
  leaves the one before it, or the new one, whole.
- A bit may flip in a file at any time. `load` must notice, and fall back to the newest checkpoint without damage: keep the newest **{{keep}}**.
- The disk has room for {{room}} checkpoints, not one more. A save that does not fit raises `OSError`; older checkpoints stay, and a smaller save works afterwards.
- After a crash the same job goes on: `save` is called again on what was left. Steps grow. Files that are not yours must stay.
- Write at most `len(data)` + 1,000 bytes in one save.

The disk has `write(name, data)`, `read(name)`, `names()`, `rename(old, new)`, `remove(name)`, `sync(name)` and `sync_folder()`. A file's content is safe after `sync`; new,
renamed and removed names are safe after `sync_folder`. Before that, any part may survive a crash. Changes of names survive in order, contents in any order.""",
    **Worth(points=12, minutes=25, difficulty=3, importance=5),
    hints=(
        "After which calls is a new file safe, its name and its content? What may be removed only after that?",
        "Put a checksum of step and data into the file, for example `hashlib.sha256`. Then `load` can tell a whole file from any other. "
        "What could a crash have left behind that takes up the room?",
        "Remove your leftovers and all but the newest whole checkpoints; then `write`, `sync`, `sync_folder`. `load` reads all files of yours and takes the highest step whose "
        "checksum is right.",
    ),
    answers=("save", "load"),
    allowed="plain Python, `hashlib`, `struct`, `zlib`; nothing of this process survives the crash, so remember nothing outside the disk.",
    hides=("checkpoint.disk:write_durably",),
    params={"keep": 2, "room": 3},
    vary=lambda draw: {"keep": 3, "room": 4},
    probe=crashed,
    returns=DictOf({"found": ListOf(DictOf({"how": Anything("a text")}, more=True))}, more=True),
)

_LOOP = """```python
def train(job, steps):
    checkpoint = job.load() or {"step": 0, "weights": []}
    step, job.weights = checkpoint["step"], checkpoint["weights"]
    order = job.shuffled()
    while step < steps:
        step += 1
        epoch, place = divmod(step, job.batches)
        if place == 0:
            order = job.shuffled()
        if step % job.every == 0:
            job.save({"step": step, "weights": job.weights})
        job.update(order[place], step)
```"""

REPAIR_RESUME = Card(
    id="repair-resume",
    chapter="14",
    title="It resumes, but not the same run",
    text=f"""Repair this loop: it runs to the end and resumes after every kill, but the weights are wrong. Its bugs are real ones: the epoch is computed
from a step that was already counted (*NovaSky-AI/SkyRL, pull request 589, 2025*), the checkpoint is written before the update that it counts
(*deepset-ai/FARM, pull request 279, 2020*), and the order of the data begins anew after a resume (*huggingface/accelerate, issue 2016, 2023*).

{_LOOP}

However often it is killed, the job must make the updates of the undisturbed run, in order:

- Update 1 uses the first batch of the first epoch's order, and so on; each epoch has `job.batches` batches in an order of its own.
- `job.shuffled()` draws the **next** epoch's order; after a restart it begins with the first epoch again. `job.update(batch, step)` counts steps from 1.
- After every `job.every` updates, and only then, save the number of updates made and the weights that have had them.
- Make no update twice but for those after the last checkpoint. `steps` may be any number, and `train` may be called when all is done.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Write down, for a run of two epochs, which batch each step takes. Does the first step take the first batch?",
        "When a job resumes in epoch 3, how often must it draw an order before it has that epoch's?",
        "Count `epoch, place = divmod(step, job.batches)` before `step += 1`; draw orders while fewer than epoch + 1 are drawn; save after the update.",
    ),
    answers=("train",),
    allowed="plain Python.",
    params={"every": 3},
    vary=pick(every=(2, 4, 5)),
    probe=survived,
    returns=DictOf(
        {"weights": ListOf(TupleOf({"batch": _WHOLE, "step": _WHOLE})), "calls": _WHOLE, "saves": ListOf(_WHOLE)}
    ),
)
