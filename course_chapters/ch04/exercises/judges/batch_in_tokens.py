from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, each_changed, plain, shown, unseen
from course_grader.judging.per_row import EXACT, Column, shares, table

SEQUENCES, ACCUMULATED, RANKS, LENGTHS = (1, 2, 3, 4, 8), (2, 3, 4, 8, 16), (1, 2, 8, 24, 64, 128), (1024, 2048, 8192)
right = Worked("batch-in-tokens")
TOKENS = Column(
    "tokens", "tokens", rel=0.0, words=lambda b, g, n, s: f"{b} sequences of {s:,} tokens, {g} micro-batches, {n} ranks"
)
ACCUMULATION = Column(
    "accumulation",
    "micro-batches",
    rel=EXACT,
    words=lambda batch, b, n, s: f"{batch:,} tokens from {n} ranks with {b} sequences of {s:,} tokens",
    none="no whole number of micro-batches gives exactly this batch; return None",
    some="a whole number of micro-batches gives exactly this batch",
)


def _cases(params: Params, rng: Random) -> list[Case]:
    b, g, n, s = (params[name] for name in ("sequences", "accumulated", "ranks", "length"))
    batch = params["batch"]
    rows = draw_rows(rng, 6, SEQUENCES, (1, *ACCUMULATED), RANKS, LENGTHS)
    fits = [(right[0](*row), row[0], *row[2:]) for row in rows]
    off = [(right[0](b, 1, n, s) + by * b * s, b, n, s) for b, n, s, by in ((2, 8, 2048, 3), (1, 64, 1024, 63))]
    small = [(b * n * s // 2, b, n, s) for b, n, s in draw_rows(rng, 3, (2, 4), (8, 64), LENGTHS)]
    large = each_changed((8, 17, 4096, 2**17), (4, 3, 64, 2**11))  # more than 32 bits hold
    large.append((3, 2**20 + 1, 2**17 + 1, 2**17 + 1))  # and more than a float does
    whole = right[0](8, 17, 64, 2**20)
    off += [(whole + by, 8, 64, 2**20) for by in (-1, 0, 1)]
    off += each_changed((whole, 4, 64, 2**20), (2**29, 2, 32, 2**19))
    off += [(2**17, 1, 64, 2**11), (2**55, 8, 64, 2**20), (2**55 + 1, 8, 64, 2**20)]  # more than a float holds
    return [
        shown(f"{b} sequences, {g} micro-batches, {n} ranks", "values:tokens", 0, [(b, g, n, s)]),
        shown(f"a batch of {batch:,} tokens", "values:accumulation", 1, [(batch, b, n, s)]),
        plain("tokens", 0, "other sizes", [*draw_rows(rng, 6, SEQUENCES, ACCUMULATED, RANKS[1:], LENGTHS), *large]),
        plain("accumulation", 1, "batches that fit", fits),
        unseen(rng, "accumulation", 1, "batches that fit and batches that do not", [*fits[:2], *off, *small]),
    ]


JUDGING = Judging(
    shares=shares(tokens=(0.25, 0), accumulation=(0.25, 0.5)),
    cases=_cases,
    verdicts=table(TOKENS, ACCUMULATION, right=right),
    why="A step sees every sequence of every micro-batch on every rank, so the batch is the product of the four "
    "numbers. The optimizer sees only this product: with half as many ranks, accumulate twice as many "
    "micro-batches, and no other setting has to change. A batch that does not divide is silently rounded by some "
    "frameworks, and the run then trains with another batch than planned.",
    pytorch="transformers multiplies `per_device_train_batch_size`, `gradient_accumulation_steps` and the world size; "
    "Megatron-LM asserts that `global_batch_size` is divisible by the micro-batch times the "
    "data-parallel size.",
)

ANSWERS = r'''# %% right: worked
def tokens_per_step(sequences: int, accumulated: int, ranks: int, length: int) -> int:
    """Tokens in one optimizer step."""
    return sequences * accumulated * ranks * length


def accumulation(batch: int, sequences: int, ranks: int, length: int) -> int | None:
    """Micro-batches each rank accumulates for exactly `batch` tokens, or None."""
    count, rest = divmod(batch, sequences * ranks * length)
    return count if count and not rest else None
# %% right: products and a remainder
# ~ count, rest = divmod(batch, sequences * ranks * length) ==> each = sequences * ranks * length
# ~ count if count and not rest else None ==> None if batch % each else batch // each
# %% wrong: one micro-batch => values no-accumulation
# > the tokens of all accumulated micro-batches count.
# ~ accumulated * ranks ==> ranks
# %% wrong: one rank alone => values one-rank
# > this is the share of one rank.
# ~ accumulated * ranks * length ==> accumulated * length
# %% wrong: sequences in place of tokens => values sequences
# > these are sequences; tokens are asked for.
# ~ accumulated * ranks * length ==> accumulated * ranks
# %% wrong: rounds up => generality rounded-up
# > rounded up, the batch is too large.
# ~ count if count and not rest else None ==> count + (rest > 0)
# %% wrong: rounds down => generality rounded-down
# > rounded down, the batch is too small.
# ~ count if count and not rest else None ==> count or None
# %% wrong: a step of no micro-batch => generality rounded-down
# ~ count if count and not rest else None ==> None if rest and count else count
# %% wrong: a fraction of a micro-batch => generality not-whole
# > this is no whole number; return None.
# ~ count if count and not rest else None ==> batch / (sequences * ranks * length)
# %% wrong: the batch in floating point => values
# > floating point rounds large counts; multiply integers.
# ~ sequences * accumulated * ranks * length ==> int(float(sequences) * accumulated * ranks * length)
# %% wrong: micro-batches in floating point => generality none-is-right
# ~ count, rest = divmod(batch, sequences * ranks * length) ==> count = batch / (sequences * ranks * length)
# ~ count if count and not rest ==> int(count) if count >= 1 and count == int(count)
# %% wrong: ranks left out of the inverse => values ranks-forgotten
# > this would be right on one rank.
# ~ batch, sequences * ranks * length) ==> batch, sequences * length)
# %% wrong: sequences left out of the inverse => values sequences-forgotten
# > a micro-batch has several sequences.
# ~ batch, sequences * ranks ==> batch, ranks
# %% wrong: a batch in sequences => values length-forgotten
# > the batch is counted in tokens.
# ~ batch, sequences * ranks * length) ==> batch, sequences * ranks)
# %% wrong: the shown numbers => values only-the-example
# ~ sequences * accumulated * ranks * length ==> 8388608
# ~ count if count and not rest else None ==> 4
# %% half: no inverse => 1
# ~ count, rest = ==> raise NotImplementedError; count, rest =
# %% wrong: one micro-batch is none => generality some-is-right
# ~ if count and not ==> if count > 1 and not
'''
