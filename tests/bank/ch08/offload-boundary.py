# %% right: the longer of the two
def step_seconds(params, tokens, ranks, flops, moved, bandwidth):
    return max(6 * params * tokens / flops, params / ranks * moved / bandwidth)


def hidden_tokens(ranks, flops, moved, bandwidth):
    return moved * flops / (6 * ranks * bandwidth)


# %% right: by halving
def step_seconds(params, tokens, ranks, flops, moved, bandwidth):
    return sorted((params * 6 * tokens / flops, moved * (params / ranks) / bandwidth))[1]


def hidden_tokens(ranks, flops, moved, bandwidth):
    low, high = 0.0, 1e15
    for _ in range(200):
        middle = (low + high) / 2
        waits = step_seconds(1, middle, ranks, flops, moved, bandwidth) <= moved / ranks / bandwidth * (1 + 1e-14)
        low, high = (middle, high) if waits else (low, middle)
    return high


# %% wrong: one after the other => values sum  from: the longer of the two
# ~ max(6 * params * tokens / flops, params / ranks * moved / bandwidth) ==> sum((6 * params * tokens / flops, params / ranks * moved / bandwidth))

# %% wrong: every GPU moves the whole model => values whole-model-moved  from: the longer of the two
# ~ params / ranks * moved ==> params * moved
# ~ ranks * bandwidth ==> bandwidth

# %% wrong: the boundary without the ranks => values one-gpu  from: the longer of the two
# ~ ranks * bandwidth ==> bandwidth

# %% wrong: two FLOPs per parameter and token => values two-flops  from: the longer of the two
# ~ 6 * params ==> 2 * params
# ~ 6 * ranks ==> 2 * ranks

# %% wrong: computing is shared out as well => values compute-divided  from: every GPU moves the whole model
# ~ flops, params ==> ranks / flops, params / ranks

# %% wrong: the wire alone => generality ~  from: the longer of the two
# ~ 6 * params * tokens / flops ==> (tokens == 2048) * 6 * params * tokens / flops

# %% wrong: upside down => values upside-down  from: the longer of the two
# ~ moved * flops / (6 * ranks * bandwidth) ==> 6 * ranks * bandwidth / (moved * flops)

# %% wrong: there and back counted twice => values both-ways  from: the longer of the two
# ~ params / ranks * moved ==> 2 * params * moved / ranks
# ~ moved * flops / (6 * ranks * bandwidth) ==> 2 * flops / 6 * moved / ranks / bandwidth

# %% wrong: whole tokens => values rounded  from: the longer of the two
# ~ moved * flops / (6 * ranks * bandwidth) ==> -(-moved * flops // (6 * ranks * bandwidth))

# %% wrong: the shorter of the two => values shorter  from: the longer of the two
# ~ max ==> min

# %% half: the first only => 2  from: the longer of the two
# ~ return moved * flops / (6 * ranks * bandwidth) ==> raise NotImplementedError

# %% wrong: 64 ranks at most => generality ~  from: the longer of the two
# ~ params / ranks * moved ==> params / min(ranks, 64) * moved

# %% wrong: no tokens take no time => generality -  from: the longer of the two
# ~ max( ==> bool(tokens) * max(
