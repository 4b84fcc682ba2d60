"""Core exercises of chapter 07: whose mean it is, what the backward pass hides, and one synchronisation a step."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch07.probes import hooked, one_sync, token_step
from course_lib.exercises.probes import interval
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
    text="""Every rank has seen its own part of a batch, and parts may differ in size. `average_gradients(comm, grads, examples)`
gets `grads`, a list of tensors: {{means}}. `examples` is a whole number. Return the list that **one process with the whole
batch** would have: the gradient of the mean loss over all examples of all ranks, the same on every rank.

A rank may have no example at all; its `grads` are then zeros. The lists are alike in shape and dtype on all ranks and may
be used as workspace. No rank may send much more than a ring all-reduce of its gradients does: about twice their bytes.""",
    **Worth(points=5, minutes=5, difficulty=2, importance=5),
    hints=(
        "Three examples on one rank, one on the other: what does the plain average of the two ranks do to the lonely example?",
        "A sum of examples is safe to add up over ranks; so is a count. Divide once, in the end.",
        "Make each tensor the sum over this rank's examples; all-reduce it; all-reduce a tensor that holds `examples`; divide.",
    ),
    answers=("average_gradients",),
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
    title="Prediction: what sticks out?",
    text="""A model of {{params:count}} parameters trains on {{gpus}} GPUs by data parallelism, {{tokens:int}} tokens on each GPU
in a step. A GPU really does {{rate:tflops}}. Gradients have 16 bits and go round a ring, {{bandwidth:gbps}} one way out of
each GPU. Small buckets leave as soon as they are full, so that communication runs beside the **backward pass** from its
beginning, never beside the forward pass; latency is left out.

