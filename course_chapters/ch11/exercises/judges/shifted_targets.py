from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, hidden, judged, shown
from course_grader.judging.tensors import coin_of, kind_fault

right = Worked("shifted-targets")


def _batch_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(lengths: Sequence[int], indices: Sequence[int], ids: Sequence[int] = (), top: int = 1000) -> list[Tensor]:
        ids = ids or rng.sample(range(5, 90), len(lengths))
        documents = torch.tensor([i for i, n in zip(ids, lengths, strict=True) for _ in range(n)], dtype=torch.int64)
        tokens = torch.randint(0, top, (len(documents),), generator=coin)
        return [tokens, documents, torch.tensor(indices, dtype=torch.int64)]

    def anywhere(length: int, count: int) -> list[int]:
        return rng.sample(range(length), count)

    large = [2, 25, 3, 2], anywhere(32, 32), (0, 2**40, 2**40 + 1, 0), 2**40
    return [
        shown("8 tokens, rank 0 of 2, zig-zag", "values:targets", *data([8], [0, 1, 6, 7])),
        shown("8 tokens, rank 1 of 2, zig-zag", "values:targets", *data([8], [2, 3, 4, 5])),
        hidden("two documents, rank 1 of 3", "values:documents", *data([7, 5], [2, 3, 8, 9], ids=(4, 61))),
        hidden("a cut at the end of a document", "values:documents", *data([4, 8], [2, 3, 8, 9], ids=(11, 12))),
        hidden("tokens in any order", "generality:parts", *data([5, 6, 9], anywhere(20, 9))),
        hidden("documents of one token", "generality:parts", *data([1, 3, 1, 1, 2], list(range(8)))),
        hidden("an id that occurs again", "generality:parts", *data([3, 2, 4], anywhere(9, 9), ids=(7, 3, 7))),
        hidden("ids that fall", "generality:parts", *data([3, 4, 2], anywhere(9, 6), ids=(9, 5, 1))),
        hidden("the same token again and again", "generality:parts", *data([6, 4], anywhere(10, 7), top=2)),
        hidden("large ids and tokens, a longer document", "generality:parts", *data(*large)),
        hidden("the same documents, other tokens", "generality:parts", *data(*large)),
        hidden("a rank without tokens", "generality:parts", *data([4], [])),
        hidden("one token in all", "generality:parts", *data([1], [0])),
    ]


def _batch_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    names = ("inputs", "targets", "positions")
    for at, (name, got, want) in enumerate(zip(names, outcome.value, right(*case.args), strict=True)):
        if fault := kind_fault(f"`{name}`", got, want):
            return fault
        if not torch.equal(got, want):
            return Wrong("other-numbers", f"`{name}` are not the right numbers.", f"`{name}`: ", (at,))
    return None


JUDGING = Judging(
    shares="values:targets 0.4, values:documents 0.2, generality:parts 0.4",
    cases=_batch_cases,
    verdicts=lambda params, case, outcome: judged(case, _batch_fault(params, case, outcome), named=True),
    why="""The next token may be on another rank. Everything that depends on neighbors, targets and positions alike, is
computed before the cut, and then each rank takes its part.""",
    pytorch="`transformers` accepts `shift_labels`, which were shifted before the cut; `context_parallel` cuts every "
    "buffer in the same way.",
)

ANSWERS = r'''# %% right: worked
def local_batch(tokens, documents, indices) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(inputs, targets, positions) of the tokens at `indices` of a packed sequence."""
    last = torch.ones(len(tokens), dtype=torch.bool)
    last[:-1] = documents[1:] != documents[:-1]
    targets, positions = torch.where(last, -100, tokens.roll(-1)), torch.arange(len(tokens))
    if params("shifted-targets").count == "document":
        positions = positions - torch.where(last.roll(1), positions, 0).cummax(0).values
    return tokens[indices], targets[indices], positions[indices]
# %% right: a filled mask
# ~ torch.where(last, -100, tokens.roll(-1)) ==> tokens.roll(-1).masked_fill(last, -100)
# %% wrong: as it was => values shifted-after-the-cut  from: the card
# > the targets were shifted after the cut.
# %% wrong: local positions => values
# > they count within this rank's part.
# ~ positions[indices] ==> torch.arange(len(indices))
# %% wrong: other count => values
# > they count over another range: the document, or the whole sequence?
# ~ .count == ==> .count !=
# %% wrong: across documents => values
# > a document's last token has the next document's first token as its target.
# ~ torch.where(last, -100, tokens.roll(-1)) ==> torch.cat([tokens[1:], torch.tensor([-100])])
# %% wrong: wrapped around => values
# > the last token has the first one as its target.
# ~ torch.where(last, -100, tokens.roll(-1)) ==> tokens.roll(-1)
# %% wrong: own targets only => values
# > a target is missing where the next token is on another rank.
# ~ targets[indices] ==> torch.where(torch.isin(indices + 1, indices), targets[indices], -100)
# %% wrong: not shifted => values
# > these are the inputs; a target is the next token.
# ~ [indices], targets[indices], positions ==> [indices], tokens[indices], positions
# %% wrong: by id => generality by-id unless count=sequence
# > they do not restart in a document whose id occurred before.
# ~ positions = positions - torch.where(last.roll(1), positions, 0).cummax(0).values
# ~~ ==> positions = torch.stack([(documents[:p] == documents[p]).sum() for p in range(len(tokens))])
# %% wrong: a repeated id is one document => generality other-numbers
# ~ documents[1:] != documents[:-1] ==> torch.stack([(documents[p + 1 :] != documents[p]).all() for p in
# ~~ range(len(tokens) - 1)] or [last[0]])[: len(tokens) - 1]
# %% wrong: ids grow => generality other-numbers
# ~ documents[1:] != documents[:-1] ==> documents[1:] > documents[:-1]
# %% wrong: ids in fp32 => generality ~
# ~ documents[1:] != documents[:-1] ==> documents[1:].float() != documents[:-1].float()
# %% wrong: the end is marked in the tokens => values changed
# -     return tokens[indices], targets[indices], positions[indices]
# +     inputs = tokens[indices]
# +     tokens[-1] = -100
# +     return inputs, targets[indices], positions[indices]
# %% wrong: targets in int32 => values another-kind
# ~ [indices], positions ==> [indices].int(), positions
# %% wrong: sorted => generality
# > these are in the order of the sequence, not in that of `indices`.
#       last = torch.ones(len(tokens), dtype=torch.bool)
# +     indices = indices.sort().values
# %% wrong: remembers targets by documents => generality ~
# ~ tokens, documents, indices) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
# ~~ ==> tokens, documents, indices, kept={}):
# ~ torch.where(last, -100, tokens.roll(-1))
# ~~ ==> kept.setdefault(str(documents), torch.where(last, -100, tokens.roll(-1)))
'''
