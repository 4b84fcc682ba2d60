"""Further exercises of chapter 10: interleaving, an open contest at equal memory, uneven layers, and reading a chart."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.audits import causes_text
from course_lib.exercises.ch10.cards.core import GENERATORS, ROWS
from course_lib.exercises.ch10.probes import rows, rows_or_refusal
from course_lib.exercises.returns import ListOf, Number, TupleOf, Word

INTERLEAVED_ROWS = Card(
    id="interleaved-rows",
    chapter="10",
    title="Several chunks per rank",
    text=f"""Write `interleaved_rows(ranks, microbatches, chunks)`, the schedule of interleaved 1F1B. {ROWS} Now each rank holds `chunks` stages, two or more: stage s is on rank s mod `ranks`, and there are `ranks` · `chunks`
stages in all. A stage takes 1/`chunks` of the time that all the stages of a rank take.

- **Time.** With forward and backward the times of all the stages of a rank, it takes at most
  microbatches · (forward + backward) + (ranks − 1) · (forward + backward) / chunks: the bubble is 1/chunks of 1F1B's.
- **Memory.** Rank r holds activations of at most 2·(ranks − 1 − r) + (chunks − 1)·ranks + 1 chunks at once.
- **Refusal.** Micro-batches run in rounds of `ranks`. If they do not form whole rounds, raise a ValueError that says which numbers fit.""",
    **Worth(points=10, minutes=20, difficulty=5, importance=4),
    kind="more",
    hints=(
        "What can rank 0 do while micro-batch 0 passes the first stages of all ranks, and when it comes back for the second chunk?",
        "The k-th forward of a rank belongs to chunk (k // ranks) mod chunks: a round of micro-batches on the first chunk, then the same "
        "ones on the next. Backwards count the chunks from the other end. Forwards and backwards alternate after a longer warm-up.",
        "Forward k: chunk `k // ranks % chunks`, micro-batch `k // (ranks * chunks) * ranks + k % ranks`. Warm-up of rank r: "
        "`2 * (ranks - 1 - r) + (chunks - 1) * ranks` forwards, all of them at most; then one forward, one backward.",
    ),
    answers=("interleaved_rows",),
    allowed="plain Python; the library's generators are switched off.",
    hides=GENERATORS,
    params={"ranks": 4, "microbatches": 8, "chunks": 2},
    vary=lambda draw: dict(
        zip(("ranks", "microbatches", "chunks"), draw.choice(((3, 9, 2), (2, 8, 3), (4, 12, 2))), strict=True)
    ),
    probe=rows_or_refusal,
)


BEAT_1F1B = Card(
    id="beat-1f1b",
    chapter="10",
    title="Beat 1F1B at its own memory",
    text=f"""Write `split_rows(stages, microbatches, times)`, a schedule that beats 1F1B without holding more memory. {ROWS} A backward may also be split: `("I", s, m)` is the input gradient, which the previous stage waits for;
`("W", s, m)` is the weight gradient, which no other operation waits for. `W` comes after `I` on its rank. Stage s stays on rank s.

`times` has the durations of a forward, an input gradient and a weight gradient, the same on all stages.
A whole `B` takes as long as `I` and `W` together. The step ends when the last rank has finished its last operation.

**Equal memory.** No rank may hold activations of more than `stages` micro-batches at once, as many as the fullest rank of 1F1B.
Activations are held from the start of `F` until the end of `W` (or `B`): an `I` alone frees nothing.

**Points by distance.** No schedule under these rules can end before this bound, the largest over stages s of

> m·(t_F + t_I + t_W) + max(s·t_F, p·t_F + (p − 1 − s)·t_I − k·t_F) + max(0, s·t_I + t_W − k·t_W), where k = min(p, m)

