"""Further exercises of chapter 08 on ranks and traces: a training that stands still, memory that does not fall, parts for other ranks."""

from collections.abc import Mapping

from course_lib.exercises import Card, call
from course_lib.exercises.ch08.probes import moved, trained
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
    title="The loss stands still",
    text=f"""With FSDP switched on, the loss of a nanoGPT bounced around its first value and never fell; the same script without FSDP
trained (*intelligent-machine-learning/dlrover, issue 584, August 2023*; the same in *huggingface/accelerate, issue 3209*). This program
has that bug and two more, each from a thread of its own: one stops it at once (*huggingface/accelerate, pull request 4171*), one lets
every rank clip by another number (*pytorch/torchtitan, issue 766*).

{STANDING}

`build()` gives the same model on every rank: `model.embedding`, `model.blocks`, `model.norm`, and `model.head`, **whose weight is the
embedding's**. `make(tensors)` makes an AdamW over tensors. `batches` are this rank's own, all of one size. `FullySharded` is the library's.

Repair it. Return this rank's losses and the `FullySharded` model, as the program does.

- The weights after each step are those of one process with all ranks' batches, its gradient clipped at norm `most`.
- Each rank keeps its share of the optimizer's state, and every block is gathered by itself.""",
    points=8,
    minutes=15,
    difficulty=3,
    importance=5,
    kind="more",
    form="bug",
    hints=(
        "Run it: what does the first error say about the embedding and the head? Then print `len(list(model.parameters()))` before and after "
        "`FullySharded`. Which tensors does the optimizer know?",
        "The first unit in the list and the last share a tensor; what is in no unit belongs to the root. The optimizer has to step what the "
        "ranks hold. And the norm of a rank's shards is no norm of the model.",
        "`sharded = FullySharded(comm, model, list(model.blocks))`; then `make(sharded.shards())`; then `clip_gradients(sharded, most)` in "
        "place of torch's.",
    ),
    answers=("train",),
    allowed="torch and the library, `course_lib.sharding` too.",
    params={"width": 6},
    vary=lambda draw: {"width": draw.randrange(5, 9)},
    probe=trained,
    returns=PerRank(
        DictOf({"losses": ListOf(Anything("a loss")), "weights": Maybe(Anything()), "state": Number("bytes")})
    ),
)

CAUSES: Mapping[str, str] = {
    "replicated optimizer": "every rank keeps the whole optimizer state",
    "whole gradients": "every rank keeps whole gradients, as when micro-batches are added up before they are reduced",
    "one giant unit": "the model is one unit, so that all of it is gathered at once",
    "kept after forward": "units are gathered one by one and then kept until the backward pass",
    "small group": "shards are made within a group whose size stays; more GPUs only make more copies",
    "activations": "the state does fall, and what autograd keeps, which no sharding of state touches, is the most of it",
    "allocator": "what is allocated falls; what the allocator has reserved does not",
}


def _causes() -> str:
    return "\n".join(f'- `"{name}"`: {meaning};' for name, meaning in CAUSES.items())


MORE_GPUS_SAME_MEMORY = Card(
    id="more-gpus-same-memory",
    chapter="08",
    title="More GPUs, same memory",
    text=f"""Smaller shards and less memory were expected, and it hardly changed: from one node to four, reserved memory went from 28 GB to
24 GB, while what was allocated fell to half (*pytorch/pytorch, issue 82001, July 2022*). The same complaint opens other threads with
other causes (*pytorch/pytorch, issue 104589, 2023*; *facebookresearch/fairscale, issue 1050, 2022*; *pytorch/examples, issue 1319, 2025*).

A trace is a dictionary: `"params"` (of the model), `"units"` (in how many units its author meant to gather it), `"micro_batches"` (in a step), and
`"runs"`, a list with one dictionary for each number of ranks, fewest first. All bytes are of the fullest moment of one rank:

| key | |
|---|---|
| `"ranks"` | how many |
| `"weights"`, `"gradients"`, `"optimizer"` | state that it holds |
| `"gathered"` | weights that are whole at that moment, beside its own |
| `"activations"` | what autograd keeps |
| `"reserved"` | what the allocator has taken from the device, all of the above included |
| `"gathers"` | all-gathers in a step |

Weights and gradients have 16 bits; numbers are measured, to a few per cent. Write `cause(trace)`: why does memory not fall as it should?
Name what holds **the most of the memory that ought to have fallen, or been let go, and did not**; if that is nothing, what else it is:

{_causes()}
- `"as it should"`: memory falls about as the number of ranks rises.""",
    points=8,
    minutes=15,
    difficulty=3,
    importance=5,
    kind="more",
    hints=(
        "Which of the three buckets of state are smaller in the last run than in the first? By which factor should they be?",
        "Compare each bucket's last run with what it should be: its first, times the first ranks over the last. The excess is what did not fall. For weights that "
        "are gathered, the most that should lie whole is two or three units' worth.",
        "`stuck = {k: last[k] - first[k] * first['ranks'] / last['ranks'] for k in …}`; all three stuck: the group. `gathered > half of 2 * params`: one unit or kept, "
        "by `gathers / micro_batches` against `units`. Then `reserved` against the sum of the parts; then activations against the sum of the rest.",
    ),
    answers=("cause",),
    params={"params": 7e9, "units": 32, "ranks": 8},
    vary=lambda draw: {
        "params": draw.choice((3e9, 8e9, 13e9)),
        "units": draw.choice((24, 32, 40)),
        "ranks": draw.choice((8, 16)),
    },
    probe=call,
    returns=Word((*CAUSES, "as it should")),
)

RESHARD_CHECKPOINT = Card(
    id="reshard-checkpoint",
    chapter="08",
    title="The same row on other ranks",
    text="""A row of `elements` numbers lies on `old` ranks: rank r has part r of equal parts, ⌈elements / old⌉ numbers each, and
the last ones end in padding of zeros. It goes on with `new` ranks, more or fewer: rank r is to have part r of ⌈elements / new⌉ numbers,
padded with zeros in the same way.

Write `reshard(comm, part, elements, old, new)`. It runs on max(old, new) ranks, and returns this rank's new part. A rank that had no
part was given an empty tensor, one that gets none returns an empty tensor; dtype stays. Shown: from {{old}} ranks to {{new}}.

- **Bytes**: no rank receives more than its new part.
- **Memory**: no rank ever holds the whole row; beside its old part, twice an old part and a new one at the most.
- Nothing is buffered: a blocking send waits for its receive.""",
    points=10,
    minutes=20,
    difficulty=4,
    importance=4,
    kind="more",
    hints=(
        "Where in the row does the part of rank r begin and end? Which numbers do old rank a and new rank b have in common?",
        "Both sides can work out all overlaps alone. Then it is one exchange in which everybody sends everybody as many numbers as they have in "
        "common: an all-to-all with sizes. What stays on its rank goes the same way.",
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


RANKS_AND_TRACES = (LOSS_STANDS_STILL, MORE_GPUS_SAME_MEMORY, RESHARD_CHECKPOINT)
