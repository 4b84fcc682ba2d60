import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, Series, Word, shares, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, plain
from course_grader.records import Case

right = Worked("lora-shards")
CUTS = ("columns", "rows")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    sizes = (4096, 1024, 14336), (4096, 8192), (4, 8, 16, 64), (2, 4, 8)
    held = draw_rows(rng, 6, *sizes, CUTS) + each_changed((1024, 4096, 8, 2, "rows"), (512, 8192, 16, 4, "columns"))
    sent = draw_rows(rng, 6, *sizes, (2, 3, 16), CUTS, (2, 4, 8))
    sent += each_changed((1024, 4096, 8, 2, 4, "rows", 4), (512, 8192, 16, 4, 8, "columns", 2))
    shares_ = [(7e9, 2e7, 2), (7e9, 2e7, 1), (1e9, 5e8, 2), *draw_rows(rng, 4, (1e9, 7e9), (1e6, 3e7), (1, 2, 3))]
    alone = [(4096, 1024, 8, 1, cut) for cut in CUTS]
    return [
        shown("the output projection of 8B on 4 ranks", "values:held", 0, [(4096, 4096, 16, 4, "rows")]),
        shown("inputs are divided", "values:partial", 1, [("rows",)]),
        shown("4 × 8 ranks", "values:bytes", 2, [(4096, 4096, 16, 4, 8, "rows", params["width"])]),
        shown("8 billion, of which 40 million", "values:fsdp", 3, [(8e9, 4e7, 2)]),
        plain("held", 0, "other matrices", held),
        plain("partial", 1, "both cuts", [(cut,) for cut in CUTS]),
        plain("bytes", 2, "other matrices", sent),
        plain("fsdp", 3, "other models", shares_),
        plain("held", 0, "one rank", alone),
        generality("bytes", 2, "one rank, one replica", [(*row[:4], 1, row[4], 4) for row in alone + held[:2]]),
        generality("bytes", 2, "one TP rank", [(4096, 1024, 8, 1, 6, cut, 2) for cut in CUTS]),
        generality("fsdp", 3, "nothing trained, as much as is frozen", [(1e9, 0, 2), (1e9, 1e9, 2)]),
    ]


JUDGING = Judging(
    shares={**shares(bytes=(0.3, 0.15), fsdp=(0.15, 0.05)), "values:held": 0.2, "values:partial": 0.15},
    cases=_cases,
    verdicts=table(
        Series(part="held", want=right[0], words=right.words(0), each="factor", rel=EXACT),
        Word(part="partial", want=right[1], words=right.words(1), choices=("a", "b")),
        Column(part="bytes", unit="bytes", want=right[2], words=right.words(2)),
        Column(part="fsdp", unit="of the bytes", want=right[3], words=right.words(3)),
    ),
    why="""The factor that touches the divided side of W is divided with it, and the other one is whole on every rank.
A whole factor meets only its rank's part of the other one, so its gradient is a part of a sum, as with the norms under
sequence parallelism. It is small. Under FSDP, freezing saves only the reduce-scatter: the weights still have to be
gathered for both passes. That is why LoRA under FSDP saves much memory and a third of the traffic.""",
    pytorch="PEFT's adapters on modules that `parallelize_module` has split are plain modules; their placement and the "
    "extra all-reduce are left to the user. torchtune and NeMo write both by hand.",
)

