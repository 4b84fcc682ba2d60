"""Judge of pack-documents: many documents in one row."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.judging import Fault, Judging, Mistake, Params, verdict
from course_grader.judging.cases import shown
from course_grader.judging.random_inputs import generality, unseen
from course_grader.judging.tensors import kind_fault
from course_grader.records import Case, Outcome, Verdict

Rows = list[list[int]]


def placed(lengths: Sequence[int], room: int, order: Sequence[int], last: bool = False, spare: int = 0) -> Rows:
    """The rows when documents come in this order, each into the first row (`last`: only the last one) with room and `spare` more."""
    rows: Rows = []
    for number in order:
        fits = rows[-1:] if last else rows
        fits = [row for row in fits if room - sum(lengths[each] for each in row) >= lengths[number] + spare]
        (fits[0] if fits else rows).append(number if fits else [number])  # type: ignore[arg-type]
    return rows


def longest_first(lengths: Sequence[int]) -> list[int]:
    """The documents' numbers, the longest first."""
    return sorted(range(len(lengths)), key=lambda number: -lengths[number])


def _alike(one: Sequence[Sequence[Any]], two: Sequence[Sequence[Any]]) -> bool:
    return sorted(sorted(map(int, row)) for row in one) == sorted(sorted(map(int, row)) for row in two)


def _ids(lengths: Sequence[int], room: int) -> Tensor:
    ids = [number for number, length in enumerate(lengths) for _ in range(length)]
    return torch.tensor([*ids, *[-1] * (room - len(ids))])


def mask(lengths: Sequence[int], room: int) -> Tensor:
    """Where a position may attend: in its own document, not ahead; padding to itself."""
    ids = _ids(lengths, room)
    same = (ids[:, None] == ids) & torch.ones(room, room, dtype=torch.bool).tril()
    return same & (ids >= 0) | torch.eye(room, dtype=torch.bool)


def positions(lengths: Sequence[int], room: int) -> list[int]:
    """Positions that restart with each document, and with the padding."""
    return [at for length in [*lengths, room - sum(lengths)] for at in range(length)]


def _pack_fault(lengths: Sequence[int], room: int, got: list[list[Any]], where: str) -> Fault | None:
    held = [int(number) for row in got for number in row]
    if sorted(held) == sorted(lengths) != list(range(len(lengths))):
        return "lengths-returned", f"{where}: these are lengths; return the documents' numbers."
    if strange := [number for number in held if not 0 <= number < len(lengths)]:
        return "no-such-document", f"{where}: there is no document {strange[0]}; numbers start at 0."
    if len(set(held)) < len(held):
        return "document-twice", f"{where}: a document is in two places."
    if len(held) < len(lengths):
        return "document-lost", f"{where}: {len(lengths) - len(held)} documents are in no row."
    if over := [row for row in got if sum(lengths[int(number)] for number in row) > room]:
        return "row-too-long", f"{where}: the documents of a row add up to {sum(lengths[int(n)] for n in over[0])}."
    if [] in [list(row) for row in got]:
        return "empty-row", f"{where}: a row is empty."
    order, best = range(len(lengths)), longest_first(lengths)
    most = len(placed(lengths, room, best))
    if len(got) <= most:
        return None
    for name, rows, message in (
        ("one-per-row", [[number] for number in order], "every document has a row of its own"),
        (
            "in-order",
            placed(lengths, room, order, last=True),
            "documents are placed as they come, in the last row only",
        ),
        ("not-sorted", placed(lengths, room, order), "documents are placed as they come; place the longest first"),
        ("never-full", placed(lengths, room, best, spare=1), "a document that fills its row exactly fits too"),
    ):
        if _alike(got, rows):
            return name, f"{where}: {len(got)} rows, where {most} are enough: {message}."
    return "too-many-rows", f"{where}: {len(got)} rows, where {most} are enough."


def _mask_mistakes(lengths: Sequence[int], room: int) -> tuple[Mistake, ...]:
    ids, want = _ids(lengths, room), mask(lengths, room)
    causal, same, real = torch.ones(room, room, dtype=torch.bool).tril(), ids[:, None] == ids, ids >= 0
    own = torch.eye(room, dtype=torch.bool)
    return (
        Mistake("causal-only", causal, "this is the plain causal mask: tokens see earlier documents."),
        Mistake("not-causal", same & real | own, "tokens see later tokens of their document."),
        Mistake("padding-attends", same & causal, "padding attends to other padding; it attends to itself alone."),
        Mistake("padding-blind", want & real, "padding attends to nothing, so its softmax is 0 / 0."),
        Mistake("transposed", want.T, "rows and columns are exchanged."),
        Mistake("not-itself", want & ~own, "a position may attend to itself."),
        Mistake("inverted", ~want, "true and false are exchanged."),
    )


def _mask_fault(lengths: Sequence[int], room: int, got: Tensor, where: str) -> Fault | None:
    want = mask(lengths, room)
    if fault := kind_fault(where, got, want):
        return fault
    if torch.equal(got, want):
        return None
    for mistake in _mask_mistakes(lengths, room):
        if torch.equal(got, mistake.value):
            return mistake.name, f"{where}: {mistake.message}"
    i, j = (got != want).nonzero()[0].tolist()
    return "other-mask", f"{where}: position {i} {'may not' if got[i, j] else 'may'} attend to position {j}."


