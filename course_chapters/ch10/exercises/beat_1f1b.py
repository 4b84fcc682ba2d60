from course_chapters.ch10.exercises.probes import rows
from course_chapters.ch10.exercises.shared import GENERATORS, ROWS
from course_grader.exercises import Card, Worth

CARD = Card(
    title="Beat 1F1B at its own memory",
    text=f"""Write `split_rows(stages, microbatches, times)`, a schedule that beats 1F1B without holding more memory.
{ROWS} A backward may also be split: `("I", s, m)` is the input gradient, which the previous stage waits for;
`("W", s, m)` is the weight gradient, which no other operation waits for. `W` comes after `I` on its rank. Stage s stays
on rank s.

`times` has the durations of a forward, an input gradient and a weight gradient, the same on all stages.
A whole `B` takes as long as `I` and `W` together. The step ends when the last rank has finished its last operation.

**Equal memory.** No rank may hold activations of more than `stages` micro-batches at once, as many as the fullest rank
of 1F1B. Activations are held from the start of `F` until the end of `W` (or `B`): an `I` alone frees nothing.

**Points by distance.** No schedule under these rules can end before this bound, the largest over stages s of

> m·(t_F + t_I + t_W) + max(s·t_F, p·t_F + (p − 1 − s)·t_I − k·t_F) + max(0, s·t_I + t_W − k·t_W), where k = min(p, m)

for p stages, m micro-batches and `times` = (t_F, t_I, t_W). The first maximum is how long rank s must wait before its
first input gradient can start, with at most k forwards to do meanwhile. The last one is the time after its last input
gradient, with at most k weight gradients to fill it. You earn points for a quarter, a half, nine tenths and all of the
way from 1F1B's end to the bound. The worst case counts, of {{{{stages}}}} stages with {{{{microbatches}}}}
micro-batches and several unseen settings, all with at least as many micro-batches as stages.""",
    **Worth(points=12, minutes=30, difficulty=5, importance=4),
    kind="more",
    hints=(
        "Where does 1F1B idle, on the last rank and on the first? Which operations can move there without making "
        "another rank wait?",
        "Delay some weight gradients until the pipeline drains. Each keeps its activations until then, and rank r of "
        "1F1B holds only stages − r micro-batches: how many can it delay?",
        "Split every B of 1F1B into I and W. Let rank r do the W of micro-batch k after the I of micro-batch k + r, "
        "and the remaining W at the end. Draw it with `play` and look at the idle time.",
    ),
    answers=("split_rows",),
    allowed="everything but the library's generators: search with `play`, if you like.",
    hides=GENERATORS,
    params={"stages": 4, "microbatches": 8},
    vary=lambda draw: {"stages": draw.choice((4, 5)), "microbatches": draw.choice((8, 10, 12))},
    probe=rows,
)
