from collections.abc import Sequence
from typing import TypedDict

from course_grader.exercises import Card, Random, Worth, rows

_LOGS = {
    "events": """with one row per event, in order of time: `"what"` is `"alloc"` or `"free"`, `"name"` is the block and
`"time"` the time. An allocation also has `"bytes"` and a `"kind"`. A name can be reused after it was freed. Rows with
the same time take effect in their order, and the level after each of them counts""",
    "lifetimes": """with one row per block, in no order: `"name"`, `"kind"`, `"bytes"`, and its lifetime, from `"born"`
until just before `"died"`; `None` means that it was never freed. A block born at the time another dies can take its
place""",
}
KINDS = ("weights", "gradients", "moments", "activations", "work space")


class Row(TypedDict, total=False):
    """A row of a log: an event, or a block with its lifetime."""

    name: str
    kind: str
    bytes: int
    what: str
    time: float
    born: float
    died: float | None


def training_log(draw: Random, layers: int, form: str, unit: int = 2**20) -> list[Row]:
    """Allocations of two small training steps, as rows of events or of lifetimes."""
    clock = 0.0
    blocks: list[Row] = []

    def tick() -> float:
        nonlocal clock
        clock = round(clock + draw.choice((0.5, 1.0, 1.5, 2.0)), 1)
        return clock

    def born(name: str, kind: str, low: int, high: int) -> Row:
        block: Row = {"name": name, "kind": kind, "bytes": unit * draw.randint(low, high), "born": tick(), "died": None}
        blocks.append(block)
        return block

    weights = [born(f"w{layer}", "weights", 20, 40) for layer in range(layers)]
    moments: list[Row] = []
    for _ in range(2):
        alive = [born(f"a{layer}", "activations", 30, 90) for layer in range(layers)]
        grads = []
        for layer in reversed(range(layers)):
            work = born("scratch", "work space", 10, 60)
            size = weights[layer]["bytes"] // unit
            grads.append(born(f"g{layer}", "gradients", size, size))
            work["died"] = tick()
            alive[layer]["died"] = clock
        if not moments:
            moments = [born(f"m{layer}", "moments", 40, 80) for layer in range(layers)]
        for grad in grads:
            grad["died"] = tick()
    return as_events(blocks) if form == "events" else draw.sample(blocks, len(blocks))


def event(time: float, what: str, block: Row) -> Row:
    """A row of a log of events: what happens to a block at a time, "alloc" or "free"."""
    row: Row = {"time": time, "what": what, "name": block["name"]}
    return {**row, "kind": block["kind"], "bytes": block["bytes"]} if what == "alloc" else row


def as_events(blocks: Sequence[Row]) -> list[Row]:
    """The same as rows of allocations and frees; blocks that die at a time come before those born then."""
    rows = [(block["born"], 1, at, event(block["born"], "alloc", block)) for at, block in enumerate(blocks)]
    dead = [(died, at, block) for at, block in enumerate(blocks) if (died := block["died"]) is not None]
    rows += [(died, 0, at, event(died, "free", block)) for died, at, block in dead]
    return [row for *_, row in sorted(rows, key=lambda each: each[:3])]


def _log(form: str, seed: str) -> dict[str, object]:
    log = training_log(Random(seed), 2, form)
    shown = "\n".join(f"    {row}" for row in log[:4])
    return {"log": form, "log_words": _LOGS[form], "rows": log, "count": len(log), "shown": shown}


CARD = Card(
    title="The peak, not the sum",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    answers=("peak",),
    text="""Write `peak(log)`, which finds the moment at which a job needs the most memory, and what fills it then. A
log is a list of dictionaries, {{log_words}}. The log of two steps of a small model is in `params("peak-not-sum").rows`.
It has {{count:int}} rows and begins:

```text
{{shown}}
```

`peak(log)` returns `(bytes, time, kind)`: the most bytes alive at any moment, the **first** time at which that many
were alive, and the kind that held most of them, all blocks of a kind together. Nothing was alive before the log began.
All numbers must be exact.""",
    hints=(
        "If you saw only the last row of the log, how many bytes would be alive?",
        "Go through the moments in order and keep the bytes alive of each kind. Whenever the total exceeds all "
        "earlier totals, record the total, the time and the largest kind. A free has only a name, so remember what "
        "the name refers to.",
        "`alive[name] = (kind, bytes)` on an allocation, `alive.pop(name)` on a free; `total = sum(…)`; `if total > "
        "best: best, when, held = total, time, kinds_of(alive)`. With lifetimes, the total rises only when a block is "
        "born, so look at each `born`.",
    ),
    allowed="the standard library and numpy.",
    params=_log("events", "log 7"),
    vary=lambda draw: _log("lifetimes", str(draw.random())),
    structural="log",
    probe=rows,
)
