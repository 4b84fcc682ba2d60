from collections.abc import Sequence

import torch

from course_chapters.ch09.exercises.judges import regions
from course_chapters.ch09.exercises.judges.regions import Result
from course_chapters.ch09.exercises.probes import LARGE_LOSS, MEASURED, WEIGHED
from course_grader.judging import Fault, Judging, Params, Random, Weighed, Worked, hidden, judged, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import close, coin_of, normal
from course_grader.records import Case, Outcome, Verdict

right = Worked("vocab-cross-entropy")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, vocab = coin_of(rng), params["vocab"]

    def data(
        n: int, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, by: float = 0, wish: str = ""
    ) -> PerRank:
        """Logits in shape (batch, seq, words), cut by columns, and targets."""
        logits = (normal(coin, *shape) * scale + by).to(dtype)
        targets = torch.randint(0, shape[-1], shape[:-1], generator=coin)
        return tuple((targets.clone(), shape[-1], wish, piece.clone()) for piece in logits.tensor_split(n, -1))

    return [
        shown("four ranks", "values:loss", per_rank=data(4, 2, 4, vocab)),
        hidden("three ranks, other data", "values:loss", per_rank=data(3, 2, 6, vocab + 1)),
        hidden("one rank", "generality:vocabularies", per_rank=data(1, 1, 3, 7)),
        hidden("two ranks, 13 words", "generality:vocabularies", per_rank=data(2, 3, 2, 13)),
        hidden("nine ranks, 11 words", "generality:vocabularies", per_rank=data(9, 2, 2, 11)),
        hidden("logits of ±10,000", "generality:large", per_rank=data(4, 2, 4, 40, scale=1e4)),
        hidden("one token, logits near -10,000", "generality:large", per_rank=data(3, 1, 1, 8, by=-1e4)),
        hidden("logits of bfloat16", "generality:bits", per_rank=data(4, 2, 4, 50, dtype=torch.bfloat16)),
        hidden("a large vocabulary, memory", "cost:memory", per_rank=data(4, 2, 8, 8192, wish=MEASURED)),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    verdicts = list(LAYER(params, case, outcome))
    return judged(case, _memory(case, outcome.value)) if case.part == "memory" and verdicts[0].ok else verdicts


def _bytes(case: Case, outcome: Outcome) -> Fault | None:
    n, tokens = case.ranks or 1, (case.per_rank or ())[0][0].numel()
    allowed = "For each token, the others need only its largest logit, its Σ exp, and its target's logit."
    return regions.traffic(outcome.meter, 2 * (n - 1) * tokens * 4, 4 * regions.ring_most(tokens, 4, n), allowed)


LAYER = regions.layer(right, _bytes, "loss", "the loss", gradient=("logits",))


def _memory(case: Case, results: Sequence[Result]) -> Fault | None:
    targets, vocab, _, _ = (case.per_rank or ())[0]
    n, piece = len(results), targets.numel() * vocab / len(results) * 4
    beyond = sorted(result["peak"] for result in results)[n // 2] - piece  # the probe keeps a copy of what it hands out
    if beyond <= 8.25 * piece:
        return None
    return "too-much-memory", (
        f"{beyond / piece:.3g} times this rank's logits were alive at the peak; eight are enough. Are logits of other "
        "ranks among them, a row of zeros for every word, or numbers of 64 bits?"
    )


def _weighed(params: Params, rng: Random) -> Weighed:
    """Logits of 4.2 MB on each of four ranks: eight times that are enough, as in the counted case; a row for every word
    takes eleven."""
    coin, ranks, tokens, width, repeats = coin_of(rng), 4, 64, 256, 64  # columns are repeated

    def case(name: str, times: int) -> Case:
        here = width * times
        tables = normal(coin, ranks, 1, tokens, width)
        targets = torch.randint(0, ranks * here, (tokens,), generator=coin)
        elsewhere = torch.randint(0, here, (ranks, tokens), generator=coin)
        columns = torch.where(targets // here == torch.arange(ranks).unsqueeze(-1), targets % here, elsewhere)
        mine = [(table, times, (torch.arange(tokens), own)) for table, own in zip(tables, columns, strict=True)]
        given = tuple((targets.unsqueeze(0), ranks * here, WEIGHED, each) for each in mine)
        return hidden(name, "cost:memory", per_rank=given, seconds=30.0)

    def sound(got: Result, want: Result) -> bool:
        alike = close(got["y"], want["y"]) and close(got["grad"], want["grad"])
        return alike and torch.allclose(got["grad"], want["grad"], rtol=1e-3, atol=0.0)

    def done(outcome: Outcome) -> bool:
        readable = LARGE_LOSS.find(outcome.value, large.name, large) is None
        return readable and all(map(sound, outcome.value, right.value(large)))

    large = case("four ranks with logits of 4.2 MB each", repeats)
    most = ranks * 9.25 * 4 * tokens * width * repeats
    return Weighed(case=large, warm=case("four ranks with few logits", 1), most=most, done=done)


JUDGING = Judging(
    shares="values:loss 0.2, values:gradient 0.2, cost:bytes 0.2, cost:memory 0.1, generality:vocabularies 0.1, "
    "generality:large 0.1, generality:bits 0.1",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
    cases=_cases,
    verdicts=_verdicts,
    why="Σ exp is a sum over ranks once all subtract the same largest logit. One rank has the target's logit; the "
    "others add zero. The gradient needs no further communication: it is the softmax of the rank's own columns, "
    "minus one at the target.",
    pytorch="`loss_parallel()` in `torch.distributed.tensor.parallel`; Megatron's `vocab_parallel_cross_entropy`.",
)

ANSWERS = r'''# %% right: worked
def vocab_cross_entropy(comm, logits, targets, vocab):
    """Mean loss in nats per token, on every rank. Budget: a few numbers per token."""
    start = sum(len(block) for block in torch.arange(vocab).tensor_split(comm.size)[: comm.rank])
    z = logits.float()
    largest = z.detach().amax(-1)
    comm.all_reduce(largest, op="MAX")
    z = z - largest.unsqueeze(-1)
    mine = (targets >= start) & (targets < start + z.shape[-1])
    picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
    return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# %% right: softmax by hand, its gradient by a detour
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     sums = torch.stack([z.exp().sum(-1), picked]).detach()
# +     comm.all_reduce(sums)
# +     slope = z.detach().exp() / sums[0].unsqueeze(-1)
# +     slope.scatter_add_(-1, (targets - start).where(mine, 0).unsqueeze(-1), -mine.float().unsqueeze(-1))
# +     detour = (z * slope).sum() / mine.numel()
# +     return (sums[0].log() - sums[1]).mean() + detour - detour.detach()
# %% wrong: gathers all logits => cost gathered-logits
# > Logits are sent. For each token, the others need only its largest logit, its Σ exp, and its target's logit.
def vocab_cross_entropy(comm, logits, targets, vocab):
    blocks = torch.arange(vocab).tensor_split(comm.size)
    longest = len(blocks[0])
    padded = F.pad(logits.float(), (0, longest - logits.shape[-1]), value=-torch.inf)
    places = torch.cat([block - block[0] + rank * longest for rank, block in enumerate(blocks)])
    return F.cross_entropy(gather(padded, comm, 2).flatten(0, 1), places[targets].flatten())
# %% wrong: this rank's columns alone => values own-columns
# > this comes from this rank's columns alone; Σ exp runs over all words.
# ~ sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm) ==> z.logsumexp(-1) - picked
# %% wrong: each rank's own largest, the sums added up as they are => values own-largest
# > each rank subtracted its own largest logit; subtract that of all ranks.
# -     comm.all_reduce(largest, op="MAX")
# %% wrong: each rank's own largest, subtracted from its sum alone => values own-largest
# > each rank subtracted its own largest logit before all added up; subtract that of all ranks.
# -     comm.all_reduce(largest, op="MAX")
# ~ .log() - sum_out(picked, comm) ==> .log() + largest - sum_out(picked + largest * mine, comm)
# %% wrong: nothing subtracted => generality not-finite
# > exp overflows, or all of a rank's exponentials vanish: subtract the largest logit of all ranks.
# -     z = z - largest.unsqueeze(-1)
# %% wrong: the target's logit from every rank, clamped => values clamped
# > every rank added a logit for every target.
# ~ .where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine ==> .clamp(0, z.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)
# %% wrong: log n => values
# > it is too large by log N: ranks that had all of Σ exp added it up.
# ~ sum_out(z.exp().sum(-1), comm).log() ==> sum_out(sum_out(z.exp().sum(-1), comm), comm).log()
# %% wrong: times n => values
# > it is as many times too large as there are ranks: all have the same loss, and it counts once.
# ~ (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# ~~ ==> sum_out((sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean(), comm)
# %% wrong: targets n times => values
# > the target's logit counts once, on the rank that has it.
# ~ sum_out(picked, comm) ==> sum_out(sum_out(picked, comm), comm)
# %% wrong: targets of others forgotten => values own-target
# > targets of other ranks' rows are missing.
# -     z = z - largest.unsqueeze(-1)
# ~ z.exp().sum(-1), comm).log() - sum_out(picked, comm)
# ~~ ==> (z - largest.unsqueeze(-1)).exp().sum(-1), comm).log() + largest - picked
# %% wrong: a sum over tokens => values sum
# > this is a sum over tokens; the mean was asked for.
# ~ mean ==> sum
# %% wrong: sums that autograd does not know => values no-gradient
# ~ logits.float() ==> logits.float().detach()
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     sums = torch.stack([z.exp().sum(-1), picked])
# +     comm.all_reduce(sums)
# +     return (sums[0].log() - sums[1]).mean()
# %% wrong: gradients summed over ranks behind the loss => values times-n-gradient
# > it is as many times too large as there are ranks: all hold the same loss, so its gradient is not summed again.
# ~ return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# ~~ ==> return copy_in((sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean(), comm)
# %% wrong: the gradient of log Σ exp only => values no-target
# > this is softmax alone; one is taken off at each token's target.
# ~ sum_out(picked, comm)).mean() ==> sum_out(picked, comm).detach()).mean()
# %% wrong: the gradient of a sum over tokens => values sum-gradient
# > this is the gradient of a sum over tokens.
# -     return (sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)).mean()
# +     each = sum_out(z.exp().sum(-1), comm).log() - sum_out(picked, comm)
# +     return each.mean().detach() + (each - each.detach()).sum()
# %% wrong: computed in the logits' dtype => generality another-kind
# ~ logits.float() ==> logits
# %% wrong: blocks as if they were all equally long => values equal-blocks
# > the blocks are not equally long, so a rank's first word is not rank · columns.
# ~ start = sum ==> start = comm.rank * logits.shape[-1] if True else sum
# %% wrong: a row of the whole vocabulary for each token => cost too-much-memory
# -     mine = (targets >= start) & (targets < start + z.shape[-1])
# -     picked = z.gather(-1, (targets - start).where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
# +     hot = F.one_hot(targets, vocab)[..., start : start + z.shape[-1]].float()
# ~ sum_out(picked, comm) ==> sum_out((z * hot).sum(-1), comm)
# %% wrong: logits clamped so that exp stays finite => generality other-numbers
# ~ logits.float() ==> logits.float().clamp(-60, 60)
# -     z = z - largest.unsqueeze(-1)
# %% half: nothing subtracted => 9  from: nothing subtracted
# %% half: everything in double precision => 7
# ~ logits.float() ==> logits.double()
# ~ comm)).mean() ==> comm)).mean().float()
# %% wrong: zero for the largest of negative logits => generality not-finite
# ~ z.detach().amax(-1) ==> z.detach().amax(-1).clamp(min=0)
'''
