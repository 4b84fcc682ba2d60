"""Judges of the ring that hangs, without the buffers that CPUs provide, and of shifted labels in batches with one fault."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import Topology
from course_lib.exercises.ch15.cards.faults import LABEL_WORDS
from course_lib.exercises.ch15.probes import VISIT
from course_lib.judging import Fault, Judging, Params, first, judged
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.diagnoses import diagnosis_fault, numbered
from course_lib.judging.draws import generality
from course_lib.judging.ranks import STREAM, UNKIND, moved_early, secret, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _ring_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size, in_order = coin_of(rng), params["numbers"], "four ranks, each pair's operations in the order of issue"

    def blocks(n: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[tuple[Any, ...]]:
        return world(n, lambda: secret(coin, *(shape or (size,)), dtype=dtype))

    return [
        shown(in_order, "values:pass", per_rank=blocks(4), adversary=STREAM),
        hidden("nine ranks", "values:pass", per_rank=blocks(9)),
        *(hidden(ranks_text(n), "generality:ranks", per_rank=blocks(n)) for n in (1, 2, 3)),
        hidden("three ranks, blocks of three dimensions", "generality:tensors", per_rank=blocks(3, size, 3, 2)),
        hidden("three ranks, whole numbers", "generality:tensors", per_rank=blocks(3, dtype=torch.int64)),
        hidden("three ranks, bfloat16", "generality:tensors", per_rank=blocks(3, 2, size, dtype=torch.bfloat16)),
        hidden("two ranks, order of issue", "protocol:safe", per_rank=blocks(2), adversary=STREAM),
        *under(UNKIND, "three ranks", "protocol:safe", lambda: blocks(3)),
    ]


def total(given: Sequence[Tensor]) -> Tensor:
    """The sum over all visits, exact for secret data."""
    return torch.stack([block.double() * (owner + 2) for owner, block in enumerate(given)]).sum(0)


def _fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    given = tensors(case)
    n, want = len(given), total(given)
    for rank, got in enumerate(results):
        owners, right = got["owners"], same(got["total"], want)
        if right and same(got["block"], given[rank]):
            continue
        if missing := [owner for owner in range(n) if owner not in owners]:
            visited = ", ".join(map(str, owners)) or "none"
            return "not-visited", f"Rank {rank} never visited the block of rank {missing[0]}; it visited {visited}."
        if len(owners) > n:
            return "visited-twice", f"Rank {rank} made {len(owners)} visits; there are {n} blocks."
        if right:
            whose = (f"rank {other}'s block" for other in range(n) if same(got["block"], given[other]))
            lead = f"Rank {rank}'s own block, which the caller needs, holds {next(whose, 'other data')} afterwards."
            return "overwritten", f"{lead} Into which tensor does each hop receive?"
        if case.adversary not in (None, STREAM):
            return moved_early(case, rank)
        return "wrong-sum", f"Rank {rank}'s sum is wrong. Had each block arrived, and was its owner right?"
    return None


def _bytes(case: Case, meter: Meter) -> Fault | None:
    n, least = case.ranks or 1, [((case.ranks or 1) - 1) * nbytes(block) for block in tensors(case)]
    for rank, (size, sent) in enumerate(zip(least, meter["bytes_sent"], strict=True)):
        lead = f"Rank {rank} sent {sent:,} bytes; N − 1 = {n - 1} blocks have {size:,}."
        if size and sent >= 2 * size and n > 2:
            return "wider", f"{lead} Does each hop send one block in its own dtype?"
        if sent > size:
            return "sent-again", f"{lead} No rank needs a block after the last visit."
    return too_few_bytes(meter, least, least)


def _hidden(case: Case, meter: Meter) -> Fault | None:
    n = case.ranks or 1
    extra, latency = meter["seconds"] - n * VISIT, Topology().levels[0].latency
    if extra <= 0.5 * latency * max(n - 1, 1):
        return None
    return "not-hidden", f"The run takes {extra * 1e6:.0f} µs more than its {n} visits. Start a hop, visit, then wait."


def _ring_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _fault(case, outcome.value), outcome.meter
    if case.kind == "protocol":
        return judged(case, fault)
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → … → N − 1 → 0"))
    cost = ("cost", "bytes", _bytes(case, meter)), ("cost", "hidden", _hidden(case, meter))
    return judged(case, fault, *cost, ("protocol", "neighbors", route))


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


FAULTS = {
    "ring-that-hangs": Judging(
        shares="values:pass 0.35, cost:bytes 0.1, cost:hidden 0.15, protocol:neighbors 0.05, protocol:safe 0.15, "
        "generality:ranks 0.1, generality:tensors 0.1",
        cases=_ring_cases,
        verdicts=_ring_verdicts,
        why="""On one stream, operations progress in the order of issue, so each receive waited behind a send that needed the neighbor's receive; a buffering
transport hides this. One batch has no inner order. Two buffers that swap roles are too few: the second hop receives into the caller's own block.""",
        pytorch="""`torch.distributed.batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`; `torch.distributed.tensor.experimental.context_parallel` rotates
keys and values in this way.""",
    ),
    "shifted-labels": Judging(
        shares={"values:labeled": 0.35, "values:fault": 0.2, "generality:lengths": 0.15, "generality:batches": 0.3},
        cases=_label_cases,
        verdicts=_label_verdicts,
        why="""Inputs and targets are one stream, cut in the same places, the second starting one token later. So the last target of a row is the first token of the
next row, and the stream needs one token more than the rows read. A pair counts unless a document ends between its two tokens. A model trained without the end
mark never stops.""",
        pytorch="""`torch.nn.functional.cross_entropy` ignores targets of −100. Causal models of `transformers` shift the labels themselves: give them `labels =
input_ids`.""",
    ),
}
