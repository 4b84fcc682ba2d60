"""More exercises of chapter 08 on ranks and traces: a loss that does not fall, memory that does not fall, parts for other ranks."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth, call
from course_lib.exercises.ch08.probes import moved, trained
from course_lib.exercises.drilling import pick
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, Number, PerRank, Tensor, Word

STANDING = """```python
def train(comm, build, make, batches, most):
    model = build()
    optimizer = make(model.parameters())
    units = [model.embedding, *model.blocks, model.head]
    sharded = FullySharded(comm, model, units)
    losses = []
    for inputs, targets in batches:
        logits = sharded(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        sharded.finish()
        torch.nn.utils.clip_grad_norm_(sharded.shards(), most)
        optimizer.step()
        sharded.zero_grad()
        losses.append(loss.item())
    return losses, sharded
```"""

LOSS_STANDS_STILL = Card(
    id="loss-stands-still",
    chapter="08",
    title="The loss does not fall",
    text=f"""Repair a training program whose loss does not fall. With FSDP, the loss of a nanoGPT stayed near its first value; without FSDP the same
script trained (*intelligent-machine-learning/dlrover, issue 584, August 2023*; the same in *huggingface/accelerate, issue 3209*). This program has
that bug and two more: one raises an error at once (*huggingface/accelerate, pull request 4171*), and one makes every rank clip by a different
number (*pytorch/torchtitan, issue 766*).

{STANDING}

`build()` returns the same model on every rank: `model.embedding`, `model.blocks`, `model.norm`, and `model.head`, **whose weight is the
embedding's**. `make(tensors)` makes an AdamW over tensors. `batches` are this rank's own, all of one size. `FullySharded` is from the
library.

- Return this rank's losses and the `FullySharded` model, as the program does.
- The weights after each step are those of one process with all ranks' batches, its gradient clipped at norm `most`.
- Each rank keeps only its share of the optimizer state, and every block is gathered separately.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Run it. What does the first error say about the embedding and the head? Then print `len(list(model.parameters()))` before and after "
        "`FullySharded`. Which tensors does the optimizer have?",
        "The first and the last unit in the list share a tensor; parameters in no unit belong to the root. The optimizer must step the ranks' "
        "shards. And the norm of one rank's shards is not the norm of the model.",
        "`sharded = FullySharded(comm, model, list(model.blocks))`; then `make(sharded.shards())`; then `clip_gradients(sharded, most)` in "
        "place of torch's.",
    ),
    answers=("train",),
    allowed="torch and the library, `course_lib.sharding` too.",
    params={"width": 6},
    vary=lambda draw: {"width": draw.randrange(5, 9)},
    probe=trained,
    returns=PerRank(DictOf({"losses": ListOf(Anything()), "weights": Maybe(Anything()), "state": Number("bytes")})),
)

CAUSES: Mapping[str, str] = {
    "replicated optimizer": "every rank keeps the whole optimizer state",
    "whole gradients": "every rank keeps whole gradients, as when micro-batches are added up before they are reduced",
    "one giant unit": "the model is one unit, so that all of it is gathered at once",
    "kept after forward": "units are gathered one by one and then kept until the backward pass",
    "small group": "the group that shards the state has a fixed size; more GPUs only make more copies",
    "activations": "the state does fall, but most of the memory is activations, which this does not shard",
    "allocator": "allocated memory falls, but the memory that the allocator has reserved does not",
}
CAUSES_TEXT = "\n".join(f'- `"{name}"`: {meaning};' for name, meaning in CAUSES.items())


