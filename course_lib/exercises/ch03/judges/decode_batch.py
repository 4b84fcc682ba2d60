"""Judge of decode-batch: the smallest batch that keeps the arithmetic busy."""

import math
import random
from fractions import Fraction
from functools import partial

from course_lib.exercises.ch03.judges.shared import MEMORIES, PEAKS
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import Column, one_verdict, shares, table
from course_lib.judging.draws import generality, log_uniform, one_apart, plain, unseen
from course_lib.judging.mistakes import shifted
from course_lib.records import Case
from course_lib.units import GB, TFLOP, bytes_text, number_text


def least_batch(kept: str, flops: float, bandwidth: float, params: float, size: float, kv_bytes: float) -> int | None:
    """The least whole batch whose computing takes at least as long as its reading; exact arithmetic on the numbers given."""
    f, b, p, s, kv = map(Fraction, (flops, bandwidth, params, size, kv_bytes))
    compute = 2 * p / f
    if kept == "shared":
        return max(1, math.ceil((p * s + kv) / b / compute))
    extra = kv / b
    return None if compute <= extra else max(1, math.ceil(p * s / b / (compute - extra)))


def _machine_words(f: float, b: float, p: float, s: float, kv: float) -> str:
    machine = f"{number_text(f / TFLOP)} TFLOP/s, {number_text(b / GB)} GB/s"
    return f"{number_text(p)} parameters, {s:g} bytes each, {machine}, {bytes_text(kv)} kept"


def _batch_column(kept: str) -> Column:
    def least(f: float, b: float, p: float, s: float, kv: float, kept: str = kept) -> int | None:
        return least_batch(kept, f, b, p, s, kv)

    other, read = {
        "each": ("shared", "this reads the keys and values once for the whole batch."),
        "shared": ("each", "this reads the shared prompt once for every sequence."),
    }[kept]
    return Column(
        part="batch",
        unit="sequences",
        want=least,
        words=_machine_words,
        rel=0.0,
        hint="At which batch do both times of a step meet?",
        none="each further sequence takes longer to read than to compute, so no batch is enough; return None",
        some="some batch is enough here",
        mistakes=(
            Mistake("not-whole", lambda f, b, p, s, kv: f * s / (2 * b), "a batch is a whole number of sequences."),
            Mistake("kept-forgotten", lambda *row: least(*row[:4], 0.0), "the keys and values kept are read too."),
            Mistake("kept-the-other-way", lambda *row: least(*row, other), read),
            Mistake("rounded-down", shifted(least, -1), "at this batch reading still takes longer."),
            Mistake("one-too-many", shifted(least, 1), "one sequence fewer is enough."),
            Mistake("two-bytes", lambda f, b, p, s, kv: least(f, b, p, 2, kv), "a weight has `weight_size` bytes."),
            Mistake("multiply-adds", lambda f, *row: least(2 * f, *row), "a multiply-add is two FLOP."),
            Mistake("ridge-for-batch", lambda f, b, *_: math.ceil(f / b), "the ridge is in FLOP per byte."),
        ),
    )


def _safe(kept: str, row: tuple[float, ...]) -> bool:
    """Whether rounding noise changes nothing: the batch stays the same when a rate moves by a millionth."""
    f, *others = row
    return len({least_batch(kept, f * (1 + shift), *others) for shift in (-1e-6, 0.0, 1e-6)}) == 1


def _batch_cases(params: Params, rng: random.Random) -> list[Case]:
    kept = params["kept"]
    run = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])

    def some(count: int, low: float, high: float) -> list[tuple[float, ...]]:
        """Machines on which reading what was kept takes `low` to `high` times a sequence's computing."""
        rows: list[tuple[float, ...]] = []
        while len(rows) < count:
            f, b, p = rng.choice(PEAKS), rng.choice(MEMORIES), log_uniform(rng, 1e8, 5e11)
            kv = float(f"{2 * p / f * b * rng.uniform(low, high):.3g}")
            row = (f, b, p, rng.choice((0.5, 1, 2, 4)), kv)
            rows += [row] if _safe(kept, row) else []
        return rows

    def empty(count: int) -> list[tuple[float, ...]]:
        return [(*row[:4], 0.0) for row in some(count, 0, 0)]

    powers = [(2.0**top, 2.0**41, 2.0**33, size, 0.0) for top, size in ((50, 2), (50, 1), (41, 0.5))]
    each = kept == "each"
    even = [(2**50, 2**41, 2**33, size, 2**25) for size in (2, 1)]  # a sequence reads exactly as long as it computes
    beyond = [generality("never", 0, "beyond help", [*some(6, 1.05, 4), *some(2, 1.01, 1.03), *even])] if each else []
    bands = ((10, 0.1, 0.8), (4, 0.85, 0.95), (2, 0.97, 0.99)) if each else ((14, 0.1, 50),)
    contexts = [row for band in bands for row in some(*band)]
    contexts.append((2**41, 2**41, 2**33, 0.5, 2**20))  # a batch of one
    contexts += one_apart(contexts, partial(least_batch, kept), lambda *row: _safe(kept, row))
    return [
        shown("nothing kept", "values:weights", 0, [(*run, 0.0)]),
        shown(f"{params['context']:,} tokens kept", "values:kept", 0, [(*run, params["kv_bytes"])]),
        plain("weights", 0, "three more machines", empty(3)),
        plain("kept", 0, "three more contexts", some(3, 0.1, 0.6)),
        unseen(rng, "weights", 0, "other machines", [*empty(14), *powers]),
        unseen(rng, "kept", 0, "other contexts", contexts),
        *(beyond or [unseen(rng, "never", 0, "long prompts", some(6, 100, 1000))]),
    ]


