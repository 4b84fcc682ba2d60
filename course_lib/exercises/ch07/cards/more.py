"""Further exercises of chapter 07: samplers, buckets, uneven inputs, metrics, and when to stop adding GPUs."""

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
    "pad": "the epoch starts again with the **first** samples of its order, as often as needed: ⌈samples / ranks⌉ for each",
    "drop": "the **last** samples of the epoch's order are left out: ⌊samples / ranks⌋ for each",
}

SAMPLER = Card(
    id="sampler",
    chapter="07",
    title="Who reads what",
    text="""Write `indices(samples, rank, ranks, epoch, seed=0)`: the sample numbers, from 0 to samples − 1, that this rank reads in this
epoch, as a list in order. Every rank computes its own list without communication, so all of them must agree on one order.

- In an epoch, all ranks together read every sample once, and each reads equally many. If the number of ranks does not divide
  the number of samples, {{rule}}.
- Each epoch has an **order of its own**, shuffled, and so does each seed. Many training scripts never passed the epoch to their
  sampler and used one order for a whole run; torch's documentation has a warning about it.
- The same arguments give the same list, in any process, whatever the state of its random generators.
- The order belongs to the epoch, not to the ranks: in step k, N ranks together read the k-th N samples of one order that is **the
  same for any N**. So a run on 8 ranks reads what the run on 4 ranks read.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What do all ranks have to agree on, and what can each of them decide alone?",
        "One generator, seeded only with `seed` and `epoch`, gives one order of all samples. Make its length divisible by the number "
        "of ranks. Then deal it out in turn.",
        "`order = list(range(samples))`; `random.Random(f'{seed}:{epoch}').shuffle(order)`; extend or shorten it to a multiple of "
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
    text="""Write `bucket_gradients(comm, model, bucket_bytes)`: like `hook_gradients`, it registers hooks and returns `finish`, but it sends
gradients in **buckets**. One all-reduce per parameter pays a latency for every bias; a bucket pays it once for many parameters.

- Take the trained parameters in the reverse order of `model.parameters()` and fill buckets one after another. Start a new bucket
  when the next parameter would not fit into `bucket_bytes` or has another dtype. A larger parameter is a bucket of its own.
- A bucket is one flat tensor and one asynchronous all-reduce, which starts in the backward pass as soon as the bucket's last
  gradient is complete.
- Gradients can complete in a different order on another rank. Buckets leave in **one order on all ranks**: each waits until the
  previous one has left.
- After `finish()`, every trained parameter's `.grad` is the mean over ranks, in its own shape and dtype. Several steps follow;
  no handle of an earlier one is kept. Every rank's loss uses all trained parameters. Frozen parameters keep None, and two layers
  can share a parameter.""",
    **Worth(points=12, minutes=25, difficulty=5, importance=4),
    kind="more",
    hints=(
        "What does a bucket have to know before it can leave? What does the *queue* have to know?",
        "Build the list of buckets once. Each hook removes its parameter from the bucket's missing ones; then a loop sends every "
        "complete bucket at the head of the queue. `finish` waits, copies back, and resets everything for the next step.",
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
    returns=PerRank(
        DictOf({"gradients": ListOf(ListOf(Maybe(Tensor()))), "returned": Anything(), "handles": Anything()})
    ),
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
    title="One rank runs out of data",
    text=f"""Repair a training loop that hangs when ranks have different amounts of data. A rank whose data ends first leaves the loop, and the
others wait for its next all-reduce. Until DistributedDataParallel got `join`, this was one of its most reported hangs
(*pytorch/pytorch, issues 33148 and 38174, 2020*; it still comes up: *Lightning-AI/pytorch-lightning, issue 20404, 2024*).

{HANGS}

`batches` is this rank's list of `(inputs, targets)`; ranks have different numbers of batches, or none, and batches differ in size.

- Training continues until **no rank** has a batch left. Every batch is used once, in order.
- Each step is gradient descent on the mean squared error over **all examples of that step**, on the ranks that still have some. An
  idle rank has no examples, so it does not lower the mean.
- All ranks end with the same weights and return the number of steps taken.
- Data is not sent. Each step communicates the gradients once and a few numbers.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "What must a rank without data still contribute? What should it add to the sum, and what to the count?",
        "Begin every step by asking all ranks how many examples the step has. Zero means that all are done. A rank without a batch "
        "sends zeros.",
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
    text="""Write `evaluate(comm, batches)`, which combines the metrics of an evaluation over all ranks. Every rank has a list of
`(mean loss, correct, tokens)`, one entry per batch: the mean loss over the batch's tokens, how many tokens were predicted correctly, and how many there were.

- It returns `{"loss": …, "accuracy": …, "perplexity": …}` on every rank, over **all tokens of all ranks**.
  Perplexity is e to the power of the loss.
- Batches differ in size, and ranks in how many they have; a rank can have none.
- The mean loss of a batch without tokens is NaN, as in torch.
- **Budget:** a few numbers per rank, however long the lists are.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the three numbers can be added up over batches as they are, and how do you make the others addable?",
        "Three sums are enough: of losses, of correct tokens, and of tokens. Divide after the all-reduce.",
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
    "backward": (4, "the **backward pass**, which computes 4 FLOPs per parameter and token"),
    "step": (
        6,
        "the **whole step**, which computes 6 FLOPs per parameter and token; this run applies gradients one step late, so the "
        "next forward pass hides communication too",
    ),
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
    return _behind("step", draw.choice((25, 50, 100)) * GB, draw.choice((32, 128, 256)), draw.choice((1e6, 2e6, 4e6)))


BREAK_EVEN = Card(
    id="break-even",
    chapter="07",
    title="How many GPUs until communication shows?",
    text="""Find the number of tokens per GPU, and from it the number of GPUs, up to which an all-reduce stays hidden. Gradients go around a
ring while the GPU computes; communication is **hidden** as long as it takes no longer than {{words}}. Leave latency out.

- `break_even_tokens(flops, bandwidth, ranks, grad_bytes)`: the tokens per GPU and step at which both take equally long. `flops`
  is what a GPU achieves, in FLOP/s; `bandwidth` is in bytes/s one way; `grad_bytes` is bytes per parameter's gradient. Why is
  the number of parameters not an argument?
- `most_gpus(batch_tokens, flops, bandwidth, grad_bytes)`: a batch of `batch_tokens` is divided evenly over the GPUs. Return the
  largest whole number of GPUs on which communication is still hidden. One GPU sends nothing.
- The visible cases use {{rate:tflops}}, {{bandwidth:gbps}} and 16-bit gradients; {{ranks}} GPUs for the first function, and a batch
  of {{batch:count}} tokens for the second.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Both times grow with the number of parameters. What is left when you divide one by the other?",
        "Write both times for P parameters and T tokens, set them equal, and solve for T. For the second function, T is the batch "
        "divided by N, and N also appears in the ring's factor.",
        "With k FLOPs per parameter and token to hide behind: `2 * (N - 1) / N * grad_bytes / bandwidth = k * T / flops`. With T = batch "
        "/ N, both N below cancel: `N - 1 = k * batch * bandwidth / (2 * grad_bytes * flops)`; round down to a whole number.",
    ),
    answers=("break_even_tokens", "most_gpus"),
    params=_behind("backward", 50 * GB, 64, 2e6),
    vary=_vary_behind,
    structural="behind",
    probe=rows,
    returns=Rows(Anything("a number"), Anything("a number")),
)

PROBLEMS = (SAMPLER, DDP_BUCKETS, UNEVEN_INPUTS, MEAN_METRICS, BREAK_EVEN)
