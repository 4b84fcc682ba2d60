"""Core exercises of chapter 07: whose mean, what the backward pass hides, and one synchronization per step."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import folded
from course_lib.exercises.ch07.probes import hooked, one_sync, token_step
from course_lib.exercises.probes import PREDICTION
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, PerRank, Tensor
from course_lib.units import GB, TFLOP

READY = (
    "data_parallel:average_gradients",
    "data_parallel:buckets_of",
    "data_parallel:accumulate",
    "data_parallel:loss_scale",
    "data_parallel:join",
)
GIVEN: Mapping[str, str] = {
    "mean": "the gradient of the **mean** loss over this rank's `examples` examples",
    "sum": "the gradient of the **sum** of the losses of this rank's `examples` examples",
}

AVERAGE_GRADIENTS = Card(
    id="average-gradients",
    chapter="07",
    title="Whose average?",
    text="""Combine the gradients of ranks whose parts of the batch differ in size, so that every rank ends with the gradient that **one
process with the whole batch** would compute. Write `average_gradients(comm, grads, examples)`.

- `grads` is a list of tensors: {{means}}. `examples` is a whole number.
- Return, on every rank, the gradient of the mean loss over all examples of all ranks, as a list like `grads`.
- A rank can have no examples; its `grads` are then zeros.
- The lists have the same shapes and dtypes on all ranks. You may overwrite them.
- **Budget:** no rank sends much more than a ring all-reduce of its gradients, about twice their bytes.""",
    **Worth(points=5, minutes=5, difficulty=2, importance=5),
    hints=(
        "One rank has three examples, the other has one. What does the plain average of the two ranks do to the single example?",
        "A sum over examples can be added up over ranks, and so can a count. Divide once, at the end.",
        "Turn each tensor into the sum over this rank's examples and all-reduce it. All-reduce a tensor that holds `examples`. Divide.",
    ),
    answers=("average_gradients",),
    may_change=("arguments",),
    allowed="every operation of `comm`.",
    hides=READY,
    params={"given": "mean", "means": GIVEN["mean"], "numbers": 40},
    vary=lambda draw: {"given": "sum", "means": GIVEN["sum"], "numbers": draw.choice((36, 44, 52))},
    structural="given",
    returns=PerRank(ListOf(Tensor())),
)


def _exposed(params: float, tokens: int, gpus: int, bandwidth: float, rate: float) -> dict[str, Any]:
    return {"params": params, "tokens": tokens, "gpus": gpus, "bandwidth": bandwidth, "rate": rate}


def _vary_exposed(draw: random.Random) -> Mapping[str, Any]:
    return _exposed(
        draw.choice((8e9, 13e9, 34e9, 70e9)),
        draw.choice((1024, 2048)),
        draw.choice((32, 64, 128)),
        draw.choice((25, 50)) * GB,
        400 * TFLOP,
    )


PREDICT_EXPOSED = Card(
    id="predict-exposed",
    chapter="07",
    title="Prediction: how much is exposed?",
    text="""Predict the exposed communication of a training step: the time by which the all-reduce outlasts the backward pass. Committing
to an interval first shows you which of the two you misjudge.

- **Job:** {{params:count}} parameters on {{gpus}} GPUs by data parallelism, {{tokens:int}} tokens per GPU and step. Each GPU
  achieves {{rate:tflops}}.
- **Communication:** 16-bit gradients on a ring, at {{bandwidth:gbps}} one way out of each GPU. Leave latency out.
- **Overlap:** communication runs during the whole **backward pass**, in small buckets, and never during the forward pass.
- `exposed_interval()` returns `(low, high)` in seconds, with `high` at most four times `low`.

You get the points for a valid interval, whether or not it contains the answer.""",
    **Worth(points=2, minutes=5, difficulty=3, importance=4),
    **PREDICTION,
    hints=(
        "Two times run in parallel. Which of them depends on the number of parameters?",
        "The backward pass takes four of the six FLOPs per parameter and token. What does each GPU send in a ring?",
        "`2 * (N - 1) / N * 2 * params / bandwidth - 4 * params * tokens / rate`; a factor of two on either side is safe.",
    ),
    answers=("exposed_interval",),
    params=_exposed(8e9, 2048, 64, 50 * GB, 400 * TFLOP),
    vary=_vary_exposed,
)

MEAN_OF_MEANS = """```python
def token_step(comm, model, batches):
    total = 0.0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) / len(batches)
        loss.backward()
        total += loss.item()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad, op="AVG")
    mean = torch.tensor([total])
    comm.all_reduce(mean, op="AVG")
    return mean.item()
```"""

TOKEN_MEAN = Card(
    id="token-mean",
    chapter="07",
    title="The mean of means",
    text=f"""Repair a training step that averages averages. For years, training libraries accumulated gradients like this: loss curves with and
without accumulation differed, and most people blamed rounding (*huggingface/transformers, pull request 34191; pytorch/torchtune,
pull request 1875; both October 2024*).

{folded("The step as it was", MEAN_OF_MEANS)}

`batches` is this rank's list of micro-batches `(inputs, targets)`, each of shape (rows, length); `model(inputs)` returns logits
of shape (rows, length, vocabulary). A target of −100 is padding, which `cross_entropy` leaves out of both sum and count.
After `token_step(comm, model, batches)`:

- Every parameter's `.grad`, on every rank, is the gradient of the **mean loss over all tokens that count**, in all micro-batches of
  all ranks. The function returns that mean loss. On entry every `.grad` is None.
- Each micro-batch went through the model once, alone, and at most one micro-batch's graph was alive at a time. (The first repair
  of one library kept all of them: *torchtune, pull request 1917*.)
