# %% right: one quotient after another
def micro_batches(gpus, tp, cp, pp, sequences, micro):
    model = tp * cp * pp
    if gpus % model:
        return None
    dp = gpus // model
    if sequences % (dp * micro):
        return None
    return sequences // (dp * micro)


def tokens_held(micro, length, cp):
    return micro * (length // cp) if length % cp == 0 else None


# %% right: a float  from: one quotient after another
# ~ return sequences // (dp * micro) ==> return sequences / (dp * micro)


# %% wrong: cp counts as data => values cp-counted  from: one quotient after another
# ~ cp * pp ==> pp

# %% wrong: tp counts as data => values tp-counted  from: one quotient after another
# ~ tp * cp ==> cp

# %% wrong: stages count as data => values pp-counted  from: one quotient after another
# ~ cp * pp ==> cp

# %% wrong: GPUs left over are idle => generality -  from: one quotient after another
# -     if gpus % model:
# -         return None
# +     pass
# ~ gpus // model ==> max(1, gpus // model)

# %% wrong: the sequences of a replica => values per-replica  from: one quotient after another
# ~ sequences // (dp * micro) ==> sequences // dp

# %% wrong: every replica takes the whole batch => values no-replicas  from: one quotient after another
# ~ sequences // (dp * micro) ==> sequences // micro

# %% wrong: replicas are checked, micro-batches are not => generality rounded-down  from: one quotient after another
# ~ if sequences % (dp * micro): ==> if sequences % dp:

# %% wrong: whole sequences on every rank => values whole-sequences  from: one quotient after another
# ~ (length // cp) if length % cp == 0 else None ==> length

# %% wrong: the micro-batch is cut, not the sequence => values cut-sequences  from: one quotient after another
# ~ (length // cp) if ==> length // cp if micro *

# %% wrong: zero in place of None => generality zero-for-none  from: one quotient after another
# -     if sequences % (dp * micro):
# -         return None
# +     if sequences % (dp * micro):
# +         return 0

# %% wrong: remembers without the micro-batch => generality ~  from: one quotient after another
# ~ sequences, micro): ==> sequences, micro, kept={}):
# ~ return sequences // (dp * micro) ==> return kept.setdefault((gpus, tp, cp, pp, sequences), sequences // (dp * micro))
