from typing import TypedDict

from course_chapters.ch03.exercises.shared import OTHERS
from course_grader.exercises import Card, ListOf, Number, Rows, Worth
from course_grader.exercises.snippets import CLOSE, markdown_table
from course_lib.estimate import facts
from course_lib.estimate.units import GB

_PHASES = {
    "in turn": "one after another: a level starts when the one before is done",
    "at once": "all at the same time, each level on its own wires; the last one to finish determines the time",
}


class Level(TypedDict):
    """A level of a cluster, as a document prints it."""

    name: str
    rate: float
    shared_by: int
    directions: int
    oversubscription: float


def level(name: str, rate: float, shared_by: int, directions: int, oversubscription: float) -> Level:
    return Level(name=name, rate=rate, shared_by=shared_by, directions=directions, oversubscription=oversubscription)


def sheet_levels(device: str, oversubscription: float) -> list[Level]:
    """Levels as documents print them: some with both directions, some per server, and an oversubscribed top."""
    one = facts.device(device)
    servers = int(facts.topology("Llama 3 cluster").devices("server"))
    adapter = float(one.network_one_way)
    return [
        level("server", float(one.link_both_ways), 1, 2, 1),
        level("rack", adapter * servers, servers, 1, 1),
        level("pod", adapter, 1, 1, 1),
        level("cluster", adapter, 1, 1, oversubscription),
    ]


def _hierarchy(phases: str, device: str, oversubscription: float) -> dict[str, object]:
    levels = sheet_levels(device, oversubscription)
    names = {"server": "NVLink", "rack": "all adapters of a server", "pod": "one adapter", "cluster": "one adapter"}
    lines = [
        (
            one["name"],
            names[one["name"]],
            f"{one['rate'] / GB:,.4g} GB/s",
            *(f"{each:g}" for each in (one["shared_by"], one["directions"], one["oversubscription"])),
        )
        for one in levels
    ]
    table = markdown_table("level | wire | `rate` | `shared_by` | `directions` | `oversubscription`", lines)
    return {"phases": phases, "phases_words": _PHASES[phases], "device": device, "levels": levels, "table": table}


CARD = Card(
    title="From the server to the cluster, in one direction",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    kind="more",
    answers=("cross_bandwidth", "effective_bandwidth"),
    text=f"""Find the bandwidth that one device really gets at each level of a cluster, and over several levels at once.
Four documents describe four levels of one cluster, each in its own way:

{{{{table}}}}

`rate` is in bytes a second; `shared_by` devices share it; `directions` is 2 if both directions were added;
`oversubscription` is what the units inside could send divided by what this level lets pass.

- `cross_bandwidth(levels)`: a list with one number per level, from the inside out: the bytes a second that **one
  device** gets in **one direction** when all devices send across that level at once. Bytes that cross a level have
  crossed all the levels inside it, so they get at most what those let pass.
- `effective_bandwidth(shares, rates)`: a device sends one buffer, of which the fraction `shares[i]` goes over a wire of
  `rates[i]` bytes a second, {{{{phases_words}}}}. Return the buffer's bytes divided by the time. Shares add up to one;
  some may be 0.

The visible case has the four levels (`params("hierarchical-bandwidth").levels`), and a buffer, a quarter of which
leaves the server over the rack's wires. {CLOSE}""",
    hints=(
        "Is the number in each row for one device or eight, for one direction or two, and for all devices at once?",
        "Convert each level to one device and one direction, divide by its oversubscription, and never let the result "
        "grow on the way out. For the buffer, add seconds, not bandwidths.",
        "`own = rate / shared_by / directions / oversubscription`; `passed = min(passed, own)`; `1 / sum(s / r)` in "
        "turn, `1 / max(s / r)` at once.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.wires:levels",),
    params=_hierarchy("in turn", "H100 SXM", float(facts.topology("Llama 3 cluster").levels[-1].oversubscription or 1)),
    vary=lambda draw: _hierarchy("at once", draw.choice(OTHERS), draw.choice((2.0, 3.0, 4.0))),
    structural="phases",
    returns=Rows(ListOf(Number("bytes/s"), what="level"), Number("bytes/s")),
)
