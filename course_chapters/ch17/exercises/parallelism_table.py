from collections.abc import Mapping

from course_grader.exercises import Card, DictOf, Maybe, Number, Rows, Word, Worth

STRATEGIES = ("dp", "fsdp", "tp", "pp", "cp")
RESHARD: Mapping[str, str] = {
    "freed": "gathered for the forward pass, freed, and gathered again for the backward pass",
    "kept": "gathered for the forward pass and kept until the backward pass has used them",
}

CARD = Card(
    title="The table of parallelisms, in bytes",
    text="""Fill the table of parallelisms for a step in which all `ranks` GPUs use **one** strategy. Write:

- `sent(model, ranks)`: the bytes that one GPU sends, as a dictionary with `dp`, `fsdp`, `tp`, `pp`, `cp`.
- `state(model, ranks)`: the bytes of state that one GPU holds, with the same keys.
- `fewest(model, ranks, memory)`: the strategy that sends the fewest bytes of those whose state fits into `memory`
  bytes; `None` if none does. State may fill the memory exactly. Of equally good ones, return any.

`model` has `parameters`, `layers`, `hidden`, `kv` (width of the keys, equal to that of the values) and `tokens` (of the
step, all GPUs together). Numbers on the wire have 2 bytes, state has 16 per parameter. With n ranks, a ring all-gather
or reduce-scatter of S bytes sends (n − 1) / n · S, an all-reduce twice that.

- **dp** all-reduces the gradients. **fsdp** cuts the state, reduce-scatters the gradients, and its weights
  are {{means}}.
- **tp** cuts every matrix. Each layer all-reduces the activations of all tokens (tokens × hidden) four times.
- **pp**: a middle stage sends all tokens' activations forward and an equal gradient back; one rank sends nothing.
- **cp** cuts the sequence. Each layer gathers the keys and values of all tokens twice, and reduce-scatters their
  gradients once. The gradients of all weights are all-reduced, too.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Which strategies send a number of bytes that depends on the tokens, and which on the parameters?",
        "Let `ring = (n - 1) / n`. Gradients and weights are 2 · parameters bytes, activations 2 · tokens · hidden, "
        "keys and values 2 · 2 · tokens · kv.",
        "dp: `2 * ring * w`; fsdp: `gathers * ring * w + ring * w`; tp: `layers * 4 * 2 * ring * a`; pp: `2 * a`; cp: "
        "`layers * 3 * ring * keys + dp`.",
    ),
    answers=("sent", "state", "fewest"),
    allowed="plain Python; the library's table is switched off.",
    hides=("course_lib.operate.capstone.strategies:parallelisms", "course_lib.parallel.planner.traffic:traffic"),
    params={"reshard": "freed", "means": RESHARD["freed"]},
    vary=lambda draw: {"reshard": "kept", "means": RESHARD["kept"]},
    structural="reshard",
    needs=("06", "07", "08", "09", "10", "11"),
    returns=Rows(
        DictOf({name: Number("bytes") for name in STRATEGIES}),
        DictOf({name: Number("bytes") for name in STRATEGIES}),
        Maybe(Word(STRATEGIES)),
    ),
)
