import torch
from torch import Tensor

from course_chapters.ch09.exercises.judges import regions
from course_grader.judging import Case, Judging, Params, Random, Worked, hidden, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, normal

right = Worked("vocab-embedding")


def _owned(dealt: str, vocab: int, n: int, rank: int) -> Tensor:
    """The rows of the table that a rank holds."""
    words = torch.arange(vocab)
    return words[rank::n] if dealt == "round-robin" else words.tensor_split(n)[rank]


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, dealt, vocab = coin_of(rng), params["dealt"], params["vocab"]

    def data(n: int, words: int, tokens: Tensor, hidden: int = 6, dtype: torch.dtype = torch.float32) -> PerRank:
        table, gradient = normal(coin, words, hidden, dtype=dtype), normal(coin, *tokens.shape, hidden, dtype=dtype)
        rows = (table[_owned(dealt, words, n, rank)].clone() for rank in range(n))
        return tuple((tokens.clone(), gradient.clone(), (words, own)) for own in rows)

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

    six, all_ones = torch.cat(edges(11, 3)).reshape(2, 3), torch.ones(1, 6, dtype=torch.int64)
    share, nine = "generality:vocabularies", data(9, 11, draw(11, 3, 3), 4, torch.float64)
    return [
        shown("three ranks", "values:vectors", per_rank=data(3, vocab, with_edges(vocab, 3))),
        hidden("two ranks, other data", "values:vectors", per_rank=data(2, vocab + 3, with_edges(vocab + 3, 2))),
        hidden("one rank", share, per_rank=data(1, 7, draw(7, 1, 5))),
        hidden("the first and last word of every rank", share, per_rank=data(3, 11, six)),
        hidden("words of one rank only", share, per_rank=data(4, vocab, all_ones)),
        hidden("nine ranks, 11 words, 64 bits", share, per_rank=nine),
    ]


HINT = "Which words does this rank hold, and at which places?"
JUDGING = Judging(
    shares="values:vectors 0.35, values:gradients 0.25, cost:bytes 0.2, generality:vocabularies 0.2",
    cases=_cases,
    verdicts=regions.layer(right, regions.one_sum_each(1), "vectors", "the output", hint=HINT),
    why="Looking up is multiplying with a one-hot row, so cutting the table by rows is a row cut: a rank that has "
    "none of a token's row adds zero. The clamp keeps the index legal; the mask makes the answer right, in "
    "both passes.",
    pytorch="DTensor's `RowwiseParallel` of an `nn.Embedding` masks in the same way; Megatron's "
    "`VocabParallelEmbedding`.",
)