def _kept_matters(params: Params) -> bool:
    """Whether what is kept in the case shown changes the batch: else an answer that omits it is right by luck."""
    row = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])
    return least_batch(params["kept"], *row, params["kv_bytes"]) != least_batch(params["kept"], *row, 0.0)


JUDGING = Judging(
    alike=_kept_matters,
    shares=shares(weights=(0.2, 0.2), kept=(0.2, 0.2), never=(0, 0.2)),
    cases=_batch_cases,
    verdicts=lambda params, *given: one_verdict(table(_batch_column(params["kept"])))(params, *given),
    why="Weights are read once for the whole batch, so each further sequence is free until computing takes as long as reading: "
    "at the ridge, 295 FLOP per byte on an H100 with two bytes per weight, hence 296 sequences. Keys and values are not "
    "shared: each sequence adds its own reads, and if those take as long as its arithmetic, no batch is large enough. So long "
    "contexts, not only small batches, leave the arithmetic idle.",
    pytorch="Serving engines batch continuously for this reason (chapter 16); in training the batch is thousands of tokens.",
)

ANSWERS = r"""import math

from course_lib import roofline


# %% right: both times set equal
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    compute = 2 * params / flops
    extra = kv_bytes / bandwidth
    if compute <= extra:
        return None
    return max(1, math.ceil(params * weight_size / bandwidth / (compute - extra) * (1 - 1e-12)))


# %% right: a search by doubling and halving
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    def fills(batch):
        read = params * weight_size + batch * kv_bytes
        return 2 * params * batch * bandwidth >= read * flops

    high = 1
    while not fills(high):
        high *= 2
        if high > 2**60:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fills(middle) else (middle, high)
    return float(high)


# %% right: any variant
from fractions import Fraction

from course_lib import params

KEPT = params("decode-batch").kept


def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    f, b, p, s, kv = (Fraction(x) for x in (flops, bandwidth, params, weight_size, kv_bytes))
    if KEPT == "shared":
        return max(1, math.ceil((p * s + kv) * f / (b * 2 * p)))
    gain = 2 * p * b - kv * f
    return None if gain <= 0 else max(1, math.ceil(p * s * f / gain))


# %% wrong: the ridge itself => values not-whole  from: forgets what was kept
# ~ math.ceil(flops * weight_size / (2 * bandwidth)) ==> flops * weight_size / (2 * bandwidth)

# %% wrong: forgets what was kept => values kept-forgotten  from: kept once for the whole batch
# ~ (params * weight_size + kv_bytes) / bandwidth / (2 * params / flops) ==> flops * weight_size / (2 * bandwidth)

# %% wrong: rounded down => values rounded-down  from: both times set equal
# -     return max(1, math.ceil(params * weight_size / bandwidth / (compute - extra) * (1 - 1e-12)))
# +     return int(params * weight_size / bandwidth / (compute - extra))


# %% wrong: kept once for the whole batch => values - unless kept=shared
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    return math.ceil((params * weight_size + kv_bytes) / bandwidth / (2 * params / flops))


# %% wrong: one FLOP per parameter => values multiply-adds  from: both times set equal
# ~ 2 * params / flops ==> params / flops

# %% wrong: two bytes by heart => values two-bytes  from: both times set equal
# ~ params * weight_size / bandwidth ==> params * 2 / bandwidth

# %% wrong: never says never => generality none-is-right  from: both times set equal
# ~ return None ==> return 10**9

# %% wrong: never, whatever comes => values returned-none  from: kept once for the whole batch
# ~ math.ceil((params * weight_size + kv_bytes) / bandwidth / (2 * params / flops)) ==> None

# %% wrong: infinity for never => generality not-a-number  from: both times set equal
# ~ return None ==> return math.inf

# %% wrong: asks the library => raised  from: both times set equal
# ~ compute <= extra: ==> roofline.smallest_batch(flops, bandwidth, params, weight_size, kv_bytes) is None:

# %% half: the weights are right, what is kept is not => 3  from: forgets what was kept

# %% wrong: nearly as long to read as to compute is never => generality -  from: both times set equal
# ~ compute <= extra: ==> compute <= 1.04 * extra:
"""
