"""Judge of shifted-labels: labels shifted by one."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_chapters.ch15.exercises.shifted_labels import LABEL_WORDS
from course_grader.judging import Fault, Judging, Params, first, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.diagnoses import diagnosis_fault, numbered
from course_grader.judging.random_inputs import generality
from course_grader.records import Case, Outcome, Verdict

MARK, FAR = 1, 1000  # the mark of a stream; what the cases of generality add to the mark and to every token
Batch = tuple[Tensor, Tensor, Tensor]
SHOWN = ("not shifted", "fine", "crosses documents")
COMPARE = "Write the first row of targets below the first row of inputs."
LOOK: Mapping[str, str] = {
    "shape": "Look at the shapes first: has every token that is read a target and an entry in counts?",
    "not shifted": COMPARE,
    "shifted twice": f"{COMPARE} How far apart are they?",
    "wrapped": "Look at the last target of each row. Where does it come from?",
    "crosses documents": "Does a target count where a document ends between the token that is read and its target?",
    "hides labels": "Which targets do not count, and is each of them really in another document?",
    "fine": "Look at every row, and at all of the row.",
}


def stream_of(rng: random.Random, documents: Sequence[int], marks: str, tokens: int = 30) -> Tensor:
    """Documents of these lengths, the mark included, one after the other; no token follows itself, nor the one before it."""
    row: list[int] = []
    for count in documents:
        inner: list[int] = []
        for _ in range(count - 1):
            near = [*row, *inner][-2:]
            inner.append(rng.choice([token for token in range(2, tokens) if token not in near]))
        row += [*inner, MARK] if marks == "ends" else [MARK, *inner]
    return torch.tensor(row)


def cut(stream: Tensor, length: int, marks: str, mark: int = MARK) -> Batch:
    """The rows of a stream: inputs, targets, and whether each target counts."""
    rows = (len(stream) - 1) // length
    inputs, targets = (stream[begin : begin + rows * length].view(rows, length) for begin in (0, 1))
    return inputs, targets, (inputs if marks == "ends" else targets) != mark


def broken(word: str, stream: Tensor, length: int, marks: str, rng: random.Random, shape: int = 0) -> Batch:
    """A batch with that fault, its rows in any order; `shape`: targets or counts lack a column, or rows and columns are swapped."""
    order = rng.sample(range((len(stream) - 2) // length), (len(stream) - 2) // length)
    inputs, targets, counts = (each[order].clone() for each in cut(stream[: len(order) * length + 1], length, marks))
    across, within = (tuple(rng.choice(which.nonzero().tolist())) for which in (~counts, counts))
    if word == "shape":
        turned = inputs.shape[::-1]
        transposed = targets.reshape(turned), counts.reshape(turned)
        changed = (targets[:, :-1], counts), (targets, counts[:, :-1]), transposed, (targets, transposed[1])
        return inputs, *changed[shape]
    if word == "not shifted":
        targets = inputs.clone()
    elif word == "shifted twice":
        targets = stream[2 : 2 + len(order) * length].view(-1, length)[order]
    elif word == "wrapped":
        targets[:, -1] = inputs[:, 0]
    elif word == "crosses documents":
        counts[across] = True
    elif word == "hides labels":
        counts[within] = False
    return inputs, targets, counts


def _stream(rng: random.Random, documents: int, marks: str) -> Tensor:
    return stream_of(rng, [rng.randrange(4, 8) for _ in range(documents)], marks)


def _label_cases(params: Params, rng: random.Random) -> list[Case]:
    marks, length = params["marks"], params["length"]

    def batch(word: str, size: int, shape: int = 0, more: int = 0) -> tuple[Any, ...]:
        inputs, targets, counts = broken(word, _stream(rng, 9, marks), size, marks, rng, shape)
        return inputs + more, targets + more, counts, MARK + more

    cases = [shown("six documents", "values:labeled", 0, [(_stream(rng, 6, marks), length, MARK)])]
    cases += numbered(shown, "batch {}", "values:fault", [(1, [batch(word, length)], word) for word in SHOWN])
    cases.append(hidden("another stream", "values:labeled", 0, [(_stream(rng, 8, marks), length, MARK)]))
    sizes = [(length, 3 * length + more) for more in (0, 1, -1)]
    for size, tokens in (*sizes, (5, 32), (5, 32), (3, 4), (2, 45)):
        stream = FAR + stream_of(rng, [5] * 9, marks)[:tokens]
        cases.append(generality("lengths", 0, f"{tokens} tokens in rows of {size}", [(stream, size, FAR + MARK)]))
    words = rng.sample(sorted(LABEL_WORDS), len(LABEL_WORDS))
    others = [(1, [batch(word, rng.choice((6, 9)), more=FAR)], word) for word in words]
    for place in (0, -1):  # one hidden label, at an end of a row
        hiding = batch("fine", 6, more=FAR)
        hiding[2][hiding[2][:, place].int().argmax(), place] = False
        others.append((1, [hiding], "hides labels"))
    shapes = [(1, [batch("shape", 5, place)], "shape") for place in (1, 2, 3)]  # never as many rows as columns
    cases += numbered(hidden, "another batch ({})", "generality:batches", others)
    return cases + numbered(hidden, "a batch of another shape ({})", "generality:batches", shapes)


def _batch_fault(marks: str, case: Case, got: Sequence[Tensor]) -> Fault | None:
    stream, length, mark = case.args[1][0]
    inputs, targets, counts = cut(stream, length, marks, mark)
    return first(
        _tokens_fault("inputs", got[0], inputs, inputs),
        _tokens_fault("targets", got[1], targets, inputs),
        _shape_fault("counts", got[2], counts),
        _counts_fault(marks, got[2], inputs, targets, counts, mark) if got[2].shape == counts.shape else None,
    )


def _shape_fault(name: str, got: Tensor, want: Tensor) -> Fault | None:
    if got.shape == want.shape:
        return None
    if got.ndim == 2 and got.shape[1] == want.shape[1]:
        more = "more" if len(got) > len(want) else "fewer"
        return "rows", f"{len(got)} rows of {name}, {more} than there are. How many tokens does the last row need?"
    return "wrong-shape", f"{name} have shape {tuple(got.shape)}; return rows of {want.shape[1]}."


def _tokens_fault(name: str, got: Tensor, want: Tensor, inputs: Tensor) -> Fault | None:
    if fault := _shape_fault(name, got, want):
        return fault
    if torch.equal(got.to(want.dtype), want):
        return None
    if name == "inputs":
        return "other-inputs", "the inputs are not the stream cut into consecutive rows."
    if torch.equal(got, inputs):
        return "not-shifted", LOOK["not shifted"]
    if torch.equal(got[:, :-1], want[:, :-1]):
        return "wrapped", "only the last target is wrong. Which token follows the row's last one in the stream?"
    if torch.equal(got[:, :-1], want[:, 1:]):
        return "shifted-twice", LOOK["shifted twice"]
    return "other-targets", "the targets are not the next tokens of the stream."


def _counts_fault(marks: str, got: Tensor, inputs: Tensor, targets: Tensor, want: Tensor, mark: int) -> Fault | None:
    if got.dtype != torch.bool:
        return "not-bool", f"counts are {str(got.dtype).removeprefix('torch.')}; return bool."
    if torch.equal(got, want):
        return None
    if torch.equal(got, (targets if marks == "ends" else inputs) != mark):
        name = "mark-hidden" if marks == "ends" else "mark-counts"
        return name, "at the border of two documents the wrong pair is left out. Which pair crosses the border?"
    if (got & ~want).any().item():
        return "crosses-documents", "a target in another document counts."
    return "hides-labels", "a target in the same document as the token that is read does not count."


def _label_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    got = outcome.value[0]
    if case.args[0] == 0:
        return judged(case, _batch_fault(params["marks"], case, got), named=True)
    return judged(case, diagnosis_fault(case.name, got, case.secret, "fine", LOOK))


JUDGING = Judging(
    shares={"values:labeled": 0.35, "values:fault": 0.2, "generality:lengths": 0.15, "generality:batches": 0.3},
    cases=_label_cases,
    verdicts=_label_verdicts,
    why="""Inputs and targets are one stream, cut in the same places, the second starting one token later. So the last target of a row is the first token of the
next row, and the stream needs one token more than the rows read. A pair counts unless a document ends between its two tokens. A model trained without the end
mark never stops.""",
    pytorch="""`torch.nn.functional.cross_entropy` ignores targets of −100. Causal models of `transformers` shift the labels themselves: give them `labels =
input_ids`.""",
)

ANSWERS = r"""import torch

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
"""
