# %% right: products and a remainder
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