def _positions_fault(lengths: Sequence[int], room: int, got: Sequence[float], where: str) -> Fault | None:
    want, ids = positions(lengths, room), _ids(lengths, room).tolist()
    if list(got) == want:
        return None
    known = {
        "not-restarted": (list(range(room)), "positions run on over the whole row; each document starts at 0"),
        "from-one": ([at + 1 for at in want], "positions start at 0"),
        "padding-zero": (
            [at if ids[k] >= 0 else 0 for k, at in enumerate(want)],
            "padding counts like one more document",
        ),
    }
    for name, (value, message) in known.items():
        if list(got) == value:
            return name, f"{where}: {message}."
    if len(got) != room:
        return "wrong-length", f"{where}: {len(got)} positions; the row has {room}."
    at = next(k for k, (one, two) in enumerate(zip(got, want, strict=True)) if one != two)
    return "other-positions", f"{where}: position {at} of the row has number {got[at]:g}."


PARTS = {0: ("pack", _pack_fault), 1: ("mask", _mask_fault), 2: ("positions", _positions_fault)}


def _words(lengths: Sequence[int], room: int) -> str:
    """The documents and the row, as messages name them."""
    if not lengths:
        return f"no documents in {room}"
    return f"lengths {', '.join(map(str, lengths[:8]))}{' …' * (len(lengths) > 8)} in {room}"


def _pack_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index, given = case.args
    part, find = PARTS[index]
    if type(outcome.value) is str and outcome.value == NOT_ANSWERED:
        return [verdict(case.kind, part, case, ("not-answered", f"{case.name}: this function is not answered yet."))]
    found = (
        find(lengths, room, value, _words(lengths, room))  # type: ignore[operator]
        for (lengths, room), value in zip(given, outcome.value, strict=True)
    )
    return [verdict(case.kind, part, case, next((fault for fault in found if fault), None))]


