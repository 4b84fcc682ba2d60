# %% right: products and a remainder
def tokens_per_step(sequences, accumulated, ranks, length):
    return sequences * accumulated * ranks * length


def accumulation(batch, sequences, ranks, length):
    each = sequences * ranks * length
    if batch % each or not batch // each:
        return None
    return batch // each


# %% right: by search
def tokens_per_step(sequences, accumulated, ranks, length):
    return sum(sequences * length for _ in range(ranks) for _ in range(accumulated))


def accumulation(batch, sequences, ranks, length):
    count = 1
    while tokens_per_step(sequences, count, ranks, length) < batch:
        count += 1
    return count if tokens_per_step(sequences, count, ranks, length) == batch else None


# %% wrong: one micro-batch => values no-accumulation  from: products and a remainder
# ~ accumulated * ranks ==> ranks

# %% wrong: one rank alone => values one-rank  from: products and a remainder
# ~ accumulated * ranks * length ==> accumulated * length

# %% wrong: sequences in place of tokens => values sequences  from: products and a remainder
# ~ accumulated * ranks * length ==> accumulated * ranks

# %% wrong: rounds up => generality rounded-up  from: products and a remainder
# -     if batch % each or not batch // each:
# -         return None
# -     return batch // each
# +     return -(-batch // each)

# %% wrong: rounds down => generality rounded-down  from: products and a remainder
# ~ batch % each or not batch // each ==> batch < each

# %% wrong: a step of no micro-batch => generality rounded-down  from: products and a remainder
# ~ each or not batch ==> each and batch

# %% wrong: a fraction of a micro-batch => generality not-whole  from: products and a remainder
# -     if batch % each or not batch // each:
# -         return None
# -     return batch // each
# +     return batch / each

# %% wrong: ranks left out of the inverse => values ranks-forgotten  from: products and a remainder
# ~ sequences * ranks * length ==> sequences * length

# %% wrong: sequences left out of the inverse => values sequences-forgotten  from: products and a remainder
# ~ sequences * ranks ==> ranks

# %% wrong: a batch in sequences => values length-forgotten  from: products and a remainder
# ~ sequences * ranks * length ==> sequences * ranks

# %% wrong: the shown numbers => values -  from: products and a remainder
# ~ sequences * accumulated * ranks * length ==> 8388608
# -     if batch % each or not batch // each:
# -         return None
# -     return batch // each
# +     return 4

# %% half: no inverse => 1  from: products and a remainder
# -     if batch % each or not batch // each:
# -         return None
# -     return batch // each
# +     raise NotImplementedError

# %% wrong: left as it is => not-answered  from: products and a remainder
# -     return sequences * accumulated * ranks * length
# +     raise NotImplementedError

# %% wrong: one micro-batch is none => generality returned-none  from: products and a remainder
# ~ not batch // each ==> batch // each < 2
