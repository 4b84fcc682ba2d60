"""Judge of vocab-embedding: which rank has this token?"""

import random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges import regions
from course_lib.exercises.ch09.judges.regions import Result
from course_lib.judging import Fault, Judging, Mistake, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, nbytes, normal, tensor_fault
from course_lib.records import Case, Outcome, Verdict


def _owned(dealt: str, vocab: int, n: int, rank: int) -> Tensor:
    """The rows of the table that a rank holds."""
    words = torch.arange(vocab)
    return words[rank::n] if dealt == "round-robin" else words.tensor_split(n)[rank]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, dealt, vocab = coin_of(rng), params["dealt"], params["vocab"]

    def data(n: int, words: int, tokens: Tensor, hidden: int = 6, dtype: torch.dtype = torch.float32) -> Any:
        table, gradient = normal(coin, words, hidden, dtype=dtype), normal(coin, *tokens.shape, hidden, dtype=dtype)
        rows = (table[_owned(dealt, words, n, rank)].clone() for rank in range(n))
        per_rank = tuple((tokens.clone(), gradient.clone(), words, own) for own in rows)
        return {"per_rank": per_rank, "secret": (table, gradient, tokens)}

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=coin)

    def edges(words: int, n: int) -> list[Tensor]:
        """The first and the last word of every rank."""
        return [_owned(dealt, words, n, rank)[[0, -1]] for rank in range(n)]

    def with_edges(words: int, n: int) -> Tensor:
        """Two rows of tokens, among them the first and last word of every rank, and one of them twice."""
        ends = edges(words, n)
        row = torch.cat([*ends, draw(words, 7 - 2 * n), ends[0][:1]])
        return row[torch.randperm(8, generator=coin)].reshape(2, 4)

    six, all_ones, share = torch.cat(edges(11, 3)).reshape(2, 3), torch.ones(1, 6, dtype=torch.int64), "vocabularies"
    return [
        shown("three ranks", "values:vectors", **data(3, vocab, with_edges(vocab, 3))),
        hidden("two ranks, other data", "values:vectors", **data(2, vocab + 3, with_edges(vocab + 3, 2))),
        hidden("one rank", f"generality:{share}", **data(1, 7, draw(7, 1, 5))),
        hidden("the first and last word of every rank", f"generality:{share}", **data(3, 11, six)),
        hidden("words of one rank only", f"generality:{share}", **data(4, vocab, all_ones)),
        hidden("nine ranks, 11 words, 64 bits", f"generality:{share}", **data(9, 11, draw(11, 3, 3), 4, torch.float64)),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, dealt, (table, gradient, tokens) = case.ranks or 1, params["dealt"], case.secret
    vocab, hidden_size = table.shape
    held = [_owned(dealt, vocab, n, rank) for rank in range(n)]
    places = [tokens // n if dealt == "round-robin" else tokens - int(rows[0]) for rows in held]
    places = [place.clamp(0, len(rows) - 1) for place, rows in zip(places, held, strict=True)]
    clamped = [F.embedding(place, table[rows]) for place, rows in zip(places, held, strict=True)]
    mine = [torch.isin(tokens, rows).unsqueeze(-1) for rows in held]
    want, in_blocks = F.embedding(tokens, table), torch.zeros_like(gradient)
    for rank, rows in enumerate(held):  # as if each rank's rows were a block
        block = _owned("blocks", vocab, n, rank)
        inside = torch.isin(tokens, block)
        in_blocks += table[rows][(tokens - int(block[0])).where(inside, 0)] * inside.unsqueeze(-1)
    flat = gradient.reshape(-1, hidden_size)
    whole = torch.zeros_like(table).index_add(0, tokens.reshape(-1), flat)

    def output(rank: int, got: Result) -> Fault | None:
        public = "this solves the public form of the exercise, with blocks of rows; here they are assigned in turn."
        clamp = f"every vector is a sum of {n}, one from each rank. A clamped index selects another word."
        others = "this is this rank's own lookup alone; it has no vectors of other ranks' words."
        mean = "this is a mean over ranks; one of them has the vector, the others add zero."
        mistakes = [
            Mistake("public-form", in_blocks if dealt == "round-robin" else None, public),
            Mistake("clamped", sum(clamped), clamp),
            Mistake("own-part", want * mine[rank], "only this rank's words have a vector; the others are missing."),
            Mistake("one-clamped", clamped[rank], others),
            Mistake("mean", want / n, mean),
        ]
        hint = "Which words does this rank hold, and at which places?"
        hint += " Here they are assigned in turn." * (dealt == "round-robin")
        return tensor_fault(f"Rank {rank}: the output", got["y"], want, mistakes, otherwise=hint)

    def gradients(rank: int, got: Result) -> Fault | None:
        right = whole[held[rank]]
        strangers = torch.zeros_like(right).index_add(0, places[rank].reshape(-1), flat)
        zeroth = right.clone()
        zeroth[0] += flat[~mine[rank].reshape(-1)].sum(0)
        looked_up = "the gradients of other ranks' words, which were looked up in their place."
        mistakes = (
            Mistake("strangers-gradient", strangers, f"rows also get {looked_up}"),
            Mistake("strangers-gradient", zeroth, f"row 0 also gets {looked_up}"),
            regions.off_by_ranks(n, right)[0],
        )
        return regions.gradient_faults(got, rank, {"weight": right}, {"weight": mistakes})

    least, one = regions.ring_bytes(want, n)
    rows = (n - 1) * -(-vocab // n) * hidden_size * want.element_size()
    again = "A second all-reduce, in the backward pass: the gradient is the same on all ranks already."
    every = "Every rank's vectors go to every rank: an all-reduce sends less than two of them."
    known = (
        Mistake("summed-back", one, again),
        Mistake("gathered-table", rows - one, "The table is sent. No rank needs more than its rows."),
        Mistake("gathered", (n - 1) * nbytes(want) - one, every),
    )
    spent = regions.traffic(outcome.meter, least, one, known, "One all-reduce of the output, in the forward pass.")
    right = "the vectors are right"
    return regions.layer_verdicts(case, outcome.value, ("vectors", output), {"gradients": gradients}, spent, right)


JUDGING = Judging(
    shares="values:vectors 0.35, values:gradients 0.25, cost:bytes 0.2, generality:vocabularies 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="Looking up is multiplying with a one-hot row, so cutting the table by rows is a row cut: a rank that has none of a token's row "
    "adds zero. The clamp keeps the index legal; the mask makes the answer right, in both passes.",
    pytorch="DTensor's `RowwiseParallel` of an `nn.Embedding` masks in the same way; Megatron's `VocabParallelEmbedding`.",
)

ANSWERS = r"""import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, sum_out


# %% right: look up anything, then make it zero
def embed(comm, tokens, weight, vocab):
    start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
    mine = (tokens >= start) & (tokens < start + len(weight))
    rows = F.embedding((tokens - start).where(mine, 0), weight)
    return sum_out(rows * mine.unsqueeze(-1), comm)


# %% right: an own product with one-hot rows
def embed(comm, tokens, weight, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    hot = (tokens.unsqueeze(-1) == blocks[comm.rank]).to(weight.dtype)
    return sum_out(hot @ weight, comm)


# %% right: any variant  from: an own product with one-hot rows
# - def embed(comm, tokens, weight, vocab):
# + from course_lib import params
# + VARIANT = params("vocab-embedding")
# + def embed(comm, tokens, weight, vocab):
# ~ blocks = torch.arange(vocab).tensor_split(comm.size) ==> words = torch.arange(vocab)
# ~ blocks[comm.rank]) ==> (words[comm.rank :: comm.size] if VARIANT.dealt == "round-robin" else words.tensor_split(comm.size)[comm.rank]))

# %% wrong: as it stood => values clamped  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .clamp(0, len(weight) - 1)
# ~ rows * mine.unsqueeze(-1) ==> rows

# %% wrong: index 0 for strangers, no mask => values -  from: look up anything, then make it zero
# ~ rows * mine.unsqueeze(-1) ==> rows

# %% wrong: masked, but not for the gradient => values strangers-gradient  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .clamp(0, len(weight) - 1)
# ~ rows * mine.unsqueeze(-1) ==> rows - (rows * ~mine.unsqueeze(-1)).detach()

# %% wrong: blocks as if they were all equally long => values -  from: look up anything, then make it zero
# ~ sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank]) ==> comm.rank * len(weight)

# %% wrong: no sum => values own-part  from: look up anything, then make it zero
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> rows * mine.unsqueeze(-1)

# %% wrong: a mean => values mean  from: look up anything, then make it zero
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> sum_out(rows * mine.unsqueeze(-1), comm) / comm.size

# %% wrong: tokens changed in place => values changed-input  from: look up anything, then make it zero
# ~ (tokens - start).where ==> tokens.sub_(start).where


# %% wrong: the whole table on every rank => cost gathered-table
def embed(comm, tokens, weight, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    longest = len(blocks[0])
    padded = F.pad(weight, (0, 0, 0, longest - len(weight)))
    places = torch.cat([block - block[0] + rank * longest for rank, block in enumerate(blocks)])
    return F.embedding(places[tokens], gather(padded, comm, 0))


# %% wrong: summed on the way back, divided by N => cost summed-back  from: look up anything, then make it zero
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     out = copy_in(sum_out(rows * mine.unsqueeze(-1), comm), comm)
# +     return out / comm.size + (out - out / comm.size).detach()

# %% wrong: rows that occur twice keep one gradient => values -  from: look up anything, then make it zero
#       rows = F.embedding((tokens - start).where(mine, 0), weight)
# +     words = tokens.flatten().tolist()
# +     new = torch.tensor([word not in words[:place] for place, word in enumerate(words)]).reshape(*tokens.shape, 1)
# +     rows = rows.where(new, rows.detach())

# %% wrong: every rank's vectors to everyone => cost gathered  from: look up anything, then make it zero
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> gather((rows * mine.unsqueeze(-1))[None], comm, 0).sum(0)

# %% wrong: an index of its own for strangers => values raised  from: look up anything, then make it zero
# ~ .where(mine, 0) ==> .where(mine, -1)

# %% half: right but for the gradient => 2.8  from: masked, but not for the gradient
"""
