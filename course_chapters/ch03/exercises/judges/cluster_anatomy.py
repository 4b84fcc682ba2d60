from course_chapters.ch03.exercises.judges.shared import PEAKS
from course_grader.judging import Case, Judging, Params, Random, Worked, each_changed, plain, shown, unseen
from course_grader.judging.per_row import CLOSE, EXACT, Series, shares, table
from course_lib.estimate.units import GB, bytes_text, flops_text

right = Worked("cluster-anatomy")


def _cases(params: Params, rng: Random) -> list[Case]:
    def row(*counts: int) -> tuple[object, ...]:
        return list(counts), rng.choice((16, 40, 80, 141, 192)) * GB, rng.choice(PEAKS)

    alike = each_changed(row(4, 3, 16, 5), ([4, 3, 16, 6], 24 * GB, 91e12))
    levels = [row(8), row(72, 8), row(8, 2, 192, 8, 3), row(2, 3, 4, 5, 6, 7)]
    ones = [row(1), row(1, 8, 16), row(8, 1, 4), row(8, 4, 1)]
    return [
        shown(params["device"], "values:gpus", 0, [(params["counts"], params["memory"], params["flops"])]),
        plain("", 0, "two more clusters", [row(8, 4, 24, 8), row(16, 3, 40, 9)]),
        unseen(rng, "", 0, "other levels", [*levels, *ones, *alike]),
    ]


def _series(part: str, place: int, rel: float) -> Series:
    def words(counts: list[int], memory: float, flops: float) -> str:
        return f"{counts} of {bytes_text(memory)} and {flops_text(flops)}/s, {part}"

    return Series(part, want=lambda *row: right(*row)[place], words=words, each="level", rel=rel)


JUDGING = Judging(
    shares=shares(gpus=(0.2, 0.3), memory=(0.1, 0.15), peak=(0.1, 0.15)),
    cases=_cases,
    verdicts=table([_series("gpus", 0, EXACT), _series("memory", 1, CLOSE), _series("peak", 2, CLOSE)]),
    why="The counts multiply from the inside out: 8, 16, 3,072 and 24,576 GPUs in the Llama 3 cluster. Memory and "
    "peak are those of one GPU times that: 640 GB in a server, 1.28 TB in a rack, 245 TB in a pod, and 1.97 PB "
    "with 24.3 EFLOP/s in the whole cluster, dense in bf16. Bandwidth does not add up like this, as the next "
    "exercise shows.",
    pytorch='`init_device_mesh("cuda", (8, 192, 2, 8))` gives each of these levels an axis, the outermost first.',
)

ANSWERS = r'''import itertools
import operator
# %% right: worked
def anatomy(counts: list[int], memory: float, flops: float) -> tuple[list[int], list[float], list[float]]:
    """GPUs, bytes and FLOP/s of one unit of each level, from the inside out."""
    gpus = [math.prod(counts[: level + 1]) for level in range(len(counts))]
    return gpus, [n * memory for n in gpus], [n * flops for n in gpus]
# %% right: a running product
# ~ [math.prod(counts[: level + 1]) for level in range(len(counts))]
# ~~ ==> list(itertools.accumulate(counts, operator.mul))
# %% wrong: the counts alone => values
# > these are the counts; a unit contains the GPUs of all levels below it.
# ~ [math.prod(counts[: level + 1]) for level in range(len(counts))] ==> counts
# %% wrong: added up => values
# > this adds the counts of the levels; multiply them.
# ~ math.prod(counts[: level + 1]) ==> sum(counts[: level + 1])
# %% wrong: from the outside in => values
# > the innermost level comes first.
# ~ in range(len(counts))] ==> in reversed(range(len(counts)))]
# %% wrong: products from the outside => values from-the-outside-in
# ~ counts[: level + 1] ==> counts[level:]
# %% wrong: one GPU as a level => values
# > the innermost level is the first count, not one GPU.
# ~ in range(len(counts))] ==> in range(-1, len(counts))]
# %% wrong: memory and peak of one GPU => values
# > this is one GPU's at every level.
# ~ [n * memory for n in gpus], [n * flops for n in gpus] ==> [memory for _ in gpus], [flops for _ in gpus]
# %% wrong: memory and peak by the counts => values
# > multiply by the GPUs of the level, not by its count.
# ~ [n * memory for n in gpus], [n * flops for n in gpus] ==> [n * memory for n in counts], [n * flops for n in counts]
# %% wrong: memory and peak of a server => values
# > what is given is one GPU's memory and peak, not that of the innermost unit.
# ~ [n * memory for n in gpus], [n * flops for n in gpus]
# ~~ ==> [n * memory / counts[0] for n in gpus], [n * flops / counts[0] for n in gpus]
# %% wrong: peak before memory => values
# > memory comes second, the peak last.
# ~ [n * memory for n in gpus], [n * flops for n in gpus] ==> [n * flops for n in gpus], [n * memory for n in gpus]
# %% wrong: scaled => values
# > give bytes and FLOP/s.
# ~ [n * memory for n in gpus], [n * flops for n in gpus]
# ~~ ==> [n * memory / 1e9 for n in gpus], [n * flops / 1e12 for n in gpus]
# %% wrong: sparse peak => values
# > the peak given is dense already; do not double it.
# ~ [n * flops for n in gpus] ==> [2 * n * flops for n in gpus]
# %% wrong: four levels => generality
# > a cluster may have any number of levels.
# ~ range(len(counts)) ==> range(4)
# %% wrong: levels of one are left out => generality
# > a level with one unit is a level too.
# ~ in range(len(counts))] ==> in range(len(counts)) if counts[level] > 1]
'''
