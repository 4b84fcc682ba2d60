from course_chapters.ch14.exercises.probes import survived
from course_grader.exercises import Card, DictOf, ListOf, Number, TupleOf, Worth, pick

_WHOLE = Number("a count", whole=True)

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

CARD = Card(
    title="It resumes, but not the same run",
    text=f"""Repair this loop: it runs to the end and resumes after every kill, but the weights are wrong. Its bugs are
real ones: the epoch is computed from a step that was already counted (*NovaSky-AI/SkyRL, pull request 589, 2025*), the
checkpoint is written before the update that it counts (*deepset-ai/FARM, pull request 279, 2020*), and the order of the
data begins anew after a resume (*huggingface/accelerate, issue 2016, 2023*).

{_LOOP}

However often it is killed, the job must make the updates of the undisturbed run, in order:

- Update 1 uses the first batch of the first epoch's order, and so on; each epoch has `job.batches` batches in an order
  of its own.
- `job.shuffled()` draws the **next** epoch's order; after a restart it begins with the first epoch again.
  `job.update(batch, step)` counts steps from 1.
- After every `job.every` updates, and only then, save the number of updates made and the weights that have had them.
- Make an update twice only if it came after the last checkpoint. `steps` may be any number, and `train` may be called
  when all is done.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Write down, for a run of two epochs, which batch each step takes. Does the first step take the first batch?",
        "When a job resumes in epoch 3, how often must it draw an order before it has that epoch's?",
        "Count `epoch, place = divmod(step, job.batches)` before `step += 1`; draw orders while fewer than epoch + 1 "
        "are drawn; save after the update.",
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
