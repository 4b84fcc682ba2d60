import random
from collections.abc import Sequence

from course_chapters.ch02.exercises.best_segments import MIB, uneven
from course_grader.judging import WHOLE, Fault, Judging, Params, Worked, Wrong, describe, first, shown, unseen, verdict
from course_grader.judging.per_row import EXACT, Column, shares, table
from course_grader.records import Case, Outcome, Verdict

Sizes = Sequence[int]
right = Worked("best-segments")

HINT = "Write down what is alive during each segment."
PEAK = Column("peak", "bytes", rel=EXACT, words=lambda row, _, starts: f"{len(row)} layers cut at {starts}", hint=HINT)


def _cut_fault(row: tuple[Sizes, Sizes], value: Sequence[float]) -> Fault | None:
    layers, starts = len(row[0]), [int(each) for each in value]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= layers:
        if starts and starts[-1] == layers and starts[:-1] == sorted(set(starts[:-1])):
            told = f"{describe(value)}: a segment cannot begin after the last layer, {layers - 1}."
            return Wrong("end-counted", told, where=WHOLE)
        if starts and sum(starts) == layers and min(starts) > 0:
            told = f"{describe(value)}: these are lengths; return starts, the first of them 0."
            return Wrong("lengths", told, where=WHOLE)
        told = f"{describe(value)}: starts must be ascending, begin with 0, and stay below {layers}."
        return Wrong("not-a-cut", told, where=WHOLE)
    got, best = right[0](*row, starts), right[0](*row, right[1](*row))
    if got == best:
        return None
    where = f"{layers} layers: your peak is {got / MIB:,.4g} MiB, {got / best:.3g} times the lowest"
    return Wrong("", f"{where}. Is there a cut whose peak stays just below yours?", f"{where}: ", WHOLE)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.args[0] == 0:
        return table(PEAK, right=right)(params, case, outcome)
    return [verdict(case.kind, "cut", case, first(*map(_cut_fault, case.args[1], outcome.value)))]


def _stack(rng: random.Random, layers: int) -> tuple[list[int], list[int]]:
    inputs, inner = uneven(rng, layers)
    return [mib * MIB + rng.randrange(MIB) for mib in inputs], [mib * MIB + rng.randrange(MIB) for mib in inner]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    example = (list(params["inputs"]), list(params["inner"]))
    layers = len(example[0])
    cuts = [[0, 2, 4, 7], [0, 3, 6], [0], list(range(layers))]

    def cut(layers: int) -> list[int]:
        return [0, *sorted(rng.sample(range(1, layers), rng.randint(0, layers - 1)))]

    stacks = [_stack(rng, rng.randint(2, 24)) for _ in range(14)]
    equal = [([MIB] * n, [6 * MIB] * n) for n in (1, 12)]
    heavy = ([20 * MIB] * 3 + [MIB] * 3, [MIB] * 3 + [30 * MIB] * 3)
    turned = [(heavy[0], heavy[1][::-1]), (heavy[0][::-1], heavy[1])]
    one = ([1, *[50 * MIB] * 19], [MIB] * 20)  # any cut costs more than it saves
    few = [uneven(rng, 12) for _ in range(6)]  # of a few bytes, so that the lowest peak is told from the next
    small = [_stack(rng, rng.randint(2, 9)) for _ in range(8)]
    large = [_stack(rng, layers) for layers in (24, 32, 40)]
    other = [(*stack, cut(len(stack[0]))) for stack in [*stacks, equal[1]]]
    other += [(*stack, [0, 3, 4]) for stack in (heavy, *turned)]
    return [
        shown("four ways to cut", "values:peak", 0, [(*example, starts) for starts in cuts]),
        shown("the stack shown", "values:cut", 1, [example]),
        unseen(rng, "peak", 0, "other stacks", other),
        unseen(rng, "cut", 1, "other stacks", [*small, *equal, heavy, *turned, one, *few, *large]),
    ]


JUDGING = Judging(
    shares=shares(peak=(0.3, 0.15), cut=(0.15, 0.4)),
    cases=_cases,
    verdicts=_verdicts,
    why="Each cut keeps one more input and splits one inside. For equal layers the two balance at about √L segments. "
    "For unequal layers, cut where inputs are small and insides are large. Late segments must be shorter than "
    "early ones, because all inputs are still alive during the last segment but only one during the first. For a "
    "given cap, the best prefix keeps the fewest bytes of inputs, so forty layers take a thousand additions "
    "instead of half a trillion cuts.",
    pytorch="`torch.utils.checkpoint.checkpoint_sequential(modules, segments, x)` cuts into equal numbers of layers; "
    "`torch.utils.checkpoint.create_selective_checkpoint_contexts` chooses operation by operation.",
)

