from course_chapters.ch08.exercises.probes import owned
from course_grader.exercises import Card, DictOf, ListOf, Maybe, Number, PerRank, Tensor, Worth

SHARDING = "course_lib.parallel.sharding"

CARD = Card(
    title="ZeRO stage 1: update what you own, send the result",
    text="""Write an optimizer of ZeRO stage 1: every rank holds only a part of the optimizer state, updates the
matching part of the weights, and sends the result. Weights, memory and bytes are checked; the plain optimizer gives
the right weights but saves no memory.

- `shard_optimizer(comm, parameters, make)` returns an object whose `step()` has the effect of the plain optimizer's.
- `parameters` is a list of tensors, equal on all ranks. When `step()` is called, their `.grad` is already averaged over
  ranks; it is new for every step. After `step()` **all ranks hold all new weights**, in the given tensors.
- `make(tensors)` makes an optimizer over a list of tensors, which must not be empty. It is elementwise, so you may give
  it whole tensors or pieces of them.
- **State**: no rank updates more bytes than a fair share plus the largest tensor. Tensors differ a lot in size.
- **Bytes**: each rank sends the values that it updated to each other rank once, and nothing else.
- A tensor that is in the list twice (tied weights) is updated once. One with `requires_grad=False` is neither updated
  nor sent. There may be more ranks than tensors.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Every rank knows the list and its sizes. Do ranks have to communicate to agree on owners?",
        "Take each trained tensor once, the largest first, and give it to the rank with the fewest bytes so far: all "
        "ranks compute the same table. Make an optimizer over your own tensors; after its step, every "
        "owner broadcasts.",
        "`mine = [p for p, rank in zip(kept, owner) if rank == comm.rank]`; `inner = make(mine) if mine else None`; "
        "in `step`: step `inner`, then `for p, rank in zip(kept, owner): comm.broadcast(p.data, src=rank)`.",
    ),
    answers=("shard_optimizer",),
    allowed="every operation of `comm`; torch. The library's own are switched off.",
    hides=(f"{SHARDING}:owners_of", f"{SHARDING}.flat_parameter:rows_of", "course_lib.parallel.data:buckets_of"),
    params={"layers": 3, "width": 12},
    vary=lambda draw: {"layers": draw.choice((2, 3, 4)), "width": draw.randrange(10, 17)},
    probe=owned,
    returns=PerRank(DictOf({"weights": Maybe(ListOf(Tensor())), "kept": Number("bytes")})),
)
