from collections.abc import Sequence

from course_chapters.ch11.exercises.judges.shared import once
from course_grader.judging import Case, Checked, Fault, Judging, Params, Random, Worked, hidden, shown, table


def _split_cases(params: Params, rng: Random) -> list[Case]:
    n = params["ranks"]

    def some(ranks: int, count: int, low: int, high: int) -> tuple[list[int], int]:
        return [rng.randrange(low, high) for _ in range(count)], ranks

    short = [([1] * 40, 4), ([2, 1, 3] * 12, 5), some(6, 30, 1, 7)]
    mixed = [([120] + [1] * 60, 4), ([1] * 90 + [90], 5), ([3] * 50 + [70] + [3] * 20, 6)]
    turned = [([40, 60, 8, 8, 8, 40], 3), ([8, 8, 40, 8, 40, 60], 3)]  # the same lengths, and other positions are deep
    return [
        shown("a long document and short ones", "values:balance", 0, [([64, 8, 24, 16], n)]),
        hidden("documents of all lengths", "values:balance", 0, [some(n, 6, 10, 80), some(3, 8, 1, 60), *turned]),
        hidden("one document", "values:balance", 0, [([97], 4), ([200], 3), ([300], 12), ([39], 10)]),
        hidden("many short documents", "generality:lengths", 0, short),
        hidden("short documents in turn", "generality:lengths", 0, [([1, 3] * 60, 2), ([3, 1] * 60, 2), ([8] * 40, 4)]),
        hidden("one long among many short", "generality:lengths", 0, mixed),
        hidden("empty documents", "generality:lengths", 0, [([0, 12, 0, 0, 9, 0], 3), ([0, 0], 2), ([], 3)]),
        hidden("more ranks than tokens", "generality:lengths", 0, [([2, 1], 5), ([1], 4), ([50], 70)]),
        hidden("one rank", "generality:lengths", 0, [([5, 0, 7], 1)]),
    ]


def _words(lengths: Sequence[int], ranks: int) -> str:
    return f"lengths {lengths[:6]}{' …' * (len(lengths) > 6)} on {ranks} ranks"


def _split_fault(row: tuple[Sequence[int], int], got: Sequence[Sequence[int]], want: object) -> Fault | None:
    lengths, ranks = row
    seen = [at + 1 for length in lengths for at in range(length)]
    parts = [[int(p) for p in own] for own in got]
    if len(parts) != ranks:
        return "wrong-shape", f"{len(parts)} lists came back; return one for each rank."
    if fault := once(parts, len(seen)):
        return fault
    work, counts = [sum(seen[p] for p in own) for own in parts], [len(own) for own in parts]
    if max(work) > 1.05 * sum(work) / ranks + max(lengths, default=0):
        told = f"the busiest rank has {max(work) * ranks / sum(work):.3g} times the mean work."
        if max(counts) - min(counts) <= 1:
            return "equal-tokens", f"{told} equal numbers of tokens are not equal work."
        return "unbalanced", told
    if max(counts) > 1.05 * sum(counts) / ranks + 1:
        return "uneven-tokens", f"a rank holds {max(counts)} tokens; the mean is {sum(counts) / ranks:.3g}."
    return None


JUDGING = Judging(
    shares="values:balance 0.6, generality:lengths 0.4",
    cases=_split_cases,
    verdicts=table(Checked("", _split_fault, words=_words), right=Worked("split-packed-documents")),
    why="""The work of a token is its position in its document, plus one. Dealing tokens in that order, back and forth,
leaves any two ranks at most one token's work apart. Real implementations cut each document in 2N blocks, because
kernels want long runs; they then pad the short ones.""",
    pytorch="Transformer Engine splits packed sequences document by document; its lengths must be divisible by 2N.",
)

ANSWERS = r'''# %% right: worked
def split_pack(lengths: list[int], ranks: int) -> list[list[int]]:
    """Each rank's positions in the pack: nearly equal work and nearly equal numbers of tokens."""
    work = [at + 1 for length in lengths for at in range(length)]
    parts = [[] for _ in range(ranks)]
    for i, position in enumerate(sorted(range(len(work)), key=lambda p: -work[p])):
        turn = i % (2 * ranks)
        parts[min(turn, 2 * ranks - 1 - turn)].append(position)
    return parts
# %% right: the least loaded rank of each round
# -     for i, position in enumerate(sorted(range(len(work)), key=lambda p: -work[p])):
# -         turn = i % (2 * ranks)
# -         parts[min(turn, 2 * ranks - 1 - turn)].append(position)
# +     order = sorted(range(len(work)), key=lambda p: -work[p])
# +     for start in range(0, len(order), ranks):
# +         least = sorted(parts, key=lambda part: sum(work[p] for p in part))
# +         for part, position in zip(least, order[start : start + ranks]):
# +             part.append(position)
# %% wrong: equal runs of tokens => values equal-tokens
# ~ return parts ==> return [part.tolist() for part in torch.arange(len(work)).tensor_split(ranks)]
# %% wrong: zig-zag over the pack => values equal-tokens
# ~ return parts ==> blocks = torch.arange(len(work)).tensor_split(2 * ranks)
# +     return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in range(ranks)]
# %% wrong: zig-zag within each document => generality equal-tokens
#       parts = [[] for _ in range(ranks)]
# +     for at, length in enumerate(lengths):
# +         blocks = (torch.arange(length) + sum(lengths[:at])).tensor_split(2 * ranks)
# +         for rank in range(ranks):
# +             parts[rank] += blocks[rank].tolist() + blocks[-1 - rank].tolist()
# +     return parts
# %% wrong: whole documents => values unbalanced
#       parts = [[] for _ in range(ranks)]
# +     for at, length in enumerate(lengths):
# +         least = min(parts, key=lambda part: sum(work[p] for p in part))
# +         least += range(sum(lengths[:at]), sum(lengths[:at]) + length)
# +     return parts
# %% wrong: work alone, tokens as they come => values uneven-tokens
# -     for i, position in enumerate(sorted(range(len(work)), key=lambda p: -work[p])):
# -         turn = i % (2 * ranks)
# -         parts[min(turn, 2 * ranks - 1 - turn)].append(position)
# +     for position in range(len(work)):
# +         parts[sum(work[:position]) * ranks // sum(work)].append(position)
# %% wrong: the rest is left over => values missing
# ~ key=lambda p: -work[p]) ==> key=lambda p: -work[p])[: len(work) // (2 * ranks) * 2 * ranks]
# %% wrong: every rank has the whole pack => values twice
# ~ return parts ==> return [list(range(sum(lengths)))] + parts[1:]
# %% wrong: a snake over the pack as it comes => generality ~
# ~ -work[p] ==> p
# %% wrong: remembers the work by tokens and documents => values equal-tokens
#       work = [at + 1 for length in lengths for at in range(length)]
# +     work = WORK.setdefault((len(work), len(lengths)), work)
#       return parts
# + WORK = {}
# %% wrong: few tokens are not worth the effort => values equal-tokens
#       work = [at + 1 for length in lengths for at in range(length)]
# +     if len(work) < 4 * ranks:
# +         return [list(range(len(work)))[4 * rank : 4 * rank + 4] for rank in range(ranks)]
'''
