"""Judge of chapter 15's labels: rows cut from packed documents, and batches with one thing wrong in them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch15.cards.faults import LABEL_WORDS
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Fault, Judging, Params, describe, verdict
from course_lib.records import Case, Outcome, Verdict

MARK = 1
Batch = tuple[Tensor, Tensor, Tensor]
SHOWN = ("not shifted", "fine", "crosses documents")

_LOOK: Mapping[str, str] = {
    "shape": "look at the shapes first: does every token that is read have a target and a word on whether it counts?",
    "not shifted": "put the first row of targets below the first row of inputs.",
    "shifted twice": "put the first row of targets below the first row of inputs. How far on are they?",
    "wrapped": "look at the last target of each row. Where does it come from?",
    "crosses documents": "where a document ends between the token that is read and its target, does the target count?",
    "hides labels": "which targets do not count, and is each of them really in another document?",
    "fine": "what is said to be wrong with it is not: look at every row, and at all of the row.",
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


def cut(stream: Tensor, length: int, marks: str) -> Batch:
    """The rows of a stream: what is read, what comes next, whether that counts."""
    rows = (len(stream) - 1) // length
    inputs, targets = (stream[begin : begin + rows * length].view(rows, length) for begin in (0, 1))
    return inputs, targets, (inputs if marks == "ends" else targets) != MARK


def misshapen(batch: Batch) -> list[Batch]:
    """A batch in three wrong ways of shape: a column of targets too few, one of counts, and as many targets in other rows."""
    inputs, targets, counts = batch
    return [
        (inputs, targets[:, :-1], counts),
        (inputs, targets, counts[:, :-1]),
        (inputs, targets.reshape(inputs.shape[::-1]), counts.reshape(inputs.shape[::-1])),
    ]


def broken(word: str, stream: Tensor, length: int, marks: str, rng: random.Random, shape: int = 0) -> Batch:
    """A batch with that fault, its rows in any order."""
    order = rng.sample(range((len(stream) - 2) // length), (len(stream) - 2) // length)
    inputs, targets, counts = (each[order].clone() for each in cut(stream[: len(order) * length + 1], length, marks))
    across, within = (tuple(rng.choice(which.nonzero().tolist())) for which in (~counts, counts))
    if word == "shape":
        return misshapen((inputs, targets, counts))[shape]
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


def _lengths(rng: random.Random, documents: int) -> list[int]:
    return [rng.randrange(4, 8) for _ in range(documents)]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    marks, length = params["marks"], params["length"]

    def cutting(
        name: str, stream: Tensor, size: int, kind: Any = "values", part: str = "labelled", visible: bool = False
    ) -> Case:
        return Case(name=name, args=(0, (stream, size, MARK)), kind=kind, part=part, visible=visible)

    def looking(name: str, word: str, kind: Any, part: str, size: int, visible: bool = False, shape: int = 0) -> Case:
        batch = broken(word, stream_of(rng, _lengths(rng, 9), marks), size, marks, rng, shape)
        return Case(name=name, args=(1, (*batch, MARK)), kind=kind, part=part, visible=visible, secret=word)

    plain = stream_of(rng, _lengths(rng, 6), marks)
    cases = [cutting("six documents", plain, length, visible=True)]
    cases += [
        looking(f"batch {place}", word, "values", "fault", length, visible=True) for place, word in enumerate(SHOWN, 1)
    ]
    cases.append(cutting("another stream", stream_of(rng, _lengths(rng, 8), marks), length))
    cases += [
        cutting(
            f"{tokens} tokens in rows of {size}", stream_of(rng, [5] * 9, marks)[:tokens], size, "generality", "lengths"
        )
        for size, tokens in ((length, 3 * length), (length, 3 * length + 1), (length, 3 * length - 1), (5, 32), (3, 4))
    ]
    cases += [
        looking(f"another batch ({place})", word, "generality", "batches", rng.choice((6, 9)))
        for place, word in enumerate(rng.sample(sorted(LABEL_WORDS), len(LABEL_WORDS)), 1)
    ]
    return cases + [
        looking(f"a batch of another shape ({shape})", "shape", "generality", "batches", 6, shape=shape)
        for shape in (1, 2)
    ]


def _batch_fault(params: Params, case: Case, got: Any) -> Fault | None:
    stream, length, _ = case.args[1]
    inputs, targets, counts = cut(stream, length, params["marks"])
    if type(got) is not list or len(got) != 3 or not all(isinstance(each, Tensor) for each in got):
        return "no-batch", f"{case.name}: return three tensors (inputs, targets, counts); got {describe(got)}."
    for name, each, want in zip(("inputs", "targets", "counts"), got, (inputs, targets, counts), strict=True):
        if each.shape != want.shape:
            return _rows_fault(case, name, each, want)
        if name == "counts" and each.dtype != torch.bool:
            return (
                "not-bool",
                f"{case.name}: counts are {str(each.dtype).removeprefix('torch.')}; give bool: counts or does not.",
            )
        if not torch.equal(each.to(want.dtype), want) and name != "counts":
            return _tokens_fault(case, name, each, stream)
    if torch.equal(got[2], counts):
        return None
    other = (targets if params["marks"] == "ends" else inputs) != MARK
    if torch.equal(got[2], other):
        name = "mark-hidden" if params["marks"] == "ends" else "mark-counts"
        return (
            name,
            f"{case.name}: of each pair around the border of two documents, the wrong one is left out. Which pair has its two tokens in two documents?",
        )
    late = (got[2] & ~counts).any().item()
    return (
        ("crosses-documents", f"{case.name}: a target counts that is in another document.")
        if late
        else ("hides-labels", f"{case.name}: a target does not count that is in the same document as what was read.")
    )


def _rows_fault(case: Case, name: str, got: Tensor, want: Tensor) -> Fault:
    if got.ndim == 2 and got.shape[1] == want.shape[1]:
        more = "more" if len(got) > len(want) else "fewer"
        stream, length, _ = case.args[1]
        return "rows", (
            f"{case.name}: {len(got)} rows of {name}, which is {more} than there are: {len(stream)} tokens have {len(stream) - 1} pairs of a token and the next, and rows "
            f"have {length}."
        )
    return "wrong-shape", f"{case.name}: {name} have shape {tuple(got.shape)}; rows of {want.shape[1]} were asked for."


def _tokens_fault(case: Case, name: str, got: Tensor, stream: Tensor) -> Fault:
    inputs, targets, _ = cut(stream, case.args[1][1], "ends")
    if name == "inputs":
        return (
            "other-inputs",
            f"{case.name}: the inputs are not the stream cut into rows, each going on where the one before ended.",
        )
    if torch.equal(got, inputs):
        return "not-shifted", f"{case.name}: {_LOOK['not shifted']}"
    if torch.equal(got[:, :-1], targets[:, :-1]):
        return (
            "wrapped",
            f"{case.name}: only the last target of a row is wrong. What comes after the row's last token in the stream?",
        )
    if torch.equal(got[:, :-1], targets[:, 1:]):
        return "shifted-twice", f"{case.name}: the targets are too far on: {_LOOK['shifted twice']}"
    return "other-targets", f"{case.name}: the targets are not what comes next in the stream."


def _word_fault(case: Case, got: Any) -> Fault | None:
    if type(got) is not str or got not in LABEL_WORDS:
        return (
            ("returned-none", f"{case.name}: it returned None: is a `return` missing?")
            if got is None
            else ("no-such-word", f"{case.name}: got {describe(got)}; the words are {', '.join(LABEL_WORDS)}.")
        )
    if got == case.secret:
        return None
    if case.secret == "fine":
        return "false-alarm", f"{case.name}: {got!r} is said; {_LOOK['fine']}"
    if got == "fine":
        return "unnoticed", f"{case.name}: it is said to be fine; {_LOOK[case.secret]}"
    return f"not-{case.secret.replace(' ', '-')}", f"{case.name}: {got!r} is said; {_LOOK[case.secret]}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if type(outcome.value) is str and outcome.value == NOT_ANSWERED:
        return [
            verdict(case.kind, case.part, case, ("not-answered", f"{case.name}: this function is not answered yet."))
        ]
    fault = _batch_fault(params, case, outcome.value) if case.args[0] == 0 else _word_fault(case, outcome.value)
    return [verdict(case.kind, case.part, case, fault)]


LABELS = {
    "shifted-labels": Judging(
        shares={"values:labelled": 0.35, "values:fault": 0.2, "generality:lengths": 0.15, "generality:batches": 0.3},
        cases=_cases,
        verdicts=_verdicts,
        why="Inputs and targets are one stream, cut in the same places, the second from one token further on: so the last target of a row is the first token of the next row, and "
        "the stream needs one token more than the rows read. A pair counts unless a document ends between its two tokens. To hide the end mark as a target, as padding often does, is "
        "to train a model that never stops.",
        pytorch="`torch.nn.functional.cross_entropy` leaves out targets of −100. Causal models of `transformers` shift the labels themselves: give them `labels = input_ids`.",
    )
}
