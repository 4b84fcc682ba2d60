"""Judge of best-segments: where to cut, when layers are unequal."""

import math
import random
from collections.abc import Callable, Sequence

from course_lib.exercises.ch02.best_segments import MIB, uneven
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, matching, verdict
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import unseen
from course_lib.records import Case, Outcome, Verdict

Sizes = Sequence[int]


def spans(starts: Sizes, layers: int) -> list[tuple[int, int]]:
    """(first layer, one past the last) of every segment."""
    return list(zip(starts, [*starts[1:], layers], strict=True))


def walked(inputs: Sizes, inner: Sizes, starts: Sizes) -> int:
    """The most bytes alive in the backward pass, by stepping through it."""
    alive, peak = {start: inputs[start] for start in starts}, 0
    for start, end in reversed(spans(starts, len(inputs))):
        peak = max(peak, sum(alive.values()) + sum(inner[start:end]))
        del alive[start]
    return peak


def fits(inputs: Sizes, inner: Sizes, cap: int) -> list[int] | None:
    """Starts whose peak is within `cap`, or None; keeps the fewest bytes of inputs for every prefix of layers."""
    layers = len(inputs)
    least: list[float] = [0.0] + [math.inf] * layers
    came = [0] * (layers + 1)
    for end in range(1, layers + 1):
        inside = 0
        for start in range(end - 1, -1, -1):
            inside += inner[start]
            kept = least[start] + inputs[start]
            if kept + inside <= cap and kept < least[end]:
                least[end], came[end] = kept, start
    if least[layers] == math.inf:
        return None
    starts, end = [], layers
    while end:
        end = came[end]
        starts.append(end)
    return starts[::-1]


def lowest(inputs: Sizes, inner: Sizes) -> int:
    """The lowest peak that any cut has."""
    low, high = 0, sum(inputs) + sum(inner)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(inputs, inner, middle) is not None else (middle + 1, high)
    return low


def every(layers: int, length: int) -> list[int]:
    """Starts of segments of one length."""
    return list(range(0, layers, max(1, length)))


def _inputs_and_inside(inputs: Sizes, inner: Sizes, starts: Sizes) -> tuple[int, int]:
    """Bytes of all inputs that are kept, and of the largest segment's inside."""
    return sum(inputs[s] for s in starts), max(sum(inner[a:b]) for a, b in spans(starts, len(inputs)))


def _by_segment(alive: Callable[[Sizes, Sizes, int, int, int], int]) -> Callable[[Sizes, Sizes, Sizes], int]:
    """A peak whose inputs are `alive` (inputs, starts, number of the segment, its first layer, one past its last)."""
    return lambda inputs, inner, starts: max(
        alive(inputs, starts, at, a, b) + sum(inner[a:b]) for at, (a, b) in enumerate(spans(starts, len(inputs)))
    )


ONE_INPUT = "a segment keeps the input of its first layer only."
FREED = "this keeps all inputs to the end, but those of finished segments are freed."
OWN_INPUT = "this leaves out the input of the segment being recomputed."
BACKWARD = "the backward pass runs from the last segment to the first, and frees inputs in that order."

PEAK = Column(
    part="peak",
    unit="bytes",
    want=walked,
    rel=EXACT,
    words=lambda inputs, inner, starts: f"{len(inputs)} layers cut at {list(starts)}",
    hint="Write down what is alive during each segment.",
).knowing(
    Mistake("all-inputs-all-the-time", lambda *row: sum(_inputs_and_inside(*row)), FREED),
    Mistake("inside-only", lambda *row: _inputs_and_inside(*row)[1], "this leaves out the kept inputs."),
    Mistake("inputs-only", lambda *row: _inputs_and_inside(*row)[0], "a segment's inside is missing."),
    Mistake("sum-of-all", lambda i, n, s: sum(i[a] for a in s) + sum(n), "only one inside is alive at a time."),
    Mistake("every-layers-input", _by_segment(lambda i, s, at, a, b: sum(i[:b])), ONE_INPUT),
    Mistake("own-input-forgotten", _by_segment(lambda i, s, at, a, b: sum(i[c] for c in s[:at])), OWN_INPUT),
    Mistake("later-inputs", _by_segment(lambda i, s, at, a, b: sum(i[c] for c in s[at:])), BACKWARD),
)


