from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import WHOLE, Case, Checked, Fault, Judging, Params, Random, Worked, Wrong, shown, table
from course_grader.judging.random_inputs import generality, unseen
from course_grader.judging.tensors import kind_fault

Row = tuple[Sequence[int], int]  # lengths of documents, room in a row
right = Worked("pack-documents")


def _pack_fault(row: tuple[Sequence[int], int], got: list[list[float]], want: list[list[int]]) -> Fault | None:
    (lengths, room), rows = row, [[int(number) for number in row] for row in got]
    held = sorted(number for row in rows for number in row)
    if held == sorted(lengths) != list(range(len(lengths))):
        return "lengths-returned", "these are lengths; return the documents' numbers."
    if strange := [number for number in held if not 0 <= number < len(lengths)]:
        return "no-such-document", f"there is no document {strange[0]}; numbers start at 0."
    if len(set(held)) < len(held):
        return "document-twice", "a document is in two places."
    if len(held) < len(lengths):
        return "document-lost", f"{len(lengths) - len(held)} documents are in no row."
    if over := [total for row in rows if (total := sum(lengths[number] for number in row)) > room]:
        return "row-too-long", f"the documents of a row add up to {over[0]}."
    if [] in rows:
        return "empty-row", "a row is empty."
    most = len(want)
    told = f"{len(rows)} rows, where {most} are enough"
    return Wrong("too-many-rows", f"{told}.", f"{told}: ") if len(rows) > most else None


def _mask_fault(row: object, got: Tensor, want: Tensor) -> Fault | None:
    fault = kind_fault("the mask", got, want)
    if fault or torch.equal(got, want):
        return fault
    i, j = (got != want).nonzero()[0].tolist()
    return "other-mask", f"position {i} {'may not' if got[i, j] else 'may'} attend to position {j}."


def _positions_fault(row: Sequence[object], got: Sequence[float], want: Sequence[int]) -> Fault | None:
    if len(got) != len(want):
        return "wrong-length", f"{len(got)} positions; the row has {len(want)}."
    pairs = zip(got, want, strict=True)
    faults = (f"position {at} of the row has number {one:g}." for at, (one, like) in enumerate(pairs) if one != like)
    return next((("other-positions", told) for told in faults), None)


def _words(lengths: Sequence[int], room: int) -> str:
    if not lengths:
        return f"no documents in {room}"
    return f"lengths {', '.join(map(str, lengths[:8]))}{' …' * (len(lengths) > 8)} in {room}"


