import random
from functools import partial

from torch import Tensor

from course_chapters.ch18.exercises.judges.tiles import MEMORY, verdicts
from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import coin_of, normal
from course_grader.records import Case

right = Worked("attention-backward")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def given(tokens: int, width: int, size: float = 1.0) -> list[Tensor]:
        q, k, v, grad = (normal(coin, tokens, width) for _ in range(4))
        q *= size
        scores = q @ k.T / width ** params["power"]
        return [q, k, v, scores.softmax(1) @ v, scores.logsumexp(1, keepdim=True), grad]

    def far(name: str, share: str, rows: int, columns: int, tokens: int, width: int, size: float = 1.0) -> Case:
        return hidden(name, share, rows, columns, *given(tokens, width, size))

    return [
        shown("tiles of 4 queries and 2 keys", "values:gradients", 4, 2, *given(params["tokens"], 4)),
        far("24 tokens in tiles of 8 and 6", "values:gradients", 8, 6, 24, 8),
        far("tiles that do not divide the tokens", "generality:tiles", 7, 9, 23, 5),
        far("tiles longer than the sequence", "generality:tiles", 10, 8, 6, 3),
        far("one token", "generality:tiles", 3, 2, 1, 4),
        far("large scores", "generality:tiles", 6, 5, 20, 4, 100.0),
        far("96 tokens, what is held", "cost:held", *MEMORY[:2], 96, MEMORY[2]),
    ]


JUDGING = Judging(
    shares="values:gradients 0.5, cost:traffic 0.15, cost:held 0.1, generality:tiles 0.25",
    measured_by_worker=("cost:traffic", "cost:held"),
    cases=_cases,
    verdicts=partial(verdicts, right, ("dv", "dk", "dq"), 6, 6),
    why="""The weights are cheap to compute again and expensive to keep: one more matmul replaces a matrix of tokens ×
tokens. The softmax's gradient needs Σ P · dP over a whole row of keys, which no tile has. But that sum equals Σ grad ·
out, which has one row of width numbers.""",
    pytorch="`aten::_scaled_dot_product_flash_attention_backward` takes the output and `logsumexp`, and no weights.",
)

ANSWERS = r'''import torch

from course_lib import params


# %% right: worked
power = params("attention-backward").power  # leave as is: scores are divided by width to this power


def attention_backward(memory, rows, columns):
    """Fills "dq", "dk" and "dv". Budget: keys once, queries once for each tile of keys, no matrix of scores."""
    ### BEGIN SOLUTION
    scale = memory.shape("q")[1] ** -power
    for queries in memory.tiles("q", rows):
        product = memory.load("grad", queries) * memory.load("out", queries)
        memory.store("delta", product.sum(1, keepdim=True), queries)
    for keys in memory.tiles("k", columns):
        k, v = memory.load("k", keys), memory.load("v", keys)
        dk, dv = torch.zeros_like(k), torch.zeros_like(v)
        for queries in memory.tiles("q", rows):
            q, grad = memory.load("q", queries), memory.load("grad", queries)
            p = (q @ k.T).mul_(scale).sub_(memory.load("log_sum", queries)).exp_()
            dv += p.T @ grad
            ds = (grad @ v.T).sub_(memory.load("delta", queries)).mul_(p).mul_(scale)
            dk += ds.T @ q
            dq = memory.load("dq", queries) if keys.start else torch.zeros_like(q)
            memory.store("dq", dq + ds @ k, queries)
        memory.store("dk", dk, keys)
        memory.store("dv", dv, keys)
    ### END SOLUTION

# %% right: scores not in place
# ~ (q @ k.T).mul_(scale).sub_(memory.load("log_sum", queries)).exp_()
# ~~ ==> (q @ k.T * scale - memory.load("log_sum", queries)).exp()
# ~ (grad @ v.T).sub_(memory.load("delta", queries)).mul_(p).mul_(scale)
# ~~ ==> p * (grad @ v.T - memory.load("delta", queries)) * scale
# %% right: queries scaled, two tiles of scores in place
# ~ q, grad = memory.load("q", queries), ==> q, grad = memory.load("q", queries) * scale,
# ~ p = (q @ k.T).mul_(scale).sub_ ==> p = (q @ k.T).sub_
# ~ .mul_(p).mul_(scale) ==> .mul_(p)
# ~ dq + ds @ k, queries ==> dq + ds @ k * scale, queries
# %% wrong: without delta => values
# > the gradient of the scores lacks −δ: a softmax's weights have the sum 1, so raising one lowers the others.
# ~ .sub_(memory.load("delta", queries)).mul_(p) ==> .mul_(p)
# %% wrong: delta over the tile's keys => values
# > here the sum over P · dP has the keys of one tile alone; it is over all keys, as Σ grad · out is.
# -             ds = (grad @ v.T).sub_(memory.load("delta", queries)).mul_(p).mul_(scale)
# +             ds = grad @ v.T
# +             ds = ds.sub_((p * ds).sum(1, keepdim=True)).mul_(p).mul_(scale)
# %% wrong: no scale in the gradients => values
# > the factor of the scores is missing in the gradients of q and k.
# ~ .mul_(p).mul_(scale) ==> .mul_(p)
# %% wrong: the other scale => values
# > these are the gradients for scores with another factor than the statement's.
# ~ -power ==> -(1.5 - power)
# %% wrong: only the last tile's dq => values
# > this dq has the share of the last tile of keys alone.
# ~ if keys.start else torch.zeros_like(q) ==> if False else torch.zeros_like(q)
# %% wrong: adds to a dq that was never stored => values not-finite
# ~ if keys.start else torch.zeros_like(q) ==> if True else torch.zeros_like(q)
# %% wrong: a softmax for each tile => values
# > these are the weights of a softmax over one tile of keys; the log-sum is over all keys.
# ~ .sub_(memory.load("log_sum", queries)).exp_() ==> .softmax(1)
# %% wrong: dv from the gradient of the scores => values
# > dv follows from the weights, and this takes the gradient of the scores.
# -             dv += p.T @ grad
#               ds = (grad @ v.T).sub_(memory.load("delta", queries)).mul_(p).mul_(scale)
# +             dv += ds.T @ grad
# %% wrong: exp before the log-sum is subtracted => generality not-finite
# ~ .sub_(memory.load("log_sum", queries)).exp_() ==> .exp_().div_(memory.load("log_sum", queries).exp_())
# %% wrong: loads the keys again for every tile of queries => cost too-much-traffic
# ~ dk += ds.T @ q ==> dk, k = dk + ds.T @ q, memory.load("k", keys)
# %% wrong: all queries at once => cost too-much-held
# ~ """Fills "dq", "dk" and "dv". Budget: keys once, queries once for each tile of keys, no matrix of scores."""
# ~~ ==> rows = memory.shape("q")[0]
# %% half: dv alone => 0
# ~ memory.store("dk", dk, keys) ==> pass
'''
