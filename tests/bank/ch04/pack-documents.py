import torch


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
