"""Judge of batch-in-tokens: how many tokens is one step?"""

import random

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, shares, table
from course_grader.judging.random_inputs import draw_rows, each_changed, plain, unseen
from course_grader.records import Case

SEQUENCES, ACCUMULATED, RANKS, LENGTHS = (1, 2, 3, 4, 8), (2, 3, 4, 8, 16), (1, 2, 8, 24, 64, 128), (1024, 2048, 8192)


def tokens(sequences: int, accumulated: int, ranks: int, length: int) -> int:
    """Tokens of one step."""
    return sequences * accumulated * ranks * length


def micro_batches(batch: int, sequences: int, ranks: int, length: int) -> int | None:
    """Micro-batches of each rank, or None where no whole number gives the batch."""
    count, rest = divmod(batch, sequences * ranks * length)
    return count if count and not rest else None


TOKENS = Column(
    part="tokens",
    unit="tokens",
    rel=EXACT,
    want=tokens,
    words=lambda b, g, n, s: f"{b} sequences of {s:,} tokens, {g} micro-batches, {n} ranks",
    mistakes=(
        Mistake("no-accumulation", lambda b, g, n, s: b * n * s, "all micro-batches before a step count."),
        Mistake("one-rank", lambda b, g, n, s: b * g * s, "this is the share of one rank."),
        Mistake("sequences", lambda b, g, n, s: b * g * n, "these are sequences; tokens are asked for."),
    ),
)
ACCUMULATION = Column(
    part="accumulation",
    unit="micro-batches",
    rel=EXACT,
    want=micro_batches,
    words=lambda batch, b, n, s: f"{batch:,} tokens from {n} ranks with {b} sequences of {s:,} tokens",
    none="no whole number of micro-batches gives exactly this batch; return None",
    some="a whole number of micro-batches gives exactly this batch",
    mistakes=(
        Mistake("ranks-forgotten", lambda batch, b, n, s: batch / (b * s), "so many would be right on one rank."),
        Mistake("sequences-forgotten", lambda batch, b, n, s: batch / (n * s), "a micro-batch has several sequences."),
        Mistake("length-forgotten", lambda batch, b, n, s: batch / (b * n), "the batch is counted in tokens."),
        Mistake("not-whole", lambda batch, b, n, s: batch / (b * n * s), "this is no whole number; return None."),
        Mistake("rounded-down", lambda batch, b, n, s: batch // (b * n * s), "rounded down, the batch is too small."),
        Mistake("rounded-up", lambda batch, b, n, s: -(-batch // (b * n * s)), "rounded up, the batch is too large."),
    ),
)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    b, g, n, s = (params[name] for name in ("sequences", "accumulated", "ranks", "length"))
    batch = params["batch"]
    fits = [(tokens(*row), row[0], *row[2:]) for row in draw_rows(rng, 6, SEQUENCES, (1, *ACCUMULATED), RANKS, LENGTHS)]
    off = [(tokens(b, 1, n, s) + by * b * s, b, n, s) for b, n, s, by in ((2, 8, 2048, 3), (1, 64, 1024, 63))]
    small = [(b * n * s // 2, b, n, s) for b, n, s in draw_rows(rng, 3, (2, 4), (8, 64), LENGTHS)]
    large = each_changed((8, 17, 4096, 2**17), (4, 3, 64, 2**11))  # more than 32 bits hold
    whole = tokens(8, 17, 64, 2**20)
    off += [(whole + by, 8, 64, 2**20) for by in (-1, 0, 1)] + each_changed(
        (whole, 4, 64, 2**20), (2**29, 2, 32, 2**19)
    )
    off.append((2**17, 1, 64, 2**11))
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
    verdicts=table(TOKENS, ACCUMULATION),
    why="A step sees every sequence of every micro-batch on every rank, so the batch is the product of the four numbers. The optimizer sees only "
    "this product: with half as many ranks, accumulate twice as many micro-batches, and no other setting has to change. A batch that does not "
    "divide is silently rounded by some frameworks, and the run then trains with another batch than planned.",
    pytorch="transformers multiplies `per_device_train_batch_size`, `gradient_accumulation_steps` and the world size; Megatron-LM asserts that "
    "`global_batch_size` is divisible by the micro-batch times the data-parallel size.",
)

ANSWERS = r"""# %% right: products and a remainder
def tokens_per_step(sequences, accumulated, ranks, length):
    return sequences * accumulated * ranks * length


def accumulation(batch, sequences, ranks, length):
    each = sequences * ranks * length
    return None if batch % each else batch // each


# %% right: with divmod  from: products and a remainder
# ~ return None if batch % each else batch // each ==> return {0: batch // each}.get(batch % each)

# %% wrong: one micro-batch => values no-accumulation  from: products and a remainder
# ~ accumulated * ranks ==> ranks

# %% wrong: one rank alone => values one-rank  from: products and a remainder
# ~ accumulated * ranks * length ==> accumulated * length

# %% wrong: sequences in place of tokens => values sequences  from: products and a remainder
# ~ accumulated * ranks * length ==> accumulated * ranks

# %% wrong: rounds up => generality rounded-up  from: products and a remainder
# ~ None if batch % each else batch // each ==> -(-batch // each)

# %% wrong: rounds down => generality rounded-down  from: products and a remainder
# ~ batch % each ==> batch < each

# %% wrong: a step of no micro-batch => generality rounded-down  from: products and a remainder
# ~ batch % each ==> batch % each and batch > each

# %% wrong: a fraction of a micro-batch => generality not-whole  from: products and a remainder
# ~ None if batch % each else batch // each ==> batch / each

# %% wrong: ranks left out of the inverse => values ranks-forgotten  from: products and a remainder
# ~ sequences * ranks * length ==> sequences * length

# %% wrong: sequences left out of the inverse => values sequences-forgotten  from: products and a remainder
# ~ sequences * ranks ==> ranks

# %% wrong: a batch in sequences => values length-forgotten  from: products and a remainder
# ~ sequences * ranks * length ==> sequences * ranks

# %% wrong: the shown numbers => values -  from: products and a remainder
# ~ sequences * accumulated * ranks * length ==> 8388608
# ~ None if batch % each else batch // each ==> 4

# %% half: no inverse => 1  from: products and a remainder
# ~ return None if batch % each else batch // each ==> raise NotImplementedError

# %% wrong: left as it is => not-answered  from: products and a remainder
# ~ return sequences * accumulated * ranks * length ==> raise NotImplementedError

# %% wrong: one micro-batch is none => generality returned-none  from: products and a remainder
# ~ batch % each ==> batch % each or batch // each < 2
"""