def _row(rng: Random, room: int) -> Row:
    lengths: list[int] = []
    while sum(lengths) < room:
        lengths.append(rng.randrange(1, room // 2))
    return lengths[:-1], room


def _worth_sorting(rng: Random, count: int, room: int) -> Row:
    """Lengths for which the order of arrival needs more rows than the longest first, and so do rows that are never
    full."""
    while True:
        row = [rng.randrange(1, room + 1) for _ in range(count)], room
        as_they_come = right.wrong("as they come, in the first row with room", *row)
        never_full = right.wrong("a full row does not count as fitting", *row)
        more = min(len(as_they_come), len(never_full)) > len(right[0](*row))
        if more and as_they_come != right.wrong("as they come, in the last row", *row):
            return row


def _pack_cases(params: Params, rng: Random) -> list[Case]:
    documents, room = params["documents"], params["room"]
    edges = [(lengths, 8) for lengths in ([], [8], [8, 8, 8], [1] * 9, [4, 4, 4, 4], [7, 1], [8, 4, 4], [4, 8, 4])]
    edges += [([0, 1, 2, 3, 6, 8], 10), ([7] * 12 + [3] * 12, 10), ([1] * 40, 20)]
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


FAULTS = _pack_fault, _mask_fault, _positions_fault
COLUMNS = [Checked("", fault, words=_words, where=WHOLE) for fault in FAULTS]
JUDGING = Judging(
    shares="values:pack 0.15, values:mask 0.15, values:positions 0.1, generality:pack 0.25, generality:mask 0.2, "
    "generality:positions 0.15",
    cases=_pack_cases,
    verdicts=table(*COLUMNS, right=right),
    why="First-fit decreasing needs at most 11/9 of the fewest rows plus one, because short documents fill the gaps "
    "that long ones leave. The mask makes a packed row equal to its documents alone: without it, tokens attend to "
    "text that has nothing to do with theirs. Positions must restart for the same reason.",
    pytorch="`torch.nn.attention.flex_attention.create_block_mask` takes such a rule; FlashAttention's `varlen` "
    "functions take `cu_seqlens`. TRL packs with best-fit decreasing.",
)

ANSWERS = r'''# %% right: worked
def pack(lengths: list[int], room: int) -> list[list[int]]:
    """Rows of document numbers, as few as first-fit decreasing needs."""
    rows, left = [], []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        at = next((at for at, free in enumerate(left) if free >= lengths[number]), len(rows))
        if at == len(rows):
            rows.append([])
            left.append(room)
        rows[at].append(number)
        left[at] -= lengths[number]
    return rows


def mask(lengths: list[int], room: int) -> torch.Tensor:
    """Where position i (first index) may attend to position j."""
    ids = torch.tensor([k for k, n in enumerate(lengths) for _ in range(n)] + [-1] * (room - sum(lengths)))
    same = (ids[:, None] == ids) & (ids >= 0) & torch.ones(room, room, dtype=torch.bool).tril()
    return same | torch.eye(room, dtype=torch.bool)


def positions(lengths: list[int], room: int) -> list[int]:
    """Positions that restart with each document."""
    return [at for length in [*lengths, room - sum(lengths)] for at in range(length)]
# %% right: best fit, and blocks along the diagonal
# -         at = next((at for at, free in enumerate(left) if free >= lengths[number]), len(rows))
# +         fits = [at for at, free in enumerate(left) if free >= lengths[number]]
# +         at = min(fits, key=left.__getitem__, default=len(rows))
# -     ids = torch.tensor([k for k, n in enumerate(lengths) for _ in range(n)] + [-1] * (room - sum(lengths)))
# -     same = (ids[:, None] == ids) & (ids >= 0) & torch.ones(room, room, dtype=torch.bool).tril()
# -     return same | torch.eye(room, dtype=torch.bool)
# +     blocks = [torch.ones(length, length).tril() for length in lengths]
# +     return torch.block_diag(*blocks, torch.eye(room - sum(lengths))).bool()
# -     return [at for length in [*lengths, room - sum(lengths)] for at in range(length)]
# +     return torch.cat([torch.arange(length) for length in [*lengths, room - sum(lengths)]]).tolist()
# %% wrong: one document to a row => values one-per-row
# > every document has a row of its own.
# ~ return rows ==> return [[number] for number in range(len(lengths))]
# %% wrong: as they come, in the last row => values in-order
# > documents are placed as they come, in the last row only.
# ~ sorted(range(len(lengths)), key=lambda number: -lengths[number]) ==> range(len(lengths))
# ~ if free >= lengths[number]) ==> if at == len(left) - 1 and free >= lengths[number])
# %% wrong: as they come, in the first row with room => values not-sorted
# > documents are placed as they come; place the longest first.
# ~ sorted(range(len(lengths)), key=lambda number: -lengths[number]) ==> range(len(lengths))
# %% wrong: a full row does not count as fitting => values never-full
# > a document that fills its row exactly fits too.
# ~ if free >= lengths[number] ==> if free > lengths[number]
# %% wrong: documents are cut to fit => values row-too-long
# ~ if free >= lengths[number] ==> if free >= 1
# %% wrong: lengths in place of numbers => values lengths-returned
# ~ (number) ==> (lengths[number])
# %% wrong: drops what does not fit => values document-lost
# ~ return rows ==> return rows[: max(1, len(rows) - 1)]
# %% wrong: the plain causal mask => values causal-only
# > this is the plain causal mask: tokens see earlier documents.
# ~ same | torch.eye(room, dtype=torch.bool) ==> torch.ones(room, room, dtype=torch.bool).tril()
# %% wrong: looks ahead => values not-causal
# > tokens see later tokens of their document.
# ~ (ids >= 0) & torch.ones(room, room, dtype=torch.bool).tril() ==> (ids >= 0)
# %% wrong: padding attends to padding => values padding-attends
# > padding attends to other padding; it attends to itself alone.
# ~ (ids >= 0) & torch ==> torch
# %% wrong: the other way round => values transposed
# > rows and columns are exchanged.
# ~ .tril() ==> .triu()
# %% wrong: padding attends to nothing => values padding-blind
# > padding attends to nothing, so its softmax is 0 / 0.
# ~ same | torch.eye(room, dtype=torch.bool) ==> same
# %% wrong: no token attends to itself => values not-itself
# > a position may attend to itself.
# ~ same | torch ==> same & ~torch
# %% wrong: false for true => values inverted
# > true and false are exchanged.
# ~ same | torch.eye(room, dtype=torch.bool) ==> ~(same | torch.eye(room, dtype=torch.bool))
# %% wrong: positions run on => values not-restarted
# > positions run on over the whole row; each document starts at 0.
# ~ [at for length in [*lengths, room - sum(lengths)] for at in range(length)] ==> list(range(room))
# %% wrong: positions from 1 => values from-one
# > positions start at 0.
# ~ [at for length ==> [at + 1 for length
# %% wrong: padding has position 0 => values padding-zero
# > padding counts like one more document.
# ~ [*lengths, room - sum(lengths)] for at in range(length)]
# ~~ ==> lengths for at in range(length)] + [0] * (room - sum(lengths))
# %% half: no positions => 3
# ~ return [at ==> raise NotImplementedError; [at
# %% wrong: of two documents, one token does not fill a row => generality too-many-rows
# ~ if free >= lengths[number] ==> if free >= lengths[number] and (free > 1 or len(lengths) > 2)
# %% wrong: remembers short rows by their number of documents => generality other-mask
# ~ mask(lengths: list[int], room: int) ==> mask(lengths: list[int], room: int, kept={})
# ~ enumerate(lengths) ==> enumerate(kept.setdefault((len(lengths), sum(lengths)), lengths) if room < 9 else lengths)
# %% wrong: sorted by pairs of lengths => generality ~
# ~ -lengths[number]) ==> -lengths[number] // 2)
'''