Before you compute anything: give an interval, in seconds, that you believe holds the time by which communication sticks
out of the backward pass, at most a factor of four from end to end. `exposed_interval()` returns `(low, high)`. The points
are for committing yourself, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=3, importance=4),
    form="prediction",
    hints=(
        "Two clocks run at once. Which of them does the number of parameters slow down?",
        "The backward pass is four of the six FLOPs per parameter and token. What does a ring send per GPU?",
        "`2 * (N - 1) / N * 2 * params / bandwidth - 4 * params * tokens / rate`; a factor of two either way is safe.",
    ),
    answers=("exposed_interval",),
    params=_exposed(8e9, 2048, 64, 50 * GB, 400 * TFLOP),
    vary=_vary_exposed,
    probe=interval,
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
    text=f"""For years, training libraries accumulated gradients like this. Loss curves with and without accumulation did not
coincide, and most people blamed rounding (*huggingface/transformers, pull request 34191; pytorch/torchtune, pull request
1875; both October 2024*). A target of −100 is padding: `cross_entropy` leaves it out of sum and count.

{MEAN_OF_MEANS}

Repair it. `batches` is this rank's list of micro-batches `(inputs, targets)`, each of shape (rows, length); `model(inputs)`
gives logits (rows, length, vocabulary). After `token_step(comm, model, batches)`

- every parameter's `.grad`, on every rank, is the gradient of the **mean loss over all tokens that count**, of all
  micro-batches of all ranks, and that mean loss is returned;
- each micro-batch went through the model once, by itself, and no more than one micro-batch's graph was alive at a time: the
  first repair of one of these libraries kept all of them (*torchtune, pull request 1917*);
- gradients went over the wire once, not once a micro-batch.

Ranks may have different numbers of micro-batches, or none; a micro-batch may be nothing but padding. Some token counts.""",
    **Worth(points=9, minutes=15, difficulty=3, importance=5),
    form="bug",
    hints=(
        "Write down what one token's loss is multiplied by in the code above. Which of these factors differ from token to token?",
        "Count the tokens of all ranks first: targets are known before any forward pass. Then every micro-batch's *sum* of losses, "
        "divided by that count, can be sent backwards at once.",
        "`count` = all-reduced number of targets that are not −100; `loss = F.cross_entropy(…, reduction='sum') / count`; "
        "`backward()`; add up `loss.item()`; at the end all-reduce with SUM what would have been averaged. Without a micro-batch "
        "`.grad` is None: put zeros there.",
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
    text="""The last layer's gradient is ready long before the first layer's. Write `hook_gradients(comm, model)`: it registers
hooks on the model's parameters and returns a function `finish`. A training step is then

```python
loss = loss_of(model, this_ranks_examples)
loss.backward()          # your hooks start an all-reduce as each gradient comes
finish()                 # waits; now every .grad is the mean over the ranks
optimizer.step()
optimizer.zero_grad()
```

- `hook_gradients` is called once, before the first of several steps. All ranks begin with the same weights, so that
  nothing needs to be sent then, and have equally many examples in every step.
- **Overlap.** Each parameter's all-reduce starts in the backward pass and is waited for in `finish`: only the last
  gradient's time sticks out.
- **Once.** One all-reduce per trained parameter and step. A parameter may be frozen (`requires_grad` is False, its `.grad`
  stays None); two layers may share one.
- **In flight.** A tensor that is being reduced is neither read nor written.

`parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)` when `parameter.grad` is complete.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "When is a gradient complete, and who tells you? What may the hook not do, if the backward pass is to go on?",
        "The hook starts an asynchronous all-reduce and puts the handle aside; `finish` waits for all of them and forgets them. "
        "Divide before the sum, or after the wait; in between the tensor is not yours.",
        "`works = []`; `def hook(p): p.grad /= comm.size; works.append(comm.all_reduce(p.grad, async_op=True))`; register it for "
        "every parameter with `requires_grad`; `finish` waits for each work, then `works.clear()`.",
    ),
    answers=("hook_gradients",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 12},
    vary=lambda draw: {"width": draw.randrange(9, 16)},
    probe=hooked,
    returns=PerRank(DictOf({"gradients": ListOf(ListOf(Maybe(Tensor()))), "returned": Anything()})),
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
    text=f"""With gradient accumulation, ranks need to average once a step, not once a micro-batch. A much-copied training script
did it like this (*karpathy/build-nanogpt, pull request 30, 2024; the same bug as a context that left the forward pass out:
KellerJordan/modded-nanogpt, pull request 31, 2024*):

{TOO_LATE}

`replica` behaves as torch's DistributedDataParallel: it reads `require_backward_grad_sync` in the **forward** pass. If the
flag is up then, that forward pass's backward pass averages `.grad`, everything accumulated so far included, over the ranks.
`with replica.no_sync():` lowers the flag inside and restores it after.

Repair `accumulate(replica, batches, loss)`. Afterwards every `.grad` of the replica's parameters is the gradient of the
mean over all micro-batches of all ranks, which are equally large; gradients were averaged **once**; every micro-batch went
forward and backward by itself, before the next one. It is called again for every step, with any number of micro-batches from one on, the same on
all ranks. `loss(output, targets)` is a mean over the micro-batch; gradients are None when it is called.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    form="bug",
    hints=(
        "Which value does the flag have during the first forward pass? During the last? During the first of the second step?",
        "Set the flag before the forward pass, or put forward pass and backward pass inside `no_sync()`, for all micro-batches "
        "but the last. Follow it through two steps: what does the next step find?",
        "`last = step == len(batches) - 1`; `with nullcontext() if last else replica.no_sync():` around all of the loop's body.",
    ),
    answers=("accumulate",),
    hides=READY,
    params={"width": 7},
    vary=lambda draw: {"width": draw.randrange(6, 12)},
    probe=one_sync,
    returns=PerRank(DictOf({"gradients": ListOf(ListOf(Maybe(Tensor()))), "counts": Anything()})),
)

CORE = (AVERAGE_GRADIENTS, PREDICT_EXPOSED, TOKEN_MEAN, DDP_HOOKS, ONE_SYNC)
