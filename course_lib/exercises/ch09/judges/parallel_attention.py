"""Judge of parallel-attention: attention by heads."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges import regions
from course_lib.exercises.ch09.judges.regions import Check, Result, Weights
from course_lib.judging import Fault, Judging, Mistake, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, nbytes, normal, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict


def _attend(
    head_dim: int, *, causal: bool = True, scale: float | None = None, interleaved: bool = True
) -> Callable[[Weights], Tensor]:
    """Attention of all heads; the options are known mistakes: without a mask, another scale, KV heads in another order."""

    def call(w: Weights) -> Tensor:
        q, k, v = (
            F.linear(w["x"], w[name]).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name in ("wq", "wk", "wv")
        )
        copies = q.shape[1] // k.shape[1]
        k, v = ((t.repeat_interleave(copies, 1) if interleaved else t.repeat(1, copies, 1, 1)) for t in (k, v))
        scores = q @ k.transpose(2, 3) * (head_dim**-0.5 if scale is None else scale)
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
        return F.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), w["wo"])

    return call


def _attention_piece(whole: Weights, n: int, kv: int, rank: int) -> dict[str, Tensor]:
    """This rank's rows of q, k and v and columns of the output, KV heads copied where there are more ranks."""
    owners = min(n, kv)
    return {
        "wq": regions.part(whole["wq"], n, rank),
        "wk": regions.part(whole["wk"], owners, rank * owners // n),
        "wv": regions.part(whole["wv"], owners, rank * owners // n),
        "wo": regions.part(whole["wo"], n, rank, 1),
    }


def _groups(n: int, kv: int) -> tuple[tuple[int, ...], ...]:
    """The ranks that hold the same KV heads."""
    size = max(1, n // kv)
    return tuple(tuple(range(first, first + size)) for first in range(0, n, size))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, seq, own = coin_of(rng), params["tokens"], params["head_dim"]

    def data(
        n: int, heads: int, kv: int, hidden: int, dtype: Any = torch.float32, batch: int = 2, head_dim: int = own
    ) -> Any:
        rows = {"wq": heads, "wk": kv, "wv": kv}
        shapes = {name: (count * head_dim, hidden) for name, count in rows.items()} | {"wo": (hidden, heads * head_dim)}
        whole = {name: normal(coin, *shape, dtype=dtype) for name, shape in shapes.items()}
        whole["wk"] /= hidden**0.5  # so that softmax does not pick a single token
        whole["wq"] /= hidden**0.5
        x, gradient = (normal(coin, batch, seq, hidden, dtype=dtype) for _ in range(2))
        pieces = (_attention_piece(whole, n, kv, rank) for rank in range(n))
        per_rank = tuple((x.clone(), gradient.clone(), head_dim, _groups(n, kv), piece) for piece in pieces)
        name = f"{n} rank{'s' * (n > 1)}, {heads} query heads, {kv} KV heads"
        return {"name": name, "per_rank": per_rank, "secret": ({**whole, "x": x}, gradient, kv)}

    return [
        shown(share="values:output", **data(4, 8, 4, 12)),
        hidden(share="values:output", **data(4, 8, 2, 12)),
        hidden(share="values:output", **data(2, 8, 4, 10)),
        hidden(share="generality:heads", **data(1, 4, 2, 8)),
        hidden(share="generality:heads", **data(3, 3, 3, 9)),
        hidden(share="generality:heads", **data(4, 8, 1, 8, torch.float64)),
        hidden(share="generality:heads", **data(9, 18, 3, 8, batch=1, head_dim=6)),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, d, (inputs, gradient, kv) = case.ranks or 1, (case.per_rank or ())[0][2], case.secret
    run, copies = _attend(d), max(1, n // kv)
    y, grads = regions.whole_gradients(run, inputs, gradient)
    pieces = [{"x": inputs["x"], **_attention_piece(inputs, n, kv, rank)} for rank in range(n)]
    in_turn = _attend(d, interleaved=False)
    heads = "query heads look at other KV heads than their own: head i belongs to KV head i // (q / k)."
    mistakes = [
        Mistake("mean", y / n, "this is a mean of the ranks' parts; they add up."),
        Mistake("no-mask", _attend(d, causal=False)(inputs), "tokens look at later tokens; attention is causal."),
        Mistake("another-scale", _attend(d, scale=1.0)(inputs), "scores are not scaled by head_dim^−½."),
        Mistake("wrong-heads", sum(in_turn(piece) for piece in pieces), heads),
        Mistake("wrong-heads", in_turn(inputs), heads),
    ]

    def output(rank: int, got: Result) -> Fault | None:
        own = Mistake("own-part", run(pieces[rank]), "this is what this rank's heads yield; all ranks' parts add up.")
        hint = "Which KV head does each query head look at, and which numbers of a row belong to one head?"
        return tensor_fault(f"Rank {rank}: y", got["y"], y, [own, *mistakes], otherwise=hint)

    def gradients(*names: str) -> Check:
        def check(rank: int, got: Result) -> Fault | None:
            right = {"x": grads["x"], **_attention_piece(grads, n, kv, rank)}
            want, own = {name: right[name] for name in names}, regions.whole_gradients(run, pieces[rank], gradient)[1]
            return regions.gradient_faults(got, rank, want, _gradient_mistakes(want, own, n, copies))

        return check

    checks = {"gradients": gradients("x", "wq", "wo"), "copies": gradients("wk", "wv")}
    spent = _bytes(case, n, copies, outcome.meter)
    return regions.layer_verdicts(case, outcome.value, ("output", output), checks, spent)


def _gradient_mistakes(want: Weights, own: Weights, n: int, copies: int) -> dict[str, list[Mistake]]:
    """Known wrong gradients of one rank; `own` are those of its own heads alone."""
    alone = "this is what this rank sends back, alone: all ranks used x, so all count."
    apart = "this comes from this rank's query heads alone. Other ranks copy the same KV head and then differ."
    first = {name: [Mistake("copies-apart", own[name], apart)] for name in ("wk", "wv")}
    first["x"] = [Mistake("not-summed", own["x"], alone)]
    mistakes = {}
    for name, right in want.items():
        times_n, divided = regions.off_by_ranks(n, right)
        twice = Mistake("times-copies", copies * right, "it is summed over the copies twice.")
        mean = Mistake("mean", right / copies, "this is a mean over the copies; what they send back adds up.")
        mistakes[name] = [*first.get(name, []), times_n, twice, divided, mean]
    return mistakes


def _bytes(case: Case, n: int, copies: int, meter: Meter) -> Fault | None:
    inputs, _, kv = case.secret
    x, item = inputs["x"], inputs["x"].element_size()
    (least, one), here = regions.ring_bytes(x, n), inputs["wk"].numel() // min(n, kv)
    heads = inputs["wq"].shape[0] * nbytes(x) // x.shape[-1] * (n - 1) / n
    each = "Queries, keys and values enter through an operator each. What enters once needs one, in front of all three."
    gathered = "The heads' outputs are gathered: each rank's piece of `wo` takes just what its own heads yield."
    known = [Mistake("an-operator-each", times * one, each) for times in (1, 2)]
    known += [Mistake("gathered-heads", times * heads, gathered) for times in (1, 2)]
    shared = (n // copies) * 4 * (copies - 1) * here * item
    allowed = "One all-reduce of a tensor like x each way, and copied KV weights' gradients."
    most = 2 * one + 2 * regions.ring_most(here, item, copies)
    return regions.traffic(meter, 2 * least + shared, most, known, allowed)


JUDGING = Judging(
    shares="values:output 0.2, values:gradients 0.2, values:copies 0.15, cost:bytes 0.25, generality:heads 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="Heads never look at each other, so they are to attention what columns are to the MLP: q, k and v are cut by columns, the output "
    "by rows. A KV head on several ranks is a tensor that enters several computations: its gradient is the sum over its copies.",
    pytorch="Megatron copies KV heads when `tensor-model-parallel-size` exceeds `num-query-groups`; torch's DTensor plan cuts q, k, v "
    "column-wise and the output row-wise.",
)

ANSWERS = r"""import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, split, sum_out


# %% right: copy_in for copied weights, too
def parallel_attention(comm, copies, x, weights, head_dim):
    x = copy_in(x, comm)
    wk, wv = copy_in(weights["wk"], copies), copy_in(weights["wv"], copies)
    q, k, v = (F.linear(x, w).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in (weights["wq"], wk, wv))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return sum_out(F.linear(out.transpose(1, 2).flatten(2), weights["wo"]), comm)


# %% right: copies' gradients summed where they are accumulated
def parallel_attention(comm, copies, x, weights, head_dim):
    for name in ("wk", "wv"):
        weights[name].register_post_accumulate_grad_hook(lambda p: copies.all_reduce(p.grad))
    x = copy_in(x, comm)
    q, k, v = (F.linear(x, weights[w]).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in ("wq", "wk", "wv"))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return sum_out(F.linear(out.transpose(1, 2).flatten(2), weights["wo"]), comm)


# %% wrong: copies of KV heads left to themselves => values copies-apart  from: copies' gradients summed where they are accumulated
# -     for name in ("wk", "wv"):
# -         weights[name].register_post_accumulate_grad_hook(lambda p: copies.all_reduce(p.grad))

# %% wrong: copies averaged => values mean  from: copy_in for copied weights, too
# -     wk, wv = copy_in(weights["wk"], copies), copy_in(weights["wv"], copies)
# +     wk, wv = (copy_in(weights[w], copies) for w in ("wk", "wv"))
# +     wk.register_hook(lambda grad: grad / copies.size)
# +     wv.register_hook(lambda grad: grad / copies.size)

# %% wrong: KV weights summed over all ranks => values -  from: copy_in for copied weights, too
# ~ copy_in(weights["wk"], copies), copy_in(weights["wv"], copies) ==> (copy_in(weights[w], comm) for w in ("wk", "wv"))

# %% wrong: an operator for each product => cost an-operator-each  from: copy_in for copied weights, too
# -     x = copy_in(x, comm)
# ~ F.linear(x, w) ==> F.linear(copy_in(x, comm), w)

# %% wrong: keys and values repeated in turn, not in groups => values wrong-heads  from: copy_in for copied weights, too
# -     out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# +     repeat = q.shape[1] // k.shape[1]
# +     k, v = k.repeat(1, repeat, 1, 1), v.repeat(1, repeat, 1, 1)
# +     out = F.scaled_dot_product_attention(q, k, v, is_causal=True)

# %% wrong: splits inside a head => values -  from: copy_in for copied weights, too
# ~ unflatten(-1, (-1, head_dim)) ==> unflatten(-1, (head_dim, -1)).transpose(2, 3)

# %% wrong: looks ahead => values no-mask  from: copy_in for copied weights, too
# ~ is_causal=True, enable_gqa ==> enable_gqa

# %% wrong: scores not scaled => values another-scale  from: copy_in for copied weights, too
# ~ enable_gqa=True ==> enable_gqa=True, scale=1.0

# %% wrong: no operator in front => values not-summed  from: copy_in for copied weights, too
# -     x = copy_in(x, comm)

# %% wrong: no operator behind => values own-part  from: copy_in for copied weights, too
# -     return sum_out(F.linear(out.transpose(1, 2).flatten(2), weights["wo"]), comm)
# +     return F.linear(out.transpose(1, 2).flatten(2), weights["wo"])

# %% wrong: heads gathered, and cut again => cost gathered-heads  from: copy_in for copied weights, too
#       out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# +     out = split(gather(out, comm, dim=1), comm, dim=1)

# %% wrong: query weights summed over copies, too => values -  from: copy_in for copied weights, too
# ~ (weights["wq"], wk, wv) ==> (copy_in(weights["wq"], copies), wk, wv)

# %% wrong: keys of copies averaged, to be safe => cost -  from: copy_in for copied weights, too
#       q, k, v = (F.linear(x, w).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in (weights["wq"], wk, wv))
# +     same = k.detach().clone()
# +     copies.all_reduce(same, op="AVG")
# +     k = k + (same - k.detach())

# %% half: all but the copies' gradients => 4.8  from: copies of KV heads left to themselves

# %% wrong: scores scaled as in the example => generality -  from: copy_in for copied weights, too
# ~ enable_gqa=True) ==> enable_gqa=True, scale=0.5)
"""
