from course_grader.exercises import Card, ListOf, Number, Random, Rows, Worth

MIB = 2**20


# inputs and insides in MiB; each has one best cut, none of equal lengths, found by changing one cut at a time
STACKS = (
    ([8, 4, 2, 8, 4, 4, 16, 2, 16], [11, 26, 42, 8, 41, 42, 25, 4, 14]),
    ([16, 8, 16, 8, 2, 2, 16, 1, 4], [6, 5, 12, 43, 41, 42, 45, 43, 14]),
    ([2, 2, 4, 8, 4, 4, 1, 1, 16], [3, 3, 16, 23, 24, 4, 41, 21, 22]),
    ([2, 1, 16, 1, 8, 1, 4, 1, 16], [39, 10, 28, 42, 11, 3, 30, 8, 23]),
    ([16, 16, 8, 4, 1, 4, 2, 1, 1], [8, 45, 22, 25, 41, 42, 38, 16, 33]),
    ([1, 1, 2, 8, 1, 1, 8, 1, 8], [12, 15, 44, 4, 34, 23, 41, 32, 11]),
    ([2, 8, 8, 1, 8, 16, 4, 4, 16], [19, 10, 36, 43, 38, 15, 40, 39, 10]),
    ([4, 4, 2, 1, 8, 1, 1, 16, 2], [19, 26, 20, 6, 31, 17, 45, 33, 17]),
    ([4, 4, 16, 16, 1, 8, 16, 8, 2], [32, 8, 38, 38, 41, 43, 34, 18, 24]),
)


def uneven(draw: Random, layers: int) -> tuple[list[int], list[int]]:
    """Inputs and insides of layers in MiB, as unequal as those of encoders, of wide and narrow stages, of a head."""
    inputs = [draw.choice((1, 2, 4, 8, 16)) for _ in range(layers)]
    inner = [draw.choice((3, 10, 20, 40, 80)) + draw.randint(0, 6) for _ in range(layers)]
    return inputs, inner


def _cuts(inputs: list[int], inner: list[int]) -> dict[str, object]:
    table = [f"| {name} | {' | '.join(map(str, values))} |" for name, values in (("input", inputs), ("inside", inner))]
    head = f"| layer | {' | '.join(str(index) for index in range(len(inputs)))} |"
    return {
        "inputs": [mib * MIB for mib in inputs],
        "inner": [mib * MIB for mib in inner],
        "layers": len(inputs),
        "table": "\n".join([head, "|---" * (len(inputs) + 1) + "|", *table]),
    }


CARD = Card(
    title="Where to cut, when layers are unequal",
    **Worth(points=20, minutes=20, difficulty=4, importance=4),
    kind="more",
    answers=("peak_bytes", "best_segments"),
    text="""Choose where to checkpoint a stack of unequal layers, such as an encoder's, where equal segments waste
memory. The stack is cut into segments of consecutive layers:

- The forward pass keeps only the input of each segment's first layer.
- The backward pass takes the segments from last to first. It recomputes only the insides of the segment's layers,
  then frees them and its input.
- Layer i has an input of `inputs[i]` bytes and `inner[i]` bytes inside (what a plain forward pass would keep, without
  its input).

Write two functions:

- `peak_bytes(inputs, inner, starts)`: the most bytes alive at any moment of the backward pass, if segments begin at the
  layers `starts` (ascending; the first is 0).
- `best_segments(inputs, inner)`: starts with the lowest peak; any of them if there are several. It may take about a
  second for 40 layers, which have half a trillion cuts: you cannot try them all.

The visible stack, in MiB (`params("best-segments")` has bytes):

{{table}}""",
    hints=(
        "While the backward pass works on segment j, which inputs are still alive, and which are already freed?",
        "The peak is the largest over j of (inputs of segments 0 to j) + (inside of segment j). Guess a cap: is there "
        "a cut whose peak stays within it? For the layers before k, only the bytes of the inputs they keep "
        "matter later.",
        "`least[k]` is the fewest bytes of inputs kept for layers 0…k−1: over all starts s < k with `least[s] + "
        "inputs[s] + sum(inner[s:k]) <= cap`, the smallest `least[s] + inputs[s]`. Bisect the cap over whole numbers, "
        "and remember each s.",
    ),
    allowed="the standard library and numpy.",
    returns=Rows(Number("bytes"), ListOf(Number("layers", whole=True), what="start")),
    params=_cuts(*STACKS[0]),
    vary=lambda draw: _cuts(*draw.choice(STACKS[1:])),
)
