"""Judge of batch-on-mesh: how many micro-batches does a mesh need?"""

import math
import random
from collections.abc import Callable

from course_lib.exercises.ch13.batch_on_mesh import RUNS
from course_lib.judging import Judging, Mistake, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import EXACT, Column
from course_lib.judging.draws import each_changed
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import count_text


def micro_batches(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> int | None:
    """Micro-batches of a replica in a step; None where something does not divide."""
    model = tp * cp * pp
    if gpus % model or sequences % (gpus // model * micro):
        return None
    return sequences // (gpus // model * micro)


def _per(*ignored: str) -> Callable[..., float | None]:
    """Micro-batches with some axes or the micro-batch left out, rounded down where they do not divide."""

    def count(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> int | None:
        sizes = {"tp": tp, "cp": cp, "pp": pp}
        model = math.prod(size for axis, size in sizes.items() if axis not in ignored)
        data = 1 if "dp" in ignored else max(1, gpus // model)
        return sequences // (data * (1 if "micro" in ignored else micro))

    return count


def _run_words(gpus: int, tp: int, cp: int, pp: int, sequences: int, micro: int) -> str:
    return f"{count_text(gpus, 'GPU')}, tp {tp}, cp {cp}, pp {pp}, {count_text(sequences, 'sequence')} in micro-batches of {micro}"


MICRO_BATCHES = Column(
    part="batches",
    unit="micro-batches",
    want=micro_batches,
    words=_run_words,
    rel=EXACT,
    none="the GPUs or the sequences do not divide; return None",
    some="everything divides here",
    mistakes=(
        Mistake("zero-for-none", lambda *row: micro_batches(*row) or 0, "None, not 0, where it does not divide."),
        Mistake(
            "cp-counted",
            _per("cp"),
            "the ranks of a cp group hold pieces of the same sequences, so cp is no part of dp.",
        ),
        Mistake("tp-counted", _per("tp"), "tp ranks see the same sequences, so tp is no part of dp."),
        Mistake("pp-counted", _per("pp"), "pipeline stages see the same sequences, so pp is no part of dp."),
        Mistake("all-gpus", _per("tp", "cp", "pp"), "only dp ranks see other sequences, not all GPUs."),
        Mistake("per-replica", _per("micro"), "these are sequences of a replica; divide by the micro-batch."),
        Mistake("no-replicas", _per("dp"), "the replicas share the sequences; divide by dp."),
        Mistake("rounded-down", _per(), "this rounds down; return None where the division leaves a remainder."),
    ),
)

TOKENS_HELD = Column(
    part="tokens",
    unit="tokens",
    want=lambda micro, length, cp: micro * length // cp if length % cp == 0 else None,
    words=lambda micro, length, cp: f"{micro} sequences of {length:,} tokens, cp {cp}",
    rel=EXACT,
    none="cp does not divide the length; return None",
    mistakes=(
        Mistake(
            "whole-sequences", lambda micro, length, cp: micro * length, "cp cuts the sequence; a rank holds a part."
        ),
        Mistake("one-sequence", lambda micro, length, cp: length // cp, "a micro-batch has several sequences."),
        Mistake(
            "cut-sequences",
            lambda micro, length, cp: micro * length // cp,
            "each sequence is cut; a length that cp does not divide gives None.",
        ),
        Mistake("more-tokens", lambda micro, length, cp: micro * length * cp, "more ranks hold fewer tokens each."),
    ),
)


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
    def shape() -> tuple[int, int, int, int]:
        return (
            rng.choice((1, 2, 3, 4, 8)),
            rng.choice((2, 3, 4, 16)),
            rng.choice((1, 2, 5, 16)),
            rng.choice((1, 2, 3, 8, 12)),
        )

    def fitting() -> tuple[int, ...]:
        tp, cp, pp, dp = shape()
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


def _batch_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    column = (MICRO_BATCHES, TOKENS_HELD)[case.args[0]]
    return judged(case, column.fault(case, outcome.value))


JUDGING = Judging(
    shares="values:batches 0.4, values:tokens 0.25, generality:remainders 0.35",
    cases=_batch_cases,
    verdicts=_batch_verdicts,
    why="Only data-parallel replicas see different sequences. tp and pp cut the model and cp cuts the sequence, so their ranks work on the same "
    "ones: sequences = dp · micro-batches · micro. If cp counted as samples, a change of cp would change the batch and with it the training.",
    pytorch="torchtitan checks that `global_batch_size` is a multiple of `local_batch_size` times the dp degree; cp is not in that product.",
)

ANSWERS = r"""# %% right: one quotient after another
def micro_batches(gpus, tp, cp, pp, sequences, micro):
    model = tp * cp * pp
    if gpus % model:
        return None
    dp = gpus // model
    if sequences % (dp * micro):
        return None
    return sequences // (dp * micro)


def tokens_held(micro, length, cp):
    return micro * (length // cp) if length % cp == 0 else None


# %% right: a float  from: one quotient after another
# ~ return sequences // (dp * micro) ==> return sequences / (dp * micro)


# %% wrong: cp counts as data => values cp-counted  from: one quotient after another
# ~ cp * pp ==> pp

# %% wrong: tp counts as data => values tp-counted  from: one quotient after another
# ~ tp * cp ==> cp

# %% wrong: stages count as data => values pp-counted  from: one quotient after another
# ~ cp * pp ==> cp

# %% wrong: GPUs left over are idle => generality -  from: one quotient after another
# -     if gpus % model:
# -         return None
# +     pass
# ~ gpus // model ==> max(1, gpus // model)

# %% wrong: the sequences of a replica => values per-replica  from: one quotient after another
# ~ sequences // (dp * micro) ==> sequences // dp

# %% wrong: every replica takes the whole batch => values no-replicas  from: one quotient after another
# ~ sequences // (dp * micro) ==> sequences // micro

# %% wrong: replicas are checked, micro-batches are not => generality rounded-down  from: one quotient after another
# ~ if sequences % (dp * micro): ==> if sequences % dp:

# %% wrong: whole sequences on every rank => values whole-sequences  from: one quotient after another
# ~ (length // cp) if length % cp == 0 else None ==> length

# %% wrong: the micro-batch is cut, not the sequence => values cut-sequences  from: one quotient after another
# ~ (length // cp) if ==> length // cp if micro *

# %% wrong: zero in place of None => generality zero-for-none  from: one quotient after another
# -     if sequences % (dp * micro):
# -         return None
# +     if sequences % (dp * micro):
# +         return 0

# %% wrong: remembers without the micro-batch => generality ~  from: one quotient after another
# ~ sequences, micro): ==> sequences, micro, kept={}):
# ~ return sequences // (dp * micro) ==> return kept.setdefault((gpus, tp, cp, pp, sequences), sequences // (dp * micro))
"""
