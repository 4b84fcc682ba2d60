import random
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from course_chapters.ch15.exercises.shifted_labels import LABEL_WORDS
from course_grader.judging import Fault, Judging, Params, Worked, Wrong, generality, hidden, oracle, shown
from course_grader.judging.diagnoses import diagnosis_fault, numbered
from course_grader.judging.tensors import tensor_fault
from course_grader.records import Case, Outcome

MARK, FAR = 1, 1000  # the mark of a stream; what the cases of generality add to the mark and to every token
Batch = tuple[Tensor, Tensor, Tensor]
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
right = Worked("shifted-labels")


def stream_of(rng: random.Random, documents: Sequence[int], marks: str) -> Tensor:
    """Documents of these lengths, the mark included, one after the other; no token but the mark occurs twice."""
    row, begin = rng.sample(range(2, 99), sum(documents)), 0
    for count in documents:
        row[begin + (count - 1) * (marks == "ends")] = MARK
        begin += count
    return torch.tensor(row)


def _drawn(rng: random.Random, documents: int, marks: str) -> Tensor:
    return stream_of(rng, [rng.randrange(4, 8) for _ in range(documents)], marks)


def broken(word: str, stream: Tensor, length: int, rng: random.Random, shape: int = 0) -> Batch:
    """A batch with that fault, its rows in any order; `shape`: targets or counts lack a column, or rows and columns are
    swapped."""
    rows = (len(stream) - 2) // length
    order = rng.sample(range(rows), rows)
    inputs, targets, counts = (each[order].clone() for each in right[0](stream[: rows * length + 1], length, MARK))
    if word == "shape":
        turned = inputs.shape[::-1]
        transposed = targets.reshape(turned), counts.reshape(turned)
        changed = (targets[:, :-1], counts), (targets, counts[:, :-1]), transposed, (targets, transposed[1])
        return inputs, *changed[shape]
    if word == "not shifted":
        targets = inputs.clone()
    elif word == "shifted twice":
        targets = stream[2 : 2 + rows * length].view(-1, length)[order]
    elif word == "wrapped":
        targets[:, -1] = inputs[:, 0]
    elif word in ("crosses documents", "hides labels"):
        place = tuple(rng.choice((counts == (word == "hides labels")).nonzero().tolist()))
        counts[place] = ~counts[place]
    return inputs, targets, counts


def _cases(params: Params, rng: random.Random) -> list[Case]:
    marks, length = params["marks"], params["length"]

    def batch(word: str, size: int, shape: int = 0, more: int = 0) -> tuple[Tensor, Tensor, Tensor, int]:
        inputs, targets, counts = broken(word, _drawn(rng, 9, marks), size, rng, shape)
        return inputs + more, targets + more, counts, MARK + more

    known = [(1, [batch(word, length)], word) for word in ("not shifted", "fine", "crosses documents")]
    cases = [shown("six documents", "values:labeled", 0, [(_drawn(rng, 6, marks), length, MARK)])]
    cases += numbered(shown, "batch {}", "values:fault", known)
    cases.append(hidden("another stream", "values:labeled", 0, [(_drawn(rng, 8, marks), length, MARK)]))
    sizes = [(length, 3 * length + more) for more in (0, 1, -1)]
    for size, tokens in (*sizes, (5, 32), (5, 32), (3, 4), (2, 45)):
        stream = FAR + stream_of(rng, [5] * 9, marks)[:tokens]
        cases.append(generality("lengths", 0, f"{tokens} tokens in rows of {size}", [(stream, size, FAR + MARK)]))
    words = rng.sample(sorted({*LABEL_WORDS} - {"fine"}), len(LABEL_WORDS) - 1)
    others = [(1, [batch(word, rng.choice((6, 9)), more=FAR)], word) for word in words]
    for place in (0, -1):  # one hidden label, at an end of a row
        hiding = batch("fine", 6, more=FAR)
        hiding[2][hiding[2][:, place].int().argmax(), place] = False
        others.append((1, [hiding], "hides labels"))
    stream = FAR + _drawn(rng, 9, marks)
    stream[6] = stream[0]  # the first row ends with the token that it begins with
    others.append((1, [(*right[0](stream, 6, FAR + MARK), FAR + MARK)], "fine"))
    shapes = [(1, [batch("shape", 5, place)], "shape") for place in (1, 2, 3)]  # never as many rows as columns
    return cases + numbered(hidden, "another batch ({})", "generality:batches", others + shapes)


