import random
from functools import partial

from course_chapters.ch18.exercises.judges.tiles import MEMORY, verdicts
from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import coin_of, normal
from course_grader.records import Case

right = Worked("tiled-attention")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def far(name: str, share: str, tokens: int, width: int, rows: int, columns: int, size: float = 1.0) -> Case:
        given = [normal(coin, tokens, width) for _ in range(3)]
        return hidden(name, share, rows, columns, given[0] * size, *given[1:])

    rows, columns, width = MEMORY
    first = [normal(coin, params["tokens"], 4) for _ in range(3)]
    return [
        shown("tiles of 4 queries and 2 keys", "values:out", 4, 2, *first),
        far("24 tokens in tiles of 8 and 6", "values:out", 24, 8, 8, 6),
        far("tiles that do not divide the tokens", "generality:tiles", 23, 5, 7, 9),
        far("tiles longer than the sequence", "generality:tiles", 6, 3, 10, 8),
        far("one token", "generality:tiles", 1, 4, 3, 2),
        far("one query and one key at a time", "generality:tiles", 5, 2, 1, 1),
        far("large scores", "generality:scores", 20, 4, 6, 5, size=300.0),
        far("tiles of another form", "generality:tiles", 31, 6, 4, 16),
        far("96 tokens, what is held", "cost:held", 96, width, rows, columns),
    ]


JUDGING = Judging(
    shares="values:out 0.35, cost:traffic 0.15, cost:held 0.1, generality:tiles 0.15, generality:scores 0.25",
    measured_by_worker=("cost:traffic", "cost:held"),
    cases=_cases,
    verdicts=partial(verdicts, right, ("out", "log_sum"), 4, 4),
    why="""The softmax needs the sum over all keys, but a sum can grow: largest score, sum and output so far are enough
to continue with the next tile. So a score is used where it was computed, and the matrix of scores never crosses to slow
memory. The log-sum is all that the backward pass needs of it.""",
    pytorch="`F.scaled_dot_product_attention` does this on a GPU; `torch.nn.attention.SDPBackend.FLASH_ATTENTION` "
    "names the kernel.",
)

ANSWERS = r'''import torch

from course_lib import params


# %% right: worked
causal = params("tiled-attention").causal  # leave as is: whether a query sees only the keys up to its own place


def tiled_attention(memory, rows, columns):
    """Fills "out" and "log_sum". Budget: q once, k and v once for each tile of queries, no score stored."""
    ### BEGIN SOLUTION
    width = memory.shape("q")[1]
    for queries in memory.tiles("q", rows):
        q = memory.load("q", queries) / width**0.5
        out, total = torch.zeros_like(q), torch.zeros(len(q), 1)
        largest = torch.full((len(q), 1), -torch.inf)
        for keys in memory.tiles("k", columns):
            if causal and keys.start >= queries.stop:
                break
            s = q @ memory.load("k", keys).T
            if causal:
                hidden = torch.arange(queries.start, queries.stop)[:, None] < torch.arange(keys.start, keys.stop)
                s.masked_fill_(hidden, -torch.inf)
            new = torch.maximum(largest, s.amax(1, keepdim=True))
            shrink = (largest - new).exp()
            s.sub_(new).exp_()
            total = total * shrink + s.sum(1, keepdim=True)
            out = out * shrink + s @ memory.load("v", keys)
            largest = new
        memory.store("out", out / total, queries)
        memory.store("log_sum", largest + total.log(), queries)
    ### END SOLUTION

# %% right: a running log-sum, as when two partial results are merged
# -         out, total = torch.zeros_like(q), torch.zeros(len(q), 1)
# +         out = torch.zeros_like(q)
# -             new = torch.maximum(largest, s.amax(1, keepdim=True))
# -             shrink = (largest - new).exp()
# -             s.sub_(new).exp_()
# -             total = total * shrink + s.sum(1, keepdim=True)
# -             out = out * shrink + s @ memory.load("v", keys)
# +             new = torch.logaddexp(largest, s.logsumexp(1, keepdim=True))
# +             out = out * (largest - new).exp() + (s - new).exp() @ memory.load("v", keys)
# -         memory.store("out", out / total, queries)
# -         memory.store("log_sum", largest + total.log(), queries)
# +         memory.store("out", out, queries)
# +         memory.store("log_sum", largest, queries)
# %% right: both factors of the width, tiles cut by hand
# -     for queries in memory.tiles("q", rows):
# +     tokens = memory.shape("q")[0]
# +     for queries in [slice(start, min(start + rows, tokens)) for start in range(0, tokens, rows)]:
# ~ / width**0.5 ==> / width**0.25
# ~ memory.load("k", keys).T ==> (memory.load("k", keys) / width**0.25).T
# %% wrong: no scale => values
# > these are the results for scores that are not divided by √width.
# ~ / width**0.5 ==> * 1
# %% wrong: divided by the width => values
# > these are the results for scores divided by the width; divide by its square root.
# ~ / width**0.5 ==> / width
# %% wrong: output does not shrink => values
# > the earlier part of the output is still relative to the old largest score.
# ~ out = out * shrink + s ==> out = out + s
# %% wrong: sum does not shrink => values
# > the earlier part of the sum is still relative to the old largest score.
# ~ total = total * shrink + s ==> total = total + s
# %% wrong: each tile has a softmax of its own => values
# > this is the sum of one softmax for each tile; there is a single softmax over all keys.
# -             total = total * shrink + s.sum(1, keepdim=True)
# -             out = out * shrink + s @ memory.load("v", keys)
# +             total = total * shrink + s.sum(1, keepdim=True)
# +             out = out + s / s.sum(1, keepdim=True) @ memory.load("v", keys)
# ~ out / total ==> out
# %% wrong: never divided => values
# > the output is not divided by the sum of exp(score − largest).
# ~ out / total ==> out
# %% wrong: the log-sum lacks the largest score => values
# > this is the logarithm of a sum relative to the largest score; the largest score itself is missing.
# ~ largest + total.log() ==> total.log()
# %% wrong: the sum instead of its logarithm => values
# > this is the sum itself; its logarithm is asked for.
# ~ largest + total.log() ==> largest.exp() * total
# %% wrong: the other mask => values
# > this is attention with the other mask: which keys does a query see here?
# ~ if causal and keys ==> if not causal and keys
# ~ if causal: ==> if not causal:
# %% wrong: exp of the bare score => generality not-finite
# ~ new = torch.maximum(largest, s.amax(1, keepdim=True)) ==> new = torch.zeros(len(q), 1)
# ~ (largest - new).exp() ==> 1.0
# %% wrong: only whole tiles => generality not-finite
#       for queries in memory.tiles("q", rows):
# +         if queries.stop - queries.start < rows:
# +             break
# %% wrong: loads the queries again for every tile of keys => cost too-much-traffic
# ~ s = q @ memory.load("k", keys).T ==> s = memory.load("q", queries) / width**0.5 @ memory.load("k", keys).T
# %% wrong: a whole row of scores => cost too-much-held
# ~ out, total = torch.zeros_like(q), ==> row, out, total = [], torch.zeros_like(q),
# ~ largest = new ==> largest, row = new, [*row, s]
# %% half: not yet the log-sum => 0
# ~ largest + total.log() ==> total
'''
