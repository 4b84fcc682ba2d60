from course_chapters.ch13.exercises.batch_on_mesh import RUNS
from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Worked, each_changed, table
from course_grader.judging.cases import hidden, shown
from course_lib.estimate.units import count_text

right = Worked("batch-on-mesh")


def _run_words(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> str:
    return (
        f"{count_text(gpus, 'GPU')}, tp {tp}, cp {cp}, pp {pp}, {count_text(sequences, 'sequence')} in "
        f"micro-batches of {micro}"
    )


MICRO_BATCHES = Column(
    "",
    "micro-batches",
    words=_run_words,
    rel=EXACT,
    none="the GPUs or the sequences do not divide; return None",
    some="everything divides here",
)

TOKENS_HELD = Column(
    "",
    "tokens",
    words=lambda micro, length, cp: f"{micro} sequences of {length:,} tokens, cp {cp}",
    rel=EXACT,
    none="cp does not divide the length; return None",
)


def _batch_cases(params: Params, rng: Random) -> list[Case]:
    shapes = (1, 2, 3, 4, 8), (2, 3, 4, 16), (1, 2, 5, 16), (1, 2, 3, 8, 12)

    def fitting() -> tuple[int, ...]:
        tp, cp, pp, dp = map(rng.choice, shapes)
        micro, count = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3, 7, 16))
        return tp * cp * pp * dp, tp, cp, pp, dp * micro * count, micro

    def gpus_left() -> tuple[int, ...]:
        gpus, tp, cp, pp, sequences, micro = fitting()
        return gpus + rng.choice((1, tp * cp * pp - 1)), tp, cp, pp, sequences * (gpus + 1), micro

    own = tuple(params[name] for name in ("gpus", "tp", "cp", "pp", "sequences", "micro"))
    others = [row[:5] + row[6:] for row in RUNS if row[:5] + row[6:] != own]
    uneven = [(64, 4, 2, 2, 36, 2), (64, 4, 2, 2, 4, 1), (64, 4, 2, 2, 2, 1), (24, 4, 2, 3, 7, 2), (8, 1, 8, 1, 3, 2)]
    too_few = [(8, 8, 2, 1, 16, 1), (24, 4, 2, 4, 12, 1), *(gpus_left() for _ in range(4))]
    edges = [(1, 1, 1, 1, 1, 1), (8, 2, 4, 1, 3, 3), (8, 1, 1, 1, 8, 1), (12, 3, 2, 2, 5, 5)]
    held = [
        (m, length, c)
        for m in (1, 3, 4, 6)
        for length, c in ((96, 3), (8192, 16), (1000, 7), (10, 4), (12, 4), (3, 4), (64, 1), (48, 32))
    ]
    alike = each_changed((64, 4, 2, 2, 48, 2), (128, 2, 4, 4, 24_000, 3))
    return [
        shown("the example", "values:batches", 0, [own]),
        shown("the example", "values:tokens", 1, [(params["micro"], params["length"], params["cp"])]),
        hidden("other runs", "values:batches", 0, others + [fitting() for _ in range(10)]),
        hidden("other lengths", "values:tokens", 1, held),
        hidden("sequences or GPUs left over", "generality:remainders", 0, uneven + too_few + alike),
        hidden("one rank, one replica, one micro-batch", "generality:remainders", 0, edges),
    ]


JUDGING = Judging(
    shares="values:batches 0.4, values:tokens 0.25, generality:remainders 0.35",
    cases=_batch_cases,
    verdicts=table(MICRO_BATCHES, TOKENS_HELD, right=right),
    why="Only data-parallel replicas see different sequences. tp and pp cut the model and cp cuts the sequence, so "
    "their ranks work on the same ones: sequences = dp · micro-batches · micro. If cp counted as samples, a "
    "change of cp would change the batch and with it the training.",
    pytorch="torchtitan checks that `global_batch_size` is a multiple of `local_batch_size` times the dp degree; cp "
    "is not in that product.",
)

ANSWERS = r'''# %% right: worked
def micro_batches(gpus, tp, cp, pp, sequences, micro):
    """Micro-batches that each data-parallel replica processes in a step; None where something does not divide."""
    model = tp * cp * pp
    if gpus % model:
        return None
    dp = gpus // model
    return sequences // (dp * micro) if sequences % (dp * micro) == 0 else None


def tokens_held(micro, length, cp):
    """Tokens of a micro-batch on one rank; None where cp does not divide the length."""
    return micro * (length // cp) if length % cp == 0 else None
# %% right: a float
# ~ return sequences // (dp * micro) ==> return sequences / (dp * micro)
# %% wrong: cp counted => values
# > the ranks of a cp group hold pieces of the same sequences, so cp is no part of dp.
# ~ tp * cp * pp ==> tp * pp
# %% wrong: tp counted => values
# > tp ranks see the same sequences, so tp is no part of dp.
# ~ tp * cp * pp ==> cp * pp
# %% wrong: pp counted => values
# > pipeline stages see the same sequences, so pp is no part of dp.
# ~ tp * cp * pp ==> tp * cp
# %% wrong: all gpus => values
# > only dp ranks see other sequences, not all GPUs.
# ~ dp = gpus // model ==> dp = gpus
# ~ sequences // (dp * micro) if sequences % (dp * micro) == 0 else None ==> sequences // (dp * micro)
# %% wrong: gpus left over => generality
# > GPUs that make no whole replica are left out here; return None.
# -     if gpus % model:
# -         return None
# ~ gpus // model ==> max(1, gpus // model)
# %% wrong: per replica => values
# > these are sequences of a replica; divide by the micro-batch.
# ~ sequences // (dp * micro) ==> sequences // dp
# %% wrong: no replicas => values
# > the replicas share the sequences; divide by dp.
# ~ sequences // (dp * micro) ==> sequences // micro
# %% wrong: rounded down => generality
# > this rounds down; return None where the division leaves a remainder.
# ~ sequences // (dp * micro) if sequences % (dp * micro) == 0 else None ==> sequences // (dp * micro)
# %% wrong: replicas are checked, micro-batches are not => generality rounded-down
# ~ sequences % (dp * micro) == 0 ==> sequences % dp == 0
# %% wrong: zero for none => generality
# > None, not 0, where it does not divide.
# ~ return None ==> return 0
# ~ sequences % (dp * micro) == 0 else None ==> sequences % (dp * micro) == 0 else 0
# %% wrong: whole sequences => values
# > cp cuts the sequence; a rank holds a part.
# ~ micro * (length // cp) if length % cp == 0 else None ==> micro * length
# %% wrong: one sequence => values
# > a micro-batch has several sequences.
# ~ micro * (length // cp) ==> length // cp
# %% wrong: more tokens => values
# > more ranks hold fewer tokens each.
# ~ micro * (length // cp) if length % cp == 0 else None ==> micro * length * cp
# %% wrong: cut sequences => values
# > each sequence is cut; a length that cp does not divide gives None.
# ~ micro * (length // cp) if length % cp == 0 ==> micro * length // cp if micro * length % cp == 0
# %% wrong: cut anywhere => values cut-sequences
# ~ micro * (length // cp) if length % cp == 0 else None ==> micro * length // cp
'''