def _counts_text(got: Tensor, want: Tensor) -> str:
    crosses = got.dtype == want.dtype and got.shape == want.shape and (got & ~want).any()
    return f"A target in {'another' if crosses else 'the same'} document {'counts' if crosses else 'does not count'}."


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    got = outcome.value[0]
    if case.args[0] == 1:
        return diagnosis_fault(case.name, got, case.secret, "fine", LOOK)
    wants = right[0](*case.args[1][0])
    told = "Cut the stream into consecutive rows.", "Take the next tokens.", _counts_text(got[2], wants[2])
    for place, name in enumerate(("inputs", "targets", "counts")):
        one = got[place] if name == "counts" else got[place].to(torch.int64)
        if fault := tensor_fault(f"{case.name}: {name}", one, wants[place], otherwise=told[place]):
            return Wrong(*fault)._replace(where=(place,))
    return None


JUDGING = Judging(
    shares={"values:labeled": 0.35, "values:fault": 0.2, "generality:lengths": 0.15, "generality:batches": 0.3},
    cases=_cases,
    verdicts=oracle(_fault),
    why="""Inputs and targets are one stream, cut in the same places, the second starting one token later. So the last
target of a row is the first token of the next row, and the stream needs one token more than the rows read. A pair
counts unless a document ends between its two tokens. A model trained without the end mark never stops.""",
    pytorch="""`torch.nn.functional.cross_entropy` ignores targets of −100. Causal models of `transformers` shift the
labels themselves: give them `labels = input_ids`.""",
)

