import torch
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
