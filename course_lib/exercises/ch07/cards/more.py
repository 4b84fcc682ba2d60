"""Further exercises of chapter 07: who reads what, buckets, ranks that run dry, metrics, and when to stop adding GPUs."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch07.cards.core import READY
from course_lib.exercises.ch07.probes import deal, hooked, training
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, PerRank, Rows, Tensor
from course_lib.units import GB, TFLOP

REST: Mapping[str, str] = {
    "pad": "the epoch begins again with the **first** samples of its order, as often as it takes: ⌈samples / ranks⌉ for each",
    "drop": "the **last** samples of the epoch's order are left out: ⌊samples / ranks⌋ for each",
}

SAMPLER = Card(
    id="sampler",
    chapter="07",
    title="Who reads what",
    text="""Write `indices(samples, rank, ranks, epoch, seed=0)`: the list of sample numbers, from 0 to samples − 1, that this rank
reads in this epoch, in order. Nobody talks to anybody: every rank works it out for itself.

- In an epoch all ranks together read every sample once, and all read equally many. Where ranks do not divide the samples,
  {{rule}}.
- Each epoch has an **order of its own**, shuffled, and so has each seed. A sampler that was never told the epoch gave the
  same order for a whole run, in many a training script; the mistake has its own warning in torch's documentation.
- The same arguments give the same list, in any process, whatever its random generators have done before.
- The order belongs to the epoch, not to the ranks: in its k-th step, N ranks together read the k-th N samples of one order
  that is **the same for any N**. So a run on 8 ranks sees what the run on 4 saw.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What do all ranks have to agree on, and what may each decide alone?",
        "One generator, seeded from `seed` and `epoch` alone, makes one order of all samples. Make its length fit. Then deal it out "
        "like cards.",
        "`order = list(range(samples))`; `random.Random(f'{seed}:{epoch}').shuffle(order)`; lengthen or shorten it to a multiple of "
        "`ranks`; `order[rank::ranks]`.",
    ),
    answers=("indices",),
    hides=("data_parallel:indices_of",),
    params={"rest": "pad", "rule": REST["pad"], "samples": 23},
    vary=lambda draw: {"rest": "drop", "rule": REST["drop"], "samples": draw.choice((22, 23, 27))},
    structural="rest",
    probe=deal,
)

DDP_BUCKETS = Card(
    id="ddp-buckets",
    chapter="07",
    title="Buckets, last layer first",
    text="""One all-reduce per parameter pays a latency for every bias. Write `bucket_gradients(comm, model, bucket_bytes)`: as
`hook_gradients` before, it registers hooks and returns `finish`, but gradients travel in **buckets**.

- Take the trained parameters in the reverse of `model.parameters()` and put them into buckets one after another; begin a
  new bucket where the next one would not fit into `bucket_bytes` or has another dtype. A parameter larger than that is a
  bucket by itself.
- A bucket is one flat tensor and one asynchronous all-reduce. It leaves in the backward pass, as soon as its last gradient
  is there.
- Gradients may come in another order on another rank. Buckets leave in **one order on all ranks**: the next one waits until
  the one before has left.
- After `finish()` every trained parameter's `.grad` is the mean over ranks, in its own shape and dtype. Several steps
  follow; frozen parameters keep None; two layers may share a parameter.""",
    **Worth(points=12, minutes=25, difficulty=5, importance=4),
    kind="more",
    hints=(
        "What must a bucket know in order to leave? What must the *queue* know?",
        "Build the list of buckets once. Each hook strikes its parameter off; then a loop sends every bucket at the head of the "
        "queue that is complete. `finish` waits, copies back, and makes all of it new for the next step.",
        "`missing = [set(ids) …]`, `sent = 0`; in the hook: `while sent < len(buckets) and not missing[sent]:` pack "
        "`torch.cat([p.grad.reshape(-1) / comm.size …])`, start, `sent += 1`. In `finish`: wait, `p.grad.copy_(part.view_as(p))`.",
    ),
    answers=("bucket_gradients",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 12},
    vary=lambda draw: {"width": draw.randrange(9, 16)},
    needs=("06",),
    probe=hooked,
    returns=PerRank(DictOf({"gradients": ListOf(ListOf(Maybe(Tensor()))), "returned": Anything()})),
)

HANGS = """```python
def train(comm, model, batches, rate):
    for inputs, targets in batches:
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        for parameter in model.parameters():
            comm.all_reduce(parameter.grad, op="AVG")
            with torch.no_grad():
                parameter -= rate * parameter.grad
            parameter.grad = None
    return len(batches)
```"""