ANSWERS = r'''# %% right: worked
marks = params("shifted-labels").marks  # leave as is: whether the mark "ends" or "begins" each document


def labeled(stream, length, mark):
    """(inputs, targets, counts), each (rows, length): the tokens read, the next tokens, and whether each target
    counts."""
    rows = (len(stream) - 1) // length
    inputs = stream[: rows * length].view(rows, length)
    targets = stream[1 : rows * length + 1].view(rows, length)
    return inputs, targets, (inputs if marks == "ends" else targets) != mark


def label_fault(inputs, targets, counts, mark) -> str:
    """What is wrong with a batch, in one of the words above; "fine" if nothing is."""
    if not inputs.shape == targets.shape == counts.shape:
        return "shape"
    for word, by in (("not shifted", 0), ("shifted twice", 2)):
        if torch.equal(targets[:, : inputs.shape[1] - by], inputs[:, by:]):
            return word
    if torch.equal(targets[:, -1], inputs[:, 0]):
        return "wrapped"
    right = (inputs if marks == "ends" else targets) != mark
    if (counts & ~right).any():
        return "crosses documents"
    return "hides labels" if (right & ~counts).any() else "fine"
# %% right: tensors made of lists, faults token by token
# ~ stream[: rows * length].view(rows, length)
# ~~ ==> torch.tensor([stream.tolist()[at : at + length] for at in range(0, rows * length, length)])
# ~ stream[1 : rows * length + 1].view(rows, length)
# ~~ ==> torch.tensor([stream.tolist()[at + 1 : at + length + 1] for at in range(0, rows * length, length)])
# ~ not inputs.shape == targets.shape == counts.shape
# ~~ ==> {tuple(inputs.shape)} != {tuple(targets.shape), tuple(counts.shape)}
# ~ torch.equal(targets[:, -1], inputs[:, 0]) ==> targets[:, -1].tolist() == inputs[:, 0].tolist()
# ~ (counts & ~right).any()
# ~~ ==> any(count > fine for pair in zip(counts.tolist(), right.tolist()) for count, fine in zip(*pair))
# %% wrong: rolled, and only the count is put right => values wrapped
# > only the last target is wrong. Which token follows the row's last one in the stream?
# ~ stream[1 : rows * length + 1].view(rows, length) ==> inputs.roll(-1, dims=1)
# %% wrong: targets are what is read => values not-shifted
# > each target is the token that is read.
# ~ stream[1 : rows * length + 1].view(rows, length) ==> inputs
# %% wrong: shifted once more => values shifted-twice
# > each target is the token after the next.
# ~ (len(stream) - 1) // length ==> (len(stream) - 2) // length
# ~ stream[1 : rows * length + 1] ==> stream[2 : rows * length + 2]
# %% wrong: the mark is hidden on the other side => values mark-hidden
# > at the border of two documents the wrong pair is left out. Which pair crosses the border?
# ~ , (inputs if marks == "ends" else targets) ==> , (targets if marks == "ends" else inputs)
# %% wrong: everything counts => values crosses-documents
# > a target in another document counts.
# ~ targets, (inputs if marks == "ends" else targets) != mark ==> targets, torch.ones_like(inputs, dtype=torch.bool)
# %% wrong: the last column never counts => values
# > the last target of a row is not counted.
# ~ targets, (inputs if marks == "ends" else targets) != mark
# ~~ ==> targets, ((inputs if marks == "ends" else targets) != mark) & (torch.arange(length) < length - 1)
# %% wrong: rows of one token less => values wrong-shape
# > these rows are too short.
# ~ return inputs, targets, (inputs if marks == "ends" else targets)
# ~~ ==> return inputs[:, :-1], targets[:, :-1], (inputs if marks == "ends" else targets)[:, :-1]
# %% wrong: a token of each row is lost, as rows of length + 1 are cut => values rows
# > a token is skipped after each row. The next row begins where this one ended.
# ~ (len(stream) - 1) // length ==> len(stream) // (length + 1)
# -     inputs = stream[: rows * length].view(rows, length)
# -     targets = stream[1 : rows * length + 1].view(rows, length)
# +     cut = stream[: rows * (length + 1)].view(rows, length + 1)
# +     inputs, targets = cut[:, :-1], cut[:, 1:]
# %% wrong: one row more than there are targets for, where that fits => generality rows
# > there are too many rows. How many tokens does the last row need?
# ~ (len(stream) - 1) ==> len(stream)
# ~ stream[1 : rows * length + 1] ==> torch.cat([stream[1:], stream[:1]])[: rows * length]
# %% wrong: one row too few, where the stream ends with the last target => generality a-row-too-few
# > a row is missing that has all its targets.
# ~ (len(stream) - 1) // length ==> (len(stream) - 2) // length
# %% wrong: counts are numbers => values not-bool
# > return bool.
# ~ , (inputs if marks == "ends" else targets) != mark ==> , ((inputs if marks == "ends" else targets) != mark).float()
# %% wrong: the mark is token 1 => generality ~
# ~ targets, (inputs if marks == "ends" else targets) != mark ==> targets, (inputs if marks == "ends" else targets) != 1
# %% wrong: only the shift is looked at => values unnoticed
#               return word
# +     return "fine"
# %% wrong: the last target of a row is not looked at => generality unnoticed
# ~ torch.equal(targets[:, -1], inputs[:, 0]) ==> False
# %% wrong: the last target of the first row stands for all => generality false-alarm
# ~ torch.equal(targets[:, -1], inputs[:, 0]) ==> targets[0, -1] == inputs[0, 0]
# %% wrong: a mark on the other side should not count, it thinks => values false-alarm
# ~ right = (inputs if marks == "ends" else targets) ==> right = (targets if marks == "ends" else inputs)
# %% wrong: shapes are taken for granted => generality raised
# ~ not inputs.shape == targets.shape == counts.shape ==> False
# ~ torch.equal(targets[:, : inputs.shape[1] - by], inputs[:, by:])
# ~~ ==> (targets[:, : inputs.shape[1] - by] == inputs[:, by:]).all()
# %% wrong: counts may have any shape => generality raised
# ~ not inputs.shape == targets.shape == counts ==> inputs.shape != targets
# %% wrong: as many numbers are a shape => generality unnoticed
# ~ not inputs.shape == targets.shape == counts.shape ==> not inputs.numel() == targets.numel() == counts.numel()
#           return "shape"
# +     targets, counts = targets.view(inputs.shape), counts.view(inputs.shape)
# %% wrong: hidden labels of the last column are overlooked => generality unnoticed
# ~ (right & ~counts).any() ==> (right & ~counts)[:, :-1].any()
# %% half: only the repair => 2.1  from: worked
def label_fault(inputs, targets, counts, mark):
    raise NotImplementedError
'''
