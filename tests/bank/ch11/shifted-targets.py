import torch

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