ANSWERS = r'''
# %% right: worked
def held(out: int, wide: int, rank: int, tp: int, cut: str) -> list[float]:
    """Numbers of A and of B on one rank."""
    ### BEGIN SOLUTION
    return [rank * wide, out * rank / tp] if cut == "columns" else [rank * wide / tp, out * rank]
    ### END SOLUTION


def partial(cut: str) -> str:
    """The factor, "a" or "b", whose gradient is a sum over the TP ranks."""
    ### BEGIN SOLUTION
    return "a" if cut == "columns" else "b"
    ### END SOLUTION


def step_bytes(out: int, wide: int, rank: int, tp: int, dp: int, cut: str, width: int) -> float:
    """Bytes that a rank sends for one adapter after the backward pass."""
    ### BEGIN SOLUTION
    a, b = (rank * wide, out * rank / tp) if cut == "columns" else (rank * wide / tp, out * rank)
    first = a if cut == "columns" else b
    return width * (2 * (tp - 1) / tp * first + 2 * (dp - 1) / dp * (a + b))
    ### END SOLUTION


def fsdp_share(frozen: float, trained: float, gathers: int) -> float:
    """Bytes of a step under FSDP, over those of full training."""
    ### BEGIN SOLUTION
    return (gathers * (frozen + trained) + trained) / ((gathers + 1) * frozen)
    ### END SOLUTION

# %% right: in other forms
# ~ return [rank * wide, out * rank / tp] if cut == "columns" else [rank * wide / tp, out * rank]
# ~~ ==> return [n / part for n, part in zip((rank * wide, rank * out), (1, tp) if cut == "columns" else (tp, 1))]
# ~ return "a" if cut == "columns" else "b" ==> return {"columns": "a", "rows": "b"}[cut]
# ~ (rank * wide, out * rank / tp) if cut == "columns" else (rank * wide / tp, out * rank)
# ~~ ==> held(out, wide, rank, tp, cut)
# ~ (2 * (tp - 1) / tp * first + 2 * (dp - 1) / dp * (a + b)) ==> 2 * (first * (1 - 1 / tp) + (a + b) * (1 - 1 / dp))
# ~ (gathers * (frozen + trained) + trained) / ((gathers + 1) * frozen) ==> gathers / (gathers + 1) + trained / frozen
# %% wrong: both divided => values
# > both factors are divided; one of them touches no divided side and is whole on every rank.
# ~ [rank * wide, out * rank / tp] if cut ==> [rank * wide / tp, out * rank / tp] if cut
# %% wrong: nothing divided => values
# > no factor is divided here; the one on the divided side of W is.
# ~ [rank * wide, out * rank / tp] if cut ==> [rank * wide, out * rank] if cut
# %% wrong: the other one is divided => values
# > the factor on the side of W that is not divided is divided here.
# ~ if cut == "columns" else [rank * wide / tp, out * rank] ==> if cut == "rows" else [rank * wide / tp, out * rank]
# %% wrong: the divided one is partial => values
# > a divided factor has its own rows or columns, and its gradient is complete.
# ~ return "a" if cut == "columns" else "b" ==> return "b" if cut == "columns" else "a"
# %% wrong: always A => values
# > with divided inputs, every rank has its own columns of A, and B is whole.
# ~ return "a" if cut == "columns" else "b" ==> return "a"
# %% wrong: only over dp => values
# > the sum over the TP ranks is missing.
# ~ (2 * (tp - 1) / tp * first + ==> (
# %% wrong: only over tp => values
# > the average over the replicas is missing.
# ~ + 2 * (dp - 1) / dp * (a + b)) ==> )
# %% wrong: everything over tp => values
# > this sums both gradients over the TP ranks; the divided one is complete already.
# ~ first = a if cut == "columns" else b ==> first = a + b
# %% wrong: the divided one over tp => values
# > this sums the divided factor's gradient over the TP ranks, and leaves the whole one's partial.
# ~ first = a if cut == "columns" else b ==> first = b if cut == "columns" else a
# %% wrong: half a ring => values
# > a ring all-reduce has two halves, and each sends (n − 1) / n of the bytes.
# ~ return width * ( ==> return width / 2 * (
# %% wrong: frozen numbers are reduced => values
# > frozen numbers have no gradients to reduce.
# ~ (gathers * (frozen + trained) + trained) ==> ((gathers + 1) * (frozen + trained))
# %% wrong: adapters are not gathered => values
# > the trained numbers are divided, too, and have to be gathered like the frozen ones.
# ~ (gathers * (frozen + trained) + trained) ==> (gathers * frozen + trained)
# %% wrong: only trained numbers travel => values
# > the frozen weights have to be gathered for every use.
# ~ (gathers * (frozen + trained) + trained) ==> ((gathers + 1) * trained)
# %% wrong: gathered once => values
# > the weights are gathered `gathers` times.
# ~ (gathers * (frozen + trained) + trained) ==> (frozen + 2 * trained)
'''
