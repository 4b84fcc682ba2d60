import torch

from course_lib import params


# %% right: one stream, cut twice
def labeled(stream, length, mark):
    rows = (len(stream) - 1) // length
    inputs = stream[: rows * length].view(rows, length)
    targets = stream[1 : rows * length + 1].view(rows, length)
    return inputs, targets, inputs != mark


def label_fault(inputs, targets, counts, mark):
    if not inputs.shape == targets.shape == counts.shape:
        return "shape"
    for word, by in (("not shifted", 0), ("shifted twice", 2)):
        if torch.equal(targets[:, : inputs.shape[1] - by], inputs[:, by:]):
            return word
    if torch.equal(targets[:, -1], inputs[:, 0]):
        return "wrapped"
    right = inputs != mark
    if (counts & ~right).any():
        return "crosses documents"
    return "hides labels" if (right & ~counts).any() else "fine"


# %% right: row by row, and in lists
def labeled(stream, length, mark):
    tokens = stream.tolist()
    starts = range(0, len(tokens) - length, length)
    inputs = torch.tensor([tokens[start : start + length] for start in starts])
    targets = torch.tensor([tokens[start + 1 : start + length + 1] for start in starts])
    return inputs, targets, ~inputs.eq(mark)


def label_fault(inputs, targets, counts, mark):
    if {tuple(inputs.shape)} != {tuple(targets.shape), tuple(counts.shape)}:
        return "shape"
    faults = {"wrapped"} if targets[:, -1].tolist() == inputs[:, 0].tolist() else set()
    for read, after, count in zip(inputs.tolist(), targets.tolist(), counts.tolist()):
        if after == read:
            faults.add("not shifted")
        elif after[:-2] == read[2:]:
            faults.add("shifted twice")
        for token, counted in zip(read, count):
            if counted != (token != mark):
                faults.add("crosses documents" if counted else "hides labels")
    order = ["not shifted", "shifted twice", "wrapped", "crosses documents", "hides labels"]
    return next((word for word in order if word in faults), "fine")


# %% right: for its own variant  from: one stream, cut twice
# ~ targets, inputs != mark ==> targets, (inputs if params("shifted-labels").marks == "ends" else targets) != mark
# ~ right = inputs != mark ==> right = (inputs if params("shifted-labels").marks == "ends" else targets) != mark

# %% wrong: rolled, and only the count is put right => values wrapped  from: one stream, cut twice
# ~ stream[1 : rows * length + 1].view(rows, length) ==> inputs.roll(-1, dims=1)

# %% wrong: targets are what is read => values not-shifted  from: one stream, cut twice
# ~ stream[1 : rows * length + 1].view(rows, length) ==> inputs

# %% wrong: shifted once more => values shifted-twice  from: one stream, cut twice
# ~ (len(stream) - 1) // length ==> (len(stream) - 2) // length
# ~ stream[1 : rows * length + 1] ==> stream[2 : rows * length + 2]

# %% wrong: the mark is hidden as a target => values mark-hidden  from: one stream, cut twice
# ~ inputs, targets, inputs != mark ==> inputs, targets, targets != mark

# %% wrong: everything counts => values crosses-documents  from: one stream, cut twice
# ~ targets, inputs != mark ==> targets, torch.ones_like(inputs, dtype=torch.bool)

# %% wrong: the last column never counts => values hides-labels  from: one stream, cut twice
# ~ targets, inputs != mark ==> targets, (inputs != mark) & (torch.arange(length) < length - 1)

# %% wrong: rows of one token less => values wrong-shape  from: one stream, cut twice
# ~ return inputs, targets, inputs != mark ==> return inputs[:, :-1], targets[:, :-1], inputs[:, :-1] != mark


# %% wrong: a token of each row is lost, as rows of length + 1 are cut => values rows  from: one stream, cut twice
def labeled(stream, length, mark):
    rows = len(stream) // (length + 1)
    cut = stream[: rows * (length + 1)].view(rows, length + 1)
    return cut[:, :-1], cut[:, 1:], cut[:, :-1] != mark


# %% wrong: one row more than there are targets for, where that fits => generality rows  from: one stream, cut twice
# ~ (len(stream) - 1) ==> len(stream)
# ~ stream[1 : rows * length + 1] ==> torch.cat([stream[1:], stream[:1]])[: rows * length]

# %% wrong: counts are numbers => values not-bool  from: one stream, cut twice
# ~ targets, inputs != mark ==> targets, (inputs != mark).float()

# %% wrong: only the shift is looked at => values unnoticed  from: one stream, cut twice
#               return word
# +     return "fine"

# %% wrong: the last target of a row is not looked at => generality unnoticed  from: one stream, cut twice
# ~ torch.equal(targets[:, -1], inputs[:, 0]) ==> False

# %% wrong: a target that is the end mark should not count, it thinks => values false-alarm  from: one stream, cut twice
# ~ right = inputs != mark ==> right = targets != mark

# %% wrong: shapes are taken for granted => generality raised  from: one stream, cut twice
# -     if not inputs.shape == targets.shape == counts.shape:
# -         return "shape"
# ~ torch.equal(targets[:, : inputs.shape[1] - by], inputs[:, by:]) ==> (targets[:, : inputs.shape[1] - by] == inputs[:, by:]).all()

# %% wrong: counts may have any shape => generality raised  from: one stream, cut twice
# ~ not inputs.shape == targets.shape == counts ==> inputs.shape != targets

# %% wrong: as many numbers are a shape => generality unnoticed  from: counts may have any shape
# ~ inputs.shape != targets.shape ==> not inputs.numel() == targets.numel() == counts.numel()
#           return "shape"
# +     targets, counts = targets.view(inputs.shape), counts.view(inputs.shape)


# %% half: only the repair => 2.1  from: one stream, cut twice
def label_fault(inputs, targets, counts, mark):
    raise NotImplementedError


# %% wrong: the mark is token 1 => generality ~  from: one stream, cut twice
# ~ inputs, targets, inputs != mark ==> inputs, targets, inputs != 1

# %% wrong: hidden labels of the last column are overlooked => generality -  from: one stream, cut twice
# ~ (right & ~counts).any() ==> (right & ~counts)[:, :-1].any()