- Gradients were communicated once, not once per micro-batch.

Ranks can have different numbers of micro-batches, or none, and a micro-batch can consist of padding alone. At least one token
counts.""",
    **Worth(points=9, minutes=15, difficulty=3, importance=5),
    form="bug",
    hints=(
        "Write down the factor that multiplies one token's loss in the code above. Which parts of it differ from token to token?",
        "Count the tokens of all ranks first; targets are known before any forward pass. Then each micro-batch's *sum* of losses, "
        "divided by that count, can run backward at once.",
        "`count` = all-reduced number of targets that are not −100; `loss = F.cross_entropy(…, reduction='sum') / count`; "
        "`backward()`; add up `loss.item()`. At the end all-reduce with SUM what was averaged before. Without a micro-batch, "
        "`.grad` is None: use zeros.",
    ),
    answers=("token_step",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"vocabulary": 11, "width": 6},
    vary=lambda draw: {"vocabulary": draw.randrange(9, 15), "width": draw.randrange(5, 9)},
    probe=token_step,
    returns=PerRank(
        DictOf({"loss": Anything("the mean loss"), "gradients": ListOf(Maybe(Tensor())), "counts": Anything()})
    ),
)

DDP_HOOKS = Card(
    id="ddp-hooks",
    chapter="07",
    title="Average while the backward pass runs",
    text="""Write `hook_gradients(comm, model)`: it registers hooks that average gradients while the backward pass still runs, and returns a
function `finish`. The last layer's gradient is ready long before the first layer's, so most of the communication can be hidden.

A step calls `loss.backward()`, in which your hooks start an all-reduce as each gradient becomes complete. It then calls `finish()`,
which waits until every `.grad` is the mean over the ranks, and then `optimizer.step()` and `optimizer.zero_grad()`.

- `hook_gradients` is called once, before several steps. All ranks start with the same weights, so nothing is sent at that
  point, and have equally many examples in every step.
- **Overlap.** Each parameter's all-reduce starts in the backward pass and is waited for in `finish`. Only the last gradient's
  all-reduce is exposed.
- **Once.** One all-reduce per trained parameter and step. Every loss uses all trained parameters. A parameter can be frozen
  (`requires_grad` is False and `.grad` stays None), and two layers can share one.
- **In flight.** A tensor that is being reduced is neither read nor written.
- **Many steps.** No handle of an earlier step is kept.

`parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)` when `parameter.grad` is complete.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "When is a gradient complete, and who tells you? What must the hook not do, so that the backward pass can continue?",
        "The hook starts an asynchronous all-reduce and stores the handle; `finish` waits for all handles and clears them. Divide "
        "before the sum or after the wait. In between, the tensor is in flight.",
        "`works = []`; `def hook(p): p.grad /= comm.size; works.append(comm.all_reduce(p.grad, async_op=True))`; register it for "
        "every parameter with `requires_grad`; `finish` waits for each work, then `works.clear()`.",
    ),
    answers=("hook_gradients",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 12},
    vary=lambda draw: {"width": draw.randrange(9, 16)},
    probe=hooked,
    returns=PerRank(
        DictOf({"gradients": ListOf(ListOf(Maybe(Tensor()))), "returned": Anything(), "handles": Anything()})
    ),
)

TOO_LATE = """```python
def accumulate(replica, batches, loss):
    for step, (inputs, targets) in enumerate(batches):
        value = loss(replica(inputs), targets) / len(batches)
        replica.require_backward_grad_sync = step == len(batches) - 1
        value.backward()
```"""

ONE_SYNC = Card(
    id="one-sync",
    chapter="07",
    title="The flag that came too late",
    text=f"""Repair a training script that sets a flag too late. With gradient accumulation, ranks need to average once per step, not once per
micro-batch; a widely copied script tried it like this (*karpathy/build-nanogpt, pull request 30, 2024; a context that left out
the forward pass had the same bug: KellerJordan/modded-nanogpt, pull request 31, 2024*).

{folded("The function as it was", TOO_LATE)}

`replica` behaves like torch's DistributedDataParallel and reads `require_backward_grad_sync` in the **forward** pass. If the
flag is set then, the matching backward pass averages `.grad` over the ranks, including everything accumulated so far.
`with replica.no_sync():` clears the flag inside and restores it afterwards.

After `accumulate(replica, batches, loss)`:

- every `.grad` of the replica is the gradient of the mean over all micro-batches of all ranks, which have equal sizes;
- gradients were averaged **once**;
- every micro-batch went forward and backward alone, before the next one.

The function is called again for every step, with one or more micro-batches, the same number on all ranks. `loss(output,
targets)` is a mean over the micro-batch. Gradients are None when it is called.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    form="bug",
    hints=(
        "Which value does the flag have during the first forward pass? During the last? During the first of the second step?",
        "Set the flag before the forward pass, or put both passes inside `no_sync()` for every micro-batch but the last. Follow it "
        "through two steps: what does the next step find?",
        "`last = step == len(batches) - 1`; `with nullcontext() if last else replica.no_sync():` around the whole body of the loop.",
    ),
    answers=("accumulate",),
    hides=READY,
    params={"width": 7},
    vary=lambda draw: {"width": draw.randrange(6, 12)},
    probe=one_sync,
    returns=PerRank(DictOf({"gradients": ListOf(ListOf(Maybe(Tensor()))), "counts": Anything()})),
)

CORE = (AVERAGE_GRADIENTS, PREDICT_EXPOSED, TOKEN_MEAN, DDP_HOOKS, ONE_SYNC)
