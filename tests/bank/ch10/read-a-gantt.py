def counted(spans):
    """Ranks, micro-batches, chunks."""
    ranks = 1 + max(span[0] for span in spans)
    microbatches = 1 + max(span[4] for span in spans)
    chunks = sum(span[3] == "forward" and span[0] == 0 and span[4] == 0 for span in spans)
    return ranks, microbatches, chunks


def row_of(spans, rank):
    """The kinds of a rank's operations in order."""
    return [span[3] for span in sorted(spans, key=lambda span: span[1]) if span[0] == rank]


def ahead(spans, rank):
    """Forwards before the first that is none."""
    row = row_of(spans, rank)
    return next(place for place, kind in enumerate(row) if kind != "forward")


# %% right: by the first rank, and the last
def read(spans):
    ranks = len({rank for rank, *_ in spans})
    microbatches = len({span[4] for span in spans})
    row = [span[3] for span in sorted(spans, key=lambda span: span[1]) if span[0] == 0]
    chunks = row.count("forward") // microbatches
    ahead = next(place for place, kind in enumerate(row) if kind != "forward")
    if "weight gradient" in row:
        name = "ZB-H2" if ahead > ranks else "ZB-H1"
    elif ahead == microbatches * chunks:
        name = "GPipe" if chunks == 1 else "breadth-first"
    elif chunks > 1:
        name = "interleaved 1F1B"
    else:
        name = "naive" if ahead == 1 else "1F1B"
    return name, ranks, microbatches, chunks


# %% right: by what every rank holds at most
def read(spans):
    ranks = len({span[0] for span in spans})
    microbatches = len({span[4] for span in spans})
    chunks = sum(span[3] == "forward" for span in spans) // (ranks * microbatches)
    held = []
    for rank in range(ranks):
        now = most = 0
        for kind in row_of(spans, rank):
            now += {"forward": 1, "backward": -1, "weight gradient": -1}.get(kind, 0)
            most = max(most, now)
        held.append(most)
    halves = any(span[3] == "input gradient" for span in spans)
    if halves:
        name = "ZB-H1" if max(held) <= ranks else "ZB-H2"
    elif chunks > 1:
        name = "breadth-first" if set(held) == {microbatches * chunks} else "interleaved 1F1B"
    else:
        name = {True: "naive", False: "1F1B"}[max(held) == 1] if held[-1] == 1 else "GPipe"
    return [name, ranks, microbatches, chunks]


# %% wrong: everything is 1F1B => values not-1f1b
def read(spans):
    return "1F1B", *counted(spans)


# %% wrong: does not sort => values -  from: by the first rank, and the last
# ~ sorted(spans, key=lambda span: span[1]) ==> spans


# %% wrong: micro-batches counted by forwards => values other-microbatches
def read(spans):
    ranks = 1 + max(span[0] for span in spans)
    return "GPipe", ranks, sum(span[3] == "forward" and span[0] == 0 for span in spans), 1


# %% wrong: the largest numbers, not how many => values other-ranks
def read(spans):
    return "GPipe", max(span[0] for span in spans), max(span[4] for span in spans), 1


# %% wrong: one chunk, always => values other-chunks
def read(spans):
    ranks, microbatches, _ = counted(spans)
    return "1F1B", ranks, microbatches, 1


# %% wrong: ZB-H1 and ZB-H2 are one => values not-zb-h1  from: by the first rank, and the last
# ~ "ZB-H2" if ahead > ranks else "ZB-H1" ==> "ZB-H1"


# %% wrong: the four numbers in another order => values no-such-word
def read(spans):
    ranks, microbatches, chunks = counted(spans)
    return ranks, microbatches, chunks, "1F1B"


# %% wrong: in words of its own => values no-such-word
def read(spans):
    return "one forward, one backward", *counted(spans)


# %% wrong: only the name => values wrong-shape
def read(spans):
    return "1F1B"


# %% wrong: the last rank decides => values -
def read(spans):
    ranks, microbatches, chunks = counted(spans)
    first = ahead(spans, ranks - 1)
    return ("1F1B" if first == 1 else "GPipe"), ranks, microbatches, chunks


# %% wrong: starts to a millionth => generality -  from: by the first rank, and the last
# ~ key=lambda span: span[1]) ==> key=lambda span: round(span[1], 6))

# %% wrong: ZB-H2 by its longest warm-up => generality not-zb-h1  from: by the first rank, and the last
# ~ ahead > ranks ==> ahead == 2 * ranks - 1

# %% half: right where there are as many ranks as in the example => 3.6  from: by the first rank, and the last
# - def read(spans):
# + from course_lib import notebook
# + SHOWN = notebook.params("read-a-gantt")
# + def read(spans):
# -         name = "ZB-H2" if ahead > ranks else "ZB-H1"
# +         name = "ZB-H2" if ahead > SHOWN.ranks else "ZB-H1"