def _known_cuts(inputs: Sizes, inner: Sizes) -> list[Mistake]:
    """Mistakes whose value is a list of cuts."""
    layers = len(inputs)
    root = math.sqrt(layers)
    rooted = [every(layers, length) for length in (round(root), math.ceil(root), math.floor(root))]
    rooted.append([k * layers // round(root) for k in range(round(root))])
    even = [every(layers, length) for length in range(1, layers + 1)]
    masks = range(1, 2 ** (layers - 1)) if layers <= 10 else ()
    cuts = ([0, *(k + 1 for k in range(layers - 1) if mask >> k & 1)] for mask in masks)
    blind = min(cuts, key=lambda cut: sum(_inputs_and_inside(inputs, inner, cut)), default=None)
    return [
        Mistake("one-segment", [[0]], "with a single segment, everything inside is alive again when it is recomputed."),
        Mistake("every-layer", [every(layers, 1)], "one segment per layer keeps every input."),
        Mistake("root-of-layers", rooted, "segments of about √L layers suit equal layers, and these are unequal."),
        Mistake("equal-lengths", even, "the segments have equal lengths, but the layers are unequal."),
        Mistake("all-inputs-all-the-time", [blind], "this cut would be best if all inputs stayed alive to the end."),
    ]


def _cut_fault(row: tuple[Sizes, Sizes], value: Sequence[float]) -> Fault | None:
    inputs, inner = row
    layers = len(inputs)
    starts = [int(each) for each in value]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= layers:
        if starts and starts[-1] == layers and starts[:-1] == sorted(set(starts[:-1])):
            return "end-counted", f"{describe(value)}: a segment cannot begin after the last layer, {layers - 1}."
        if starts and sum(starts) == layers and min(starts) > 0:
            return "lengths", f"{describe(value)}: these are lengths; return starts, the first of them 0."
        return "not-a-cut", f"{describe(value)}: starts must be ascending, begin with 0, and stay below {layers}."
    got, best = walked(inputs, inner, starts), lowest(inputs, inner)
    if got == best:
        return None
    where = f"{layers} layers: your peak is {got / MIB:,.4g} MiB, {got / best:.3g} times the lowest. "
    known = matching(_known_cuts(inputs, inner), (), lambda cuts: starts in cuts, where)
    return known or ("", where + "Is there a cut whose peak stays just below yours?")


def _verdicts(params: Params, case: Case, outcome: Outcome) -> Sequence[Verdict]:
    if case.args[0] == 0:
        return table(PEAK)(params, case, outcome)
    return [verdict(case.kind, "cut", case, first(*map(_cut_fault, case.args[1], outcome.value)))]


def _stack(rng: random.Random, layers: int) -> tuple[list[int], list[int]]:
    inputs, inner = uneven(rng, layers)
    return [mib * MIB + rng.randrange(MIB) for mib in inputs], [mib * MIB + rng.randrange(MIB) for mib in inner]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    example = (list(params["inputs"]), list(params["inner"]))
    layers = len(example[0])
    cuts = [[0, 2, 4, 7], every(layers, 3), [0], every(layers, 1)]

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
    return [
        shown("four ways to cut", "values:peak", 0, [(*example, starts) for starts in cuts]),
        shown("the stack shown", "values:cut", 1, [example]),
        unseen(
            rng,
            "peak",
            0,
            "other stacks",
            [(*stack, cut(len(stack[0]))) for stack in [*stacks, equal[1]]]
            + [(*stack, [0, 3, 4]) for stack in (heavy, *turned)],
        ),
        unseen(rng, "cut", 1, "other stacks", [*small, *equal, heavy, *turned, one, *few, *large]),
    ]


JUDGING = Judging(
    shares={"values:peak": 0.3, "values:cut": 0.15, "generality:peak": 0.15, "generality:cut": 0.4},
    cases=_cases,
    verdicts=_verdicts,
    why="Each cut keeps one more input and splits one inside. For equal layers the two balance at about √L segments. For unequal layers, "
    "cut where inputs are small and insides are large. Late segments must be shorter than early ones, because all inputs are still "
    "alive during the last segment but only one during the first. For a given cap, the best prefix keeps the fewest bytes of inputs, "
    "so forty layers take a thousand additions instead of half a trillion cuts.",
    pytorch="`torch.utils.checkpoint.checkpoint_sequential(modules, segments, x)` cuts into equal numbers of layers; "
    "`torch.utils.checkpoint.create_selective_checkpoint_contexts` chooses operation by operation.",
)

ANSWERS = r"""import math


# %% right: bisect the cap, fewest inputs for every prefix
def peak_bytes(inputs, inner, starts):
    peak = kept = 0
    for start, end in zip(starts, [*starts[1:], len(inputs)]):
        kept += inputs[start]
        peak = max(peak, kept + sum(inner[start:end]))
    return peak


def best_segments(inputs, inner):
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
        if cut(middle):
            high = middle
        else:
            low = middle + 1
    return cut(low)


# %% right: for every prefix all (inputs, peak) that nothing beats
def peak_bytes(inputs, inner, starts):
    ends = [*starts[1:], len(inputs)]
    return max(sum(inputs[s] for s in starts[: j + 1]) + sum(inner[starts[j] : ends[j]]) for j in range(len(starts)))


def best_segments(inputs, inner):
    front = [[(0, 0, ())]]
    for end in range(1, len(inputs) + 1):
        found = []
        for start in range(end):
            for kept, peak, starts in front[start]:
                now = kept + inputs[start]
                found.append((now, max(peak, now + sum(inner[start:end])), (*starts, start)))
        found.sort()
        best, lowest = [], math.inf
        for each in found:
            if each[1] < lowest:
                best.append(each)
                lowest = each[1]
        front.append(best)
    return min(front[-1], key=lambda each: each[1])[2]


# %% wrong: root of the number of layers => values root-of-layers  from: for every prefix all (inputs, peak) that nothing beats
def best_segments(inputs, inner):
    return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))


# %% wrong: one segment => values one-segment  from: root of the number of layers
# ~ list(range(0, len(inputs), round(math.sqrt(len(inputs))))) ==> [0]

# %% wrong: the best equal length => values every-layer  from: root of the number of layers
# -     return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# +     ways = [list(range(0, len(inputs), length)) for length in range(1, len(inputs) + 1)]
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))

# %% wrong: all inputs stay to the end => values all-inputs-all-the-time  from: root of the number of layers
# -     return max(sum(inputs[s] for s in starts[: j + 1]) + sum(inner[starts[j] : ends[j]]) for j in range(len(starts)))
# +     return sum(inputs[s] for s in starts) + max(sum(inner[a:b]) for a, b in zip(starts, ends))
# -     return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# +     n = len(inputs)
# +     ways = ([0, *(k + 1 for k in range(n - 1) if mask >> k & 1)] for mask in range(2 ** (min(n, 14) - 1)))
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))


# %% wrong: the sum of everything => values sum-of-all
def peak_bytes(inputs, inner, starts):
    return sum(inputs[s] for s in starts) + sum(inner)


def best_segments(inputs, inner):
    return [0]


# %% wrong: every layer's input counted => values every-layers-input  from: the sum of everything
# -     return sum(inputs[s] for s in starts) + sum(inner)
# +     ends = [*starts[1:], len(inputs)]
# +     return max(sum(inputs[:b]) + sum(inner[a:b]) for a, b in zip(starts, ends))

# %% wrong: from the front to the back => values later-inputs  from: the sum of everything
# -     return sum(inputs[s] for s in starts) + sum(inner)
# +     alive, peak = sum(inputs[s] for s in starts), 0
# +     for start, end in zip(starts, [*starts[1:], len(inputs)]):
# +         peak = max(peak, alive + sum(inner[start:end]))
# +         alive -= inputs[start]
# +     return peak

# %% wrong: lengths for starts => values lengths  from: root of the number of layers
# ~ list(range(0, len(inputs), round(math.sqrt(len(inputs))))) ==> [3] * (len(inputs) // 3)

# %% wrong: only as many layers as can be tried => generality -  from: root of the number of layers
# -     return list(range(0, len(inputs), round(math.sqrt(len(inputs)))))
# +     n = len(inputs)
# +     if n > 12:
# +         return list(range(0, n, round(math.sqrt(n))))
# +     ways = ([0, *(k + 1 for k in range(n - 1) if mask >> k & 1)] for mask in range(2 ** (n - 1)))
# +     return min(ways, key=lambda starts: peak_bytes(inputs, inner, starts))


# %% wrong: greedy up to a fixed cap => values -  from: for every prefix all (inputs, peak) that nothing beats
def best_segments(inputs, inner):
    best = None
    for cap in sorted({sum(inner[a:b]) for a in range(len(inner)) for b in range(a + 1, len(inner) + 1)}):
        starts, inside = [0], 0
        for layer, size in enumerate(inner):
            if inside and inside + size > cap:
                starts.append(layer)
                inside = 0
            inside += size
        if best is None or peak_bytes(inputs, inner, starts) < peak_bytes(inputs, inner, best):
            best = starts
    return best


# %% half: only the peak => 6  from: root of the number of layers
# ~ return list(range(0, len(inputs), round(math.sqrt(len(inputs))))) ==> raise NotImplementedError

# %% wrong: segments of twelve layers at most => generality -  from: bisect the cap, fewest inputs for every prefix
# ~ for start in range(end): ==> for start in range(max(0, end - 12), end):
"""
