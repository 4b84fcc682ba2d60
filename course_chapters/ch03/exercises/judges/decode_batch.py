from course_chapters.ch03.exercises.judges.shared import MEMORIES, PEAKS
from course_grader.judging import Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import generality, log_uniform, one_apart, plain, unseen
from course_lib.estimate.units import GB, TFLOP, bytes_text, number_text

right = Worked("decode-batch")


def _machine_words(f: float, b: float, p: float, s: float, kv: float) -> str:
    machine = f"{number_text(f / TFLOP)} TFLOP/s, {number_text(b / GB)} GB/s"
    return f"{number_text(p)} parameters, {s:g} bytes each, {machine}, {bytes_text(kv)} kept"


def _safe(flops: float, *others: float) -> bool:
    """Whether rounding noise changes nothing: the batch stays the same when a rate moves by a millionth."""
    return len({right(flops * (1 + shift), *others) for shift in (-1e-6, 0.0, 1e-6)}) == 1


def _batch_cases(params: Params, rng: Random) -> list[Case]:
    run = (params["flops"], params["bandwidth"], params["params"], params["weight_size"])

    def some(count: int, low: float, high: float) -> list[tuple[float, ...]]:
        """Machines on which reading what was kept takes `low` to `high` times a sequence's computing."""
        rows: list[tuple[float, ...]] = []
        while len(rows) < count:
            f, b, p = rng.choice(PEAKS), rng.choice(MEMORIES), log_uniform(rng, 1e8, 5e11)
            kv = float(f"{2 * p / f * b * rng.uniform(low, high):.3g}")
            row = (f, b, p, rng.choice((0.5, 1, 2, 4)), kv)
            rows += [row] if _safe(*row) else []
        return rows

    def empty(count: int) -> list[tuple[float, ...]]:
        return [(*row[:4], 0.0) for row in some(count, 0, 0)]

    powers = [(2.0**top, 2.0**41, 2.0**33, size, 0.0) for top, size in ((50, 2), (50, 1), (41, 0.5))]
    each = params["kept"] == "each"
    even = [(2**50, 2**41, 2**33, size, 2**25) for size in (2, 1)]  # a sequence reads exactly as long as it computes
    beyond = [generality("never", 0, "beyond help", [*some(6, 1.05, 4), *some(2, 1.01, 1.03), *even])] if each else []
    bands = ((10, 0.1, 0.8), (4, 0.85, 0.95), (2, 0.97, 0.99)) if each else ((14, 0.1, 50),)
    contexts = [row for band in bands for row in some(*band)]
    contexts.append((2**41, 2**41, 2**33, 0.5, 2**20))  # a batch of one
    contexts += one_apart(contexts, right, _safe)
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
    return right(*row, params["kv_bytes"]) != right(*row, 0.0)


JUDGING = Judging(
    alike=_kept_matters,
    shares=shares(weights=(0.2, 0.2), kept=(0.2, 0.2), never=(0, 0.2)),
    cases=_batch_cases,
    verdicts=table(
        Column(
            "",
            "sequences",
            words=_machine_words,
            rel=0.0,
            hint="At which batch do both times of a step meet?",
            none="each further sequence takes longer to read than to compute, so no batch is enough; return None",
            some="some batch is enough here",
        ),
        right=right,
    ),
    why="Weights are read once for the whole batch, so each further sequence is free until computing takes as long as "
    "reading: at the ridge, 295 FLOP per byte on an H100 with two bytes per weight, hence 296 sequences. Keys and "
    "values are not shared: each sequence adds its own reads, and if those take as long as its arithmetic, no "
    "batch is large enough. So long contexts, not only small batches, leave the arithmetic idle.",
    pytorch="Serving engines batch continuously for this reason (chapter 16); in training the batch is "
    "thousands of tokens.",
)

ANSWERS = r'''# %% right: worked
kept = params("decode-batch").kept  # leave as is: "each" or "shared": whose `kv_bytes` they are in your variant


def smallest_batch(flops: float, bandwidth: float, params: float, weight_size: float, kv_bytes: float) -> int | None:
    """The least whole batch whose step computes at least as long as it reads; None if no batch does."""
    compute = 2 * params / flops  # seconds for each sequence
    once, each = weight_size * params / bandwidth, kv_bytes / bandwidth
    if kept == "shared":
        once, each = once + each, 0.0
    if compute <= each:
        return None
    return max(1, math.ceil(once / (compute - each) * (1 - 1e-12)))
# %% right: a search by doubling and halving  from: worked
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    def fills(batch):
        read = params * weight_size + (batch if kept == "each" else 1) * kv_bytes
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
# %% wrong: not whole => values
# > a batch is a whole number of sequences.
# ~ max(1, math.ceil(once / (compute - each) * (1 - 1e-12))) ==> once / (compute - each)
# %% wrong: the ridge of the weights => values not-whole
# ~ weight_size * params / bandwidth, kv_bytes / bandwidth ==> weight_size * params / bandwidth, 0.0
# ~ max(1, math.ceil(once / (compute - each) * (1 - 1e-12))) ==> once / (compute - each)
# %% wrong: kept forgotten => values
# > the keys and values kept are read too.
# ~ weight_size * params / bandwidth, kv_bytes / bandwidth ==> weight_size * params / bandwidth, 0.0
# %% wrong: kept the other way => values
# > the kept bytes are counted the wrong number of times: are they read for every sequence, or once for all?
# ~ if kept == "shared" ==> if kept != "shared"
# %% wrong: rounded down => values
# > at this batch reading still takes longer.
# ~ max(1, math.ceil(once / (compute - each) * (1 - 1e-12))) ==> int(once / (compute - each))
# %% wrong: rounded to the nearest => values rounded-down
# ~ max(1, math.ceil(once / (compute - each) * (1 - 1e-12))) ==> round(once / (compute - each))
# %% wrong: equally long is not enough => generality
# > a batch that computes exactly as long as it reads is enough.
# ~ math.ceil(once / (compute - each) * (1 - 1e-12)) ==> int(once / (compute - each) * (1 + 1e-12)) + 1
# %% wrong: one too many => values
# > one sequence fewer is enough.
# ~ math.ceil(once / (compute - each) * (1 - 1e-12)) ==> 1 + math.ceil(once / (compute - each) * (1 - 1e-12))
# %% wrong: multiply adds => values
# > a multiply-add is two FLOP.
# ~ 2 * params / flops ==> params / flops
# %% wrong: two bytes => values
# > a weight has `weight_size` bytes.
# ~ weight_size * params ==> 2 * params
# %% wrong: one byte => values two-bytes
# ~ weight_size * params ==> params
# %% wrong: ridge for batch => values
# > the ridge is in FLOP per byte.
# ~ max(1, math.ceil(once / (compute - each) * (1 - 1e-12))) ==> math.ceil(flops / bandwidth)
# %% wrong: never says never => generality none-is-right unless kept=shared
# ~ return None ==> return 10**9
# %% wrong: never, whatever comes => values returned-none
# ~ return max(1, math.ceil(once / (compute - each) * (1 - 1e-12))) ==> return None
# %% wrong: infinity for never => generality not-a-number unless kept=shared
# ~ return None ==> return math.inf
# %% half: the weights are right, what is kept is not => 3  from: kept forgotten
# %% wrong: nearly as long to read as to compute is never => generality some-is-right unless kept=shared
# ~ compute <= each: ==> compute <= 1.04 * each:
'''