for p stages, m micro-batches and `times` = (t_F, t_I, t_W). The first maximum is how long rank s must wait before its first input gradient can start, with at
most k forwards to do meanwhile. The last one is the time after its last input gradient, with at most k weight gradients to fill it.
You earn points for a quarter, a half, nine tenths and all of the way from 1F1B's end to the bound. The worst case counts, of
{{{{stages}}}} stages with {{{{microbatches}}}} micro-batches and several unseen settings, all with at least as many micro-batches as stages.""",
    **Worth(points=12, minutes=30, difficulty=5, importance=4),
    kind="more",
    hints=(
        "Where does 1F1B idle, on the last rank and on the first? Which operations can move there without making another rank wait?",
        "Delay some weight gradients until the pipeline drains. Each keeps its activations until then, and rank r of 1F1B holds only "
        "stages − r micro-batches: how many can it delay?",
        "Split every B of 1F1B into I and W. Let rank r do the W of micro-batch k after the I of micro-batch k + r, and the remaining "
        "W at the end. Draw it with `play` and look at the idle time.",
    ),
    answers=("split_rows",),
    allowed="everything but the library's generators: search with `play`, if you like.",
    hides=GENERATORS,
    params={"stages": 4, "microbatches": 8},
    vary=lambda draw: {"stages": draw.choice((4, 5)), "microbatches": draw.choice((8, 10, 12))},
    probe=rows,
)

UNEVEN_LAYERS = Card(
    id="uneven-layers",
    chapter="10",
    title="Layers that differ",
    text="""Write `cut_layers(costs, stages)`, which divides unequal layers into stages so that the slowest stage takes as little time as possible: it
sets the pace of the whole pipeline. An embedding costs little, and a head with a large vocabulary costs as much as several blocks.
Layers stay in their order.

`costs` is a list with the time of each layer, embedding and head included. Return a list of **how
many layers** each stage gets, first stage first, with at least one layer each. There are {{layers}} layers in the example and up to a hundred in the unseen cases. If several cuts are equally good, any will do.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Filling one stage after another up to the average looks reasonable. What happens to the last stage?",
        "If you knew the largest time allowed, filling greedily would show whether it can be kept. Which times can be the answer?",
        "Or by dynamic programming: `best[k][i]` = least slowest stage when layers from i on make k stages = min over j of "
        "`max(sum(costs[i:j]), best[k-1][j])`; remember the j.",
    ),
    answers=("cut_layers",),
    allowed="plain Python and numpy; the library's `cut` is switched off.",
    hides=("schedules:cut", "schedules:cut_evenly"),
    params={"layers": 12, "stages": 4},
    vary=lambda draw: dict(
        zip(("layers", "stages"), draw.choice(((11, 3), (13, 3), (14, 3), (14, 4), (14, 5))), strict=True)
    ),
    returns=ListOf(Number("layers", whole=True), what="stage"),
)

COUNT = Number(whole=True)
NAMES: Mapping[str, str] = {
    "naive": "one micro-batch at a time",
    "GPipe": "all forwards, then all backwards",
    "1F1B": "a few forwards, then one forward, one backward",
    "breadth-first": "several chunks a rank; all forwards, then all backwards",
    "interleaved 1F1B": "several chunks a rank, forwards and backwards alternating",
    "ZB-H1": "backwards in two halves, at 1F1B's memory",
    "ZB-H2": "backwards in two halves, with up to twice the forwards ahead",
}


READ_A_GANTT = Card(
    id="read-a-gantt",
    chapter="10",
    title="Which schedule was that?",
    text=f"""A profiler shows which rank did what and when, but not the schedule. Write `read(spans)`. `spans` is a list of
`(rank, start, end, kind, microbatch)` of one step, in **no** order; kinds are `"forward"`, `"backward"`, `"input gradient"` and
`"weight gradient"`. Return `(name, ranks, microbatches, chunks)`. The name of the schedule is one of

{causes_text(NAMES)}

The other three are how many ranks, micro-batches and chunks per rank there were (1 where a rank had one stage). Micro-batches are
numbered from 0. There are at least two ranks and more micro-batches than ranks. Times are of any size, and vary.""",
    **Worth(points=6, minutes=15, difficulty=3, importance=3),
    kind="more",
    hints=(
        "Which of the three numbers can simply be counted? What do several forwards of the same micro-batch on one rank mean?",
        "Sort one rank's spans by their start. The first rank's row separates most names: how many forwards come before its first backward, "
        "and how many are there in all?",
        "Weight gradients: ZB-H1 or ZB-H2, by whether rank 0 does more than `ranks` forwards before its first input gradient. "
        "Else: rank 0 with a single forward before its first backward is naive; all forwards first is GPipe or breadth-first, by chunks; "
        "else 1F1B or interleaved.",
    ),
    answers=("read",),
    params={"ranks": 4, "microbatches": 8},
    vary=lambda draw: {"ranks": draw.choice((3, 4)), "microbatches": draw.choice((6, 12))},
    returns=TupleOf({"name": Word([*NAMES]), "ranks": COUNT, "microbatches": COUNT, "chunks": COUNT}),
)

PROBLEMS = (INTERLEAVED_ROWS, BEAT_1F1B, UNEVEN_LAYERS, READ_A_GANTT)