ANSWERS = r'''# %% right: worked
dealt = params("vocab-embedding").dealt  # leave as is: "blocks" or "round-robin": what your variant asks for


def embed(comm, tokens, weight, vocab):
    """The tokens' vectors (batch, seq, hidden), on every rank. Budget: one all-reduce."""
    if dealt == "round-robin":
        mine, place = tokens % comm.size == comm.rank, tokens // comm.size
    else:
        start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
        mine, place = (tokens >= start) & (tokens < start + len(weight)), tokens - start
    rows = F.embedding(place.where(mine, 0), weight)
    return sum_out(rows * mine.unsqueeze(-1), comm)
# %% right: an own product with one-hot rows
# -     rows = F.embedding(place.where(mine, 0), weight)
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     hot = (place.unsqueeze(-1) == torch.arange(len(weight))) & mine.unsqueeze(-1)
# +     return sum_out(hot.to(weight.dtype) @ weight, comm)
# %% right: compared with the words that are held
# -     rows = F.embedding(place.where(mine, 0), weight)
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     words = torch.arange(vocab)
# +     held = words[comm.rank :: comm.size] if dealt == "round-robin" else words.tensor_split(comm.size)[comm.rank]
# +     return sum_out((tokens.unsqueeze(-1) == held).to(weight.dtype) @ weight, comm)
# %% wrong: as it stood => values clamped
# > every rank adds a vector for every token. A clamped index selects another word.
# ~ place.where(mine, 0) ==> place.clamp(0, len(weight) - 1)
# ~ rows * mine.unsqueeze(-1) ==> rows
# %% wrong: index 0 for strangers, no mask => values no-mask
# > every rank adds a vector for every token; for words of other ranks it is the vector of another word.
# ~ rows * mine.unsqueeze(-1) ==> rows
# %% wrong: one clamped => values
# > this is this rank's own lookup alone, with other words' vectors where a token is not its own.
# ~ place.where(mine, 0) ==> place.clamp(0, len(weight) - 1)
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> rows
# %% wrong: masked, but not for the gradient => values strangers-gradient
# > rows also get the gradients of other ranks' words, which were looked up in their place.
# ~ place.where(mine, 0) ==> place.clamp(0, len(weight) - 1)
# ~ rows * mine.unsqueeze(-1) ==> rows - (rows * ~mine.unsqueeze(-1)).detach()
# %% wrong: row 0 for strangers, masked but for the gradient => values strangers-gradient
# ~ rows * mine.unsqueeze(-1) ==> rows - (rows * ~mine.unsqueeze(-1)).detach()
# %% wrong: blocks as if they were all equally long => values equal-blocks unless dealt=round-robin
# > the blocks are not equally long, so a rank's first word is not rank · rows.
# ~ sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank]) ==> comm.rank * len(weight)
# %% wrong: blocks as if the first were no longer => values equal-blocks unless dealt=round-robin
# ~ start = sum ==> start = comm.rank * (vocab // comm.size) if True else sum
# %% wrong: first word lost => values first-word-lost unless dealt=round-robin
# > the first word of a rank's block has no vector.
# ~ (tokens >= start) ==> (tokens > start)
# %% wrong: no sum => values own-part
# > only this rank's words have a vector; the others are missing.
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> rows * mine.unsqueeze(-1)
# %% wrong: a mean => values mean
# > this is a mean over ranks; one of them has the vector, the others add zero.
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> sum_out(rows * mine.unsqueeze(-1), comm) / comm.size
# %% wrong: summed on the way back, too => values times-n
# > it is as many times too large as there are ranks: after the sum all hold the same, so its gradient is not summed
# > again.
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> copy_in(sum_out(rows * mine.unsqueeze(-1), comm), comm)
# %% wrong: tokens changed in place => values changed-input
# ~ rows = F.embedding(place.where(mine, 0), weight) ==> rows = F.embedding(tokens.copy_(place).where(mine, 0), weight)
# %% wrong: the whole table on every rank => cost gathered-table
# > The table is sent. No rank needs more than its rows.
# ~ rows = F.embedding(place.where(mine, 0), weight) ==> longest = -(-vocab // comm.size)
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     words = torch.arange(vocab)
# +     held = [words[r :: comm.size] if dealt == "round-robin" else words.tensor_split(comm.size)[r] for r in
# ~~ range(comm.size)]
# +     order = torch.cat([F.pad(each, (0, longest - len(each)), value=vocab) for each in held])
# +     return F.embedding(order.argsort()[tokens], gather(F.pad(weight, (0, 0, 0, longest - len(weight))), comm, 0))
# %% wrong: summed on the way back, divided by N => cost summed-back
# > A second all-reduce, in the backward pass: the gradient is the same on all ranks already.
# -     return sum_out(rows * mine.unsqueeze(-1), comm)
# +     out = copy_in(sum_out(rows * mine.unsqueeze(-1), comm), comm)
# +     return out / comm.size + (out - out / comm.size).detach()
# %% wrong: rows that occur twice keep one gradient => values one-of-twice
# > a word that occurs more than once has the gradient of one place only; they add up.
#       rows = F.embedding(place.where(mine, 0), weight)
# +     words = tokens.flatten().tolist()
# +     new = torch.tensor([word not in words[:place] for place, word in enumerate(words)]).reshape(*tokens.shape, 1)
# +     rows = rows.where(new, rows.detach())
# %% wrong: every rank's vectors to everyone => cost gathered
# > Every rank's vectors go to every rank: an all-reduce sends less than two of them.
# ~ sum_out(rows * mine.unsqueeze(-1), comm) ==> gather((rows * mine.unsqueeze(-1))[None], comm, 0).sum(0)
# %% wrong: an index of its own for strangers => values raised
# ~ .where(mine, 0) ==> .where(mine, -1)
# %% half: right but for the gradient => 2.8  from: masked, but not for the gradient
'''