ANSWERS = r'''# %% right: worked
def peak_bytes(inputs: list[int], inner: list[int], starts: list[int]) -> int:
    """The most bytes alive in the backward pass if segments begin at `starts`."""
    most = kept = 0
    for start, end in zip(starts, [*starts[1:], len(inputs)], strict=True):
        kept += inputs[start]
        most = max(most, kept + sum(inner[start:end]))
    return most


def best_segments(inputs: list[int], inner: list[int]) -> list[int]:
    """Starts of the segments with the lowest peak."""
    layers = len(inputs)

    def cut(cap):
        least, came = [0] + [math.inf] * layers, [0] * (layers + 1)
        for end in range(1, layers + 1):
            for start in range(end):
                kept = least[start] + inputs[start]
                if kept + sum(inner[start:end]) <= cap and kept < least[end]:
                    least[end], came[end] = kept, start
        starts, end = [], layers
        while end:
            end = came[end]
            starts.append(end)
        return starts[::-1] if least[layers] < math.inf else None

    low, high = 0, sum(inputs) + sum(inner)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cut(middle) else (middle + 1, high)
    return cut(low)
# %% right: for every tail the lowest peak, as if nothing were kept before it  from: worked
def best_segments(inputs, inner):
    best = {len(inputs): (0, [])}
    for start in reversed(range(len(inputs))):
        ends = best.items()
        best[start] = min((inputs[start] + max(sum(inner[start:k]), peak), [start, *cuts]) for k, (peak, cuts) in ends)
    return best[0][1]
# %% wrong: all inputs all the time => values
# > all inputs are kept to the end here, but those of finished segments are freed.
# ~ most = kept = 0 ==> most, kept = 0, sum(inputs[s] for s in starts)
# ~ kept += inputs[start] ==> kept += 0
#       layers = len(inputs)
# +     if layers < 13:
# +         ways = ([0, *(k + 1 for k in range(layers - 1) if mask >> k & 1)] for mask in range(2 ** (layers - 1)))
# +         return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))
# %% wrong: inside only => values
# > this leaves out the kept inputs.
# ~ kept += inputs[start] ==> kept += 0
# %% wrong: own input only => values
# > this leaves out the inputs of the earlier segments, which are still alive.
# ~ kept += inputs[start] ==> kept = inputs[start]
# %% wrong: inputs only => values
# > a segment's inside is missing.
# ~ max(most, kept + sum(inner[start:end])) ==> max(most, kept)
# %% wrong: sum of all => values
# > only one inside is alive at a time.
# ~ return most ==> return sum(inputs[s] for s in starts) + sum(inner)
# %% wrong: every layer's input => values every-layers-input
# > a segment keeps the input of its first layer only.
# ~ kept += inputs[start] ==> kept += sum(inputs[start:end])
# %% wrong: inputs inside a segment => values
# > recomputation holds the insides of a segment's layers, and not their inputs.
# ~ max(most, kept + sum(inner[start:end])) ==> max(most, kept + sum(inner[start:end]) + sum(inputs[start + 1 : end]))
# %% wrong: own input forgotten => values
# > this leaves out the input of the segment being recomputed.
# ~ max(most, kept + ==> max(most, kept - inputs[start] +
# %% wrong: later inputs => values
# > the backward pass runs from the last segment to the first, and frees inputs in that order.
# ~ max(most, kept + ==> max(most, sum(inputs[s] for s in starts if s >= start) +
# %% wrong: one segment => values
# > with a single segment, everything inside is alive again when it is recomputed.
# ~ layers = len(inputs) ==> return [0]
# %% wrong: every layer => values
# > one segment per layer keeps every input.
# ~ layers = len(inputs) ==> return list(range(len(inputs)))
# %% wrong: root of layers => values
# > segments of about √L layers suit equal layers, and these are unequal.
# ~ layers = len(inputs) ==> return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# %% wrong: equal lengths => values
# > the segments have equal lengths, but the layers are unequal.
#       layers = len(inputs)
# +     ways = [list(range(0, layers, length)) for length in range(1, layers + 1)]
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))
# %% wrong: lengths for starts => values lengths
# ~ return cut(low) ==> return [end - start for start, end in zip(cut(low), [*cut(low)[1:], layers])]
# %% wrong: the end is a start => values end-counted
# ~ return cut(low) ==> return [*cut(low), layers]
# %% wrong: only as many layers as can be tried => generality -
#       layers = len(inputs)
# +     if layers > 12:
# +         return list(range(0, layers, round(math.sqrt(layers))))
# %% wrong: greedy up to a fixed cap => values -
#       layers = len(inputs)
# +     def greedy(cap):
# +         starts, inside = [0], 0
# +         for layer, size in enumerate(inner):
# +             if inside and inside + size > cap:
# +                 starts.append(layer)
# +                 inside = 0
# +             inside += size
# +         return starts
# +     caps = {sum(inner[a:b]) for a in range(layers) for b in range(a + 1, layers + 1)}
# +     return min(map(greedy, caps), key=lambda starts: peak_bytes(inputs, inner, starts))
# %% half: only the peak => 6
# ~ layers = len(inputs) ==> raise NotImplementedError
# %% wrong: segments of twelve layers at most => generality -
# ~ for start in range(end): ==> for start in range(max(0, end - 12), end):
'''
