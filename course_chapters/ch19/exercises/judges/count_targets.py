import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.mistakes import Fault, first_of
from course_grader.judging.oracles import oracle
from course_grader.judging.ranks import UNKIND
from course_grader.judging.tensors import tensor_fault
from course_grader.records import Case, Outcome

MOST = 64  # bytes of one number in any collective
right = Worked("count-targets")


def _pack(rng: random.Random, room: int, rows: int, share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Rows of conversations with some padding, and which tokens the assistant wrote; a conversation can begin with
    one."""
    ids = torch.full((rows, room), -1)
    for row in range(rows):
        first, both = sorted(rng.sample(range(1, room), 2))
        ids[row, :both] = 2 * row + (torch.arange(both) >= first)
    learned = torch.tensor([[rng.random() < share for _ in range(room)] for _ in range(rows)], dtype=torch.bool)
    return ids, learned.reshape(rows, room)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    room = params["room"]

    def ranks(*rows: int, share: Sequence[float] = (0.2, 0.9, 0.5, 0.7)) -> tuple[tuple[Tensor, Tensor], ...]:
        return tuple(_pack(rng, room, count, share[rank % 4]) for rank, count in enumerate(rows))

    nothing = tuple((ids, torch.zeros_like(learned)) for ids, learned in ranks(2, 1))
    full = torch.zeros(1, room, dtype=torch.long), torch.ones(1, room, dtype=torch.bool)
    tiny = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool)
    padding = torch.full((2, room), -1), torch.ones(2, room, dtype=torch.bool)
    lone = {ranks_text(k): (tiny, *ranks(*[1] * (k - 1))) for k in (1, 2, 3)}
    return [
        shown("two ranks", "values:weights", per_rank=ranks(2, 2)),
        hidden("three ranks", "values:weights", per_rank=ranks(1, 3, 2)),
        hidden("conversations beside each other", "values:weights", per_rank=ranks(4, 4, share=(1.0, 1.0))),
        hidden("a rank that has only padding", "generality:ranks", per_rank=(*ranks(2), padding)),
        hidden("one rank, and one row", "generality:ranks", per_rank=ranks(1)),
        hidden("one rank without a row", "generality:ranks", per_rank=ranks(0)),
        hidden("four ranks, one without a row", "generality:ranks", per_rank=ranks(2, 0, 1, 1)),
        hidden("five ranks, one without a row", "generality:ranks", per_rank=ranks(1, 0, 2, 1, 3)),
        hidden("nothing to learn on any rank", "generality:empty", per_rank=nothing),
        *(hidden(f"a row of one position, {k}", "generality:empty", per_rank=each) for k, each in lone.items()),
        hidden("a conversation that fills its row", "generality:empty", per_rank=(full, *ranks(1))),
        *under(UNKIND, "three ranks", "protocol:safe", lambda: ranks(2, 1, 2)),
    ]


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    pairs = enumerate(zip(outcome.value, right.value(case), strict=True))
    return first_of(tensor_fault(f"Rank {rank} of {case.ranks}", *pair, rel=1e-5) for rank, pair in pairs)


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    sent = max(outcome.meter["bytes_sent"])
    if sent > MOST:
        return "too-many-bytes", f"a rank sends {sent:,} bytes; one number in one collective takes no more than {MOST}."
    if case.ranks != 1 and not sent:
        return "no-bytes", "no rank sends anything, so no rank can know the tokens of the others."
    return None


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:weights 0.5, cost:bytes 0.1, protocol:safe 0.1, generality:ranks 0.2, generality:empty 0.1",
    cases=_cases,
    verdicts=oracle(_fault, {"cost:bytes": _bytes}),
    why="""A conversation's question is context, not a target, and the token after the last one of a packed conversation
belongs to another. What remains is counted over all ranks, because a mean of the ranks' means lets a short answer on
one rank weigh as much as many on another. Averaging gradients divides by the number of ranks, so the weights contain
that number.""",
    pytorch="Hugging Face's `Trainer` passes `num_items_in_batch`, counted over ranks and micro-batches, to the loss; "
    "`TRL` masks with `assistant_only_loss=True`.",
)

ANSWERS = r'''import torch

from course_lib import params


# %% right: worked
way = params("count-targets").way  # leave as is: "average" or "sum", what is done with the ranks' gradients


def weights(comm, ids, learned):
    """The weight of each position's loss, (rows, room), float32. Budget: one number."""
    ### BEGIN SOLUTION
    counts = torch.zeros(ids.shape)
    counts[:, :-1] = (learned[:, 1:] & (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).float()
    total = counts.sum(dtype=torch.float64).reshape(1)
    comm.all_reduce(total)
    factor = comm.size if way == "average" else 1
    return counts * (factor / max(total.item(), 1))
    ### END SOLUTION

# %% right: rolled
# ~ counts = torch.zeros(ids.shape) ==> last = torch.tensor([ids.shape[1] - 1])
# ~ counts[:, :-1] = (learned[:, 1:] & (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).float()
# ~~ ==> counts = (learned.roll(-1, 1) & (ids.roll(-1, 1) == ids) & (ids != -1)).index_fill(1, last, False)
# ~ total = counts.sum(dtype=torch.float64).reshape(1) ==> total = counts.sum().reshape(1)
# %% wrong: each rank's own mean => values
# > this divides by the rank's own number of tokens, so a token on a rank with few of them weighs more.
# -     comm.all_reduce(total)
# ~ factor = comm.size if way == "average" else 1 ==> factor = 1 if way == "average" else 1 / comm.size
# %% wrong: the averaging is forgotten => values unless way=sum
# > the trainer divides by the number of ranks once more, so the gradient is too small by that number.
# ~ comm.size if way == "average" else 1 ==> 1
# %% wrong: averaged although summed => values unless way=average
# > the gradients are summed, so the number of ranks must not be in the weights.
# ~ comm.size if way == "average" else 1 ==> comm.size
# %% wrong: not shifted => values
# > the weight lies at the learned token; it belongs one position earlier, where that token is predicted.
# ~ counts[:, :-1] = (learned[:, 1:] & ==> counts[:, :-1] = (learned[:, :-1] &
# %% wrong: at the target => values
# > the weight lies at the token that is predicted; it belongs one position earlier, where the model predicts it.
# ~ counts[:, :-1] = (learned[:, 1:] & ==> counts[:, 1:] = (learned[:, 1:] &
# %% wrong: shifted the other way => values
# > the weight lies one position after the learned token; it belongs one position before it.
# ~ counts[:, :-1] = (learned[:, 1:] & ==> counts[:, 1:] = (learned[:, :-1] &
# %% wrong: across conversations => values
# > the first token of a conversation is predicted from the conversation before it in the row.
# ~ & (ids[:, 1:] == ids[:, :-1]) & ==> &
# %% wrong: padding is learned => values
# > padding has weights.
# ~ & (ids[:, 1:] >= 0) ==> & (ids[:, 1:] >= -1)
# %% wrong: questions are learned => values
# > the weights do not look at `learned`: tokens of the user count, too.
# ~ (learned[:, 1:] & (ids ==> ((ids
# %% wrong: tokens without a loss are counted => values
# > the number of tokens includes some without a loss, such as one that begins a conversation.
# ~ counts.sum(dtype=torch.float64).reshape(1) ==> (learned & (ids >= 0)).sum(dtype=torch.float64).reshape(1)
# %% wrong: rows, not tokens => values other-numbers
# ~ total = counts.sum(dtype=torch.float64).reshape(1) ==> total = torch.tensor([float(len(ids))])
# %% wrong: the weights of a half batch => values other-numbers
# ~ return counts * ==> return counts.half().float() * 0.5 *
# %% wrong: zero over zero => generality raised
# ~ max(total.item(), 1) ==> total.item()
# %% wrong: all counts on the wire => cost too-many-bytes
# ~ comm.all_reduce(total) ==> comm.all_reduce(total); comm.all_reduce(torch.zeros(99, 99))
# %% wrong: only ranks with rows call => protocol deadlock
# ~ comm.all_reduce(total) ==> comm.all_reduce(total) if len(ids) else None
# %% wrong: float64 weights => values another-kind
# ~ return counts * ==> return counts.double() *
# %% half: all counts on the wire => 3  from: all counts on the wire
'''
