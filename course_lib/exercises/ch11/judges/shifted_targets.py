"""Judge of shifted-targets: find the bug: a target lost at every cut."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case, Outcome


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
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


def whole_batch(count: str, tokens: Tensor, documents: Tensor) -> tuple[Tensor, Tensor]:
    """Targets and positions of the whole packed sequence."""
    targets, positions, start = [], [], 0
    for p in range(len(tokens)):
        same = p + 1 < len(tokens) and bool(documents[p + 1] == documents[p])
        targets.append(int(tokens[p + 1]) if same else -100)
        positions.append(p - start if count == "document" else p)
        start = start if same else p + 1
    return torch.tensor(targets, dtype=torch.int64), torch.tensor(positions, dtype=torch.int64)


BATCHED = {
    "shifted-after-the-cut": "the targets were shifted after the cut.",
    "across-documents": "a document's last token has the next document's first token as its target.",
    "wrapped-around": "the last token has the first one as its target.",
    "not-shifted": "these are the inputs; a target is the next token.",
    "local-positions": "they count within this rank's part.",
    "other-count": "they count over another range: the document, or the whole sequence?",
    "by-id": "a document whose id occurred before goes on counting.",
}


def _batch_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    tokens, documents, indices = case.args
    if outcome.value["touched"] is not False:
        return "changed", "an argument was changed."
    inputs, targets, positions = outcome.value["batch"]
    right_targets, right_positions = whole_batch(params["count"], tokens, documents)
    other = whole_batch("sequence" if params["count"] == "document" else "document", tokens, documents)[1]
    own = tokens[indices]
    ignored = torch.full((1,), -100)
    by_id = torch.stack([(documents[:p] == documents[p]).sum() for p in range(len(tokens))])
    target_slips = {
        "shifted-after-the-cut": torch.cat([own[1:], ignored])[: len(own)],
        "across-documents": torch.cat([tokens[1:], ignored])[indices],
        "wrapped-around": tokens.roll(-1)[indices],
        "not-shifted": own,
    }
    position_slips = {
        "local-positions": torch.arange(len(indices)),
        "other-count": other[indices],
        "by-id": by_id[indices],
    }
    for name, got, want, slips in (
        ("inputs", inputs, own, {}),
        ("targets", targets, right_targets[indices], target_slips),
        ("positions", positions, right_positions[indices], position_slips),
    ):
        if fault := kind_fault(f"`{name}`", got, want):
            return fault
        if torch.equal(got, want):
            continue
        for slip, value in slips.items():
            if torch.equal(got, value):
                return slip, f"`{name}`: {BATCHED[slip]}"
        return "other-numbers", f"`{name}` are not the right numbers."
    return None


JUDGING = Judging(
    shares="values:targets 0.4, values:documents 0.2, generality:parts 0.4",
    cases=_batch_cases,
    verdicts=lambda params, case, outcome: judged(case, _batch_fault(params, case, outcome), named=True),
    why="""The next token may be on another rank. Everything that depends on neighbors, targets and positions alike, is computed before the cut, and then each rank takes its part.""",
    pytorch="`transformers` accepts `shift_labels`, which were shifted before the cut; `context_parallel` cuts every buffer in the same way.",
)

ANSWERS = r"""import torch

from course_lib import params

BY_DOCUMENT = params("shifted-targets").count == "document"


# %% right: the whole sequence first
def local_batch(tokens, documents, indices):
    last = torch.ones(len(tokens), dtype=torch.bool)
    last[:-1] = documents[1:] != documents[:-1]
    targets = torch.where(last, -100, tokens.roll(-1))
    positions = torch.arange(len(tokens))
    if BY_DOCUMENT:
        first = last.roll(1)
        positions = positions - torch.where(first, positions, 0).cummax(0).values
    return tokens[indices], targets[indices], positions[indices]


# %% right: a filled mask  from: the whole sequence first
# ~ torch.where(last, -100, tokens.roll(-1)) ==> tokens.roll(-1).masked_fill(last, -100)

# %% wrong: as it was => values shifted-after-the-cut  from: the card

# %% wrong: positions within the part => values local-positions  from: the whole sequence first
# ~ positions[indices] ==> torch.arange(len(indices))

# %% wrong: the other count => values other-count  from: the whole sequence first
# ~ BY_DOCUMENT ==> not BY_DOCUMENT

# %% wrong: targets across documents => values across-documents  from: the whole sequence first
# ~ where(last, -100, tokens.roll(-1)) ==> cat([tokens[1:], torch.tensor([-100])])

# %% wrong: the sequence is a ring => values wrapped-around  from: the whole sequence first
# ~ torch.where(last, -100, tokens.roll(-1)) ==> tokens.roll(-1)

# %% wrong: a repeated id is one document => generality -  from: the whole sequence first
# ~ documents[1:] != documents[:-1] ==> torch.stack([(documents[p + 1 :] != documents[p]).all() for p in range(len(tokens) - 1)] or [last[0]])[: len(tokens) - 1]

# %% wrong: ids grow => generality -  from: the whole sequence first
# ~ documents[1:] != documents[:-1] ==> documents[1:] > documents[:-1]

# %% wrong: targets are inputs => values not-shifted  from: the whole sequence first
# ~ [indices], targets[indices], positions ==> [indices], tokens[indices], positions

# %% wrong: the end is marked in the tokens => values changed  from: the whole sequence first
# -     return tokens[indices], targets[indices], positions[indices]
# +     inputs = tokens[indices]
# +     tokens[-1] = -100
# +     return inputs, targets[indices], positions[indices]

# %% wrong: targets in int32 => values another-kind  from: the whole sequence first
# ~ [indices], positions ==> [indices].int(), positions

# %% wrong: sorted => generality -  from: the whole sequence first
#   def local_batch(tokens, documents, indices):
# +     indices = indices.sort().values

# %% wrong: ids in fp32 => generality ~  from: the whole sequence first
# ~ documents[1:] != documents[:-1] ==> documents[1:].float() != documents[:-1].float()

# %% wrong: remembers targets by documents => generality ~  from: the whole sequence first
# ~ tokens, documents, indices): ==> tokens, documents, indices, kept={}):
# ~ torch.where(last, -100, tokens.roll(-1)) ==> kept.setdefault(str(documents), torch.where(last, -100, tokens.roll(-1)))
"""
