from course_chapters.ch14.exercises.probes import resumed
from course_grader.exercises import Anything, Card, DictOf, ListOf, Worth, pick

RUN = ListOf(Anything("a part of the run"), length=5)

CARD = Card(
    title="Resume bit for bit",
    text="""Write two functions, so that a restored training takes exactly the steps that the first one would have
taken:

- `snapshot(trainer)` returns the state of a training. It must be something that `torch.save` writes and
  `torch.load(…, weights_only=True)` reads: tensors, numbers, strings, None, lists, tuples, dictionaries.
- `restore(trainer, saved)` puts that state into a new trainer. The new one was started with other seeds and has already
  taken steps.

The trainer has these attributes: `model` (with dropout and batch normalization), `optimizer` (AdamW), `schedule` (a
PyTorch scheduler), `generator` (a `torch.Generator` that shuffles each epoch), `order` and `position` (the ids of this
epoch, and how many are used up), `average` (a list of tensors, the moving average of the weights) and `scale` (a
dictionary, the loss scale and its counter). Dropout draws from torch's default generator.

- The snapshot is written in the background: **training goes on before `torch.save` runs**.
- Losses, weights, averages and order must be equal bit for bit.""",
    **Worth(points=8, minutes=20, difficulty=2, importance=5),
    hints=(
        "List everything that the next step reads. Which of these do `state_dict` calls not cover?",
        "`state_dict()` returns the live tensors. What happens to them while the writer waits?",
        "`copy.deepcopy({...})` around `model.state_dict()`, `optimizer.state_dict()`, `schedule.state_dict()`, "
        "`generator.get_state()`, `torch.get_rng_state()` and the four plain attributes; then the matching "
        "`load_state_dict`, `set_state` and `torch.set_rng_state`.",
    ),
    answers=("snapshot", "restore"),
    allowed="everything of torch, and `copy`.",
    hides=("course_lib.model.checkpoint.resume:capture", "course_lib.model.checkpoint.resume:restore"),
    params={"during": 3},
    vary=pick(during=(2, 4, 5)),
    probe=resumed,
    returns=DictOf({"undisturbed": RUN, "resumed": RUN}),
)