MORE_GPUS_SAME_MEMORY = Card(
    id="more-gpus-same-memory",
    chapter="08",
    title="More GPUs, same memory",
    text=f"""Diagnose from a trace why memory per GPU does not fall as GPUs are added. In one report, from one node to four, reserved memory fell only from
28 GB to 24 GB, while allocated memory fell to half (*pytorch/pytorch, issue 82001, July 2022*). Other threads have the same complaint and other causes
(*pytorch/pytorch, issue 104589, 2023*; *facebookresearch/fairscale, issue 1050, 2022*; *pytorch/examples, issue 1319, 2025*).

A trace is a dictionary: `"params"` (of the model), `"units"` (how many units its author intended), `"micro_batches"` (in a step), and `"runs"`, a
list with one dictionary for each number of ranks, fewest first. All bytes are those of one rank at its peak:

| key | |
|---|---|
| `"ranks"` | number of ranks |
| `"weights"`, `"gradients"`, `"optimizer"` | state that the rank holds |
| `"gathered"` | gathered weights, in addition to its own |
| `"activations"` | tensors that autograd keeps |
| `"reserved"` | memory that the allocator has reserved, including all of the above |
| `"gathers"` | all-gathers in a step |

Weights and gradients have 16 bits; the numbers are measured, to a few percent. Write `cause(trace)`: why does memory not fall as it should?
Name the largest block of memory that **should have fallen or been freed but was not**. If there is none, name the other cause:

{CAUSES_TEXT}
- `"as it should"`: memory falls about as the number of ranks rises.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Which of the three buckets of state are smaller in the last run than in the first? By what factor should they be smaller?",
        "In the last run, each bucket should be its first value times the first ranks over the last. The excess is what did not fall. At most two "
        "or three units should be gathered.",
        "`stuck = {k: last[k] - first[k] * first['ranks'] / last['ranks'] for k in …}`; all three stuck: the group. `gathered > half of 2 * params`: one unit or kept, "
        "by `gathers / micro_batches` against `units`. Then `reserved` against the sum of the parts; then activations against the sum of the rest.",
    ),
    answers=("cause",),
    params={"params": 7e9, "units": 32, "ranks": 8},
    vary=pick(params=(3e9, 8e9, 13e9), units=(24, 32, 40), ranks=(8, 16)),
    probe=call,
    returns=Word((*CAUSES, "as it should")),
)

RESHARD_CHECKPOINT = Card(
    id="reshard-checkpoint",
    chapter="08",
    title="The same row on another number of ranks",
    text="""Move a sharded row from `old` ranks to `new` ranks, more or fewer, without ever holding the whole row on one rank. This is what loading a
checkpoint on another number of ranks requires.

- On `old` ranks, rank r has part r of ⌈elements / old⌉ numbers, and the last parts end in zeros as padding. On `new` ranks, rank r needs
  part r of ⌈elements / new⌉ numbers, padded in the same way.
- `reshard(comm, part, elements, old, new)` runs on max(old, new) ranks and returns this rank's new part, in the same dtype. A rank without
  an old part is given an empty tensor; one without a new part returns an empty tensor. Shown: from {{old}} ranks to {{new}}.
- **Bytes**: no rank receives more than its new part.
- **Memory**: no rank ever holds the whole row. In addition to its old part it holds at most twice an old and a new part.
- Nothing is buffered: a blocking send waits for its receive.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Where in the row does the part of rank r begin and end? Which numbers do old rank a and new rank b have in common?",
        "Each rank can compute all overlaps alone. One all-to-all with sizes then sends each overlap to its new rank, including the numbers "
        "that stay on their rank.",
        "`start, stop = min(r * p, n), min((r + 1) * p, n)` with `p = -(-n // ranks)`, empty for r ≥ ranks. `send[b] = max(0, min(stop_old(me), stop_new(b)) - "
        "max(start_old(me), start_new(b)))`, `take[a]` likewise; then `comm.all_to_all_single(out, part[:sum(send)], take, send)` into the front of zeros.",
    ),
    answers=("reshard",),
    allowed="every operation of `comm`; torch.",
    params={"old": 4, "new": 6},
    vary=lambda draw: dict(zip(("old", "new"), draw.choice(((3, 5), (4, 7), (6, 4), (5, 3))), strict=True)),
    needs=("06",),
    probe=moved,
    returns=PerRank(DictOf({"part": Tensor(), "peak": Number("bytes")})),
)