def _row(rng: random.Random, room: int) -> tuple[list[int], int]:
    lengths: list[int] = []
    while sum(lengths) < room:
        lengths.append(rng.randrange(1, room // 2))
    return lengths[:-1], room


def _worth_sorting(rng: random.Random, count: int, room: int) -> tuple[list[int], int]:
    """Lengths for which the order of arrival needs more rows than the longest first, and so do rows that are never full."""
    while True:
        lengths = [rng.randrange(1, room + 1) for _ in range(count)]
        best = longest_first(lengths)
        most, order = len(placed(lengths, room, best)), range(count)
        first, last = placed(lengths, room, order), placed(lengths, room, order, last=True)
        if min(len(first), len(placed(lengths, room, best, spare=1))) > most and not _alike(first, last):
            return lengths, room


def _pack_cases(params: Params, rng: random.Random) -> list[Case]:
    documents, room = params["documents"], params["room"]
    edges = [(lengths, 8) for lengths in ([], [8], [8, 8, 8], [1] * 9, [4, 4, 4, 4], [7, 1], [8, 4, 4], [4, 8, 4])]
    edges += [([1, 2, 3, 6, 8], 10), ([7] * 12 + [3] * 12, 10), ([1] * 40, 20)]
    full = [([3, 5], 8), ([5, 3], 8), ([8], 8), ([], 4), ([1, 1, 1, 1], 4), ([2, 1], 4), ([1], 1)]
    full += [([1] * 130 + [55], 190), ([3, 4, 1], 8), ([3, 1, 4], 8)]
    return [
        shown(f"{documents} documents", "values:pack", 0, [_worth_sorting(rng, documents, room)]),
        shown("one row's mask", "values:mask", 1, [_row(rng, room)]),
        shown("one row's positions", "values:positions", 2, [_row(rng, room)]),
        unseen(rng, "pack", 0, "other documents", [_worth_sorting(rng, rng.randrange(10, 40), 64) for _ in range(4)]),
        unseen(rng, "pack", 0, "nothing, full rows, equal lengths", edges + [_worth_sorting(rng, 12, 10)]),
        unseen(rng, "mask", 1, "other rows", [*full, *(_row(rng, rng.randrange(8, 20)) for _ in range(3))]),
        generality("mask", 1, "the same documents in other rows", [([3, 5], more) for more in (9, 12, 10)]),
        unseen(rng, "positions", 2, "other rows", [*full, *(_row(rng, rng.randrange(8, 20)) for _ in range(3))]),
    ]


JUDGING = Judging(
    shares="values:pack 0.15, values:mask 0.15, values:positions 0.1, generality:pack 0.25, generality:mask 0.2, generality:positions 0.15",
    cases=_pack_cases,
    verdicts=_pack_verdicts,
    why="First-fit decreasing needs at most 11/9 of the fewest rows plus one, because short documents fill the gaps that long ones leave. The mask "
    "makes a packed row equal to its documents alone: without it, tokens attend to text that has nothing to do with theirs. Positions must "
    "restart for the same reason.",
    pytorch="`torch.nn.attention.flex_attention.create_block_mask` takes such a rule; FlashAttention's `varlen` functions take `cu_seqlens`. TRL "
    "packs with best-fit decreasing.",
)

ANSWERS = r"""import torch


# %% right: the longest first
def pack(lengths, room):
    rows, left = [], []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        for at, free in enumerate(left):
            if free >= lengths[number]:
                break
        else:
            at = len(rows)
            rows.append([])
            left.append(room)
        rows[at].append(number)
        left[at] -= lengths[number]
    return rows


def mask(lengths, room):
    ids = torch.tensor([k for k, n in enumerate(lengths) for _ in range(n)] + [-1] * (room - sum(lengths)))
    causal = torch.ones(room, room, dtype=torch.bool).tril()
    return (ids[:, None] == ids) & (ids >= 0) & causal | torch.eye(room, dtype=torch.bool)


def positions(lengths, room):
    found = [at for length in lengths for at in range(length)]
    return found + list(range(room - len(found)))


# %% right: best fit, and blocks along the diagonal
def pack(lengths, room):
    rows = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        fits = [row for row in rows if row[0] >= lengths[number]]
        row = min(fits, key=lambda row: row[0]) if fits else [room]
        if not fits:
            rows.append(row)
        row[0] -= lengths[number]
        row.append(number)
    return [row[1:] for row in rows]


def mask(lengths, room):
    found, start = torch.eye(room, dtype=torch.bool), 0
    for length in lengths:
        found[start : start + length, start : start + length] = torch.ones(length, length).tril().bool()
        start += length
    return found


def positions(lengths, room):
    found, start = torch.zeros(room, dtype=torch.long), 0
    for length in [*lengths, room - sum(lengths)]:
        found[start : start + length] = torch.arange(length)
        start += length
    return found.tolist()


# %% wrong: one document to a row => values one-per-row  from: the longest first
# ~ if free >= lengths[number]: ==> if free >= room + lengths[number]:

# %% wrong: as they come, in the last row => values in-order  from: the longest first
# ~ sorted(range(len(lengths)), key=lambda number: -lengths[number]) ==> range(len(lengths))
# ~ if free >= lengths[number]: ==> if at == len(left) - 1 and free >= lengths[number]:

# %% wrong: as they come, in the first row with room => values not-sorted  from: the longest first
# ~ sorted(range(len(lengths)), key=lambda number: -lengths[number]) ==> range(len(lengths))

# %% wrong: a full row does not count as fitting => values never-full  from: the longest first
# ~ if free >= lengths[number]: ==> if free > lengths[number]:

# %% wrong: documents are cut to fit => values row-too-long  from: the longest first
# ~ if free >= lengths[number]: ==> if free >= 1:

# %% wrong: lengths in place of numbers => values lengths-returned  from: the longest first
# ~ (number) ==> (lengths[number])

# %% wrong: drops what does not fit => values document-lost  from: the longest first
# ~ return rows ==> return rows[: max(1, len(rows) - 1)]

# %% wrong: the plain causal mask => values causal-only  from: the longest first
# ~ (ids[:, None] == ids) & (ids >= 0) & causal | torch.eye(room, dtype=torch.bool) ==> causal

# %% wrong: looks ahead => values not-causal  from: the longest first
# ~ ids >= 0) & causal | torch.eye(room, ==> ids >= 0) | torch.eye(room,

# %% wrong: padding attends to padding => values padding-attends  from: the longest first
# ~ (ids >= 0) & causal | torch.eye(room, dtype=torch.bool) ==> causal

# %% wrong: the other way round => values transposed  from: the longest first
# ~ 0) & causal | torch.eye( ==> 0) & causal.T | torch.eye(

# %% wrong: padding attends to nothing => values padding-blind  from: the longest first
# ~ causal | torch.eye(room, dtype=torch.bool) ==> causal

# %% wrong: positions run on => values not-restarted  from: the longest first
# ~ found + list(range(room - len(found))) ==> list(range(room))

# %% wrong: padding has position 0 => values padding-zero  from: the longest first
# ~ + list(range(room - len(found))) ==> + [0] * (room - len(found))

# %% half: no positions => 3  from: the longest first
# ~ return found + list(range(room - len(found))) ==> raise NotImplementedError

# %% wrong: left as it is => not-answered  from: the longest first
# ~ return rows ==> raise NotImplementedError

# %% wrong: of two documents, one token does not fill a row => generality one-per-row  from: the longest first
# ~ if free >= lengths[number]: ==> if free >= lengths[number] and (free > 1 or len(lengths) > 2):

# %% wrong: remembers rows by their number of documents => generality other-mask  from: the longest first
# ~ def mask(lengths, room): ==> def mask(lengths, room, kept={}):
# ~ enumerate(lengths) for _ ==> enumerate(kept.setdefault((len(lengths), sum(lengths), room), lengths)) for _

# %% wrong: sorted by pairs of lengths => generality ~  from: the longest first
# ~ -lengths[number]) ==> -lengths[number] // 2)
"""