UNEVEN_INPUTS = Card(
    id="uneven-inputs",
    chapter="07",
    title="One rank has run dry",
    text=f"""A rank whose data end first leaves the loop; the others wait for its next all-reduce for ever. It was one of the most
reported hangs of DistributedDataParallel until it got its `join` (*pytorch/pytorch, issues 33148 and 38174, 2020*; asked
again and again since: *Lightning-AI/pytorch-lightning, issue 20404, 2024*).

{HANGS}

Repair it. `batches` is this rank's list of `(inputs, targets)`; ranks have different numbers of batches, or none, and
batches differ in size.

- Training goes on until **nobody** has a batch left, and every batch is used once, in its order.
- Each step is plain descent with the gradient of the mean squared error over **all examples of that step**: those of the
  ranks that still have some. An idle rank has none, and so does not pull the mean down.
- All ranks end with the same weights and return the number of steps that were taken.
- No data travel: per step, gradients once and a few numbers.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "What does a rank that has run dry still owe the others? What should it add to their sum, and to their count?",
        "Every step begins with a question to all ranks: how many examples has this step? Zero means that all are done. A rank "
        "without a batch sends zeros.",
        "`count` = all-reduced `len(inputs)`, 0 without a batch; stop at 0; gradient of `mse_loss * len(inputs) / count`, zeros "
        "without a batch; all-reduce with SUM; descend.",
    ),
    answers=("train",),
    allowed="every operation of `comm`; torch.",
    hides=READY,
    params={"width": 4},
    vary=lambda draw: {"width": draw.randrange(3, 7)},
    probe=training,
    returns=PerRank(DictOf({"steps": Anything("the number of steps"), "weights": ListOf(Tensor())})),
)

MEAN_METRICS = Card(
    id="mean-metrics",
    chapter="07",
    title="One number for all ranks",
    text="""After an evaluation every rank has a list of `(mean loss, correct, tokens)`, one entry per batch: the mean over the
batch's tokens, how many of them were right, how many there were. Write `evaluate(comm, batches)`: every rank returns

`{"loss": …, "accuracy": …, "perplexity": …}` over **all tokens of all ranks**; perplexity is e to the loss.

Batches differ in size, ranks in how many they have; a rank may have none. The mean loss of a batch without tokens is NaN, as
torch has it. However long the lists are, a few numbers go over the wire; a rank's lists do not.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the three numbers may be added up over batches as they are, and what makes the others addable?",
        "Three sums are enough: of losses, of right tokens, of tokens. The divisions come after the all-reduce.",
        "`row = torch.zeros(3, dtype=torch.float64)`; for each batch with tokens add `mean * tokens, correct, tokens`; all-reduce; "
        "divide; `math.exp` of the loss.",
    ),
    answers=("evaluate",),
    allowed="every operation of `comm`.",
    hides=("data_parallel:mean_metrics",),
    params={"batches": 5},
    vary=lambda draw: {"batches": draw.randrange(4, 9)},
    returns=PerRank(DictOf({"loss": Anything(), "accuracy": Anything(), "perplexity": Anything()}, more=True)),
)

BEHIND: Mapping[str, tuple[int, str]] = {
    "step": (6, "the **whole step**, which computes 6 FLOPs per parameter and token"),
    "backward": (4, "the **backward pass** alone, which computes 4 FLOPs per parameter and token"),
}


def _behind(name: str, bandwidth: float, ranks: int, batch: float) -> dict[str, Any]:
    flops_each, words = BEHIND[name]
    return {
        "behind": name,
        "words": words,
        "flops_each": flops_each,
        "rate": 400 * TFLOP,
        "bandwidth": bandwidth,
        "ranks": ranks,
        "batch": batch,
    }


def _vary_behind(draw: random.Random) -> Mapping[str, Any]:
    return _behind(
        "backward", draw.choice((25, 50, 100)) * GB, draw.choice((32, 128, 256)), draw.choice((1e6, 2e6, 4e6))
    )


BREAK_EVEN = Card(
    id="break-even",
    chapter="07",
    title="How many GPUs before it shows?",
    text="""Gradients go round a ring while a GPU computes. Communication is **hidden** as long as it takes no longer than
{{words}}. Latency is left out.

- `break_even_tokens(flops, bandwidth, ranks, grad_bytes)`: the tokens per GPU and step at which the all-reduce takes exactly
  as long. `flops` is what a GPU really does, in FLOP/s; `bandwidth` in bytes/s one way; `grad_bytes` bytes per parameter's
  gradient. The number of parameters is not among the arguments: why not?
- `most_gpus(batch_tokens, flops, bandwidth, grad_bytes)`: a batch of `batch_tokens` is divided evenly over the GPUs. The
  largest number of GPUs, a whole number, on which communication is still hidden; one GPU sends nothing.

Shown: {{rate:tflops}}, {{bandwidth:gbps}}, gradients of 16 bits; {{ranks}} GPUs for the first; for the second, a batch of
{{batch:count}} tokens.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Both times grow with the number of parameters. What is left when you divide one by the other?",
        "Write the two times for P parameters and T tokens, set them equal, solve for T. For the second: T is the batch over N, and "
        "N stands in the ring's factor too.",
        "With k FLOPs per parameter and token to hide behind: `2 * (N - 1) / N * grad_bytes / bandwidth = k * T / flops`. With T = B / N "
        "the N under both goes away: `N - 1 = k * B * bandwidth / (2 * grad_bytes * flops)`, and downwards to a whole number.",
    ),
    answers=("break_even_tokens", "most_gpus"),
    params=_behind("step", 50 * GB, 64, 2e6),
    vary=_vary_behind,
    structural="behind",
    probe=rows,
    returns=Rows(Anything("a number"), Anything("a number")),
)

PROBLEMS = (SAMPLER, DDP_BUCKETS, UNEVEN_INPUTS, MEAN_METRICS, BREAK_EVEN)
